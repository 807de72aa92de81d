"""Model L: every possible link by itself, p(jk is a link) = σ(w·f(x_jk)), trained by logistic regression.

Words may have any number of links, so gold links that are many to many are no obstacle, and the log-loss goes on
learning where a margin is out of reach. Links that are only possible are left out of training. A link is predicted if
its probability exceeds the threshold with the lowest AER on the training pairs; to minimise an F score, the best
threshold depends on the score that can be reached (Lipton, Elkan and Naryanaswamy 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.alignment.feature_map import AlignmentFeatures
from partwise.alignment.gold_lexicon import gold_marks
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.link_regression import CURVATURE, LinkRegression
from partwise.alignment.links import Floats
from partwise.features.part_rows import PartFeatures
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.multiclass import Multiclass

__all__ = ["best_threshold", "link_data", "link_problem", "shifted"]

SHARE = 10  # of the links without any evidence, one in this many is trained on, with that weight
THRESHOLDS = np.arange(0.1, 0.85, 0.05)


def _near(parts: AlignmentFeatures) -> NDArray[np.bool_]:
    """(E,) links that some posterior, Dice coefficient, neighbour or gold link favours, however slightly."""
    near = np.zeros(len(parts.edges), bool)
    beside = tuple(
        f" both of the {side} word {place}" for side in ("source", "target") for place in ("before", "after")
    )
    for column, name in zip(_rows(parts).T, parts.names, strict=False):
        if name.endswith((" forward", " backward")):
            near |= column > 0.01
        elif name == "dice":
            near |= column > 0.1
        elif name.endswith(beside):
            near |= column > 0.2
        elif name == "number of gold links of these words":
            near |= column > 0
    return near


def _rows(parts: AlignmentFeatures) -> Floats:
    rows: Floats = parts.features.pack.x
    return rows


def link_problem(
    parts: AlignmentFeatures,
    gold: Sequence[GoldLinks],
    learner: Learner,
    loss: LossFunction,
    n_threads: int,
    seed: int,
    pair_weights: ArrayLike | None = None,
) -> Any:
    """Logistic regression for Newton's method; for other learners one instance per link, with two outputs.

    The outputs are no link, which scores 0, and a link, which scores w·f.
    """
    sure, possible = gold_marks(parts.edges, gold)
    near = _near(parts) | sure
    taken = np.random.default_rng(seed).random(len(near)) < 1.0 / SHARE
    rows = np.flatnonzero(~possible & (near | taken))
    weights = np.where(near[rows], 1.0, SHARE)
    if pair_weights is not None:
        weights = weights * np.asarray(pair_weights, float)[parts.edges.pair[rows]]
    return link_data(_rows(parts)[rows], sure[rows], weights, learner, loss, n_threads)


def link_data(
    x: Floats, sure: NDArray[np.bool_], weights: Floats, learner: Learner, loss: LossFunction, n_threads: int = 1
) -> Any:
    """The form of the problem that this learner can solve."""
    if CURVATURE in learner.needs:
        return LinkRegression(x, sure, weights, loss, n_threads)
    starts = np.arange(len(x) + 1)
    features = PartFeatures([(starts, np.zeros((len(x), 0))), (starts, x)])
    return Problem(
        Multiclass(len(x), 2), features, sure.astype(int).tolist(), loss, n_threads=n_threads, weights=weights
    )


def best_threshold(parts: AlignmentFeatures, gold: Sequence[GoldLinks], theta: Floats) -> float:
    """The probability above which links have the least AER, 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)."""
    sure, possible = gold_marks(parts.edges, gold)
    scores = _rows(parts) @ theta
    errors = []
    for t in THRESHOLDS:
        found = scores > np.log(t / (1.0 - t))
        right = 2 * int((found & sure).sum()) + int((found & possible).sum())
        errors.append(1.0 - right / max(int(found.sum()) + int(sure.sum()), 1))
    return float(THRESHOLDS[int(np.argmin(errors))])


def shifted(theta: Floats, threshold: float) -> Floats:
    """w with the log-odds of the threshold taken off the weight of "link", so that predicted links score above 0."""
    moved = theta.copy()
    moved[0] -= np.log(threshold / (1.0 - threshold))
    return moved

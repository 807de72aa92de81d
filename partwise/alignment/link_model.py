"""Model L: every possible link by itself, p(jk is a link) = σ(w·f(x_jk)), trained by logistic regression.

Words may have any number of links, so gold links that are many to many are no obstacle, and the log-loss goes on
learning where a margin is out of reach. Links that are only possible are left out of training. A link is predicted if
its probability exceeds the threshold of least AER on the training pairs; to minimise an F score the best threshold
depends on the score that can be reached (Lipton, Elkan and Naryanaswamy 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.alignment.feature_map import AlignmentFeatures
from partwise.alignment.gold_lexicon import gold_marks
from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.links import Floats
from partwise.batch import Batch
from partwise.features.part_rows import PartFeatures
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.multiclass import Multiclass

__all__ = ["best_threshold", "link_problem", "positive_links", "shifted"]

SHARE = 10  # of the links that nothing speaks for, one in so many is trained on, with that weight
THRESHOLDS = np.arange(0.1, 0.85, 0.05)


def _near(parts: AlignmentFeatures) -> NDArray[np.bool_]:
    """(E,) links that some posterior, Dice coefficient, neighbour or gold link speaks for, however softly."""
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
    loss: LossFunction,
    n_threads: int,
    seed: int,
    pair_weights: ArrayLike | None = None,
) -> Problem:
    """One instance per link, with two outputs: no link, which scores 0, and a link, which scores w·f."""
    sure, possible = gold_marks(parts.edges, gold)
    near = _near(parts) | sure
    taken = np.random.default_rng(seed).random(len(near)) < 1.0 / SHARE
    rows = np.flatnonzero(~possible & (near | taken))
    weights = np.where(near[rows], 1.0, SHARE)
    if pair_weights is not None:
        weights = weights * np.asarray(pair_weights, float)[parts.edges.pair[rows]]
    starts = np.arange(len(rows) + 1)
    features = PartFeatures([(starts, np.zeros((len(rows), 0))), (starts, _rows(parts)[rows])])
    space = Multiclass(len(rows), 2)
    return Problem(space, features, sure[rows].astype(int).tolist(), loss, n_threads=n_threads, weights=weights)


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


def positive_links(parts: AlignmentFeatures, theta: Floats) -> list[list[Link]]:
    """The links of every pair with a score above 0."""
    batch: Any = Batch(parts.space, parts.features)
    packed = batch.scores(theta)
    tables = (batch.of(i, packed).reshape(size) for i, size in enumerate(parts.edges.lengths))
    return [[(j, k) for j, k in np.argwhere(table > 0).tolist()] for table in tables]

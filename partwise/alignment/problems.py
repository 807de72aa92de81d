"""From gold links to a training problem: outputs that the model can produce, and what other links cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.feature_map import ALIGNMENT_MODELS, AlignmentFeatures, alignment_space
from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.link_model import link_data
from partwise.costs import PartCost
from partwise.exceptions import InputError
from partwise.features.part_rows import PartFeatures
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.matching import Matching

__all__ = [
    "InfeasibleLinksError",
    "alignment_problem",
    "check_learner",
    "link_array",
    "link_costs",
    "training_targets",
]


class InfeasibleLinksError(InputError):
    """Gold links that the model cannot produce: which pair, why, and how many links per word the model allows."""

    def __init__(self, pair: int, reason: str, max_fertility: int) -> None:
        wider = "a model with fertility (M+F)" if max_fertility == 1 else f"a max_fertility above {max_fertility}"
        nearest = "infeasible='nearest' to train on the largest subset of links that the model can produce"
        super().__init__(f"gold alignment of pair {pair}: {reason}. Use {wider}, or {nearest}")
        self.pair, self.reason = pair, reason


def link_array(links: Iterable[Link]) -> NDArray[np.int64]:
    """(n, 2) links in ascending order."""
    return np.array(sorted(links), np.int64).reshape(-1, 2)


def training_targets(
    sizes: NDArray[np.int64], gold: Sequence[GoldLinks], max_fertility: int, infeasible: str
) -> list[NDArray[np.int64]]:
    """The sure links of every pair; if they are no output, an error or (with "nearest") the largest subset that is.

    Examples
    --------
    >>> training_targets(np.array([[2, 2]]), [GoldLinks.of([(0, 0), (0, 1), (1, 1)])], 1, "nearest")[0].tolist()
    [[0, 0], [1, 1]]
    """
    space, targets = Matching(sizes, max_fertility=max_fertility), []
    for i, links in enumerate(gold):
        wanted = link_array(links.sure)
        coded = space.encode(i, wanted)
        if not space.allows(i, coded):
            if infeasible == "error":
                raise InfeasibleLinksError(i, space.forbidden_part(i, coded), space.max_fertility)
            wanted = np.asarray(space.nearest_feasible(i, wanted))
        targets.append(wanted)
    return targets


def link_costs(
    gold: Sequence[GoldLinks],
    targets: Sequence[NDArray[np.int64]],
    sizes: NDArray[np.int64],
    false_positive: float,
    false_negative: float,
) -> PartCost:
    """ℓ(z', z) = c⁺·(links that are neither sure nor possible) + c⁻·(target links that are missing), eq. (2.10).

    Links that are possible, or sure but not in the target, cost nothing either way.
    """
    costs = []
    for links, target, (n_rows, n_columns) in zip(gold, targets, sizes, strict=True):
        p = np.full((n_rows, n_columns), float(false_positive))
        p[tuple(link_array(links.possible).T)] = 0.0
        p[tuple(target.T)] = -float(false_negative)
        costs.append((p.ravel(), false_negative * len(target)))
    return PartCost(costs)


def alignment_problem(
    parts: AlignmentFeatures, targets: Sequence[NDArray[np.int64]], cost: PartCost, loss: LossFunction, n_threads: int
) -> Problem:
    """The training problem of eq. (3.5); for the models with pairs of links over the linear relaxation, eq. (3.6)."""
    nonnegative = parts.nonnegative if parts.nonnegative.any() else None
    return Problem(
        parts.space.relax(), parts.features, targets, loss, cost, nonnegative=nonnegative, n_threads=n_threads
    )


def check_learner(learner: Learner, loss: LossFunction, model: str) -> None:
    """Raise :class:`CapabilityError` where the learner cannot train this kind of alignment, before data is read."""
    if model == "L":
        return learner.check(link_data(np.ones((1, 1)), np.ones(1, bool), np.ones(1), learner, loss))
    constrained = any(ALIGNMENT_MODELS[model])
    space = alignment_space(model, [(1, 1)], 1).relax()
    nonnegative = np.ones(1, bool) if constrained else None
    learner.check(Problem(space, PartFeatures([([0, 1], [[1.0]])]), [[]], loss, nonnegative=nonnegative))

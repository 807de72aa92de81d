"""The order of visits: a new permutation in every pass, uniform draws, or draws in proportion to the block gaps.

A learner that improves the dual of one instance at a time finds, each time, by how much that block is short of its
optimum: its gap g_i ≥ 0, and Σ_i g_i is the duality gap when all are taken at one θ. Visiting i with probability
g_i / Σ_j g_j (Osokin et al. 2016, §3.1) spends the time where there is something left to gain. The gaps are those of
the last visits, so a block that once looked finished would never be seen again: every ``REFRESH``-th pass
visits all.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import ParameterError
from partwise.learners.base import Floats, State
from partwise.learners.certified import CertifiedLearner
from partwise.problem import Problem

__all__ = ["BlockLearner", "draw", "put"]

#: Every so many passes of gap sampling, one visits every instance.
REFRESH = 10

SAMPLINGS = ("permutation", "uniform", "gap")


@kernel
def put(tree, i, weight):
    """Leaf i of a tree of sums ← weight; O(log m). The leaves are the second half, the root is tree[1]."""
    node = tree.shape[0] // 2 + i
    tree[node] = weight
    node //= 2
    while node >= 1:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@kernel
def draw(tree, uniform):
    """The leaf that holds uniform·Σ of the weights: leaf i for a share of [0, 1) in proportion to its weight."""
    size = tree.shape[0] // 2
    target, node = uniform * tree[1], 1
    while node < size:
        node *= 2
        if target >= tree[node] and tree[node + 1] > 0.0:  # rounding must not lead to a leaf without weight
            target -= tree[node]
            node += 1
    return node - size


@dataclass(frozen=True)
class BlockLearner(CertifiedLearner):
    """Settings common to the learners that visit one instance at a time and know its gap.

    Parameters
    ----------
    sampling : {"permutation", "uniform", "gap"}
        How the m visits of a pass are chosen.
    """

    sampling: str = "permutation"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling not in SAMPLINGS:
            raise ParameterError("sampling", type(self).__name__, f"one of {SAMPLINGS}", self.sampling)

    def visiting_state(self, problem: Problem) -> State:
        """What the choice of visits keeps between passes."""
        return {
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
            "passes": 0,
            "gaps": np.zeros(problem.m),
        }

    def visits(self, problem: Problem, state: State) -> tuple[NDArray[np.int64], Floats, Floats]:
        """(order, uniform numbers, tree of the gaps) of the next pass; an empty tree where the order holds."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        m, none = problem.m, np.zeros(0)
        by_gap = self.sampling == "gap" and state["passes"] % REFRESH != 0 and state["gaps"].any()
        order = rng.integers(m, size=m) if self.sampling == "uniform" else rng.permutation(m)
        draws, tree = none, none
        if by_gap:
            size = 1 << max(m - 1, 1).bit_length()
            tree = np.zeros(2 * size)
            tree[size : size + m] = state["gaps"]
            for node in range(size - 1, 0, -1):
                tree[node] = tree[2 * node] + tree[2 * node + 1]
            draws = rng.random(m)
        state["rng"] = rng.bit_generator.state
        state["passes"] += 1
        return order, draws, tree

    @abstractmethod
    def visit(self, problem: Problem, state: State, order: NDArray[np.int64], draws: Floats, tree: Floats) -> None:
        """Some visits of a pass, as :meth:`visits` chose them; they move ``state["theta"]`` and the dual points."""

    @abstractmethod
    def constant(self, problem: Problem, state: State) -> float:
        """Σ_i b_i of the dual points."""

    def estimate(self, problem: Problem, state: State) -> dict[str, Any]:
        """The sum of the last block gaps over m: an estimate of the duality gap, not a bound of it."""
        return {"gap_estimate": float(state["gaps"].sum()) / problem.m}

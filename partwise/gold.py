"""Gold outputs and costs as the kernels see them: sparse vectors of parts, or a smaller space of the same parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.losses import add_cost, gold_score, soften, subtract_gold
from partwise.structures.base import part_count

__all__ = ["PartialGold", "SparseParts"]


class SparseParts(NamedTuple):
    """A sparse vector of parts for every instance: numbers and values, with a constant beside it."""

    offsets: NDArray[np.int64]  # (n + 1,)
    numbers: NDArray[np.int32]
    values: NDArray[np.float64]
    constants: NDArray[np.float64]  # (n,), the q of a cost p·z + q; or (0,)


@gold_score.register(SparseParts)
def _(gold, loss, i, scores, work, spare):
    total = 0.0
    for j in range(gold.offsets[i], gold.offsets[i + 1]):
        total += gold.values[j] * scores[gold.numbers[j]]
    return total


@subtract_gold.register(SparseParts)
def _(gold, i, spare, parts):
    for j in range(gold.offsets[i], gold.offsets[i + 1]):
        parts[gold.numbers[j]] -= gold.values[j]


@add_cost.register(SparseParts)
def _(cost, i, gamma, scores):
    for j in range(cost.offsets[i], cost.offsets[i + 1]):
        scores[cost.numbers[j]] += gamma * cost.values[j]
    return cost.constants[i]


class PartialGold(NamedTuple):
    """Gold known only as a smaller space of the same parts: labels that some positions may have."""

    space: Any


@gold_score.register(PartialGold)
def _(gold, loss, i, scores, work, spare):
    return soften(loss, gold.space, i, scores.copy(), work, spare)


@subtract_gold.register(PartialGold)
def _(gold, i, spare, parts):
    for r in range(part_count(gold.space, i)):
        parts[r] -= spare[r]

"""Gold outputs, costs and weights as the kernels see them: sparse vectors of parts, or a smaller space of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.costs import Cost
from partwise.exceptions import InputError, ParameterError
from partwise.losses import LossFunction, add_cost, gold_score, loss_bound, loss_parts, soften, subtract_gold
from partwise.structures.base import Floats, Structure, part_count

__all__ = ["PartialGold", "SparseParts", "Weighted", "checked_weights", "encode_gold"]


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


class Weighted(NamedTuple):
    """w_i L_i: a loss that counts as often as each instance's weight says."""

    loss: Any
    weights: NDArray[np.float64]  # (m,)


@loss_parts.register(Weighted)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    value = loss_parts(loss.loss, space, gold, cost, i, scores, work, parts, spare)
    weight = loss.weights[i]
    for r in range(part_count(space, i)):
        parts[r] *= weight
    return weight * value


@loss_bound.register(Weighted)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    return loss.weights[i] * loss_bound(loss.loss, space, gold, cost, i, scores, work, parts, spare)


def checked_weights(weights: ArrayLike, m: int, *, some: bool = False) -> NDArray[np.float64]:
    """Weights of m instances: finite, ≥ 0, and not all 0 unless these are only some of the instances."""
    found = np.ascontiguousarray(weights, float)
    if found.shape != (m,):
        raise InputError(f"sample_weight has shape {found.shape}; expected one number per instance, ({m},)")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        raise InputError(f"sample_weight of instance {np.argmax(wrong)} is {found[np.argmax(wrong)]}; expected ≥ 0")
    if not some and not found.any():
        raise InputError("sample_weight is zero for every instance: there is nothing to learn from")
    return found


def encode_gold(space: Structure, cost: Cost, loss: LossFunction, outputs: Any) -> tuple[Any, SparseParts]:
    """Gold and costs for the kernels, of m outputs or of a structure that holds those that might be gold."""
    if isinstance(outputs, Structure):
        if loss.uses_cost:
            raise ParameterError(
                "loss", "Problem", "one without a cost, because gold outputs are only partly known", str(loss)
            )
        m = len(space)
        free = SparseParts(np.zeros(m + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(m))
        return PartialGold(outputs.pack), free
    gold = SparseParts(*space.encode_all(outputs), np.zeros(0))
    if space.constrained:
        for i in range(len(space)):
            parts = _dense(space, gold, i)
            if not space.allows(i, parts):
                raise InputError(f"gold output of instance {i}: {space.forbidden_part(i, parts)}")
    return gold, _encode_costs(space, cost, gold)


def _dense(space: Structure, gold: SparseParts, i: int) -> Floats:
    """The gold parts of instance i as one vector."""
    parts, here = np.zeros(space.n_parts(i)), slice(gold.offsets[i], gold.offsets[i + 1])
    np.add.at(parts, gold.numbers[here], gold.values[here])
    return parts


def _encode_costs(space: Structure, cost: Cost, gold: SparseParts) -> SparseParts:
    """(p, q) of every instance: all at once where the cost can, else one by one."""
    sparse = cost.sparse_parts(space, gold.offsets, gold.numbers, gold.values)
    if sparse is not None:
        return SparseParts(*sparse)
    rows, columns, data, constants = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)], []
    for i in range(len(space)):
        p, q = cost.parts(space, i, _dense(space, gold, i)[: space.n_atoms(i)])
        used = np.flatnonzero(p)
        rows.append(np.array([len(used)]))
        columns.append(used.astype(np.int32))
        data.append(p[used])
        constants.append(q)
    starts = np.concatenate([[0], np.cumsum(np.concatenate(rows))]).astype(np.int64)
    return SparseParts(starts, np.concatenate(columns), np.concatenate(data), np.array(constants))

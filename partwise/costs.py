"""Costs ℓ(y', y) as sums over parts: ℓ(y', y) = p·z' + q with p and q fixed by the gold output y."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures.base import Floats, Structure

__all__ = ["ConstituentCost", "Cost", "Hamming", "LabelCost", "PartCost"]


class Cost(ABC):
    """A cost that decomposes over the atoms of an output."""

    @abstractmethod
    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        """(p, q) such that ℓ(y', y) = p·z' + q, from the atoms z of instance i's gold output; p has their shape.

        ``space.atoms(i)`` says what the atoms are: positions and labels, heads and modifiers, starts and stops.
        """

    def sparse_parts(
        self, space: Structure, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats] | None:
        """The same for all instances at once, from their sparse gold parts; None where p is not sparse."""
        return None


@dataclass(frozen=True)
class Hamming(Cost):
    """ℓ = c⁺ Σ_r z'_r(1 − z_r) + c⁻ Σ_r z_r(1 − z'_r): wrong atoms and missed atoms, Lacoste-Julien eq. (2.10).

    p = c⁺(1 − z) − c⁻z and q = c⁻ 1·z. Where exactly one atom of every variable is active (labels of a sequence,
    classes), a wrong one is also a missed one, and the default (0, 1) is the number of wrong variables.

    Examples
    --------
    >>> from partwise import Chain
    >>> p, q = Hamming().parts(Chain([2], 2), 0, np.array([1.0, 0.0, 0.0, 1.0]))
    >>> float(p @ np.array([1.0, 0.0, 1.0, 0.0]) + q)
    1.0
    """

    false_positive: float = 0.0
    false_negative: float = 1.0

    def __post_init__(self) -> None:
        for name in ("false_positive", "false_negative"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, "Hamming", "a number ≥ 0", getattr(self, name))

    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        p = self.false_positive * (1.0 - gold) - self.false_negative * gold
        return p, self.false_negative * float(gold.sum())

    def sparse_parts(
        self, space: Structure, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats] | None:
        if self.false_positive:
            return None
        # p = −c⁻z: only the gold atoms
        n_atoms = np.array([space.n_atoms(i) for i in range(len(space))], np.int32)
        atoms = numbers < np.repeat(n_atoms, np.diff(offsets))
        counts = _sums(atoms, np.int32)[offsets].astype(np.int64)
        missed = self.false_negative * values[atoms]
        totals = _sums(missed, np.float64)[counts]
        return counts, numbers[atoms], np.negative(missed, out=missed), np.diff(totals)


def _sums(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    """0, values[0], values[0] + values[1], …"""
    sums = np.zeros(len(values) + 1, kind)
    np.cumsum(values, out=sums[1:])
    return sums


class LabelCost(Cost):
    """ℓ = Σ_t c(y_t, y'_t), c given as a matrix: for structures whose atoms are L labels per position.

    Examples
    --------
    Missing label 1 costs 5, all other errors 1:

    >>> cost = LabelCost([[0, 1], [5, 0]])
    >>> from partwise import Chain
    >>> p, q = cost.parts(Chain([2], 2), 0, np.array([1.0, 0.0, 0.0, 1.0]))
    >>> float(p @ np.array([0.0, 1.0, 1.0, 0.0]) + q)
    6.0
    """

    def __init__(self, cost: ArrayLike) -> None:
        matrix = np.asarray(cost, float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ParameterError("cost", "LabelCost", "a square matrix", matrix.shape)
        if not (np.isfinite(matrix).all() and (matrix >= 0).all() and (np.diag(matrix) == 0).all()):
            raise ParameterError("cost", "LabelCost", "finite, ≥ 0 and zero on the diagonal", cost)
        self.cost: NDArray[np.float64] = matrix

    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        if gold.size % len(self.cost):
            raise InputError(f"LabelCost is for {len(self.cost)} labels per position; got {gold.size} atoms")
        return (gold.reshape(-1, len(self.cost)) @ self.cost).ravel(), 0.0

    def sparse_parts(
        self, space: Structure, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats] | None:
        n_labels = getattr(space, "n_labels", len(self.cost))
        if n_labels != len(self.cost):
            raise InputError(f"LabelCost is for {len(self.cost)} labels; {type(space).__name__} has {n_labels}")
        return None  # nearly every label has a cost: instance by instance


@dataclass(frozen=True)
class ConstituentCost(Cost):
    """ℓ = c⁺·(wrong constituents) + c⁻·(missed gold constituents): Bartlett et al. (2004), Example 2.

    A constituent is (start, stop, label), whatever the symbol: where labels are split into finer symbols (by their
    parents, say), the right label in the wrong variant costs nothing. For structures whose atoms have a start, a stop
    and a label. A chain that holds one label twice over the same words counts it twice.

    Examples
    --------
    >>> from partwise import Grammar
    >>> space = Grammar([[[1], [1]]], 3, [(0, 1, 1), (2, 1, 1)], labels=[0, -1, 0])
    >>> p, q = ConstituentCost().parts(space, 0, np.array([1.0, 0.0]))
    >>> float(p @ np.array([0.0, 1.0]) + q)
    0.0
    """

    false_positive: float = 1.0
    false_negative: float = 1.0

    def __post_init__(self) -> None:
        for name in ("false_positive", "false_negative"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, "ConstituentCost", "a number ≥ 0", getattr(self, name))

    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        table = space.atoms(i)
        places = np.stack([table.start, table.stop, table.label], axis=1)
        _, group = np.unique(places, axis=0, return_inverse=True)
        right = np.bincount(group.ravel(), weights=gold)[group.ravel()] > 0
        return np.where(right, -self.false_negative, self.false_positive), self.false_negative * float(gold.sum())


class PartCost(Cost):
    """ℓ = p_i·z' + q_i with p_i and q_i given for every instance: costs that depend on more than the gold output.

    For example, links that are neither right nor wrong cost nothing: p is 0 there.

    Examples
    --------
    >>> cost = PartCost([([-1.0, 0.0, 1.0], 1.0)])
    >>> from partwise import Multiclass
    >>> p, q = cost.parts(Multiclass(1, 3), 0, np.array([1.0, 0.0, 0.0]))
    >>> float(p @ np.array([0.0, 1.0, 0.0]) + q)
    1.0
    """

    def __init__(self, costs: Sequence[tuple[ArrayLike, float]]) -> None:
        self.costs = [(np.asarray(p, float), float(q)) for p, q in costs]
        for i, (p, q) in enumerate(self.costs):
            if not (np.isfinite(p).all() and np.isfinite(q)):
                raise InputError(f"the cost of instance {i} is not finite")

    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        if i >= len(self.costs):
            raise InputError(f"PartCost holds the costs of {len(self.costs)} instances; asked for instance {i}")
        p, q = self.costs[i]
        if p.shape != gold.shape:
            raise InputError(f"the cost of instance {i} has shape {p.shape}; expected {gold.shape}")
        if p @ gold + q < -1e-9:
            raise InputError(f"the gold output of instance {i} costs {p @ gold + q:g}; expected ≥ 0")
        return p, q

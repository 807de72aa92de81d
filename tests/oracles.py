"""Brute force: every output of a small instance, and every quantity from plain enumeration.

Nothing here calls the code under test. Parts are numbered by listing their names in the documented order,
outputs are filtered by the hard constraints one by one, and log Z, marginals, entropy and the rest are sums
over the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures.base import Structure

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Enumeration:
    """All outputs of one instance, the parts of each, and some outputs that the constraints forbid."""

    outputs: list[Any]
    parts: Floats  # (outputs, parts)
    forbidden: list[Any]

    def values(self, scores: Floats) -> Floats:
        """s·z of every output, 0·(−inf) counting as 0."""
        hopeless = np.isneginf(scores)
        values = self.parts @ np.where(hopeless, 0.0, scores)
        values[(self.parts[:, hopeless] != 0).any(axis=1)] = -np.inf
        return values

    def log_partition(self, scores: Floats) -> float:
        """log Z = log Σ_y exp(s·z)."""
        values = self.values(scores)
        top = values.max()
        return float(top) if top == -np.inf else float(top + math.log(np.exp(values - top).sum()))

    def probabilities(self, scores: Floats) -> Floats:
        """p(y) = exp(s·z) / Z."""
        values = self.values(scores)
        weights = np.exp(values - values.max())
        return weights / weights.sum()

    def marginals(self, scores: Floats) -> Floats:
        """E[z] = Σ_y p(y) z."""
        return self.probabilities(scores) @ self.parts

    def entropy(self, scores: Floats) -> float:
        """H = −Σ_y p(y) log p(y)."""
        p = self.probabilities(scores)
        p = p[p > 0]
        return float(-(p * np.log(p)).sum())

    def best_values(self, scores: Floats, k: int) -> Floats:
        """The k largest finite scores, largest first."""
        values = np.sort(self.values(scores))[::-1]
        return values[values > -np.inf][:k]

    def project(self, point: Floats) -> Floats:
        """The nearest point of the convex hull; a coordinate of −inf must stay 0."""
        hopeless = np.isneginf(point)
        vertices = self.parts[~(self.parts[:, hopeless] != 0).any(axis=1)]
        return nearest_in_hull(vertices, np.where(hopeless, 0.0, point))


def nearest_in_hull(vertices: Floats, point: Floats) -> Floats:
    """argmin ‖z − point‖² over the convex hull of the rows of ``vertices``.

    A quadratic program in disguise: with w_j = vertex_j − point, the nonnegative least-squares problem
    min ‖Σ_j λ_j w_j‖² + (Σ_j λ_j − 1)² has its solution on the ray of the weights of the nearest point.
    """
    arrows = vertices - point
    arrows = arrows / max(np.abs(arrows).max(), 1e-300)
    system = np.vstack([arrows.T, np.ones(len(vertices))])
    weights, _ = scipy.optimize.nnls(system, np.append(np.zeros(len(point)), 1.0))
    return (weights / weights.sum()) @ vertices


def _table(outputs: Iterable[Any], names: Sequence[Any], used: Callable[[Any], list[Any]]) -> Floats:
    """Row y counts each part that ``used(y)`` names."""
    number = {name: j for j, name in enumerate(names)}
    chosen = [[number[name] for name in used(y)] for y in outputs]
    table = np.zeros((len(chosen), len(names)))
    for row, parts in zip(table, chosen, strict=True):
        for j in parts:
            row[j] += 1.0
    return table


def enumerate_multiclass(n_labels: int, allowed: Mask) -> Enumeration:
    """L outputs less the forbidden ones; part b is label b."""
    outputs = [b for b in range(n_labels) if allowed[b]]
    forbidden = [b for b in range(n_labels) if not allowed[b]]
    return Enumeration(outputs, _table(outputs, range(n_labels), lambda y: [y]), forbidden)


def chain_parts(length: int, n_labels: int, order: int, tied: bool) -> list[tuple[Any, ...]]:
    """The names of the parts in order: labels by position, then transitions (oldest label … newest) by block.

    A block of transitions is a history length where positions share scores, a position where they do not.
    """
    names: list[tuple[Any, ...]] = [("label", t, b) for t in range(length) for b in range(n_labels)]
    for block in range(1, order + 1) if tied else range(1, length):
        labels = product(range(n_labels), repeat=min(block, order) + 1)
        names += [("transition", block, *run) for run in labels]
    return names


def enumerate_chain(
    n_labels: int,
    order: int,
    tied: bool,
    allowed: Mask,
    transitions: Mask,
    start: Mask,
    stop: Mask,
) -> Enumeration:
    """All L^T sequences, sorted into allowed and forbidden; one row of ``allowed`` a position."""
    length = len(allowed)

    def legal(y: tuple[int, ...]) -> bool:
        labels = all(allowed[t, b] for t, b in enumerate(y))
        pairs = all(transitions[a, b] for a, b in pairwise(y))
        return bool(labels and pairs and start[y[0]] and stop[y[-1]])

    def used(y: tuple[int, ...]) -> list[Any]:
        names: list[Any] = [("label", t, b) for t, b in enumerate(y)]
        for t in range(1, length):
            history = min(t, order)
            names.append(("transition", history if tied else t, *y[t - history : t + 1]))
        return names

    everything = list(product(range(n_labels), repeat=length))
    outputs = [y for y in everything if legal(y)]
    forbidden = [y for y in everything if not legal(y)]
    return Enumeration(outputs, _table(outputs, chain_parts(length, n_labels, order, tied), used), forbidden)


class Interval(Structure):
    """y = (a, b), 0 ≤ a < b ≤ n, with score Σ_{a ≤ t < b} s_t: the best run of items, in plain Python.

    Deliberately unlike the others: no labels, outputs of different numbers of parts, an argmax and no more.
    """

    oracles = frozenset({"argmax"})

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def n_parts(self, i: int) -> int:
        return self.sizes[i]

    def encode(self, i: int, y: tuple[int, int]) -> Floats:
        parts = np.zeros(self.sizes[i])
        parts[y[0] : y[1]] = 1.0
        return parts

    def decode(self, i: int, parts: Floats) -> tuple[int, int]:
        inside = np.flatnonzero(parts)
        return int(inside[0]), int(inside[-1]) + 1

    def argmax(self, i: int, scores: Floats) -> Floats:
        """v_t = s_t + max(v_{t−1}, 0): the best run that ends at t."""
        top, best, first, value = -math.inf, (0, 0), 0, 0.0
        for t, score in enumerate(scores):
            if value <= 0.0:
                first, value = t, 0.0
            value += float(score)
            if value > top:
                top, best = value, (first, t + 1)
        if top == -math.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return self.encode(i, best)


def enumerate_interval(size: int) -> Enumeration:
    """All runs of a line of items."""
    outputs = [(a, b) for a in range(size) for b in range(a + 1, size + 1)]
    return Enumeration(outputs, _table(outputs, range(size), lambda y: list(range(*y))), [])

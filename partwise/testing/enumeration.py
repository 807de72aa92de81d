"""Every output of a small instance, and every quantity from plain enumeration: what oracles are checked against.

Nothing here calls the code under test. log Z, marginals, entropy and the rest are sums over the list of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.structures.base import Structure

__all__ = ["Enumeration", "enumerated", "nearest_in_hull", "part_table"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Enumeration:
    """All outputs of one instance, the parts of each, and some outputs that the constraints forbid."""

    outputs: list[Any]
    parts: Floats  # (outputs, parts)
    forbidden: list[Any]
    corners: Floats | None = None  # of the polytope of the projection, where the outputs are only some of them

    @property
    def hull(self) -> Floats:
        """The corners of the polytope onto which the structure projects."""
        return self.parts if self.corners is None else self.corners

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
        result: Floats = weights / weights.sum()
        return result

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
        vertices = self.hull[~(self.hull[:, hopeless] != 0).any(axis=1)]
        return nearest_in_hull(vertices, np.where(hopeless, 0.0, point))


def nearest_in_hull(vertices: Floats, point: Floats) -> Floats:
    """argmin ‖z − point‖² over the convex hull of the rows of ``vertices``.

    A quadratic program in disguise: with w_j = vertex_j − point, the nonnegative least-squares problem
    min ‖Σ_j λ_j w_j‖² + (Σ_j λ_j − 1)² has its solution on the ray of the weights of the nearest point.
    """
    arrows = vertices - point
    arrows = arrows / max(np.abs(arrows).max(), 1e-300)
    system = np.vstack([arrows.T, np.ones(len(vertices))])
    import scipy.optimize

    weights, _ = scipy.optimize.nnls(system, np.append(np.zeros(len(point)), 1.0))
    result: Floats = (weights / weights.sum()) @ vertices
    return result


def part_table(outputs: Iterable[Any], names: Sequence[Any], used: Callable[[Any], list[Any]]) -> Floats:
    """Row y counts each part that ``used(y)`` names."""
    number = {name: j for j, name in enumerate(names)}
    chosen = [[number[name] for name in used(y)] for y in outputs]
    table = np.zeros((len(chosen), len(names)))
    for row, parts in zip(table, chosen, strict=True):
        for j in parts:
            row[j] += 1.0
    return table


def enumerated(space: Structure, i: int, outputs: Iterable[Any]) -> Enumeration:
    """The enumeration of an instance whose outputs you list yourself, encoded by the structure.

    Examples
    --------
    >>> from partwise import Multiclass
    >>> enumerated(Multiclass(1, 3), 0, [0, 1, 2]).log_partition(np.zeros(3)).__round__(3)
    1.099
    """
    listed = list(outputs)
    return Enumeration(listed, np.array([space.encode(i, y) for y in listed], float), [])

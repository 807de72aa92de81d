"""Multiclass: one variable with L labels, the smallest structure; binary classification is L = 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._compile import kernel
from partwise._math import exp_shifted, fill, largest, normalise
from partwise._random import stream, uniform
from partwise.exceptions import InputError, ParameterError
from partwise.structures.atoms import LabelAtoms
from partwise.structures.base import (
    LEAST_MASS,
    CompiledStructure,
    Floats,
    Polytope,
    argmax,
    gibbs_scores,
    kbest,
    marginal_entropy,
    marginals,
    part_count,
    project,
    sample,
    slack_argmax,
    support_argmin,
    work_size,
)
from partwise.structures.registry import register_structure

__all__ = ["Multiclass"]


class MulticlassSpace(NamedTuple):
    """Packed instances: instance i is row i."""

    offsets: NDArray[np.int64]  # (n + 1,) rows of instance i are offsets[i]:offsets[i + 1], always one
    n_labels: int
    allowed: NDArray[np.uint8]  # (n, L), or (0, L) where every label is


@part_count.register(MulticlassSpace)
def _(space, i):
    return space.n_labels


@work_size.register(MulticlassSpace)
def _(space, i):
    return 2 * space.n_labels  # masked scores; sorted candidates of a projection, or the mass of a draw


@kernel
def masked(space, i, scores, work):
    """The scores to use: the given ones, or a copy in ``work`` with −inf for forbidden labels."""
    if space.allowed.shape[0] == 0:
        return scores
    for b in range(space.n_labels):
        work[b] = scores[b] if space.allowed[i, b] != 0 else -np.inf
    return work


@kernel
def _best(s, n):
    """The first of the labels with the highest score; −1 where all are −inf."""
    best, top = -1, -np.inf
    for b in range(n):
        if s[b] > top:
            best, top = b, s[b]
    return best


@argmax.register(MulticlassSpace)
def _(space, i, scores, work, parts):
    s = masked(space, i, scores, work)
    fill(parts, 0, space.n_labels, 0.0)
    best = _best(s, space.n_labels)
    if best < 0:
        return -np.inf
    parts[best] = 1.0
    return s[best]


@marginals.register(MulticlassSpace)
def _(space, i, scores, work, parts):
    n = space.n_labels
    s = masked(space, i, scores, work)
    top = largest(s, 0, n)
    if top == -np.inf:
        fill(parts, 0, n, 0.0)
        return top
    exp_shifted(s, 0, n, 1.0, top, parts, 0)
    total = 0.0
    for b in range(n):
        total += parts[b]
    normalise(parts, 0, n, 1.0 / total)
    return top + math.log(total)


@kbest.register(MulticlassSpace)
def _(space, i, scores, work, parts, values):
    n = space.n_labels
    s = masked(space, i, scores, work)
    left = work[n : 2 * n]
    for b in range(n):
        left[b] = s[b]
    for r in range(values.shape[0]):
        best = _best(left, n)
        if best < 0:
            return r
        parts[r, :n] = 0.0
        parts[r, best] = 1.0
        values[r] = left[best]
        left[best] = -np.inf  # taken
    return values.shape[0]


@sample.register(MulticlassSpace)
def _(space, i, scores, work, seed, draws):
    """Draws of p(b) ∝ exp(s_b) by inversion, one uniform number each. Returns max s; no draws at −inf."""
    n = space.n_labels
    s = masked(space, i, scores, work)
    top = largest(s, 0, n)
    if top == -np.inf:
        return top
    mass = work[n : 2 * n]
    exp_shifted(s, 0, n, 1.0, top, mass, 0)
    for b in range(1, n):
        mass[b] += mass[b - 1]
    last = np.searchsorted(mass, mass[n - 1])  # the last label with mass, should u·total round up to the total
    for d in range(draws.shape[0]):
        draws[d, :n] = 0.0
        # the first label whose cumulative mass exceeds u·total: one without mass is passed over
        draws[d, min(np.searchsorted(mass, uniform(stream(seed, i, d)) * mass[n - 1], side="right"), last)] = 1.0
    return top


@project.register(MulticlassSpace)
def _(space, i, point, work, parts):
    """z_b = max(v_b − τ, 0) with τ such that Σ_b z_b = 1. Returns max v, no point at −inf.

    Michelot (1986): τ = (Σ v_b − 1)/ρ over the ρ labels still in play can only lie too low, so that labels below it
    leave until none does. O(L) per round, of which there are few: no sorting. The maximum is subtracted first: only
    labels within 1 of it can have mass, so τ is exact however large the point.
    """
    n = space.n_labels
    v = masked(space, i, point, work)
    top = largest(v, 0, n)
    if top == -np.inf:
        fill(parts, 0, n, 0.0)
        return top
    near = work[n : 2 * n]
    count, total = 0, 0.0
    for b in range(n):
        below = top - v[b]  # the distance below the maximum
        near[count] = below
        if below < 1.0:
            total += below
            count += 1
    threshold = (total + 1.0) / max(count, 1)
    left = count + 1
    while count < left:
        left, count, total = count, 0, 0.0
        for r in range(left):
            below = near[r]
            near[count] = below
            if below < threshold:
                total += below
                count += 1
        threshold = (total + 1.0) / max(count, 1)
    for b in range(n):
        parts[b] = max(threshold - (top - v[b]), 0.0)
    return top


@slack_argmax.register(MulticlassSpace)
def _(space, i, scores, costs, constant, offset, work, parts):
    n = space.n_labels
    s = masked(space, i, scores, work)
    fill(parts, 0, n, 0.0)
    best, top = -1, -np.inf
    for b in range(n):
        if s[b] > -np.inf:
            value = (costs[b] + constant) * (offset + s[b])
            if value > top:
                best, top = b, value
    if best >= 0:
        parts[best] = 1.0
    return top


@marginal_entropy.register(MulticlassSpace)
def _(space, i, parts, direction):
    """H = −Σ_b μ_b log μ_b; its slope −Σ_b δ_b log μ_b, the sum of δ being 0."""
    value, slope = 0.0, 0.0
    for b in range(space.n_labels):
        if parts[b] > 0.0:
            size = math.log(parts[b])
            value -= parts[b] * size
            slope -= direction[b] * size
    return value, slope


@support_argmin.register(MulticlassSpace)
def _(space, i, scores, mass, work, parts):
    n = space.n_labels
    inside = work[n : 2 * n]
    for b in range(n):
        inside[b] = -scores[b] if mass[b] > LEAST_MASS else -np.inf
    return -argmax(space, i, inside, work, parts)


@gibbs_scores.register(MulticlassSpace)
def _(space, i, mass, scores):
    for b in range(space.n_labels):
        scores[b] = math.log(mass[b]) if mass[b] > 0.0 else -np.inf


class Multiclass(CompiledStructure):
    """y ∈ {0..L−1} with score s_y: n instances of one variable each, whose L parts are all atoms.

    Parameters
    ----------
    n : int
        Number of instances.
    n_labels : int
    allowed : (n, n_labels) bool, optional
        Labels that each instance may take: partial labels, candidates.

    Notes
    -----
    Complexity: O(L) time for argmax and marginals, O(L) per round for the projection onto the simplex.

    Examples
    --------
    >>> space = Multiclass(2, n_labels=3, allowed=[[1, 1, 1], [1, 1, 0]])
    >>> space.decode(1, space.argmax(1, np.array([0.0, 1.0, 5.0])))
    1
    >>> log_partition, mean = space.marginals(0, np.log([1.0, 2.0, 5.0]))
    >>> mean.round(3).tolist()
    [0.125, 0.25, 0.625]
    >>> space.project(0, np.array([0.9, 0.7, -2.0])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """

    def __init__(self, n: int, n_labels: int, *, allowed: ArrayLike | None = None) -> None:
        if n < 0:
            raise ParameterError("n", "Multiclass", "at least 0", n)
        if n_labels < 1:
            raise ParameterError("n_labels", "Multiclass", "at least 1", n_labels)
        self.n_labels = int(n_labels)
        offsets = np.arange(int(n) + 1, dtype=np.int64)
        self._pack = MulticlassSpace(offsets, self.n_labels, self._allowed_rows(int(n), allowed))

    def _allowed_rows(self, n: int, allowed: ArrayLike | None) -> NDArray[np.uint8]:
        if allowed is None:
            return np.zeros((0, self.n_labels), np.uint8)
        rows = np.array(allowed, bool).astype(np.uint8)
        if rows.shape != (n, self.n_labels):
            raise ParameterError("allowed", "Multiclass", f"an array of shape {(n, self.n_labels)}", rows.shape)
        empty = np.flatnonzero(~rows.any(axis=1))
        if len(empty):
            raise InputError(f"the constraints allow no label of instance {empty[0]}")
        return rows

    @property
    def pack(self) -> MulticlassSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self._pack.offsets) - 1

    def atoms(self, i: int) -> LabelAtoms:
        """(position, label) of every atom: there is one position."""
        return LabelAtoms.grid(1, self.n_labels)

    def encode(self, i: int, y: Any) -> Floats:
        parts = np.zeros(self.n_labels)
        parts[self._checked(np.asarray(y)[None], i)] = 1.0
        return parts

    def decode(self, i: int, parts: Floats) -> int:
        return int(np.argmax(parts))

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        labels = self._checked(np.asarray(outputs), 0) if len(self) else np.zeros(0, np.int64)
        return self._pack.offsets.copy(), labels.astype(np.int32), np.ones(len(labels))

    def _checked(self, labels: NDArray[Any], first: int) -> NDArray[np.int64]:
        """Labels (n,) of the instances from ``first`` on, as integers."""
        if labels.ndim != 1:
            raise InputError(f"instance {first} has one label; got an array of shape {labels.shape[1:]}")
        if labels.dtype.kind not in "iu":
            raise InputError(f"labels must be integers in 0..{self.n_labels - 1}; got {labels.dtype} values")
        outside = (labels < 0) | (labels >= self.n_labels)
        if outside.any():
            j = int(np.argmax(outside))
            raise InputError(f"the label of instance {first + j} must be in 0..{self.n_labels - 1}; got {labels[j]}")
        return labels.astype(np.int64)

    @property
    def constrained(self) -> bool:
        return len(self._pack.allowed) > 0

    def allows(self, i: int, parts: Floats) -> bool:
        allowed = self._pack.allowed
        return len(allowed) == 0 or not np.any((parts != 0) & (allowed[i] == 0))

    def forbidden_part(self, i: int, parts: Floats) -> str:
        number = int(np.flatnonzero((parts != 0) & (self._pack.allowed[i] == 0))[0])
        return f"label {number} is forbidden by the constraints"

    def polytope(self, i: int) -> Polytope:
        """The simplex over the allowed labels: 1·z = 1, and the forbidden ones sum to 0."""
        import scipy.sparse  # here, because predicting does not need it

        rows = [np.ones(self.n_labels)]
        if self.constrained:
            rows.append(1.0 - self._pack.allowed[i])
        equal_to = np.array([1.0, 0.0])[: len(rows)]
        none = scipy.sparse.csr_array((0, self.n_labels))
        return Polytope(scipy.sparse.csr_array(np.array(rows)), equal_to, none, np.zeros(0))


register_structure("Multiclass", lambda: Multiclass(1, 2))

"""Features of segments: what their tokens say in the role they play, how long they are, and what they are as a whole.

    s(t, u, b) = first_t(b) + Σ_{t<j<u} rest_j(b) + last_{u−1}(b) + length(u − t, b) + Σ_f θ(f(t, u), b)

A token is the first of its segment or one of the rest, and may be the last: rows of attributes with weights per role
and label, summed along the segment (the "b at position i", "b before or after" and "n-gram of b in the chunk" of Daumé
& Marcu §4.1, where a template looks to either side). The f are features of whole segments ("the entire b-sequence"):
only those of gold segments have weights, looked up once when the data is packed. Transitions between labels come last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import fill
from partwise.features.base import Features, accumulate, feature_parts, feature_scores, norm_and_clear
from partwise.features.rows import SparseRows
from partwise.structures._segments_kernels import SegmentSpace, block_start, blocks_below

__all__ = ["SegmentFeatures", "SegmentRows"]


class SegmentRows(NamedTuple):
    """Packed features of the parts of a :class:`~partwise.structures.segments.Segments`."""

    space: Any  # SegmentSpace, for where the parts are
    tokens: Any  # SparseRows with 2L outputs: first, rest
    lasts: Any  # SparseRows with L outputs
    base: int  # where the weights of lengths begin; those of transitions follow
    starts: NDArray[np.int64]  # (n + 1,) entries of each instance in:
    atoms: NDArray[np.int32]  # (entries,) the atom …
    weights: NDArray[np.int32]  # (entries,) … to which this weight is added


@feature_parts.register(SegmentRows)
def _(features, i):
    return blocks_below(features.space, features.space.lengths[i]) + features.space.limits.shape[0] ** 2


@feature_scores.register(SegmentRows)
def _(features, i, theta, scores, at):
    space = features.space
    length, n_labels = space.lengths[i], space.limits.shape[0]
    widest = space.below.shape[0] - 1
    tokens, lasts = np.empty(length * 2 * n_labels), np.empty(length * n_labels)
    feature_scores(features.tokens, i, theta, tokens, 0)
    feature_scores(features.lasts, i, theta, lasts, 0)
    for t in range(length):
        left = min(length - t, widest)
        start = at + block_start(space, length, t)
        for b in range(n_labels):
            total = tokens[t * 2 * n_labels + b]
            number = start + space.within[left, b]
            weight = features.base + space.within[widest, b]
            for d in range(min(space.limits[b], left)):
                if d > 0:
                    total += tokens[(t + d) * 2 * n_labels + n_labels + b]
                scores[number + d] = total + lasts[(t + d) * n_labels + b] + theta[weight + d]
    pairs = at + blocks_below(space, length)
    weight = features.base + space.within[widest, n_labels]
    for r in range(n_labels * n_labels):
        scores[pairs + r] = theta[weight + r]
    for e in range(features.starts[i], features.starts[i + 1]):
        scores[at + features.atoms[e]] += theta[features.weights[e]]


@kernel
def token_parts(space, i, parts, at, tokens, lasts):
    """tokens, lasts ← how often each token has each role: the adjoint of the sums along segments."""
    length, n_labels = space.lengths[i], space.limits.shape[0]
    widest = space.below.shape[0] - 1
    fill(tokens, 0, length * 2 * n_labels, 0.0)
    fill(lasts, 0, length * n_labels, 0.0)
    for t in range(length):
        left = min(length - t, widest)
        start = at + block_start(space, length, t)
        for b in range(n_labels):
            number = start + space.within[left, b]
            total = 0.0
            for d in range(min(space.limits[b], left) - 1, -1, -1):
                amount = parts[number + d]
                total += amount
                if amount != 0.0:
                    lasts[(t + d) * n_labels + b] += amount
                if d > 0 and total != 0.0:
                    tokens[(t + d) * 2 * n_labels + n_labels + b] += total
            tokens[t * 2 * n_labels + b] += total


@accumulate.register(SegmentRows)
def _(features, i, parts, at, step, theta):
    space = features.space
    length, n_labels = space.lengths[i], space.limits.shape[0]
    widest = space.below.shape[0] - 1
    tokens, lasts = np.empty(length * 2 * n_labels), np.empty(length * n_labels)
    token_parts(space, i, parts, at, tokens, lasts)
    accumulate(features.tokens, i, tokens, 0, step, theta)
    accumulate(features.lasts, i, lasts, 0, step, theta)
    for t in range(length):
        left = min(length - t, widest)
        start = at + block_start(space, length, t)
        for b in range(n_labels):
            number = start + space.within[left, b]
            weight = features.base + space.within[widest, b]
            for d in range(min(space.limits[b], left)):
                theta[weight + d] += step * parts[number + d]
    pairs = at + blocks_below(space, length)
    weight = features.base + space.within[widest, n_labels]
    for r in range(n_labels * n_labels):
        theta[weight + r] += step * parts[pairs + r]
    for e in range(features.starts[i], features.starts[i + 1]):
        amount = parts[at + features.atoms[e]]
        if amount != 0.0:
            theta[features.weights[e]] += step * amount


@norm_and_clear.register(SegmentRows)
def _(features, i, parts, at, scratch):
    space = features.space
    length, n_labels = space.lengths[i], space.limits.shape[0]
    widest = space.below.shape[0] - 1
    tokens, lasts = np.empty(length * 2 * n_labels), np.empty(length * n_labels)
    token_parts(space, i, parts, at, tokens, lasts)
    total = norm_and_clear(features.tokens, i, tokens, 0, scratch)
    total += norm_and_clear(features.lasts, i, lasts, 0, scratch)
    for j in range(features.base, features.base + space.within[widest, n_labels] + n_labels * n_labels):
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    for e in range(features.starts[i], features.starts[i + 1]):  # zeroed as they are read
        j = features.weights[e]
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total


class SegmentFeatures(Features):
    """The map with its Python side: how θ is laid out (first and rest, last, lengths, transitions, whole segments).

    Parameters
    ----------
    space : SegmentSpace
    tokens, lasts : SparseRows with 2L and L outputs, the weights of ``lasts`` after those of ``tokens``
    base : int
        Where the weights of lengths begin: after those of the rows.
    entries : (starts, atoms, weights)
        Weights of whole segments, numbered from 0.
    n_whole : int
        How many weights of whole segments there are.
    codes : (bases, tokens), optional
        What the features of whole segments are made of; kept for searches, which have more features of the same.
    """

    def __init__(
        self,
        space: SegmentSpace,
        tokens: SparseRows,
        lasts: SparseRows,
        base: int,
        entries: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
        n_whole: int,
        codes: NDArray[np.int32] | None = None,
    ) -> None:
        self.codes = np.zeros((0, int(tokens.offsets[-1])), np.int32) if codes is None else codes
        n_labels = len(space.limits)
        self.first_whole = base + int(space.within[-1, -1]) + n_labels * n_labels
        self._dim = self.first_whole + n_whole
        starts, atoms, weights = entries
        shifted = (weights + self.first_whole).astype(np.int32)
        self._pack = SegmentRows(space, tokens, lasts, base, starts, atoms, shifted)

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def pack(self) -> SegmentRows:
        return self._pack

    @property
    def batch_pack(self) -> SegmentRows:
        none = np.zeros(0, np.uint8)
        pack = self._pack
        return pack._replace(tokens=pack.tokens._replace(mask=none), lasts=pack.lasts._replace(mask=none))

    @property
    def live(self) -> NDArray[np.uint8] | None:
        live = np.ones(self.dim, np.uint8)
        for rows in (self._pack.tokens, self._pack.lasts):
            live[rows.base : rows.base + len(rows.mask)] = rows.mask
        return live

    def instance_sizes(self, n: int) -> NDArray[np.int64]:
        """As ``feature_parts`` has it, in closed form: nothing to compile."""
        space, widest = self._pack.space, len(self._pack.space.below) - 1
        over = np.maximum(space.lengths - widest, 0) * space.within[-1, -1]
        result: NDArray[np.int64] = space.below[np.minimum(space.lengths, widest)] + over + len(space.limits) ** 2
        return result

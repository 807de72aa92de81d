"""Row features: every row (a token, an edge, a document) has a vector x and scores L outputs by xᵀW.

:class:`SparseRows` stores W in two regions. Attributes seen with many outputs have a dense row of L weights, which
is added to the scores as a vector; the many that are seen with few are replaced, when the data is packed, by the
weights they stand for, so that a row reads them directly. Attributes are numbered by frequency, the frequent ones
first, so that the hot rows stay in cache. Where only observed
(attribute, output) pairs have weights, a mask keeps the other cells of dense rows at zero. Rows that are scored once,
as in prediction, are not worth packing: :class:`IndexedRows` looks the weights up as it goes, with the same sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import add_scaled, fill, total_size
from partwise._vector_rows import add_rows, add_to_rows, row_size
from partwise._vectors import TILE
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear

__all__ = ["DenseRows", "IndexedRows", "SparseRows"]


class SparseRows(NamedTuple):
    """Packed rows: instance i owns rows offsets[i]:offsets[i + 1].

    Row r has the dense attributes attributes[indptr[r]:indptr[r + 1]], attribute a with the weights
    theta[base + a·L:][:L], and the single weights theta[weights[j]] for output outputs[j], j in
    pair_indptr[r]:pair_indptr[r + 1]: the rare attributes, already looked up.
    """

    offsets: NDArray[np.int64]  # (n + 1,)
    n_outputs: int
    base: int
    indptr: NDArray[np.int64]  # (rows + 1,)
    attributes: NDArray[np.int32]  # (dense entries,)
    values: NDArray[np.float64]  # (dense entries,), or (0,) where all are 1
    mask: NDArray[np.uint8]  # (dense attributes · L,) cells that exist, or (0,) where all do
    pair_indptr: NDArray[np.int64]  # (rows + 1,)
    weights: NDArray[np.int32]  # (pair entries,)
    outputs: NDArray[Any]  # (pair entries,), the smallest integers that hold them
    pair_values: NDArray[np.float64]  # (pair entries,), or (0,) where all are 1


class IndexedRows(NamedTuple):
    """Rows as they were read, and where the weights of their attributes are; to be scored, not to learn from.

    Attribute a has the number k = rank[a]. Below ``n_dense`` its weights are theta[base + k·L:][:L]; from there on
    theta[base + n_dense·L + j] for output pair_output[j], j in pair_start[k − n_dense]:pair_start[k − n_dense + 1].
    """

    offsets: NDArray[np.int64]  # (n + 1,)
    n_outputs: int
    base: int
    indptr: NDArray[np.int64]  # (rows + 1,)
    attributes: NDArray[np.int32]  # (entries,)
    values: NDArray[np.float64]  # (entries,), or (0,) where all are 1
    rank: NDArray[np.int32]  # (attributes,)
    n_dense: int
    pair_start: NDArray[np.int64]  # (rare attributes + 1,)
    pair_output: NDArray[Any]  # (pairs,)


class DenseRows(NamedTuple):
    """Rows with a dense vector of D values; weights (D, L) from theta[base] on."""

    offsets: NDArray[np.int64]  # (n + 1,)
    x: NDArray[np.float64]  # (rows, D), C-contiguous; float32 as well
    n_outputs: int
    base: int


@kernel
def _two_parts(parts, start, n):
    """(b, b') where just these two of n parts are not 0, as where one output is taken for another; else (n, n)."""
    first, second = n, n
    for b in range(n):
        if parts[start + b] != 0.0:
            if first == n:
                first = b
            elif second == n:
                second = b
            else:
                return n, n
    return (first, second) if second < n else (n, n)


@feature_parts.register(SparseRows)
def _(features, i):
    return (features.offsets[i + 1] - features.offsets[i]) * features.n_outputs


@feature_scores.register(SparseRows)
def _(features, i, theta, scores, at):
    values, pair_values, weights, outputs = (
        features.values,
        features.pair_values,
        features.weights,
        features.outputs,
    )
    n_outputs, base, one = np.uintp(features.n_outputs), np.uintp(features.base), np.uintp(1)
    binary, binary_pairs = values.shape[0] == 0, pair_values.shape[0] == 0
    out = np.uintp(at)
    for r in range(np.uintp(features.offsets[i]), np.uintp(features.offsets[i + 1])):
        start, stop = np.uintp(features.indptr[r]), np.uintp(features.indptr[r + one])
        if binary and n_outputs >= TILE:
            add_rows(scores, out, theta, base, features.attributes, start, stop, n_outputs)
        else:
            for b in range(n_outputs):
                scores[out + b] = 0.0
            for e in range(start, stop):
                row = base + np.uintp(features.attributes[e]) * n_outputs
                x = 1.0 if binary else values[e]
                for b in range(n_outputs):
                    scores[out + b] += x * theta[row + b]
        for e in range(np.uintp(features.pair_indptr[r]), np.uintp(features.pair_indptr[r + one])):
            x = 1.0 if binary_pairs else pair_values[e]
            scores[out + np.uintp(outputs[e])] += x * theta[np.uintp(weights[e])]
        out += n_outputs


@feature_parts.register(IndexedRows)
def _(features, i):
    return (features.offsets[i + 1] - features.offsets[i]) * features.n_outputs


@feature_scores.register(IndexedRows)
def _(features, i, theta, scores, at):
    values, n_outputs, base, one = features.values, np.uintp(features.n_outputs), np.uintp(features.base), np.uintp(1)
    n_dense, rank, pair_start = np.uintp(features.n_dense), features.rank, features.pair_start
    binary, rare = values.shape[0] == 0, base + n_dense * n_outputs
    first, last = features.offsets[i], features.offsets[i + 1]
    width = 0
    for r in range(first, last):
        width = max(width, features.indptr[r + 1] - features.indptr[r])
    # the rare attributes of a row, from the end; the dense ones before them
    numbers = np.empty(width, np.int32)
    numbers_x = np.empty(0 if binary else width)
    out = np.uintp(at)
    for r in range(np.uintp(first), np.uintp(last)):
        dense, other = np.uintp(0), np.uintp(width)
        for e in range(np.uintp(features.indptr[r]), np.uintp(features.indptr[r + one])):
            k = rank[features.attributes[e]]
            if np.uintp(k) < n_dense:
                place, dense = dense, dense + one
            else:
                other -= one
                place = other
            numbers[place] = k
            if not binary:
                numbers_x[place] = values[e]
        if binary and n_outputs >= TILE:
            add_rows(scores, out, theta, base, numbers, np.uintp(0), dense, n_outputs)
        else:
            for b in range(n_outputs):
                scores[out + b] = 0.0
            for e in range(dense):
                row = base + np.uintp(numbers[e]) * n_outputs
                x = 1.0 if binary else numbers_x[e]
                for b in range(n_outputs):
                    scores[out + b] += x * theta[row + b]
        e = np.uintp(width)
        while e > other:  # in the order of the row
            e -= one
            k = np.uintp(numbers[e]) - n_dense
            x = 1.0 if binary else numbers_x[e]
            for j in range(np.uintp(pair_start[k]), np.uintp(pair_start[k + one])):
                scores[out + np.uintp(features.pair_output[j])] += x * theta[rare + j]
        out += n_outputs


@accumulate.register(SparseRows)
def _(features, i, parts, at, step, theta):
    values, pair_values, weights, outputs = (
        features.values,
        features.pair_values,
        features.weights,
        features.outputs,
    )
    n_outputs, base, one = np.uintp(features.n_outputs), np.uintp(features.base), np.uintp(1)
    binary, binary_pairs = values.shape[0] == 0, pair_values.shape[0] == 0
    mask, masked = features.mask, features.mask.shape[0] > 0
    part = np.uintp(at)
    for r in range(np.uintp(features.offsets[i]), np.uintp(features.offsets[i + 1])):
        size = row_size(parts, part, n_outputs)
        if size > 0.0:  # else the prediction got this row right: nothing to learn here
            c, d = _two_parts(parts, part, n_outputs) if size == 2.0 else (n_outputs, n_outputs)
            start, stop = np.uintp(features.indptr[r]), np.uintp(features.indptr[r + one])
            if binary and not masked and c == n_outputs:
                add_to_rows(theta, base, features.attributes, start, stop, step, parts, part, n_outputs)
                start = stop
            for e in range(start, stop):
                row = np.uintp(features.attributes[e]) * n_outputs
                x = step if binary else step * values[e]
                if c < n_outputs:
                    if not masked or mask[row + c]:
                        theta[base + row + c] += x * parts[part + c]
                    if not masked or mask[row + d]:
                        theta[base + row + d] += x * parts[part + d]
                elif masked:
                    for b in range(n_outputs):
                        theta[base + row + b] += x * parts[part + b] * mask[row + b]
                else:
                    for b in range(n_outputs):
                        theta[base + row + b] += x * parts[part + b]
            for e in range(np.uintp(features.pair_indptr[r]), np.uintp(features.pair_indptr[r + one])):
                x = step if binary_pairs else step * pair_values[e]
                theta[np.uintp(weights[e])] += x * parts[part + np.uintp(outputs[e])]
        part += n_outputs


@norm_and_clear.register(SparseRows)
def _(features, i, parts, at, scratch):
    n_outputs = features.n_outputs
    total = 0.0
    start = at
    for r in range(features.offsets[i], features.offsets[i + 1]):
        size = total_size(parts, start, n_outputs)
        if size > 0.0:
            c, d = _two_parts(parts, start, n_outputs) if size == 2.0 else (n_outputs, n_outputs)
            # zeroed as they are read: a second visit adds nothing
            for e in range(features.indptr[r], features.indptr[r + 1]):
                row = features.base + features.attributes[e] * n_outputs
                if c < n_outputs:
                    total += scratch[row + c] * scratch[row + c]
                    scratch[row + c] = 0.0
                    total += scratch[row + d] * scratch[row + d]
                    scratch[row + d] = 0.0
                else:
                    for j in range(row, row + n_outputs):
                        total += scratch[j] * scratch[j]
                        scratch[j] = 0.0
            for e in range(features.pair_indptr[r], features.pair_indptr[r + 1]):
                j = features.weights[e]
                total += scratch[j] * scratch[j]
                scratch[j] = 0.0
        start += n_outputs
    return total


@feature_parts.register(DenseRows)
def _(features, i):
    return (features.offsets[i + 1] - features.offsets[i]) * features.n_outputs


@feature_scores.register(DenseRows)
def _(features, i, theta, scores, at):
    n_outputs = features.n_outputs
    first_row = features.offsets[i]
    for r in range(first_row, features.offsets[i + 1]):
        start = at + (r - first_row) * n_outputs
        fill(scores, start, n_outputs, 0.0)
        for d in range(features.x.shape[1]):
            x = features.x[r, d]
            if x != 0.0:
                add_scaled(scores, start, x, theta, features.base + d * n_outputs, n_outputs)


@accumulate.register(DenseRows)
def _(features, i, parts, at, step, theta):
    n_outputs = features.n_outputs
    first_row = features.offsets[i]
    for r in range(first_row, features.offsets[i + 1]):
        start = at + (r - first_row) * n_outputs
        if total_size(parts, start, n_outputs) == 0.0:
            continue
        for d in range(features.x.shape[1]):
            x = step * features.x[r, d]
            if x != 0.0:
                add_scaled(theta, features.base + d * n_outputs, x, parts, start, n_outputs)


@norm_and_clear.register(DenseRows)
def _(features, i, parts, at, scratch):
    total = 0.0
    for j in range(features.base, features.base + features.x.shape[1] * features.n_outputs):
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total

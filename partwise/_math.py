"""Small numerical kernels shared by the structures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._vector_rows import multiply_row, row_size
from partwise._vectors import TILE, tiled_add, tiled_dot, tiled_max, tiled_sum

__all__ = [
    "add_scaled",
    "best_row",
    "dot",
    "exp_shifted",
    "fill",
    "largest",
    "log_add",
    "multiply_sum",
    "normalise",
    "outer_add",
    "rows_dot",
    "rows_max",
    "rows_sum",
    "smallest_finite",
    "total_size",
    "transition_blocks",
]

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the rounded integer in the low bits


# Inner loops run over unsigned offsets: a signed one might be negative, and then Python's wrap-around rule
# would keep the loop from being vectorised.


@kernel
def fill(y, at, n, value):
    """y[at:at + n] ← value."""
    o = np.uintp(at)
    for j in range(np.uintp(n)):
        y[o + j] = value


@kernel
def dot(x, y):
    """x·y, the same whatever the number of threads, which a BLAS does not promise; of float32 as well."""
    total = 0.0
    for j in range(x.shape[0]):
        total += np.float64(x[j]) * np.float64(y[j])
    return total


@kernel
def add_scaled(y, at, a, x, start, n):
    """y[at + j] += a·x[start + j] for j < n."""
    o, p = np.uintp(at), np.uintp(start)
    for j in range(np.uintp(n)):
        y[o + j] += a * x[p + j]


@kernel
def multiply_sum(y, at, x, start, n):
    """y[at + j] *= x[start + j] for j < n; returns their sum."""
    return multiply_row(y, at, x, start, n)


@kernel
def normalise(y, at, n, factor):
    """y[at:at + n] *= factor; returns the smallest positive entry, at most 1."""
    o = np.uintp(at)
    low = 1.0
    for j in range(np.uintp(n)):
        v = y[o + j] * factor
        y[o + j] = v
        v = v if v > 0.0 else 1.0
        low = v if v < low else low
    return low


# Products of a vector with n rows of a matrix, which start at first, first + step, …


@kernel
def rows_sum(y, at, a, start, stride, matrix, first, step, rows, n):
    """y[at + b] = Σ_j a[start + j·stride]·matrix[first + j·step + b] for b < n, j < rows."""
    if n >= TILE:
        tiled_sum(y, at, a, start, stride, matrix, first, step, rows, n)
        return
    o, p, r, m = np.uintp(at), np.uintp(start), np.uintp(first), np.uintp(n)
    for b in range(m):
        y[o + b] = 0.0
    for _ in range(rows):
        for b in range(m):
            y[o + b] += a[p] * matrix[r + b]
        p, r = p + np.uintp(stride), r + np.uintp(step)


@kernel
def rows_max(y, at, a, start, stride, matrix, first, step, rows, n):
    """y[at + b] = max_j a[start + j·stride] + matrix[first + j·step + b] for b < n, j < rows."""
    if n >= TILE:
        tiled_max(y, at, a, start, stride, matrix, first, step, rows, n)
        return
    o, p, r, m = np.uintp(at), np.uintp(start), np.uintp(first), np.uintp(n)
    for b in range(m):
        y[o + b] = -np.inf
    for _ in range(rows):
        for b in range(m):
            x = a[p] + matrix[r + b]
            y[o + b] = x if x > y[o + b] else y[o + b]
        p, r = p + np.uintp(stride), r + np.uintp(step)


@kernel
def best_row(a, start, stride, matrix, first, step, rows):
    """The first j < rows with the largest a[start + j·stride] + matrix[first + j·step]."""
    p, q, r, w = np.uintp(start), np.uintp(stride), np.uintp(first), np.uintp(step)
    best, top = np.uintp(0), a[p] + matrix[r]
    for j in range(np.uintp(1), np.uintp(rows)):
        x = a[p + j * q] + matrix[r + j * w]
        better = x > top
        top, best = x if better else top, j if better else best
    return np.intp(best)


@kernel
def rows_dot(y, at, stride, x, start, matrix, first, step, rows, n):
    """y[at + j·stride] = Σ_b matrix[first + j·step + b]·x[start + b] for b < n, j < rows."""
    if n >= TILE:
        tiled_dot(y, at, stride, x, start, matrix, first, step, rows, n)
        return
    o, p, r, m = np.uintp(at), np.uintp(start), np.uintp(first), np.uintp(n)
    for _ in range(rows):
        total = 0.0
        for b in range(m):
            total += x[p + b] * matrix[r + b]
        y[o] = total
        o, r = o + np.uintp(stride), r + np.uintp(step)


@kernel
def outer_add(matrix, first, step, a, start, stride, across, x, at, along, count, rows, n):
    """matrix[first + j·step + b] += Σ_{t < count} a[start + t·across + j·stride]·x[at + t·along + b]."""
    r, p = np.uintp(first), np.uintp(start)
    for _ in range(rows):
        if n >= TILE:
            tiled_add(matrix, r, a, p, across, x, at, along, count, n)
        else:
            q, o = p, np.uintp(at)
            for _ in range(count):
                for b in range(np.uintp(n)):
                    matrix[r + b] += a[q] * x[o + b]
                q, o = q + np.uintp(across), o + np.uintp(along)
        r, p = r + np.uintp(step), p + np.uintp(stride)


@kernel
def total_size(x, start, n):
    """Σ |x[start:start + n]|."""
    return row_size(x, start, n)


@kernel
def largest(x, start, stop):
    """max x[start:stop]; −inf where the range is empty."""
    best = -np.inf
    for j in range(np.uintp(start), np.uintp(stop)):
        best = x[j] if x[j] > best else best
    return best


@kernel
def smallest_finite(x, start, stop):
    """min of the entries of x[start:stop] that are not −inf; +inf where there are none."""
    best = np.inf
    for j in range(np.uintp(start), np.uintp(stop)):
        v = x[j] if x[j] > -np.inf else np.inf
        best = v if v < best else best
    return best


@kernel(fastmath={"contract"})  # reassociation would undo the rounding trick
def exp_shifted(x, start, stop, scale, shift, out, at):
    """out[at + j] = exp(scale·x[start + j] − shift) for x[start:stop], exactly 0 for −inf.

    Written so that it vectorises: v = k·ln2 + r with k rounded by adding 1.5·2^52, 2^k from those very bits,
    exp(r) by a degree-11 Taylor polynomial on |r| ≤ ln2/2. Relative error below 1e-14. Arguments must be
    ≤ 700; those below −700 give 0.
    """
    o, p0, n = np.uintp(at), np.uintp(start), np.uintp(stop - start)
    bits = out.view(np.int64)
    for j in range(n):
        v = scale * x[p0 + j] - shift
        v = v if v > -700.0 else -700.0
        out[o + j] = v * _LOG2E + _ROUND
    for j in range(n):
        bits[o + j] = (bits[o + j] + 1023) << 52
    for j in range(n):
        v = scale * x[p0 + j] - shift
        v = v if v > -700.0 else -700.0
        k = (v * _LOG2E + _ROUND) - _ROUND
        r = (v - k * _LN2_HIGH) - k * _LN2_LOW
        p = 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        out[o + j] = p * out[o + j] if v > -700.0 else 0.0


@kernel
def log_add(a, b):
    """log(e^a + e^b), exact for −inf."""
    high, low = (a, b) if a > b else (b, a)
    if low == -np.inf:
        return high
    return high + math.log1p(math.exp(low - high))


def transition_blocks(n_labels: int, order: int) -> NDArray[np.int64]:
    """blocks[j]: where the transition parts of history length j = 1..order start, after the label parts.

    blocks[order + 1] is where they end.

    Examples
    --------
    >>> transition_blocks(3, 2).tolist()
    [0, 0, 9, 36]
    """
    blocks = np.zeros(order + 2, np.int64)
    blocks[2:] = np.cumsum([n_labels ** (j + 1) for j in range(1, order + 1)])
    return blocks

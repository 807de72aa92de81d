"""Logical factors eight at a time, in the lanes of vector instructions: their part of an iteration of AD³.

Factors of one kind and one number of free literals lie side by side, ``LANES`` to a batch: row j of a batch has the
j-th literals of its factors. Those that are left over, and long ones, are done one by one (``subproblems``). A
projection is a threshold for the factor, found as in ``logic_project``, in all lanes at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._lanes import (
    LANES,
    add_lanes,
    fill_lanes,
    load_lanes,
    max_lanes,
    min_lanes,
    pick_lanes,
    store_lanes,
    sum_lanes,
    take_lanes,
)
from partwise.structures.graphs.logic import AND_PAIR, AT_MOST_ONE, BUDGET, EQUAL, OR, OR_OUTPUT

__all__ = ["Lanes", "follow_prices", "lanes_bound", "lanes_scratch", "load_prices", "make_lanes", "project_lanes",
           "store_prices", "update_prices"]  # fmt: skip

WIDEST = 64  # literals of a factor in a batch


class Lanes(NamedTuple):
    """Batches of ``LANES`` factors, and the factors in none."""

    kind: NDArray[np.int64]  # (batches,)
    start: NDArray[np.int64]  # (batches + 1,) rows, one per literal
    budget: NDArray[np.float64]  # (batches, LANES)
    edge: NDArray[np.int32]  # (rows, LANES)
    bit: NDArray[np.int32]
    sign: NDArray[np.float64]  # a literal is shift + sign·bit: 1 − bit where it is negated
    shift: NDArray[np.float64]
    single: NDArray[np.int64]  # factors


@kernel
def make_lanes(local, links):
    """The :class:`Lanes` of one instance: factors in order of kind and size."""
    n_factors = local.kind.shape[0]
    sizes = links.literal_start[1:] - links.literal_start[:-1]
    largest = 0
    for g in range(n_factors):
        largest = max(largest, sizes[g])
    width = largest + 1
    place = np.zeros((AND_PAIR + 1) * width + 1, np.int64)
    for g in range(n_factors):
        place[local.kind[g] * width + sizes[g] + 1] += 1
    for k in range(place.shape[0] - 1):
        place[k + 1] += place[k]
    where, order = place[:-1].copy(), np.empty(n_factors, np.int64)
    for g in range(n_factors):
        k = local.kind[g] * width + sizes[g]
        order[where[k]] = g
        where[k] += 1
    batches = rows = alone = 0
    for k in range(place.shape[0] - 1):
        count, n = place[k + 1] - place[k], k % width
        if n > 0:
            whole = count // LANES if n <= WIDEST and k // width != AND_PAIR else 0
            batches, rows, alone = batches + whole, rows + whole * n, alone + count - whole * LANES
    kind, start, single = np.empty(batches, np.int64), np.zeros(batches + 1, np.int64), np.empty(alone, np.int64)
    budget = np.zeros((batches, LANES))
    edge, bit = np.empty((rows, LANES), np.int32), np.empty((rows, LANES), np.int32)
    sign, shift = np.ones((rows, LANES)), np.zeros((rows, LANES))
    batches = alone = 0
    for k in range(place.shape[0] - 1):
        first, count, n = place[k], place[k + 1] - place[k], k % width
        if n == 0:
            continue
        whole = count // LANES if n <= WIDEST and k // width != AND_PAIR else 0
        for c in range(whole):
            a = start[batches]
            for lane in range(LANES):
                g = order[first + c * LANES + lane]
                budget[batches, lane] = local.budget[g]
                for j in range(n):
                    q = links.literal_start[g] + j
                    edge[a + j, lane], bit[a + j, lane] = links.literal_edge[q], links.bit[links.literal_edge[q]]
                    if links.flipped[q] != 0:
                        sign[a + j, lane], shift[a + j, lane] = -1.0, 1.0
            kind[batches], start[batches + 1] = k // width, a + n
            batches += 1
        for c in range(first + whole * LANES, first + count):
            single[alone] = order[c]
            alone += 1
    return Lanes(kind, start, budget, edge, bit, sign, shift, single)


@kernel
def lanes_scratch(lanes):
    """Memory for one batch."""
    largest = 1
    for k in range(lanes.kind.shape[0]):
        largest = max(largest, lanes.start[k + 1] - lanes.start[k])
    return np.empty((largest, LANES))


@kernel
def _simplex_threshold(x, n):
    """t with Σ_j max(x_j − t, 0) = 1 in every lane: Michelot's, which only rises and ends exactly."""
    one, zero = fill_lanes(1.0), fill_lanes(0.0)
    total, count = zero - one, fill_lanes(n)
    for j in range(n):
        total = total + load_lanes(x, j)
    threshold = total / count
    for _ in range(n):
        before = sum_lanes(count)
        total, count = zero - one, zero
        for j in range(n):
            v = load_lanes(x, j)
            total = total + pick_lanes(v, threshold, v, zero)
            count = count + pick_lanes(v, threshold, one, zero)
        threshold = pick_lanes(count, zero, total / max_lanes(count, one), threshold)
        if sum_lanes(count) == before:
            break
    return threshold


@kernel
def _budget_threshold(x, n, budgets, k):
    """The least t ≥ 0 with Σ_j min(max(x_j − t, 0), 1) ≤ budget in every lane: Newton's method within brackets."""
    one, zero, half = fill_lanes(1.0), fill_lanes(0.0), fill_lanes(0.5)
    limit = load_lanes(budgets, k)
    near = fill_lanes(1e-13) * (one + limit)
    low, high, threshold = zero, zero, zero
    for j in range(n):
        high = max_lanes(high, load_lanes(x, j))
    for _ in range(200):
        excess, slope = zero - limit, zero
        for j in range(n):
            v = load_lanes(x, j) - threshold
            z = min_lanes(max_lanes(v, zero), one)
            excess = excess + z
            slope = slope + pick_lanes(min_lanes(v, one - v), zero, one, zero)
        # done where the sum is right, or below the budget at t = 0
        size = pick_lanes(threshold, zero, max_lanes(excess, zero - excess), excess)
        if sum_lanes(pick_lanes(size, near, one, zero)) == 0.0:
            break
        low, high = pick_lanes(excess, zero, threshold, low), pick_lanes(excess, zero, high, threshold)
        middle, step = half * (low + high), threshold + excess / max_lanes(slope, half)
        step = pick_lanes(min_lanes(min_lanes(step - low, high - step), slope), zero, step, middle)
        threshold = pick_lanes(size, near, step, threshold)
    return threshold


@kernel
def _or_output_lanes(x, n):
    """``logic_project``'s for an output, in place."""
    one, zero = fill_lanes(1.0), fill_lanes(0.0)
    m = n - 1
    y = load_lanes(x, m)
    total, count = y, fill_lanes(n)
    for j in range(m):
        total = total + load_lanes(x, j)
    level = total / count
    for _ in range(n):
        before = sum_lanes(count)
        total, count = y, one
        for j in range(m):
            v = load_lanes(x, j)
            total = total + pick_lanes(v, level, v, zero)
            count = count + pick_lanes(v, level, one, zero)
        level = total / count
        if sum_lanes(count) == before:
            break
    output, total = min_lanes(max_lanes(level, zero), one), zero
    for j in range(m):
        total = total + min_lanes(max_lanes(min_lanes(load_lanes(x, j), level), zero), one)
    if sum_lanes(pick_lanes(output, total, one, zero)) == 0.0:
        for j in range(m):
            store_lanes(x, j, min_lanes(max_lanes(min_lanes(load_lanes(x, j), level), zero), one))
        store_lanes(x, m, output)
        return
    store_lanes(x, m, one - y)
    threshold = _simplex_threshold(x, n)
    for j in range(m):
        v = load_lanes(x, j)
        inside = min_lanes(max_lanes(min_lanes(v, level), zero), one)
        store_lanes(x, j, pick_lanes(output, total, max_lanes(v - threshold, zero), inside))
    store_lanes(x, m, pick_lanes(output, total, one - max_lanes(one - y - threshold, zero), output))


@kernel
def nearest_lanes(kind, budgets, k, n, x):
    """x ← the nearest points of the hulls to its columns (``logic_project``)."""
    one, zero = fill_lanes(1.0), fill_lanes(0.0)
    if kind == OR_OUTPUT:
        _or_output_lanes(x, n)
        return
    if kind == EQUAL:
        total = zero
        for j in range(n):
            total = total + load_lanes(x, j)
        mean = min_lanes(max_lanes(total / fill_lanes(n), zero), one)
        for j in range(n):
            store_lanes(x, j, mean)
        return
    if kind == BUDGET:
        threshold = _budget_threshold(x, n, budgets, k)
    else:
        threshold = _simplex_threshold(x, n)
    if kind == AT_MOST_ONE:
        threshold = max_lanes(threshold, zero)
    elif kind == OR:
        threshold = min_lanes(threshold, zero)
    for j in range(n):
        store_lanes(x, j, min_lanes(max_lanes(load_lanes(x, j) - threshold, zero), one))


@kernel
def project_lanes(lanes, inverse, price, aim, x, copies, sums):
    """Copies of the bits nearest to aim + λ/η, and their sums: ``project_clauses`` of the factors in batches."""
    scale = fill_lanes(inverse)
    # fields of a tuple are counted references: once here, not in every row
    kinds, starts, budgets, bits, signs, shifts = (
        lanes.kind, lanes.start, lanes.budget, lanes.bit, lanes.sign, lanes.shift
    )  # fmt: skip
    for k in range(kinds.shape[0]):
        a, n = starts[k], starts[k + 1] - starts[k]
        for j in range(n):
            v = take_lanes(aim, bits, a + j) + scale * load_lanes(price, a + j)
            store_lanes(x, j, load_lanes(shifts, a + j) + load_lanes(signs, a + j) * v)
        nearest_lanes(kinds[k], budgets, k, n, x)
        for j in range(n):
            z = load_lanes(shifts, a + j) + load_lanes(signs, a + j) * load_lanes(x, j)
            store_lanes(copies, a + j, z)
            add_lanes(sums, bits, a + j, z)


@kernel
def load_prices(lanes, lam, price):
    """price ← λ of the edges of the batches."""
    edges = lanes.edge
    for r in range(price.shape[0]):
        store_lanes(price, r, take_lanes(lam, edges, r))


@kernel
def store_prices(lanes, price, lam):
    """λ ← prices of the edges of the batches."""
    edges = lanes.edge
    for r in range(price.shape[0]):
        for k in range(LANES):
            lam[edges[r, k]] = price[r, k]


@kernel
def update_prices(lanes, eta, ahead, drift, p, copies, price):
    """λ ← λ − η(ahead·copies + drift); returns the squared distance of the copies from p."""
    scale, step, total = fill_lanes(ahead), fill_lanes(eta), fill_lanes(0.0)
    bits = lanes.bit
    for r in range(price.shape[0]):
        z = load_lanes(copies, r)
        off = z - take_lanes(p, bits, r)
        total = total + off * off
        store_lanes(price, r, load_lanes(price, r) - step * (scale * z + take_lanes(drift, bits, r)))
    return sum_lanes(total)


@kernel
def follow_prices(price, weight, mean):
    """mean ← mean + weight·(price − mean)."""
    scale = fill_lanes(weight)
    for r in range(price.shape[0]):
        m = load_lanes(mean, r)
        store_lanes(mean, r, m + scale * (load_lanes(price, r) - m))


@kernel
def _best_lanes(kind, budgets, k, n, x):
    """The largest sums of the columns of x that the factors allow (``logic_best``)."""
    zero = fill_lanes(0.0)
    if kind == BUDGET:  # the largest one after the other rise to the front
        limit, total, most = load_lanes(budgets, k), zero, 0
        for lane in range(LANES):
            most = max(most, int(budgets[k, lane]))
        for r in range(min(most, n)):
            top = load_lanes(x, r)
            for j in range(r + 1, n):
                v = load_lanes(x, j)
                store_lanes(x, j, min_lanes(top, v))
                top = max_lanes(top, v)
            total = total + pick_lanes(limit, fill_lanes(r), max_lanes(top, zero), zero)
        return total
    inputs = n - 1 if kind == OR_OUTPUT else n
    top, total, positive = load_lanes(x, 0), zero, zero
    for j in range(inputs):
        v = load_lanes(x, j)
        top, total, positive = max_lanes(top, v), total + v, positive + max_lanes(v, zero)
    if kind == AT_MOST_ONE:
        return max_lanes(top, zero)
    if kind == EQUAL:
        return max_lanes(total, zero)
    if kind in (OR, OR_OUTPUT):
        total = pick_lanes(top, zero, positive, top)
        if kind == OR_OUTPUT:
            total = max_lanes(total + load_lanes(x, n - 1), zero)
        return total
    return top


@kernel
def lanes_bound(lanes, share, price, x):
    """Σ over the factors in batches of the largest sum of prices share + λ that the factor allows."""
    zero, total = fill_lanes(0.0), fill_lanes(0.0)
    kinds, starts, budgets, bits, signs = lanes.kind, lanes.start, lanes.budget, lanes.bit, lanes.sign
    for k in range(kinds.shape[0]):
        a, n = starts[k], starts[k + 1] - starts[k]
        for j in range(n):
            v, sign = take_lanes(share, bits, a + j) + load_lanes(price, a + j), load_lanes(signs, a + j)
            total = total + pick_lanes(zero, sign, v, zero)
            store_lanes(x, j, sign * v)
        total = total + _best_lanes(kinds[k], budgets, k, n, x)
    return sum_lanes(total)

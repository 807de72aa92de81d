"""Kernels of the bipartite matching: argmax by shortest augmenting paths, k-best by Murty's partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.structures._flow import best_flow
from partwise.structures.base import argmax, kbest, part_count, work_size

__all__ = ["MatchingSpace", "masked", "unit_costs"]

FREE, IN, OUT = 0, 1, 2  # what a class of Murty's partition says of a link


class MatchingSpace(NamedTuple):
    """Packed instances. Parts: the links (j, k) row-major, then [degree ≥ 2..D] of every source and target word."""

    offsets: NDArray[np.int64]  # (n + 1,) links of instance i are offsets[i]:offsets[i + 1]
    n_rows: NDArray[np.int64]  # (n,) J
    n_cols: NDArray[np.int64]  # (n,) K
    max_fertility: int  # D
    allowed: NDArray[np.uint8]  # (offsets[n],), or (0,) where every link is


@part_count.register(MatchingSpace)
def _(space, i):
    return space.n_rows[i] * space.n_cols[i] + (space.max_fertility - 1) * (space.n_rows[i] + space.n_cols[i])


@work_size.register(MatchingSpace)
def _(space, i):
    return space.n_rows[i] * space.n_cols[i]  # scores of the links with −inf for the forbidden ones


@kernel
def masked(space, i, scores, work):
    """(J, K) scores of the links: the given ones, or a copy in ``work`` with −inf for forbidden links."""
    n_rows, n_cols = space.n_rows[i], space.n_cols[i]
    size = n_rows * n_cols
    if space.allowed.shape[0] == 0:
        return scores[:size].reshape(n_rows, n_cols)
    start = space.offsets[i]
    for e in range(size):
        work[e] = scores[e] if space.allowed[start + e] != 0 else -np.inf
    return work[:size].reshape(n_rows, n_cols)


@kernel
def unit_costs(space, n_words, scores, at):
    """(n_words, D) costs of the 1st, 2nd, … link of a word: 0, then minus its scores from part ``at`` on.

    Raises where they break 0 ≤ c_2 ≤ c_3 ≤ … by more than rounding: then no flow is the argmax, eq. (3.2).
    """
    n_units = space.max_fertility
    costs = np.zeros((n_words, n_units))
    for j in range(n_words):
        for d in range(1, n_units):
            cost = -scores[at + j * (n_units - 1) + d - 1]
            below = costs[j, d - 1]
            if cost < below:
                if not cost >= below - 1e-12 * (1.0 + abs(below)):
                    raise InputError(
                        "fertility scores must be ≤ 0 and must not rise with the fertility (a convex penalty, "
                        "eq. 3.2): learn their weights with a sign, as penalties ≥ 0"
                    )
                cost = below
            costs[j, d] = cost
    return costs


@kernel
def value_of(space, weights, row_costs, col_costs, chosen):
    """The score of the links chosen[e] = 1."""
    n_rows, n_cols = weights.shape
    total = 0.0
    degree = np.zeros(n_cols, np.int64)
    for j in range(n_rows):
        own = 0
        for k in range(n_cols):
            if chosen[j * n_cols + k] != 0:
                total += weights[j, k]
                if space.max_fertility > 1:
                    total -= row_costs[j, own] + col_costs[k, degree[k]]
                own += 1
                degree[k] += 1
    return total


@kernel
def write_parts(space, i, chosen, parts):
    """parts ← χ of the links chosen[e] = 1: the links, then [degree ≥ d] for d = 2..D of every word."""
    n_rows, n_cols = space.n_rows[i], space.n_cols[i]
    size, extra = n_rows * n_cols, space.max_fertility - 1
    for e in range(size):
        parts[e] = chosen[e]
    for r in range(extra * (n_rows + n_cols)):
        parts[size + r] = 0.0
    if extra == 0:
        return
    for j in range(n_rows):
        degree = 0
        for k in range(n_cols):
            if chosen[j * n_cols + k] != 0:
                degree += 1
        for d in range(degree - 1):
            parts[size + j * extra + d] = 1.0
    at = size + n_rows * extra
    for k in range(n_cols):
        degree = 0
        for j in range(n_rows):
            if chosen[j * n_cols + k] != 0:
                degree += 1
        for d in range(degree - 1):
            parts[at + k * extra + d] = 1.0


@argmax.register(MatchingSpace)
def _(space, i, scores, work, parts):
    n_rows, n_cols = space.n_rows[i], space.n_cols[i]
    size = n_rows * n_cols
    weights = masked(space, i, scores, work)
    row_costs = unit_costs(space, n_rows, scores, size)
    col_costs = unit_costs(space, n_cols, scores, size + n_rows * (space.max_fertility - 1))
    flow = np.empty((n_rows, n_cols), np.uint8)
    best_flow(weights, row_costs, col_costs, flow, np.empty(n_rows), np.empty(n_cols))
    chosen = flow.reshape(size)
    write_parts(space, i, chosen, parts)
    return value_of(space, weights, row_costs, col_costs, chosen)


# --------------------------------------------------------------------------------------------------
# k-best


@kernel
def solve_class(weights, row_costs, col_costs, state, free, chosen):
    """chosen ← the best links with state IN always and state OUT never. ``free`` is a (J, K) scratch array.

    A link that is IN takes the cheapest unit of both its words, so that only the later units are left for the flow.
    """
    n_rows, n_cols = weights.shape
    n_units = row_costs.shape[1]
    left_row, left_col = np.full((n_rows, n_units), np.inf), np.full((n_cols, n_units), np.inf)
    row_used, col_used = np.zeros(n_rows, np.int64), np.zeros(n_cols, np.int64)
    for j in range(n_rows):
        for k in range(n_cols):
            here = state[j * n_cols + k]
            free[j, k] = weights[j, k] if here == FREE else -np.inf
            if here == IN:
                row_used[j] += 1
                col_used[k] += 1
    for j in range(n_rows):
        left_row[j, : n_units - row_used[j]] = row_costs[j, row_used[j] :]
    for k in range(n_cols):
        left_col[k, : n_units - col_used[k]] = col_costs[k, col_used[k] :]
    flow = np.empty((n_rows, n_cols), np.uint8)
    best_flow(free, left_row, left_col, flow, np.empty(n_rows), np.empty(n_cols))
    for e in range(n_rows * n_cols):
        chosen[e] = 1 if state[e] == IN else flow[e // n_cols, e % n_cols]


@kernel
def best_extension(weights, row_costs, col_costs, state):
    """(link, gain): the link that is FREE and costs least to add to those that are IN; (−1, −inf) if there is none."""
    n_rows, n_cols = weights.shape
    n_units = row_costs.shape[1]
    row_used, col_used = np.zeros(n_rows, np.int64), np.zeros(n_cols, np.int64)
    for e in range(n_rows * n_cols):
        if state[e] == IN:
            row_used[e // n_cols] += 1
            col_used[e % n_cols] += 1
    best, top = -1, -np.inf
    for j in range(n_rows):
        if row_used[j] == n_units:
            continue
        for k in range(n_cols):
            if state[j * n_cols + k] == FREE and col_used[k] < n_units:
                gain = weights[j, k] - row_costs[j, row_used[j]] - col_costs[k, col_used[k]]
                if gain > top:
                    best, top = j * n_cols + k, gain
    return best, top


@kernel
def place_for(values, count):
    """Where a new candidate goes: the next free place, else that of the worst one."""
    if count < values.shape[0]:
        return count
    return int(np.argmin(values))


@kernel
def extend_class(weights, row_costs, col_costs, state, value, states, chosen, values, grown, count):
    """Adds the best of the outputs that hold more than the links IN (whose score is ``value``). Returns the count."""
    link, gain = best_extension(weights, row_costs, col_costs, state)
    if link < 0:
        return count
    place = place_for(values, count)
    if place < count and value + gain <= values[place]:
        return count
    states[place] = state
    values[place] = value + gain
    grown[place] = link
    for e in range(state.shape[0]):
        chosen[place, e] = 1 if state[e] == IN or e == link else 0
    return max(count, place + 1)


@kbest.register(MatchingSpace)
def _(space, i, scores, work, parts, values):
    """Murty's partition over links. A class is a set of outputs with some links IN and some OUT; its best is known.

    The rest of a class without its best output y, y = IN + {e_1..e_r}, falls into r + 1 classes: e_1..e_{t−1} IN and
    e_t OUT, each solved by a flow, and all outputs that hold y and more. No single link improves y, and with convex
    penalties n links gain no more than the sum of their single gains, so the best of those adds one link. They need
    no flow, and neither do the classes they fall into. O(k·min(J, K)) flows; only the k best classes are kept.
    """
    n_rows, n_cols = space.n_rows[i], space.n_cols[i]
    size = n_rows * n_cols
    k = values.shape[0]
    weights = masked(space, i, scores, work)
    row_costs = unit_costs(space, n_rows, scores, size)
    col_costs = unit_costs(space, n_cols, scores, size + n_rows * (space.max_fertility - 1))
    states, chosen = np.zeros((k, size), np.uint8), np.zeros((k, size), np.uint8)
    totals, grown = np.zeros(k), np.full(k, -1, np.int64)  # grown: the added link, −1 for a class solved by a flow
    free, state, other = np.empty((n_rows, n_cols)), np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    solve_class(weights, row_costs, col_costs, state, free, chosen[0])
    totals[0] = value_of(space, weights, row_costs, col_costs, chosen[0])
    count = 1
    for rank in range(k):
        best = -1
        for c in range(count):
            if best < 0 or totals[c] > totals[best]:
                best = c
        if best < 0:
            return rank
        values[rank] = totals[best]
        write_parts(space, i, chosen[best], parts[rank])
        if rank == k - 1:
            break
        value, link = totals[best], grown[best]
        state[:] = states[best]
        other[:] = chosen[best]
        count -= 1
        states[best], chosen[best] = states[count], chosen[count]
        totals[best], grown[best] = totals[count], grown[count]
        if link >= 0:
            other[link] = 0
            state[link] = OUT
            before = value_of(space, weights, row_costs, col_costs, other)
            count = extend_class(weights, row_costs, col_costs, state, before, states, chosen, totals, grown, count)
            state[link] = IN
        else:
            for e in range(size):
                if other[e] == 1 and state[e] == FREE:
                    state[e] = OUT
                    place = place_for(totals, count)
                    trial = np.empty(size, np.uint8)
                    solve_class(weights, row_costs, col_costs, state, free, trial)
                    total = value_of(space, weights, row_costs, col_costs, trial)
                    if place == count or total > totals[place]:
                        states[place], chosen[place], totals[place], grown[place] = state, trial, total, -1
                        count = max(count, place + 1)
                    state[e] = IN
        count = extend_class(weights, row_costs, col_costs, state, value, states, chosen, totals, grown, count)
    return k

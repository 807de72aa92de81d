"""The k best projective trees: lazy enumeration of derivations (Huang & Chiang 2005, algorithm 3) in Eisner's chart.

    D_1(v) = max over splits,    D_{j+1}(v) = max of what is left of the frontier of v,

where the frontier holds every split once with the best derivations of its two spans, and, for each derivation taken,
its neighbours: the next derivation of the left span, of the right span, the next label of the arc. A projective tree
has one derivation, so the lists have no duplicates. After the chart, O(n³), a tree costs O(n²) at most: only spans on
the way to a next derivation are opened.

A span is numbered as its place in the chart, ((complete·2 + right)(n + 1) + s)(n + 1) + t; with a single root the
number 4(n + 1)² stands for the whole tree. Open spans have a place in ``Spans``, derivations in ``Pool``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures._arborescence_eisner import projective_inside
from partwise.structures._arborescence_space import arc_number

__all__ = ["ranked_projective"]

#: What may still change in the neighbours of a derivation, so that each is reached in one way: everything; the right
#: span and the label; the label.
ANY, RIGHT, LABEL = 0, 1, 2


class Spans(NamedTuple):
    """By span: the derivations found (a list through Pool.next), the frontier, and how far the search is."""

    first: NDArray[np.int64]  # the best derivation, −1 if none is known yet
    last: NDArray[np.int64]
    found: NDArray[np.int64]  # how many
    frontier: NDArray[np.int64]  # −2 if the span was never opened, −1 if nothing is left
    pending: NDArray[np.uint8]  # whether the neighbours of the last derivation are still to be added


class Pool(NamedTuple):
    """Derivations: value, split, ranks of the two spans, label of the arc (−1 without), what may change, the next."""

    value: NDArray[np.float64]
    rows: NDArray[np.int64]  # (capacity, 6): split, left rank, right rank, label, freedom, next


@kernel
def _children(n, v, r):
    """(left span, right span, head, modifier) of span v split at r; no arc where the modifier is 0."""
    side = n + 1
    if v == 4 * side * side:
        return (2 * side + 1) * side + r, (3 * side + r) * side + n, 0, r
    t, s = v % side, (v // side) % side
    right, complete = (v // (side * side)) % 2, v // (2 * side * side)
    if complete == 0:
        left, rest = (3 * side + s) * side + r, (2 * side + r + 1) * side + t
        return (left, rest, s, t) if right == 1 else (left, rest, t, s)
    if right == 1:
        return (side + s) * side + r + 1, (3 * side + r + 1) * side + t, 0, 0
    return (2 * side + s) * side + r, r * side + t, 0, 0


@kernel
def _next_label(scores, start, L, pin, label):
    """The label after ``label`` by score, ties by number; the first one after −1; −1 if there is none."""
    if pin >= 0:
        return pin if label < 0 else -1
    best = -1
    for b in range(L):
        x = scores[start + b]
        if label >= 0 and (x > scores[start + label] or (x == scores[start + label] and b <= label)):
            continue
        if best < 0 or x > scores[start + best]:
            best = b
    return best


@kernel
def _at(spans, pool, v, rank):
    """The derivation of a span by its rank from 0, which must have been found."""
    d = spans.first[v]
    for _ in range(rank):
        d = pool.rows[d, 5]
    return d


@kernel
def _value(spans, pool, chart, v, rank):
    return chart[v] if rank == 0 else pool.value[_at(spans, pool, v, rank)]


@kernel
def _push(spans, pool, used, v, value, r, left, right, label, freedom):
    """Put a derivation on the frontier of v; returns the pool, which may have grown."""
    if value == -np.inf:
        return pool
    d = used[0]
    if d == pool.value.shape[0]:
        values, rows = np.empty(2 * d), np.empty((2 * d, 6), np.int64)
        values[:d] = pool.value
        rows[:d] = pool.rows
        pool = Pool(values, rows)
    used[0] = d + 1
    pool.value[d] = value
    row = pool.rows[d]
    row[0], row[1], row[2], row[3], row[4], row[5] = r, left, right, label, freedom, spans.frontier[v]
    spans.frontier[v] = d
    return pool


@kernel
def _open(spans, pool, used, chart, scores, arcs, L, pins, v):
    """Fill the frontier of v with all its splits."""
    n = arcs.shape[0] - 1
    side = n + 1
    spans.frontier[v] = -1
    low, high = 1, n + 1
    if v < 4 * side * side:
        low, high = (v // side) % side, v % side
        if low == high:  # one word: its only derivation has no split
            pool = _push(spans, pool, used, v, 0.0, -1, 0, 0, -1, LABEL)
    for r in range(low, high):
        left, right, h, m = _children(n, v, r)
        value, label = chart[left] + chart[right], -1
        if m > 0:
            value += arcs[h, m]
            if value > -np.inf:
                label = _next_label(scores, arc_number(n, h, m) * L, L, pins[m], -1)
        pool = _push(spans, pool, used, v, value, r, 0, 0, label, ANY)
    return pool


@kernel
def _take(spans, pool, v):
    """Move the best derivation from the frontier of v to its list."""
    best, before, d, last = spans.frontier[v], -1, spans.frontier[v], -1
    while d >= 0:
        if pool.value[d] > pool.value[best]:
            best, before = d, last
        last, d = d, pool.rows[d, 5]
    if before < 0:
        spans.frontier[v] = pool.rows[best, 5]
    else:
        pool.rows[before, 5] = pool.rows[best, 5]
    pool.rows[best, 5] = -1
    if spans.found[v] == 0:
        spans.first[v] = best
    else:
        pool.rows[spans.last[v], 5] = best
    spans.last[v] = best
    spans.found[v] += 1
    spans.pending[v] = pool.rows[best, 0] >= 0


@kernel
def _lacks(spans, v, rank):
    """Whether the derivation of v of this rank (from 0) is still to be looked for."""
    if spans.found[v] > rank:
        return False
    return spans.frontier[v] == -2 or spans.frontier[v] >= 0 or spans.pending[v] == 1


@kernel
def _extend(spans, pool, used, chart, scores, arcs, L, pins, goal, rank, stack):
    """Look for the derivation of ``goal`` of this rank (from 0) and for what it takes; returns the pool."""
    n = arcs.shape[0] - 1
    depth = 1
    stack[0, 0], stack[0, 1] = goal, rank
    while depth > 0:
        v, wanted = stack[depth - 1, 0], stack[depth - 1, 1]
        if not _lacks(spans, v, wanted):
            depth -= 1
            continue
        if spans.frontier[v] == -2:
            pool = _open(spans, pool, used, chart, scores, arcs, L, pins, v)
        if spans.pending[v] == 1:
            row = pool.rows[spans.last[v]]
            r, i, j, label, freedom = row[0], row[1], row[2], row[3], row[4]
            left, right, h, m = _children(n, v, r)
            if freedom == ANY and _lacks(spans, left, i + 1):
                stack[depth, 0], stack[depth, 1] = left, i + 1
                depth += 1
                continue
            if freedom <= RIGHT and _lacks(spans, right, j + 1):
                stack[depth, 0], stack[depth, 1] = right, j + 1
                depth += 1
                continue
            spans.pending[v] = 0
            start = arc_number(n, h, m) * L
            arc = scores[start + label] if m > 0 else 0.0
            if freedom == ANY and spans.found[left] > i + 1:
                value = _value(spans, pool, chart, left, i + 1) + _value(spans, pool, chart, right, j) + arc
                pool = _push(spans, pool, used, v, value, r, i + 1, j, label, ANY)
            if freedom <= RIGHT and spans.found[right] > j + 1:
                value = _value(spans, pool, chart, left, i) + _value(spans, pool, chart, right, j + 1) + arc
                pool = _push(spans, pool, used, v, value, r, i, j + 1, label, RIGHT)
            if m > 0:
                label = _next_label(scores, start, L, pins[m], label)
                if label >= 0:
                    value = _value(spans, pool, chart, left, i) + _value(spans, pool, chart, right, j)
                    pool = _push(spans, pool, used, v, value + scores[start + label], r, i, j, label, LABEL)
        if spans.frontier[v] >= 0:
            _take(spans, pool, v)
    return pool


@kernel
def _read(spans, pool, used, chart, scores, arcs, L, pins, goal, rank, stack, parts):
    """parts ← the tree of a derivation; returns (pool, its score). Best derivations are opened on the way."""
    n = arcs.shape[0] - 1
    side = n + 1
    parts[:] = 0.0
    total, depth = 0.0, 1
    stack[0, 0], stack[0, 1] = goal, rank
    while depth > 0:
        depth -= 1
        v, place = stack[depth, 0], stack[depth, 1]
        if v < 4 * side * side and v % side == (v // side) % side:
            continue
        if spans.found[v] == 0:
            pool = _open(spans, pool, used, chart, scores, arcs, L, pins, v)
            _take(spans, pool, v)
        row = pool.rows[_at(spans, pool, v, place)]
        left, right, h, m = _children(n, v, row[0])
        if m > 0:
            part = arc_number(n, h, m) * L + row[3]
            parts[part] = 1.0
            total += scores[part]
        stack[depth, 0], stack[depth, 1] = left, row[1]
        stack[depth + 1, 0], stack[depth + 1, 1] = right, row[2]
        depth += 2
    return pool, total


@kernel
def ranked_projective(scores, arcs, L, pins, single_root, parts, values):
    """parts[j], values[j] ← the j-th best projective tree of arcs[h, m] = max_l s(h, m, l); returns how many there are.

    pins[m] is the only label of the arc into word m, or −1.
    """
    n, k = arcs.shape[0] - 1, values.shape[0]
    side = n + 1
    table = np.empty((2, 2, side, side))
    if projective_inside(arcs, single_root, False, table) == -np.inf:
        return 0
    chart = table.ravel()
    size = 4 * side * side + 1
    spans = Spans(
        np.full(size, -1), np.full(size, -1), np.zeros(size, np.int64), np.full(size, -2), np.zeros(size, np.uint8)
    )
    pool = Pool(np.empty(16 * side), np.empty((16 * side, 6), np.int64))
    used, stack = np.zeros(1, np.int64), np.empty((4 * side + 4, 2), np.int64)
    goal = size - 1 if single_root else (3 * side) * side + n
    for rank in range(k):
        pool = _extend(spans, pool, used, chart, scores, arcs, L, pins, goal, rank, stack)
        if spans.found[goal] <= rank:
            return rank
        pool, values[rank] = _read(spans, pool, used, chart, scores, arcs, L, pins, goal, rank, stack, parts[rank])
    return k

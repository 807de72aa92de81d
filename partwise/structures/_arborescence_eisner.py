"""Projective trees: Eisner's algorithm (1996, 2000), its inside–outside recursion and sampling, in O(n³).

A span s..t is complete (all that hangs from its head at one end is inside) or incomplete (an arc joins its ends):

    I→(s, t) = I←(s, t) = ⊕_{s ≤ r < t} C→(s, r) ⊗ C←(r + 1, t),    then ⊗ arc (s, t), or arc (t, s)
    C→(s, t) = ⊕_{s < r ≤ t} I→(s, r) ⊗ C→(r, t),        C←(s, t) = ⊕_{s ≤ r < t} C←(s, r) ⊗ I←(r, t).

With several roots the root is the leftmost word, and C→(0, n) is the answer. With one, spans are of words alone and the
answer is ⊕_r C←(1, r) ⊗ C→(r, n) ⊗ arc (0, r). Every projective tree has one derivation, so sums count each once.

One chart (2, 2, n + 1, n + 1): chart[complete, right, s, t] with ``right`` where the head is s.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel

__all__ = ["eisner", "projective_draw", "projective_inside", "projective_marginals"]


@kernel
def _fold(chart, arcs, first, soft):
    """Fill the chart over words first..n; ⊕ is the maximum, or log Σ exp where ``soft``."""
    n = arcs.shape[0] - 1
    chart[:, :, :, :] = -np.inf
    for s in range(first, n + 1):
        chart[1, 0, s, s] = 0.0
        chart[1, 1, s, s] = 0.0
    for width in range(1, n + 1 - first):
        for s in range(first, n + 1 - width):
            t = s + width
            top = -np.inf
            for r in range(s, t):
                top = max(top, chart[1, 1, s, r] + chart[1, 0, r + 1, t])
            if soft and top > -np.inf:
                total = 0.0
                for r in range(s, t):
                    total += math.exp(chart[1, 1, s, r] + chart[1, 0, r + 1, t] - top)
                top += math.log(total)
            chart[0, 1, s, t] = top + arcs[s, t]
            chart[0, 0, s, t] = top + arcs[t, s]
            for right in range(2):
                top = -np.inf
                for r in range(s, t):
                    top = max(top, _pair(chart, right, s, t, r))
                if soft and top > -np.inf:
                    total = 0.0
                    for r in range(s, t):
                        total += math.exp(_pair(chart, right, s, t, r) - top)
                    top += math.log(total)
                chart[1, right, s, t] = top


@kernel
def _pair(chart, right, s, t, r):
    """The value of the complete span s..t split at r = s..t − 1."""
    if right == 1:
        return chart[0, 1, s, r + 1] + chart[1, 1, r + 1, t]
    return chart[1, 0, s, r] + chart[0, 0, r, t]


@kernel
def _top(chart, arcs, r):
    """The value of all trees whose only word under the root is r."""
    n = arcs.shape[0] - 1
    return chart[1, 0, 1, r] + chart[1, 1, r, n] + arcs[0, r]


@kernel
def _root(chart, arcs, soft):
    """The value of all trees with one root."""
    n = arcs.shape[0] - 1
    top = -np.inf
    for r in range(1, n + 1):
        top = max(top, _top(chart, arcs, r))
    if soft and top > -np.inf:
        total = 0.0
        for r in range(1, n + 1):
            total += math.exp(_top(chart, arcs, r) - top)
        top += math.log(total)
    return top


@kernel
def projective_inside(arcs, single_root, soft, chart):
    """Fill the chart; returns the score of the best tree, or log Z where ``soft``; −inf where there is no tree."""
    n = arcs.shape[0] - 1
    _fold(chart, arcs, 1 if single_root else 0, soft)
    return _root(chart, arcs, soft) if single_root else chart[1, 1, 0, n]


@kernel
def _choose(values, count, soft, uniform):
    """The index of the largest of values[:count], or one drawn in proportion to exp(value)."""
    best = 0
    for j in range(1, count):
        if values[j] > values[best]:
            best = j
    if not soft:
        return best
    total = 0.0
    for j in range(count):
        total += math.exp(values[j] - values[best])
    goal, seen = uniform * total, 0.0
    for j in range(count):
        seen += math.exp(values[j] - values[best])
        if goal < seen:
            return j
    return best


@kernel
def projective_draw(arcs, single_root, soft, chart, uniform, heads):
    """heads ← the best tree of a filled chart, or a draw from it, with one number of ``uniform`` (4n,) per split."""
    n = arcs.shape[0] - 1
    values = np.empty(n + 1)
    stack = np.empty((4 * n + 4, 4), np.int64)
    used, depth = 0, 0

    if single_root:
        for r in range(1, n + 1):
            values[r - 1] = _top(chart, arcs, r)
        r = _choose(values, n, soft, uniform[0]) + 1
        used = 1
        heads[r] = 0
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 1, 0, 1, r
        stack[1, 0], stack[1, 1], stack[1, 2], stack[1, 3] = 1, 1, r, n
        depth = 2
    else:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 1, 1, 0, n
        depth = 1
    while depth > 0:
        depth -= 1
        complete, right, s, t = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if s == t:
            continue
        for r in range(s, t):
            values[r - s] = _pair(chart, right, s, t, r) if complete else chart[1, 1, s, r] + chart[1, 0, r + 1, t]
        r = s + _choose(values, t - s, soft, uniform[used])
        used += 1
        if not complete:
            if right:
                heads[t] = s
            else:
                heads[s] = t
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = 1, 1, s, r
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2], stack[depth + 1, 3] = 1, 0, r + 1, t
        elif right:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = 0, 1, s, r + 1
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2], stack[depth + 1, 3] = 1, 1, r + 1, t
        else:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = 1, 0, s, r
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2], stack[depth + 1, 3] = 0, 0, r, t
        depth += 2


@kernel
def eisner(arcs, single_root, heads):
    """heads[m] ← the head of word m in the best projective tree of arcs[h, m]; False if there is none."""
    n = arcs.shape[0] - 1
    chart = np.empty((2, 2, n + 1, n + 1))
    if projective_inside(arcs, single_root, False, chart) == -np.inf:
        return False
    projective_draw(arcs, single_root, False, chart, np.zeros(4 * n + 4), heads)
    return True


@kernel
def projective_marginals(arcs, single_root, mass):
    """mass[h, m] ← the probability of arc (h, m); returns log Z. Masses of spans, from the top down.

    The mass of a span is the probability that the tree's derivation uses it; it is handed on to the two spans of each
    split in proportion to their value. Every number is a probability: nothing is subtracted and nothing overflows.
    """
    n = arcs.shape[0] - 1
    chart, flow = np.empty((2, 2, n + 1, n + 1)), np.zeros((2, 2, n + 1, n + 1))
    value = projective_inside(arcs, single_root, True, chart)
    mass[:, :] = 0.0
    if value == -np.inf:
        return value
    first = 1 if single_root else 0
    if single_root:
        for r in range(1, n + 1):
            mass[0, r] = math.exp(_top(chart, arcs, r) - value)
            flow[1, 0, 1, r] += mass[0, r]
            flow[1, 1, r, n] += mass[0, r]
    else:
        flow[1, 1, 0, n] = 1.0
    for width in range(n - first, 0, -1):
        for s in range(first, n + 1 - width):
            t = s + width
            for right in range(2):
                amount, whole = flow[1, right, s, t], chart[1, right, s, t]
                if amount > 0.0:
                    for r in range(s, t):
                        share = amount * math.exp(_pair(chart, right, s, t, r) - whole)
                        if right == 1:
                            flow[0, 1, s, r + 1] += share
                            flow[1, 1, r + 1, t] += share
                        else:
                            flow[1, 0, s, r] += share
                            flow[0, 0, r, t] += share
            mass[s, t] += flow[0, 1, s, t]
            if s > 0:
                mass[t, s] += flow[0, 0, s, t]
            amount = flow[0, 1, s, t] + flow[0, 0, s, t]
            if amount > 0.0:
                whole = chart[0, 1, s, t] - arcs[s, t] if arcs[s, t] > -np.inf else chart[0, 0, s, t] - arcs[t, s]
                for r in range(s, t):
                    share = amount * math.exp(chart[1, 1, s, r] + chart[1, 0, r + 1, t] - whole)
                    flow[1, 1, s, r] += share
                    flow[1, 0, r + 1, t] += share
    return value

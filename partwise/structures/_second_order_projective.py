"""The best projective second-order tree, exactly, in O(n⁴): siblings of McDonald and Pereira (2006) with the
grandparent indices of Koo and Collins (2010, Model 1).

A span knows the head g of its own head h. With e the end of a span and m the outermost child of h,

    I(g, h, m) = arc(h, m) + grand(g, h, m) + max( first(h, m) + C(h, m, h ± 1),
                                                   max_s follows(h, s, m) + I(g, h, s) + S(h, s, m) )
    S(h, s, m) = max_r C(h, s, r) + C(h, m, r ± 1)              between neighbouring children s and m of h
    C(g, h, e) = max_m last(h, m) + I(g, h, m) + C(h, m, e),    C(g, h, h) = 0

and the best tree is C(·, 0, n). It is what dual decomposition over all trees must find wherever that tree is
projective: a check of one by the other.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["best_projective"]

INCOMPLETE, BETWEEN, COMPLETE = 0, 1, 2


@kernel
def _numbers(lay, n):
    """(n + 1, n + 1) numbers of candidate arcs, −1 for none, and their places among the children outward."""
    number, outward = np.full((n + 1, n + 1), -1), np.full((n + 1, n + 1), -1)
    for a in range(lay.heads.shape[0]):
        h, m = lay.heads[a], lay.modifiers[a]
        at = lay.out_start[h] + lay.place[a]
        number[h, m] = a
        outward[h, m] = lay.split[h] - 1 - at if m < h else at - lay.split[h]
    return number, outward


@kernel
def _side(lay, h, m):
    """(first sibling part of h towards m, how many candidate children there are on that side)."""
    if m < h:
        return lay.siblings[h, 0], lay.split[h] - lay.out_start[h]
    return lay.siblings[h, 1], lay.out_start[h + 1] - lay.split[h]


@kernel
def _incomplete(lay, tables, number, outward, arc_scores, scores, single_root, g, h, m):
    """I(g, h, m) and the sibling that attains it, −1 where m is the first child."""
    spans, between, complete = tables[0], tables[1], tables[2]
    a, way = number[h, m], 1 if h < m else -1
    base, k = _side(lay, h, m)
    j = outward[h, m]
    top, link = scores[base + j] + complete[h, m, h + way], -1
    if not (h == 0 and single_root):
        for s in range(h + way, m, way):
            if number[h, s] >= 0:
                value = spans[g, h, s] + between[h, s, m] + scores[base + k + j * (j - 1) // 2 + outward[h, s]]
                if value > top:
                    top, link = value, s
    top += arc_scores[a]
    if h > 0:
        row = number[g, h] - lay.into[h]
        top += scores[lay.grands[h] + row * (lay.out_start[h + 1] - lay.out_start[h]) + lay.place[a]]
    return top, link


@kernel
def _between(tables, h, s, m):
    """S(h, s, m) and where the two spans meet."""
    complete, way = tables[2], 1 if s < m else -1
    top, link = -np.inf, s
    for r in range(s, m, way):
        value = complete[h, s, r] + complete[h, m, r + way]
        if value > top:
            top, link = value, r
    return top, link


@kernel
def _complete(lay, tables, number, outward, scores, g, h, e):
    """C(g, h, e) and the outermost child, −1 where no child reaches there."""
    spans, complete = tables[0], tables[2]
    top, link, way = -np.inf, -1, 1 if h < e else -1
    base, k = _side(lay, h, e)
    for m in range(h + way, e + way, way):
        if number[h, m] >= 0:
            value = spans[g, h, m] + complete[h, m, e] + scores[base + k + k * (k - 1) // 2 + outward[h, m]]
            if value > top:
                top, link = value, m
    return top, link


@kernel
def best_projective(lay, n, arc_scores, scores, single_root, best_tree):
    """best_tree[m] ← the candidate arc into m in the best projective tree; returns its score, −inf if there is none."""
    number, outward = _numbers(lay, n)
    tables = np.full((3, n + 1, n + 1, n + 1), -np.inf)
    for h in range(n + 1):
        for g in range(n + 1):
            tables[COMPLETE, g, h, h] = 0.0
    for d in range(1, n + 1):
        for h in range(n + 1):
            for way in (-1, 1):
                m = h + way * d
                if m < 0 or m > n:
                    continue
                low, high = min(h, m), max(h, m)
                for g in range(n + 1):  # here h is the nearer child and g the head of both
                    if (g < low or g > high) and (g < h) == (h < m) and number[g, h] >= 0 and number[g, m] >= 0:
                        tables[BETWEEN, g, h, m] = _between(tables, g, h, m)[0]
                for g in range(n + 1):
                    outside = g == 0 if h == 0 else (g < low or g > high) and number[g, h] >= 0
                    if outside and number[h, m] >= 0:
                        tables[INCOMPLETE, g, h, m] = _incomplete(
                            lay, tables, number, outward, arc_scores, scores, single_root, g, h, m
                        )[0]
                for g in range(n + 1):
                    outside = g == 0 if h == 0 else (g < low or g > high) and number[g, h] >= 0
                    if outside:
                        tables[COMPLETE, g, h, m] = _complete(lay, tables, number, outward, scores, g, h, m)[0]
    value = tables[COMPLETE, 0, 0, n]
    if value == -np.inf:
        return value
    stack, size = np.empty((4 * n + 4, 4), np.int64), 1
    stack[0] = np.array([COMPLETE, 0, 0, n])
    while size > 0:
        size -= 1
        kind, g, h, m = stack[size]
        if kind == COMPLETE and h != m:
            _, c = _complete(lay, tables, number, outward, scores, g, h, m)
            stack[size], stack[size + 1] = np.array([INCOMPLETE, g, h, c]), np.array([COMPLETE, h, c, m])
            size += 2
        elif kind == BETWEEN:
            _, r = _between(tables, g, h, m)
            after = r + (1 if h < m else -1)
            stack[size], stack[size + 1] = np.array([COMPLETE, g, h, r]), np.array([COMPLETE, g, m, after])
            size += 2
        elif kind == INCOMPLETE:
            best_tree[m] = number[h, m]
            _, s = _incomplete(lay, tables, number, outward, arc_scores, scores, single_root, g, h, m)
            if s < 0:
                stack[size] = np.array([COMPLETE, h, m, h + (1 if h < m else -1)])
                size += 1
            else:
                stack[size], stack[size + 1] = np.array([INCOMPLETE, g, h, s]), np.array([BETWEEN, h, s, m])
                size += 2
    return value

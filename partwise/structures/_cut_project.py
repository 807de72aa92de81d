"""Projection onto the polytope of cuts, Lacoste-Julien eq. (2.22), as a convex quadratic flow (appendix 2.A).

With x_j = z_j1 = 1 − z_j0 the two parts of a node ask for (x_j − b_j)² up to a constant, b_j = (p_j1 + 1 − p_j0)/2.
Given x, the part of an edge is z_e = max(|x_j − x_k|, q_e) with q_e = min(p_e, 1), which costs ½(z_e − q_e)².
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._cut_kernels import CutSpace, graph_of, may_be
from partwise.structures._maxflow import adjacency
from partwise.structures._quadratic_flow import ROUNDING, regions, solve_flow
from partwise.structures.base import project

__all__: list[str] = []


@kernel
def solve_contracted(ends, b, low, high, q, x):
    """x ← the solution where the ends of edges with q = −inf are one node; returns the gap, inf if that cannot be."""
    n, n_edges = x.shape[0], q.shape[0]
    hard, region = (q == -np.inf).astype(np.uint8), np.empty(n, np.int64)
    count = regions(ends, hard, region)
    size, pull, lowest, highest = np.zeros(count), np.zeros(count), np.zeros(count), np.ones(count)
    for j in range(n):
        r = region[j]
        size[r] += 1.0
        pull[r] += b[j]
        lowest[r] = max(lowest[r], low[j])
        highest[r] = min(highest[r], high[j])
    for r in range(count):
        if lowest[r] > highest[r]:
            return np.inf
    between, limit, live = np.empty(2 * n_edges, np.uint32), np.empty(n_edges), 0
    for e in range(n_edges):
        j, k = region[ends[2 * e]], region[ends[2 * e + 1]]
        if j != k:
            between[2 * live], between[2 * live + 1], limit[live] = j, k, q[e]
            live += 1
    start, neighbor, arc = np.empty(count + 1, np.uint32), np.empty(2 * live, np.uint32), np.empty(2 * live, np.uint32)
    adjacency(between[: 2 * live], start, neighbor, arc)
    value = np.empty(count)
    gap = solve_flow(start, neighbor, arc, between[: 2 * live], size, pull, lowest, highest, limit[:live], value)
    for j in range(n):
        x[j] = value[region[j]]
    return gap


@project.register(CutSpace)
def _(space, i, point, work, parts):
    start, neighbor, arc, ends = graph_of(space, i)
    n, n_edges = start.shape[0] - 1, ends.shape[0] // 2
    b, low, high, x = np.empty(n), np.zeros(n), np.ones(n), np.empty(n)
    q, hard = np.empty(n_edges), False
    order = space.order[space.edge_offsets[i] : space.edge_offsets[i + 1]]
    for j in range(n):
        zero = point[2 * j] if may_be(space, i, j, 0) else -np.inf
        one = point[2 * j + 1] if may_be(space, i, j, 1) else -np.inf
        if zero == -np.inf and one == -np.inf:
            return -np.inf
        if zero == -np.inf:
            low[j], b[j] = 1.0, 1.0
        elif one == -np.inf:
            high[j], b[j] = 0.0, 0.0
        else:
            b[j] = 0.5 * (one + 1.0 - zero)
    for e in range(n_edges):
        q[e] = min(point[2 * n + order[e]], 1.0)
        hard = hard or q[e] == -np.inf
    if hard:
        gap = solve_contracted(ends, b, low, high, q, x)
    else:
        gap = solve_flow(start, neighbor, arc, ends, np.ones(n), b, low, high, q, x)
    if gap == np.inf:
        return -np.inf
    if not gap <= ROUNDING * (1.0 + n):
        raise ArithmeticError("the projection onto the polytope of cuts did not converge; is the point finite?")
    for j in range(n):
        parts[2 * j], parts[2 * j + 1] = 1.0 - x[j], x[j]
    for e in range(n_edges):
        parts[2 * n + order[e]] = max(abs(x[ends[2 * e]] - x[ends[2 * e + 1]]), q[e])
    return 0.0

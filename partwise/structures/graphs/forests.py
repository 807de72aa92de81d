"""Spanning forests of factor graphs: orders in which message passing is exact, and weights of factors for TRW.

A set of factors is a forest if adding them one by one never joins two variables that are joined already. Where ρ_C is
the share of the forests that contain factor C, H(y) ≤ Σ_v H_v − Σ_C ρ_C I_C, the bound behind tree-reweighted messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.logic import NODE
from partwise.structures.graphs.pack import GraphSpace

__all__ = ["Forests", "spanning_forests"]

Ints = NDArray[np.int64]


class Forests(NamedTuple):
    """Forests of all instances. Those of instance i are forest_start[i]:forest_start[i + 1]."""

    forest_start: Ints  # (n + 1,)
    order_start: Ints  # (forests + 1,)
    order: Ints  # factors of a forest, from its roots to its leaves
    rho: NDArray[np.float64]  # (F,) share of the instance's forests that contain a factor
    sweep_start: Ints  # (n + 1,)
    sweep: Ints  # factors in the order of a sweep: the first forest, then the others


@kernel
def _find(root, v):
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v


@kernel
def grow_forest(space, i, covered, noise, chosen):
    """chosen[f] ← 1 for a forest that prefers factors in few forests so far; returns how many it covers anew."""
    first, last = space.factor_start[i], space.factor_start[i + 1]
    base, n = space.node_start[i], space.node_start[i + 1] - space.node_start[i]
    root = np.arange(n)
    keys = np.empty(last - first)
    for f in range(first, last):
        keys[f - first] = covered[f - first] + noise[f - first]
    fresh = 0
    for k in np.argsort(keys, kind="mergesort"):
        f = first + k
        chosen[k] = 0
        if space.kind[f] == NODE:
            continue
        a, b = space.slot_start[f], space.slot_start[f + 1]
        fits = True
        for s in range(a, b):
            for t in range(a, s):
                if _find(root, space.slot_node[s] - base) == _find(root, space.slot_node[t] - base):
                    fits = False
                    break
            if not fits:
                break
        if not fits:
            continue
        chosen[k] = 1
        fresh += covered[k] == 0
        for s in range(a + 1, b):
            root[_find(root, space.slot_node[s] - base)] = _find(root, space.slot_node[a] - base)
    return fresh


@kernel
def breadth_first(space, i, chosen, order):
    """order ← the chosen factors from roots to leaves; returns how many."""
    first = space.factor_start[i]
    base, n = space.node_start[i], space.node_start[i + 1] - space.node_start[i]
    start = np.zeros(n + 1, np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if chosen[f - first] != 0:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                start[space.slot_node[s] - base + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place, around = start[:n].copy(), np.empty(start[n], np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if chosen[f - first] != 0:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                v = space.slot_node[s] - base
                around[place[v]] = f
                place[v] += 1
    seen, taken = np.zeros(n, np.uint8), np.zeros(chosen.shape[0], np.uint8)
    queue = np.empty(n, np.int64)
    count = 0
    for source in range(n):
        if seen[source] != 0:
            continue
        head, tail = 0, 1
        queue[0], seen[source] = source, 1
        while head < tail:
            v = queue[head]
            head += 1
            for k in range(start[v], start[v + 1]):
                f = around[k]
                if taken[f - first] != 0:
                    continue
                taken[f - first] = 1
                order[count] = f
                count += 1
                for s in range(space.slot_start[f], space.slot_start[f + 1]):
                    u = space.slot_node[s] - base
                    if seen[u] == 0:
                        seen[u] = 1
                        queue[tail] = u
                        tail += 1
    return count


def spanning_forests(space: GraphSpace, least: int, seed: int = 0) -> Forests:
    """Forests until every factor is in one: at least ``least`` where there are cycles, one where there are none.

    A factor that meets a variable twice is in no forest: its ρ is 0, and only hard factors can be such.
    """
    rng = np.random.default_rng(seed)
    n = len(space.node_start) - 1
    forest_start, orders, rho, sweeps = [0], [], np.zeros(len(space.kind)), []
    for i in range(n):
        first, last = int(space.factor_start[i]), int(space.factor_start[i + 1])
        covered, chosen = np.zeros(last - first, np.int64), np.zeros(last - first, np.uint8)
        buffer = np.empty(last - first, np.int64)
        count = 0
        while True:
            # the first forest in the given order, where neighbours in memory are neighbours in the graph
            noise = rng.random(last - first) if count else np.zeros(last - first)
            fresh = grow_forest(space, i, covered, noise, chosen)
            if count and not fresh and count >= least:
                break
            size = breadth_first(space, i, chosen, buffer)
            orders.append(buffer[:size].copy())
            covered += chosen
            count += 1
            if count == 1:
                rest = np.flatnonzero((chosen == 0) & (space.kind[first:last] != NODE)) + first
                sweeps.append(np.concatenate([orders[-1], rest]))
                if not len(rest):
                    break
        rho[first:last] = covered / count
        forest_start.append(forest_start[-1] + count)
    sizes = [len(order) for order in orders]
    return Forests(
        np.array(forest_start, np.int64),
        np.append(0, np.cumsum(sizes)).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *orders]),
        rho,
        np.append(0, np.cumsum([len(sweep) for sweep in sweeps])).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *sweeps]),
    )

"""Minimum cuts of networks, and of networks of implications alone: the best closed set of nodes.

Where all capacities are 0 or infinite, nodes are first merged. One that nobody implies and that scores nothing above 0
is 0, and one that only a single node implies is what that node is; likewise, one that implies nothing is 1 where it
does not score below 0, and one that implies a single node is what that is. Chains and trees of implications leave
nothing.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._maxflow import SOURCE, TREE, adjacency, maximum_flow

__all__ = ["cut_implications", "cut_network"]


@kernel
def cut_network(ends, room, terminal, side):
    """side ← 1 on the source side of a minimum cut; returns capacity from the source less the flow."""
    n = terminal.shape[0]
    start, neighbor, arc = np.empty(n + 1, np.uint32), np.empty_like(ends), np.empty_like(ends)
    adjacency(ends, start, neighbor, arc)
    total = 0.0
    for j in range(n):
        total += max(terminal[j], 0.0)
    flow, forest = maximum_flow(start, neighbor, arc, ends, terminal, room)
    for j in range(n):
        side[j] = forest.nodes[j, TREE] == SOURCE
    return total - flow


@kernel
def unlink(a, after, before, first, node):
    """Take arc a out of its node's list."""
    if before[a] >= 0:
        after[before[a]] = after[a]
    else:
        first[node] = after[a]
    if after[a] >= 0:
        before[after[a]] = before[a]


@kernel
def move_arcs(old, new, after, before, first, mine, other, count, back_after, back_before, back_first, back_count):
    """The arcs of node ``old`` become arcs of ``new``; those between the two go, from the other ends' lists as well."""
    a = first[old]
    while a >= 0:
        then = after[a]
        if other[a] == new:
            unlink(a, back_after, back_before, back_first, new)
            back_count[new] -= 1
            count[old] -= 1
            mine[a] = -1
        else:
            mine[a] = new
            before[a], after[a] = -1, first[new]
            if first[new] >= 0:
                before[first[new]] = a
            first[new] = a
        a = then
    count[new] += count[old]
    first[old] = -1


@kernel
def merge_nodes(tail, head, score, root, fate):
    """Merges nodes of a network of implications tail → head, as the module says. Returns the score of those settled.

    root[j] ← the node that j was merged into, itself otherwise; fate[j] ← 0 or 1 for the settled, −1 for others. Arcs
    that are left lead between roots; of the others, tail or head becomes −1.
    """
    n, n_arcs = score.shape[0], tail.shape[0]
    out_first, in_first = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    out_after, out_before = np.empty(n_arcs, np.int64), np.full(n_arcs, -1, np.int64)
    in_after, in_before = np.empty(n_arcs, np.int64), np.full(n_arcs, -1, np.int64)
    outs, ins = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for a in range(n_arcs):
        j, k = tail[a], head[a]
        out_after[a], in_after[a] = out_first[j], in_first[k]
        if out_first[j] >= 0:
            out_before[out_first[j]] = a
        if in_first[k] >= 0:
            in_before[in_first[k]] = a
        out_first[j], in_first[k] = a, a
        outs[j] += 1
        ins[k] += 1
    waiting, stack, size = np.ones(n, np.uint8), np.arange(n)[::-1].copy(), n
    total = 0.0
    while size > 0:
        size -= 1
        j = stack[size]
        waiting[j] = 0
        if root[j] != j or fate[j] >= 0:
            continue
        low, high = score[j] <= 0.0 and ins[j] <= 1, score[j] >= 0.0 and outs[j] <= 1
        if low and ins[j] == 0:  # 0, and what it implies does not matter
            fate[j] = 0
            a = out_first[j]
            while a >= 0:
                k = head[a]
                unlink(a, in_after, in_before, in_first, k)
                ins[k] -= 1
                if waiting[k] == 0:
                    waiting[k], stack[size], size = 1, k, size + 1
                tail[a] = -1
                a = out_after[a]
        elif high and outs[j] == 0:
            fate[j] = 1
            total += score[j]
            a = in_first[j]
            while a >= 0:
                k = tail[a]
                unlink(a, out_after, out_before, out_first, k)
                outs[k] -= 1
                if waiting[k] == 0:
                    waiting[k], stack[size], size = 1, k, size + 1
                tail[a] = -1
                a = in_after[a]
        elif low or high:
            if low:
                a = in_first[j]
                k = tail[a]
                unlink(a, out_after, out_before, out_first, k)
                outs[k] -= 1
            else:
                a = out_first[j]
                k = head[a]
                unlink(a, in_after, in_before, in_first, k)
                ins[k] -= 1
            tail[a] = -1
            if low:
                in_first[j] = -1
                move_arcs(j, k, out_after, out_before, out_first, tail, head, outs, in_after, in_before, in_first, ins)
            else:
                out_first[j] = -1
                move_arcs(j, k, in_after, in_before, in_first, head, tail, ins, out_after, out_before, out_first, outs)
            root[j] = k
            score[k] += score[j]
            if waiting[k] == 0:
                waiting[k], stack[size], size = 1, k, size + 1
    return total


@kernel
def cut_implications(ends, room, terminal, side):
    """``cut_network`` where capacities are 0 or infinite: first merges what it can."""
    n, count = terminal.shape[0], 0
    for a in range(room.shape[0]):
        count += room[a] > 0.0
    tail, head = np.empty(count, np.int64), np.empty(count, np.int64)
    count = 0
    for a in range(room.shape[0]):
        if room[a] > 0.0:
            tail[count], head[count] = ends[a], ends[a ^ 1]
            count += 1
    root, fate = np.arange(n), np.full(n, -1, np.int8)
    total = merge_nodes(tail, head, terminal, root, fate)
    place, nodes, arcs = np.full(n, -1, np.int64), 0, 0
    for a in range(count):
        if tail[a] >= 0 and head[a] >= 0:
            arcs += 1
            for j in (tail[a], head[a]):
                if place[j] < 0:
                    place[j] = nodes
                    nodes += 1
    core_ends, core_room = np.empty(2 * arcs, np.uint32), np.zeros(2 * arcs)
    core, part = np.empty(nodes), np.zeros(nodes, np.uint8)
    for j in range(n):
        if place[j] >= 0:
            core[place[j]] = terminal[j]
    arcs = 0
    for a in range(count):
        if tail[a] >= 0 and head[a] >= 0:
            core_ends[2 * arcs], core_ends[2 * arcs + 1] = place[tail[a]], place[head[a]]
            core_room[2 * arcs] = np.inf
            arcs += 1
    if arcs > 0:
        total += cut_network(core_ends, core_room, core, part)
    for j in range(n):
        k = j
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        side[j] = part[place[k]] if place[k] >= 0 else np.uint8(fate[k] == 1)
    return total

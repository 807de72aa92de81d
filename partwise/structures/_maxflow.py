"""Maximum flow and minimum cut by two growing trees, after Boykov and Kolmogorov (2004); trees live on between flows.

The network has nodes 0 … n − 1, a source and a sink. An edge e between j and k is two arcs, 2e: j → k and
2e + 1: k → j, so the reverse of arc a is a ^ 1, and both residual capacities of an edge lie side by side. A node's
capacities from the source and to the sink are one number: terminal[j] > 0 is left from the source, terminal[j] < 0 is
left to the sink.

Two forests, S from the source and T to the sink, grow along arcs that are not full until they touch. The path is
filled; nodes that lose their parent look for another one close to the terminal, or go free. When nothing grows,
the flow is maximal and S is the smallest source side of a minimum cut. Capacities may be infinite: a path on which all
are makes the flow infinite, and the search ends there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel

__all__ = [
    "SOURCE",
    "TREE",
    "Forest",
    "adjacency",
    "grow_forest",
    "has_repeat",
    "maximum_flow",
    "new_forest",
    "sort_edges",
]

FREE, SOURCE, SINK = np.uint32(0), np.uint32(1), np.uint32(2)
#: Columns of what is known of a node: its tree, the arc to its parent, the distance to the terminal along parents, and
#: when that was last known to be right.
TREE, PARENT, STAMP, DISTANCE = 0, 1, 2, 3
#: What stands in place of a parent's arc.
NONE, TERMINAL, ORPHAN = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFE), np.uint32(0xFFFFFFFD)
FAR = np.uint32(0xFFFFFFFF)


class Forest(NamedTuple):
    """State of a search: two forests, the queues, and the clock that dates known distances."""

    nodes: NDArray[np.uint32]  # (n, 4) TREE, PARENT, STAMP and DISTANCE of every node, on one cache line
    queued: NDArray[np.uint8]  # (n,) whether a node waits in `active`
    active: NDArray[np.uint32]  # (n,) circular queue of nodes that may grow
    orphans: NDArray[np.uint32]  # (n,) circular queue of nodes that lost their parent
    clock: NDArray[np.int64]  # (3,) time, and head and length of `active`


@kernel
def adjacency(ends, start, neighbor, arc):
    """start, neighbor, arc ← the arcs of every node by edge; arc a leads from ends[a] to ends[a ^ 1]."""
    n = start.shape[0] - 1
    start[:] = 0
    for a in range(ends.shape[0]):
        start[ends[a] + 1] += 1
    for j in range(n):
        start[j + 1] += start[j]
    for a in range(ends.shape[0]):
        p = start[ends[a]]
        neighbor[p] = ends[a ^ 1]
        arc[p] = a
        start[ends[a]] += 1
    for j in range(n, 0, -1):
        start[j] = start[j - 1]
    start[0] = 0


@kernel
def sort_edges(given, order, ends, count):
    """ends ← the edges by their smaller node, so that what lies close in the graph lies close in memory.

    Edge e of ``ends`` is edge order[e] of ``given``. ``count`` (n + 1,) is scratch.
    """
    count[:] = 0
    for e in range(order.shape[0]):
        count[min(given[2 * e], given[2 * e + 1]) + 1] += 1
    for j in range(count.shape[0] - 1):
        count[j + 1] += count[j]
    for e in range(order.shape[0]):
        low = min(given[2 * e], given[2 * e + 1])
        place = count[low]
        count[low] += 1
        order[place] = e
        ends[2 * place], ends[2 * place + 1] = given[2 * e], given[2 * e + 1]


@kernel
def has_repeat(start, neighbor):
    """Whether some node has a neighbour twice."""
    n = start.shape[0] - 1
    seen = np.full(n, -1, np.int64)
    for j in range(n):
        for p in range(start[j], start[j + 1]):
            if seen[neighbor[p]] == j:
                return True
            seen[neighbor[p]] = j
    return False


@kernel
def new_forest(n):
    """An empty forest of n nodes."""
    nodes, queued, clock = np.zeros((n, 4), np.uint32), np.zeros(n, np.uint8), np.zeros(3, np.int64)
    return Forest(nodes, queued, np.empty(n, np.uint32), np.empty(n, np.uint32), clock)


@kernel
def activate(queued, active, clock, j):
    """Put node j into the queue of those that may grow. Arrays, not the forest: it would travel through every call."""
    if queued[j] == 0:
        n = active.shape[0]
        place = clock[1] + clock[2]
        active[np.uintp(place - n if place >= n else place)] = j
        clock[2] += 1
        queued[j] = 1


@kernel
def root(forest, terminal, j):
    """Make node j, which has capacity left at a terminal, a root, and active."""
    nodes = forest.nodes
    nodes[j, TREE] = SOURCE if terminal[j] > 0.0 else SINK
    nodes[j, PARENT] = TERMINAL
    nodes[j, STAMP] = np.uint32(forest.clock[0])
    nodes[j, DISTANCE] = 1
    activate(forest.queued, forest.active, forest.clock, j)


@kernel
def plant(forest, terminal):
    """Make every node with capacity left at a terminal a root of a forest that is empty."""
    nodes, queued, active = forest.nodes, forest.queued, forest.active
    count = np.uintp(0)
    for j in range(np.uintp(terminal.shape[0])):
        if terminal[j] != 0.0:
            nodes[j, TREE] = SOURCE if terminal[j] > 0.0 else SINK
            nodes[j, PARENT] = TERMINAL
            nodes[j, DISTANCE] = 1
            active[count] = j
            queued[j] = 1
            count += np.uintp(1)
    forest.clock[2] = count


@kernel
def push_across(start, neighbor, arc, terminal, room):
    """Send what fits from source to sink over single arcs; returns the flow, most of all where evidence is noisy."""
    total = 0.0
    for j in range(np.uintp(terminal.shape[0])):
        left = terminal[j]
        if left > 0.0:
            for p in range(np.uintp(start[j]), np.uintp(start[j + np.uintp(1)])):
                k = neighbor[p]
                if terminal[k] < 0.0:
                    a = np.uintp(arc[p])
                    amount = min(left, room[a], -terminal[k])
                    if amount == np.inf:
                        return amount
                    left -= amount
                    room[a] -= amount
                    room[a ^ np.uintp(1)] += amount
                    terminal[k] += amount
                    total += amount
                    if left <= 0.0:
                        break
            terminal[j] = left
    return total


@kernel
def push_over_two(start, neighbor, arc, terminal, room):
    """Send what fits from source to sink over two arcs; returns the flow. After ``push_across``: short paths are most
    of all, and cost no trees."""
    total, one = 0.0, np.uintp(1)
    for j in range(np.uintp(terminal.shape[0])):
        left = terminal[j]
        if left <= 0.0:
            continue
        for p in range(np.uintp(start[j]), np.uintp(start[j + one])):
            a, m = np.uintp(arc[p]), np.uintp(neighbor[p])
            if not room[a] > 0.0 or terminal[m] < 0.0:
                continue
            for q in range(np.uintp(start[m]), np.uintp(start[m + one])):
                k = neighbor[q]
                if terminal[k] < 0.0:
                    b = np.uintp(arc[q])
                    amount = min(min(left, room[a]), min(room[b], -terminal[k]))
                    if amount == np.inf:
                        return amount
                    if amount > 0.0:
                        left -= amount
                        room[a] -= amount
                        room[a ^ one] += amount
                        room[b] -= amount
                        room[b ^ one] += amount
                        terminal[k] += amount
                        total += amount
                        if not (left > 0.0 and room[a] > 0.0):
                            break
            if not left > 0.0:
                break
        terminal[j] = left
    return total


@kernel
def fill_path(ends, terminal, room, nodes, orphans, bridge):
    """Send what fits along source → … → tail of ``bridge`` → head → … → sink; returns (amount, number of orphans).

    An amount of inf leaves everything as it was.
    """
    amount = room[bridge]
    i = ends[bridge]  # the arc's tail is in S
    while nodes[i, PARENT] != TERMINAL:
        a = np.uintp(nodes[i, PARENT])
        amount = min(amount, room[a ^ np.uintp(1)])
        i = ends[a ^ np.uintp(1)]
    amount = min(amount, terminal[i])
    i = ends[bridge ^ np.uintp(1)]
    while nodes[i, PARENT] != TERMINAL:
        a = np.uintp(nodes[i, PARENT])
        amount = min(amount, room[a])
        i = ends[a ^ np.uintp(1)]
    amount = min(amount, -terminal[i])
    count = np.uintp(0)
    if amount == np.inf:
        return amount, count
    room[bridge] -= amount
    room[bridge ^ np.uintp(1)] += amount
    i = ends[bridge]
    while nodes[i, PARENT] != TERMINAL:
        a = np.uintp(nodes[i, PARENT])
        room[a] += amount
        room[a ^ np.uintp(1)] -= amount
        if room[a ^ np.uintp(1)] <= 0.0:
            nodes[i, PARENT] = ORPHAN
            orphans[count] = i
            count += np.uintp(1)
        i = ends[a ^ np.uintp(1)]
    terminal[i] -= amount
    if terminal[i] <= 0.0:
        nodes[i, PARENT] = ORPHAN
        orphans[count] = i
        count += np.uintp(1)
    i = ends[bridge ^ np.uintp(1)]
    while nodes[i, PARENT] != TERMINAL:
        a = np.uintp(nodes[i, PARENT])
        room[a] -= amount
        room[a ^ np.uintp(1)] += amount
        if room[a] <= 0.0:
            nodes[i, PARENT] = ORPHAN
            orphans[count] = i
            count += np.uintp(1)
        i = ends[a ^ np.uintp(1)]
    terminal[i] += amount
    if terminal[i] >= 0.0:
        nodes[i, PARENT] = ORPHAN
        orphans[count] = i
        count += np.uintp(1)
    return amount, count


@kernel
def adopt(start, neighbor, arc, ends, room, nodes, orphans, queued, active, clock, count):
    """Find new parents for the orphans, nearest to the terminal first; those without one go free.

    A distance is right if its stamp is of now, or where walking up meets one that is; a walk dates all it saw.
    """
    one, n = np.uintp(1), orphans.shape[0]
    now = np.uint32(clock[0])
    head, left = 0, np.int64(count)
    while left > 0:
        j = orphans[np.uintp(head)]
        head = head + 1 if head + 1 < n else 0
        left -= 1
        side = nodes[j, TREE]
        best, best_arc = FAR, NONE
        flip = np.uintp(1) if side == SOURCE else np.uintp(0)  # flow comes from the parent in S, goes to it in T
        for p in range(np.uintp(start[j]), np.uintp(start[j + one])):
            a = np.uintp(arc[p])
            if not room[a ^ flip] > 0.0:
                continue
            k = neighbor[p]
            if nodes[k, TREE] != side:
                continue
            # the distance of k, FAR if its root is an orphan
            d, i = np.uint32(0), k
            while True:
                if nodes[i, STAMP] == now:
                    d += nodes[i, DISTANCE]
                    break
                up = nodes[i, PARENT]
                d += np.uint32(1)
                if up == TERMINAL:
                    nodes[i, STAMP] = now
                    nodes[i, DISTANCE] = 1
                    break
                if up >= ORPHAN:
                    d = FAR
                    break
                i = ends[np.uintp(up) ^ one]
            if d < FAR:
                if d < best:
                    best, best_arc = d, np.uint32(a)
                i = k
                while nodes[i, STAMP] != now:
                    nodes[i, STAMP] = now
                    nodes[i, DISTANCE] = d
                    d -= np.uint32(1)
                    i = ends[np.uintp(nodes[i, PARENT]) ^ one]
                if best == np.uint32(1):  # a root: nothing is nearer
                    break
        nodes[j, PARENT] = best_arc
        if best_arc != NONE:
            nodes[j, STAMP] = now
            nodes[j, DISTANCE] = best + np.uint32(1)
            continue
        nodes[j, TREE] = FREE
        for p in range(np.uintp(start[j]), np.uintp(start[j + one])):
            k = neighbor[p]
            if nodes[k, TREE] != side:
                continue
            up = nodes[k, PARENT]
            if room[np.uintp(arc[p]) ^ flip] > 0.0:
                activate(queued, active, clock, k)
            if up < ORPHAN and ends[np.uintp(up) ^ one] == j:
                nodes[k, PARENT] = ORPHAN
                place = head + left
                orphans[np.uintp(place - n if place >= n else place)] = k
                left += 1


@kernel
def grow_forest(start, neighbor, arc, ends, terminal, room, forest):
    """Grow both forests until nothing grows; returns (flow sent, whether that is all: False if there is no bound).

    Parameters
    ----------
    start : (n + 1,), neighbor, arc : (2 · edges,)
        Node j has the arcs arc[start[j]:start[j + 1]] to the nodes neighbor[start[j]:start[j + 1]].
    ends : (2 · edges,)
        Arc a leads from ends[a] to ends[a ^ 1].
    terminal, room : residual capacities, changed in place
    forest : what has been planted, or what an earlier call left

    Notes
    -----
    Complexity: O(n² · edges · flow) in theory and close to linear on the grids and point clouds it is for.
    """
    nodes, queued, active, clock = forest.nodes, forest.queued, forest.active, forest.clock
    orphans = forest.orphans
    one, n = np.uintp(1), active.shape[0]
    total = 0.0
    while clock[2] > 0:
        i = active[np.uintp(clock[1])]
        # out of the queue before it grows: a neighbour that goes free meanwhile puts it back, to be looked at again
        queued[i] = 0
        clock[1] = clock[1] + 1 if clock[1] + 1 < n else 0
        clock[2] -= 1
        if nodes[i, TREE] != FREE:
            side = nodes[i, TREE]
            flip = np.uintp(0) if side == SOURCE else np.uintp(1)
            p, stop = np.uintp(start[i]), np.uintp(start[i + one])
            while p < stop:
                a = np.uintp(arc[p])
                if room[a ^ flip] > 0.0:
                    k = neighbor[p]
                    other = nodes[k, TREE]
                    if other == FREE:
                        nodes[k, TREE] = side
                        nodes[k, PARENT] = np.uint32(a ^ one)
                        nodes[k, STAMP] = nodes[i, STAMP]
                        nodes[k, DISTANCE] = nodes[i, DISTANCE] + np.uint32(1)
                        activate(queued, active, clock, k)
                    elif other != side:
                        amount, count = fill_path(ends, terminal, room, nodes, orphans, a ^ flip)
                        if amount == np.inf:
                            activate(queued, active, clock, i)
                            return total, False
                        total += amount
                        clock[0] += 1
                        adopt(start, neighbor, arc, ends, room, nodes, orphans, queued, active, clock, count)
                        if nodes[i, TREE] != side:
                            break
                        continue  # the same arc may still have room
                    elif (
                        nodes[k, STAMP] <= nodes[i, STAMP] and nodes[k, DISTANCE] > nodes[i, DISTANCE]
                    ):  # a shorter way for k
                        nodes[k, PARENT] = np.uint32(a ^ one)
                        nodes[k, STAMP] = nodes[i, STAMP]
                        nodes[k, DISTANCE] = nodes[i, DISTANCE] + np.uint32(1)
                p += one
    return total, True


@kernel
def maximum_flow(start, neighbor, arc, ends, terminal, room):
    """(flow, forest) of a network as in ``grow_forest``; flow = inf where it has no bound."""
    forest = new_forest(terminal.shape[0])
    flow = push_across(start, neighbor, arc, terminal, room)
    if flow < np.inf:
        flow += push_over_two(start, neighbor, arc, terminal, room)
    if flow < np.inf:
        plant(forest, terminal)
        more, bounded = grow_forest(start, neighbor, arc, ends, terminal, room, forest)
        flow = flow + more if bounded else np.inf
    return flow, forest

"""Kernels of binary submodular models: the best labelling by a minimum cut, and max-marginals by flows that go on.

The score of labels y ∈ {0, 1}^N, Σ_j s_j(y_j) + Σ_e s_e [y_j ≠ y_k] with s_e ≤ 0, is minus the value of a cut plus a
constant: capacities are (s_j(1) − s_j(0))⁺ from the source, (s_j(0) − s_j(1))⁺ to the sink, and −s_e both ways along
an edge. Label 1 is the source side (Greig et al. 1989; Lacoste-Julien eq. 2.5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import EdgeError, InputError
from partwise.structures._maxflow import ORPHAN, PARENT, SOURCE, TREE, activate, adopt, grow_forest, maximum_flow, root
from partwise.structures.base import argmax, part_count, work_size

__all__ = ["CutSpace", "best_labels", "named_edge", "node_margins", "refuse_edge"]


class CutSpace(NamedTuple):
    """Packed graphs; nodes and edges of every instance are numbered from 0."""

    node_offsets: NDArray[np.int64]  # (n + 1,)
    edge_offsets: NDArray[np.int64]  # (n + 1,)
    ends: NDArray[np.uint32]  # (2 · edges,) the two nodes of every edge
    start: NDArray[np.uint32]  # (nodes + n,) of instance i: N + 1 numbers from node_offsets[i] + i on
    neighbor: NDArray[np.uint32]  # (2 · edges,) by node; see partwise.structures._maxflow
    arc: NDArray[np.uint32]  # (2 · edges,)
    order: NDArray[np.uint32]  # (edges,) which of the given edges, and so which part, every edge is
    allowed: NDArray[np.uint8]  # (2 · nodes,) labels that a node may have, or (0,) where all may
    fault: NDArray[np.int64]  # (2,) instance and edge that were refused, for the error's words; −1 before


@part_count.register(CutSpace)
def _(space, i):
    n_nodes = space.node_offsets[i + 1] - space.node_offsets[i]
    return 2 * n_nodes + space.edge_offsets[i + 1] - space.edge_offsets[i]


@work_size.register(CutSpace)
def _(space, i):
    n_nodes = space.node_offsets[i + 1] - space.node_offsets[i]
    return n_nodes + 2 * (space.edge_offsets[i + 1] - space.edge_offsets[i])


@kernel
def graph_of(space, i):
    """(start, neighbor, arc, ends) of instance i."""
    first, last = space.node_offsets[i], space.node_offsets[i + 1]
    a, b = 2 * space.edge_offsets[i], 2 * space.edge_offsets[i + 1]
    return space.start[first + i : last + i + 1], space.neighbor[a:b], space.arc[a:b], space.ends[a:b]


@kernel
def may_be(space, i, j, label):
    """Whether node j of instance i may have the label."""
    return space.allowed.shape[0] == 0 or space.allowed[2 * (space.node_offsets[i] + j) + label] != 0


@kernel
def fill_capacities(scores, allowed, order, terminal, room):
    """terminal, room ← the capacities of the cut. Returns −1; −2 where some node may have no label; or the first
    edge, in the order given, whose ends prefer to differ.

    Plain arrays as arguments: a pack that travels through a call per node costs more than the cut.
    """
    n = np.uintp(terminal.shape[0])
    two, one = np.uintp(2), np.uintp(1)
    for j in range(n):
        zero, other = scores[two * j], scores[two * j + one]
        if allowed.shape[0] > 0:
            if allowed[two * j] == 0:
                zero = -np.inf
            if allowed[two * j + one] == 0:
                other = -np.inf
        if zero == -np.inf and other == -np.inf:
            return -2
        terminal[j] = other - zero
    wrong = -1
    for e in range(np.uintp(order.shape[0])):
        price = -scores[two * n + np.uintp(order[e])]
        if not price >= 0.0 and (wrong < 0 or order[e] < wrong):
            wrong = np.int64(order[e])
        room[two * e] = price
        room[two * e + one] = price
    return wrong


@kernel
def refuse_edge(fault, i, edge):
    """The error for an edge whose ends prefer to differ; ``fault`` says which (compiled code cannot format text)."""
    fault[0], fault[1] = i, edge
    raise InputError(
        "the score of an edge whose ends differ is above 0: the model is not submodular (eq. 2.4). "
        "Learn with nonnegative edge features and weights ≥ 0, or use an inference engine that allows repulsion."
    )


def named_edge(fault: NDArray[np.int64], structure: Any, error: InputError) -> InputError:
    """The same error with the edge that ``fault`` identifies, if it identifies one."""
    i, edge = fault.tolist()
    if i < 0:
        return error
    fault[:] = -1
    return EdgeError(edge, i, *structure.edges(i)[edge].tolist())


@kernel
def best_labels(space, i, scores, terminal, room):
    """(flow, forest) of the cut of these scores, whose residual capacities stay; flow = inf if no output is allowed."""
    start, neighbor, arc, ends = graph_of(space, i)
    order = space.order[space.edge_offsets[i] : space.edge_offsets[i + 1]]
    allowed = space.allowed
    if allowed.shape[0] > 0:
        allowed = allowed[2 * space.node_offsets[i] : 2 * space.node_offsets[i + 1]]
    fault = fill_capacities(scores, allowed, order, terminal, room)
    if fault >= 0:
        refuse_edge(space.fault, i, fault)
    if fault == -2:
        terminal[:] = 0.0
        _, forest = maximum_flow(start, neighbor, arc, ends, terminal, room)
        return np.inf, forest
    return maximum_flow(start, neighbor, arc, ends, terminal, room)


@kernel
def labels_to_parts(ends, order, nodes, scores, parts):
    """parts ← χ(y) where y_j = 1 for nodes on the source side; returns scores·parts."""
    n, two, one = np.uintp(nodes.shape[0]), np.uintp(2), np.uintp(1)
    total = 0.0
    for j in range(n):
        label = np.uintp(1) if nodes[j, TREE] == SOURCE else np.uintp(0)
        parts[two * j + one - label] = 0.0
        parts[two * j + label] = 1.0
        total += scores[two * j + label]
    for e in range(np.uintp(order.shape[0])):
        part = two * n + np.uintp(order[e])
        differ = (nodes[ends[two * e], TREE] == SOURCE) != (nodes[ends[two * e + one], TREE] == SOURCE)
        parts[part] = 1.0 if differ else 0.0
        if differ:
            total += scores[part]
    return total


@argmax.register(CutSpace)
def _(space, i, scores, work, parts):
    n = space.node_offsets[i + 1] - space.node_offsets[i]
    n_edges = space.edge_offsets[i + 1] - space.edge_offsets[i]
    flow, forest = best_labels(space, i, scores, work[:n], work[n : n + 2 * n_edges])
    if flow == np.inf:
        return -np.inf
    first, last = space.edge_offsets[i], space.edge_offsets[i + 1]
    return labels_to_parts(space.ends[2 * first : 2 * last], space.order[first:last], forest.nodes, scores, parts)


@kernel
def node_margins(space, i, scores, margins):
    """margins[j] ← (best score with y_j = 1) − (best score with y_j = 0); returns the best score of all, or −inf.

    After the maximum flow, forcing node j to the other side costs the flow that one more terminal arc at j lets
    through. That flow stays: with as much capacity added to the opposite terminal of j the model is the same up to a
    constant, so the next node continues from there with both forests (Kohli and Torr 2008).
    """
    n = margins.shape[0]
    n_edges = space.edge_offsets[i + 1] - space.edge_offsets[i]
    start, neighbor, arc, ends = graph_of(space, i)
    terminal, room = np.empty(n), np.empty(2 * n_edges)
    flow, forest = best_labels(space, i, scores, terminal, room)
    if flow == np.inf:
        return -np.inf
    labels = np.empty(n, np.uint8)
    for j in range(n):
        labels[j] = 1 if forest.nodes[j, TREE] == SOURCE else 0
    order = space.order[space.edge_offsets[i] : space.edge_offsets[i + 1]]
    best = labels_to_parts(ends, order, forest.nodes, scores, np.empty(2 * n + n_edges))
    for j in range(n):
        sign = -1.0 if labels[j] == 1 else 1.0  # a node of label 0 is forced to the source
        left = terminal[j]
        direct = max(-sign * left, 0.0)  # from terminal to terminal through j alone
        extra, bounded = 0.0, direct < np.inf
        if bounded:
            uproot(start, neighbor, arc, ends, room, forest, j)
            terminal[j] = sign * np.inf
            root(forest, terminal, np.uint32(j))
            extra, bounded = grow_forest(start, neighbor, arc, ends, terminal, room, forest)
            uproot(start, neighbor, arc, ends, room, forest, j)
            terminal[j] = left - sign * extra
            if terminal[j] != 0.0:
                root(forest, terminal, np.uint32(j))
            grow_forest(start, neighbor, arc, ends, terminal, room, forest)
        margins[j] = -sign * (direct + extra if bounded else np.inf)
    return best


@kernel
def uproot(start, neighbor, arc, ends, room, forest, j):
    """Take node j out of its tree; its children look for other parents."""
    nodes, orphans = forest.nodes, forest.orphans
    side = nodes[j, TREE]
    count = np.uintp(0)
    nodes[j, TREE] = 0
    if side == 0:
        return
    for p in range(np.uintp(start[j]), np.uintp(start[j + 1])):
        k = neighbor[p]
        if nodes[k, TREE] == side and nodes[k, PARENT] < ORPHAN and ends[np.uintp(nodes[k, PARENT]) ^ np.uintp(1)] == j:
            nodes[k, PARENT] = ORPHAN
            orphans[count] = k
            count += np.uintp(1)
    forest.clock[0] += 1
    queued, active, clock = forest.queued, forest.active, forest.clock
    adopt(start, neighbor, arc, ends, room, nodes, orphans, queued, active, clock, count)
    for p in range(np.uintp(start[j]), np.uintp(start[j + 1])):  # whoever may reach j again
        if nodes[neighbor[p], TREE] != 0:
            activate(queued, active, clock, neighbor[p])

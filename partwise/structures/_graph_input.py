"""Graphs as the structures on them take them: numbers of nodes and (E, 2) arrays of edges, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures._maxflow import adjacency, has_repeat, sort_edges

__all__ = ["NodeAtoms", "PackedGraphs", "checked_edges", "checked_labels", "checked_states", "edges_of", "pack_graphs"]

Ints = NDArray[np.int64]


class NodeAtoms(NamedTuple):
    """A state of a node."""

    node: Ints
    state: Ints


class PackedGraphs(NamedTuple):
    """Graphs side by side; see :class:`partwise.structures._cut_kernels.CutSpace`."""

    node_offsets: Ints
    edge_offsets: Ints
    ends: NDArray[np.uint32]
    start: NDArray[np.uint32]
    neighbor: NDArray[np.uint32]
    arc: NDArray[np.uint32]
    order: NDArray[np.uint32]


def edges_of(graphs: Any, i: int) -> NDArray[np.uint32]:
    """(E, 2) nodes of the edges of graph i, in the order in which they were given."""
    first, last = graphs.edge_offsets[i : i + 2]
    given = np.empty((last - first, 2), np.uint32)
    given[graphs.order[first:last]] = graphs.ends[2 * first : 2 * last].reshape(-1, 2)
    return given


def checked_edges(i: int, n_nodes: int, edges: Any) -> Ints:
    """(E, 2) nodes of every edge of graph i: whole numbers in range, no loop."""
    table = np.asarray(edges)
    if table.size == 0:
        return np.zeros((0, 2), np.int64)
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise InputError(
            f"edges of graph {i} have shape {table.shape} and type {table.dtype}; expected (E, 2) integers"
        )
    table = table.astype(np.int64)
    if table.min() < 0 or table.max() >= n_nodes:
        e = int(np.argmax(((table < 0) | (table >= n_nodes)).any(axis=1)))
        raise InputError(f"edge {e} of graph {i} is {tuple(table[e].tolist())}; the graph has nodes 0 … {n_nodes - 1}")
    loops = table[:, 0] == table[:, 1]
    if loops.any():
        e = int(np.argmax(loops))
        raise InputError(f"edge {e} of graph {i} joins node {table[e, 0]} to itself")
    return table


def _name_repeat(i: int, n_nodes: int, table: Ints) -> InputError:
    """The first edge that joins the same nodes as an earlier one."""
    low, high = table.min(axis=1), table.max(axis=1)
    code = low * n_nodes + high
    order = np.argsort(code, kind="stable")
    again = np.flatnonzero(code[order][1:] == code[order][:-1])
    first, second = order[again[0]], order[again[0] + 1]
    return InputError(f"edges {first} and {second} of graph {i} both join nodes {low[first]} and {high[first]}")


def pack_graphs(
    sizes: Sequence[int] | ArrayLike, edges: Sequence[Any], owner: str, parallel: bool = False
) -> PackedGraphs:
    """Numbers of nodes and edges of n graphs as packed arrays with the arcs of every node."""
    counts = np.asarray(sizes)
    if counts.ndim != 1 or (counts.size and counts.dtype.kind not in "iu"):
        raise ParameterError("sizes", owner, "a sequence of numbers of nodes", sizes)
    if len(counts) != len(edges):
        raise ParameterError("edges", owner, f"one array per graph, {len(counts)} in all", len(edges))
    if (counts < 1).any():
        i = int(np.argmax(counts < 1))
        raise InputError(f"graph {i} has {counts[i]} nodes; expected at least one")
    counts = counts.astype(np.int64)
    tables = [checked_edges(i, int(n), table) for i, (n, table) in enumerate(zip(counts, edges, strict=True))]
    node_offsets = np.append(0, np.cumsum(counts))
    edge_offsets = np.append(0, np.cumsum([len(table) for table in tables])).astype(np.int64)
    if 2 * edge_offsets[-1] >= 2**32 - 4:
        raise InputError(f"{edge_offsets[-1]} edges are too many for one data set; the limit is 2³¹ − 2")
    given = np.concatenate([np.zeros(0, np.uint32), *(table.astype(np.uint32).ravel() for table in tables)])
    ends, order = np.empty_like(given), np.empty(edge_offsets[-1], np.uint32)
    start = np.zeros(node_offsets[-1] + len(counts), np.uint32)
    neighbor, arc = np.empty_like(ends), np.empty_like(ends)
    for i in range(len(counts)):
        a, b = 2 * edge_offsets[i], 2 * edge_offsets[i + 1]
        rows = slice(node_offsets[i] + i, node_offsets[i + 1] + i + 1)
        sort_edges(given[a:b], order[edge_offsets[i] : edge_offsets[i + 1]], ends[a:b], start[rows])
        adjacency(ends[a:b], start[rows], neighbor[a:b], arc[a:b])
        if not parallel and has_repeat(start[rows], neighbor[a:b]):
            raise _name_repeat(i, int(counts[i]), tables[i])
    return PackedGraphs(node_offsets, edge_offsets, ends, start, neighbor, arc, order)


def checked_labels(i: int, y: Any, n_nodes: int, n_labels: int) -> Ints:
    """(N,) labels 0 … L − 1 of graph i."""
    labels = np.asarray(y)
    if labels.shape != (n_nodes,):
        raise InputError(f"labels of graph {i} have shape {labels.shape}; expected ({n_nodes},)")
    if labels.dtype.kind not in "iub":
        raise InputError(f"labels of graph {i} have type {labels.dtype}; expected integers")
    labels = labels.astype(np.int64)
    wrong = (labels < 0) | (labels >= n_labels)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InputError(f"node {j} of graph {i} has label {labels[j]}; expected 0 … {n_labels - 1}")
    return labels


def checked_states(
    allowed: Sequence[ArrayLike | None] | None, sizes: Ints, n_labels: int, owner: str
) -> NDArray[np.uint8]:
    """Flags (nodes · L,) of the labels that nodes may have, from one (N, L) mask or None per graph; (0,) if all may."""
    if allowed is None:
        return np.zeros(0, np.uint8)
    if len(allowed) != len(sizes):
        raise ParameterError("allowed", owner, f"one mask per graph, {len(sizes)} in all", len(allowed))
    flags = []
    for i, (mask, n) in enumerate(zip(allowed, sizes.tolist(), strict=True)):
        table = np.ones((n, n_labels), bool) if mask is None else np.asarray(mask).astype(bool)
        if table.shape != (n, n_labels):
            raise ParameterError("allowed", owner, f"an array of shape {(n, n_labels)} for graph {i}", table.shape)
        none = ~table.any(axis=1)
        if none.any():
            raise InputError(f"node {int(np.argmax(none))} of graph {i} has no allowed label")
        flags.append(table.ravel())
    return np.concatenate([np.zeros(0, bool), *flags]).astype(np.uint8)

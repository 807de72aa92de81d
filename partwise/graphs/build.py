"""Edges of common graphs: pixel grids, nearest neighbours of points, adjacent superpixels; networkx and
scipy.sparse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.graphs.attributed import AttributedGraph

__all__ = ["from_networkx", "from_sparse", "grid_edges", "neighbor_edges", "superpixel_edges"]

Ints = NDArray[np.int64]


def grid_edges(*shape: int, connectivity: int | None = None) -> Ints:
    """(E, 2) edges between neighbouring pixels of a (height, width) image, or voxels of a (depth, height, width) one.

    Pixels are numbered row by row, as ``ravel`` does. ``connectivity`` is 4 or 8 (with diagonals) in an image, 6 or 26
    in a volume; the smaller unless given.

    Examples
    --------
    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    >>> len(grid_edges(3, 3, connectivity=8)), len(grid_edges(3, 3, 3))
    (20, 54)
    """
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise ParameterError("shape", "grid_edges", "height and width, or depth, height and width, at least 1", shape)
    choices = {2: (4, 8), 3: (6, 26)}[len(shape)]
    wanted = choices[0] if connectivity is None else connectivity
    if wanted not in choices:
        raise ParameterError("connectivity", "grid_edges", f"{choices[0]} or {choices[1]}", connectivity)
    number, pairs = np.arange(np.prod(shape)).reshape(shape), []
    for step in product((0, 1, -1), repeat=len(shape)):
        along = [s for s in step if s]
        if along and along[0] > 0 and (len(along) == 1 or wanted == choices[1]):  # one of every two directions
            here = tuple(slice(max(-s, 0), n - max(s, 0)) for s, n in zip(step, shape, strict=True))
            there = tuple(slice(max(s, 0), n - max(-s, 0)) for s, n in zip(step, shape, strict=True))
            pairs.append(np.stack([number[here].ravel(), number[there].ravel()], axis=1))
    return np.concatenate(pairs)


def neighbor_edges(points: ArrayLike, k: int = 3, *, radius: float = np.inf) -> Ints:
    """(E, 2) edges between every point and its k nearest others, each edge once; none longer than ``radius``.

    Examples
    --------
    >>> neighbor_edges([[0.0], [1.0], [3.0]], k=1).tolist()
    [[0, 1], [1, 2]]
    """
    from scipy.spatial import cKDTree

    table = np.asarray(points, float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(f"points have shape {table.shape}; expected a finite (N, d) array")
    if k < 1:
        raise ParameterError("k", "neighbor_edges", "at least 1", k)
    n = len(table)
    distance, found = cKDTree(table).query(table, min(k + 1, n))
    found, distance = found.reshape(n, -1), np.asarray(distance).reshape(n, -1)
    pairs = np.stack([np.repeat(np.arange(n), found.shape[1]), found.ravel()], axis=1)
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & (distance.ravel() <= radius)]
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64).reshape(-1, 2)


def superpixel_edges(segments: ArrayLike) -> tuple[Ints, Ints]:
    """(edges, lengths): pairs of segments that touch in a (height, width) map of segment numbers, and along how many
    pixels.

    Examples
    --------
    >>> edges, lengths = superpixel_edges([[0, 0, 1], [2, 2, 1]])
    >>> edges.tolist(), lengths.tolist()
    ([[0, 1], [0, 2], [1, 2]], [1, 2, 1])
    """
    table = np.asarray(segments)
    if table.ndim != 2 or table.dtype.kind not in "iu" or table.size == 0 or table.min() < 0:
        raise InputError("segments must be a (height, width) array of integers ≥ 0")
    pairs = [(table[:, :-1], table[:, 1:]), (table[:-1], table[1:])]
    both = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]).astype(np.int64)
    both = np.sort(both[both[:, 0] != both[:, 1]], axis=1)
    edges, lengths = np.unique(both, axis=0, return_counts=True)
    return edges.reshape(-1, 2), lengths


def from_sparse(nodes: ArrayLike, matrix: Any) -> AttributedGraph:
    """The graph of a symmetric scipy.sparse matrix of edge weights, which become the feature of the edges.

    A weight of 0 is no edge, whether or not the matrix stores it.

    Examples
    --------
    >>> import scipy.sparse
    >>> matrix = scipy.sparse.csr_array(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> from_sparse(np.zeros((2, 1)), matrix).edge_features["edge"].tolist()
    [[2.0]]
    """
    import scipy.sparse

    table = scipy.sparse.csr_array(matrix)
    table.sum_duplicates()
    table.eliminate_zeros()
    n = len(np.asarray(nodes))
    if table.shape != (n, n):
        raise InputError(f"the matrix has shape {table.shape}; expected ({n}, {n}), one row per node")
    if abs(table - table.T).sum() > 1e-9 * max(abs(table).sum(), 1.0):
        raise InputError("the matrix is not symmetric: an edge has one weight, in both directions")
    upper = scipy.sparse.triu(table, k=0).tocoo()
    if (upper.row == upper.col).any():
        raise InputError(f"the matrix joins node {int(upper.row[np.argmax(upper.row == upper.col)])} to itself")
    return AttributedGraph(nodes, np.stack([upper.row, upper.col], axis=1).astype(np.int64), upper.data[:, None])


def from_networkx(
    graph: Any, node: str | Callable[[Any], ArrayLike] = "x", edge: str | None = None
) -> tuple[AttributedGraph, list[Any]]:
    """(the graph, its nodes in the order of their numbers) of an undirected networkx graph.

    Parameters
    ----------
    node : str or callable
        The attribute that holds the features of a node, or a function from the node to them.
    edge : str, optional
        The attribute that holds the features of an edge; a constant 1 if absent.
    """
    if graph.is_directed() or graph.is_multigraph():
        raise InputError("expected an undirected networkx graph with at most one edge between two nodes")
    names = list(graph.nodes)
    number = {name: j for j, name in enumerate(names)}

    def read(table: Any, attribute: str, what: str) -> Any:
        if attribute not in table:
            raise InputError(f"{what} has no attribute {attribute!r}; it has {sorted(map(str, table))}")
        return np.atleast_1d(np.asarray(table[attribute], float))

    rows = [node(name) if callable(node) else read(graph.nodes[name], node, f"node {name!r}") for name in names]
    pairs = np.array([(number[a], number[b]) for a, b in graph.edges], np.int64).reshape(-1, 2)
    features = None
    if edge is not None and len(pairs):
        features = np.stack([read(data, edge, f"edge {a!r}–{b!r}") for a, b, data in graph.edges(data=True)])
    return AttributedGraph(np.stack([np.asarray(row, float) for row in rows]), pairs, features), names

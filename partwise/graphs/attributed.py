"""AttributedGraph: nodes with feature vectors, edges with or without, of one type or of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError

__all__ = ["AttributedGraph"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The name of the type where there is only one.
PLAIN = "node"
PLAIN_EDGE = "edge"


class AttributedGraph:
    """A graph whose nodes have feature vectors, and whose edges may have some too.

    Nodes are numbered 0 … N − 1 over all types, type by type in the order of the mapping, and edges and labels use
    these numbers. Graphs need not be connected.

    Parameters
    ----------
    nodes : (N, D) array, or a mapping {type: (N_t, D_t) array}
    edges : (E, 2) integers, or a mapping {type: (E_t, 2) integers}
        No loops, no edge twice.
    edge_features : (E, D) array, or a mapping {type: (E_t, D_t) array}, optional
        A constant 1 for every edge if absent.

    Examples
    --------
    >>> AttributedGraph(np.zeros((3, 2)), [(0, 1), (1, 2)])
    AttributedGraph(3 nodes, 2 edges)
    >>> graph = AttributedGraph({"word": np.zeros((2, 4)), "tag": np.zeros((1, 3))}, {"has": [(0, 2), (1, 2)]})
    >>> graph, graph.offsets
    (AttributedGraph(2 word, 1 tag, 2 has), {'word': 0, 'tag': 2})
    """

    def __init__(
        self,
        nodes: ArrayLike | Mapping[str, ArrayLike],
        edges: Any = (),
        edge_features: Any = None,
    ) -> None:
        tables = nodes if isinstance(nodes, Mapping) else {PLAIN: nodes}
        self.nodes: dict[str, Floats] = {
            str(k): _matrix(v, f"features of nodes of type {k!r}") for k, v in tables.items()
        }
        self.n_nodes = sum(map(len, self.nodes.values()))
        if self.n_nodes == 0:
            raise InputError("a graph needs at least one node")
        lists = edges if isinstance(edges, Mapping) else {PLAIN_EDGE: edges}
        self.edges: dict[str, Ints] = {str(k): self._pairs(v, str(k)) for k, v in lists.items()}
        self._check_repeats()
        given = edge_features
        if given is None:
            given = {k: np.ones((len(v), 1)) for k, v in self.edges.items()}
        elif not isinstance(given, Mapping):
            if len(self.edges) != 1:
                raise InputError("features of edges of several types must be a mapping from types to arrays")
            given = {next(iter(self.edges)): given}
        if {str(k) for k in given} != set(self.edges):
            raise InputError(f"features are of edges of types {sorted(given)}; expected {sorted(self.edges)}")
        self.edge_features: dict[str, Floats] = {}
        for kind, pairs in self.edges.items():
            table = _matrix(given[kind], f"features of edges of type {kind!r}")
            if len(table) != len(pairs):
                raise InputError(f"there are {len(pairs)} edges of type {kind!r} but {len(table)} rows of features")
            self.edge_features[kind] = table

    @property
    def offsets(self) -> dict[str, int]:
        """The number of the first node of every type."""
        sizes = [len(table) for table in self.nodes.values()]
        return dict(zip(self.nodes, (np.cumsum(sizes) - sizes).tolist(), strict=True))

    @property
    def all_edges(self) -> Ints:
        """(E, 2) edges of all types, type by type."""
        return np.concatenate([np.zeros((0, 2), np.int64), *self.edges.values()])

    def _pairs(self, edges: Any, kind: str) -> Ints:
        table = np.asarray(edges)
        if table.size == 0:
            return np.zeros((0, 2), np.int64)
        if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
            raise InputError(
                f"edges of type {kind!r} have shape {table.shape}, type {table.dtype}; expected (E, 2) integers"
            )
        if table.min() < 0 or table.max() >= self.n_nodes:
            e = int(np.argmax(((table < 0) | (table >= self.n_nodes)).any(axis=1)))
            pair = tuple(table[e].tolist())
            raise InputError(f"edge {e} of type {kind!r} is {pair}; the graph has nodes 0 … {self.n_nodes - 1}")
        loops = table[:, 0] == table[:, 1]
        if loops.any():
            e = int(np.argmax(loops))
            raise InputError(f"edge {e} of type {kind!r} joins node {table[e, 0]} to itself")
        return table.astype(np.int64)

    def _check_repeats(self) -> None:
        """The same two nodes twice within a type is a mistake; two types of edge may join them."""
        for kind, pairs in self.edges.items():
            code = pairs.min(axis=1, initial=self.n_nodes) * self.n_nodes + pairs.max(axis=1, initial=0)
            order = np.argsort(code, kind="stable")
            again = np.flatnonzero(np.diff(code[order]) == 0)
            if len(again):
                first, second = order[again[0]], order[again[0] + 1]
                both = " and ".join(map(str, sorted(pairs[first].tolist())))
                raise InputError(f"edges {first} and {second} of type {kind!r} both join nodes {both}")

    def __repr__(self) -> str:
        counts = [(len(table), kind) for kind, table in (*self.nodes.items(), *self.edges.items())]
        if set(self.nodes) == {PLAIN} and set(self.edges) == {PLAIN_EDGE}:
            return f"AttributedGraph({self.n_nodes} nodes, {counts[1][0]} edges)"
        return f"AttributedGraph({', '.join(f'{n} {kind}' for n, kind in counts)})"


def _matrix(rows: Any, what: str) -> Floats:
    table = np.ascontiguousarray(rows, float)
    if table.ndim != 2:
        raise InputError(f"{what} have shape {table.shape}; expected a matrix with one row each")
    if not np.isfinite(table).all():
        row = int(np.argmax(~np.isfinite(table).all(axis=1)))
        raise InputError(f"{what} hold NaN or infinity in row {row}")
    return table

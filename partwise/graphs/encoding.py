"""From attributed graphs to output spaces and feature maps: which weight scores which part.

Parts of an instance are the states of its nodes, type by type, then those of its edges, type by type. A node of type
t with features x has the scores xᵀW_t of its L_t labels. An edge with features u has, in an *associative* model, the
score −uᵀw where its ends differ (u, w ≥ 0: eq. 2.5 of Lacoste-Julien), and in a *full* one a score uᵀW of every pair
of labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.outputs import as_list
from partwise.exceptions import InputError
from partwise.features.base import Features, Stack
from partwise.features.part_rows import PartRows
from partwise.features.rows import DenseRows
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.disagreement import DisagreementRows

__all__ = [
    "EdgeType",
    "GraphEncoder",
    "GraphFeatures",
    "NodeType",
    "accuracy",
    "check_graphs",
    "flat_labels",
    "graph_list",
    "is_missing",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GraphFeatures(Features):
    """Maps of the parts of all node and edge types, one after the other."""

    def __init__(self, packs: Sequence[Any], dim: int) -> None:
        self._dim, self._pack = dim, packs[-1]
        for pack in packs[-2::-1]:
            self._pack = Stack(pack, self._pack)

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def pack(self) -> Any:
        return self._pack


@dataclass
class NodeType:
    """What is known of the nodes of one type."""

    dim: int
    classes: list[Any]
    mean: Floats
    scale: Floats

    def rows(self, table: Floats) -> Floats:
        """(N, dim + 1) centred and scaled features with a constant 1."""
        return np.hstack([(table - self.mean) / self.scale, np.ones((len(table), 1))])


@dataclass
class EdgeType:
    """What is known of the edges of one type; ``ends`` are the types of their nodes where they all have the same."""

    dim: int
    ends: tuple[str, str] | None


@dataclass
class GraphEncoder:
    """Types, labels and scales as found in training; turns graphs into features and labels into codes."""

    full: bool
    node_types: dict[str, NodeType] = field(default_factory=dict)
    edge_types: dict[str, EdgeType] = field(default_factory=dict)

    # what training finds

    @classmethod
    def found(
        cls, graphs: Sequence[AttributedGraph], labels: Sequence[Any], *, full: bool, scale: bool
    ) -> GraphEncoder:
        """The encoder of a training set."""
        self = cls(full)
        check_graphs(graphs)
        names = _merged_order([list(graph.nodes) for graph in graphs], "nodes")
        flat = [flat_labels(i, graph, y) for i, (graph, y) in enumerate(zip(graphs, labels, strict=True))]
        for name in names:
            having = [(i, graph) for i, graph in enumerate(graphs) if name in graph.nodes]
            tables = [graph.nodes[name] for _, graph in having]
            dim = _same_width(tables, [i for i, _ in having], f"nodes of type {name!r}")
            rows = np.concatenate(tables)
            mean = rows.mean(axis=0) if scale else np.zeros(dim)
            spread = rows.std(axis=0) if scale else np.ones(dim)
            seen = [flat[i][graph.offsets[name] : graph.offsets[name] + len(graph.nodes[name])] for i, graph in having]
            classes = _classes([y for part in seen for y in part], name)
            self.node_types[name] = NodeType(dim, classes, mean, np.where(spread > 1e-12, spread, 1.0))
        for name in _merged_order([list(graph.edges) for graph in graphs], "edges"):
            having = [(i, graph) for i, graph in enumerate(graphs) if name in graph.edges]
            tables = [graph.edge_features[name] for _, graph in having]
            dim = _same_width(tables, [i for i, _ in having], f"edges of type {name!r}")
            ends = {pair for i, graph in having for pair in self._end_types(i, graph, name)}
            if full and len(ends) > 1:
                words = " and ".join(map(str, sorted(ends)))
                raise InputError(
                    f"edges of type {name!r} join nodes of types {words}; a table of weights needs one pair"
                )
            self.edge_types[name] = EdgeType(dim, next(iter(ends)) if len(ends) == 1 else None)
        return self

    def _end_types(self, i: int, graph: AttributedGraph, name: str) -> set[tuple[str, str]]:
        kinds = list(graph.nodes)
        kind = np.repeat(np.arange(len(kinds)), [len(table) for table in graph.nodes.values()])
        return {(kinds[a], kinds[b]) for a, b in np.unique(kind[graph.edges[name]], axis=0).tolist()}

    # sizes and names

    @property
    def n_labels(self) -> list[int]:
        """L of every node type."""
        return [len(kind.classes) for kind in self.node_types.values()]

    @property
    def common_classes(self) -> list[Any] | None:
        """The labels, where all types have the same."""
        first, *others = (kind.classes for kind in self.node_types.values())
        return first if all(first == other for other in others) else None

    def _pairs(self, kind: EdgeType) -> int:
        """How many weights an edge feature has."""
        if not self.full:
            return 1
        if kind.ends is None:  # no edge of this type in training
            return 0
        a, b = kind.ends
        return len(self.node_types[a].classes) * len(self.node_types[b].classes)

    @property
    def dims(self) -> tuple[int, int]:
        """Numbers of weights of nodes and of edges."""
        nodes = sum((kind.dim + 1) * len(kind.classes) for kind in self.node_types.values())
        return nodes, sum(kind.dim * self._pairs(kind) for kind in self.edge_types.values())

    @property
    def nonnegative(self) -> NDArray[np.bool_] | None:
        """Weights that keep the model associative: those of the edges, unless they are full tables."""
        nodes, edges = self.dims
        return None if self.full else np.arange(nodes + edges) >= nodes

    # graphs

    def check(self, graphs: Sequence[AttributedGraph]) -> None:
        """Raise an error for graphs whose types, orders or numbers of features are not those of training."""
        check_graphs(graphs)
        for i, graph in enumerate(graphs):
            for what, given, known in (
                ("nodes", graph.nodes, self.node_types),
                ("edges", graph.edge_features, self.edge_types),
            ):
                for name, table in given.items():
                    if name not in known:
                        if len(table) == 0:
                            continue
                        raise InputError(f"graph {i} has {what} of type {name!r}; training had {sorted(known)}")
                    if table.shape[1] != known[name].dim:
                        expected = f"expected {known[name].dim}"
                        raise InputError(
                            f"{what} of type {name!r} of graph {i} have {table.shape[1]} features; {expected}"
                        )
            order = [name for name in graph.nodes if name in self.node_types]
            if order != [name for name in self.node_types if name in graph.nodes]:
                raise InputError(f"graph {i} lists its types of nodes as {order}; expected {list(self.node_types)}")

    def features(self, graphs: Sequence[AttributedGraph], *, tables: bool = False) -> GraphFeatures:
        """The feature map of the graphs, in the order of their parts; ``tables`` has a part for every pair of
        labels."""
        packs: list[Any] = []
        base = 0
        for name, kind in self.node_types.items():
            blocks = [graph.nodes.get(name, np.zeros((0, kind.dim))) for graph in graphs]
            packs.append(DenseRows(_starts(blocks), kind.rows(np.concatenate(blocks)), len(kind.classes), base))
            base += (kind.dim + 1) * len(kind.classes)
        for name, edge in self.edge_types.items():
            blocks = [graph.edge_features.get(name, np.zeros((0, edge.dim))) for graph in graphs]
            rows, starts = np.concatenate(blocks), _starts(blocks)
            if self.full:
                packs.append(DenseRows(starts, rows, self._pairs(edge), base))
            else:
                if (rows < 0).any():
                    self._negative(name, graphs)
                if tables:
                    packs.append(DisagreementRows(starts, rows, self.n_labels[0], base))
                else:
                    packs.append(PartRows(starts, np.ascontiguousarray(-rows), base))
            base += edge.dim * self._pairs(edge)
        return GraphFeatures(packs, base)

    def _negative(self, name: str, graphs: Sequence[AttributedGraph]) -> None:
        for i, graph in enumerate(graphs):
            table = graph.edge_features.get(name, np.zeros((0, 1)))
            if (table < 0).any():
                e, d = np.argwhere(table < 0)[0].tolist()
                raise InputError(
                    f"feature {d} of edge {e} of type {name!r} in graph {i} is {table[e, d]:g}; an associative model "
                    "needs edge features ≥ 0 (interaction='full' does not)"
                )

    def edges(self, graph: AttributedGraph) -> Ints:
        """(E, 2) edges in the order of their parts."""
        empty = np.zeros((0, 2), np.int64)
        return np.concatenate([empty, *(graph.edges.get(name, empty) for name in self.edge_types)])

    def states(self, graph: AttributedGraph) -> Ints:
        """(N,) number of labels of every node."""
        sizes = [len(graph.nodes[name]) if name in graph.nodes else 0 for name in self.node_types]
        return np.repeat(self.n_labels, sizes)

    # labels

    def codes(self, i: int, graph: AttributedGraph, labels: Any) -> Ints:
        """(N,) numbers of labels, −1 for None or NaN; a label that training has not seen is an error."""
        flat, out = flat_labels(i, graph, labels), np.empty(graph.n_nodes, np.int64)
        for name, first in graph.offsets.items():
            number = {label: b for b, label in enumerate(self.node_types[name].classes)}
            for j in range(first, first + len(graph.nodes[name])):
                label = flat[j]
                if label is None:
                    out[j] = -1
                elif label in number:
                    out[j] = number[label]
                else:
                    known = ", ".join(map(repr, list(number)[:10]))
                    raise InputError(f"node {j} of graph {i} has label {label!r}; labels of its type are {known}")
        return out

    def labels(self, graph: AttributedGraph, codes: Ints) -> NDArray[Any]:
        """(N,) labels of the numbers."""
        common = self.common_classes
        if common is not None:
            return _array(common)[codes]
        out = np.empty(len(codes), object)
        for name, first in graph.offsets.items():
            here = slice(first, first + len(graph.nodes[name]))
            out[here] = [self.node_types[name].classes[b] for b in codes[here]]
        return out


def _array(classes: list[Any]) -> NDArray[Any]:
    """Labels as an array of their own type: strings, numbers, or objects where they are mixed."""
    if len({type(label) for label in classes}) == 1 and isinstance(classes[0], (str, int, float, bool)):
        return np.array(classes)
    out = np.empty(len(classes), object)
    out[:] = classes
    return out


def flat_labels(i: int, graph: AttributedGraph, labels: Any) -> list[Any]:
    """One label per node of graph i, from a sequence or a mapping from types to sequences; plain Python values."""
    if isinstance(labels, Mapping):
        if set(labels) != set(graph.nodes):
            raise InputError(f"labels of graph {i} are of types {sorted(labels)}; expected {sorted(graph.nodes)}")
        labels = [y for name in graph.nodes for y in labels[name]]
    flat = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if len(flat) != graph.n_nodes:
        raise InputError(f"graph {i} has {graph.n_nodes} nodes but {len(flat)} labels")
    return [None if is_missing(y) else y.item() if isinstance(y, np.generic) else y for y in flat]


def is_missing(value: Any) -> bool:
    """None, NaN, and what is not equal to itself, such as pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # the truth of pandas.NA is undecided
        return True


def _classes(labels: Sequence[Any], name: str) -> list[Any]:
    known = {y for y in labels if y is not None}
    if len(known) < 2:
        raise InputError(f"nodes of type {name!r} have {len(known)} different labels; expected at least 2")
    try:
        return sorted(known)
    except TypeError:
        return sorted(known, key=str)


def check_graphs(graphs: Sequence[Any]) -> None:
    """Raise an error that names the first that is no graph."""
    for i, graph in enumerate(graphs):
        if not isinstance(graph, AttributedGraph):
            raise InputError(f"graph {i} is a {type(graph).__name__}; expected an AttributedGraph")


def _same_width(tables: Sequence[Floats], numbers: Sequence[int], what: str) -> int:
    width = tables[0].shape[1]
    for i, table in zip(numbers, tables, strict=True):
        if table.shape[1] != width:
            raise InputError(f"{what} have {table.shape[1]} features in graph {i} but {width} in graph {numbers[0]}")
    result: int = width
    return result


def _merged_order(orders: Sequence[list[str]], what: str) -> list[str]:
    """All names in an order that agrees with every list; an error where two lists contradict each other."""
    merged: list[str] = []
    for order in orders:
        at = 0
        for name in order:
            if name in merged:
                at = merged.index(name) + 1
            else:
                merged.insert(at, name)
                at += 1
    for i, order in enumerate(orders):
        if what == "nodes" and order != [name for name in merged if name in order]:
            raise InputError(f"graph {i} lists its types of {what} as {order}; others have the order {merged}")
    return merged


def _starts(tables: Sequence[Floats]) -> Ints:
    return np.append(0, np.cumsum([len(table) for table in tables])).astype(np.int64)


def graph_list(X: Any) -> Sequence[AttributedGraph]:
    """X as a sequence of graphs; one graph by itself is an error."""
    if isinstance(X, AttributedGraph):
        raise InputError("X is one AttributedGraph; expected a list of graphs: [graph]")
    result: Sequence[AttributedGraph] = as_list(X, "X")
    return result


def accuracy(codes: Sequence[Ints], found: Sequence[Ints]) -> float:
    """Share of the known labels that were found."""
    known = sum(int((truth >= 0).sum()) for truth in codes)
    if known == 0:
        raise InputError("no node has a known label")
    right = sum(int(((truth >= 0) & (truth == guess)).sum()) for truth, guess in zip(codes, found, strict=True))
    return right / known

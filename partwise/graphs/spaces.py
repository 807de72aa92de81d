"""The output space of graphs by the name of an inference: cuts, expansions, or an engine of factor graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import GraphEncoder
from partwise.structures.associative import AssociativeGraph
from partwise.structures.base import Structure
from partwise.structures.cut import Cut

__all__ = ["choose_inference", "label_costs", "make_space", "pinned_states"]

Floats = NDArray[np.float64]


def choose_inference(encoder: GraphEncoder, wanted: str) -> str:
    """The inference for what an encoder has found; an error where the one that is wanted cannot do it."""
    classes = encoder.common_classes
    if encoder.full:
        if wanted in ("cut", "expansion"):
            raise ParameterError("inference", "GraphLabeler", "an engine of factor graphs with full tables", wanted)
        return wanted
    if wanted == "auto":
        if classes is None:
            raise CapabilityError(
                "types of nodes have different labels, so that edges between them cannot ask for agreement; use "
                "interaction='full'"
            )
        return "cut" if len(classes) == 2 else "expansion"
    if wanted == "cut" and (classes is None or len(classes) != 2):
        raise ParameterError(
            "inference", "GraphLabeler", "another than 'cut' where there are not just two labels", wanted
        )
    if wanted not in ("cut", "expansion") or classes is None:
        expected = (
            "'auto', 'cut' or 'expansion' where edges are associative, with the same labels for all types of nodes"
        )
        raise ParameterError("inference", "GraphLabeler", expected, wanted)
    return wanted


def make_space(
    encoder: GraphEncoder,
    graphs: Sequence[AttributedGraph],
    inference: str,
    options: dict[str, Any],
    open_states: Sequence[Mapping[int, Sequence[int]]] | None = None,
    hard: Sequence[Sequence[Any] | None] | None = None,
) -> Structure:
    """Output spaces of graphs; ``open_states`` has {node: the states it may have} for nodes that are not free."""
    if inference in ("cut", "expansion"):
        if hard is not None and any(factors for factors in hard):
            raise CapabilityError("logic constraints need an engine of factor graphs as inference; a cut has none")
        allowed, n_labels = None, encoder.n_labels[0]
        if open_states is not None:
            allowed = [np.ones((graph.n_nodes, n_labels), bool) for graph in graphs]
            for mask, known in zip(allowed, open_states, strict=True):
                for j, states in known.items():
                    mask[j] = False
                    mask[j, list(states)] = True
        sizes = [graph.n_nodes for graph in graphs]
        edges = [encoder.edges(graph) for graph in graphs]
        if inference == "cut":
            return Cut(sizes, edges, allowed=allowed, parallel_edges=True)
        return AssociativeGraph(sizes, edges, n_labels, allowed=allowed, parallel_edges=True)
    raise CapabilityError(f"no inference {inference!r} for graphs")


def pinned_states(
    encoder: GraphEncoder, graphs: Sequence[AttributedGraph], pinned: Sequence[Mapping[int, Any] | None]
) -> list[dict[int, list[int]]]:
    """{node: states} of every graph from {node: label or set of labels}."""
    if len(pinned) != len(graphs):
        raise InputError(f"there are {len(graphs)} graphs but pinned nodes of {len(pinned)}")
    found = []
    for i, (graph, known) in enumerate(zip(graphs, pinned, strict=True)):
        kinds = np.repeat(list(graph.nodes), [len(table) for table in graph.nodes.values()])
        states = {}
        for j, labels in (known or {}).items():
            if not 0 <= j < graph.n_nodes:
                raise InputError(f"pinned node {j} of graph {i}; it has nodes 0 … {graph.n_nodes - 1}")
            classes = encoder.node_types[kinds[j]].classes
            wanted = sorted(labels) if isinstance(labels, (set, frozenset)) else [labels]
            unknown = [label for label in wanted if label not in classes]
            if unknown or not wanted:
                raise InputError(f"node {j} of graph {i} is pinned to {labels!r}; its labels are {classes}")
            states[int(j)] = [classes.index(label) for label in wanted]
        found.append(states)
    return found


def label_costs(
    encoder: GraphEncoder, graphs: Sequence[AttributedGraph], codes: Sequence[Any], weights: Sequence[Any]
) -> list[tuple[Floats, float]]:
    """(p, 0) per graph: a wrong label of node j costs its weight."""
    if len(weights) != len(graphs):
        raise InputError(f"there are {len(graphs)} graphs but weights of {len(weights)}")
    costs = []
    for i, (graph, code, given) in enumerate(zip(graphs, codes, weights, strict=True)):
        weight = np.asarray(given, float)
        if weight.shape != (graph.n_nodes,) or not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise InputError(f"weights of graph {i} must be {graph.n_nodes} numbers ≥ 0; got shape {weight.shape}")
        states = encoder.states(graph)
        price = np.repeat(weight, states)
        price[np.cumsum(states) - states + code] = 0.0
        costs.append((price, 0.0))
    return costs

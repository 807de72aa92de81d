"""The output space of graphs by the name of an inference: cuts, expansions, or an engine of factor graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import CapabilityError, InputError, ParameterError, unknown_name
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import GraphEncoder
from partwise.structures.associative import AssociativeGraph
from partwise.structures.base import Structure
from partwise.structures.cut import Cut
from partwise.structures.factor_graph import ENGINES, FactorGraph
from partwise.structures.graphs.model import Graph, Hard

__all__ = ["CUTS", "choose_inference", "label_costs", "make_space", "pinned_states"]

Floats = NDArray[np.float64]


#: Inferences whose parts are one per edge; all others are engines of factor graphs, with a part per pair of labels.
CUTS = ("cut", "expansion")


def choose_inference(encoder: GraphEncoder, wanted: str) -> str:
    """The inference for what an encoder has found; an error if the one that is wanted cannot do it."""
    if wanted not in ("auto", *CUTS, *ENGINES):
        raise unknown_name("inference", wanted, ["auto", *CUTS, *ENGINES])
    classes = encoder.common_classes
    if encoder.full:
        if wanted in CUTS:
            raise ParameterError("inference", "GraphLabeler", "an engine of factor graphs with full tables", wanted)
        return wanted
    if classes is None:
        raise CapabilityError(
            "types of nodes have different labels, so that edges between them cannot ask for agreement; use "
            "interaction='full'"
        )
    if wanted == "auto":
        return "cut" if len(classes) == 2 else "expansion"
    if wanted == "cut" and len(classes) != 2:
        raise ParameterError(
            "inference", "GraphLabeler", "something other than 'cut' unless there are two labels", wanted
        )
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
    if inference in CUTS:
        if hard is not None and any(factors for factors in hard):
            raise CapabilityError(
                f"logic constraints need an engine of factor graphs; {inference!r} is not one. Use inference='ad3' or "
                "'junction_tree'."
            )
        return _cut_space(encoder, graphs, inference, open_states)
    if hard is not None and len(hard) != len(graphs):
        raise InputError(f"there are {len(graphs)} graphs but constraints on {len(hard)}")
    models = []
    for i, factors in enumerate(hard or ()):
        if isinstance(factors, Hard):
            raise InputError(f"constraint {i} is {factors}; expected one list of hard factors per graph")
    for i, graph in enumerate(graphs):
        factors = [] if hard is None else [_translated(encoder, i, graph, factor) for factor in hard[i] or ()]
        models.append(Graph(encoder.states(graph), encoder.edges(graph), factors))
    space = FactorGraph(models, inference=inference, **options)
    return space if open_states is None else space.restrict([dict(known) for known in open_states])


def _cut_space(encoder: GraphEncoder, graphs: Sequence[AttributedGraph], inference: str, open_states: Any) -> Structure:
    allowed, n_labels = None, encoder.n_labels[0]
    if open_states is not None:
        allowed = [np.ones((graph.n_nodes, n_labels), bool) for graph in graphs]
        for mask, known in zip(allowed, open_states, strict=True):
            for j, states in known.items():
                mask[j] = False
                mask[j, list(states)] = True
    sizes, edges = [graph.n_nodes for graph in graphs], [encoder.edges(graph) for graph in graphs]
    if inference == "cut":
        return Cut(sizes, edges, allowed=allowed, parallel_edges=True)
    return AssociativeGraph(sizes, edges, n_labels, allowed=allowed, parallel_edges=True)


def _kinds(graph: AttributedGraph) -> NDArray[Any]:
    """(N,) type of every node."""
    return np.repeat(np.array(list(graph.nodes), object), [len(table) for table in graph.nodes.values()])


def _translated(encoder: GraphEncoder, i: int, graph: AttributedGraph, factor: Any) -> Hard:
    """A hard factor over labels as one over states."""
    if not isinstance(factor, Hard):
        raise InputError(f"a constraint on graph {i} is a {type(factor).__name__}; expected a hard factor")
    if factor.allowed is not None:
        return factor
    literals = []
    for a in factor.literals:
        if not 0 <= a.variable < graph.n_nodes:
            raise InputError(f"{factor} on graph {i} names node {a.variable}; it has nodes 0 … {graph.n_nodes - 1}")
        classes = encoder.node_types[_kinds(graph)[a.variable]].classes
        if a.state not in classes:
            raise InputError(f"{factor} on graph {i}: label {a.state!r} of node {a.variable} is not one of {classes}")
        literals.append(a._replace(state=classes.index(a.state)))
    return replace(factor, literals=tuple(literals), words=str(factor))  # errors speak of labels


def pinned_states(
    encoder: GraphEncoder, graphs: Sequence[AttributedGraph], pinned: Sequence[Mapping[int, Any] | None]
) -> list[dict[int, list[int]]]:
    """{node: states} of every graph from {node: label or set of labels}."""
    if isinstance(pinned, Mapping):
        raise InputError("pinned is one mapping; expected a list with one per graph: pinned=[{node: label}]")
    if len(pinned) != len(graphs):
        raise InputError(f"there are {len(graphs)} graphs but pinned nodes for {len(pinned)}")
    found = []
    for i, (graph, known) in enumerate(zip(graphs, pinned, strict=True)):
        if known is not None and not isinstance(known, Mapping):
            raise InputError(
                f"pinned nodes of graph {i} are a {type(known).__name__}; expected {{node: label}} or None"
            )
        kinds = _kinds(graph)
        states = {}
        for j, labels in (known or {}).items():
            if not 0 <= j < graph.n_nodes:
                raise InputError(f"pinned node {j} of graph {i}; it has nodes 0 … {graph.n_nodes - 1}")
            classes = encoder.node_types[kinds[j]].classes
            wanted = list(labels) if isinstance(labels, (set, frozenset)) else [labels]
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
        raise InputError(f"there are {len(graphs)} graphs but weights for {len(weights)}")
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

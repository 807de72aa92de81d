"""What edges express where the user leaves it open: agreement, or a table of weights for every pair of labels.

A table can say all that agreement can and more (labels that attract, repel or follow one another). On trees its
likelihood is exact and quick, and it predicts better. With cycles and labels that agree, agreement predicts better: it
has one weight per edge feature, and minimum cuts are exact or nearly so however wide the graph is.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import GraphEncoder
from partwise.structures.graphs.elimination import elimination_order

__all__ = ["INTERACTIONS", "choose_interaction"]

INTERACTIONS = ("auto", "associative", "full", "none")

TABLE = 2**12  # entries of the largest table of a junction tree, unless a single edge has more
ENTRIES = 2**25  # of all tables of all graphs: about half a second per pass


def choose_interaction(
    graphs: Sequence[AttributedGraph], labels: Sequence[Any], *, inference: str, likelihood: bool, margins: bool
) -> str:
    """``full`` or ``associative`` for a training set.

    Parameters
    ----------
    inference : what the user asks for
    likelihood : whether the user asks for a loss that needs marginals, which cuts do not have
    margins : whether the user asks for a loss, a learner or costs, which cuts are for
    """
    encoder = GraphEncoder.found(graphs, labels, full=False, scale=False)
    agree = encoder.common_classes is not None and not any(
        (table < 0).any() for graph in graphs for table in graph.edge_features.values()
    )
    if not agree or likelihood:
        return "full"
    if margins or inference not in ("auto", "junction_tree"):
        return "associative"
    repel = repelling(encoder, graphs, labels)
    mixed = any(kind.ends is None and joins(graphs, name) for name, kind in encoder.edge_types.items())
    if not mixed and narrow(encoder, graphs, trees=not repel):
        return "full"
    if repel:
        warnings.warn(
            "joined nodes have the same label less often than by chance, which edges that ask for agreement cannot "
            "express; interaction='full' can, with reweighted messages on graphs as wide as these",
            stacklevel=4,
        )
    return "associative"


def joins(graphs: Sequence[AttributedGraph], name: str) -> bool:
    """Whether there are edges of a type."""
    return any(len(graph.edges[name]) for graph in graphs if name in graph.edges)


def repelling(encoder: GraphEncoder, graphs: Sequence[AttributedGraph], labels: Sequence[Any]) -> bool:
    """Whether the ends of some type of edges have the same label clearly less often than the labels' shares give."""
    codes = [encoder.codes(i, graph, y) for i, (graph, y) in enumerate(zip(graphs, labels, strict=True))]
    for name in encoder.edge_types:
        pairs = [code[graph.edges[name]] for graph, code in zip(graphs, codes, strict=True) if name in graph.edges]
        known = np.concatenate(pairs)
        known = known[(known >= 0).all(axis=1)]
        if len(known):
            shares = [np.bincount(column, minlength=max(encoder.n_labels)) / len(known) for column in known.T]
            chance = float(shares[0] @ shares[1])
            spread = np.sqrt(chance * (1.0 - chance) / len(known))
            if (known[:, 0] == known[:, 1]).mean() < chance - 3.0 * spread:
                return True
    return False


def narrow(encoder: GraphEncoder, graphs: Sequence[AttributedGraph], *, trees: bool) -> bool:
    """Whether the tables of the junction trees of all graphs are few and small; ``trees``: and there are no cycles."""
    total, largest = 0.0, max(encoder.n_labels) ** 2
    if not trees:
        largest = max(TABLE, largest)
    for graph in graphs:
        total += entries(encoder.states(graph), encoder.edges(graph), largest, trees)
        if total > ENTRIES:
            return False
    return True


def entries(states: NDArray[np.int64], edges: NDArray[np.int64], largest: int, tree: bool) -> float:
    """Entries of the tables of a junction tree by min-fill; infinite where one has more than ``largest``, or where
    there are cycles and none may be."""
    starts = np.arange(0, 2 * len(edges) + 1, 2, dtype=np.int64)
    scope = np.ascontiguousarray(edges, np.int64).ravel()
    order, bucket_start, bucket, _ = elimination_order(states, starts, scope, float(largest))
    if len(order) < len(states) or (tree and np.diff(bucket_start).max() > 1):
        return np.inf
    sizes = np.log2(states)
    widths = np.bincount(np.repeat(np.arange(len(order)), np.diff(bucket_start)), sizes[bucket], len(order))
    return float(np.exp2(widths + sizes[order]).sum())

"""What edges express where the user leaves it open: agreement, or a table of weights for every pair of labels.

A table can say all that agreement can and more (labels that attract, repel or follow one another), and where a
junction tree is small its likelihood is exact and quick. On wide graphs only agreement has exact or nearly exact
inference, by minimum cuts.
"""

from __future__ import annotations

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
    tables = all(kind.ends is not None for kind in encoder.edge_types.values())
    if margins or not tables or inference not in ("auto", "junction_tree"):
        return "associative"
    return "full" if small(encoder, graphs) else "associative"


def small(encoder: GraphEncoder, graphs: Sequence[AttributedGraph]) -> bool:
    """Whether the tables of the junction trees of all graphs are few and small."""
    total, largest = 0.0, max(TABLE, max(encoder.n_labels) ** 2)
    for graph in graphs:
        states, edges = encoder.states(graph), encoder.edges(graph)
        total += entries(states, edges, largest)
        if total > ENTRIES:
            return False
    return True


def entries(states: NDArray[np.int64], edges: NDArray[np.int64], largest: int) -> float:
    """Entries of the tables of a junction tree by min-fill; infinite where one has more than ``largest``."""
    starts = np.arange(0, 2 * len(edges) + 1, 2, dtype=np.int64)
    scope = np.ascontiguousarray(edges, np.int64).ravel()
    order, bucket_start, bucket, _ = elimination_order(states, starts, scope, float(largest))
    if len(order) < len(states):
        return np.inf
    sizes = np.log2(states)
    widths = np.bincount(np.repeat(np.arange(len(order)), np.diff(bucket_start)), sizes[bucket], len(order))
    return float(np.exp2(widths + sizes[order]).sum())

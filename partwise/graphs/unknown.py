"""Unknown labels in max-margin training: the concave–convex procedure (Yu and Joachims 2009).

    min_θ λ/2‖θ‖² + Σ_i [ max_y (s_i·y + ℓ_i(y)) − max_{y agrees with the known labels} s_i·y ],

where only known labels cost. The second maximum makes it non-convex: in turns the unknown labels take their best
values under the present θ, and θ is found for labels that are now complete. Neither step raises the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import check_graphs, flat_labels

__all__ = ["KnownLabels"]


class KnownLabels:
    """What is known of the labels of a training set: which nodes, their labels, and the graphs on them alone."""

    def __init__(self, graphs: Sequence[AttributedGraph], labels: Sequence[Any]) -> None:
        check_graphs(graphs)
        if len(graphs) != len(labels):
            raise InputError(f"there are {len(graphs)} graphs but labels for {len(labels)}")
        flat = [flat_labels(i, graph, y) for i, (graph, y) in enumerate(zip(graphs, labels, strict=True))]
        self.masks: list[NDArray[np.bool_]] = [np.array([label is not None for label in y], bool) for y in flat]
        self.whole = all(mask.all() for mask in self.masks)
        if self.whole:
            return
        self.pinned = [{j: label for j, label in enumerate(y) if label is not None} for y in flat]
        self.having = [i for i, mask in enumerate(self.masks) if mask.any()]
        self.graphs = [_induced(graphs[i], self.masks[i]) for i in self.having]
        self.labels = [list(self.pinned[i].values()) for i in self.having]

    def weights(self, given: Sequence[Any] | None) -> list[NDArray[np.float64]]:
        """What a mistake at each node costs: nothing where the label is unknown."""
        if given is not None and len(given) != len(self.masks):
            raise InputError(f"there are {len(self.masks)} graphs but weights for {len(given)}")
        base = [mask.astype(float) for mask in self.masks]
        return base if given is None else [np.asarray(w, float) * mask for w, mask in zip(given, base, strict=True)]


def _induced(graph: AttributedGraph, keep: NDArray[np.bool_]) -> AttributedGraph:
    """The graph on some of the nodes, with the edges between them."""
    number = np.cumsum(keep) - 1
    nodes = {
        name: table[keep[first : first + len(table)]]
        for (name, table), first in zip(graph.nodes.items(), graph.offsets.values(), strict=True)
    }
    edges, features = {}, {}
    for name, pairs in graph.edges.items():
        inside = keep[pairs].all(axis=1)
        edges[name], features[name] = number[pairs[inside]], graph.edge_features[name][inside]
    return AttributedGraph(nodes, edges, features)

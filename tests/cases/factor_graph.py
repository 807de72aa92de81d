"""Small cases of FactorGraph on junction trees, with every output listed."""

from __future__ import annotations

import graph_oracles
import numpy as np
from hypothesis import strategies as st

from cases import REGISTRY
from partwise.structures.factor_graph import FactorGraph
from partwise.testing import Case


@st.composite
def graph_cases(draw: st.DrawFn) -> Case:
    """Loopy graphs of variables of different sizes, any mix of hard factors, with and without evidence."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2))
    found = [graph_oracles.random_graph(rng, n_hard) for n_hard in counts]
    masks = None
    if draw(st.booleans()):
        masks = [rng.random(graph.states.sum()) < 0.7 for graph in found]
        for graph, mask in zip(found, masks, strict=True):
            outputs = graph_oracles.enumerate_graph(graph).outputs
            mask[np.cumsum(graph.states) - graph.states + outputs[rng.integers(len(outputs))]] = True
    structure = FactorGraph(found, inference="junction_tree", allowed=masks)
    rows = [None] * len(found) if masks is None else masks
    return Case(structure, [graph_oracles.enumerate_graph(*pair) for pair in zip(found, rows, strict=True)])


REGISTRY[FactorGraph] = graph_cases()

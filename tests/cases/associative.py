"""Small cases of AssociativeGraph, with every output listed."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.associative import AssociativeGraph
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def associative_cases(draw: st.DrawFn) -> Case:
    """Graphs of 1 to 4 nodes with up to three labels; edge scores are finite and ≤ 0."""
    n, n_labels = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    pairs = np.array([(j, k) for j in range(n) for k in range(j)]).reshape(-1, 2)
    edges = rng.permutation(pairs)[: rng.integers(0, 6)]
    mask = random_mask(rng, (n, n_labels), constrained)
    mask[np.arange(n), rng.integers(n_labels, size=n)] = True
    structure = AssociativeGraph([n], [edges], n_labels, allowed=[mask] if constrained else None)

    def tame(i: int, scores: Floats) -> Floats:
        scores[n_labels * n :] = np.maximum(-np.abs(scores[n_labels * n :]), -1e6)
        return scores

    return Case(structure, [oracles.enumerate_cuts(edges, mask, hull=False)], tame)


REGISTRY[AssociativeGraph] = associative_cases()

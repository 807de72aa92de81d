"""Small cases of Cut, with every output listed."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.cut import Cut
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def cut_cases(draw: st.DrawFn) -> Case:
    """Graphs of 1 to 4 nodes with any edges, connected or not; some labels forbidden. Edges never reward difference."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    edges, masks = [], []
    for n in sizes:
        pairs = np.array([(j, k) for j in range(n) for k in range(j)]).reshape(-1, 2)
        edges.append(rng.permutation(pairs)[: rng.integers(0, 5)])
        masks.append(random_mask(rng, (n, 2), constrained))
        masks[-1][np.arange(n), rng.integers(2, size=n)] = True
    structure = Cut(sizes, edges, allowed=masks if constrained else None)

    def tame(i: int, scores: Floats) -> Floats:
        scores[2 * sizes[i] :] = -np.abs(scores[2 * sizes[i] :])
        return scores

    return Case(structure, [oracles.enumerate_cuts(*pair) for pair in zip(edges, masks, strict=True)], tame)


REGISTRY[Cut] = cut_cases()

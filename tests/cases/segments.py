"""Small cases of Segments, with every output listed."""

from __future__ import annotations

import numpy as np
import segment_oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.segments import Segments
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def segment_cases(draw: st.DrawFn) -> Case:
    """Limits per label, instances shorter than them, any mix of hard constraints."""
    limits = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    lengths = draw(st.lists(st.integers(1, 5 if len(limits) < 3 else 4), min_size=1, max_size=3))
    constrained = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    n = len(limits)
    names = [segment_oracles.segment_parts(length, limits) for length in lengths]
    allowed = [random_mask(rng, (len(parts) - n * n,), constrained[0]) for parts in names]
    transitions = random_mask(rng, (n, n), constrained[1])
    for parts, mask, length in zip(names, allowed, lengths, strict=True):  # single tokens of label 0 stay possible
        mask[[parts.index(("segment", t, t + 1, 0)) for t in range(length)]] = True
    transitions[0, 0] = True
    given = {"allowed": allowed if constrained[0] else None, "transitions": transitions if constrained[1] else None}
    structure = Segments(lengths, n, max_length=limits, **given)
    instances = [
        segment_oracles.enumerate_segments(length, limits, mask, transitions)
        for length, mask in zip(lengths, allowed, strict=True)
    ]
    return Case(structure, instances)


REGISTRY[Segments] = segment_cases()

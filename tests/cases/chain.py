"""Small cases of Chain, with every output listed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.chain import Chain
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def chain_cases(draw: st.DrawFn) -> Case:
    """Orders 1 to 3, lengths from 1 (shorter than the order) up, tied or not, any mix of hard constraints."""
    n_labels, order, tied = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 5 if n_labels < 3 else 4), min_size=1, max_size=3))
    constrained = [draw(st.booleans()) for _ in range(4)]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    offsets = np.append(0, np.cumsum(lengths))
    shapes = [(int(offsets[-1]), n_labels), (n_labels, n_labels), (n_labels,), (n_labels,)]
    masks = [random_mask(rng, shape, limit) for shape, limit in zip(shapes, constrained, strict=True)]
    allowed, transitions, start, stop = masks
    rows = [allowed[a:b] for a, b in pairwise(offsets)]
    for row in rows:  # one sequence of each instance stays possible
        y = rng.integers(n_labels, size=len(row))
        row[np.arange(len(y)), y] = True
        transitions[y[:-1], y[1:]] = True
        start[y[0]] = stop[y[-1]] = True
    names = ("allowed", "transitions", "start", "stop")
    given = {name: mask for name, mask, limit in zip(names, masks, constrained, strict=True) if limit}
    structure = Chain(lengths, n_labels, order=order, tied=tied, **given)
    return Case(
        structure,
        [oracles.enumerate_chain(n_labels, order, tied, row, transitions, start, stop) for row in rows],
    )


REGISTRY[Chain] = chain_cases()

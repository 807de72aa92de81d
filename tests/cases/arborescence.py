"""Small cases of Arborescence, with every output listed."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.arborescence import Arborescence
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def arborescence_cases(draw: st.DrawFn) -> Case:
    """Up to 5 words without labels, 3 with; one root or several, projective or not, any mix of constraints."""
    n_labels = draw(st.sampled_from([None, None, 1, 2, 3]))
    longest = 5 if n_labels is None else {1: 4, 2: 3, 3: 3}[n_labels]
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=2))
    single_root, projective = draw(st.booleans()), draw(st.booleans())
    barred, pinned = draw(st.booleans()), n_labels is not None and draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    masks = [random_mask(rng, (n + 1, n), barred) for n in lengths]
    pins = [np.where(rng.random(n) < 0.5, rng.integers(n_labels or 1, size=n), -1) for n in lengths]
    for mask in masks:  # a tree of each instance stays possible: a chain from the root
        mask[np.arange(mask.shape[1]), np.arange(mask.shape[1])] = True
    given = {"allowed": masks if barred else None, "labels": pins if pinned else None}
    structure = Arborescence(lengths, n_labels, single_root=single_root, projective=projective, **given)
    free = [pin if pinned else np.full(len(pin), -1) for pin in pins]
    settings = (n_labels, single_root, projective)
    return Case(
        structure,
        [
            oracles.enumerate_trees(n, *settings, mask, pin.tolist())
            for n, mask, pin in zip(lengths, masks, free, strict=True)
        ],
    )


REGISTRY[Arborescence] = arborescence_cases()

"""Small cases of Multiclass, with every output listed."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.multiclass import Multiclass
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def multiclass_cases(draw: st.DrawFn) -> Case:
    n, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    constrained = draw(st.booleans())
    allowed = random_mask(rng, (n, n_labels), constrained)
    allowed[np.arange(n), rng.integers(n_labels, size=n)] = True
    structure = Multiclass(n, n_labels, allowed=allowed if constrained else None)
    return Case(structure, [oracles.enumerate_multiclass(n_labels, row) for row in allowed])


REGISTRY[Multiclass] = multiclass_cases()

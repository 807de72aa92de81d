"""Small cases of interval, with every output listed."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY
from partwise.testing import Case

Floats = NDArray[np.float64]


@st.composite
def interval_cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    return Case(oracles.Interval(sizes), [oracles.enumerate_interval(n) for n in sizes])


REGISTRY[oracles.Interval] = interval_cases()

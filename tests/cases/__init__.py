"""One file per structure: a strategy that draws small spaces of it with every output listed.

A new structure adds a file here that puts its strategy into ``REGISTRY``, and inherits every check of the suite.
"""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from partwise.structures.base import Structure
from partwise.testing import Case

#: The structures under test.
REGISTRY: dict[type[Structure], st.SearchStrategy[Case]] = {}


def random_mask(rng: np.random.Generator, shape: tuple[int, ...], constrained: bool) -> NDArray[np.bool_]:
    """What is allowed: everything, or about six in ten."""
    return rng.random(shape) < 0.6 if constrained else np.ones(shape, bool)


for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"cases.{module}")

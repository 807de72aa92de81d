"""What the checks share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from partwise.structures import base
from partwise.testing.cases import Case
from partwise.testing.enumeration import Enumeration

__all__ = ["dirty", "raises", "rank_of", "rounding"]

Floats = NDArray[np.float64]


@contextmanager
def raises(kind: type[Exception], pattern: str) -> Iterator[None]:
    """The block must raise an error of that kind whose message matches."""
    try:
        yield
    except kind as error:
        assert re.search(pattern, str(error)), f"expected a message like {pattern!r}, got {error}"
        return
    raise AssertionError(f"expected {kind.__name__}: {pattern}")


def rounding(instance: Enumeration, scores: Floats) -> float:
    """What rounding may do to a sum of scores."""
    finite = np.abs(scores[np.isfinite(scores)])
    return 1e-9 + 1e-14 * float(finite.max(initial=0.0)) * float(instance.parts.sum(axis=1).max())


def rank_of(instance: Enumeration, parts: Floats) -> int:
    """Which of the enumerated outputs these parts are."""
    off = 1e-9 if instance.parts is instance.corners else 0.0  # corners are computed, outputs are not
    found = np.flatnonzero((np.abs(instance.parts - parts) <= off).all(axis=1))
    assert len(found) == 1, f"not an output of the space: {parts}"
    return int(found[0])


def dirty(case: Case, i: int) -> tuple[Floats, Floats]:
    """Work and parts as a learner hands them over: full of what the last instance left, work too long."""
    size = base.work_size(case.structure.pack, i) + 3
    return np.full(size, np.nan), np.full(case.structure.n_parts(i), np.nan)

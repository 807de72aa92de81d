"""A small kernel through everything that is overridden in numba: callees, generic functions, machine code on disk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import Generic, kernel
from partwise._kernel_cache import packed, runtime_library, unpacked

__all__ = ["check"]


class Sample(NamedTuple):
    """Something to compute on."""

    x: NDArray[np.float64]
    n: int


@Generic
def total(sample, scale):
    """scale·Σ x, of n numbers."""


@total.register(Sample)
def _(sample, scale):
    if sample.n < 0:
        raise ValueError("n < 0")
    result = np.zeros(1)
    for j in range(sample.n):
        result[0] += scale * sample.x[j]
    return result[0]


@kernel(cache=False)
def shifted(sample, k):
    """Called with a constant and with a variable: one callee."""
    return total(sample, 1.0 * k) + k


@kernel(cache=False)
def compute(sample, k):
    """Everything at once."""
    return shifted(sample, 1) + shifted(sample, k)


def check() -> None:
    """Raise where compiled code, fresh or after a way over the disk, is not what Python says."""
    sample, bad = Sample(np.arange(4.0), 3), Sample(np.arange(4.0), -1)
    expected = 3.0 + 1 + 6.0 + 2
    _expect(compute(sample, 2), expected)
    _expect_error(compute, bad)
    dispatcher = compute.dispatcher
    (compiled,) = dispatcher.overloads.values()
    (callee,) = shifted.dispatcher.callee().overloads.values()  # one for k = 1 and any other
    _expect(type(callee.library).__name__, "CalleeLibrary")
    again = unpacked(packed(compiled), dispatcher.targetctx)
    _expect(again.entry_point(sample, 2), expected)
    _expect_error(again.entry_point, bad)
    for _ in range(2):  # written, and read
        if not runtime_library(dispatcher.targetctx).get_pointer_to_function("NRT_incref"):
            raise AssertionError("the runtime was lost")


def _expect(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def _expect_error(function: Any, bad: Sample) -> None:
    try:
        function(bad, 2)
    except ValueError:
        return
    raise AssertionError("an error inside a kernel was lost")

"""What runs on a worker: shards that it holds, sums over them, and tasks on each.

A worker keeps the problems of a run under the number of their shard. It may have lost them (it was killed and came
back) or never had them (it does the work of another): then it says which are missing, and the client sends them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.cluster.shards import Leaf, Total, add_totals, sparse, sweep_group, tree_total
from partwise.problem import Problem

__all__ = ["Missing", "Sent", "adopt", "combine", "forget", "node_total", "run_each", "run_group", "unwrap", "versions"]


class Missing(tuple):  # type: ignore[type-arg]
    """The numbers of the shards that a worker does not hold, in place of a result."""

    __slots__ = ()


class Sent:
    """A value on its way to a worker, as bytes: dask does not look into it, nor warn of its size."""

    def __init__(self, value: Any) -> None:
        self.value = value


def unwrap(sent: Sent) -> Any:
    """What was sent."""
    return sent.value


class _Held:
    """A shard on this worker."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.memory: dict[str, Any] = {}


_HELD: dict[tuple[str, int], _Held] = {}


def run_group(
    run: str, first: int, last: int, task: Callable[..., Any], finish: Callable[..., Any], common: Any
) -> Any:
    """A sweep over the shards first:last; see :meth:`partwise.cluster.shards.ShardRunner.sweep`."""
    missing = _missing(run, range(first, last))
    if missing:
        return missing
    held = [(k, _HELD[run, k].problem, _HELD[run, k].memory) for k in range(first, last)]
    return sweep_group(held, task, finish, common)


def versions() -> dict[str, str]:
    """Of all that the bits of a result depend on."""
    import numba

    from partwise._version import __version__

    return {
        "partwise": __version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def adopt(run: str, shards: Sent, n_threads: int) -> list[int]:
    """Open shards and keep them; returns their numbers."""
    for number, shard in shards.value.items():
        if (run, number) not in _HELD:
            _HELD[run, number] = _Held(shard.open(n_threads))
    return sorted(shards.value)


def forget(run: str) -> None:
    """Let go of the shards of a run, or of all where it is empty."""
    for key in [key for key in _HELD if not run or key[0] == run]:
        del _HELD[key]


def _missing(run: str, numbers: Sequence[int]) -> Missing:
    return Missing(number for number in numbers if (run, number) not in _HELD)


def node_total(run: str, first: int, last: int, common: Any, leaf: Leaf) -> Total | Missing:
    """The sum over the shards first:last, a node of the tree; sparse where that is shorter to send."""
    missing = _missing(run, range(first, last))
    if missing:
        return missing
    scratch: list[Any] = []
    numbers, vector = tree_total(lambda k: leaf(_HELD[run, k].problem, common, scratch), first, last)
    return numbers, sparse(vector)


def combine(left: Total | Missing, right: Total | Missing) -> Total | Missing:
    """The sum of two nodes; what is missing in either is missing in both."""
    if isinstance(left, Missing) or isinstance(right, Missing):
        return Missing((*(left if isinstance(left, Missing) else ()), *(right if isinstance(right, Missing) else ())))
    left = (left[0], left[1] if isinstance(left[1], tuple) else left[1].copy())  # dask may still own it
    loss, gradient = add_totals(left, right)
    return loss, sparse(gradient)


def run_each(
    run: str, numbers: Sequence[int], task: Callable[..., Any], common: Any, own: Sent | None
) -> list[Any] | Missing:
    """[task(problem, memory, common, own) of every shard]."""
    missing = _missing(run, numbers)
    if missing:
        return missing
    held = [_HELD[run, number] for number in numbers]
    return [task(h.problem, h.memory, common, None if own is None else own.value[k]) for k, h in enumerate(held)]

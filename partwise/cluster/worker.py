"""What runs on a worker: shards that it holds, sums over them, and tasks on each.

A worker keeps the problems of a run under the number of their shard. It may have lost them (it was killed and came
back) or never had them (it does the work of another): then it says which are missing, and the client sends them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.cluster.mapped import drop_pages
from partwise.cluster.shards import Gone, Leaf, Scratch, Total, add_totals, sparse, sweep_group, tree_total
from partwise.problem import Problem

__all__ = [
    "Missing",
    "Sent",
    "adopt",
    "combine",
    "deliver",
    "forget",
    "message",
    "node_total",
    "post",
    "run_each",
    "run_group",
    "unwrap",
    "versions",
]


#: The part of its memory from which on a worker gives back pages of mapped files.
SHARE = 0.5


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
_SCRATCH: dict[str, Scratch] = {}  # by run


def run_group(
    run: str, first: int, last: int, task: Callable[..., Any], finish: Callable[..., Any], common: Any
) -> Any:
    """A sweep over the shards first:last; see :meth:`partwise.cluster.shards.ShardRunner.sweep`."""
    missing = _missing(run, range(first, last))
    if missing:
        return missing
    held = [(k, _HELD[run, k].problem, _HELD[run, k].memory) for k in range(first, last)]

    def relieved(*args: Any) -> Any:
        carry = task(*args)
        _relieve()
        return carry

    return sweep_group(held, relieved, finish, common)


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
            _relieve()
    return sorted(shards.value)


def forget(run: str) -> None:
    """Release the shards of a run, or all shards if it is empty."""
    for key in [key for key in _HELD if not run or key[0] == run]:
        del _HELD[key]
    for name in [name for name in _SCRATCH if not run or name == run]:
        del _SCRATCH[name]


def _relieve() -> None:
    """Give back pages of mapped files when they are many: dask counts them, and ends workers that hold too much."""
    import psutil
    from distributed import get_worker

    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:  # not on a worker
        return
    if not limit or psutil.Process().memory_info().rss < SHARE * limit:
        return
    for held in list(_HELD.values()):
        if isinstance(held.problem, Problem):
            drop_pages(held.problem.data)


def _missing(run: str, numbers: Sequence[int]) -> Missing:
    return Missing(number for number in numbers if (run, number) not in _HELD)


def node_total(run: str, first: int, last: int, common: Any, leaf: Leaf) -> Total | Missing:
    """The sum over the shards first:last, a node of the tree; sparse where that is shorter to send."""
    missing = _missing(run, range(first, last))
    if missing:
        return missing
    scratch = _SCRATCH.setdefault(run, Scratch())

    def one(number: int) -> Total:
        total = leaf(_HELD[run, number].problem, common, scratch)
        _relieve()
        return total

    numbers, vector = tree_total(one, first, last, scratch)
    sent = sparse(vector)
    if sent is not vector:
        scratch.release(vector)
    return numbers, sent


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
    found = []
    for k, h in enumerate(held):
        found.append(task(h.problem, h.memory, common, None if own is None else own.value[k]))
        _relieve()
    return found


def post(run: str, number: int, send: Callable[..., Any], common: Any) -> Any:
    """The messages of a shard to others; see :meth:`partwise.cluster.shards.ShardRunner.exchange`."""
    missing = _missing(run, (number,))
    if missing:
        return missing
    held = _HELD[run, number]
    return send(held.problem, held.memory, common)


def message(posted: Any, place: int) -> Any:
    """One of the messages of a shard: what travels by itself."""
    return posted if isinstance(posted, Missing | Gone) else posted[place]


def deliver(run: str, number: int, receive: Callable[..., Any], common: Any, *messages: Any) -> Any:
    """What a shard makes of the messages to it."""
    missing = Missing({*_missing(run, (number,)), *(k for m in messages if isinstance(m, Missing) for k in m)})
    if missing:
        return missing
    gone = [m for m in messages if isinstance(m, Gone)]
    if gone:
        return gone[0]
    held = _HELD[run, number]
    return receive(held.problem, held.memory, common, messages)

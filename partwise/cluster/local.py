"""Shards in this process, one after another: data larger than memory on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.cluster.shards import Shard, dense, shard_total, tree_total
from partwise.problem import Problem

__all__ = ["LocalRunner"]


class LocalRunner:
    """Works through the shards in order, on the threads of this process.

    A shard is opened when it is first needed and stays open: what it holds are pages of files, which the system drops
    when it needs the memory.
    """

    def __init__(self, shards: Sequence[Shard], n_threads: int = 1) -> None:
        self.shards, self.n_threads = list(shards), n_threads
        self._open: dict[int, Problem] = {}
        self._memories: list[dict[str, Any]] = [{} for _ in self.shards]

    def problem(self, number: int) -> Problem:
        """The problem of a shard."""
        if number not in self._open:
            self._open[number] = self.shards[number].open(self.n_threads)
        return self._open[number]

    def each(self, task: Callable[..., Any], common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        return [
            task(self.problem(k), self._memories[k], common, None if own is None else own[k])
            for k in range(len(self.shards))
        ]

    def total(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        loss, gradient = tree_total(lambda k: shard_total(self.problem(k), theta), 0, len(self.shards))
        return loss, dense(gradient)

    def close(self) -> None:
        self._open.clear()
        self._memories = [{} for _ in self.shards]

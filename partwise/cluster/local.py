"""Shards in this process, one after another: data larger than memory on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.cluster.shards import (
    Leaf,
    Scratch,
    Shard,
    dense,
    group_borders,
    shard_total,
    sweep_group,
    tree_total,
    unless_gone,
)
from partwise.problem import Problem

__all__ = ["LocalRunner"]


class LocalRunner:
    """Works through the shards in order, on the threads of this process.

    A shard is opened when it is first needed and stays open: what it holds are pages of files, which the system drops
    when it needs the memory. ``n_groups`` > 1 does what a cluster of so many workers would do, one after another.
    """

    def __init__(self, shards: Sequence[Shard], n_threads: int = 1, n_groups: int = 1) -> None:
        self.shards, self.n_threads, self.n_groups = list(shards), n_threads, n_groups
        self._open: dict[int, Problem] = {}
        self._memories: list[dict[str, Any]] = [{} for _ in self.shards]
        self._scratch = Scratch()

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

    def total(self, common: Any, leaf: Leaf = shard_total) -> tuple[Any, NDArray[np.float64]]:
        scratch = self._scratch
        numbers, vector = tree_total(lambda k: leaf(self.problem(k), common, scratch), 0, len(self.shards), scratch)
        return numbers, dense(vector)

    def borders(self, groups: int) -> list[int]:
        return group_borders(len(self.shards), groups)

    def sweep(
        self, task: Callable[..., Any], finish: Callable[..., Any], borders: Sequence[int], common: Any
    ) -> list[Any]:
        return [
            sweep_group([(k, self.problem(k), self._memories[k]) for k in range(a, b)], task, finish, common)
            for a, b in pairwise(borders)
        ]

    def exchange(
        self, send: Callable[..., Any], receive: Callable[..., Any], senders: range, receivers: range, common: Any
    ) -> list[Any]:
        posted = unless_gone([send(self.problem(k), self._memories[k], common) for k in senders])
        return unless_gone(
            [
                receive(self.problem(k), self._memories[k], common, tuple(messages[place] for messages in posted))
                for place, k in enumerate(receivers)
            ]
        )

    def at(self, task: Callable[..., Any], numbers: range, common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        return unless_gone(
            [
                task(self.problem(k), self._memories[k], common, None if own is None else own[place])
                for place, k in enumerate(numbers)
            ]
        )

    def replace(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.close()

    def close(self) -> None:
        self._open.clear()
        self._memories, self._scratch = [{} for _ in self.shards], Scratch()

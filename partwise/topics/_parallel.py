"""A thread pool over blocks of documents; kernels release the GIL and results do not depend on the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise._threads import Threads
from partwise.estimation.base import thread_count

__all__ = ["blocks_of", "run_all"]


def blocks_of(sizes: np.ndarray, n_blocks: int) -> list[np.ndarray]:
    """Indices 0..len(sizes)−1 in ``n_blocks`` runs of about equal total size (some may be empty)."""
    cumulative = np.cumsum(sizes)
    total = cumulative[-1] if cumulative.size else 0
    cuts = np.searchsorted(cumulative, total * np.arange(1, n_blocks) / n_blocks, side="left")
    return np.split(np.arange(sizes.size), cuts)


def run_all(task: Callable[[Any], Any], items: Sequence[Any], n_jobs: int) -> list[Any]:
    """[task(item) for item in items], on up to ``n_jobs`` threads, in order."""
    found: list[Any] = [None] * len(items)

    def one(place: int) -> None:
        found[place] = task(items[place])

    Threads(thread_count(n_jobs)).each(one, [(place,) for place in range(len(items))])
    return found

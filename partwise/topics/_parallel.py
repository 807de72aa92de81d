"""A thread pool over blocks of documents; kernels release the GIL and results do not depend on the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

__all__ = ["blocks_of", "run_all"]


def blocks_of(sizes: np.ndarray, n_blocks: int) -> list[np.ndarray]:
    """Indices 0..len(sizes)−1 in ``n_blocks`` runs of about equal total size (some may be empty)."""
    cumulative = np.cumsum(sizes)
    total = cumulative[-1] if cumulative.size else 0
    cuts = np.searchsorted(cumulative, total * np.arange(1, n_blocks) / n_blocks, side="left")
    return np.split(np.arange(sizes.size), cuts)


def run_all(task: Callable[[Any], Any], items: Sequence[Any], n_jobs: int) -> list[Any]:
    """[task(item) for item in items], on up to ``n_jobs`` threads, in order."""
    if n_jobs == 1 or len(items) < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(max_workers=n_jobs) as pool:
        return list(pool.map(task, items))

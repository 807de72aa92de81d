"""Bootstrap over instances: what an interval is, and how rows of counts are resampled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import ParameterError, unknown_name

__all__ = ["Bootstrap", "PairedBootstrap", "Seed", "check_bootstrap", "ratio", "resample"]

Seed = int | np.random.Generator | None


class Bootstrap(NamedTuple):
    """A score, its percentile interval at ``level``, and the resampled scores [n]."""

    estimate: float
    low: float
    high: float
    level: float
    samples: NDArray[np.float64]


class PairedBootstrap(NamedTuple):
    """score(a) - score(b) on the same sentences, its percentile interval, and a two-sided p-value."""

    difference: float
    low: float
    high: float
    level: float
    p_value: float
    samples: NDArray[np.float64]


_METRICS = ("f1", "precision", "recall", "accuracy")


def check_bootstrap(owner: str, metric: str, n: int, level: float) -> None:
    if metric not in _METRICS:
        raise unknown_name("metric", metric, _METRICS)
    if not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError("n", owner, "a positive integer", n)
    if not 0 < level < 1:
        raise ParameterError("level", owner, "in (0, 1)", level)


def ratio(terms: NDArray[np.int64]) -> NDArray[np.float64]:
    above, below = terms[..., 0], terms[..., 1]
    # 0 / 0 is 0, as in ChunkCounts.
    return np.asarray(above / np.maximum(below, 1), np.float64)


def resample(counts: NDArray[np.int64], n: int, random_state: Seed) -> NDArray[np.int64]:
    """Sums of the rows over n draws, with replacement, of as many rows as there are.

    Equal rows are drawn as one with their joint probability, which is the same distribution at a cost
    that grows with the number of distinct rows only.
    """
    rows, copies = np.unique(counts, axis=0, return_counts=True)
    draws = np.random.default_rng(random_state).multinomial(len(counts), copies / len(counts), size=n)
    return draws @ rows

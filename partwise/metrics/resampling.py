"""Bootstrap over sentences: intervals of a score, and of the difference of two systems."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import ParameterError, unknown_name
from partwise.metrics.chunks import ChunkScores, chunk_scores
from partwise.metrics.tokens import Tags

__all__ = ["Bootstrap", "PairedBootstrap", "bootstrap", "paired_bootstrap"]

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


def bootstrap(
    gold: Tags,
    predicted: Tags,
    metric: str = "f1",
    n: int = 1000,
    level: float = 0.95,
    random_state: Seed = 0,
    scheme: str = "conlleval",
) -> Bootstrap:
    """Percentile interval of a score: quantiles (1 ± level) / 2 over n resamples of the sentences.

    Parameters
    ----------
    metric : {"f1", "precision", "recall", "accuracy"}
    n : int
        Number of resamples.
    level : float
        Coverage of the interval, in (0, 1).

    Examples
    --------
    >>> gold = [["B-X"], ["B-X"], ["O"], ["B-X"]]
    >>> result = bootstrap(gold, [["B-X"], ["O"], ["O"], ["B-X"]], n=200)
    >>> result.estimate, result.low <= result.estimate <= result.high
    (0.8, True)
    """
    _check_bootstrap("bootstrap", metric, n, level)
    terms = _terms(chunk_scores(gold, predicted, scheme), metric)
    samples = _ratio(_resample(terms, n, random_state))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Bootstrap(float(_ratio(terms.sum(axis=0))), float(low), float(high), level, samples)


def paired_bootstrap(
    gold: Tags,
    a: Tags,
    b: Tags,
    metric: str = "f1",
    n: int = 1000,
    level: float = 0.95,
    random_state: Seed = 0,
    scheme: str = "conlleval",
) -> PairedBootstrap:
    """p = (1 + #{|d* - d| >= |d|}) / (n + 1) for d = score(a) - score(b) and its n resamples d*.

    Both systems are scored on the same resampled sentences. Under the hypothesis of no difference d*
    varies around 0 as it does here around d, hence the shift.

    Examples
    --------
    >>> gold = [["B-X"], ["B-X"], ["O"], ["B-X"]]
    >>> result = paired_bootstrap(gold, gold, [["B-X"], ["O"], ["O"], ["B-X"]], n=200)
    >>> round(result.difference, 3), result.p_value > 0.05
    (0.2, True)
    """
    _check_bootstrap("paired_bootstrap", metric, n, level)
    terms = np.concatenate([_terms(chunk_scores(gold, c, scheme), metric) for c in (a, b)], axis=1)
    drawn, total = _resample(terms, n, random_state), terms.sum(axis=0)
    samples = _ratio(drawn[:, :2]) - _ratio(drawn[:, 2:])
    difference = float(_ratio(total[:2]) - _ratio(total[2:]))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    # A margin for rounding, lest a resample that equals 0 count or not by its last bit.
    extreme = int(np.sum(np.abs(samples - difference) >= abs(difference) - 1e-12))
    return PairedBootstrap(difference, float(low), float(high), level, (1 + extreme) / (n + 1), samples)


_METRICS = ("f1", "precision", "recall", "accuracy")


def _check_bootstrap(owner: str, metric: str, n: int, level: float) -> None:
    if metric not in _METRICS:
        raise unknown_name("metric", metric, _METRICS)
    if not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError("n", owner, "a positive integer", n)
    if not 0 < level < 1:
        raise ParameterError("level", owner, "in (0, 1)", level)


def _terms(scores: ChunkScores, metric: str) -> NDArray[np.int64]:
    """Numerator and denominator of the metric, sentence by sentence: both are sums over sentences."""
    correct, gold, predicted, right, tokens = scores.per_sentence.T
    terms = {
        "f1": (2 * correct, gold + predicted),
        "precision": (correct, predicted),
        "recall": (correct, gold),
        "accuracy": (right, tokens),
    }
    return np.stack(terms[metric], axis=1)


def _ratio(terms: NDArray[np.int64]) -> NDArray[np.float64]:
    above, below = terms[..., 0], terms[..., 1]
    # 0 / 0 is 0, as in ChunkCounts.
    return np.asarray(above / np.maximum(below, 1), np.float64)


def _resample(counts: NDArray[np.int64], n: int, random_state: Seed) -> NDArray[np.int64]:
    """Sums of the rows over n draws, with replacement, of as many rows as there are.

    Equal rows are drawn as one with their joint probability, which is the same distribution at a cost
    that grows with the number of distinct rows only.
    """
    rows, copies = np.unique(counts, axis=0, return_counts=True)
    draws = np.random.default_rng(random_state).multinomial(len(counts), copies / len(counts), size=n)
    return draws @ rows

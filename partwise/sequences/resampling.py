"""Bootstrap over sentences: intervals of a score, and of the difference of two systems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.metrics.resampling import Bootstrap, PairedBootstrap, Seed, check_bootstrap, ratio, resample
from partwise.sequences.chunks import ChunkScores, chunk_scores
from partwise.sequences.tokens import Tags

__all__ = ["bootstrap", "paired_bootstrap"]


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
    check_bootstrap("bootstrap", metric, n, level)
    terms = _terms(chunk_scores(gold, predicted, scheme), metric)
    samples = ratio(resample(terms, n, random_state))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Bootstrap(float(ratio(terms.sum(axis=0))), float(low), float(high), level, samples)


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
    check_bootstrap("paired_bootstrap", metric, n, level)
    terms = np.concatenate([_terms(chunk_scores(gold, c, scheme), metric) for c in (a, b)], axis=1)
    drawn, total = resample(terms, n, random_state), terms.sum(axis=0)
    samples = ratio(drawn[:, :2]) - ratio(drawn[:, 2:])
    difference = float(ratio(total[:2]) - ratio(total[2:]))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    # A margin for rounding, so that a resample equal to 0 does not count by its last bit.
    extreme = int(np.sum(np.abs(samples - difference) >= abs(difference) - 1e-12))
    return PairedBootstrap(difference, float(low), float(high), level, (1 + extreme) / (n + 1), samples)


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

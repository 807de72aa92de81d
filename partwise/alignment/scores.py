"""Alignment error rate with sure and possible links: Och and Ney (2003)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.link_files import GoldLinks, Link
from partwise.exceptions import InputError, unknown_name
from partwise.metrics.resampling import Bootstrap, Seed, check_bootstrap, ratio, resample

__all__ = ["AlignmentScores", "alignment_bootstrap", "alignment_scores"]


class AlignmentScores(NamedTuple):
    """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), summed over all pairs; fractions, 0 / 0 is 0.

    ``precision`` = |A ∩ P| / |A|, ``recall`` = |A ∩ S| / |S|, ``f1`` their harmonic mean; ``counts`` [pairs, 4] holds
    |A|, |S|, |A ∩ S| and |A ∩ P| of each pair.
    """

    aer: float
    precision: float
    recall: float
    f1: float
    counts: NDArray[np.int64]

    def report(self) -> str:
        """One line in percent."""
        linked, sure = self.counts[:, :2].sum(axis=0)
        return (
            f"AER {100 * self.aer:.2f}  precision {100 * self.precision:.2f}  recall {100 * self.recall:.2f}  "
            f"F {100 * self.f1:.2f}  ({len(self.counts)} pairs, {linked} links, {sure} sure)"
        )


def alignment_scores(
    gold: Sequence[GoldLinks | Iterable[Link]], predicted: Sequence[Iterable[Link]]
) -> AlignmentScores:
    """Score links (source position, target position) against gold ones.

    Parameters
    ----------
    gold : one GoldLinks per pair, or plain links, which are all sure
    predicted : one collection of links per pair: tuples (i, j), or the rows of an (n, 2) array

    Examples
    --------
    >>> gold = [GoldLinks.of([(0, 0), (1, 1)], [(1, 2)])]
    >>> scores = alignment_scores(gold, [[(0, 0), (1, 2), (2, 2)]])
    >>> print(scores.report())
    AER 40.00  precision 66.67  recall 50.00  F 57.14  (1 pairs, 3 links, 2 sure)
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold pairs but {len(predicted)} predicted ones")
    counts = np.zeros((len(gold), 4), np.int64)
    for row, wanted, links in zip(counts, gold, predicted, strict=True):
        target: Any = wanted if hasattr(wanted, "sure") else GoldLinks.of(_links(wanted))
        found = _links(links)
        row[:] = len(found), len(target.sure), len(found & target.sure), len(found & target.possible)
    total = counts.sum(axis=0)
    precision, recall = (float(ratio(np.array(pair))) for pair in ((total[3], total[0]), (total[2], total[1])))
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return AlignmentScores(_aer(total), precision, recall, f1, counts)


def _links(links: Iterable[Link]) -> set[Link]:
    """As pairs of integers; an (n, 2) array, as ``Matching.decode`` returns, has rows instead."""
    return {(int(i), int(j)) for i, j in links}


def _aer(counts: NDArray[np.int64]) -> float:
    below = int(counts[0] + counts[1])
    return 1.0 - float(counts[2] + counts[3]) / below if below else 0.0


def alignment_bootstrap(
    gold: Sequence[GoldLinks | Iterable[Link]],
    predicted: Sequence[Iterable[Link]],
    metric: str = "aer",
    n: int = 1000,
    level: float = 0.95,
    random_state: Seed = 0,
) -> Bootstrap:
    """Percentile interval of a score over n resamples of the sentence pairs.

    Parameters
    ----------
    metric : {"aer", "precision", "recall"}

    Examples
    --------
    >>> result = alignment_bootstrap([[(0, 0)], [(0, 0)], [(0, 1)]], [[(0, 0)], [(0, 0)], [(1, 1)]], n=200)
    >>> round(result.estimate, 3), result.low <= result.estimate <= result.high
    (0.333, True)
    """
    if metric not in ("aer", "precision", "recall"):
        raise unknown_name("metric", metric, ("aer", "precision", "recall"))
    check_bootstrap("alignment_bootstrap", "f1", n, level)
    scores = alignment_scores(gold, predicted)
    linked, sure, both, possible = scores.counts.T
    terms = {
        "aer": (linked + sure - both - possible, linked + sure),
        "precision": (possible, linked),
        "recall": (both, sure),
    }
    samples = ratio(resample(np.stack(terms[metric], axis=1), n, random_state))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Bootstrap(float(getattr(scores, metric)), float(low), float(high), level, samples)

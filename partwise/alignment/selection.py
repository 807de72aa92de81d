"""The choice of C of a word aligner by cross-validation on its gold pairs, compared with its generative aligner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.scores import alignment_scores

__all__ = ["FEW", "GRID", "Selection", "difference_error", "select"]

GRID = (0.01, 0.1, 1.0)
FOLDS = 5
SURE = 2.0  # standard errors by which the best C must beat the generative aligner: 95% two-sided
FEW = 0.1  # C where there are fewer than two pairs, of which none could be held out


class Selection(NamedTuple):
    """C, the alignment error rate of each C on pairs it was not trained on, and that of the generative aligner.

    ``standard_error`` is that of the difference between the chosen C and the generative aligner, over the gold pairs.
    """

    C: float
    errors: dict[float, float]
    generative: float
    standard_error: float = 0.0

    @property
    def improves(self) -> bool:
        """Whether training on gold links improved on the generative aligner; if not, the latter's links are returned.

        A gain within two standard errors may be chance, especially for the best of several C; then the
        simpler model is kept, following Breiman et al. (1984, §3.4.3).
        """
        return not self.errors or self.generative - self.errors[self.C] > SURE * self.standard_error

    def __str__(self) -> str:
        found = ", ".join(f"{100 * error:.2f}% with C = {C:g}" for C, error in self.errors.items())
        below = f"{100 * self.generative:.2f}% by the generative aligner"
        return f"cross-validated AER {found or 'unknown'}; {below}" + (
            f" (standard error of the difference {100 * self.standard_error:.2f})" if self.errors else ""
        )


def select(
    train: Callable[[list[int], list[int], Sequence[float]], list[list[list[Link]]]],
    gold: Sequence[GoldLinks],
    generative: Sequence[Any],
    seed: int,
) -> Selection:
    """argmin_C AER of all pairs, each aligned by weights learned from the other folds; the smaller C of equal ones.

    Parameters
    ----------
    train : of (training pairs, held-out pairs, values of C) → for each C the links of the held-out pairs
    gold : gold links of all pairs
    generative : links of all pairs by the generative aligner, which has seen no gold links
    """
    baseline = alignment_scores(gold, generative)
    folds = min(FOLDS, len(gold))
    if folds < 2:
        return Selection(FEW, {}, baseline.aer)
    order = np.random.default_rng(seed).permutation(len(gold))
    links: list[list[Any]] = [[()] * len(gold) for _ in GRID]
    for fold in range(folds):
        held = np.sort(order[fold::folds]).tolist()
        rest = np.setdiff1d(order, held).tolist()
        for found, lines in zip(train(rest, held, GRID), links, strict=True):
            for i, pair in zip(held, found, strict=True):
                lines[i] = pair
    scores = {C: alignment_scores(gold, found) for C, found in zip(GRID, links, strict=True)}
    best = min(scores, key=lambda C: (scores[C].aer, C))
    error = difference_error(baseline.counts, scores[best].counts)
    return Selection(best, {C: found.aer for C, found in scores.items()}, baseline.aer, error)


def difference_error(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Standard error of AER(first) − AER(second) on the same n pairs, by the jackknife.

    √((n − 1)/n · Σ_i (d_i − d̄)²), d_i the difference without pair i; both hold (n, 4) counts of ``AlignmentScores``.

    Examples
    --------
    >>> a, b = np.array([[2, 2, 2, 2], [2, 2, 0, 0]]), np.array([[2, 2, 1, 1], [2, 2, 1, 1]])
    >>> difference_error(a, b)  # ∓ 1/2 without the one or the other
    0.5
    """
    without = []
    for counts in (first, second):
        linked, sure, both, possible = counts.sum(axis=0)[:, None] - counts.T
        without.append(1.0 - (both + possible) / np.maximum(linked + sure, 1))
    left_out = without[0] - without[1]
    return float(np.sqrt((len(left_out) - 1) * left_out.var()))

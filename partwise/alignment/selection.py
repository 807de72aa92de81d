"""C of a word aligner by cross-validation on its gold pairs, beside the error of the generative aligner under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.scores import alignment_scores

__all__ = ["FEW", "GRID", "Selection", "select"]

GRID = (0.01, 0.1, 1.0)
FOLDS = 5
FEW = 0.1  # C where there are fewer than two pairs, of which none could be held out


class Selection(NamedTuple):
    """C, the alignment error rate of each C on pairs it was not trained on, and that of the generative aligner."""

    C: float
    errors: dict[float, float]
    generative: float

    @property
    def improves(self) -> bool:
        """Whether gold links have taught more than raw text had: if not, links are better left to the latter."""
        return not self.errors or self.errors[self.C] < self.generative

    def __str__(self) -> str:
        found = ", ".join(f"{100 * error:.2f}% with C = {C:g}" for C, error in self.errors.items())
        return f"cross-validated AER {found or 'unknown'}; {100 * self.generative:.2f}% by the generative aligner"


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
    baseline = alignment_scores(gold, generative).aer
    folds = min(FOLDS, len(gold))
    if folds < 2:
        return Selection(FEW, {}, baseline)
    order = np.random.default_rng(seed).permutation(len(gold))
    links: list[list[Any]] = [[()] * len(gold) for _ in GRID]
    for fold in range(folds):
        held = np.sort(order[fold::folds]).tolist()
        rest = np.setdiff1d(order, held).tolist()
        for found, lines in zip(train(rest, held, GRID), links, strict=True):
            for i, pair in zip(held, found, strict=True):
                lines[i] = pair
    errors = {C: alignment_scores(gold, found).aer for C, found in zip(GRID, links, strict=True)}
    return Selection(min(errors, key=lambda C: (errors[C], C)), errors, baseline)

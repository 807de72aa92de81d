"""When a word aligner prefers the links of the generative aligner under it."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.alignment.selection import GRID, select
from partwise.data import GoldLinks
from partwise.metrics import alignment_scores


def test_a_gain_within_its_standard_error_is_left_to_the_generative_aligner() -> None:
    """One C of three is better by chance often enough: the gain must exceed the spread of the difference over pairs."""
    rng = np.random.default_rng(0)
    gold = [GoldLinks.of([(k, k) for k in range(6)]) for _ in range(40)]

    def noisy(error: float) -> list[list[tuple[int, int]]]:
        return [[(k, k if rng.random() > error else 7) for k in range(6)] for _ in gold]

    kept = []
    for _ in range(50):  # learned weights that are exactly as good as what they stand on
        generative, learned = noisy(0.1), [noisy(0.1) for _ in GRID]
        chosen = select(
            lambda rest, held, grid, links=learned: [[x[i] for i in held] for x in links], gold, generative, 0
        )
        kept.append((chosen.improves, min(chosen.errors.values()) < chosen.generative))
        drawn = rng.integers(40, size=(500, 40))
        a, b = alignment_scores(gold, generative), alignment_scores(gold, learned[GRID.index(chosen.C)])
        sums = [each.counts[drawn].sum(axis=1) for each in (a, b)]
        differences = [1 - (n[:, 2] + n[:, 3]) / (n[:, 0] + n[:, 1]) for n in sums]
        assert chosen.standard_error == pytest.approx(np.std(differences[0] - differences[1]), rel=0.25)
    improves, better = np.mean(kept, axis=0)
    assert improves < 0.55 * better  # the sign of the difference alone would take most of these
    better_by_far = select(
        lambda rest, held, grid: [[[(k, k) for k in range(6)] for _ in held] for _ in grid], gold, noisy(0.1), 0
    )
    assert better_by_far.improves

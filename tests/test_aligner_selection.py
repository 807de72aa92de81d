"""When a word aligner prefers the links of the generative aligner under it."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.alignment.selection import select
from partwise.data import GoldLinks
from partwise.metrics import alignment_scores


def test_a_gain_within_its_standard_errors_is_left_to_the_generative_aligner() -> None:
    """Half of the time what is no better looks better: the gain must exceed the spread of the difference over pairs."""
    rng = np.random.default_rng(0)
    gold = [GoldLinks.of([(k, k) for k in range(6)]) for _ in range(40)]

    def noisy(error: float) -> list[list[tuple[int, int]]]:
        return [[(k, k if rng.random() > error else 7) for k in range(6)] for _ in gold]

    kept = []
    for _ in range(50):  # learned weights that are exactly as good as what they stand on, whatever C is
        generative, learned = noisy(0.1), noisy(0.1)
        chosen = select(
            lambda rest, held, grid, links=learned: [[links[i] for i in held] for _ in grid], gold, generative, 0
        )
        kept.append((chosen.improves, min(chosen.errors.values()) < chosen.generative))
        drawn = rng.integers(40, size=(500, 40))
        sums = [alignment_scores(gold, links).counts[drawn].sum(axis=1) for links in (generative, learned)]
        errors = [1 - (n[:, 2] + n[:, 3]) / (n[:, 0] + n[:, 1]) for n in sums]
        assert chosen.standard_error == pytest.approx(np.std(errors[0] - errors[1]), rel=0.25)
    improves, better = np.mean(kept, axis=0)
    assert better > 0.3  # the sign of the difference alone would take these
    assert improves < 0.25 * better
    better_by_far = select(
        lambda rest, held, grid: [[[(k, k) for k in range(6)] for _ in held] for _ in grid], gold, noisy(0.1), 0
    )
    assert better_by_far.improves

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
    assert improves < 0.5 * better
    better_by_far = select(
        lambda rest, held, grid: [[[(k, k) for k in range(6)] for _ in held] for _ in grid], gold, noisy(0.1), 0
    )
    assert better_by_far.improves


def test_the_first_model_within_a_standard_error_is_taken() -> None:
    gold = [GoldLinks.of([(k, k) for k in range(4)]) for _ in range(30)]
    poor = [[(0, 1)] for _ in gold]

    def wrong_in(*pairs: int) -> list[list[tuple[int, int]]]:
        return [[(k, k + (i in pairs and k == 0)) for k in range(4)] for i in range(30)]

    right, close = wrong_in(0, 1), wrong_in(2, 3, 4)
    choices = (("L", 0.1), ("L", 1.0), ("M", 0.1))

    def chosen(*found: list[list[tuple[int, int]]]) -> tuple[str, float]:
        made = select(lambda rest, held, _: [[links[i] for i in held] for links in found], gold, poor, 0, choices)
        assert made.improves and list(made.errors) == list(choices)
        return made.model, made.C

    assert chosen(poor, close, right) == ("L", 1.0)
    assert chosen(poor, poor, right) == ("M", 0.1)
    assert chosen(right, close, poor) == ("L", 0.1)

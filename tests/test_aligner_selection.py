"""When a word aligner prefers the links of the generative aligner under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from partwise.alignment.selection import Selection, select
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
        table = dict(zip(choices, found, strict=True))
        made = select(lambda rest, held, few: [[table[c][i] for i in held] for c in few], gold, poor, 0, choices)
        assert made.improves and {*made.errors, *made.dropped} == {*choices}
        return made.model, made.C

    assert chosen(poor, close, right) == ("L", 1.0)
    assert chosen(poor, poor, right) == ("M", 0.1)
    assert chosen(right, close, poor) == ("L", 0.1)


def test_what_is_hopeless_after_two_folds_is_not_trained_again() -> None:
    """Other models than the first, if they are more than a standard error behind; never another C of the first."""
    gold = [GoldLinks.of([(k, k) for k in range(4)]) for _ in range(30)]
    right, poor = [[(k, k) for k in range(4)] for _ in gold], [[(0, 1)] for _ in gold]
    table = {("L", 0.1): poor, ("L", 1.0): right, ("M", 0.1): poor, ("M+F", 0.1): right}
    asked: list[list[tuple[str, float]]] = []

    def train(rest: list[int], held: list[int], choices: Sequence[tuple[str, float]]) -> list[list[Any]]:
        asked.append(list(choices))
        return [[table[choice][i] for i in held] for choice in choices]

    made = select(train, gold, poor, 0, list(table))
    kept = [("L", 0.1), ("L", 1.0), ("M+F", 0.1)]
    assert asked == [list(table)] * 2 + [kept] * 3
    assert (made.model, made.C) == ("L", 1.0) and list(made.errors) == kept and made.dropped == {("M", 0.1): 1.0}
    assert "given up before the last fold, on fewer pairs: 100.00% with M, C = 0.1" in str(made)


def test_fifty_gold_pairs_need_less_of_a_gain() -> None:
    """A quarter of a standard error; fewer pairs a whole one."""
    for n, expected in ((49, False), (50, True)):
        assert Selection("L", 1.0, {("L", 1.0): 0.095}, 0.1, 0.01, {}, n).improves == expected
    assert not Selection("L", 1.0, {("L", 1.0): 0.098}, 0.1, 0.01, {}, 200).improves
    assert Selection("L", 1.0, {("L", 1.0): 0.088}, 0.1, 0.01, {}, 9).improves

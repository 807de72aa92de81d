"""Scores of tokens and probabilities, and the bootstrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from partwise.exceptions import InputError, ParameterError
from partwise.metrics import (
    bootstrap,
    calibration,
    chunk_scores,
    confusion,
    paired_bootstrap,
    token_accuracy,
)

Sentences = list[list[str]]


@pytest.mark.parametrize("score", [chunk_scores, token_accuracy, confusion, bootstrap])
@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([["O"]], [["O"], ["O"]], "1 gold sentences, but 2 predicted"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "sentence 1: 2 gold tags, but 1 predicted"),
        ([], [], "no tokens"),
        ([[]], [[]], "no tokens"),
        (["O"], ["O"], "gold: expected a list of sentences"),
        ([["O"]], [[None]], "predicted: sentence 0, token 0: expected a string, got None"),
    ],
)
def test_tags_that_cannot_be_compared(score: Any, gold: Any, predicted: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(gold, predicted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f2"}, "'metric'"),
        ({"n": 0}, "'n' parameter of paired_bootstrap"),
        ({"level": 95}, "'level' parameter of paired_bootstrap"),
    ],
)
def test_unknown_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        paired_bootstrap([["B-X"]], [["B-X"]], [["B-X"]], **settings)
    with pytest.raises(ParameterError, match=message.replace("paired_", "")):
        bootstrap([["B-X"]], [["B-X"]], **settings)


def noisy(rng: np.random.Generator, gold: Sentences, rate: float) -> Sentences:
    return [[str(rng.choice(["O", "B-X", "I-X"])) if rng.random() < rate else t for t in tags] for tags in gold]


@pytest.fixture
def corpus() -> tuple[Sentences, ...]:
    rng = np.random.default_rng(7)
    gold = [[str(tag) for tag in rng.choice(["O", "O", "B-X", "I-X"], size=rng.integers(1, 9))] for _ in range(120)]
    return gold, noisy(rng, gold, 0.1), noisy(rng, gold, 0.4)


@pytest.mark.parametrize("metric", ["f1", "precision", "recall", "accuracy"])
def test_bootstrap_equals_drawing_sentences(corpus: tuple[Sentences, ...], metric: str) -> None:
    gold, predicted, _ = corpus
    result = bootstrap(gold, predicted, metric, n=4000, random_state=1)
    assert result.estimate == getattr(chunk_scores(gold, predicted), metric)
    rng = np.random.default_rng(2)
    drawn = []
    for _ in range(400):
        chosen = rng.integers(len(gold), size=len(gold))
        scores = chunk_scores([gold[k] for k in chosen], [predicted[k] for k in chosen])
        drawn.append(getattr(scores, metric))
    # Standard error of the mean of 400 draws is 1/20 of their deviation, that of a deviation about 1/28.
    assert abs(np.mean(drawn) - result.samples.mean()) < 0.25 * np.std(drawn)
    assert abs(np.std(drawn) / result.samples.std() - 1) < 0.2
    assert result.low < result.estimate < result.high
    inside = np.mean((result.samples >= result.low) & (result.samples <= result.high))
    assert abs(inside - 0.95) < 0.01


def test_bootstrap_is_reproducible(corpus: tuple[Sentences, ...]) -> None:
    gold, predicted, _ = corpus
    first, second, other = (bootstrap(gold, predicted, n=50, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.samples, second.samples)
    assert not np.array_equal(first.samples, other.samples)
    wide, narrow = bootstrap(gold, predicted, level=0.99), bootstrap(gold, predicted, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_bootstrap_of_a_perfect_score() -> None:
    result = bootstrap([["B-X"]] * 5, [["B-X"]] * 5, n=20)
    assert (result.estimate, result.low, result.high) == (1, 1, 1)


def test_paired_bootstrap(corpus: tuple[Sentences, ...]) -> None:
    gold, good, bad = corpus
    result = paired_bootstrap(gold, good, bad)
    assert result.difference == chunk_scores(gold, good).f1 - chunk_scores(gold, bad).f1
    assert 0 < result.low < result.difference < result.high
    assert result.p_value == 1 / 1001
    back = paired_bootstrap(gold, bad, good)
    assert math.isclose(back.difference, -result.difference)
    same = paired_bootstrap(gold, good, good)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_p_value_is_uniform_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(5)
    values = []
    for _ in range(120):
        gold = [["B-X" if rng.random() < 0.5 else "O" for _ in range(3)] for _ in range(60)]
        a, b = noisy(rng, gold, 0.3), noisy(rng, gold, 0.3)
        values.append(paired_bootstrap(gold, a, b, n=200, random_state=rng).p_value)
    # 5% expected below 0.05, so 6 of 120; 16 would be a chance of about 1 in 5,000.
    assert sum(value < 0.05 for value in values) < 16
    assert 0.35 < np.mean(values) < 0.65


def test_confusion() -> None:
    labels, matrix = confusion([["V", "N"], ["N", "N"]], [["N", "N"], ["A", "N"]])
    assert labels == ["A", "N", "V"]
    assert matrix.tolist() == [[0, 0, 0], [1, 2, 0], [0, 1, 0]]


def test_calibration_by_hand() -> None:
    result = calibration([0.0, 0.1, 0.5, 0.50001, 1.0], [0, 1, 1, 0, 1], bins=2)
    assert result.counts.tolist() == [3, 2]
    np.testing.assert_allclose(result.confidence, [0.2, 0.750005])
    np.testing.assert_allclose(result.accuracy, [2 / 3, 0.5])
    assert math.isclose(result.error, 3 / 5 * abs(2 / 3 - 0.2) + 2 / 5 * abs(0.5 - 0.750005))
    assert "expected calibration error: 0.38" in str(result)


def test_calibration_of_honest_probabilities_tends_to_zero() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(50_000)
    assert calibration(p, rng.random(50_000) < p).error < 0.01
    assert calibration(p, rng.random(50_000) < p**2).error > 0.1


def test_calibration_shows_empty_bins() -> None:
    result = calibration([0.95], [True], bins=3)
    assert np.isnan(result.confidence[:2]).all()
    assert "(0.000, 0.333]      0           -         -" in result.report()


@pytest.mark.parametrize(
    ("probabilities", "correct", "bins", "message"),
    [
        ([0.5], [True, False], 5, "two vectors of one length"),
        ([], [], 5, "no predictions"),
        ([0.5, 1.5], [True, True], 5, "prediction 1: expected a probability in .* got 1.5"),
        ([float("nan")], [True], 5, "prediction 0"),
        ([0.5], [2], 5, "only True and False"),
        ([0.5], [True], 0, "'bins' parameter"),
    ],
)
def test_calibration_refuses(probabilities: list[float], correct: list[int], bins: int, message: str) -> None:
    with pytest.raises((InputError, ParameterError), match=message):
        calibration(probabilities, correct, bins)

"""Alignment error rate by hand."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.data import GoldLinks
from partwise.exceptions import InputError, ParameterError
from partwise.metrics import alignment_bootstrap, alignment_scores
from partwise.structures import Matching

# Pair 1: S = {00, 11}, P = S ∪ {12}; pair 2: S = {00}, P = S ∪ {10, 20}; pair 3: nothing sure, P = {01}.
GOLD = [GoldLinks.of([(0, 0), (1, 1)], [(1, 2)]), GoldLinks.of([(0, 0)], [(1, 0), (2, 0)]), GoldLinks.of([], [(0, 1)])]


def test_hand_computed_counts():
    # A: 3 links, 1 sure, 2 possible; 2 links, 0 sure, 1 possible; 1 link, possible.
    scores = alignment_scores(GOLD, [[(0, 0), (1, 2), (2, 2)], [(1, 0), (1, 1)], [(0, 1)]])
    assert scores.counts.tolist() == [[3, 2, 1, 2], [2, 1, 0, 1], [1, 0, 0, 1]]
    assert scores.precision == pytest.approx(4 / 6)
    assert scores.recall == pytest.approx(1 / 3)
    assert scores.f1 == pytest.approx(2 * (4 / 6) * (1 / 3) / (4 / 6 + 1 / 3))
    assert scores.aer == pytest.approx(1 - (1 + 4) / (6 + 3))
    assert scores.report().startswith("AER 44.44  precision 66.67  recall 33.33")


def test_links_may_be_rows_of_an_array():
    """As ``Matching.decode`` returns them."""
    space = Matching([(2, 3), (3, 1), (1, 2)])
    found = [space.decode(i, space.encode(i, links)) for i, links in enumerate([[(0, 0), (1, 2)], [(1, 0)], []])]
    scores = alignment_scores(GOLD, found)
    assert scores.counts.tolist() == [[2, 2, 1, 2], [1, 1, 0, 1], [0, 0, 0, 0]]
    assert alignment_scores(found, found).aer == 0
    assert alignment_bootstrap(GOLD, found, n=20).estimate == scores.aer


def test_the_sure_links_alone_have_no_error():
    scores = alignment_scores(GOLD, [sorted(gold.sure) for gold in GOLD])
    assert (scores.aer, scores.precision, scores.recall, scores.f1) == (0, 1, 1, 1)
    assert alignment_scores(GOLD, [gold.possible for gold in GOLD]).aer == 0


def test_nothing_predicted_and_nothing_there():
    scores = alignment_scores(GOLD, [[], [], []])
    assert (scores.aer, scores.precision, scores.recall, scores.f1) == (1, 0, 0, 0)
    assert alignment_scores([[]], [[]]).aer == 0 and alignment_scores([], []).aer == 0


def test_plain_links_are_sure_and_repeated_ones_count_once():
    scores = alignment_scores([[(0, 0)]], [[(0, 0), (0, 0), (1, 1)]])
    assert scores.counts.tolist() == [[2, 1, 1, 1]] and scores.aer == pytest.approx(1 / 3)


def test_pairs_must_match():
    with pytest.raises(InputError, match="3 gold pairs but 1 predicted ones"):
        alignment_scores(GOLD, [[]])


@pytest.mark.parametrize("metric", ["aer", "precision", "recall"])
def test_bootstrap_interval_covers_and_narrows(metric):
    rng = np.random.default_rng(1)
    gold = [[(i, i) for i in range(5)] for _ in range(200)]
    predicted = [[(i, i + int(rng.random() < 0.2)) for i in range(5)] for _ in range(200)]
    few, many = (alignment_bootstrap(gold[:n], predicted[:n], metric) for n in (20, 200))
    assert many.estimate == getattr(alignment_scores(gold, predicted), metric)
    assert many.low < many.estimate < many.high
    assert many.high - many.low < few.high - few.low
    # A fifth of 1,000 independent links is wrong: two standard deviations are 2·sqrt(0.2·0.8/1000) = 0.025.
    assert many.high - many.low == pytest.approx(0.05, abs=0.015)


def test_bootstrap_refuses_other_metrics_and_levels():
    with pytest.raises(ParameterError, match="did you mean 'aer'"):
        alignment_bootstrap([[]], [[]], "aerr")
    with pytest.raises(ParameterError, match="level"):
        alignment_bootstrap([[]], [[]], level=1.0)

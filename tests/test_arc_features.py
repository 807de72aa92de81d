"""Features of arcs: the adjoint, the norm, what tells arcs apart, and gradients by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from partwise.exceptions import ParameterError
from partwise.features.base import squared_norm
from partwise.parsing import DependencySentence, load_sample_treebank
from partwise.parsing.features import ArcFeatures, WordEncoder
from partwise.problem import Problem
from partwise.structures.arborescence import Arborescence

SENTENCES = load_sample_treebank()[:4]


def features_of(n_labels: int, sentences: list[DependencySentence] = SENTENCES, arc_bits: int = 12) -> ArcFeatures:
    return ArcFeatures(WordEncoder().fit(sentences), sentences, n_labels, arc_bits=arc_bits, row_bits=8)


@pytest.mark.parametrize("n_labels", [1, 3])
def test_accumulate_is_the_adjoint_of_scores(n_labels: int) -> None:
    rng, features = np.random.default_rng(0), features_of(n_labels)
    for i, sentence in enumerate(SENTENCES):
        theta, before = rng.normal(size=(2, features.dim))
        parts = rng.normal(size=len(sentence) ** 2 * n_labels) * (rng.random(len(sentence) ** 2 * n_labels) < 0.5)
        after = before.copy()
        features.accumulate(i, parts, 0.7, after)
        assert theta @ (after - before) == pytest.approx(0.7 * features.scores(i, theta) @ parts)


@pytest.mark.parametrize("n_labels", [1, 3])
def test_norm_of_a_difference_of_trees(n_labels: int) -> None:
    features, scratch = features_of(n_labels), np.zeros(features_of(n_labels).dim)
    parts = np.zeros(len(SENTENCES[0]) ** 2 * n_labels)
    parts[[0, 5, 17]] = [1.0, -1.0, 0.5]
    expected = np.zeros(features.dim)
    features.accumulate(0, parts, 1.0, expected)
    assert squared_norm(features.pack, 0, parts, scratch) == pytest.approx(expected @ expected)
    assert not scratch.any()


def columns(features: ArcFeatures, i: int, n_parts: int) -> NDArray[np.float64]:
    """The feature vector of every part, one row each."""
    rows = np.zeros((n_parts, features.dim))
    for r, row in enumerate(rows):
        features.accumulate(i, np.eye(n_parts)[r], 1.0, row)
    return rows


def test_arcs_and_labels_are_told_apart() -> None:
    sentence = DependencySentence.of_words(["a", "b", "a", "b"], upos=["X", "Y", "X", "Y"], xpos=["X", "Y", "X", "Y"])
    rows = columns(features_of(2, [sentence], arc_bits=18), 0, 32)
    assert len({row.tobytes() for row in rows}) == 32  # also arcs between equal words, by direction and distance
    space = Arborescence([4])
    (one,) = np.flatnonzero((space.atoms(0).head == 1) & (space.atoms(0).modifier == 2))
    (back,) = np.flatnonzero((space.atoms(0).head == 2) & (space.atoms(0).modifier == 1))
    arcs = rows[:, : 1 << 18]
    shared = (arcs[2 * one] != 0) & (arcs[2 * back] != 0)
    assert shared.sum() <= 3  # nothing but what falls on one place of the table


def test_features_belong_to_the_words_and_not_to_their_place() -> None:
    """The same two words with the same neighbours and distance have the same features in another sentence."""
    words, tags = ["x", "x", "a", "b", "y", "y"], ["U", "U", "P", "Q", "V", "V"]
    first = DependencySentence.of_words(words, upos=tags, xpos=tags)
    second = DependencySentence.of_words(["z", *words, "z"], upos=["W", *tags, "W"], xpos=["W", *tags, "W"])
    features = features_of(1, [first, second])
    rows = columns(features, 0, 36), columns(features, 1, 64)
    numbers = [2 * 6 + 4 - 1, 3 * 8 + 5 - 1]  # arcs (4, 3) and (5, 4)
    np.testing.assert_array_equal(rows[0][numbers[0]], rows[1][numbers[1]])


def test_gradient_of_the_loss() -> None:
    """Through features, labels, tree and loss: ∇L = F(z̄ − z) against central differences."""
    features, rng = features_of(2), np.random.default_rng(0)
    space = Arborescence([len(s) for s in SENTENCES], 2, single_root=True)
    gold = [np.stack([s.heads, np.arange(len(s)) % 2], axis=1) for s in SENTENCES]
    problem = Problem(space, features, gold, "softmax_margin")
    theta = 0.1 * rng.normal(size=features.dim)
    _, gradient = problem.loss_and_gradient(theta)
    for _ in range(3):
        direction = rng.normal(size=features.dim)
        slope = (problem.losses(theta + 1e-5 * direction) - problem.losses(theta - 1e-5 * direction)).sum() / 2e-5
        assert gradient @ direction == pytest.approx(slope, rel=1e-6)


def test_unknown_words_share_one_number() -> None:
    encoder = WordEncoder().fit(SENTENCES)
    _, table, _ = encoder.encode([DependencySentence.of_words(["qwerty", "asdf", SENTENCES[0].forms[0]])])
    assert table[0, 0] == table[1, 0] != table[2, 0]


def test_features_that_identify_a_token_are_dropped() -> None:
    """FEATS such as id=43 occur once each: a word must not be known by them."""
    sentences = [DependencySentence.of_words(["a", "a"], feats=["case=nom|id=1", "case=nom|id=2"])]
    _, table, _ = WordEncoder().fit(sentences).encode(sentences)
    np.testing.assert_array_equal(table[0], table[1])


def test_table_sizes() -> None:
    with pytest.raises(ParameterError, match="arc_bits"):
        ArcFeatures(WordEncoder().fit(SENTENCES), SENTENCES, 2, arc_bits=40)

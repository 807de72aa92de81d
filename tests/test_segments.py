"""Segments: what the conformance suite does not say. Errors, the table of atoms, long inputs, training."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.exceptions import InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import LBFGS, OneSlack, Perceptron
from partwise.problem import Problem
from partwise.structures.chain import Chain
from partwise.structures.segments import Segments

Y = np.array([[0, 2, 1], [2, 3, 0], [3, 4, 1]])


def test_atoms_are_the_parts_in_their_order() -> None:
    space = Segments([4, 1], 2, max_length=[1, 3])
    for i in range(2):
        table = space.atoms(i)
        for r in range(space.n_atoms(i)):
            parts = np.zeros(space.n_parts(i))
            parts[r] = 1.0
            found = space.decode(i, parts)[0]
            assert found.tolist() == [table.start[r], table.stop[r], table.label[r]]
            assert table.stop[r] <= space.lengths[i]
            assert table.stop[r] - table.start[r] <= space.max_length[table.label[r]]
    parts = space.encode(0, Y)
    np.testing.assert_array_equal(space.decode(0, parts), Y)
    assert parts[: space.n_atoms(0)].sum() == 3
    assert parts.sum() == 5


def test_single_tokens_are_a_chain() -> None:
    """With segments of one token, log Z and marginals are those of a chain of the same scores."""
    rng = np.random.default_rng(0)
    length, n = 60, 4
    segments, chain = Segments([length], n, max_length=1), Chain([length], n)
    scores = rng.normal(size=segments.n_parts(0))
    assert segments.n_parts(0) == chain.n_parts(0)
    ours, theirs = segments.marginals(0, scores), chain.marginals(0, scores)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-10)
    np.testing.assert_array_equal(segments.argmax(0, scores), chain.argmax(0, scores))


def test_marginals_of_the_segments_over_a_token_sum_to_one() -> None:
    space = Segments([200], 3, max_length=[1, 7, 20])
    scores = 10.0 * np.random.default_rng(1).normal(size=space.n_parts(0))
    _, mean = space.marginals(0, scores)
    table = space.atoms(0)
    for token in (0, 57, 199):
        over = (table.start <= token) & (token < table.stop)
        np.testing.assert_allclose(mean[: space.n_atoms(0)][over].sum(), 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("error", "words", "settings"),
    [
        (ParameterError, "'n_labels' parameter of Segments must be at least 1", {"n_labels": 0}),
        (ParameterError, "must be a length ≥ 1, or one for each of 2 labels", {"max_length": 0}),
        (ParameterError, "must be a length ≥ 1, or one for each of 2 labels", {"max_length": [1, 2, 3]}),
        (ParameterError, "'lengths' parameter of Segments must be a sequence of integers", {"lengths": [1.5]}),
        (InputError, "instance 1 is an empty sequence", {"lengths": [3, 0]}),
        (ParameterError, r"an array of shape \(2, 2\)", {"transitions": [[True]]}),
        (InputError, "the constraints allow no segmentation of instance 0", {"transitions": np.zeros((2, 2))}),
        (InputError, r"allowed segments of instance 0 have shape \(1,\); expected \(18,\)", {"allowed": [[True]]}),
    ],
)
def test_settings(error: type[Exception], words: str, settings: dict) -> None:
    given = {"lengths": [5], "n_labels": 2, "max_length": 2} | settings
    with pytest.raises(error, match=words):
        Segments(**given)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([[0, 2, 1], [2, 3, 0]], "must cover tokens 0..3"),
        ([[0, 2, 1], [3, 4, 0]], "without gap or overlap"),
        ([[0, 2, 1], [1, 4, 1]], "without gap or overlap"),
        ([[0, 2, 7], [2, 4, 1]], r"labels of instance 0 must be integers in 0..1"),
        ([[0.0, 4.0, 1.0]], "rows .start, stop, label. of integers"),
        ([0, 4, 1], "rows .start, stop, label. of integers"),
    ],
)
def test_gold_that_is_no_segmentation(y: list, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Segments([4], 2, max_length=4).encode(0, y)


def test_segments_longer_than_the_maximum_say_how_many_and_the_length_needed() -> None:
    space = Segments([4, 6], 2, max_length=[1, 2])
    gold = [[[0, 3, 1], [3, 4, 0]], [[0, 4, 1], [4, 6, 0]]]
    with pytest.raises(InputError, match="3 of 4 segments are longer than max_length allows; needed: 2 for label 0, 4"):
        space.encode_all(gold)


def test_training_a_semi_markov_model_with_three_kinds_of_learner() -> None:
    """The losses and learners that exist already: likelihood, perceptron, margin; all fit separable segmentations."""
    rng = np.random.default_rng(3)
    space = Segments([5, 7, 6, 4], 2, max_length=[1, 3])
    dim, matrices, theta = 20, [], rng.normal(size=20)
    for i in range(len(space)):
        matrices.append(rng.normal(size=(dim, space.n_parts(i))))
    features = MatrixFeatures(matrices)
    gold = [space.decode(i, space.argmax(i, features.scores(i, theta))) for i in range(len(space))]
    learners = {"crf": LBFGS(C=1e4), "perceptron": Perceptron(max_passes=200), "svm": OneSlack(C=1e3)}
    for loss, learner in learners.items():
        problem = Problem(space, features, gold, loss)
        found = problem.predict(learner.fit(problem).theta)
        for ours, theirs in zip(found, gold, strict=True):
            np.testing.assert_array_equal(ours, theirs)

"""Bad input: what is wrong, where it is, and what was expected, each in one message."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from problems import tiny

from partwise.costs import Hamming, LabelCost
from partwise.exceptions import InputError, ParameterError, PartwiseError
from partwise.features import MatrixFeatures, RowMatrix, Vocabulary
from partwise.features.inputs import dense_rows, input_kind
from partwise.learners import DCA, LBFGS, SGD, ExactDCA, KBestMIRA, Perceptron, find_learner
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Chain, Multiclass

CASE = tiny(seed=1, lengths=(3, 2))


# --------------------------------------------------------------------------------------------------
# Sequences and their features


def test_empty_sequences() -> None:
    message = "sequence 1 is empty; expected at least one position"
    with pytest.raises(InputError, match=message):
        Vocabulary().read([[["a"]], [], [["b"]]], grow=True)
    with pytest.raises(InputError, match=message):
        RowMatrix.from_csr([scipy.sparse.csr_array(np.ones((n, 2))) for n in (2, 0, 1)])
    with pytest.raises(InputError, match=message):
        dense_rows([np.ones((n, 2)) for n in (2, 0, 1)])
    with pytest.raises(InputError, match="instance 1 is an empty sequence; expected at least one position"):
        Chain([2, 0, 1], 3)


def test_no_sequences() -> None:
    for read in (input_kind, RowMatrix.from_csr):
        with pytest.raises(InputError, match="no sequences were given"):
            read([])
    with pytest.raises(InputError, match="a problem needs at least one instance"):
        Problem(Multiclass(0, 2), MatrixFeatures([]), [])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e200])
def test_features_that_are_not_finite(bad: float) -> None:
    """Position 2 of sequence 1, whatever the kind of input, also behind rows without any feature."""
    message = re.escape(f"feature value {bad} at position 2 of sequence 1; expected finite")
    table = np.ones((3, 2))
    table[:2] = 0.0
    table[2, 1] = bad
    with pytest.raises(InputError, match=message):
        Vocabulary().read([[["a"]], [[], {}, {"a": 1.0, "b": bad}]], grow=True)
    with pytest.raises(InputError, match=message):
        RowMatrix.from_csr([scipy.sparse.csr_array(np.ones((1, 2))), scipy.sparse.csr_array(table)])
    with pytest.raises(InputError, match=message):
        dense_rows([np.ones((1, 2)), table])
    words = r"1e\+200; features beyond" if math.isfinite(bad) else "NaN or infinity"
    with pytest.raises(InputError, match=f"matrix of instance 1 holds {words}"):
        MatrixFeatures([np.eye(3), table])


def test_rows_of_the_wrong_kind() -> None:
    for sequences, message in (
        ([["a b"]], "position 0 of sequence 0 is a string; expected a list of strings or a dict"),
        ([[["a"]], [["b"], {"c": None}]], "feature 'c' at position 1 of sequence 1 is None; expected a number"),
        ([[["a"]], [{"c": ["x"]}]], r"feature 'c' at position 0 of sequence 1 is \['x'\]; expected a number"),
        ([[["a", 3], ["b"]]], "sequence 0, position 0: feature names must be strings, got 3"),
        ([[["a"], {7: 1.0, "a": 1.0}]], "sequence 0, position 1: feature names must be strings, got 7"),
    ):
        for grow in (True, False):
            with pytest.raises(InputError, match=message):
                Vocabulary(["a"]).read(sequences, grow=grow)


def test_widths_that_differ() -> None:
    with pytest.raises(InputError, match=r"array of sequence 1 has shape \(2, 3\); expected \(length, 2\)"):
        dense_rows([np.ones((1, 2)), np.ones((2, 3))])
    with pytest.raises(InputError, match="matrix of sequence 1 has 3 columns; expected 2"):
        RowMatrix.from_csr([scipy.sparse.csr_array(np.ones((1, 2))), scipy.sparse.csr_array(np.ones((1, 3)))])


# --------------------------------------------------------------------------------------------------
# X and y


def test_different_numbers_of_instances() -> None:
    with pytest.raises(InputError, match="X has 2 instances but y has 1"):
        Problem(CASE.space, CASE.features, CASE.outputs[:1])
    with pytest.raises(InputError, match="X has 2 instances but y has 3"):
        Problem(CASE.space, CASE.features, Chain([3, 2, 1], 3))


def test_different_lengths() -> None:
    with pytest.raises(InputError, match="instance 1 has 2 positions but 3 labels"):
        Problem(CASE.space, CASE.features, [[0, 1, 2], [0, 1, 2]])


@pytest.mark.parametrize("label", [3, -1])
def test_labels_out_of_range(label: int) -> None:
    with pytest.raises(InputError, match=r"labels of instance 1 must be integers in 0\.\.2"):
        Problem(CASE.space, CASE.features, [[0, 1, 2], [0, label]])


# --------------------------------------------------------------------------------------------------
# Constraints


def test_gold_forbidden_by_the_constraints() -> None:
    allowed = np.ones((5, 3), bool)
    allowed[4, 2] = False
    outputs = [[0, 1, 1], [1, 2]]
    for settings, message in (
        ({"allowed": allowed}, "label 2 at position 1"),
        ({"transitions": [[1, 1, 1], [1, 1, 0], [1, 1, 1]]}, "label 2 after label 1 at position 1"),
        ({"start": [1, 0, 1]}, "label 1 at position 0"),
        ({"stop": [1, 1, 0]}, "label 2 at position 1"),
    ):
        space = Chain([3, 2], 3, **settings)
        with pytest.raises(InputError) as caught:
            Problem(space, CASE.features, outputs)
        assert str(caught.value) == f"gold output of instance 1: {message} is forbidden by the constraints"


def test_gold_class_forbidden() -> None:
    space = Multiclass(2, 3, allowed=[[1, 1, 1], [1, 0, 1]])
    with pytest.raises(InputError, match="gold output of instance 1: label 1 is forbidden by the constraints"):
        Problem(space, MatrixFeatures([np.eye(3)] * 2), [1, 1])


def test_constraints_that_allow_nothing() -> None:
    allowed = np.ones((5, 3), bool)
    allowed[3] = False
    with pytest.raises(InputError, match="the constraints allow no label at position 0 of instance 1"):
        Chain([3, 2], 3, allowed=allowed)
    with pytest.raises(InputError, match="the constraints allow no label sequence for instance 0"):
        Chain([3, 1], 2, transitions=np.zeros((2, 2), bool))
    with pytest.raises(InputError, match="the constraints allow no label of instance 0"):
        Multiclass(1, 2, allowed=[[0, 0]])


# --------------------------------------------------------------------------------------------------
# Settings


@pytest.mark.parametrize("kind", [Perceptron, SGD, DCA, KBestMIRA, ExactDCA, LBFGS])
@pytest.mark.parametrize("C", [-1.0, 0.0, math.nan])
def test_regularisation_must_be_positive(kind: Any, C: float) -> None:
    message = rf"The 'C' parameter of {kind.__name__} must be a positive number\. Got {C!r} instead\."
    with pytest.raises(ParameterError, match=message):
        kind(C=C)


@pytest.mark.parametrize("beta", [0.0, -1.0, -math.inf, math.nan])
def test_temperature_must_be_positive(beta: float) -> None:
    message = rf"The 'beta' parameter of Loss must be a positive number or infinity\. Got {beta!r} instead\."
    with pytest.raises(ParameterError, match=message):
        Loss(beta=beta)


@pytest.mark.parametrize("gamma", [-0.5, math.inf, math.nan])
def test_cost_scale_must_not_be_negative(gamma: float) -> None:
    message = rf"The 'gamma' parameter of Loss must be a finite number ≥ 0\. Got {gamma!r} instead\."
    with pytest.raises(ParameterError, match=message):
        Loss(gamma=gamma)


def test_other_settings() -> None:
    bad: list[tuple[Any, dict[str, Any], str]] = [
        (DCA, {"max_passes": -1}, r"'max_passes' parameter of DCA must be at least 0\. Got -1"),
        (DCA, {"variant": "best"}, r"'variant' parameter of DCA must be 'max_loss' or 'prediction'\. Got 'best'"),
        (DCA, {"margin": "half"}, r"'margin' parameter of DCA must be 'cost' or 'root'\. Got 'half'"),
        (DCA, {"margin": "root"}, r"'margin' parameter of DCA must be 'cost' unless variant='prediction'\. Got 'root'"),
        (SGD, {"eta": 0.0}, r"'eta' parameter of SGD must be a positive number\. Got 0\.0"),
        (SGD, {"candidates": ()}, r"'candidates' parameter of SGD must be positive numbers\. Got \(\)"),
        (SGD, {"candidates": (1.0, -1.0)}, r"'candidates' parameter of SGD must be positive numbers\. Got"),
        (KBestMIRA, {"k": 0}, r"'k' parameter of KBestMIRA must be at least 1\. Got 0"),
        (ExactDCA, {"inner_tolerance": 0.0}, r"'inner_tolerance' parameter of ExactDCA must be a positive number"),
        (ExactDCA, {"max_cuts": 0}, r"'max_cuts' parameter of ExactDCA must be a positive number\. Got 0"),
        (Hamming, {"false_negative": -1.0}, r"'false_negative' parameter of Hamming must be a number ≥ 0\. Got -1\.0"),
        (LabelCost, {"cost": [[0, 1]]}, r"'cost' parameter of LabelCost must be a square matrix\. Got \(1, 2\)"),
        (LabelCost, {"cost": [[0, -1], [1, 0]]}, r"'cost' .* must be finite, ≥ 0 and zero on the diagonal"),
        (LabelCost, {"cost": [[1, 1], [1, 0]]}, r"'cost' .* must be finite, ≥ 0 and zero on the diagonal"),
        (LabelCost, {"cost": [[0, np.nan], [1, 0]]}, r"'cost' .* must be finite, ≥ 0 and zero on the diagonal"),
    ]
    for kind, settings, message in bad:
        with pytest.raises(ParameterError, match=message):
            kind(**settings)


def test_a_cost_for_another_number_of_labels() -> None:
    cost = LabelCost([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="LabelCost is for 2 labels; Chain has 3"):
        Problem(CASE.space, CASE.features, CASE.outputs, "svm", cost)
    with pytest.raises(InputError, match="LabelCost is for 2 labels per position; got 9 atoms"):
        cost.parts(CASE.space, 0, np.zeros(9))


def test_unknown_names() -> None:
    with pytest.raises(ParameterError, match=r"'loss' .*\(did you mean 'perceptron'\?\)\. Got 'percepton' instead"):
        Problem(CASE.space, CASE.features, CASE.outputs, "percepton")
    with pytest.raises(ParameterError, match=r"'learner' .*\(did you mean 'perceptron'\?\)\. Got 'percepton' instead"):
        find_learner("percepton")


def test_errors_are_what_python_users_expect() -> None:
    with pytest.raises(ValueError, match="empty") as caught:
        Chain([0], 2)
    assert isinstance(caught.value, PartwiseError)
    with pytest.raises(ValueError, match="'C'") as caught:
        DCA(C=-1.0)
    assert isinstance(caught.value, PartwiseError)

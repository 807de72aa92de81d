"""No sequences, and sequences without positions: what a service meets, and a model answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimators import CASES

import partwise
from partwise.exceptions import InputError

#: Those whose X is a table, where scikit-learn's rules hold, or that predict nothing.
TABLES = ("LDA", "DiscLDA", "LinearClassifier", "MarkovNetwork")
X = [["a", "b"], ["b"], ["c", "a", "b"], ["a"]]
Y = [["N", "O"], ["O"], ["O", "N", "O"], ["N"]]


@pytest.mark.filterwarnings("ignore")  # of few passes, and of documents that are not there
@pytest.mark.parametrize("name", [name for name in CASES if name not in TABLES])
def test_nothing_in_nothing_out(name: str) -> None:
    case = CASES[name]
    data, labels = case.data()
    model = case.make().fit(data, labels)
    for method in [word for word in dir(model) if word.startswith("predict")]:
        found = getattr(model, method)([])
        if method == "predict_coded":
            columns = found if name == "JointLabeler" else [found]
            assert all(len(column.codes) == 0 and column.offsets.tolist() == [0] for column in columns)
        elif name == "JointLabeler" or method == "predict_beliefs":
            assert len(found[0]) == 0
        else:
            assert len(found) == 0, method


@pytest.fixture(scope="module")
def labeler() -> Any:
    return partwise.SequenceLabeler(["word[-1..1]"], max_passes=8).fit(X, Y)


def test_sequences_without_positions(labeler: Any) -> None:
    some = [[], X[0], [], X[2]]
    expected = labeler.predict([X[0], X[2]])
    assert labeler.predict(some) == [[], expected[0], [], expected[1]]
    coded = labeler.predict_coded(some)
    assert coded.to_lists() == labeler.predict(some) and coded.offsets.tolist() == [0, 0, 2, 2, 5]
    for method in (labeler.predict_marginals, labeler.predict_proba):
        shapes = [rows.shape for rows in method(some)]
        assert shapes == [(0, 2), (2, 2), (0, 2), (3, 2)]
        np.testing.assert_array_equal(method(some)[3], method([X[2]])[0])
    assert labeler.predict_kbest(some, 2)[2] == [([], 1.0)] and len(labeler.predict_kbest(some, 2)[1]) == 2
    assert labeler.predict(iter(some)) == labeler.predict(some)
    assert labeler.score([[], X[0]], [[], labeler.predict([X[0]])[0]]) == 1.0


def test_their_constraints(labeler: Any) -> None:
    some = [[], X[1]]
    assert labeler.predict(some, constraints=[None, {0: "N"}]) == [[], ["N"]]
    assert labeler.predict(some, [{}, {0: "N"}]) == [[], ["N"]]
    assert labeler.predict([[]], constraints={}) == [[]]
    with pytest.raises(InputError, match="position 0 of sequence 0, which has 0 positions"):
        labeler.predict(some, constraints=[{0: "N"}, None])
    with pytest.raises(InputError, match="X has 2 sequences but constraints has 1"):
        labeler.predict(some, constraints=[{}])
    with pytest.raises(InputError, match="applies to one sequence"):
        labeler.predict(some, constraints={0: "N"})


def test_a_string_is_no_empty_sequence(labeler: Any) -> None:
    with pytest.raises(InputError):
        labeler.predict([""])


def test_segments_and_arrays() -> None:
    tags = [["B-N", "O"], ["O"], ["O", "B-N", "O"], ["B-N"]]
    tokens = [[(word, "X") for word in sentence] for sentence in X]
    model = partwise.SegmentLabeler(["word[0]"], max_passes=2).fit(tokens, tags)
    found = model.predict([[], tokens[0]])
    assert found[0] == [] and found[1] == model.predict([tokens[0]])[0]
    assert model.predict_spans([[], tokens[0]])[0] == [] and model.predict_kbest([[]]) == [[([], 1.0)]]
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(len(x), 3)) for x in X]
    dense = partwise.SequenceLabeler(max_passes=2).fit(rows, Y)
    assert dense.predict([]) == [] and dense.predict([np.zeros((0, 3))]) == [[]]


def test_training_still_refuses_them() -> None:
    with pytest.raises(InputError, match="sequence 1 is empty"):
        partwise.SequenceLabeler(["word[0]"]).fit([["a"], []], [["O"], []])

"""StackedLabeler: what its second stage is trained on, the two steps of a prediction, storage, scikit-learn, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from partwise.data import Columns, load_sample
from partwise.estimators import SequenceLabeler, StackedLabeler, load_model
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.metrics import chunk_scores
from partwise.sequences.stacked import parts_of, with_column
from partwise.storage import load, save

LINES = ["word[-1..1]", "short_shape(word)[-1..1]", "suffix(word,2..3)[0]"]
MORE = ["doc_label(word,type(predicted))[0]", "predicted[-1..1]"]


def stage(*more: str, **options: Any) -> SequenceLabeler:
    return SequenceLabeler([*LINES, *more], **{"learner": "dca", "max_passes": 4, "scheme": "IOB2", **options})


def stacked(**options: Any) -> StackedLabeler:
    return StackedLabeler(stage(), stage(*MORE), **{"folds": 3, **options})


@pytest.fixture(scope="module")
def data() -> Columns:
    return load_sample("news", split="train")


@pytest.fixture(scope="module")
def test_data() -> Columns:
    return load_sample("news", split="test")


@pytest.fixture(scope="module")
def model(data: Columns) -> StackedLabeler:
    return stacked().fit(data, data.column("ner"))


def test_documents_are_never_divided() -> None:
    documents = np.repeat(np.arange(10, 27), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2])
    part = parts_of(documents, 4, 0)
    assert sorted(set(part)) == [0, 1, 2, 3]
    for document in set(documents.tolist()):
        assert len(set(part[documents == document])) == 1
    assert np.array_equal(part, parts_of(documents, 4, 0))
    assert not np.array_equal(part, parts_of(documents, 4, 1))


def test_few_documents_are_divided_by_sentences() -> None:
    part = parts_of(np.zeros(9, np.int64), 3, 0)
    assert np.bincount(part).tolist() == [3, 3, 3]
    with pytest.raises(InputError, match="2 sentences are too few for 3 folds"):
        parts_of(np.zeros(2, np.int64), 3, 0)


def test_second_stage_is_trained_on_labels_of_models_that_did_not_see_them(
    data: Columns, model: StackedLabeler
) -> None:
    gold = data.column("ner")
    part = parts_of(data.documents, 3, 0)
    expected: list[list[str]] = [[] for _ in gold]
    for fold in range(3):
        inside, outside = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        first = stage().fit(data.subset(inside), [gold[i] for i in inside])
        for i, labels in zip(outside, first.predict(data.subset(outside)), strict=True):
            expected[i] = labels
    by_hand = stage(*MORE).fit(with_column(data, "predicted", expected), gold)
    assert np.array_equal(model.second_.theta_, by_hand.theta_)
    assert model.first_score_ == pytest.approx(chunk_scores(gold, expected).f1)
    # On its own training data the first stage is far better than it will be later.
    assert model.first_score_ < model.first_.score(data, gold)


def test_prediction_is_two_steps(model: StackedLabeler, test_data: Columns) -> None:
    extended = with_column(test_data, "predicted", model.first_.predict_coded(test_data))
    assert model.predict(test_data) == model.second_.predict(extended)
    assert model.score(test_data, test_data.column("ner")) == model.second_.score(extended, test_data.column("ner"))
    marginals = model.predict_marginals(test_data)
    assert [m.shape for m in marginals] == [(n, len(model.classes_)) for n in np.diff(test_data.offsets)]
    assert np.allclose(np.concatenate(marginals).sum(axis=1), 1)
    assert model.predict_kbest(test_data.subset([0]), 2)[0][0][0] == model.predict(test_data.subset([0]))[0]
    assert len(model.predict_spans(test_data)) == len(test_data)


def test_constraints_and_reasons(model: StackedLabeler, test_data: Columns) -> None:
    one = test_data.subset([0])
    assert model.predict(one, [{0: "B-LOC"}])[0][0] == "B-LOC"
    reasons = {reason.name for reason in model.explain(one, 0, "B-LOC", "O").contributions}
    assert any(name.startswith("predicted[0]=") for name in reasons)
    assert model.explain(test_data, 0, sequence=0).label == model.predict(test_data)[0][0]
    with pytest.raises(InputError, match="one sequence"):
        model.explain(test_data, 0)


def test_rows_of_strings_are_columns_too(data: Columns) -> None:
    words, tags = data.column("word")[:30], data.column("ner")[:30]
    model = stacked().fit(words, tags)
    assert [len(labels) for labels in model.predict(words[:4])] == [len(sentence) for sentence in words[:4]]


def test_storage(tmp_path: Path, model: StackedLabeler, test_data: Columns) -> None:
    path = tmp_path / "model.pw"
    model.save(path)
    for loaded in (StackedLabeler.load(path), load_model(path), StackedLabeler.load(path, mmap=True)):
        assert type(loaded) is StackedLabeler
        assert loaded.predict(test_data) == model.predict(test_data)
        assert np.array_equal(loaded.second_.theta_, model.second_.theta_)
        assert (loaded.folds, loaded.column, loaded.first_score_) == (3, "predicted", model.first_score_)
        assert loaded.second.max_passes == 4 and loaded.first.scheme == "IOB2"
    with pytest.raises(StorageError):
        SequenceLabeler.load(path)
    stored = load(path)
    del stored.header["second"]
    save(path, stored.kind, stored.header, stored.arrays)
    with pytest.raises(StorageError, match="not a complete stacked-labeler"):
        load_model(path)


def test_it_behaves_as_scikit_learn_expects(data: Columns) -> None:
    model = stacked(folds=2)
    copy = clone(model).set_params(first__C=0.3, folds=4)
    assert (copy.first.C, copy.folds, model.first.C, model.folds) == (0.3, 4, stacked().first.C, 2)
    assert "StackedLabeler" in repr(model)
    with pytest.raises(NotFittedError):
        model.predict(data)
    with pytest.raises(NotFittedError):
        model.save("nowhere")
    fitted = model.fit(data.subset(slice(0, 60)), data.column("ner")[:60])
    assert fitted is model and not hasattr(model.first, "theta_")


def test_dev_data_and_callbacks(data: Columns, test_data: Columns) -> None:
    seen = []
    part, gold = data.subset(slice(0, 60)), data.column("ner")[:60]
    dev = (test_data, test_data.column("ner"))
    model = stacked(folds=2).fit(part, gold, dev=dev, callbacks=[lambda record, theta: seen.append(record.score)])
    assert len(seen) == 4 and max(seen) == pytest.approx(model.score(*dev))


def test_a_killed_training_resumes_to_the_same_weights(tmp_path: Path, data: Columns) -> None:
    part, gold = data.subset(slice(0, 60)), data.column("ner")[:60]
    whole = stacked(folds=2).fit(part, gold)

    class KilledError(Exception):
        pass

    def kill(record: Any, theta: Any) -> None:
        if record.step == 2:
            raise KilledError

    with pytest.raises(KilledError):
        stacked(folds=2).fit(part, gold, checkpoint=tmp_path / "run", callbacks=[kill])
    files = {path.name for path in tmp_path.iterdir()}
    assert {"run.fold0", "run.fold1", "run.first"} <= files
    resumed = stacked(folds=2).fit(part, gold, checkpoint=tmp_path / "run")
    assert np.array_equal(resumed.second_.theta_, whole.second_.theta_)


def test_another_column_name(data: Columns) -> None:
    part, gold = data.subset(slice(0, 60)), data.column("ner")[:60]
    model = StackedLabeler(stage(), stage("guess[0]"), folds=2, column="guess").fit(part, gold)
    assert any("guess" in name for name in model.second_.attribute_names())


def test_with_column_replaces_and_checks() -> None:
    data = Columns.from_sentences({"word": [["a", "b"], ["c"]]})
    once = with_column(data, "tag", [["X", "Y"], ["X"]])
    twice = with_column(once, "tag", [["Y", "Y"], ["Z"]])
    assert twice.names == ("word", "tag") and twice.column("tag") == [["Y", "Y"], ["Z"]]
    with pytest.raises(InputError, match="'tag' and the sentences differ"):
        with_column(data, "tag", [["X"], ["Y", "X"]])


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"folds": 1}, None, "folds"),
        ({"folds": True}, None, "folds"),
        ({"first": SequenceLabeler()}, None, "templates"),
        ({}, [["O"]], "differ"),
        ({}, [["O", None], ["O"], ["O"]], "None at position 1 of sequence 0"),
        ({}, [["O", "O"], ["O"], ["O", "O"]], "differ"),
    ],
)
def test_bad_input_is_told_plainly(options: dict[str, Any], y: Any, message: str) -> None:
    X = [["a", "b"], ["c"], ["d"]]
    model = StackedLabeler(**{"first": stage(), "second": stage(*MORE), "folds": 2, **options})
    with pytest.raises((InputError, ParameterError), match=message):
        model.fit(X, y or [["O", "B-X"], ["O"], ["B-X"]])

"""Mistakes that users make: each is reported before anything is computed, by name, and never ends in a traceback."""

from __future__ import annotations

import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimators import CASES, columns

import partwise as pw
from partwise.cli import main
from partwise.exceptions import InputError, ParameterError
from partwise.learners.base import LEARNERS

X, Y = [["a", "b"], ["c"]], [["N", "V"], ["N"]]


def labeler(**settings: Any) -> pw.SequenceLabeler:
    return pw.SequenceLabeler(["word[0]"], **{"max_passes": 2, **settings})


@pytest.mark.parametrize("name", list(LEARNERS))
def test_learners_check_the_type_of_every_setting(name: str) -> None:
    kind = LEARNERS[name]
    for setting in fields(kind):
        for wrong in ("x", ["y"]):
            if str(setting.type).startswith("str") and isinstance(wrong, str):
                continue
            with pytest.raises(ParameterError, match=f"'{setting.name}' parameter of {kind.__name__}"):
                kind(**{setting.name: wrong})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": "1"}, "'C' parameter of LBFGS must be a positive number. Got '1'"),
        ({"C": True}, "'C' parameter"),
        ({"max_passes": "3"}, "'max_passes' parameter of LBFGS must be an integer. Got '3'"),
        ({"max_passes": 2.5}, "an integer. Got 2.5"),
        ({"learner_options": {"tolerance": "x"}}, "'tolerance' parameter of LBFGS must be a number. Got 'x'"),
        ({"learner_options": {"needs": 1}}, "among l1_ratio, memory, tolerance, warm_passes. Got 'needs'"),
        ({"learner_options": {"tolerances": 1}}, "did you mean 'tolerance'"),
        ({"learner_options": ["tolerance"]}, "a dict of settings by name"),
        ({"patience": "2"}, "'patience' parameter of SequenceLabeler must be a positive integer"),
        ({"patience": 2}, "'patience' parameter of SequenceLabeler must be None unless fit is given held-out data"),
        ({"random_state": "x"}, "'random_state' parameter of LBFGS must be an integer"),
    ],
)
def test_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError) as error:
        labeler(**settings).fit(X, Y)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "name", ["SegmentLabeler", "SearchLabeler", "DependencyParser", "TransitionParser", "GraphLabeler"]
)
def test_patience_waits_for_a_dev_set_in_every_estimator(name: str) -> None:
    X, y = CASES[name].data()
    with pytest.raises(ParameterError, match=f"'patience' parameter of {name} must be None unless fit is given"):
        CASES[name].make().set_params(patience=2).fit(X, y)


def test_patience_of_stages_is_that_of_the_last_fit() -> None:
    X, y = columns("chunk")()
    model = CASES["StackedLabeler"].make().set_params(first__patience=1, second__patience=1)
    assert model.fit(X, y, dev=(X, y)).classes_


def test_held_out_labels() -> None:
    with pytest.raises(
        InputError, match=r"dev: none of the labels in the held-out data .*'P' at position 0 of sequence 0 is unknown"
    ):
        labeler().fit(X, Y, dev=(X, [["P", "Q"], ["R"]]))
    with pytest.warns(UserWarning, match=r"dev: labels 'Q' do not occur in training .* position 1 of sequence 0"):
        labeler().fit(X, Y, dev=(X, [["N", "Q"], ["N"]]))
    with pytest.raises(InputError, match="sequence 0 has 2 positions in X but 1 in y"):
        labeler().fit(X, Y, dev=(X, [["N"], ["N"]]))
    with pytest.raises(ParameterError, match=r"a pair \(X, y\) of held-out data"):
        labeler().fit(X, Y, dev=(X, Y, X))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labeler(learner="dca").fit(X, Y, dev=(X, [[None, {"N", "V"}], ["N"]]))  # known in part, not unknown
        coded = pw.data.Columns.from_sentences({"word": X, "tag": Y})
        labeler(learner="dca").fit(coded, coded.coded("tag"), dev=(coded, coded.coded("tag")))


@pytest.mark.parametrize(
    "tokens",
    [[[1, 2], [3]], [["a", None], ["c"]], [[None, "a"], ["c"]], [[b"a", b"b"], [b"c"]], [["a", 1.5], ["c"]]],
)
def test_tokens_that_are_not_strings(tokens: Any) -> None:
    model = labeler().fit(X, Y)
    for call in (lambda: labeler().fit(tokens, Y), lambda: model.predict(tokens), lambda: model.predict(tokens * 5)):
        with pytest.raises(InputError, match=r"(sequence|sentence) \d.*(position|token) \d.*expected"):
            call()


def test_too_few_feature_matrices() -> None:
    model = pw.StructuredClassifier(lambda X: pw.Multiclass(len(X), 2), lambda X: [np.eye(2)] * min(len(X), 3))
    with pytest.raises(InputError, match="there are 3 feature matrices for 4 instances; expected one per instance"):
        model.fit([1, 2, 3, 4], [0, 1, 0, 1])
    with pytest.raises(InputError, match="there are 3 feature matrices for 5 instances"):
        model.fit([1, 2, 3], [0, 1, 0]).predict([1, 2, 3, 4, 5])


def test_a_thousand_labels_of_order_two_say_how_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    words, labels = [[f"w{i}" for i in range(1000)]], [[f"l{i}" for i in range(1000)]]
    with pytest.raises(InputError, match=r"1000 labels with order=3 make 1,001,001,000,000 transition weights: 48,0"):
        labeler(order=3).fit(words, labels)
    from partwise.sequences.labels import check_size

    check_size(20, 2)
    with pytest.warns(
        UserWarning, match=r"300 labels with order=2 make 27,090,000 transition weights: 1\.3 GB at least"
    ):
        check_size(300, 2)
    monkeypatch.setattr("os.sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 4_000_000)  # 16 GB
    with pytest.raises(InputError, match=r"48\.0 GB at least, and this machine has 16\.4 GB; order=1 makes 1,000,000"):
        labeler(order=2).fit(words, labels)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--set", "foo=1"], "among l1_ratio, memory, tolerance, warm_passes. Got 'foo'"),
        (["--set", "needs=1"], "Got 'needs'"),
        (["--set", "tolerance=abc"], "must be a number. Got 'abc'"),
        (["--set", "memory=1.5"], "must be an integer. Got 1.5"),
        (["--set", "l1_ratio=true"], "must be a number. Got True"),
        (["--learner", "dca", "--set", "average=perhaps"], "must be True or False. Got 'perhaps'"),
        (["--learner", "sgd", "--set", "candidates=1"], "candidates"),
        (["--learner", "n_slack", "--set", "tolerance=x"], "must be a number"),
        (["--patience", "3"], "--patience needs held-out data: --dev"),
        (["-C", "0"], "'C' parameter"),
    ],
)
def test_the_command_line_never_ends_in_a_traceback(
    words: list[str], expected: str, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "train.txt"
    file.write_text("a N\nb V\n\nc N\n", "utf-8")
    how = ["train", str(file), "--model", str(tmp_path / "m.pw"), "--columns", "word,tag", "-t", "word[0]", "--quiet"]
    assert main([*how, *words]) in (1, 2)
    err = capsys.readouterr().err
    assert expected in err and "Traceback" not in err


def test_numbers_where_a_scheme_wants_tags() -> None:
    with pytest.raises(InputError, match="label 0 is not a tag of IOB2"):
        pw.SequenceLabeler(["word[0]"], scheme="IOB2").fit([["a", "b"]] * 3, [[0, 1]] * 3)


def test_labels_that_are_missing() -> None:
    with pytest.raises(InputError, match="y is missing: expected one sequence of labels"):
        labeler().fit(X)


def test_one_row_per_token() -> None:
    """A table of tokens, as spreadsheets have them, is told how to become a table of sentences, and then works."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"sentence": [0, 0, 1], "word": ["a", "b", "c"], "tag": ["N", "V", "N"]})
    with pytest.raises(InputError, match=r"column 'word' of the DataFrame holds strings.*groupby\('sentence'"):
        labeler().fit(table[["word"]], table["tag"])
    grouped = table.groupby("sentence", sort=False)[["word", "tag"]].agg(list)
    assert labeler().fit(grouped[["word"]], grouped["tag"]).predict(grouped[["word"]])[1] == ["N"]


def test_numbers_that_are_no_features() -> None:
    with pytest.raises(InputError, match=r"array of sequence 0 has shape \(2,\); expected \(length, number of feature"):
        pw.SequenceLabeler().fit([np.ones(2), np.ones(1)], Y)
    with pytest.raises(InputError, match="position 0 of sequence 0 is the number 1; expected a list of strings"):
        pw.SequenceLabeler().fit([[1, 2], [3]], Y)


def test_a_single_sentence_is_told_apart() -> None:
    model = labeler().fit(X, Y)
    for one in ("a b", ["a", "b"]):
        with pytest.raises(InputError, match=r"a single sentence goes into a list of its own: \[sentence\]"):
            model.predict(one)


def test_arrays_of_token_rows_are_rows() -> None:
    rows = [np.array([["a", "D"], ["b", "N"]]), np.array([["c", "N"]])]
    model = pw.SequenceLabeler(["word[0]", "pos[0]"], max_passes=2)
    lists = [x.tolist() for x in rows]
    assert model.fit(rows, Y).predict(rows) == model.fit(lists, Y).predict(lists)


def test_a_scheme_makes_the_score_one_of_chunks() -> None:
    """Tags without types (B, I, O) look like any labels; a scheme says that they are tags."""
    y = [["B", "I"], ["O"]]
    wrong = [["B", "O"], ["O"]]
    model = labeler(scheme="IOB2", max_passes=20).fit(X, y)
    assert model.predict(X) == y
    assert (model.score(X, y), model.score(X, wrong)) == (1.0, 0.0)
    assert labeler(max_passes=20).fit(X, y).score(X, wrong) == pytest.approx(2 / 3)

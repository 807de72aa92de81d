"""The report on a sequence labeller: its numbers are right, its text is escaped, and it needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse
from report_pages import NASTY, Document, Run, check_drawing, check_self_contained, entities_run, odd_run

from partwise.estimators import SequenceLabeler
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.metrics import bootstrap, calibration, chunk_scores, confusion, token_accuracy
from partwise.report import sequence_report
from partwise.report.markup import escape
from partwise.sequences.evaluation import Evaluation
from partwise.sequences.mistakes import explain_tokens


@pytest.fixture(scope="module")
def entities(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return entities_run(tmp_path_factory.mktemp("entities"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return odd_run(tmp_path_factory.mktemp("odd"))


# numbers


def test_scores_and_counts(entities: Run) -> None:
    data, gold, predicted = entities.data, entities.y, entities.predicted
    scores = chunk_scores(gold, predicted)
    assert set(data["scores"]) == {"f1", "precision", "recall", "accuracy"}
    for metric, shown in data["scores"].items():
        expected = bootstrap(gold, predicted, metric)
        assert shown == {"estimate": expected.estimate, "low": expected.low, "high": expected.high}
        assert f"{100 * shown['estimate']:.2f}" in Document(entities.text).words
    assert [(t["name"], t["correct"], t["gold"], t["predicted"]) for t in data["types"]] == [
        (name, *counts) for name, counts in scores.types.items()
    ]
    assert [t["f1"] for t in data["types"]] == [counts.f1 for counts in scores.types.values()]
    wrong = sum(a != b for x, y in zip(gold, predicted, strict=True) for a, b in zip(x, y, strict=True))
    counts = data["counts"]
    assert counts["sentences"] == len(gold) and counts["tokens"] == sum(map(len, gold))
    assert counts["wrong_tokens"] == wrong > 0 and counts["wrong_sentences"] == len(entities.wrong)
    assert counts["weights"] == len(entities.model.theta_)
    assert data["train_info"]["notes"] == "<b>none</b>"


def test_confusion_transitions_and_features(entities: Run) -> None:
    data, model = entities.data, entities.model
    labels, matrix = confusion(entities.y, entities.predicted)
    assert data["confusion"] == {"labels": labels, "matrix": matrix.tolist()}
    shown = data["transitions"]
    assert (shown["labels"], shown["weights"]) == (model.classes_, model.transition_weights().tolist())
    assert {one["label"] for one in data["features"]} == set(model.classes_)
    for one in data["features"]:
        for key, lowest in (("for", False), ("against", True)):
            expected = [w.weight for w in model.top_weights(one["label"], 10, lowest=lowest)]
            assert [weight for _, weight in one[key]] == [w for w in expected if (w < 0) == lowest and w]
            known = {(w.attribute, w.weight) for w in model.top_weights(one["label"], 10**6)}
            assert {tuple(pair) for pair in one[key]} <= known
    # a value stands apart from its template, which is cut short first where there is little room
    text = entities.path.read_text("utf-8")
    name = next(name for one in data["features"] for name, _ in one["for"] if "=" in name)
    template, value = name.split("=", 1)
    assert f'<span>{escape(template)}</span><span class="given">={escape(value)}</span>' in text


def test_calibration(entities: Run) -> None:
    marginals = np.concatenate(entities.marginals)
    gold = [label for sentence in entities.y for label in sentence]
    right = [entities.model.classes_[k] == label for k, label in zip(marginals.argmax(axis=1), gold, strict=True)]
    expected = calibration(np.minimum(marginals.max(axis=1), 1.0), right)
    shown = entities.data["calibration"]
    assert shown["error"] == expected.error and shown["counts"] == expected.counts.tolist()
    for key in ("confidence", "accuracy"):
        values = [np.nan if value is None else value for value in shown[key]]
        np.testing.assert_array_equal(values, getattr(expected, key))


def test_training(entities: Run) -> None:
    result, shown = entities.model.result_, entities.data["training"]
    assert [r["step"] for r in shown["records"]] == [r.step for r in result.trace]
    assert [r["objective"] for r in shown["records"]] == [r.objective for r in result.trace]
    assert [r["score"] for r in shown["records"]] == [r.score for r in result.trace]
    assert shown["best_step"] == result.best_step and shown["status"] == result.status
    bounds = np.maximum.accumulate([-np.inf if r.dual is None else r.dual for r in result.trace])
    gaps = [r["objective"] - bound for r, bound in zip(shown["records"], bounds, strict=True)]
    assert [r["gap"] for r in shown["records"]] == gaps
    if result.certificate is not None:
        assert shown["certificate"]["gap"] == result.certificate.gap


def test_errors_and_their_explanations(entities: Run) -> None:
    errors, model = entities.data["errors"], entities.model
    assert [sentence["i"] for sentence in errors["sentences"]] == entities.wrong
    for sentence in errors["sentences"]:
        i = sentence["i"]
        assert [errors["labels"][code] for code in sentence["gold"]] == entities.y[i]
        assert [errors["labels"][code] for code in sentence["predicted"]] == entities.predicted[i]
        assert sentence["words"] == [word.replace("\ud800", "\ufffd") for word in entities.X.sentence(i, "word")]
        best = [model.classes_.index(label) for label in entities.predicted[i]]
        expected = entities.marginals[i][np.arange(len(best)), best]
        np.testing.assert_allclose(sentence["p"], expected, atol=6e-5)
        wrong = [t for t, (a, b) in enumerate(zip(entities.y[i], entities.predicted[i], strict=True)) if a != b]
        assert sorted(map(int, sentence["why"])) == wrong
        for t in wrong:
            check_explanation(model, entities.X.subset([i]), t, entities.y[i][t], sentence["why"][str(t)])


def check_explanation(model: SequenceLabeler, X: Any, t: int, gold: str, why: dict[str, Any]) -> None:
    expected = model.explain(X, t, against=gold)
    assert why["rival"] == gold == expected.rival
    assert why["p_rival"] == pytest.approx(expected.rival_probability, abs=6e-5)
    assert why["margin"] == pytest.approx(expected.margin, abs=1e-12)
    assert why["margin"] == pytest.approx(sum(value for _, value in why["parts"]) + why["rest"][1], abs=1e-9)
    real = [c for c in expected.contributions if c.difference]
    assert len(real) == len(why["parts"]) + why["rest"][0]
    assert [value for _, value in why["parts"]] == [c.difference for c in real[: len(why["parts"])]]
    assert [name for name, _ in why["parts"]] == [c.name for c in real[: len(why["parts"])]]


def test_explanation_against_the_likeliest_other(entities: Run) -> None:
    found = Evaluation.of(entities.model, entities.X, entities.y)
    rows = entities.model.encoder_.transform(entities.X)
    [one] = explain_tokens(entities.model, rows, found.marginals, found.predicted.codes, [2], [-1])
    assert one == entities.model.explain(entities.X.subset([0]), 2)


def test_labels_that_are_no_tags(odd: Run) -> None:
    data = odd.data
    assert not data["chunks"] and set(data["scores"]) == {"accuracy"}
    assert data["scores"]["accuracy"]["estimate"] == token_accuracy(odd.y, odd.predicted)
    assert data["counts"]["unknown_labels"] == 1
    gold = [label for sentence in odd.y for label in sentence]
    predicted = [label for sentence in odd.predicted for label in sentence]
    by_name = {line["name"]: line for line in data["types"]}
    assert by_name["new"]["gold"] == gold.count("new") and by_name["new"]["predicted"] == 0
    for label in odd.model.classes_:
        line = by_name[label]
        correct = sum(a == b == label for a, b in zip(gold, predicted, strict=True))
        assert (line["correct"], line["gold"], line["predicted"]) == (
            correct,
            gold.count(label),
            predicted.count(label),
        )
    errors = data["errors"]
    new = errors["labels"].index("new")
    assert errors["known"][new] is False and all(errors["known"][:new])
    sentence = next(s for s in errors["sentences"] if new in s["gold"])
    t = sentence["gold"].index(new)
    assert sentence["p_gold"][str(t)] == 0
    assert sentence["why"][str(t)]["rival"] == odd.model.explain(odd.X[sentence["i"]], t).rival
    assert set(sentence["words"]) <= {"a", "b", "</script>"}
    check_self_contained(odd.text)


@pytest.mark.parametrize("kind", ["csr", "dense"])
def test_matrices_all_right(tmp_path: Path, kind: str) -> None:
    y = [["a", "b", "a"], ["b"]]
    arrays = [np.array([[label == "a", label == "b"] for label in sentence], float) for sentence in y]
    X = arrays if kind == "dense" else [scipy.sparse.csr_array(array) for array in arrays]
    run = Run(tmp_path, SequenceLabeler(C=10.0).fit(X, y), X, y)
    assert run.data["errors"]["sentences"] == [] and run.data["counts"]["wrong_sentences"] == 0
    assert "Every label is right." in check_self_contained(run.text).words


def test_words_can_be_given(tmp_path: Path) -> None:
    X = [np.eye(2), np.eye(2)]
    model = SequenceLabeler().fit(X, [["a", "b"], ["a", "b"]])
    y = [["b", "a"], ["a", "b"]]
    assert Run(tmp_path, model, X, y).data["errors"]["sentences"][0]["words"] == ["1", "2"]
    words = [["one", "two"], ["three", "four"]]
    assert Run(tmp_path, model, X, y, words=words).data["errors"]["sentences"][0]["words"] == ["one", "two"]
    with pytest.raises(InputError, match="words: expected one per token"):
        sequence_report(tmp_path / "x.html", model, X, y, words=[["one"], ["two"]])


# how many errors


def test_max_errors(entities: Run, tmp_path: Path) -> None:
    few = Run(tmp_path, entities.model, entities.X, entities.y, max_errors=5)
    chosen = [sentence["i"] for sentence in few.data["errors"]["sentences"]]
    assert len(chosen) == 5 and chosen[0] == few.wrong[0] and chosen[-1] == few.wrong[-1]
    assert set(chosen) <= set(few.wrong) and chosen == sorted(chosen)
    listed = sum(len(sentence["why"]) for sentence in few.data["errors"]["sentences"])
    assert few.data["errors"]["wrong_tokens"] == listed
    assert few.data["counts"] == entities.data["counts"]
    assert f"Here are 5 of these sentences, spread evenly over the data, with {listed} wrong labels" in few.text
    none = Run(tmp_path, entities.model, entities.X, entities.y, max_errors=0)
    assert none.data["errors"]["sentences"] == []
    every = Run(tmp_path, entities.model, entities.X, entities.y, max_errors=None)
    assert every.data["errors"] == entities.data["errors"]
    with pytest.raises(ParameterError, match="max_errors"):
        sequence_report(tmp_path / "x.html", entities.model, entities.X, entities.y, max_errors=-1)


# the page


def test_structure_and_escaping(entities: Run) -> None:
    document = check_self_contained(entities.text)
    sections = [found["id"] for name, found in document.elements if name == "section"]
    assert sections == [
        "summary", "training", "types", "confusion", "transitions", "features", "reliability", "errors",
    ]  # fmt: skip
    links = [found["href"] for name, found in document.elements if name == "a"]
    assert {f"#{name}" for name in sections} <= set(links)
    assert document.inside["title"][0] == "Entities <i>&"
    assert "<b>none</b>" in document.words and "<b>none" not in entities.text.split("<script")[0]
    for text in NASTY[:3]:
        assert text not in entities.text
    pictures = [found for name, found in document.elements if name == "svg"]
    assert len(pictures) >= 6 and all(found["aria-label"] and found["role"] for found in pictures)
    shown = {word for sentence in entities.data["errors"]["sentences"] for word in sentence["words"]}
    assert {"<script>alert(1)</script>", "\ufffd"} <= shown


def test_only_the_pages_own_scripts_may_run(entities: Run) -> None:
    document = Document(entities.text)
    policy = next(found["content"] for name, found in document.elements if found.get("http-equiv"))
    assert policy.startswith("default-src 'none';") and "'unsafe-inline'; script-src 'sha256-" in policy
    scripts = [script for script in document.inside["script"] if not script.startswith("{")]
    assert len(scripts) == 2
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_every_picture_is_sound(entities: Run, odd: Run) -> None:
    for run in (entities, odd):
        pictures = re.findall(r"<svg.*?</svg>", run.text, re.S)
        for picture in pictures:
            root = ElementTree.fromstring(picture)
            assert root[0].tag == "title" and root[0].text
            check_drawing(root)


# files and bad input


def test_written_whole_or_not_at_all(entities: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(StorageError, match="no folder"):
        sequence_report(tmp_path / "none" / "x.html", None, None, None)  # before anything is computed
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match=r"report\.html: cannot be written: No space left"):
        sequence_report(path, entities.model, entities.X, entities.y, max_errors=1)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_bad_gold_labels(entities: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    y = [list(sentence) for sentence in entities.y]
    y[3][1] = None  # type: ignore[call-overload]
    with pytest.raises(InputError, match="position 1 of sequence 3 has no single gold label"):
        sequence_report(path, entities.model, entities.X, y)
    with pytest.raises(InputError, match="gold sentences"):
        sequence_report(path, entities.model, entities.X, entities.y[:-1])
    assert not path.exists()

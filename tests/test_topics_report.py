"""The report on topic models: numbers are right, text is escaped, nothing else is needed; the experiments run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from report_pages import NASTY, check_drawing, check_self_contained, embedded

from partwise.exceptions import InputError, StorageError
from partwise.experiment import run_experiment
from partwise.report import topic_report
from partwise.report.maps import colour
from partwise.topics import LDA, DiscLDA, TextTopics, load_sample_documents

FAST: dict[str, Any] = {"n_iterations": 30, "n_samples": 40, "burn_in": 10}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Reports on a fixed and a learned DiscLDA and on an LDA, with texts and classes that must be escaped."""
    folder = tmp_path_factory.mktemp("reports")
    train, test = load_sample_documents("train"), load_sample_documents("test")
    renamed = {"music": "<b>music</b>"}
    labels = [renamed.get(label, label) for label in train.labels]
    texts = [f"{text} {NASTY[i % len(NASTY)]}" for i, text in enumerate(test.texts)] + [""]
    gold = [None if i == 7 else renamed.get(label, label) for i, label in enumerate(test.labels)] + ["chess"]
    learning: dict[str, Any] = {
        "transformation": "learned",
        "step_sizes": (1.0, 5.0),
        "n_rounds": 2,
        "gradient_steps": 2,
    }
    fitted = {
        "fixed": TextTopics(DiscLDA(2, 2, **FAST)).fit(train.texts, labels),
        "learned": TextTopics(DiscLDA(1, 1, sharpness=6.0, **learning, **FAST)).fit(train.texts, labels),
        "lda": TextTopics(LDA(6, n_iterations=30)).fit(train.texts),
    }
    for name, model in fitted.items():
        given = None if name == "lda" else gold
        topic_report(folder / f"{name}.html", model, texts, given, title="Letters <i>&", most_points=40)
    return {"folder": folder, "texts": texts, "gold": gold, **fitted}


@pytest.mark.parametrize("name", ["fixed", "learned", "lda"])
def test_pages_are_whole_and_need_nothing(name: str, pages: dict[str, Any]) -> None:
    text = (pages["folder"] / f"{name}.html").read_text("utf-8")
    document = check_self_contained(text)
    assert "<script>alert(1)</script>" not in text.split("</style>")[1].split('<script type="application/json"')[0]
    assert "Letters <i>&" in document.words
    drawings = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(drawings) >= (2 if name == "lda" else 5)
    for drawing in drawings:
        check_drawing(ElementTree.fromstring(drawing))
    sections = {e[1]["id"] for e in document.elements if e[0] == "section"}
    expected = {"summary", "training", "words", "map"} | ({"strong", "confusion", "errors"} if name != "lda" else set())
    assert sections == expected


def test_numbers(pages: dict[str, Any]) -> None:
    data, model = embedded(pages["folder"] / "fixed.html"), pages["fixed"]
    predicted = model.predict(pages["texts"])
    pairs = [(g, p) for g, p in zip(pages["gold"], predicted, strict=True) if g is not None]
    counts = data["counts"]
    assert counts["documents"] == 61 and counts["labelled"] == 60 and counts["empty"] == 1
    assert counts["wrong"] == sum(g != p for g, p in pairs) == len(data["errors"])
    names = data["confusion"]["labels"]
    assert names == [*model.classes_.tolist(), "chess"]
    for i, gold in enumerate(names):
        for j, chosen in enumerate(names):
            assert data["confusion"]["matrix"][i][j] == sum((g, p) == (gold, chosen) for g, p in pairs)
    for group, shown in zip(model.groups(), data["groups"], strict=True):
        assert shown["words"] == [[word, pytest.approx(score)] for word, score in model.top_words(group.topics, 12)]
    shares = model.transform(pages["texts"]).mean(axis=0)
    assert np.allclose([topic["share"] for topic in data["topics"]], shares)
    assert np.allclose(data["strong"]["strength"], model.model_.transformation_.sum(axis=2))
    assert data["strong"]["shared"] == [8, 9]
    assert [view["name"] for view in data["maps"]["views"]] == ["DiscLDA", "LDA with 10 topics"]
    assert all(len(view["points"]) == len(data["maps"]["groups"]) == 40 for view in data["maps"]["views"])


def test_learning_curves_show_every_step_size(pages: dict[str, Any]) -> None:
    data = embedded(pages["folder"] / "learned.html")
    assert data["history"] == pages["learned"].model_.history_ and data["trace"] == pages["learned"].trace_
    text = (pages["folder"] / "learned.html").read_text("utf-8")
    assert "η = 1" in text and "η = 5" in text and "validation error" in text


def test_report_errors(pages: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got 1 labels for 2 documents"):
        topic_report(tmp_path / "r.html", pages["fixed"], ["a", "b"], ["x"])
    with pytest.raises(StorageError, match="cannot be written"):
        topic_report(tmp_path / "no" / "r.html", pages["fixed"], ["a", "b"])
    topic_report(tmp_path / "r.html", pages["fixed"], ["choir", "oven"], ["<b>music</b>", "cooking"])
    assert "Too few documents for a map" in (tmp_path / "r.html").read_text("utf-8")


def test_colours_differ() -> None:
    assert len({colour(k, 20) for k in range(20)}) == 20 and colour(-1, 3) == "var(--muted)"


@pytest.mark.filterwarnings("ignore::UserWarning")  # files of others may need what is not installed
@pytest.mark.parametrize("name", ["lacostejulien2009-disclda", "lacostejulien2009-disclda-binary", "bridge-sampling"])
def test_quick_variants(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_EXPERIMENTS", raising=False)
    result = run_experiment(name, quick=True, out=tmp_path, data=tmp_path / "nowhere")
    assert result["quick"] and "Quick variant" in result["table"]
    assert Path(result["files"]["picture"]).stat().st_size > 5000
    assert run_experiment(name, quick=True, out=tmp_path, data=tmp_path / "nowhere")["cells"] == result["cells"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["lacostejulien2009-disclda", "lacostejulien2009-disclda-binary"])
def test_full_variants_say_what_data_they_need(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_EXPERIMENTS", raising=False)
    with pytest.raises(InputError, match=r"newsgroups20/20news-bydate\.tar\.xz: http"):
        run_experiment(name, out=tmp_path, data=tmp_path)

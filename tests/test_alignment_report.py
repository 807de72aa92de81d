"""The report on a word aligner: its numbers are right, its text is escaped, its script filters, and it stands alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from report_pages import NASTY, Document, check_drawing, check_self_contained, embedded

from partwise import WordAligner
from partwise.alignment import GenerativeAligner
from partwise.alignment.report_grid import alignment_grid, save_alignment
from partwise.alignment.report_pictures import OPEN
from partwise.data import load_sample_alignments
from partwise.exceptions import InputError, StorageError
from partwise.learners.base import objective
from partwise.metrics import alignment_bootstrap, alignment_scores
from partwise.report import alignment_report

TRAIN, TEST = load_sample_alignments("train"), load_sample_alignments("test")


class Run:
    """An aligner, its report, and what it predicts."""

    def __init__(self, path: Path, model: Any, X: Any, y: Any, **options: Any) -> None:
        self.path, self.model, self.X, self.y = path, model, X, y
        alignment_report(path, model, X, y, **options)
        self.data, self.text, self.predicted = embedded(path), path.read_text("utf-8"), model.predict(X)


@pytest.fixture(scope="module")
def raw() -> GenerativeAligner:
    return GenerativeAligner().fit(TRAIN.bitext + TEST.bitext)


@pytest.fixture(scope="module")
def trained(raw: GenerativeAligner, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With fertility and held-out pairs; some words must be escaped."""
    model = WordAligner(raw, model="M+F", infeasible="nearest", learner="extragradient", C=0.1, max_passes=20)
    model.fit(TRAIN.bitext, TRAIN.gold, dev=(TEST.bitext[:20], TEST.gold[:20]))
    pairs = [([*source], [*target]) for source, target in TEST.bitext]
    for k, (source, target) in enumerate(pairs):
        source[k % len(source)] = NASTY[k % len(NASTY)]
        target[0] = NASTY[(k + 1) % len(NASTY)]
    path = tmp_path_factory.mktemp("trained") / "page.html"
    info = {"pairs": 100, "seconds": 1.5, "notes": "<b>none</b>"}
    return Run(
        path, model, pairs, TEST.gold, title="French <i>&", train_info=info, numbers=TEST.numbers, worst=8, others=4
    )


@pytest.fixture(scope="module")
def untrained(raw: GenerativeAligner, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("raw") / "page.html", raw, TEST.bitext, TEST.gold)


def test_pages_stand_alone(trained: Run, untrained: Run) -> None:
    for run in (trained, untrained):
        document = Document(run.text)
        check_self_contained(run.text)
        assert "report-data" in document.ids and "pair-list" in document.ids
        for picture in re.findall(r"<svg.*?</svg>", run.text, re.S):
            check_drawing(ElementTree.fromstring(picture))
    assert "French &lt;i&gt;&amp;" in trained.text and "<b>none</b>" not in trained.text


def test_scores(trained: Run) -> None:
    gold, predicted, data = trained.y, trained.predicted, trained.data
    scores = alignment_scores(gold, predicted)
    for metric in ("aer", "precision", "recall"):
        expected = alignment_bootstrap(gold, predicted, metric)
        assert data["scores"][metric] == {"estimate": expected.estimate, "low": expected.low, "high": expected.high}
    f1 = data["scores"]["f1"]
    assert f1["estimate"] == scores.f1 and f1["low"] < scores.f1 < f1["high"]
    linked, sure, both, possible = scores.counts.sum(axis=0)
    counts = data["counts"]
    assert counts["wrong"] == linked - possible > 0 and counts["missed"] == sure - both > 0
    assert counts["pairs"] == 50 and counts["source_words"] == sum(len(source) for source, _ in trained.X)
    assert f"{100 * scores.aer:.2f}" in Document(trained.text).words


def test_lengths_cover_all_pairs(trained: Run) -> None:
    rows = trained.data["lengths"]
    assert sum(row["pairs"] for row in rows) == 50
    short = [i for i, (source, target) in enumerate(trained.X) if 6 <= max(len(source), len(target)) <= 10]
    here = next(row for row in rows if row["words"] == "6 – 10")
    expected = alignment_scores([trained.y[i] for i in short], [trained.predicted[i] for i in short])
    assert here["pairs"] == len(short)
    assert here["aer"] == pytest.approx(expected.aer) and here["recall"] == pytest.approx(expected.recall)


def test_training_and_weights(trained: Run) -> None:
    model, data = trained.model, trained.data
    records = data["training"]["records"]
    assert len(records) == len(model.result_.trace) and data["training"]["best_step"] == model.result_.best_step
    kept = records[model.result_.best_step - 1]
    norm = float(np.linalg.norm(model.theta_))
    assert kept["extra"]["norm"] == pytest.approx(norm)
    assert kept["hinge"] == pytest.approx(kept["objective"] - norm**2 / (2 * 0.1 * 100))
    weights = {w["name"]: w["weight"] for w in data["weights"]}
    named = dict(zip(model.feature_names_, model.theta_, strict=True))
    assert weights == {name: w for name, w in named.items() if w}
    sizes = [abs(w["weight"]) for w in data["weights"]]
    assert sizes == sorted(sizes, reverse=True)
    for chart in (
        "Hinge loss by ‖w‖",
        "AER on held-out pairs, in percent by pass",
        "Objective by pass",
        "AER by length",
    ):
        assert f"<title>{chart}</title>" in trained.text
    assert data["settings"]["generative"].startswith("GenerativeAligner(") and "sources" not in data["settings"]


@pytest.mark.parametrize("learner", ["extragradient", "n_slack", "one_slack"])
def test_hinge_is_the_mean_loss(raw: GenerativeAligner, tmp_path: Path, learner: str) -> None:
    """What the report says is the objective less the regulariser, recomputed from the problem."""
    caught: list[Any] = []
    model = WordAligner(raw, infeasible="nearest", learner=learner, C=0.1, max_passes=6)
    learner_fit = type(model._settings()[0]).fit

    def spy(self: Any, problem: Any, **options: Any) -> Any:
        caught.append(problem)
        return learner_fit(self, problem, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model._settings()[0]), "fit", spy)
        model.fit(TRAIN.bitext[:30], TRAIN.gold[:30])
    alignment_report(tmp_path / "p.html", model, TEST.bitext, TEST.gold)
    kept = embedded(tmp_path / "p.html")["training"]["records"][model.result_.best_step - 1]
    assert kept["objective"] == pytest.approx(objective(caught[0], model.theta_, 0.1))
    assert kept["hinge"] == pytest.approx(caught[0].losses(model.theta_).mean())


def test_pairs_are_the_worst_and_some_others(trained: Run) -> None:
    shown, gold = trained.data["pairs"], trained.y
    errors = []
    for links, found in zip(gold, map(set, trained.predicted), strict=True):
        errors.append(len(found - links.possible) + len(links.sure - found))
    worst = [pair for pair in shown if not pair["random"]]
    ranked = sorted(errors, reverse=True)
    assert [pair["wrong"] + pair["missed"] for pair in worst] == [e for e in ranked[:8] if e]
    assert len(shown) - len(worst) == 4 and len({pair["place"] for pair in shown}) == len(shown)
    for pair in shown:
        i = pair["place"]
        assert pair["number"] == TEST.numbers[i] and errors[i] == pair["wrong"] + pair["missed"]
        assert [tuple(link) for link in pair["predicted"]] == trained.predicted[i]
    items = [a for name, a in Document(trained.text).elements if name == "details" and "data-wrong" in a]
    assert len(items) == len(shown) and sum("open" in item for item in items) == OPEN
    assert trained.text.count("source words down, target words across</title>") == len(shown)


def test_generative_models_show_likelihoods(untrained: Run) -> None:
    data = untrained.data
    assert data["training"] is None and data["weights"] is None and len(data["likelihood"]) == 10
    assert "<title>hmm: log-likelihood per word</title>" in untrained.text and "Top features" not in untrained.text
    assert len([pair for pair in data["pairs"] if pair["random"]]) == 10
    assert data["pairs"][0]["number"] == data["pairs"][0]["place"] + 1


def test_learners_without_a_bound(raw: GenerativeAligner, tmp_path: Path) -> None:
    model = WordAligner(raw, learner="perceptron", infeasible="nearest", max_passes=3).fit(TRAIN.bitext, TRAIN.gold)
    alignment_report(tmp_path / "page.html", model, TEST.bitext, TEST.gold)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "this learner gives no lower bound" in text and "Hinge loss" not in text


def test_perfect_alignments(raw: GenerativeAligner, tmp_path: Path) -> None:
    found = raw.predict(TEST.bitext)
    alignment_report(tmp_path / "page.html", raw, TEST.bitext, found)
    data = embedded(tmp_path / "page.html")
    assert data["scores"]["aer"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}
    assert all(pair["random"] for pair in data["pairs"])


def test_bad_input(raw: GenerativeAligner, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sentence pairs to report on"):
        alignment_report(tmp_path / "x.html", raw, [], [])
    with pytest.raises(InputError, match="1 pairs but 2 numbers"):
        alignment_report(tmp_path / "x.html", raw, TEST.bitext[:1], TEST.gold[:1], numbers=[1, 2])
    with pytest.raises(InputError, match="link 0-99 is out of range"):
        alignment_report(tmp_path / "x.html", raw, TEST.bitext[:1], [[(0, 99)]])
    with pytest.raises(StorageError, match="cannot be written"):
        alignment_report(tmp_path / "no" / "x.html", raw, TEST.bitext, TEST.gold)
    assert not list(tmp_path.iterdir())


def test_the_grid_stands_alone() -> None:
    picture = alignment_grid(
        ["<a>", "b", "c"], ["x & y", "z"], [(0, 0), (1, 0), (2, 1)], sure=[(0, 0), (1, 1)], possible=[(2, 1)], title="T"
    )
    check_drawing(ElementTree.fromstring(picture))
    assert picture.count('class="right"') == 2 and picture.count('class="wrong"') == 1
    assert picture.count('class="gold missed"') == 1 and "&lt;a&gt; – x &amp; y: sure, predicted, right" in picture
    assert "c – z: possible, predicted, right" in picture and "b – z: sure, not predicted" in picture
    check_drawing(ElementTree.fromstring(alignment_grid([], [], [])))


def test_the_script_runs(trained: Run, tmp_path: Path) -> None:
    """In a real browser, where there is one: its filters are there and nothing failed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on PATH")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    command = [program, *options, f"--user-data-dir={tmp_path}", "--dump-dom", trained.path.as_uri()]
    try:
        text = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode("utf-8")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{program} does not run here: {error}")
    root = re.search(r"<html[^>]*>", text)
    assert root and 'data-ready="1"' in root[0] and "data-error" not in root[0]
    n = len(trained.data["pairs"])
    assert f"{n} of {n} pairs" in text and "Unfold all" in text and "most errors first" in text


@pytest.mark.parametrize("name", ["grid.svg", "grid.png"])
def test_a_grid_goes_to_a_file(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    save_alignment(path, ["a", "dog"], ["un", "chien"], [(0, 0), (1, 0)], sure=[(0, 0), (1, 1)], possible=[(0, 1)])
    start = path.read_bytes()[:8]
    assert start.startswith(b"<svg") if name.endswith("svg") else start == b"\x89PNG\r\n\x1a\n"

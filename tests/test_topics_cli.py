"""``partwise topics``: what it reads, prints and writes, and what it says of bad input."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import environment, fails, ok

from partwise.cli import main
from partwise.estimators import load_model
from partwise.topics import load_sample_documents

SMALL = ["--class-topics", "2", "--shared-topics", "2", "--iterations", "40", "--samples", "60"]


def write_tsv(path: Path, split: str) -> None:
    texts, labels = load_sample_documents(split)
    path.write_text("".join(f"{label}\t{text}\n" for text, label in zip(texts, labels, strict=True)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.tsv, test.tsv, a folder of classes, and a DiscLDA and an LDA of them."""
    folder = tmp_path_factory.mktemp("topics")
    write_tsv(folder / "train.tsv", "train")
    write_tsv(folder / "test.tsv", "test")
    for number, (text, label) in enumerate(zip(*load_sample_documents("train"), strict=True)):
        (folder / "letters" / label).mkdir(parents=True, exist_ok=True)
        (folder / "letters" / label / f"{number:03}.txt").write_text(text)
    train = ["topics", "train", str(folder / "train.tsv"), "--tab", "-q"]
    assert main([*train, "-m", str(folder / "classes.pw"), *SMALL]) == 0
    assert main([*train, "--lda", "--topics", "6", "--iterations", "40", "-m", str(folder / "lda.pw")]) == 0
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def test_train_tells_what_it_did(here: Path, capsys: Any) -> None:
    command = ["topics", "train", "train.tsv", "--tab", "--test", "test.tsv", "-m", "t.pw", *SMALL]
    capsys.readouterr()
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "train.tsv: 120 documents, 4 classes" in err and "training: pass 40/40" in err
    assert out.startswith("t.pw: disclda, ") and "10 topics" in out and "test error" in out
    summary = json.loads(ok(capsys, *command, "--json", "-q"))
    assert summary["classes"] == ["astronomy", "cooking", "cycling", "music"] and summary["iterations"] == 40
    assert summary["test"]["documents"] == 60 and summary["test"]["error"] < 0.25
    assert summary["bytes"] == (here / "t.pw").stat().st_size and summary["log_likelihood"] < 0


def test_a_folder_of_classes_is_a_file_of_lines(here: Path, capsys: Any) -> None:
    """The same documents in another order: the same classes and vocabulary; without folders there are no classes."""
    ok(capsys, "topics", "train", "letters", "-m", "f.pw", "-q", *SMALL)
    model, other = load_model(here / "f.pw"), load_model(here / "classes.pw")
    assert model.classes_.tolist() == other.classes_.tolist()
    assert model.counter_.vocabulary_.tolist() == other.counter_.vocabulary_.tolist()
    summary = ok(
        capsys, "topics", "train", "letters/music", "-m", "g.pw", "-q", "--topics", "3", "--iterations", "5", "--json"
    )
    assert json.loads(summary)["kind"] == "lda" and json.loads(summary)["documents"] == 30


def test_labels_from_a_file_of_their_own(here: Path, capsys: Any) -> None:
    texts, labels = load_sample_documents("train")
    (here / "texts.txt").write_text("\n".join(texts) + "\n")
    (here / "labels.txt").write_text("\n".join("" if i % 10 == 0 else label for i, label in enumerate(labels)) + "\n")
    capsys.readouterr()
    assert main(["topics", "train", "texts.txt", "--labels", "labels.txt", "-m", "u.pw", *SMALL]) == 0
    assert "120 documents (12 without a label), 4 classes" in capsys.readouterr().err


def test_learned_and_variational(here: Path, capsys: Any) -> None:
    train = ["topics", "train", "train.tsv", "--tab", "-m", "v.pw", "-q", "--json"]
    few = ["--class-topics", "1", "--shared-topics", "1", "--iterations", "5"]
    summary = json.loads(ok(capsys, *train, "--variational", "--learn", *few))
    assert 0 <= summary["validation_error"] <= 1
    model = load_model(here / "v.pw").model_
    assert model.inference == "variational" and model.transformation == "learned"


def test_infer(here: Path, capsys: Any) -> None:
    model = load_model(here / "classes.pw")
    texts, labels = load_sample_documents("test")
    capsys.readouterr()
    assert main(["topics", "infer", "classes.pw", "test.tsv", "--tab"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split("\t") for line in out.splitlines()]
    chances = model.predict_proba(texts)
    assert [line[0] for line in lines] == [str(n) for n in range(1, 61)]
    assert [line[1] for line in lines] == model.classes_[chances.argmax(axis=1)].tolist()
    assert [float(line[2]) for line in lines] == np.round(chances.max(axis=1), 4).tolist()
    wrong = (model.predict(texts) != np.array(labels)).sum()
    assert f"({wrong} of 60)" in err
    rows = [
        json.loads(line)
        for line in ok(capsys, "topics", "infer", "classes.pw", "test.tsv", "--tab", "--json").splitlines()
    ]
    assert rows[3]["label"] == labels[3] and np.isclose(sum(rows[3]["probabilities"].values()), 1.0)
    assert np.allclose(rows[3]["topics"], model.transform(texts)[3])


def test_infer_from_a_pipe_and_without_classes(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"choir and violin\n\nzzz\n")))
    capsys.readouterr()
    assert main(["topics", "infer", "lda.pw", "-", "--top", "2"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) == 3 and all(len(line) == 2 and len(line[1].split()) == 2 for line in lines)
    assert "2 documents have no word of the vocabulary" in err


def test_unknown_labels_are_named(here: Path, capsys: Any) -> None:
    (here / "odd.tsv").write_text("chess\tchoir and violin\nmusic\tchoir and violin\n")
    assert main(["topics", "infer", "classes.pw", "odd.tsv", "--tab"]) == 0
    err = capsys.readouterr().err
    assert "does not know count as errors: chess" in err and "error 50.00% (1 of 2)" in err


def test_show(here: Path, capsys: Any) -> None:
    model = load_model(here / "classes.pw")
    out = ok(capsys, "topics", "show", "classes.pw", "--top", "4")
    for group in model.groups():
        words = " ".join(f"{word} {score:.0f}" for word, score in model.top_words(group.topics, 4))
        assert f"{group.name:<9}  {words}" in out
    found = json.loads(ok(capsys, "topics", "show", "classes.pw", "--group", "music", "--each", "--json"))
    assert [group["group"] for group in found["groups"]] == ["music, topic 6", "music, topic 7"]
    assert "topic 5" in ok(capsys, "topics", "show", "lda.pw")
    report = ["--data", "test.tsv", "--tab", "--report", "r.html"]
    assert "report: r.html" in ok(capsys, "topics", "show", "classes.pw", *report)
    assert "classes.pw on test.tsv" in (here / "r.html").read_text("utf-8")


def test_inspect_knows_the_kind(here: Path, capsys: Any) -> None:
    assert "text-topics" in ok(capsys, "inspect", "classes.pw")


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["topics"], "what to do: train, infer or show?", 2),
        (["topics", "train", "train.tsv"], "missing: where to write the model", 2),
        (["topics", "train", "none.tsv", "-m", "x.pw"], "none.tsv: cannot be read: there is no such file", 1),
        (["topics", "train", "train.tsv", "-m", "no/x.pw"], "no/x.pw: cannot be written", 1),
        (["topics", "train", "bad.txt", "--tab", "-m", "x.pw"], "bad.txt:2: expected LABEL<tab>TEXT, found no tab", 1),
        (["topics", "train", "empty.txt", "-m", "x.pw"], "empty.txt: holds no documents", 1),
        (["topics", "train", "latin.txt", "-m", "x.pw"], "latin.txt:2: not utf-8: byte 0xe9; name the encoding", 1),
        (["topics", "train", "latin.txt", "-m", "x.pw", "--encoding", "klingon"], "no encoding 'klingon'", 2),
        (
            ["topics", "train", "bad.txt", "-m", "x.pw", "--labels", "one.txt"],
            "one.txt: 1 labels for the 2 documents",
            1,
        ),
        (["topics", "train", "mixed", "-m", "x.pw"], "mixed: holds folders and files (stray.txt)", 1),
        (["topics", "train", "nested", "-m", "x.pw"], "a folder in the folder of a class", 1),
        (["topics", "train", "mixed", "--tab", "-m", "x.pw"], "--tab is for a file of lines", 2),
        (
            ["topics", "train", "bad.txt", "-m", "x.pw", "--learn"],
            "--learn is for classes, but the documents have no",
            2,
        ),
        (["topics", "train", "train.tsv", "--tab", "--lda", "--samples", "9", "-m", "x.pw"], "but --lda is given", 2),
        (["topics", "train", "train.tsv", "--tab", "--topics", "9", "-m", "x.pw"], "--topics is for LDA", 2),
        (["topics", "train", "one.tsv", "--tab", "-m", "x.pw", "-q"], "got only class 'x'", 1),
        (["topics", "train", "nolabel.tsv", "--tab", "-m", "x.pw", "-q"], "no document has a label; --lda", 1),
        (["topics", "train", "bad.txt", "-m", "x.pw", "--topics", "0"], "must be at least 1. Got 0 instead.", 1),
        (["topics", "train", "bad.txt", "-m", "x.pw", "-q", "--min-documents", "9"], "words is left: loosen", 1),
        (["topics", "train", "bad.txt", "-m", "x.pw", "-q", "--beta", "-1"], "'beta' parameter of LDA", 1),
        (["topics", "infer", "none.pw", "bad.txt"], "none.pw: cannot be read: there is no such file", 1),
        (["topics", "infer", "bad.txt", "bad.txt"], "bad.txt: ", 1),
        (["topics", "show", "classes.pw", "--group", "musik"], "did you mean 'music'?", 1),
        (["topics", "show", "classes.pw", "--report", "x.html"], "--report and --data go together", 2),
    ],
)
def test_bad_input(words: list[str], message: str, code: int, here: Path, capsys: Any) -> None:
    (here / "bad.txt").write_text("x\tapple pear\nno tab in this line\n")
    (here / "empty.txt").write_text("")
    (here / "one.txt").write_text("x\n")
    (here / "one.tsv").write_text("x\tapple pear\nx\tpear tart\n")
    (here / "nolabel.tsv").write_text("\tapple pear\n\tpear tart\n")
    (here / "latin.txt").write_bytes(b"fine\ncaf\xe9\n")
    for folder, stray in (("mixed/a", "mixed/stray.txt"), ("nested/a/b", "nested/a/c.txt")):
        (here / folder).mkdir(parents=True, exist_ok=True)
        (here / stray).write_text("apple")
    assert message in fails(capsys, *words, code=code)


def test_other_models_are_refused(here: Path, capsys: Any) -> None:
    load_model(here / "lda.pw").model_.save(here / "bare.pw")
    assert "holds a 'lda', not a model of partwise topics train" in fails(capsys, "topics", "show", "bare.pw")


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_there_is(here: Path) -> None:
    words = [
        "topics",
        "train",
        "train.tsv",
        "--tab",
        "-m",
        "stopped.pw",
        "--iterations",
        "1000000",
        "--checkpoint",
        "c",
    ]
    command = [sys.executable, "-m", "partwise", *words, *SMALL[:4]]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (here / "c").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "the model trained so far is in stopped.pw" in err
    assert 0 < load_model(here / "stopped.pw").model_.n_iter_ < 1000000

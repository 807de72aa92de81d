"""The command line on bad input: what it says, where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import fails, ok, prepare, work_in
from helpers import forge, split

import partwise
from partwise.cli import main
from partwise.estimators import load_model

TRAIN = ("train", "bad.txt", "-m", "m.pw", "-q")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("cli"))


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return work_in(folder, tmp_path, monkeypatch)


def test_usage_errors_have_code_2(capsys: Any, here: Path) -> None:
    assert main([]) == 2
    assert main(["train", "train.txt", "-m", "x.pw", "--C", "much"]) == 2
    assert fails(capsys, "trian", code=2) == "unknown command 'trian': did you mean 'train'?"
    assert fails(capsys, "train", "train.txt", code=2) == "missing: where to write the model: --model FILE"
    for words in (("inspect", "chunker.pw"), ("explain", "chunker.pw", "train.txt"), ("topics", "show", "x.pw")):
        assert "expected a whole number of at least 0, got '-3'" in fails(capsys, *words, "--top", "-3", code=2)
    assert "--header leaves them out" in fails(capsys, "inspect", "chunker.pw", "--header", "--label", "O", code=2)
    assert "is a model; on which file" in fails(capsys, "evaluate", "chunker.pw", code=2)
    assert "only be combined with --json" in fails(capsys, "predict", "chunker.pw", "--spans", "--kbest", "2", code=2)
    assert "--list shows them all" in fails(capsys, "reproduce", code=2)
    assert ok(capsys, "--version") == f"partwise {partwise.__version__}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('learnr = "dca"', "did you mean 'learner'"),
        ('C = "much"', "The 'C' parameter of run.toml must be a number. Got 'much' instead."),
        ("order = true", "The 'order' parameter of run.toml must be an integer. Got True instead."),
        ("loss = [1]", "must be a name or two numbers [beta, gamma]. Got [1] instead."),
        ("C = ", "run.toml: not TOML: "),
    ],
)
def test_configuration_errors(text: str, message: str, capsys: Any, here: Path) -> None:
    (here / "run.toml").write_text(text)
    assert message in fails(capsys, "train", "train.txt", "-m", "x.pw", "--config", "run.toml")


def test_evaluate_names_unknown_labels(capsys: Any, here: Path) -> None:
    (here / "odd.txt").write_text("The DT B-NP\ndog NN B-DOG\n\nIt PRP B-DOG\n")
    assert main(["evaluate", "chunker.pw", "odd.txt"]) == 0
    message = "2 tokens have labels that the model does not know: 'B-DOG' (2, first at odd.txt:2)"
    assert f"warning: {message}; they count as errors\n" in capsys.readouterr().err
    assert fails(capsys, "evaluate", "chunker.pw", "odd.txt", "--strict") == message
    scores = json.loads(ok(capsys, "evaluate", "chunker.pw", "odd.txt", "--json"))
    assert scores["unknown_labels"] == {"B-DOG": {"count": 2, "first": "odd.txt:2"}}


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"a DT B-NP\nb NN\n", (), "bad.txt:2: expected 3 columns (as on line 1), got 2"),
        (b"a DT\n", ("--columns", "word,pos,chunk", "--label", "chunk"), "bad.txt:1: no column 'chunk'"),
        (b"a\n", ("--columns", "word,pos,chunk"), "bad.txt:1: 1 column; expected 3 (word, pos, chunk)"),
        (b"a B C D E\n", (), "bad.txt:1: 5 columns; name them with --columns"),
        (b"\n\n", (), "bad.txt: no sentences: the file has no token lines"),
        (b"ok DT B-NP\n\ncaf\xe9 NN B-NP\n", (), "bad.txt:3:4: not utf-8: byte 0xe9"),
        (b"a DT X\n", ("--scheme", "IOB3"), "(did you mean 'IOB2'?). Got 'IOB3' instead."),
        (b"a DT X\n", ("--scheme", "IOB2"), "bad.txt: the labels cannot be read as IOB2: "),
        (b"a DT X\n", ("-t", "lemma[0]"), "--templates:1: there is no column 'lemma'; the columns are word, pos"),
        (b"a DT X\n", ("-t", "chunk[0]"), "there is no column 'chunk'"),  # the label is not to be seen
        (b"a DT X\n", ("-t", "sufix(word,2)[0]"), "unknown function 'sufix' (did you mean 'suffix'?)"),
        (b"a DT X\n", ("-t", "chunkin"), "(did you mean 'chunking'?)"),
        (b"a DT X\n", ("--loss", "crff"), "(did you mean 'crf'?)"),
        (b"a DT X\n", ("--learner", "lbgfs"), "(did you mean 'lbfgs'?)"),
        (b"a DT X\n", ("--C", "-1"), "The 'C' parameter of LBFGS must be a positive number. Got -1.0 instead."),
        (b"a DT X\n", ("--loss", "svm", "-t", "word[0]"), "LBFGS minimises smooth losses"),
        (b"a DT X\n", ("--set", "speed=3"), "Got 'speed' instead."),
        (b"a DT X\n", ("--label", "ner", "--columns", "word,pos,chunk"), "Got 'ner' instead."),
        (b"a DT X\n", ("--dev", "gone.txt"), "gone.txt: cannot be read: there is no such file"),
    ],
)
def test_bad_training_input(content: bytes, flags: tuple[str, ...], message: str, capsys: Any, here: Path) -> None:
    (here / "bad.txt").write_bytes(content)
    assert message in fails(capsys, *TRAIN, *flags)
    assert not (here / "m.pw").exists()


@pytest.mark.parametrize("flag", ["--model", "--report", "--checkpoint"])
def test_unwritable_paths_are_found_before_training(
    flag: str, capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "partwise.sequences.commands._files.FileLayout.read", lambda *args: pytest.fail("the data was read")
    )
    message = fails(capsys, "train", "train.txt", "-m", "m.pw", flag, "no/such/folder/x")
    assert message.startswith("no/such/folder/x: cannot be written: no folder")


def test_bad_models(capsys: Any, here: Path) -> None:
    content = (here / "chunker.pw").read_bytes()
    text, data = split(content)
    cases = {
        "truncated": (content[: len(content) // 2], ": truncated: "),
        "foreign": (b"PK\x03\x04 something else", ": not a partwise file: begins with"),
        "newer": (forge(text, data, version=99), "format 99; this version reads up to 1"),
        "other": (forge(json.loads(text) | {"kind": "alien"}, data), "holds a 'alien'; expected one of"),
    }
    for name, (damaged, message) in cases.items():
        (here / name).write_bytes(damaged)
        for words in (("predict", name, "test.txt"), ("evaluate", name, "test.txt"), ("explain", name, "test.txt")):
            assert message in fails(capsys, *words)
    assert ": truncated: " in fails(capsys, "inspect", "truncated")
    assert "missing.pw: cannot be read" in fails(capsys, "predict", "missing.pw", "test.txt")
    assert "missing.txt: No such file" in fails(capsys, "predict", "chunker.pw", "missing.txt")
    (here / "wide.txt").write_text("a DT B-NP O\n")
    message = "wide.txt:1: 4 columns; expected 3 (word, pos, chunk), or 2 without 'chunk'"
    assert fails(capsys, "predict", "chunker.pw", "wide.txt") == message


def test_a_checkpoint_goes_on_with_other_threads_and_messages(capsys: Any, here: Path) -> None:
    words = ["train", "train.txt", "--max-passes", "3", "-t", "word[0]", "--checkpoint", "run.ckpt"]
    ok(capsys, *words, "-m", "a.pw", "-q")
    ok(capsys, *words, "-m", "b.pw", "-j", "2")
    np.testing.assert_array_equal(load_model("a.pw").theta_, load_model("b.pw").theta_)
    assert "belongs to another run" in fails(capsys, *words, "-m", "c.pw", "-q", "--C", "2")

"""``partwise chunk-train`` and ``partwise chunk``: what they write, and what they say of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partwise.cli import main
from partwise.data.column_files import write_columns
from partwise.sequences.sample import load_sample


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_columns(tmp_path / "train.txt", load_sample("english", split="train").subset(slice(0, 60)))
    return tmp_path


TRAIN = ["chunk-train", "train.txt", "-t", "word[-1..1]", "-t", "pos[-1..1]", "--max-passes", "3", "--quiet"]


def test_exact_and_searching_models(here: Path, capsys: Any) -> None:
    assert main([*TRAIN, "--model", "exact.pw", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "segment-labeler"
    assert main([*TRAIN, "--model", "search.pw", "--beam", "3"]) == 0
    for model in ("exact.pw", "search.pw"):
        capsys.readouterr()
        assert main(["chunk", model, "train.txt", "--evaluate"]) == 0
        assert float(capsys.readouterr().out.splitlines()[1].split()[-1]) > 90
        assert main(["chunk", model, "train.txt", "--kbest", "2"]) == 0
        assert len(json.loads(capsys.readouterr().out.splitlines()[0])) == 2
    assert main(["chunk", "exact.pw", "train.txt", "--spans"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])[0]["probability"] > 0.1
    assert main(["chunk", "exact.pw", "train.txt", "-o", "tagged.txt"]) == 0
    lines = Path("tagged.txt").read_text().split("\n")
    assert lines[0].split()[2].startswith(("B-", "O"))
    assert main(["chunk", "search.pw", "train.txt", "--spans"]) == 1
    assert "has scores but no probabilities; use --kbest" in capsys.readouterr().err


def test_bad_input(here: Path, capsys: Any) -> None:
    assert main([*TRAIN, "--model", "m.pw", "--beam", "0"]) == 1
    assert "'beam' parameter of LaSO must be at least 1" in capsys.readouterr().err
    assert main([*TRAIN, "--model", "m.pw", "--max-length", "1"]) == 1
    assert "segments are longer than max_length allows" in capsys.readouterr().err

"""``partwise predict --workers``: the same bytes as one process, whatever the input and the format."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from cli_runs import ok

import partwise
from partwise.data import load_sample, streams, write_columns
from partwise.sequences.commands import _parallel


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    data = load_sample(split="train").without("ner")
    write_columns(folder / "t.txt", data)
    with gzip.open(folder / "t.txt.gz", "wb") as file:
        file.write((folder / "t.txt").read_bytes())
    for name, lines in (("s.pw", ["word[-1..1]", "pos[0]"]), ("d.pw", ["word[0]", "doc_lower(word)[0]"])):
        model = partwise.SequenceLabeler(lines, columns=("word", "pos"), max_passes=3)
        model.fit(data.without("chunk"), data.coded("chunk"))
        model.info_ = {"columns": ["word", "pos", "chunk"], "label": "chunk"}
        model.save(folder / name)
    return folder


@pytest.mark.parametrize(
    "command",
    [("s.pw", "t.txt"), ("d.pw", "t.txt"), ("s.pw", "t.txt", "--json"), ("s.pw", "t.txt.gz", "--marginals")],
    ids=lambda command: " ".join(command),
)
def test_same_output(files: Path, command: tuple[str, ...], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parallel, "SPAN_BYTES", 3000)  # many pieces of a small file
    model, file, *flags = command
    words = ["predict", str(files / model), str(files / file), *flags]
    alone, together = ok(capsys, *words), ok(capsys, *words, "--workers", "2")
    assert together == alone and len(alone) > 1000
    monkeypatch.setattr(streams, "BLOCK_BYTES", 2000)  # read ahead of what is being labelled
    assert ok(capsys, *words, "-j", "2") == alone

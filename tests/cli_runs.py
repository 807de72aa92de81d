"""What the tests of the command line share: a folder with data and a model, and ways to run a command."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

import partwise
from partwise.cli import main
from partwise.data import load_sample, write_columns

ROOT = Path(partwise.__file__).parent.parent
TEMPLATES = ["-t", "word[0]", "-t", "pos[-1..1]", "-t", "suffix(word,2)[0]"]


def prepare(place: Path) -> Path:
    """train.txt, test.txt (word, pos, chunk; with documents), and a chunker trained on the first."""
    data = load_sample("news")
    for name, part in (("train", slice(0, 60)), ("test", slice(60, 75))):
        rows = [[row[:3] for row in sentence] for sentence in data.subset(part).sentences()]
        text = io.StringIO()
        for i in range(0, len(rows), 5):
            text.write("-DOCSTART- -X- -X-\n\n")
            write_columns(text, rows[i : i + 5])
        (place / f"{name}.txt").write_text(text.getvalue())
    files = [str(place / "train.txt"), "--dev", str(place / "test.txt"), "--model", str(place / "chunker.pw")]
    assert main(["train", *files, "--max-passes", "15", "--quiet", *TEMPLATES]) == 0
    return place


def work_in(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with links to the prepared files."""
    for name in ("train.txt", "test.txt", "chunker.pw"):
        (place / name).symlink_to(folder / name)
    monkeypatch.chdir(place)
    return place


def ok(capsys: Any, *words: str) -> str:
    """What a command that must succeed prints."""
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 0, err
    return str(out)


def fails(capsys: Any, *words: str, code: int = 1) -> str:
    """What a command that must fail says, after its own name."""
    capsys.readouterr()
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return str(err).split("error: ", 1)[1].rstrip("\n")


def environment() -> dict[str, str]:
    """For a process of its own that finds this partwise."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}

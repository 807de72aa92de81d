"""Tables and progress on a terminal, with rich and without it."""

from __future__ import annotations

import importlib.util
import io
import sys
from typing import Any

import numpy as np
import pytest

from partwise.cli.console import print_table
from partwise.learners.base import Record
from partwise.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name == "rich" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setitem(sys.modules, "rich.table", None)  # importing it would be an error
    monkeypatch.setitem(sys.modules, "rich.progress", None)


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    monkeypatch.setattr("sys.stdout", stream)
    print_table(["name", "F1"], [["crf", "93.5"], ["svm", "4.25"]], "Scores")
    return stream.getvalue()


def test_plain_table_without_rich(monkeypatch: pytest.MonkeyPatch, without_rich: None) -> None:
    assert shown(monkeypatch, Terminal()) == shown(monkeypatch, io.StringIO()) == (
        "Scores\nname    F1\ncrf   93.5\nsvm   4.25\n"
    )  # fmt: skip


def test_framed_table_with_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    text = shown(monkeypatch, Terminal())
    assert "93.5" in text and any(line in text for line in "─━")


def test_plain_progress_without_rich(without_rich: None) -> None:
    log = Terminal()
    with Progress(1, "training", stream=log) as progress:
        progress(Record(1, 0.5, objective=2.0), np.zeros(1))
    assert log.getvalue() == "training: pass 1/1, 0.5 s, objective 2\n"

"""The tour of ``partwise demo``: every stop trains, scores, draws and shows its code; ``--only`` selects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partwise.cli import main
from partwise.cli.registry import UsageError
from partwise.cli.tour import all_stops, choose_stops, source_of
from partwise.data import load_sample, write_columns

STOPS = ["tagger", "parser", "aligner", "segmentation", "topics"]


def test_stops_are_found_in_order() -> None:
    assert [stop.name for stop in all_stops()] == STOPS
    assert [stop.name for stop in choose_stops("topics, tagger")] == ["tagger", "topics"]
    with pytest.raises(UsageError, match="got 'tager'"):
        choose_stops("tager")


@pytest.mark.parametrize("stop", all_stops(), ids=lambda stop: stop.name)
def test_code_of_a_stop_is_a_program(stop: Any) -> None:
    source = source_of(stop)
    compile(source, stop.name, "exec")
    assert source.startswith("from partwise") and ".fit(" in source and "return" not in source


@pytest.mark.parametrize("name", STOPS)
def test_each_stop(name: str, capsys: Any, tmp_path: Path) -> None:
    assert main(["demo", "--only", name, "--out", str(tmp_path), "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["stops"]) == [name]
    scores = found["stops"][name]
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<svg" in page or "data:image/png" in page
    assert ("img-src data:" in page) == (name == "segmentation")
    if name == "tagger":
        assert scores["F1"] > 0.6
        write_columns(tmp_path / "sample.txt", load_sample(split="test"))
        assert main(["evaluate", str(tmp_path / "ner.pw"), str(tmp_path / "sample.txt"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["f1"] == pytest.approx(scores["F1"])
    elif name == "parser":
        assert scores["UAS"] > 0.9
    elif name == "aligner":
        assert scores["AER, learned"] < scores["AER, HMM"] < 0.1
    elif name == "segmentation":
        assert scores["pixel accuracy, cut"] > scores["pixel accuracy, alone"] + 0.03
    else:
        assert scores["letters classified correctly"] > 0.8


def test_text_of_a_stop(capsys: Any, tmp_path: Path) -> None:
    assert main(["demo", "--only", "aligner", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "AER, learned" in shown.out and shown.out.endswith("report.html\n")
    assert "a tour in 1 stop" in shown.err

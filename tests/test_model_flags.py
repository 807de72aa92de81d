"""``--model`` is the model file in every command: those that train write it, the others read it; and ``--encoding``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from cli_runs import fails, ok

from partwise.cli import build_parser, main
from partwise.cli.registry import all_commands

#: Commands about files of others, or about no file.
WITHOUT = {"bench", "reproduce", "demo", "infer", "pack"}


def parsers() -> list[tuple[str, argparse.ArgumentParser]]:
    found = []
    for command in all_commands():
        parser = build_parser([command.name])
        (places,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        own = places.choices[command.name]
        inner = [a for a in own._actions if isinstance(a, argparse._SubParsersAction)]
        if inner:
            found += [(f"{command.name} {name}", each) for name, each in inner[0].choices.items()]
        else:
            found.append((command.name, own))
    return [(name, parser) for name, parser in found if name not in WITHOUT]


@pytest.mark.parametrize(("name", "parser"), parsers(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_names_its_model_file_alike(name: str, parser: argparse.ArgumentParser) -> None:
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    assert flags["--model"] is flags["-m"] and flags["--model"].metavar == "FILE" and not flags["--model"].choices
    if name.endswith("train"):
        assert flags["--save"] is flags["--model"], "--save of a command that trains is its --model"
    elif name != "align":  # which can train the model it aligns with, and keep it by --save
        assert "--save" not in flags


WORDS = "Zoë N\nnaïve A\n\ncafé N\nZoë N\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "latin.txt").write_bytes(WORDS.encode("latin-1"))
    (tmp_path / "utf8.txt").write_text(WORDS, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAIN = ("train", "latin.txt", "--columns", "word,tag", "-t", "word[0]", "--max-passes", "9", "--quiet")


def test_encoding_is_read_and_remembered(here: Path, capfd: Any) -> None:
    assert main([*TRAIN, "--model", "m.pw", "--encoding", "latin-1"]) == 0
    capfd.readouterr()
    assert main(["predict", "m.pw", "latin.txt"]) == 0  # as in training
    first = capfd.readouterr().out
    assert main(["predict", "--model", "m.pw", "utf8.txt", "--encoding", "utf-8"]) == 0
    assert capfd.readouterr().out == first and first.splitlines()[0] == "Zoë N N"
    assert main(["evaluate", "--model", "m.pw", "latin.txt", "--json"]) == 0


def test_wrong_encodings_are_told(here: Path, capsys: Any) -> None:
    assert "latin.txt:1" in (said := fails(capsys, *TRAIN, "--model", "m.pw")) and "not utf-8" in said
    assert "encoding" in fails(capsys, *TRAIN, "--model", "m.pw", "--encoding", "klingon")


def test_the_model_by_name_or_by_place(here: Path, capsys: Any) -> None:
    ok(capsys, *TRAIN, "--save", "m.pw", "--encoding", "latin-1")
    assert ok(capsys, "inspect", "m.pw") == ok(capsys, "inspect", "--model", "m.pw")
    explained = ok(capsys, "explain", "m.pw", "latin.txt", "--token", "0")
    assert ok(capsys, "explain", "-m", "m.pw", "latin.txt", "--token", "0") == explained
    assert "an extra argument" in fails(capsys, "predict", "-m", "m.pw", "a.txt", "b.txt", code=2)
    assert "missing: FILE" in fails(capsys, "explain", "-m", "m.pw", code=2)
    assert "missing: the model file" in fails(capsys, "inspect", code=2)

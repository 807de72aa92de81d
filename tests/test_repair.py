"""Ill-formed tags: one behaviour in Python and on the command line, and one parameter, ``repair``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from partwise import SearchLabeler, SegmentLabeler, SequenceLabeler, StackedLabeler
from partwise.cli import main
from partwise.exceptions import InputError
from partwise.sequences.tags import convert_all

X = [[("Ann", "N"), ("saw", "V"), ("Bo", "N")], [("New", "N"), ("York", "N"), ("it", "P")]] * 60
GOOD = [["B-PER", "O", "B-PER"], ["B-LOC", "I-LOC", "O"]] * 60
SLIP = [["B-PER", "O", "I-PER"], *GOOD[1:]]  # one slip among 240 tags inside chunks

LINES = ["word[0]", "pos[-1..1]"]


def stage(*more: str, **settings: Any) -> SequenceLabeler:
    return SequenceLabeler([*LINES, *more], learner="dca", max_passes=1, **settings)


MODELS = {
    "sequence": lambda **how: SequenceLabeler(LINES, max_passes=3, **how),
    "segment": lambda **how: SegmentLabeler(LINES, max_passes=1, **how),
    "search": lambda **how: SearchLabeler(LINES, max_passes=1, **how),
    "stacked": lambda **how: StackedLabeler(stage(**how), stage("doc_label(word,predicted)[0]", **how), folds=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_slip_is_repaired_and_counted(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MODELS[name](scheme="IOB2").fit(X, SLIP)
    said = [str(w.message) for w in caught if "repaired" in str(w.message)]
    assert len(said) == 1
    assert "1 of 360 labels" in said[0] and "I-PER → B-PER at position 2 of sequence 0" in said[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.predict(X[:2]) == MODELS[name](scheme="IOB2").fit(X, GOOD).predict(X[:2])


@pytest.mark.parametrize("name", MODELS)
def test_without_repair_the_error_names_label_position_and_repair(name: str) -> None:
    expected = r"label I-PER at position 2 of sequence 0: it should be B-PER .*IOB2\); repair=True"
    with pytest.raises(InputError, match=expected):
        MODELS[name](scheme="IOB2", repair=False).fit(X, SLIP)


@pytest.mark.parametrize("found", ["IOB1", "IOBES", "BILOU"])
def test_another_scheme_is_named(found: str) -> None:
    for name in ("sequence", "segment"):
        with pytest.raises(InputError, match=f"they look like {found}: use scheme='{found}', or convert") as error:
            MODELS[name](scheme="IOB2").fit(X, convert_all(GOOD, "IOB2", found))
        assert "convert_all(y" in str(error.value)


def test_labels_that_are_no_tags() -> None:
    with pytest.raises(InputError, match="'N' is not a chunk tag"):
        MODELS["sequence"](scheme="IOB2").fit(X, [["N", "V", "N"], ["N", "N", "P"]] * 60)


def test_labels_known_in_part_are_left_alone() -> None:
    partly: list[list[Any]] = [[None, "O", {"B-PER", "O"}], *GOOD[1:]]
    assert MODELS["sequence"](scheme="IOB2").fit(X, partly).predict(X[1:2]) == [GOOD[1]]


def column_file(path: Path, labels: list[list[str]]) -> Path:
    blocks = (
        "\n".join(f"{w} {p} {t}" for (w, p), t in zip(s, row, strict=True)) for s, row in zip(X, labels, strict=True)
    )
    path.write_text("\n\n".join(blocks) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("command", ["train", "chunk-train"])
def test_the_command_line_does_the_same(command: str, tmp_path: Path, capsys: Any) -> None:
    file = column_file(tmp_path / "slip.txt", SLIP)
    how = [command, str(file), "--columns", "word,pos,tag", "-t", "word[0]", "--scheme", "IOB2", "--max-passes", "2"]
    assert main([*how, "--model", str(tmp_path / "a.pw")]) == 0
    said = "".join(capsys.readouterr())
    assert "repaired" in said and "1 " in said and ".py" not in said
    assert main([*how, "--model", str(tmp_path / "b.pw"), "--repair", "no"]) == 1
    out, err = capsys.readouterr()
    assert "label I-PER at position 2 of sequence 0: it should be B-PER" in err and not out
    assert not (tmp_path / "b.pw").exists()
    assert main([*how, "--model", str(tmp_path / "b.pw"), "--repair", "perhaps"]) == 2

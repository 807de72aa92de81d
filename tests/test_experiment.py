"""Experiments: found, run, cached, resumed; what is missing is said; the quick variants of the real ones run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.exceptions import InputError, ParameterError
from partwise.experiment import Cell, Context, code_version, find_experiments, markdown_table, register, run_experiment

SOURCE = """
from pathlib import Path
from partwise.experiment import Needs, markdown_table, register

FACTOR = 2


def helper(number):
    return FACTOR * number


def run(settings, context):
    log = Path(__file__).with_name("log.txt")
    log.write_text((log.read_text() if log.exists() else "") + str(settings["number"]) + " ")
    if settings["number"] == 3 and Path(__file__).with_name("fails").exists():
        raise KeyboardInterrupt
    return {"twice": helper(settings["number"]), "more": {"half": settings["number"] / 2}}


def cells(context):
    return [{"number": n} for n in ((1,) if context.quick else (1, 2, 3, 4))]


def table(cells, context):
    return markdown_table(["n", "2n"], [[c.settings["number"], c.result["twice"]] for c in cells])


def draw(figure, cells, context):
    figure.subplots().plot([c.result["twice"] for c in cells])


register("doubling", run, description="numbers doubled", paper="Nobody (2000).", cells=cells, table=table, draw=draw,
         needs=[Needs("numbers/all.txt", "the shop of numbers")])
"""


class Folder:
    """A folder of experiments with one in it, its data and its output."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.out = path / "experiments", path / "data", path / "out"
        self.path.mkdir()
        (self.data / "numbers").mkdir(parents=True)
        (self.data / "numbers" / "all.txt").write_text("1 2 3 4")
        self.write(SOURCE)

    def write(self, text: str, name: str = "doubling") -> None:
        (self.path / f"{name}.py").write_text(text)

    def run(self, **options: Any) -> dict[str, Any]:
        return run_experiment("doubling", **{"out": self.out, "data": self.data, **options})

    def ran(self) -> str:
        log = self.path / "log.txt"
        text = log.read_text() if log.exists() else ""
        log.unlink(missing_ok=True)
        return text.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    made = Folder(tmp_path)
    monkeypatch.setenv("PARTWISE_EXPERIMENTS", str(made.path))
    return made


def test_results_table_and_picture(folder: Folder) -> None:
    assert find_experiments() == {"doubling": "numbers doubled"}
    result = folder.run()
    assert [cell["result"]["twice"] for cell in result["cells"]] == [2, 4, 6, 8]
    stored = json.loads(Path(result["files"]["results"]).read_text())
    assert stored["cells"] == result["cells"] and stored["paper"] == "Nobody (2000)."
    table = Path(result["files"]["table"]).read_text()
    assert table.startswith("# doubling\n") and "| 4 | 8 |" in table
    assert Path(result["files"]["picture"]).read_bytes()[:4] == b"\x89PNG"


def test_finished_cells_are_not_run_again(folder: Folder) -> None:
    first = folder.run()
    assert folder.ran() == "1 2 3 4"
    again = folder.run()
    assert folder.ran() == "" and again["cells"] == first["cells"]
    folder.run(quick=True)
    assert folder.ran() == "1"


def test_a_part_of_the_training_data(folder: Folder) -> None:
    with pytest.raises(InputError, match="experiment doubling takes no number of sentences"):
        folder.run(sentences=2)
    folder.write(
        SOURCE.replace("draw=draw,", "draw=draw, parts=True,").replace(
            "helper(settings", "context.sentences * (settings"
        )
    )
    result = folder.run(sentences=10)
    assert [cell["result"]["twice"] for cell in result["cells"]] == [10, 20, 30, 40] and result["sentences"] == 10
    assert [cell["result"]["twice"] for cell in folder.run(sentences=5)["cells"]] == [5, 10, 15, 20]
    with pytest.raises(InputError, match="the quick variant of doubling takes no number of sentences"):
        folder.run(sentences=2, quick=True)
    with pytest.raises(ValueError, match="'sentences' parameter of doubling must be at least 1"):
        folder.run(sentences=0)


def test_a_killed_experiment_goes_on(folder: Folder) -> None:
    (folder.path / "fails").touch()
    with pytest.raises(KeyboardInterrupt):
        folder.run()
    assert folder.ran() == "1 2 3"
    (folder.path / "fails").unlink()
    assert len(folder.run()["cells"]) == 4
    assert folder.ran() == "3 4"


def test_half_a_cell_counts_for_nothing(folder: Folder) -> None:
    folder.run()
    folder.ran()
    damaged = sorted((folder.out / "doubling" / "cells").iterdir())[0]
    damaged.write_text(damaged.read_text()[:20])
    folder.run()
    assert len(folder.ran().split()) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text.replace("FACTOR = 2", "FACTOR = 3"), "1 2 3 4"),
        (lambda text: text.replace("* number", "* number + 1"), "1 2 3 4"),
        (lambda text: text.replace('"2n"', '"twice"'), ""),
        (lambda text: text + "\n# a remark\n", ""),
        (lambda text: text.replace("(1, 2, 3, 4)", "(1, 2, 3, 4, 5)"), "5"),
    ],
)
def test_only_changed_code_runs_again(folder: Folder, change: Callable[[str], str], expected: str) -> None:
    folder.run()
    folder.ran()
    folder.write(change(SOURCE))
    folder.run()
    assert folder.ran() == expected


def test_other_data_run_again(folder: Folder) -> None:
    folder.run()
    folder.ran()
    (folder.data / "numbers" / "all.txt").write_text("1 2 3 4 5")
    folder.run()
    assert folder.ran() == "1 2 3 4"


def test_missing_data_is_said_before_anything_runs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"numbers/all\.txt: the shop of numbers"):
        folder.run(data=folder.path)
    monkeypatch.setenv("PARTWISE_DATA", str(folder.path))
    with pytest.raises(InputError, match="PARTWISE_DATA"):
        folder.run(data=None)
    assert folder.ran() == "" and not folder.out.exists()
    assert folder.run(quick=True, data=None)["cells"]
    monkeypatch.setenv("PARTWISE_DATA", str(folder.data))
    assert len(folder.run(data=None)["cells"]) == 4


def test_unknown_names_and_folders(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="did you mean 'doubling'"):
        run_experiment("dubling", out=folder.out)
    monkeypatch.setenv("PARTWISE_EXPERIMENTS", str(folder.path / "nowhere"))
    with pytest.raises(InputError, match="source checkout"):
        find_experiments()


def test_a_broken_file_is_a_warning_and_others_work(folder: Folder) -> None:
    folder.write("import nothing_of_this_name", "broken")
    with pytest.warns(UserWarning, match=r"broken\.py: ModuleNotFoundError"):
        assert list(find_experiments()) == ["doubling"]


def test_files_may_import_one_another(folder: Folder) -> None:
    folder.write("VALUE = 7", "shared_by_two")
    more = "from shared_by_two import VALUE\nfrom partwise.experiment import register\n"
    folder.write(more + "register('seven', lambda: {'value': VALUE}, description='seven')", "seven")
    assert run_experiment("seven", out=folder.out)["cells"][0]["result"] == {"value": 7}


def test_without_matplotlib_there_is_a_word_and_no_picture(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert set(folder.run()["files"]) == {"results", "table"}
    assert "partwise[plot]" in capsys.readouterr().err


def test_a_plain_function_is_an_experiment(tmp_path: Path) -> None:
    def scale(number: int, by: float = 2.0) -> dict[str, Any]:
        return {"mean": np.float64(number * by), "list": np.arange(2), "none": float("nan"), "deep": {"x": 1}}

    register("scaling-test", scale, description="scaled", cells=[{"number": 1}, {"number": 2}], quick=[{"number": 5}])
    result = run_experiment("scaling-test", out=tmp_path)
    assert result["cells"][1]["result"] == {"mean": 4.0, "list": [0, 1], "none": "nan", "deep": {"x": 1}}
    assert result["table"].splitlines()[0] == "| number | mean | none | deep.x |"
    assert run_experiment("scaling-test", out=tmp_path, quick=True)["cells"][0]["result"]["mean"] == 10.0
    register("scaling-test", scale, description="scaled", cells=[{"number": {1}}])
    with pytest.raises(ParameterError, match="JSON"):
        run_experiment("scaling-test", out=tmp_path)


def test_version_of_a_function_that_is_in_no_file() -> None:
    space: dict[str, Any] = {}
    exec("def f(): return 1\ndef g(): return 22", space)
    assert code_version(space["f"]) == code_version(space["f"])


def test_markdown() -> None:
    assert markdown_table(["a", "b"], [[1, None]]) == "| a | b |\n|---|---|\n| 1 |  |"


def test_context_names_files(tmp_path: Path) -> None:
    assert Context(True, tmp_path).file("a/b.txt") == str(tmp_path / "a" / "b.txt")


@pytest.mark.filterwarnings("ignore::UserWarning")  # files of others may need what is not installed
@pytest.mark.parametrize(
    "name",
    [
        "conll2000-crf",
        "martins2010-ner",
        "martins2010-parsing",
        "maxmargin-race",
        "bartlett2004-ner",
        "bartlett2004-wcfg",
        "lacostejulien2009-qap",
        "daume2005-theorem4",
    ],
)
def test_quick_variants(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_EXPERIMENTS", raising=False)
    result = run_experiment(name, quick=True, out=tmp_path, data=tmp_path / "nowhere")
    assert result["quick"] and "Quick variant" in result["table"]
    assert Path(result["files"]["picture"]).stat().st_size > 5000
    again = run_experiment(name, quick=True, out=tmp_path, data=tmp_path / "nowhere")
    assert again["cells"] == result["cells"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "pictures"), [("horses", 12 * 5), ("lacostejulien2009-segmentation", 2 * 4)])
def test_reports_hold_pictures(name: str, pictures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input, truth and answers of twelve images; two scans by height, truth, answer and errors."""
    pytest.importorskip("skimage", reason="superpixels need scikit-image")
    pytest.importorskip("clarabel", reason="the regularisation path needs clarabel")
    monkeypatch.delenv("PARTWISE_EXPERIMENTS", raising=False)
    result = run_experiment(name, quick=True, out=tmp_path, data=tmp_path / "nowhere")
    page = Path(result["files"]["report"]).read_text("utf-8")
    assert page.count("data:image/png;base64,") == pictures
    assert ("<table" in page and "test error" in page) or "pixel accuracy" in page
    if name == "horses":
        return
    experiment = sys.modules["partwise_experiment_lacostejulien2009_segmentation"]
    cells = [Cell(**cell) for cell in result["cells"]]
    assert len(experiment.heights(cells)) == 3 and min(experiment.heights(cells).values()) >= 0.0
    curve = next(cell for cell in cells if cell.settings["method"] == "proj-grad")
    curve.result["hinge"][-1] *= 0.5
    with pytest.raises(AssertionError, match=r"puppets: proj-grad comes .* below the regularisation path"):
        experiment.table(cells, None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_real_experiments_say_what_data_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_EXPERIMENTS", raising=False)
    with pytest.raises(InputError, match=r"conll2003/eng\.testb: the CoNLL-2003 shared task"):
        run_experiment("martins2010-ner", out=tmp_path, data=tmp_path)

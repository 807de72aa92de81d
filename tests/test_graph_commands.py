"""Graphs from files, the commands on them and the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from partwise.__main__ import run as main
from partwise.cli import main as run_command
from partwise.cli.registry import training_command, training_tasks
from partwise.exceptions import FormatError
from partwise.graphs import GraphLabeler
from partwise.graphs.files import read_graphs
from partwise.graphs.report import graph_report
from partwise.report.pictures import png, view_of_points


def write(path: Path, count: int, seed: int) -> Path:
    """Rows of six nodes, the first some of them "a", the others "b"."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        cut = int(rng.integers(2, 5))
        labels = ["a"] * cut + ["b"] * (6 - cut)
        nodes = [[float(1.0 if y == "a" else -1.0) + rng.normal(0, 0.8)] for y in labels]
        lines.append(json.dumps({"nodes": nodes, "edges": [[j, j + 1] for j in range(5)], "labels": labels}))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_train_and_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = write(tmp_path / "train.jsonl", 12, 0), write(tmp_path / "test.jsonl", 6, 1)
    model, report = tmp_path / "model.pw", tmp_path / "report.html"

    def call(*words: object) -> str:
        monkeypatch.setattr("sys.argv", ["partwise", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            raise SystemExit(main())
        assert end.value.code in (0, None)
        return capsys.readouterr().out

    out = call("train", train, "--task", "graph", "--model", model, "--dev", test, "--report", report, "--json", "-q")
    summary = json.loads(out)
    assert (summary["interaction"], summary["inference"]) == ("full", "junction_tree") and summary["accuracy"] > 0.7
    assert "intersection over union" in report.read_text("utf-8")
    lines = [json.loads(line) for line in call("graph", test, "--model", model).splitlines()]
    assert len(lines) == 6 and set(lines[0]["labels"]) <= {"a", "b"}
    graphs, labels = read_graphs(test)
    fitted = GraphLabeler.load(model)
    view = view_of_points(np.random.default_rng(0).random((50, 3)), np.zeros((50, 3), np.uint8), size=40)
    graph_report(report, fitted, graphs, labels, pictures=[("first", [("points", view)])])
    text = report.read_text("utf-8")
    assert "data:image/png;base64," in text and "img-src data:" in text


def test_tasks_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    """``train --task NAME`` is the command ``NAME-train``; the registry knows which there are."""
    assert {"sequence", "graph", "parse", "align"} <= set(training_tasks())
    assert training_command(["train", "--task=graph", "x"]) == ["graph-train", "x"]
    assert training_command(["train", "--task", "sequence", "x"]) == ["train", "x"]
    assert training_command(["predict", "--task", "x"]) == ["predict", "--task", "x"]
    assert run_command(["train", "x", "--task", "grpah"]) == 2
    assert "--task must be one of sequence, align" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"nodes": [[1.0]]', "2: not JSON"),
        ('{"edges": []}', "2: expected an object with 'nodes'"),
        ('{"nodes": [[1.0]]}', "2: the graph has no 'labels'"),
        ('{"nodes": [[1.0]], "edges": [[0, 3]], "labels": [0]}', r"2: edge 0 of type 'edge' is \(0, 3\)"),
        ('{"nodes": [[1.0]], "labels": [0], "colour": 1}', "2: unknown field 'colour'"),
    ],
)
def test_bad_files(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_text('{"nodes": [[1.0], [2.0]], "labels": [0, 1]}\n' + line + "\n")
    with pytest.raises(FormatError, match=message):
        read_graphs(path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_graphs(tmp_path / "missing")


def test_pictures_are_files_that_others_read() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    image = pytest.importorskip("PIL.Image")
    import io

    np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(png(pixels)))), pixels)

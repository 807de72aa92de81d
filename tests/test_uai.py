"""UAI files: reading, writing, errors with lines; answers against pytoulbar2 and pgmpy; the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import fails, ok
from graph_oracles import enumerate_graph, random_graph

from partwise.exceptions import FormatError, InputError
from partwise.graphs.uai import UaiModel, format_answer, read_evidence, read_uai, write_uai
from partwise.structures import FactorGraph, Graph
from partwise.structures.graphs import model as conditions

TEXT = """MARKOV
3
2 2 3
2
2 0 1
2 1 2

4
 0.436 0.564
 0.128 0.872

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.uai"
    path.write_text(TEXT)
    return path


def random_model(seed: int) -> tuple[UaiModel, Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 1, n=5, density=1.5)
    scores = rng.normal(size=enumerate_graph(graph).parts.shape[1])
    return UaiModel.from_graph(graph, scores), graph, scores


def test_reading_and_writing(file: Path, tmp_path: Path) -> None:
    model = read_uai(file)
    assert (model.kind, model.states, model.scopes) == ("MARKOV", [2, 2, 3], [(0, 1), (1, 2)])
    graph, scores, constant = model.factor_graph()
    space = FactorGraph([graph])
    total = np.einsum("ij,jk->", *model.tables)
    np.testing.assert_allclose(space.marginals(0, scores)[0] + constant, np.log(total))
    write_uai(tmp_path / "copy.uai", model)
    again = read_uai(tmp_path / "copy.uai")
    for old, new in zip(model.tables, again.tables, strict=True):
        np.testing.assert_array_equal(old, new)


def test_hard_factors_become_tables() -> None:
    for seed in range(6):
        model, graph, scores = random_model(seed)
        plain, tables, constant = model.factor_graph()
        expected = enumerate_graph(graph).log_partition(scores)
        np.testing.assert_allclose(FactorGraph([plain]).marginals(0, tables)[0] + constant, expected, rtol=1e-10)
    wide = Graph([2] * 30, [], [conditions.some(range(30))])
    with pytest.raises(InputError, match="too many for a table"):
        UaiModel.from_graph(wide, np.zeros(60))


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("MARKOV", "MARKOW", 1, "expected MARKOV or BAYES; got 'MARKOW'"),
        ("2 2 3\n", "2 0 3\n", 3, "the number of states of variable 1, a whole number from 1 on; got 0"),
        ("2 1 2\n", "2 1 3\n", 6, "a variable of factor 1, a whole number from 0 to 2; got 3"),
        ("2 1 2\n", "2 1 1\n", 6, "factor 1 names a variable twice"),
        ("\n6\n", "\n5\n", 12, "the table of factor 1 has 5 entries; its variables have 6 configurations"),
        ("0.811", "-0.811", 14, "entry 3 of the table of factor 1, a number ≥ 0; got -0.811"),
        ("0.811", "many", 14, "got 'many'"),
        (" 0.811 0.000 0.189\n", "", 14, "the file ends where entry 3 of the table of factor 1 should be"),
        ("0.189\n", "0.189\n7\n", 15, "expected the end of the file after 2 factors; got '7'"),
    ],
)
def test_errors_name_the_line(file: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(FormatError, match=rf"model\.uai:{line}: .*{words}"):
        read_uai(file)


def test_evidence(tmp_path: Path) -> None:
    path = tmp_path / "model.evid"
    for text in ("2 0 1 2 2\n", "1\n2 0 1 2 2\n", "2\n0 1\n2 2\n"):
        path.write_text(text)
        assert read_evidence(path, [2, 2, 3]) == {0: 1, 2: 2}
    path.write_text("0\n")
    assert read_evidence(path, [2, 2, 3]) == {}
    for text, words in {
        "2 0 1 2": "expected a count and as many pairs", "1 5 0": "evidence on variable 5; the model has 3",
        "1 0 2": "evidence for state 2 of variable 0, which has 2", "1 0 x": "expected a whole number; got 'x'",
        "2 0 1 0 0": "evidence for variable 0 twice",
    }.items():  # fmt: skip
        path.write_text(text)
        with pytest.raises(FormatError, match=words):
            read_evidence(path, [2, 2, 3])


def test_map_agrees_with_toulbar2(tmp_path: Path) -> None:
    pytoulbar2 = pytest.importorskip("pytoulbar2", reason="pytoulbar2 is not installed")
    for seed in range(4):
        model, _, _ = random_model(seed)
        path = tmp_path / f"model{seed}.uai"
        write_uai(path, model)
        graph, scores, constant = model.factor_graph()
        ours = FactorGraph([graph], inference="branch_and_bound").solve(0, scores)
        peer = pytoulbar2.CFN(1e6, resolution=6)
        for v, size in enumerate(model.states):
            peer.AddVariable(f"x{v}", range(size))
        for scope, table in zip(model.scopes, model.tables, strict=True):
            with np.errstate(divide="ignore"):
                costs = np.minimum(-np.log(table.ravel()), 1e6)
            peer.AddFunction([f"x{v}" for v in scope], costs.tolist())
        found, cost, _ = peer.Solve()
        np.testing.assert_allclose(ours.value + constant, -cost, atol=1e-4)
        assert len(found) == len(model.states)


def test_marginals_agree_with_pgmpy() -> None:
    """Variable elimination of another library on the same potentials."""
    models = pytest.importorskip("pgmpy.models", reason="pgmpy is not installed")
    inference = pytest.importorskip("pgmpy.inference")
    discrete = pytest.importorskip("pgmpy.factors.discrete")
    rng = np.random.default_rng(0)
    graph = Graph([2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    scores = rng.normal(size=9 + 6 + 6 + 4 + 4)
    model = UaiModel.from_graph(graph, scores)
    peer = models.DiscreteMarkovNetwork([("0", "1"), ("1", "2"), ("2", "3"), ("0", "3")])
    for scope, table in zip(model.scopes, model.tables, strict=True):
        sizes = [model.states[v] for v in scope]
        peer.add_factors(discrete.DiscreteFactor([str(v) for v in scope], sizes, np.asarray(table).ravel()))
    solver = inference.VariableElimination(peer)
    space = FactorGraph([graph]).given(0, {3: 1})
    _, parts = space.marginals(0, scores)
    atoms = space.atoms(0)
    for v in range(3):
        expected = solver.query([str(v)], evidence={"3": 1}, show_progress=False).values
        np.testing.assert_allclose(parts[: len(atoms.node)][atoms.node == v], expected / expected.sum(), atol=1e-9)


def test_command(file: Path, tmp_path: Path, capsys: Any) -> None:
    graph, scores, constant = read_uai(file).factor_graph()
    space = FactorGraph([graph])
    best = space.decode(0, space.argmax(0, scores))
    assert ok(capsys, "infer", str(file), "--task", "MAP").split() == ["MPE", "3", *map(str, best)]
    found = ok(capsys, "infer", str(file), "--task", "PR").split()
    assert found[0] == "PR"
    np.testing.assert_allclose(float(found[1]) * np.log(10), space.marginals(0, scores)[0] + constant)
    (tmp_path / "e").write_text("1 1 0")
    answer = tmp_path / "out.MAR"
    ok(capsys, "infer", str(file), "--task", "MAR", "--evidence", str(tmp_path / "e"), "--output", str(answer))
    _, mean = space.given(0, {1: 0}).marginals(0, scores)
    assert answer.read_text() == format_answer("MAR", [mean[0:2], mean[2:4], mean[4:7]]) + "\n"
    file.write_text(TEXT[:60])
    assert "model.uai:13" in fails(capsys, "infer", str(file))


def test_infer_on_a_model_that_allows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file, the factor that is zero throughout, and the evidence."""
    file, evidence = tmp_path / "none.uai", tmp_path / "e"
    write_uai(file, UaiModel([2, 2], [(0,), (0, 1)], [np.ones(2), np.zeros((2, 2))]))
    words = fails(capsys, "infer", str(file))
    assert "none.uai gives every assignment probability zero: factor 1 is zero throughout" in words
    unequal = 1.0 - np.eye(2)
    triangle = UaiModel([2] * 3, [(0, 1), (1, 2), (0, 2)], [unequal] * 3)
    write_uai(file, triangle)
    for task in ("MAP", "MAR", "PR"):
        assert "none.uai gives every assignment probability zero" in fails(capsys, "infer", str(file), "--task", task)
    write_uai(file, UaiModel([2, 2], [(0, 1)], [unequal]))
    evidence.write_text("2 0 1 1 1")
    words = fails(capsys, "infer", str(file), "--evidence", str(evidence))
    assert f"assignment that agrees with {evidence} probability zero" in words

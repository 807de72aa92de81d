"""MarkovNetwork: likelihood and gradient, missing values, queries against enumeration, what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_oracles import enumerate_graph
from sklearn.base import clone

from partwise.estimation.base import load_model
from partwise.exceptions import InputError
from partwise.graphs.markov_network import MarkovNetwork
from partwise.structures import FactorGraph, Graph

CLIQUES = [("a", "b"), ("b", "c"), ("a", "c")]
STATES = {"a": [0, 1], "b": ["x", "y", "z"], "c": [False, True]}


def draw_table(n: int, seed: int) -> tuple[list[list[object]], np.ndarray, FactorGraph]:
    rng = np.random.default_rng(seed)
    space = FactorGraph([Graph([2, 3, 2], [(0, 1), (1, 2), (0, 2)])])
    theta = rng.normal(size=space.n_parts(0))
    draws = [space.decode(0, row) for row in space.sample(0, theta, n, rng)]
    return [[STATES[k][x] for k, x in zip("abc", row, strict=True)] for row in draws], theta, space


def frame(rows: list[list[object]]):  # type: ignore[no-untyped-def]
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    return pandas.DataFrame(rows, columns=list("abc"), dtype=object)


def test_probabilities_are_learned() -> None:
    rows, theta, space = draw_table(4000, 0)
    network = MarkovNetwork(CLIQUES, states=STATES, l2=0.1).fit(frame(rows))
    assert network.converged_
    _, truth = space.marginals(0, theta)
    learned = network.marginals()
    np.testing.assert_allclose([p for name in "abc" for p in learned[name].values()], truth[:7], atol=0.03)
    # at the optimum the model's marginals are the table's, up to the prior
    counts = np.mean([space.encode(0, row) for row in network._codes(frame(rows))], axis=0)
    np.testing.assert_allclose(space.marginals(0, network.theta_)[1], counts, atol=1e-3)


def test_queries_against_enumeration() -> None:
    rows, _, _ = draw_table(200, 1)
    network = MarkovNetwork(CLIQUES, states=STATES).fit(frame(rows))
    instance = enumerate_graph(Graph([2, 3, 2], [(0, 1), (1, 2), (0, 2)]))
    p, outputs = instance.probabilities(network.theta_), np.array(instance.outputs)
    given = outputs[:, 2] == 1
    wanted = given & (outputs[:, 0] == 1) & (outputs[:, 1] == 2)
    found = network.probability({"a": 1, "b": "z"}, given={"c": True})
    np.testing.assert_allclose(found, p[wanted].sum() / p[given].sum(), rtol=1e-9)
    assert network.probability({"c": False}, given={"c": True}) == 0.0
    best = outputs[given][np.argmax(p[given])]
    assert network.map(given={"c": True}) == {k: STATES[k][x] for k, x in zip("abc", best, strict=True)}
    draws = network.sample(2000, given={"c": True}, random_state=0)
    assert (draws[:, 2] == True).all()  # noqa: E712
    assert abs(np.mean(draws[:, 1] == "z") - network.marginals({"c": True})["b"]["z"]) < 0.05


def test_missing_values() -> None:
    """The score of a row with unknown values is that of its known ones; learning from them helps nobody cheat."""
    rows, theta, space = draw_table(1500, 2)
    rng = np.random.default_rng(3)
    holes = [[None if rng.random() < 0.2 else value for value in row] for row in rows]
    network = MarkovNetwork(CLIQUES, states=STATES, l2=0.1).fit(frame(holes))
    _, truth = space.marginals(0, theta)
    learned = network.marginals()
    np.testing.assert_allclose([p for name in "abc" for p in learned[name].values()], truth[:7], atol=0.06)
    known = network.score(frame([[1, None, True], [1, None, True]]))
    np.testing.assert_allclose(known, np.log(network.probability({"a": 1, "c": True})), rtol=1e-9)
    full = network.score(frame([[1, "x", True]]))
    np.testing.assert_allclose(full, np.log(network.probability({"a": 1, "b": "x", "c": True})), rtol=1e-9)


def test_arrays_and_errors() -> None:
    table = np.array([[0, 1], [1, 0], [1, 1]])
    network = clone(MarkovNetwork([(0, 1)])).fit(table)
    assert set(network.map()) == {0, 1}
    for call, words in [
        (lambda: MarkovNetwork([(0, 2)]).fit(table), "clique 0 names column 2"),
        (lambda: network.score(np.array([[0, 3]])), "row 0: 3 is not a state of column 1"),
        (lambda: network.probability({5: 0}), "there is no column 5"),
        (lambda: network.probability({0: 7}), "7 is not a state of column 0"),
        (lambda: MarkovNetwork([(0, 1)]).fit(np.zeros(3)), "two dimensions"),
        (lambda: MarkovNetwork([(0, 1)]).fit(np.array([[np.nan, 1.0]])), "column 0 has no known value"),
    ]:
        with pytest.raises(InputError, match=words):
            call()


def test_save_and_load(tmp_path: Path) -> None:
    """The same answers from a file; values that a file cannot hold are named."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 3))
    X[:, 2] = X[:, 0] ^ (rng.random(60) < 0.2)
    model = MarkovNetwork([(0, 2), (1, 2)], l2=0.5).fit(X)
    path = tmp_path / "network.pw"
    model.save(path)
    again = load_model(path)
    assert isinstance(again, MarkovNetwork) and again.columns_ == model.columns_ and again.states_ == model.states_
    assert again.marginals({0: 1}) == model.marginals({0: 1}) and again.map() == model.map()
    assert again.score(X) == model.score(X)
    with pytest.raises(InputError, match=r"a value of column 0 is \(1, 2\), a tuple"):
        odd = np.empty((2, 1), object)
        odd[0, 0], odd[1, 0] = (1, 2), "b"
        MarkovNetwork([(0,)]).fit(odd).save(path)


def test_tables_that_are_lists_or_have_odd_names() -> None:
    network = MarkovNetwork([(0, 1)]).fit([["a", 1], ["b", 2], ["a", 1], ["b", 1]])
    assert network.states_ == {0: ["a", "b"], 1: [1, 2]}  # numbers stay numbers beside strings
    assert network.map(given={1: 2}) == {0: "b", 1: 2}
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame([[1, 2, 3], [2, 3, 4]], columns=["a", "a", "b"])
    with pytest.raises(InputError, match="two columns 'a'"):
        MarkovNetwork([("a", "b")]).fit(twice)
    table = pandas.DataFrame([[1, 2], [2, 3]], columns=["a", "b"])
    with pytest.raises(InputError, match=r"clique 0 names a column twice: \['a', 'a'\]"):
        MarkovNetwork([("a", "a")]).fit(table)
    with pytest.raises(InputError, match="clique 0 is the string 'ab'; expected a sequence of columns"):
        MarkovNetwork(["ab"]).fit(table)

"""GraphLabeler: learning on cuts and expansions, types, unknown and pinned labels, storage, bad input."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from partwise import GraphLabeler, load_model
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.graphs import AttributedGraph, from_networkx, from_sparse, grid_edges, neighbor_edges, superpixel_edges
from partwise.structures.graphs.model import at_most_one, exactly_one, implies

Labels = list[NDArray[np.int64]]


def grids(seed: int, count: int, n_labels: int = 2, noise: float = 0.9) -> tuple[list[AttributedGraph], Labels]:
    """7 × 7 pixels with stripes of labels, seen through noise."""
    rng, side = np.random.default_rng(seed), 7
    graphs, labels = [], []
    for _ in range(count):
        y = (np.arange(side) + rng.integers(0, 3)) * n_labels // (side + 2) % n_labels
        truth = np.repeat(y[:, None], side, axis=1).ravel()
        seen = np.eye(n_labels)[truth] + rng.normal(0, noise, (side * side, n_labels))
        graphs.append(AttributedGraph(seen, grid_edges(side, side)))
        labels.append(truth)
    return graphs, labels


@pytest.mark.parametrize("n_labels", [2, 3])
def test_neighbours_help(n_labels: int) -> None:
    train, test = grids(0, 12, n_labels), grids(1, 12, n_labels)
    alone = GraphLabeler(interaction="none", C=0.1, max_passes=60).fit(*train)
    both = GraphLabeler(interaction="associative", C=0.1, max_passes=60).fit(*train)
    assert both.inference_ == ("cut" if n_labels == 2 else "expansion")
    assert both.score(*test) > alone.score(*test) + 0.05
    assert both.theta_[-1] > 0


@pytest.mark.parametrize("learner", ["one_slack", "batch_frank_wolfe", "extragradient", "subgradient"])
def test_learners_that_keep_the_cone(learner: str) -> None:
    train = grids(2, 6)
    model = GraphLabeler(interaction="associative", learner=learner, C=0.1, max_passes=20).fit(*train)
    assert model.theta_[-1] >= 0
    assert model.score(*train) > 0.8


def test_learners_that_do_not() -> None:
    train = grids(2, 2)
    for learner, message in (("frank_wolfe", "batch_frank_wolfe"), ("perceptron", "cannot keep weights ≥ 0")):
        with pytest.raises(CapabilityError, match=message):
            GraphLabeler(interaction="associative", learner=learner).fit(*train)
    with pytest.raises(CapabilityError, match="no oracle 'marginals'"):
        GraphLabeler(interaction="associative", loss="crf", learner="subgradient").fit(*train)


def test_types_have_features_and_weights_of_their_own() -> None:
    """Pages and links between them, authors and who wrote what: two node types with other features, two edge types."""
    rng = np.random.default_rng(3)
    graphs, labels = [], []
    for _ in range(10):
        topic = rng.integers(0, 2, 3)
        pages = np.repeat(topic, 4)
        x = pages[:, None] + rng.normal(0, 1.2, (12, 2))
        z = topic[:, None] + rng.normal(0, 0.3, (3, 1))
        wrote = [(4 * a + b, 12 + a) for a in range(3) for b in range(4)]
        near = [(j, j + 1) for j in range(11)]
        graphs.append(AttributedGraph({"page": x, "author": z}, {"wrote": wrote, "near": near}))
        labels.append({"page": pages, "author": topic})
    model = GraphLabeler(interaction="associative", C=1.0, max_passes=80).fit(graphs[:7], labels[:7])
    assert [kind.dim for kind in model.encoder_.node_types.values()] == [2, 1]
    assert len(model.theta_) == 2 * 3 + 2 * 2 + 2
    assert model.score(graphs[7:], labels[7:]) > 0.9
    wrong = AttributedGraph({"author": np.zeros((1, 1)), "page": np.zeros((1, 2))})
    with pytest.raises(InputError, match=r"lists its types of nodes as \['author', 'page'\]"):
        model.predict([wrong])
    with pytest.raises(InputError, match="graph 0 has nodes of type 'reader'"):
        model.predict([AttributedGraph({"reader": np.zeros((1, 1))})])


def test_pinned_labels_pull_their_neighbours() -> None:
    train = grids(4, 8)
    model = GraphLabeler(interaction="associative", C=0.1, max_passes=60).fit(*train)
    graph = AttributedGraph(np.zeros((5, 2)), [(j, j + 1) for j in range(4)])
    for label in (0, 1):
        assert model.predict([graph], pinned=[{2: label}])[0][2] == label
    margins = model.predict_margins([graph])[0]
    assert margins.shape == (5,)
    np.testing.assert_array_equal(margins > 1e-9, model.predict([graph])[0] == 1)
    with pytest.raises(InputError, match="node 2 of graph 0 is pinned to 7"):
        model.predict([graph], pinned=[{2: 7}])
    with pytest.raises(InputError, match="pinned node 9 of graph 0"):
        model.predict([graph], pinned=[{9: 0}])
    with pytest.raises(CapabilityError, match="Cut has no marginals; use inference"):
        model.predict_marginals([graph])


def test_weights_of_nodes_are_what_mistakes_cost() -> None:
    graphs = [AttributedGraph(np.zeros((3, 1)))] * 4
    labels = [[0, 0, 1]] * 4
    for weights, expected in ((None, 3.0), ([[1.0, 1.0, 5.0]] * 4, 7.0)):
        problem = GraphLabeler(interaction="associative").problem(graphs, labels, node_weights=weights)
        np.testing.assert_allclose(problem.losses(np.zeros(problem.dim)), expected)  # all wrong costs most
    with pytest.raises(InputError, match="weights of graph 0 must be 3 numbers ≥ 0"):
        GraphLabeler(interaction="associative").fit(graphs, labels, node_weights=[[1.0]] * 4)


def test_stored_models_predict_the_same(tmp_path: Path) -> None:
    graphs, codes = grids(5, 6)
    labels = [np.array(["land", "sea"])[y] for y in codes]
    model = GraphLabeler(interaction="associative", C=0.1, max_passes=30).fit(graphs, labels)
    model.save(tmp_path / "model.pw")
    again = load_model(tmp_path / "model.pw")
    for found, expected in zip(again.predict(graphs), model.predict(graphs), strict=True):
        assert found.tolist() == expected.tolist()
    assert set(model.predict(graphs)[0].tolist()) <= {"land", "sea"}
    resumed = tmp_path / "state"
    first = GraphLabeler(interaction="associative", C=0.1, max_passes=4).fit(graphs, labels, checkpoint=resumed)
    second = GraphLabeler(interaction="associative", C=0.1, max_passes=4).fit(graphs, labels, checkpoint=resumed)
    np.testing.assert_array_equal(first.theta_, second.theta_)


def test_threads_do_not_change_the_result() -> None:
    train = grids(6, 6)
    one, two = (GraphLabeler(interaction="associative", C=0.1, max_passes=10, n_jobs=n).fit(*train) for n in (1, 2))
    np.testing.assert_array_equal(one.theta_, two.theta_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graphs": [3]}, "graph 0 is a int; expected an AttributedGraph"),
        ({"labels": [[0, 1]]}, "graph 0 has 3 nodes but 2 labels"),
        ({"labels": [[0, 0, 0]]}, "1 different labels; expected at least 2"),
        ({"labels": []}, "there are 1 graphs but labels for 0"),
        ({"graphs": [], "labels": []}, "no graphs to train on"),
        ({"labels": [{"cell": [0, 0, 1]}]}, r"labels of graph 0 are of types \['cell'\]"),
        (
            {"graphs": [AttributedGraph(np.zeros((3, 1)), [(0, 1), (1, 2)], [[1.0], [-0.5]])]},
            "feature 0 of edge 1 of type 'edge' in graph 0 is -0.5",
        ),
    ],
)
def test_bad_training_data(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"graphs": [AttributedGraph(np.zeros((3, 1)), [(0, 1)])], "labels": [[0, 0, 1]], **change}
    with pytest.raises(InputError, match=message):
        GraphLabeler(interaction="associative").fit(given["graphs"], given["labels"])


def test_bad_settings_and_graphs() -> None:
    with pytest.raises(ParameterError, match="'interaction'"):
        GraphLabeler(interaction="hostile").fit(*grids(7, 1))
    with pytest.raises(ParameterError, match="'inference'"):
        GraphLabeler(interaction="associative", inference="cut").fit(*grids(7, 2, 3))
    for nodes, edges, message in (
        ([[0.0]], [(0, 0)], "joins node 0 to itself"),
        ([[0.0], [1.0]], [(0, 1), (1, 0)], "edges 0 and 1 of type 'edge' both join nodes 0 and 1"),
        ([[0.0]], [(0, 1)], "the graph has nodes 0 … 0"),
        ([[np.nan]], [], "hold NaN or infinity in row 0"),
        (np.zeros((0, 1)), [], "at least one node"),
    ):
        with pytest.raises(InputError, match=message):
            AttributedGraph(nodes, edges)
    model = GraphLabeler(interaction="associative", max_passes=5).fit(*grids(7, 2))
    with pytest.raises(InputError, match="have 1 features; expected 2"):
        model.predict([AttributedGraph([[0.0]])])
    assert model.predict([AttributedGraph([[5.0, -5.0]])])[0].tolist() == [0]  # a graph of one node
    with pytest.raises(InputError, match="feature 0 of edge 0 of type 'edge' in graph 0 is -1; an associative"):
        model.predict([AttributedGraph(np.zeros((2, 2)), [(0, 1)], [[-1.0]])])


def test_builders() -> None:
    assert len(grid_edges(3, 4)) == 3 * 3 + 2 * 4
    assert len(grid_edges(3, 4, connectivity=8)) == 17 + 2 * 6
    points = np.random.default_rng(0).random((40, 3))
    edges = neighbor_edges(points, 3)
    assert (edges[:, 0] < edges[:, 1]).all() and len(np.unique(edges, axis=0)) == len(edges)
    assert np.bincount(edges.ravel(), minlength=40).min() >= 3
    assert len(neighbor_edges([[0.0], [9.0]], 1, radius=1.0)) == 0
    assert superpixel_edges(np.zeros((2, 2), int))[0].shape == (0, 2)
    graph = networkx.Graph()
    graph.add_node("a", x=[1.0])
    graph.add_node("b", x=[2.0])
    graph.add_edge("a", "b", w=0.5)
    found, names = from_networkx(graph, edge="w")
    assert names == ["a", "b"] and found.edge_features["edge"].tolist() == [[0.5]]
    with pytest.raises(InputError, match="has no attribute 'colour'"):
        from_networkx(graph, "colour")
    with pytest.raises(InputError, match="not symmetric"):
        from_sparse(np.zeros((2, 1)), scipy.sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]])))


def rows_of_letters(seed: int, count: int) -> tuple[list[AttributedGraph], list[list[Any]]]:
    """Short rows of a, b, c in which b follows a and c follows b: what full tables can say and agreement cannot."""
    rng = np.random.default_rng(seed)
    graphs, labels = [], []
    for _ in range(count):
        n = int(rng.integers(2, 6))
        codes = (rng.integers(3) + np.arange(n)) % 3
        graphs.append(
            AttributedGraph(np.eye(3)[codes] + rng.normal(0, 1.0, (n, 3)), [(j, j + 1) for j in range(n - 1)])
        )
        labels.append([str(label) for label in np.array(list("abc"))[codes]])
    return graphs, labels


def test_full_tables_learn_by_likelihood() -> None:
    train, test = rows_of_letters(0, 40), rows_of_letters(1, 40)
    model = GraphLabeler(interaction="full", C=1.0).fit(*train)
    alone = GraphLabeler(interaction="none", inference="junction_tree", loss="crf", learner="subgradient").fit(*train)
    assert model.score(*test) > alone.score(*test) + 0.05
    marginals = model.predict_marginals(test[0])
    for graph, table in zip(test[0], marginals, strict=True):
        assert table.shape == (graph.n_nodes, 3)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)


def test_unknown_labels_are_summed_out() -> None:
    graphs, labels = rows_of_letters(2, 40)
    rng = np.random.default_rng(0)
    partly = [[y if rng.random() < 0.7 else None for y in row] for row in labels]
    model = GraphLabeler(interaction="full", C=1.0).fit(graphs, partly)
    assert model.score(*rows_of_letters(3, 30)) > 0.75


def test_logic_at_prediction() -> None:
    """At most one node may be 1, and if node 0 is 1 then node 4 is: on a model that was trained on cuts."""
    from partwise.structures.graphs.model import at_most_one, implies, some

    model = GraphLabeler(interaction="associative", C=0.1, max_passes=40).fit(*grids(8, 8))
    graph = AttributedGraph([[0.0, 3.0], [3.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 0.0]], [(0, 1), (1, 2)])
    nodes = range(5)
    for inference in ("ad3", "junction_tree"):
        found = model.predict([graph], constraints=[[at_most_one([(j, 1) for j in nodes])]], inference=inference)[0]
        assert found.sum() <= 1
        found = model.predict([graph], constraints=[[implies((0, 1), (4, 1)), some([(0, 1)])]], inference=inference)[0]
        assert found[0] == 1 and found[4] == 1
    with pytest.raises(CapabilityError, match="logic constraints need an engine"):
        model.predict([graph], constraints=[[some([(0, 1)])]])
    with pytest.raises(InputError, match="label 'x' of node 0 is not one of"):
        model.predict([graph], constraints=[[some([(0, "x")])]], inference="ad3")
    plain = model.predict([graph], inference="junction_tree")[0]
    np.testing.assert_array_equal(plain, model.predict([graph])[0])
    exact = model.predict_marginals([graph], inference="junction_tree")[0]
    assert exact.shape == (5, 2)


def unknown_case() -> tuple[list[AttributedGraph], NDArray[Any], list[list[str | None]]]:
    """Rows of noisy pictures with two halves, and labels of which four in ten are unknown."""
    rng = np.random.default_rng(5)
    truth = np.repeat([0, 0, 1, 1], 4)
    graphs = [AttributedGraph(truth[:, None] + rng.normal(0, 0.7, (16, 1)), grid_edges(4, 4)) for _ in range(9)]
    names = np.array(["back", "front"])[truth]
    return graphs, names, [[name if rng.random() < 0.6 else None for name in names] for _ in range(5)]


def test_unknown_labels_with_margins() -> None:
    """They are filled in until they stay; what is known costs, what is not costs nothing."""
    graphs, names, partial = unknown_case()
    model = GraphLabeler(interaction="associative", C=0.1).fit(graphs[:5], partial)
    assert model.inference_ == "cut" and 1 < model.n_rounds_ < 10
    informed = GraphLabeler(interaction="associative", C=0.1).fit(graphs[:5], [names] * 5)
    assert model.score(graphs[5:], [names] * 4) > informed.score(graphs[5:], [names] * 4) - 0.05
    pinned = [{j: label for j, label in enumerate(y) if label is not None} for y in partial]
    filled = model.predict(graphs[:5], pinned=pinned)
    again = GraphLabeler(interaction="associative", C=0.1).fit(
        graphs[:5], filled, node_weights=[[float(label is not None) for label in y] for y in partial]
    )
    np.testing.assert_allclose(again.theta_, model.theta_)  # the filled labels are those it was last trained on
    missing = [[np.nan if label is None else float(label == "front") for label in y] for y in partial]
    numbers = GraphLabeler(interaction="associative", C=0.1).fit(graphs[:5], missing)
    assert numbers.encoder_.node_types["node"].classes == [0.0, 1.0]
    np.testing.assert_allclose(numbers.theta_, model.theta_)
    with pytest.raises(ParameterError, match=r"'checkpoint' parameter of GraphLabeler\.fit must be None where labels"):
        GraphLabeler(interaction="associative").fit(graphs[:5], partial, checkpoint="never-written")
    with pytest.raises(InputError, match="no node has a known label"):
        GraphLabeler(interaction="associative").fit(graphs[:2], [[None] * 16] * 2)


def chains(seed: int, count: int) -> tuple[list[AttributedGraph], list[list[int]]]:
    """Rows of eight nodes in which the label 0 is followed by 1, 1 by 2 and 2 by 0."""
    rng, graphs, labels = np.random.default_rng(seed), [], []
    for _ in range(count):
        first = int(rng.integers(3))
        y = [(first + j) % 3 for j in range(8)]
        graphs.append(AttributedGraph(np.eye(3)[y] + rng.normal(0, 1, (8, 3)), [(j, j + 1) for j in range(7)]))
        labels.append(y)
    return graphs, labels


def test_what_edges_express_by_default(tmp_path: Path) -> None:
    """Tables on trees and where neighbours differ, agreement on other graphs and where somebody asks for margins."""
    train, test = chains(0, 10), chains(1, 10)
    model = GraphLabeler(max_passes=30).fit(*train)
    assert (model.interaction_, model.inference_) == ("full", "junction_tree") and model.score(*test) > 0.95
    model.save(tmp_path / "model.pw")
    again = load_model(tmp_path / "model.pw")
    assert (again.interaction_, again.inference_) == ("full", "junction_tree")
    wider = AttributedGraph(np.zeros((900, 3)), grid_edges(30, 30))  # too wide for a junction tree: reweighted messages
    assert len(again.predict([wider])[0]) == 900
    board = np.add.outer(np.arange(7), np.arange(7)).ravel() % 2
    for graphs, labels, expected in (
        (*grids(9, 6), "associative"),
        ([AttributedGraph(board[:, None], grid_edges(7, 7))], [board], "full"),
    ):
        chosen = GraphLabeler()
        chosen.problem(graphs, labels)
        assert chosen.interaction_ == expected
    board = np.add.outer(np.arange(20), np.arange(20)).ravel() % 2
    with pytest.warns(UserWarning, match="joined nodes have the same label less often than by chance"):
        GraphLabeler().problem([AttributedGraph(board[:, None], grid_edges(20, 20))], [board])
    for settings in ({"loss": "svm"}, {"learner": "one_slack"}, {"inference": "expansion"}):
        chosen = GraphLabeler(**settings)
        chosen.problem(*train)
        assert (chosen.interaction_, chosen.inference_) == ("associative", "expansion")
    for settings in ({"loss": "svm"}, {"inference": "ad3"}):  # margins on tables
        learner, loss = GraphLabeler(interaction="full", **settings)._settings()
        assert type(learner).__name__ == "OneSlack" and not loss.smooth
    bare = GraphLabeler()
    bare.problem([AttributedGraph([[1.0]]), AttributedGraph([[0.0]])], [["a"], ["b"]])
    assert bare.interaction_ == "full"
    with pytest.raises(InputError, match=r"contradict one another: .*implies\(x0=a → x1=b\)"):
        bare.theta_ = np.zeros(4)
        rules = [exactly_one([(0, "a")]), exactly_one([(1, "a")]), implies((0, "a"), (1, "b"))]
        bare.predict([AttributedGraph([[1.0], [0.0]])], constraints=[rules])
    priced = GraphLabeler()
    priced.problem(*train, node_weights=[np.ones(8)] * 10)
    assert priced.interaction_ == "associative"


def test_edges_that_cannot_ask_for_agreement() -> None:
    """Negative features, or types with labels of their own, need no setting."""
    graphs = [AttributedGraph([[1.0], [-1.0]], [(0, 1)], [[-2.0]]) for _ in range(4)]
    model = GraphLabeler(max_passes=20).fit(graphs, [["a", "b"]] * 4)
    assert model.interaction_ == "full" and model.predict(graphs[:1])[0].tolist() == ["a", "b"]
    typed = [AttributedGraph({"x": [[1.0], [-1.0]], "z": [[0.5], [-0.5]]}, {"e": [(0, 2), (1, 3)]}) for _ in range(4)]
    model = GraphLabeler(max_passes=20).fit(typed, [{"x": ["a", "b"], "z": [7, 8]}] * 4)
    assert model.interaction_ == "full" and model.predict(typed[:1])[0].tolist() == ["a", "b", 7, 8]
    with pytest.raises(CapabilityError, match="types of nodes have different labels"):
        GraphLabeler(interaction="associative").fit(typed, [{"x": ["a", "b"], "z": [7, 8]}] * 4)


@pytest.mark.parametrize("learner", ["one_slack", "subgradient"])
def test_a_loose_bound_does_not_choose_zero(learner: str) -> None:
    """α-expansion bounds what it may overlook by a factor of two, which is least vague at θ = 0: that must not win."""
    rng, trees = np.random.default_rng(1), []
    centres = np.random.default_rng(98).normal(0, 1, (8, 12))
    for _ in range(40):
        size, y = int(rng.integers(10, 40)), [int(rng.integers(8))]
        parents = [int(rng.integers(max(0, j - 5), j)) for j in range(1, size)]
        for parent in parents:
            y.append(y[parent] if rng.random() < 0.7 else int(rng.integers(8)))
        edges = [(parent, j + 1) for j, parent in enumerate(parents)]
        trees.append((AttributedGraph(centres[y] + rng.normal(0, 2, (size, 12)), edges), y))
    train, test = tuple(zip(*trees[:10], strict=True)), tuple(zip(*trees[10:], strict=True))
    model = GraphLabeler(interaction="associative", learner=learner, max_passes=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if learner == "one_slack" else "ignore")  # solved, as far as expansions tell
        model.fit(*train)
    certificate = model.result_.certificate
    assert model.inference_ == "expansion" and model.result_.best_step > 0
    assert certificate is None or certificate.primal > certificate.dual
    assert model.score(*test) > GraphLabeler(interaction="none", max_passes=60).fit(*train).score(*test) + 0.05


def test_one_graph_in_place_of_a_list() -> None:
    graphs, names, _ = unknown_case()
    model = GraphLabeler(interaction="associative", C=0.1).fit(graphs[:5], [names] * 5)
    for call in (lambda: model.predict(graphs[5]), lambda: GraphLabeler().fit(graphs[5], names),
                 lambda: model.score(graphs[5], names)):  # fmt: skip
        with pytest.raises(InputError, match="X is one AttributedGraph; expected a list of graphs"):
            call()
    with pytest.raises(InputError, match="pinned is one mapping; expected a list with one per graph"):
        model.predict([graphs[5]], pinned={0: "front"})
    with pytest.raises(InputError, match=r"constraint 0 is at_most_one\(x0=front, x1=front\); expected one list"):
        model.predict([graphs[5]], constraints=[at_most_one([(0, "front"), (1, "front")])], inference="ad3")


def test_volumes_and_stored_zeros() -> None:
    """Neighbours of voxels as distances say; a stored 0 is no edge."""
    places = np.argwhere(np.ones((2, 3, 4)))
    apart = np.abs(places[:, None] - places[None])
    for connectivity, near in ((6, apart.sum(axis=2) == 1), (26, apart.max(axis=2) == 1)):
        expected = {(a, b) for a, b in np.argwhere(near).tolist() if a < b}
        found = grid_edges(2, 3, 4, connectivity=connectivity)
        assert len(found) == len(expected) and {tuple(sorted(pair)) for pair in found.tolist()} == expected
    with pytest.raises(ParameterError, match="'connectivity' parameter of grid_edges must be 6 or 26"):
        grid_edges(2, 3, 4, connectivity=8)
    matrix = scipy.sparse.csr_array(np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 3.0], [0.0, 3.0, 1.0]]))
    matrix.setdiag(0)
    assert matrix.nnz == 7
    assert from_sparse(np.zeros((3, 1)), matrix).edges["edge"].tolist() == [[0, 1], [1, 2]]

"""Cuts: scipy's maximum flow, clarabel's projections, max-marginals by enumeration, bad input, learning."""

from __future__ import annotations

from itertools import product

import clarabel
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import maximum_flow

from partwise import AssociativeGraph, Cut, Extragradient, Hamming, JointQP, OneSlack, Perceptron, Problem
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features.part_rows import PartFeatures

Floats = NDArray[np.float64]


def grid(height: int, width: int) -> NDArray[np.int64]:
    """Edges of a 4-connected grid."""
    nodes = np.arange(height * width).reshape(height, width)
    right = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    down = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def random_graph(rng: np.random.Generator, n: int, degree: float) -> NDArray[np.int64]:
    pairs = np.array([(j, k) for j in range(n) for k in range(j)]).reshape(-1, 2)
    return pairs[rng.random(len(pairs)) < degree / max(n, 1)]


def flow_by_scipy(n: int, edges: NDArray[np.int64], source: NDArray[np.int64], room: NDArray[np.int64]) -> int:
    """Value of the maximum flow with capacities source⁺ from the source, source⁻ to the sink, room both ways."""
    j = np.arange(n)
    rows = np.concatenate([np.full(n, n), j, edges[:, 0], edges[:, 1]])
    columns = np.concatenate([j, np.full(n, n + 1), edges[:, 1], edges[:, 0]])
    capacity = np.concatenate([np.maximum(source, 0), np.maximum(-source, 0), room, room]).astype(np.int32)
    network = scipy.sparse.csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2))
    return int(maximum_flow(network, n, n + 1).flow_value)


@pytest.mark.parametrize("seed", range(4))
def test_cut_is_scipys_maximum_flow_on_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, edges = (900, grid(30, 30)) if seed % 2 else (200, random_graph(rng, 200, 6.0))
    source, room = rng.integers(-20, 21, n), rng.integers(0, 15, len(edges))
    space = Cut([n], [edges])
    scores = np.concatenate([np.stack([np.zeros(n), source], axis=1).ravel(), -room])
    value = scores @ space.argmax(0, scores)
    assert value == np.maximum(source, 0).sum() - flow_by_scipy(n, edges, source, room)


def nearest_by_clarabel(space: Cut, point: Floats) -> Floats:
    """The projection as a quadratic program over ``polytope``."""
    polytope, n = space.polytope(0), len(point)
    rows = scipy.sparse.vstack([polytope.equal, polytope.below, -scipy.sparse.eye_array(n)]).tocsc()
    limits = np.concatenate([polytope.equal_to, polytope.limit, np.zeros(n)])
    cones = [clarabel.ZeroConeT(len(polytope.equal_to)), clarabel.NonnegativeConeT(len(polytope.limit) + n)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(scipy.sparse.eye_array(n).tocsc(), -point, rows, limits, cones, options)
    return np.array(solver.solve().x)


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([0.3, 1.0, 5.0, 50.0]), st.booleans())
def test_projection_is_clarabels(seed: int, n: int, scale: float, constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    edges = random_graph(rng, n, rng.uniform(0, 6))
    mask = rng.random((n, 2)) < 0.85
    mask[~mask.any(axis=1)] = True
    space = Cut([n], [edges], allowed=[mask] if constrained else None)
    point = np.concatenate([rng.normal(0.5, scale, 2 * n), rng.normal(-scale * rng.uniform(-1, 2), scale, len(edges))])
    np.testing.assert_allclose(space.project(0, point), nearest_by_clarabel(space, point), rtol=0, atol=3e-6)


@pytest.mark.parametrize("strength", [0.3, 3.0, 30.0])
def test_projection_of_a_grid_satisfies_the_variational_inequality(strength: float) -> None:
    """(point − z)·(v − z) ≤ 0 for every v of the polytope: the largest is a cut, if no edge part may pay to be on."""
    rng = np.random.default_rng(0)
    n, edges = 40 * 40, grid(40, 40)
    space = Cut([n], [edges])
    point = np.concatenate([strength * rng.normal(size=2 * n), np.full(len(edges), -strength)])
    z = space.project(0, point)
    slope = point - z
    assert slope[2 * n :].max() <= 1e-9
    slope[2 * n :] = np.minimum(slope[2 * n :], 0.0)
    assert slope @ (space.argmax(0, slope) - z) <= 1e-6 * strength


@settings(max_examples=80, derandomize=True, database=None, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans())
def test_max_marginals_are_those_of_enumeration(seed: int, n: int, infinite: bool) -> None:
    rng = np.random.default_rng(seed)
    edges = random_graph(rng, n, 4.0)
    space = Cut([n], [edges])
    scores = np.concatenate([rng.integers(-4, 5, 2 * n), -rng.integers(0, 5, len(edges))]).astype(float)
    if infinite:
        scores[rng.integers(len(scores))] = -np.inf
    outputs = np.array(list(product(range(2), repeat=n)))
    values = np.array([sum(scores[r] for r in np.flatnonzero(space.encode(0, y))) for y in outputs])
    expected = [[values[outputs[:, j] == b].max() for b in range(2)] for j in range(n)]
    np.testing.assert_allclose(space.max_marginals(0, scores), expected, rtol=0, atol=1e-9)


def test_max_marginals_of_a_grid_agree_with_pinned_cuts() -> None:
    rng = np.random.default_rng(1)
    n, edges = 144, grid(12, 12)
    scores = np.concatenate([rng.normal(size=2 * n), -rng.random(len(edges))])
    found = Cut([n], [edges]).max_marginals(0, scores)
    for j in range(0, n, 7):
        for b in range(2):
            mask = np.ones((n, 2), bool)
            mask[j, 1 - b] = False
            pinned = Cut([n], [edges], allowed=[mask])
            assert scores @ pinned.argmax(0, scores) == pytest.approx(found[j, b], abs=1e-9)


def test_tables_become_part_scores() -> None:
    rng = np.random.default_rng(2)
    edges = random_graph(rng, 5, 4.0)
    space = Cut([5], [edges])
    nodes, tables = rng.normal(size=(5, 2)), rng.normal(size=(len(edges), 2, 2))
    tables[:, 0, 0] += 6.0
    scores, constant = space.from_tables(0, nodes, tables)
    for y in product(range(2), repeat=5):
        direct = sum(nodes[j, b] for j, b in enumerate(y)) + sum(
            tables[e, y[j], y[k]] for e, (j, k) in enumerate(edges)
        )
        assert scores @ space.encode(0, y) + constant == pytest.approx(direct)
    tables[2, 0, 1] = 50.0
    with pytest.raises(InputError, match=rf"edge 2 of instance 0, between nodes {edges[2, 0]} and {edges[2, 1]}"):
        space.from_tables(0, nodes, tables)


def test_a_million_nodes() -> None:
    n, edges = 1_000_000, grid(1000, 1000)
    rng = np.random.default_rng(3)
    space = Cut([n], [edges])
    scores = np.concatenate([rng.normal(size=2 * n), np.full(len(edges), -0.5)])
    labels = space.decode(0, space.argmax(0, scores))
    assert 0.3 < labels.mean() < 0.7
    assert sum(array.nbytes for array in space.pack) < 90e6


@pytest.mark.parametrize(
    ("sizes", "edges", "message"),
    [
        ([2], [[(0, 0)]], "edge 0 of graph 0 joins node 0 to itself"),
        ([3], [[(0, 1), (1, 2), (1, 0)]], "edges 0 and 2 of graph 0 both join nodes 0 and 1"),
        ([1, 2], [[], [(0, 2)]], r"edge 0 of graph 1 is \(0, 2\); the graph has nodes 0 … 1"),
        ([2], [[(0.0, 1.0)]], "expected .E, 2. integers"),
        ([0], [[]], "graph 0 has 0 nodes"),
    ],
)
def test_bad_graphs(sizes: list[int], edges: list[list[tuple[int, int]]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cut(sizes, edges)


def test_bad_models() -> None:
    space = Cut([3], [[(0, 1), (1, 2)]])
    scores = np.zeros(8)
    scores[7] = 0.5
    for oracle in (space.argmax, space.max_marginals):
        with pytest.raises(InputError, match=r"edge 1 of instance 0, between nodes 1 and 2, scores 0\.5"):
            oracle(0, scores)
    with pytest.raises(InputError, match="node 1 of graph 0 has label 2"):
        space.encode(0, [0, 2, 1])
    with pytest.raises(InputError, match="node 0 of graph 0 has no allowed label"):
        Cut([1], [[]], allowed=[[[False, False]]])
    with pytest.raises(ParameterError, match="'edges'"):
        Cut([1, 1], [[]])
    scores[6:] = -np.inf  # all agree, but node 0 is 0 and node 2 is 1
    scores[1] = scores[4] = -np.inf
    for oracle in (space.argmax, space.project, space.max_marginals):
        with pytest.raises(InputError, match="no output of instance 0 has a finite score"):
            oracle(0, scores)


def noisy_grids(seed: int, m: int) -> tuple[Cut, PartFeatures, list[NDArray[np.int64]], NDArray[np.bool_]]:
    """Blocks of label 1 seen through noise; node features (value, 1) for label 1, edge feature −1."""
    rng = np.random.default_rng(seed)
    side = 6
    edges, n = grid(side, side), side * side
    labels = []
    nodes = []
    for _ in range(m):
        y = np.zeros((side, side), np.int64)
        y[rng.integers(0, 3) :, rng.integers(0, 3) :] = 1
        labels.append(y.ravel())
        seen = np.stack([y.ravel() + rng.normal(0, 0.8, n), np.ones(n)], axis=1)
        rows = np.zeros((2 * n, 2))
        rows[1::2] = seen
        nodes.append(rows)
    space = Cut([n] * m, [edges] * m)
    offsets = np.arange(m + 1)
    blocks = [(2 * n * offsets, np.concatenate(nodes)), (len(edges) * offsets, -np.ones((m * len(edges), 1)))]
    return space, PartFeatures(blocks), labels, np.array([False, False, True])


def test_extragradient_reaches_the_quadratic_program_and_keeps_submodularity() -> None:
    space, features, labels, nonnegative = noisy_grids(0, 4)
    problem = Problem(space, features, labels, "svm", Hamming(), nonnegative=nonnegative)
    exact = JointQP(C=0.1).fit(problem)
    ours = Extragradient(C=0.1, max_passes=400, tolerance=1e-3).fit(problem)
    assert ours.certificate is not None and exact.certificate is not None
    assert ours.certificate.relative_gap < 2e-3
    assert ours.certificate.primal == pytest.approx(exact.certificate.primal, rel=5e-3)
    assert ours.theta[2] >= 0
    with pytest.raises(CapabilityError, match="cannot keep weights ≥ 0"):
        Perceptron().fit(Problem(space, features, labels, "perceptron", nonnegative=nonnegative))


def test_learning_that_leaves_the_cone_is_an_error() -> None:
    """The edge is named inside a compiled learner, too; binary cuts and α-expansion alike."""
    space, features, labels, _ = noisy_grids(1, 2)
    words = r"edge 0 of instance \d+, between nodes 0 and 1, scores above 0 where they differ: .* not submodular"
    problem = Problem(space, features, labels, "svm")
    with pytest.raises(InputError, match=words):
        problem.losses(np.array([0.0, 0.0, -1.0]))
    with pytest.raises(InputError, match=words):
        OneSlack(C=1.0, max_passes=2).fit(problem, theta=np.array([0.0, 0.0, -1.0]))
    more = AssociativeGraph([3], [[(1, 2), (0, 1)]], 3)
    edge = PartFeatures([(np.array([0, 9]), np.zeros((9, 1))), (np.array([0, 2]), np.array([[-1.0], [1.0]]))])
    with pytest.raises(InputError, match="edge 1 of instance 0, between nodes 0 and 1, scores above 0"):
        Problem(more, edge, [[0, 1, 2]], "svm").losses(np.array([0.0, 1.0]))


def test_graphs_in_pieces() -> None:
    """Disconnected graphs, nodes without edges: each piece is cut by itself."""
    space = Cut([5], [[(0, 1), (3, 4)]])
    scores = np.array([0.0, 1.0, 0.5, 0.0, 0.3, 0.0, 0.0, 2.0, 0.0, -1.0, -2.0, -2.0])
    assert space.decode(0, space.argmax(0, scores)).tolist() == [1, 1, 0, 1, 1]


def test_many_small_grids_are_scipys_maximum_flows() -> None:
    """Regions that change sides often: a node that goes free must be found again by whoever can reach it."""
    rng = np.random.default_rng(5)
    for _ in range(400):
        height, width = rng.integers(3, 12, 2).tolist()
        n, edges = height * width, grid(height, width)
        source = np.rint(rng.normal(0, 100, n) + 300 * rng.normal(size=n) * (rng.random(n) < 0.3)).astype(np.int64)
        room = np.full(len(edges), rng.integers(1, 300))
        space = Cut([n], [edges])
        scores = np.concatenate([np.stack([np.zeros(n), source], axis=1).ravel(), -room]).astype(float)
        expected = np.maximum(source, 0).sum() - flow_by_scipy(n, edges, source, room)
        assert scores @ space.argmax(0, scores) == expected

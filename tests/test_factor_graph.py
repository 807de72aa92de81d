"""Engines of factor graphs against enumeration and linear programs; what a graph refuses."""

from __future__ import annotations

import json
from pathlib import Path

import graph_oracles
import numpy as np
import pytest
import scipy.optimize
from graph_oracles import Floats, enumerate_graph, random_graph
from test_compile import run

import partwise
from partwise.exceptions import CapabilityError, InputError, ParameterError, SolverError
from partwise.features import MatrixFeatures
from partwise.problem import Problem
from partwise.structures import FactorGraph, Graph
from partwise.structures.base import score_of
from partwise.structures.factor_graph import ENGINES
from partwise.structures.graphs import contradiction, model
from partwise.testing import Enumeration


def draw_scores(rng: np.random.Generator, instance: Enumeration, scale: float = 1.5) -> Floats:
    """Normal scores, sometimes with −inf, of which some output has a finite sum."""
    scores = scale * rng.normal(size=instance.parts.shape[1])
    if rng.random() < 0.3:
        possible = instance.parts[rng.integers(len(instance.outputs))] != 0
        scores = np.where((rng.random(len(scores)) < 0.2) & ~possible, -np.inf, scores)
    return scores


def linear_program(space: FactorGraph, scores: Floats) -> float:
    """HiGHS on the local polytope."""
    polytope, n = space.relaxation(0), len(scores)
    width = polytope.equal.shape[1]
    hopeless = np.isneginf(scores)
    gains = np.zeros(width)
    gains[:n] = np.where(hopeless, 0.0, scores)
    bounds = [(0, 0 if j < n and hopeless[j] else None) for j in range(width)]
    below = (polytope.below, polytope.limit) if polytope.below.shape[0] else (None, None)
    found = scipy.optimize.linprog(-gains, *below, polytope.equal, polytope.equal_to, bounds=bounds)
    assert found.status == 0
    return float(-found.fun)


def acyclic(space: FactorGraph) -> bool:
    return len(space._forests.order_start) == 2 and bool(space._forests.rho.all())


# --------------------------------------------------------------------------------------------------
# Bounds


def test_bounds_of_log_z_and_exactness_on_trees() -> None:
    """1,000 graphs, hard factors, −inf: TRW ≥ log Z ≥ mean field however few sweeps; TRW exact without cycles."""
    rng = np.random.default_rng(0)
    forests = 0
    for trial in range(1000):
        n_hard = int(rng.integers(0, 3)) if trial % 5 == 0 else 0
        graph = random_graph(rng, n_hard, tree=trial % 3 == 0, n=int(rng.integers(1, 5)))
        instance = enumerate_graph(graph)
        scores = draw_scores(rng, instance)
        space = FactorGraph([graph], inference="trw", max_iter=int(rng.choice([1, 3, 50])))
        value, mean = space.marginals(0, scores)
        truth = instance.log_partition(scores)
        assert value >= truth - 1e-9 * (1 + abs(truth)), trial
        below, spread = FactorGraph([graph], inference="mean_field", max_iter=20).marginals(0, scores)
        assert below <= truth + 1e-9 * (1 + abs(truth)), trial
        if below > -np.inf:  # attained: a distribution of outputs, whose entropy is the rest of the bound
            assert below >= score_of(scores, spread) - 1e-9
        if acyclic(space):
            forests += 1
            np.testing.assert_allclose(value, truth, rtol=0, atol=1e-8)
            np.testing.assert_allclose(mean, instance.marginals(scores), rtol=0, atol=1e-8)
    assert forests > 300


def test_gradient_of_the_tree_reweighted_bound() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        graph = random_graph(rng, n=4, binary=True, arity=2, density=2.0)
        scores = rng.normal(size=enumerate_graph(graph).parts.shape[1])
        space = FactorGraph([graph], inference="trw", max_iter=5000, tolerance=1e-9)
        _, mean = space.marginals(0, scores)
        assert space.convergence("marginals")[0, 2] == 1
        for r in rng.permutation(len(scores))[:4]:
            step = np.zeros_like(scores)
            step[r] = 1e-5
            slope = (space.marginals(0, scores + step)[0] - space.marginals(0, scores - step)[0]) / 2e-5
            assert abs(slope - mean[r]) < 1e-4


@pytest.mark.parametrize("hard", [0, 2])
def test_belief_propagation_is_exact_on_trees(hard: int) -> None:
    rng = np.random.default_rng(2 + hard)
    seen = 0
    for _ in range(120):
        graph = random_graph(rng, hard, tree=True)
        instance = enumerate_graph(graph)
        scores = draw_scores(rng, instance)
        space = FactorGraph([graph], inference="loopy_bp")
        if not acyclic(space):
            continue
        seen += 1
        value, mean = space.marginals(0, scores)
        np.testing.assert_allclose(value, instance.log_partition(scores), rtol=0, atol=1e-8)
        np.testing.assert_allclose(mean, instance.marginals(scores), rtol=0, atol=1e-6)
        assert space.convergence("marginals")[0, 2] == 1
        ties = np.where(np.isneginf(scores), scores, np.round(scores))
        for s in (scores, ties):
            np.testing.assert_allclose(score_of(s, space.argmax(0, s)), instance.values(s).max(), rtol=0, atol=1e-9)
    assert seen > 30


def test_loopy_belief_propagation_reports_convergence() -> None:
    """A frustrated triangle with strong scores does not settle in three sweeps; a weak one does, near the truth."""
    graph = Graph([2, 2, 2], [(0, 1), (1, 2), (0, 2)])
    pair = np.tile([0.0, 1.0, 1.0, 0.0], 3)
    space = FactorGraph([graph], inference="loopy_bp", max_iter=3)
    space.marginals(0, np.concatenate([[0.0, 0.3, 0.0, -0.2, 0.0, 0.1], 8.0 * pair]))
    assert space.convergence("marginals")[0, 2] == 0
    weak = np.concatenate([[0.0, 0.3, 0.0, -0.2, 0.0, 0.1], 0.1 * pair])
    space = FactorGraph([graph], inference="loopy_bp", damping=0.2)
    value, mean = space.marginals(0, weak)
    assert space.convergence("marginals")[0, 2] == 1
    instance = enumerate_graph(graph)
    np.testing.assert_allclose(value, instance.log_partition(weak), atol=1e-3)
    np.testing.assert_allclose(mean, instance.marginals(weak), atol=1e-3)


def test_ad3_against_highs_and_enumeration() -> None:
    """The bound is HiGHS's value and never below the best output; parts lie in the local polytope."""
    rng = np.random.default_rng(3)
    certified = 0
    for trial in range(150):
        graph = random_graph(rng, int(rng.integers(0, 4)), binary=trial % 2 == 0, n=int(rng.integers(1, 7)))
        instance = enumerate_graph(graph)
        scores = draw_scores(rng, instance, 2.0)
        space = FactorGraph([graph], inference="ad3", max_iter=20000, tolerance=1e-8)
        parts = space.argmax(0, scores)
        _, _, status, value = space.convergence("argmax")[0]
        best = instance.values(scores).max()
        assert value >= best - 1e-9 * (1 + abs(best))
        relaxed = linear_program(space, scores)
        np.testing.assert_allclose(value, relaxed, rtol=0, atol=1e-4)
        np.testing.assert_allclose(score_of(scores, parts), relaxed, rtol=0, atol=1e-3)
        polytope = space.relaxation(0)
        if polytope.lift is None:
            assert np.abs(polytope.equal @ parts - polytope.equal_to).max() < 1e-6
            assert (polytope.below @ parts - polytope.limit).max(initial=0.0) < 1e-6
        # a second run of the solver: the same to rounding
        np.testing.assert_allclose(space.bound(0, scores), value, rtol=1e-9, atol=1e-9)
        if status == 2:
            certified += 1
            np.testing.assert_allclose(value, best, rtol=0, atol=1e-6)
            assert space.allows(0, parts)
    assert certified > 100


def many_rules(rng: np.random.Generator, n: int, count: int) -> Graph:
    """``count`` hard factors of every kind but tables, four and five literals each, some negated; zeros hold in all."""
    hard = []
    for k in range(count):
        names = [int(v) for v in rng.choice(n, 4 + k % 2, replace=False)]
        odd = [model.negated(names[0]), *names[1:]]
        hard += [model.at_most_one(names), model.budget(names, 2), model.or_output(names[:-1], names[-1])]
        hard += [model.some(odd), model.exactly_one(odd), model.all_equal(names[:2])]
    return Graph(np.full(n, 2), [], hard)


def test_ad3_on_many_logical_factors_against_highs() -> None:
    """Factors of one kind and size are done eight at a time; 21 of each leave some over."""
    rng = np.random.default_rng(11)
    for _ in range(3):
        graph = many_rules(rng, 150, 21)
        space = FactorGraph([graph], inference="ad3", max_iter=20000, tolerance=1e-8)
        scores = rng.normal(size=300)
        parts = space.argmax(0, scores)
        relaxed, polytope = linear_program(space, scores), space.relaxation(0)
        np.testing.assert_allclose(space.convergence("argmax")[0, 3], relaxed, rtol=0, atol=1e-4)
        np.testing.assert_allclose(score_of(scores, parts), relaxed, rtol=0, atol=1e-3)
        assert np.abs(polytope.equal @ parts - polytope.equal_to).max() < 1e-5
        assert (polytope.below @ parts - polytope.limit).max() < 1e-5
        for steps in (1, 7):
            short = FactorGraph([graph], inference="ad3", max_iter=steps, warm_start=True)
            for _ in range(2):
                short.argmax(0, scores)
                assert short.convergence("argmax")[0, 3] >= relaxed - 1e-9


def test_ad3_bound_holds_from_the_first_iteration() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        graph = random_graph(rng, 2, n=5)
        instance = enumerate_graph(graph)
        scores = draw_scores(rng, instance)
        for iterations in (1, 5, 20):
            space = FactorGraph([graph], inference="ad3", max_iter=iterations, warm_start=True)
            for _ in range(2):  # the second call starts from the multipliers of the first
                space.argmax(0, scores)
                assert space.convergence("argmax")[0, 3] >= instance.values(scores).max() - 1e-9


def test_branch_and_bound_and_iterated_modes() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        graph = random_graph(rng, int(rng.integers(0, 4)), n=int(rng.integers(2, 7)))
        instance = enumerate_graph(graph)
        scores = draw_scores(rng, instance, 2.0)
        best = instance.values(scores).max()
        exact = FactorGraph([graph], inference="branch_and_bound", max_iter=30)
        parts = exact.argmax(0, scores)
        np.testing.assert_allclose(score_of(scores, parts), best, rtol=0, atol=1e-6)
        rounded = FactorGraph([graph], inference="ad3", max_iter=30).solve(0, scores)
        assert rounded.value <= best + 1e-9 and rounded.bound >= best - 1e-9
        modes = FactorGraph([graph], inference="mean_field")
        found = modes.argmax(0, scores)
        assert modes.allows(0, found) and score_of(scores, found) <= best + 1e-9


def test_time_limit_of_branch_and_bound() -> None:
    """A frustrated grid: an output and its gap at the end of the time, an error from argmax."""
    rng = np.random.default_rng(9)
    node = np.arange(64).reshape(8, 8)
    across, down = np.stack([node[:, :-1], node[:, 1:]], -1), np.stack([node[:-1], node[1:]], -1)
    graph = Graph([3] * 64, np.concatenate([across.reshape(-1, 2), down.reshape(-1, 2)]))
    scores = np.concatenate([0.1 * rng.normal(size=192), 3.0 * rng.normal(size=9 * 112)])
    space = FactorGraph([graph], inference="branch_and_bound", max_iter=10, time_limit=1e-4)
    found = space.solve(0, scores)
    assert found.status == "time limit" and found.gap > 0
    best = FactorGraph([graph], inference="junction_tree").solve(0, scores).value
    assert found.value <= best + 1e-9 <= found.bound + 2e-9
    with pytest.raises(SolverError, match=r"reached its time limit of 0\.0001 s"):
        space.argmax(0, scores)


def test_gibbs_chain_agrees_with_the_marginals() -> None:
    rng = np.random.default_rng(10)
    graph = Graph([2, 3, 2], [(0, 1), (1, 2), (0, 2)], [model.budget([(0, 1), (1, 2), (2, 1)], 2)])
    space = FactorGraph([graph])
    scores = rng.normal(size=space.n_parts(0))
    draws = space.gibbs_chain(0, scores, 40_000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), space.marginals(0, scores)[1], atol=0.015)


# --------------------------------------------------------------------------------------------------
# Junction trees


def test_long_logical_factors_need_no_table() -> None:
    """Forty literals: 2^40 configurations, an automaton of forty steps."""
    n = 40
    for factor in (
        model.exactly_one(range(n)),
        model.budget(range(n), 3),
        model.some(range(n)),
        model.all_equal(range(n)),
    ):
        space = FactorGraph([Graph([2] * n, [], [factor])], inference="junction_tree")
        scores = np.zeros(2 * n)
        scores[2 * np.arange(5) + 1] = 5.0 - np.arange(5)
        value, mean = space.marginals(0, np.zeros(2 * n))
        chosen = {"exactly_one": 1, "budget": 3, "some": 5, "all_equal": 40}[factor.name]
        assert space.decode(0, space.argmax(0, scores)).sum() == chosen
        outputs = {"exactly_one": 40, "budget": 1 + 40 + 780 + 9880, "some": 2**40 - 1, "all_equal": 2}[factor.name]
        np.testing.assert_allclose(value, np.log(outputs), rtol=1e-12)
        np.testing.assert_allclose(mean[:2].sum(), 1.0)


def test_too_wide_a_junction_tree_names_its_size_and_the_alternatives() -> None:
    side = 12
    node = np.arange(side * side).reshape(side, side)
    across, down = np.stack([node[:, :-1], node[:, 1:]], -1), np.stack([node[:-1], node[1:]], -1)
    grid = Graph([2] * side**2, np.concatenate([across.reshape(-1, 2), down.reshape(-1, 2)]))
    with pytest.raises(
        InputError, match=r"table of at least 2\^9\.0 entries, more than the limit of 2\^8\.0; .*'ad3'.*'trw'"
    ):
        FactorGraph([grid], inference="junction_tree", max_table=256)
    assert FactorGraph([grid], max_table=256).inference == "trw"
    assert FactorGraph([grid]).inference == "junction_tree"


def test_large_graphs() -> None:
    """A chain of 100,000 variables, a star of 20,000, 50,000 isolated ones."""
    n = 100_000
    chain = Graph(np.full(n, 2), np.stack([np.arange(n - 1), np.arange(1, n)], 1))
    star = Graph(np.full(20_000, 2), np.stack([np.zeros(19_999, int), np.arange(1, 20_000)], 1))
    space = FactorGraph([chain, star, Graph(np.full(50_000, 3))])
    assert space.inference == "junction_tree"
    for i, (variables, factors, states) in enumerate([(n, n - 1, 2), (20_000, 19_999, 2), (50_000, 0, 3)]):
        value, mean = space.marginals(i, np.zeros(space.n_parts(i)))
        np.testing.assert_allclose(value, variables * np.log(states), rtol=1e-10)
        np.testing.assert_allclose(mean[variables * states :], 0.25 * np.ones(4 * factors), rtol=1e-9)


# --------------------------------------------------------------------------------------------------
# Evidence and learning


def test_given_is_conditioning() -> None:
    rng = np.random.default_rng(5)
    graph = Graph([2, 3, 2], [(0, 1), (1, 2), (0, 2)])
    instance, scores = enumerate_graph(graph), rng.normal(size=7 + 6 + 6 + 4)
    space = FactorGraph([graph])
    known = space.given(0, {1: [0, 2], 2: 1})
    keep = np.array([y[1] != 1 and y[2] == 1 for y in instance.outputs])
    p = np.where(keep, instance.probabilities(scores), 0.0)
    np.testing.assert_allclose(known.marginals(0, scores)[1], p @ instance.parts / p.sum(), atol=1e-12)
    assert known.n_parts(0) == space.n_parts(0)
    with pytest.raises(InputError, match="evidence on variable 5 of instance 0, which has only 3 variables"):
        space.given(0, {5: 0})
    with pytest.raises(InputError, match="evidence on variable 1 of instance 0: 3 is not one of its 3 states"):
        space.given(0, {1: 3})
    assert "forbidden by the constraints" in known.forbidden_part(0, space.encode(0, [0, 1, 1]))


def test_latent_variables_through_partial_gold() -> None:
    """Gold known for some variables: L = log Z − log Z restricted, gradient by finite differences."""
    rng = np.random.default_rng(6)
    graphs = [Graph([2, 2, 3], [(0, 1), (1, 2)]), Graph([2, 2], [(0, 1)], [model.at_most_one([0, 1])])]
    space = FactorGraph(graphs)
    gold = space.restrict([{0: 1}, {1: 0}])
    matrices = [rng.normal(size=(4, space.n_parts(i))) for i in range(2)]
    problem = Problem(space, MatrixFeatures(matrices), gold)
    theta = rng.normal(size=4)
    value, gradient = problem.loss_and_gradient(theta)
    expected = sum(
        space.marginals(i, m.T @ theta)[0] - gold.marginals(i, m.T @ theta)[0] for i, m in enumerate(matrices)
    )
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for d in range(4):
        step = 1e-6 * np.eye(4)[d]
        slope = (problem.loss_and_gradient(theta + step)[0] - problem.loss_and_gradient(theta - step)[0]) / 2e-6
        assert abs(slope - gradient[d]) < 1e-6


def test_guarantees() -> None:
    graph = Graph([2, 2], [(0, 1)])
    found = {name: FactorGraph([graph], inference=name) for name in ENGINES}
    assert {name: space.guarantee("argmax") for name, space in found.items()} == {
        "junction_tree": "exact", "loopy_bp": "none", "trw": "outer", "ad3": "outer", "mean_field": "inner",
        "branch_and_bound": "exact",
    }  # fmt: skip
    assert found["trw"].guarantee("marginals") == "outer" and found["loopy_bp"].guarantee("marginals") == "none"
    with pytest.raises(CapabilityError, match="FactorGraph has no marginals"):
        found["ad3"].marginals(0, np.zeros(8))


# --------------------------------------------------------------------------------------------------
# Bad input


def test_contradictory_hard_factors_are_named() -> None:
    hard = [model.exactly_one([0, 1]), model.all_equal([0, 1]), model.at_most_one([1, 2])]
    with pytest.raises(InputError, match=r"instance 0 contradict.*exactly_one\(x0=1, x1=1\)"):
        FactorGraph([Graph([2, 2, 2], [], [*hard, model.some([0])])])
    with pytest.raises(InputError, match=r"implies\(x0=1 → x1=2\).*evidence on variables"):
        FactorGraph([Graph([2, 3], [], [model.implies(0, (1, 2))])]).given(0, {0: 1, 1: [0, 1]})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Graph([2, 2], [(0, 0)]), "soft factor 0 names variable 0 twice"),
        (lambda: Graph([2, 2], [(0, 1), (0, 2)]), "soft factor 1 names variable 2; the graph has 2 variables"),
        (lambda: Graph([2, 0]), "variable 1 has no state"),
        (lambda: Graph([]), "at least one variable"),
        (lambda: Graph([2, 2], [], [model.exactly_one([(0, 2)])]), "variable 0 has 2 states; there is no state 2"),
        (lambda: Graph([2, 2], [], [model.some([(0, 0), (0, 1)])]), "variable 0 occurs twice"),
        (lambda: Graph([1, 2], [], [model.some([0, 1])]), "variable 0 has"),
        (lambda: Graph([2], [], [model.allowed_table([0], [False, False])]), "the table allows nothing"),
        (lambda: Graph([2], [], [model.allowed_table([0], [True])]), r"the table has shape \(1,\)"),
        (lambda: model.budget([0], -1), "a budget must be at least 0"),
        (lambda: model.some([]), "some needs at least one literal"),
        (lambda: FactorGraph([Graph([2])]).encode(0, [2]), "variable 0 of instance 0 has state 2; expected 0..1"),
        (lambda: FactorGraph(["no graph"]), "instance 0 is a str; expected a Graph"),
    ],
)
def test_bad_input_is_named(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]


def test_bad_settings() -> None:
    for name, value in {"inference": "junction", "max_iter": 0, "damping": 1.0, "tolerance": 0.0, "n_trees": 0}.items():
        with pytest.raises(ParameterError, match=name):
            FactorGraph([Graph([2])], **{name: value})


def test_contradictions_that_propagation_does_not_see() -> None:
    """A search finds them on small graphs, and names the factors that cannot all hold, no others."""
    harmless = [model.at_most_one([3, 4]), model.some([0, 3])]
    with pytest.raises(InputError, match=r"one another: exactly_one\(x0=1, x1=1\); all_equal\(x0=1, x1=1\)$"):
        FactorGraph([Graph(np.full(5, 2), [], [*harmless, model.exactly_one([0, 1]), model.all_equal([0, 1])])])
    odd = [model.exactly_one(pair) for pair in ([0, 1], [1, 2], [0, 2])]
    for inference in ("ad3", "junction_tree"):
        with pytest.raises(InputError, match=r"one another: (exactly_one\(x\d=1, x\d=1\)(; )?){3}$"):
            FactorGraph([Graph(np.full(5, 2), [], [*harmless, *odd])], inference=inference)
    fine = FactorGraph([Graph(np.full(5, 2), [], [*harmless, *odd[:2]])], inference="ad3")
    with pytest.raises(InputError, match=r"one another: .*; evidence on variables|one another: .*; the evidence"):
        fine.given(0, {0: 1, 2: 0})
    with pytest.raises(InputError, match="graphs is one Graph; expected a list"):
        FactorGraph(fine.graphs[0])


def test_decoding_never_breaks_hard_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where diving finds no output, branch and bound does, or proves that there is none."""
    monkeypatch.setattr(contradiction, "dive", lambda *args: False)
    monkeypatch.setattr(contradiction, "SMALL", 0)
    graph = Graph(np.full(4, 2), [], [model.exactly_one([0, 1]), model.all_equal([1, 2]), model.some([2, 3])])
    space = FactorGraph([graph], inference="ad3")
    half = np.full(8, 0.5)
    states = space.decode(0, half)
    assert all(factor.holds(dict(enumerate(states.tolist()))) for factor in graph.hard)
    odd = [model.exactly_one(pair) for pair in ([0, 1], [1, 2], [0, 2])]
    with pytest.raises(InputError, match="no output of instance 0 satisfies all its hard factors"):
        FactorGraph([Graph([2, 2, 2], [], odd)], inference="ad3").decode(0, half[:6])


def test_duplicate_factors_count_twice_and_parts_may_be_disconnected() -> None:
    rng = np.random.default_rng(7)
    graph = Graph([2, 2, 3, 1], [(0, 1), (0, 1), (1, 0)])
    instance = enumerate_graph(graph)
    scores = rng.normal(size=instance.parts.shape[1])
    for inference in ("junction_tree", "trw"):
        value, _ = FactorGraph([graph], inference=inference).marginals(0, scores)
        assert value >= instance.log_partition(scores) - 1e-9
    np.testing.assert_allclose(FactorGraph([graph]).marginals(0, scores)[0], instance.log_partition(scores))
    assert graph_oracles.holds(model.some([0]), (1,))


def small_graph() -> tuple[Graph, Floats]:
    hard = [model.at_most_one([0, 2, 3]), model.budget([(1, 2), 0, 3], 2), model.some([0, (1, 1), 2])]
    graph = Graph([2, 3, 2, 2], [(0, 1), (1, 2), (1, 3)], hard)
    return graph, np.random.default_rng(0).normal(size=9 + 6 + 6 + 6)


def engine_answers() -> dict[str, list[float]]:
    """Score or bound of the argmax, and log Z, of every engine on a small graph."""
    graph, scores = small_graph()
    answers = {}
    for name in ENGINES:
        space = FactorGraph([graph], inference=name)
        value = space.bound(0, scores) if name in ("ad3", "trw") else score_of(scores, space.argmax(0, scores))
        answers[name] = [value, *([space.marginals(0, scores)[0]] if "marginals" in space.oracles else [])]
    rules = many_rules(np.random.default_rng(1), 24, 8)
    answers["rules"] = [FactorGraph([rules], inference="ad3", max_iter=30).bound(0, np.arange(48) % 5 - 2.0)]
    exact = FactorGraph([graph])
    answers["kbest"] = [score_of(scores, row) for row in exact.kbest(0, scores, 3)]
    exact.sample(0, scores, 2, np.random.default_rng(0))
    exact.gibbs_chain(0, scores, 2, np.random.default_rng(0))
    return answers


def test_kernels_run_without_the_compiler() -> None:
    script = (
        "import json, warnings; warnings.simplefilter('ignore'); import test_factor_graph; "
        "print(json.dumps(test_factor_graph.engine_answers()))"
    )
    found = json.loads(run(script, [Path(partwise.__file__).parents[1], Path(__file__).parent], NUMBA_DISABLE_JIT="1"))
    graph, scores = small_graph()
    instance = enumerate_graph(graph)
    best, truth = instance.values(scores).max(), instance.log_partition(scores)
    np.testing.assert_allclose(found["junction_tree"], [best, truth], atol=1e-9)
    np.testing.assert_allclose(found["kbest"], instance.best_values(scores, 3), atol=1e-9)
    np.testing.assert_allclose(found["branch_and_bound"], [best], atol=1e-6)
    assert found["trw"][0] >= best - 1e-9 and found["trw"][1] >= truth - 1e-9 and found["ad3"][0] >= best - 1e-9
    assert found["mean_field"][0] <= best + 1e-9 and found["mean_field"][1] <= truth + 1e-9
    assert len(found["loopy_bp"]) == 2
    np.testing.assert_allclose(found["rules"], engine_answers()["rules"], atol=1e-9)

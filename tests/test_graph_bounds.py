"""How AD³ finds its bound: minimum cuts of pairs of bits, sweeps with a state per lane, both against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
from graph_oracles import enumerate_graph
from test_factor_graph import linear_program

from partwise import _lanes
from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.structures.base import score_of
from partwise.structures.factor_graph import FactorGraph
from partwise.structures.graphs.model import (
    Graph,
    Hard,
    all_equal,
    at_most_one,
    budget,
    exactly_one,
    implies,
    negated,
    or_output,
    some,
)


def pairs_of_bits(rng: np.random.Generator, tables: bool) -> Graph:
    """Up to twelve factors over two of up to eight bits, with negated literals."""
    n = int(rng.integers(2, 9))
    soft: list[tuple[int, int]] = []
    hard: list[Hard] = []
    for _ in range(int(rng.integers(1, 13))):
        a, b = rng.choice(n, 2, replace=False).tolist()
        u, v = (negated(x) if rng.random() < 0.4 else x for x in (a, b))
        kind = int(rng.integers(0, 9)) if tables else int(rng.integers(3, 9))
        if kind < 3:
            soft.append((a, b))
        elif kind < 6:
            hard.append((at_most_one([u, v]), some([u, v]), budget([u, v], 1))[kind - 3])
        elif rng.random() < 0.2:
            hard.append(exactly_one([u, v]) if kind == 6 else all_equal([u, v]))
        else:
            hard.append(implies([a], b) if kind == 7 else implies([u], v))
    return Graph(np.full(n, 2), soft, hard)


@pytest.mark.parametrize("tables", [False, True])
def test_a_cut_solves_pairs_of_bits(tables: bool) -> None:
    """The bound and what the parts attain are HiGHS's optimum, without an iteration; some optima are fractional."""
    rng, solved, fractional = np.random.default_rng(5), 0, 0
    for trial in range(120):
        graph = pairs_of_bits(rng, tables)
        try:
            space = FactorGraph([graph], inference="ad3")
        except InputError:  # contradictory
            continue
        scores = rng.normal(size=space.n_parts(0))
        if trial % 4 == 0:
            scores[2 * len(graph.states) :][rng.random(len(scores) - 2 * len(graph.states)) < 0.1] = -np.inf
        try:
            parts = space.argmax(0, scores)
        except InputError:
            continue
        iterations, _, status, value = space.convergence("argmax")[0]
        relaxed = linear_program(space, scores)
        assert iterations == 0 and status >= 1
        np.testing.assert_allclose([value, score_of(scores, parts)], relaxed, rtol=0, atol=1e-8)
        polytope = space.relaxation(0)
        assert np.abs(polytope.equal @ parts - polytope.equal_to).max() < 1e-9
        assert (polytope.below @ parts - polytope.limit).max(initial=0.0) < 1e-9
        solved += 1
        fractional += bool((np.abs(parts - np.round(parts)) > 0.1).any())
    assert solved > 60 and fractional > 5


def test_chains_and_cycles_of_implications() -> None:
    """Merged before the cut; the best closed set, by enumeration."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        n = int(rng.integers(3, 10))
        hard = [implies([j], j + 1) for j in range(n - 1) if rng.random() < 0.8]
        for _ in range(int(rng.integers(0, 6))):
            a, b = rng.choice(n, 2, replace=False).tolist()
            hard.append(implies([a], b))
        graph = Graph(np.full(n, 2), [], hard)
        space, instance = FactorGraph([graph], inference="ad3"), enumerate_graph(graph)
        scores = np.round(rng.normal(size=2 * n), int(rng.integers(0, 3)))  # ties as well
        parts, best = space.argmax(0, scores), instance.values(scores).max()
        assert space.convergence("argmax")[0, 2] == 2 and space.allows(0, parts)
        np.testing.assert_allclose([score_of(scores, parts), space.bound(0, scores)], best, rtol=0, atol=1e-9)


@pytest.mark.parametrize("states", [(3, 3), (5, 5), (2, 9), (3, 8)])
def test_sweeps_of_pairs_near_the_relaxation(states: tuple[int, int]) -> None:
    """Never below HiGHS's optimum, however few the sweeps; within 1e-3 of it after a hundred, 1e-4 in the end.

    Nine states are more than a lane each: those graphs take the other sweeps.
    """
    rng = np.random.default_rng(7)
    for _ in range(3):
        side = 5
        node = np.arange(side * side).reshape(side, side)
        edges = np.concatenate([np.stack([node[:, :-1], node[:, 1:]], -1).reshape(-1, 2),
                                np.stack([node[1:], node[:-1]], -1).reshape(-1, 2)])  # fmt: skip
        graph = Graph(rng.integers(*states, side * side, endpoint=True), edges)
        spaces = {n: FactorGraph([graph], inference="ad3", max_iter=n) for n in (1, 9, 100, 3000)}
        scores = rng.normal(size=spaces[1].n_parts(0)) * 10.0 ** rng.integers(-2, 3)
        relaxed, scale = linear_program(spaces[1], scores), np.abs(scores).mean() * side * side
        off = {n: (space.bound(0, scores) - relaxed) / scale for n, space in spaces.items()}
        assert min(off.values()) > -1e-9
        assert off[100] < 2e-3 and off[3000] < 1e-4, off
        polytope, parts = spaces[9].relaxation(0), spaces[9].argmax(0, scores)
        assert np.abs(polytope.equal @ parts - polytope.equal_to).max() < 1e-9


@kernel
def _both(x, grown, back, top):
    for r in range(x.shape[0]):
        v = _lanes.exp_lanes(_lanes.load_lanes(x, r))
        _lanes.store_lanes(grown, r, v)
        _lanes.store_lanes(back, r, _lanes.log_lanes(v))
        top[r] = _lanes.top_lanes(_lanes.load_lanes(x, r))


def test_exponentials_and_logarithms_of_lanes() -> None:
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal(size=(50, 8)), rng.uniform(-690, 700, (50, 8)), np.full((1, 8), -np.inf)])
    grown, back, top = np.empty_like(x), np.empty_like(x), np.empty(len(x))
    _both(x, grown, back, top)
    np.testing.assert_allclose(grown[:100], np.exp(x[:100]), rtol=1e-10)
    np.testing.assert_allclose(back[:100], x[:100], rtol=0, atol=1e-10)
    assert (top == x.max(axis=1)).all() and (grown[-1] < 1e-300).all()


def circles_of_rules(rng: np.random.Generator, n: int) -> Graph:
    """Outputs of "or" that imply one another in circles, exclusions, budgets, and clauses with negated literals."""
    hard = [or_output([j, (j + 7) % n], (j + 1) % n) for j in range(n // 2)]
    hard += [or_output([n // 2, 2], 0)]
    for k in range(n):
        names = [int(v) for v in rng.choice(n, 5, replace=False)]
        rule = (at_most_one(names), budget(names, 2), some([negated(names[0]), *names[1:3]]))
        hard.append(rule[k % 3])
    return Graph(np.full(n, 2), [], hard)


def test_logic_that_is_settled_beforehand_against_highs() -> None:
    """States closed and bits capped beforehand leave the relaxation's value as it is."""
    rng = np.random.default_rng(9)
    for trial in range(8):
        n = 40
        if trial % 2:
            graph = circles_of_rules(rng, n)
        else:  # a bit that scores nothing is 0, and many budgets are idle then
            graph = Graph(np.full(n, 2), [], [budget(list(range(j, j + 8)), 2) for j in range(0, n - 8, 2)])
        scores = rng.normal(size=2 * n)
        spaces = {k: FactorGraph([graph], inference="ad3", max_iter=k, tolerance=1e-9) for k in (1, 16, 20000)}
        found = {}
        for k, space in spaces.items():
            space.argmax(0, scores)
            found[k] = space.convergence("argmax")[0, 3]
        relaxed = linear_program(spaces[1], scores)
        assert min(found.values()) >= relaxed - 1e-9
        np.testing.assert_allclose(found[20000], relaxed, rtol=0, atol=1e-4)
        parts = spaces[20000].argmax(0, scores)
        np.testing.assert_allclose(score_of(scores, parts), relaxed, rtol=0, atol=1e-3)
        polytope = spaces[1].relaxation(0)
        assert (polytope.below @ parts - polytope.limit).max() < 1e-5

"""Training on the linear relaxation of loopy graphs: what AD³ attains, its bound, certificates of the relaxation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from graph_oracles import enumerate_graph
from hard_scales import Hard, faults
from test_certificates import problem_from
from test_hard_scales import learners

from partwise.structures.base import score_of
from partwise.structures.factor_graph import FactorGraph
from partwise.structures.graphs.model import Graph, at_most_one
from partwise.testing import Case

#: One of every kind; each compiles kernels of its own.
LEARNERS = ("FrankWolfe", "OneSlack", "BatchFrankWolfe")
EDGES = {3: [(0, 1), (1, 2), (0, 2)], 4: [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]}


def local_corners(graph: Graph) -> np.ndarray:
    """Points whose hull is the local polytope of binary pairs: states 0, ½, 1, pairs as alike or unlike as can be."""
    edges, rows = graph.scope.reshape(-1, 2), []
    for p in product((0.0, 0.5, 1.0), repeat=len(graph.states)):
        for alike in product((False, True), repeat=len(edges)):
            row = [weight for on in p for weight in (1 - on, on)]
            for (u, v), together in zip(edges, alike, strict=True):
                both = min(p[u], p[v]) if together else max(0.0, p[u] + p[v] - 1)
                row += [1 - p[u] - p[v] + both, p[v] - both, p[u] - both, both]
            rows.append(row)
    return np.unique(np.array(rows), axis=0)


def relaxed_case(n: int, inference: str = "ad3") -> Case:
    graph = Graph([2] * n, EDGES[n])
    instance = replace(enumerate_graph(graph), corners=local_corners(graph))
    return Case(FactorGraph([graph], inference=inference), [instance], relaxed=True)


@pytest.mark.parametrize("inference", ["ad3", "trw"])
def test_what_is_attained_and_the_bound(inference: str) -> None:
    """scores·parts ≤ the relaxation's optimum ≤ bound, all within the tolerance; fractional points among them."""
    rng, fractional = np.random.default_rng(0), 0
    for n in (3, 4):
        case = relaxed_case(n, inference)
        space, corners = case.structure, case.instances[0].hull
        for trial in range(40):
            scores = rng.normal(size=space.n_parts(0))
            if trial % 2:  # every pair wants to differ, which an odd cycle cannot
                scores[: 2 * n] *= 0.1
                scores[2 * n :] = (np.array([0.0, 1.0, 1.0, 0.0]) * rng.uniform(1, 2, (len(EDGES[n]), 1))).ravel()
            scores *= 10.0 ** rng.integers(-1, 3)
            best, parts, ceiling = (corners @ scores).max(), space.argmax(0, scores), space.bound(0, scores)
            slack = 1e-9 * (1 + np.abs(scores).sum())
            attained = score_of(scores, parts)
            assert best - 1e-4 * (1 + abs(best)) <= attained <= best + slack
            assert best - slack <= ceiling <= best + 1e-4 * (1 + abs(best))
            assert ceiling >= case.instances[0].values(scores).max() - slack
            fractional += int(((parts > 0.1) & (parts < 0.9)).any())
    assert fractional > 10


def test_a_bound_of_other_scores_is_found_anew() -> None:
    """The generic ``bound`` does not answer with that of the argmax before it."""
    from partwise.structures.oracles import bound

    space = relaxed_case(3).structure
    rng = np.random.default_rng(1)
    scores, other = rng.normal(size=18), rng.normal(size=18)
    wanted = space.bound(0, other)
    value = score_of(scores, space.argmax(0, scores))
    assert bound(space.pack, 0, other, value, np.empty(0)) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_certificates_of_the_relaxation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = relaxed_case(3)
    hard: Hard = problem_from(case, rng, "svm")
    problem, seen = hard.problem(), 0
    assert problem.guarantee == "outer" and problem.loose
    for learner in learners(hard):
        if type(learner).__name__ not in LEARNERS:
            continue
        result = replace(learner, max_passes=min(learner.max_passes, 15)).fit(problem)
        wrong = faults(hard, learner, result)
        assert not wrong, f"{learner}: {wrong} ({hard.about})"
        if result.certificate is not None:
            seen += 1
            assert result.certificate.of == "relaxation"
    assert seen >= len(LEARNERS)


def test_hard_factors_give_no_certificate() -> None:
    """They hold within the tolerance only, and the trace says that nothing is certified."""
    graph = Graph([2] * 3, EDGES[3], [at_most_one([0, 1, 2])])
    assert FactorGraph([graph], inference="ad3").certifies("argmax") == "none"
    assert FactorGraph([Graph([2] * 3, EDGES[3])], inference="trw").certifies("marginals") == "none"

"""Certificates follow from what an oracle guarantees: exact, outer, inner with or without a bound, none."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import Enumeration, enumerate_interval
from problems import Enumerated

from partwise.exceptions import OracleError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import DCA, LBFGS, LEARNERS, BatchFrankWolfe, FrankWolfe, NSlack, OneSlack, find_learner
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.base import score_of
from partwise.structures.factor_graph import FactorGraph
from partwise.structures.graphs.model import Graph, at_most_one

Floats = NDArray[np.float64]


class Overlooking(Enumerated):
    """Sees only every second output: an inner oracle that says so."""

    def seen(self, i: int) -> Floats:
        return self.instances[i].parts[::2]

    def guarantee(self, oracle: str) -> str:
        return "inner" if oracle == "argmax" else "exact"

    def argmax(self, i: int, scores: Floats) -> Floats:
        seen = self.seen(i)
        return seen[np.argmax(seen @ scores)]


class Bounded(Overlooking):
    """The same with a bound: no output has more than its positive scores."""

    def bound(self, i: int, scores: Floats) -> float:
        return float(np.maximum(scores, 0.0).sum())


class Lying(Overlooking):
    """The same, claiming to be exact: forgets another half of the outputs whenever it is asked again."""

    calls = 0

    def guarantee(self, oracle: str) -> str:
        return "exact"

    def seen(self, i: int) -> Floats:
        type(self).calls += 1
        return self.instances[i].parts[type(self).calls % 2 :: 2]


class Hulled(Enumerated):
    """The cube [0, 1]^n in place of the outputs: an outer oracle."""

    def guarantee(self, oracle: str) -> str:
        return "outer" if oracle == "argmax" else "exact"

    def argmax(self, i: int, scores: Floats) -> Floats:
        return (scores > 0).astype(float)


class Loose(Enumerated):
    """Marginals that are not: of scores half as large."""

    def guarantee(self, oracle: str) -> str:
        return "none" if oracle == "marginals" else "exact"

    def marginals(self, i: int, scores: Floats) -> tuple[float, Floats]:
        return super().marginals(i, 0.5 * np.asarray(scores))


def problem_of(kind: Any, seed: int, loss: str = "svm", m: int = 4, **settings: Any) -> Problem:
    """The best run of items, its outputs listed; noisy, so that no θ is perfect."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, size=m)
    instances = [enumerate_interval(int(n)) for n in sizes]
    gold = [instance.outputs[rng.integers(len(instance.outputs))] for instance in instances]
    space = kind(instances, [int(n) for n in sizes])
    features = MatrixFeatures([rng.normal(size=(3, int(n))) for n in sizes])
    return Problem(space, features, gold, loss, **settings)


def optimum(problem: Problem, corners: list[Floats], C: float) -> float:
    """min_θ of eq. (2) by an exact n-slack run over listed corners."""
    exact = Enumerated(
        [Enumeration([(j,) for j in range(len(rows))], rows, []) for rows in corners],
        [rows.shape[1] for rows in corners],
    )
    copy = Problem.__new__(Problem)
    copy.__dict__.update(problem.__dict__)
    copy.space, copy.guarantee = exact, "exact"
    copy.data = problem.data._replace(space=exact)
    copy._batch = problem._batch._replace(space=exact)
    result = NSlack(C=C, tolerance=1e-9, max_passes=2000).fit(copy)
    assert result.certificate is not None and result.certificate.gap <= 1e-6 * max(result.certificate.primal, 1.0)
    return result.certificate.primal


def outputs_of(problem: Problem) -> list[Floats]:
    return [instance.parts for instance in problem.space.instances]  # type: ignore[attr-defined]


CERTIFIED = ["n_slack", "one_slack", "frank_wolfe", "batch_frank_wolfe"]


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("seed", range(4))
def test_an_inner_oracle_without_a_bound_certifies_nothing(name: str, seed: int) -> None:
    problem = problem_of(Overlooking, seed)
    result = find_learner(name)(C=1.0, max_passes=60).fit(problem)
    assert result.certificate is None and "may overlook outputs and has no bound" in result.uncertified
    assert result.status != "converged"
    best = optimum(problem, outputs_of(problem), 1.0)
    assert all(line.objective is None for line in result.trace)
    assert all(line.dual <= best + 1e-7 for line in result.trace if line.dual is not None)  # what is attained holds


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("seed", range(4))
def test_a_bound_makes_a_true_certificate(name: str, seed: int) -> None:
    problem = problem_of(Bounded, seed)
    result = find_learner(name)(C=1.0, max_passes=60).fit(problem)
    best = optimum(problem, outputs_of(problem), 1.0)
    assert result.certificate is not None and result.certificate.of == "problem"
    assert result.certificate.dual <= best + 1e-7 and result.certificate.primal >= best - 1e-7


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("seed", range(3))
def test_an_outer_oracle_certifies_the_relaxation(name: str, seed: int) -> None:
    problem = problem_of(Hulled, seed)
    result = find_learner(name)(C=1.0, max_passes=300).fit(problem)
    cube = [np.array(list(np.ndindex(*(2,) * parts.shape[1])), float) for parts in outputs_of(problem)]
    best = optimum(problem, cube, 1.0)
    assert result.certificate is not None and result.certificate.of == "relaxation"
    assert result.certificate.dual <= best + 1e-7 and result.certificate.primal >= best - 1e-7
    assert best >= optimum(problem, outputs_of(problem), 1.0) - 1e-7  # and bounds the problem's from above


def test_a_primal_below_its_dual_is_an_error() -> None:
    caught = 0
    for seed in range(20):
        try:
            OneSlack(C=10.0, max_passes=50).fit(problem_of(Lying, seed))
        except OracleError as error:
            caught += 1
            assert "proves an oracle wrong" in str(error) and '"inner"' in str(error)
    assert caught >= 1


def test_marginals_without_a_guarantee_certify_nothing() -> None:
    for learner in (LBFGS(max_passes=20), DCA(max_passes=3, trace_objective=True)):
        result = learner.fit(problem_of(Loose, 0, "crf"))
        assert result.certificate is None and all(line.dual is None for line in result.trace)
        assert "gives no bound" in result.uncertified


def test_the_guarantee_can_be_doubted() -> None:
    problem = problem_of(Enumerated, 1, guarantee="inner")
    result = FrankWolfe(max_passes=50).fit(problem)
    assert result.certificate is None and not problem.bounded
    with pytest.raises(
        ParameterError, match="'guarantee' parameter of Problem must be one of exact, outer, inner, none"
    ):
        problem_of(Enumerated, 1, guarantee="perhaps")


def test_solve_says_how_good_an_answer_is() -> None:
    for kind, status in ((Enumerated, "optimal"), (Overlooking, "attained"), (Bounded, "attained")):
        space = problem_of(kind, 2).space
        scores = np.random.default_rng(0).normal(size=space.n_parts(0))
        found = space.solve(0, scores)
        best = max(score_of(scores, row) for row in space.instances[0].parts)
        assert found.value <= best + 1e-12 <= found.bound + 1e-9
        assert found.status == status or found.value == found.bound


def test_problems_travel() -> None:
    problem = problem_of(Enumerated, 3)
    theta = np.ones(problem.dim)
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.losses(theta), problem.losses(theta))


class Sum:
    """Two problems with shared weights: an objective that is no Problem."""

    def __init__(self, first: Problem, second: Problem) -> None:
        self.members = (first, second)
        self.dim, self.m, self.loss = first.dim, first.m + second.m, first.loss
        self.oracles, self.convex, self.nonnegative = first.oracles, True, None
        self.guarantee, self.bounded = "exact", True

    def losses(self, theta: Floats) -> Floats:
        return np.concatenate([member.losses(theta) for member in self.members])

    upper_losses = losses

    def loss_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        values, gradients = zip(*(member.loss_and_gradient(theta) for member in self.members), strict=True)
        return sum(values), sum(gradients)


def test_a_sum_of_problems_is_an_objective() -> None:
    crf = Sum(problem_of(Enumerated, 4, "crf"), problem_of(Enumerated, 5, "crf"))
    result = LBFGS(C=1.0, max_passes=200, tolerance=1e-8).fit(crf)
    assert result.certificate is not None and result.certificate.relative_gap < 1e-6
    svm = Sum(problem_of(Enumerated, 4), problem_of(Enumerated, 5))
    for learner in (OneSlack(C=1.0), BatchFrankWolfe(C=1.0, tolerance=1e-2)):
        result = learner.fit(svm)
        assert result.status == "converged" and result.certificate is not None
    with pytest.raises(Exception, match=r"DCA visits single instances, which Sum does not offer\."):
        DCA().fit(svm)
    assert {name for name, kind in LEARNERS.items() if kind.batch} >= {"lbfgs", "one_slack", "batch_frank_wolfe"}


def test_losses_on_given_scores() -> None:
    problem = problem_of(Enumerated, 6, "crf")
    space, gold = problem.space, problem.predict(np.ones(problem.dim))
    rng = np.random.default_rng(1)
    scores = rng.normal(size=problem.part_offsets[-1])
    for name in ("crf", "softmax_margin", "risk"):
        values, gradient = Loss.named(name).evaluate(space, scores, gold)
        assert values.shape == (len(space),)
        direction, step = rng.normal(size=scores.size), 1e-6
        above = Loss.named(name).evaluate(space, scores + step * direction, gold)[0].sum()
        below = Loss.named(name).evaluate(space, scores - step * direction, gold)[0].sum()
        assert abs((above - below) / (2 * step) - gradient @ direction) < 1e-5


@pytest.mark.parametrize(("inference", "guarantee"), [("ad3", "outer"), ("trw", "outer"), ("junction_tree", "exact")])
def test_an_engine_that_stops_at_a_tolerance_has_a_bound_of_its_own(inference: str, guarantee: str) -> None:
    space = FactorGraph([Graph([2, 2], [(0, 1)])], inference=inference)
    features = MatrixFeatures([np.ones((1, space.n_parts(0)))])
    problem = Problem(space, features, [[0, 1]], "svm")
    assert problem.guarantee == guarantee and problem.bounded and problem.loose == (guarantee == "outer")
    if guarantee == "outer":  # hard factors hold only within the tolerance
        limited = FactorGraph([Graph([2, 2], [(0, 1)], [at_most_one([0, 1])])], inference=inference)
        problem = Problem(limited, features, [[0, 1]], "svm")
        assert problem.guarantee == "none" and not problem.bounded

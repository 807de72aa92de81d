"""What the settings of learners may be, and what a run leaves behind when a callback ends it."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from problems import Memory

from partwise.exceptions import InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.features.base import Features
from partwise.learners import EG, LBFGS, SGD, Extragradient, FrankWolfe, NSlack, OneSlack, Subgradient
from partwise.learners.base import LEARNERS
from partwise.problem import Problem
from partwise.structures import Assignment, Matching, Multiclass


def small(loss: str = "svm", scale: float = 1.0) -> Problem:
    rng = np.random.default_rng(0)
    matrices = [scale * rng.normal(size=(3, 3)) for _ in range(4)]
    return Problem(Multiclass(4, 3), MatrixFeatures(matrices), [0, 1, 2, 0], loss)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_no_learner_takes_an_infinite_weight(name: str) -> None:
    for C, words in ((math.inf, "finite"), (math.nan, "a positive number"), (-1.0, "a positive"), ("1", "a positive")):
        with pytest.raises(ParameterError, match=f"'C' parameter of {LEARNERS[name].__name__} must be {words}"):
            LEARNERS[name](C=C)  # type: ignore[arg-type]


def test_an_infinite_radius_is_no_ball() -> None:
    assert Extragradient(radius=np.float64("inf"))._free and Subgradient(radius=math.inf).radius == math.inf


def test_numbers_of_numpy_become_pythons() -> None:
    learner = NSlack(C=np.float32(0.1), max_passes=np.int64(50), tolerance=np.array(1e-3), random_state=np.int32(3))
    for setting in fields(learner):
        assert not isinstance(getattr(learner, setting.name), np.generic | np.ndarray)
    assert learner == NSlack(float(np.float32(0.1)), 50, 3, 1e-3)
    assert all(type(eta) is float for eta in SGD(candidates=tuple(np.array([0.1, 1.0]))).candidates)
    # the certificate is computed in double precision
    single, double = (NSlack(C=C).fit(small()).certificate for C in (np.float32(0.1), float(np.float32(0.1))))
    assert single == double


@pytest.mark.parametrize("learner", [NSlack(C=0.5), FrankWolfe(C=0.5), LBFGS(C=0.5)], ids=lambda x: type(x).__name__)
def test_a_callback_that_stops_the_last_pass_changes_nothing(learner: LBFGS) -> None:
    problem = small("crf" if isinstance(learner, LBFGS) else "svm")
    whole = learner.fit(problem)
    assert whole.status == "converged"
    memory, last = Memory(), len(whole.trace)
    first = learner.fit(problem, callbacks=[lambda record, theta: record.step == last], checkpoint=memory)
    resumed = learner.fit(problem, checkpoint=memory)
    for run in (first, resumed):
        assert run.status == "converged" and len(run.trace) == last
        np.testing.assert_array_equal(run.theta, whole.theta)
    early = learner.fit(problem, callbacks=[lambda record, theta: record.step == 1])
    assert early.status == "stopped" and len(early.trace) == 1


@pytest.mark.parametrize("learner", [EG(max_passes=50), FrankWolfe(cuts=0, max_passes=1), Subgradient(max_passes=3)])
def test_the_start_is_the_answer_where_nothing_better_was_found(learner: EG) -> None:
    """At features of this size every θ that these find is worse than θ = 0, and 0 is known."""
    problem = small("svm", 1e8)
    result = learner.fit(problem)
    assert result.best_step == 0 and not result.theta.any()
    if result.certificate is not None:
        np.testing.assert_allclose(result.certificate.primal, problem.losses(np.zeros(3)).mean())
        assert result.certificate.dual <= result.certificate.primal
    good = OneSlack(tolerance=1e-6).fit(small())
    near = type(learner)(max_passes=1).fit(small(), theta=good.theta)
    value = problem_objective(small(), near.theta)
    np.testing.assert_allclose(value, good.certificate.primal, rtol=1e-3)


def problem_objective(problem: Problem, theta: np.ndarray) -> float:
    return float(0.5 * theta @ theta + problem.losses(theta).sum()) / problem.m


def test_features_that_overflow_are_refused() -> None:
    with pytest.raises(InputError, match=r"matrix of instance 1 holds 2e\+200; features beyond 1e\+100 overflow"):
        MatrixFeatures([np.eye(2), -2e200 * np.eye(2)])


def test_a_map_of_ones_own_may_overflow_as_well() -> None:
    class Steep(MatrixFeatures):
        def scores(self, i: int, theta: np.ndarray) -> np.ndarray:
            return 1e150 * super().scores(i, theta)

        check_scale = Features.check_scale

    with pytest.raises(InputError, match=r"features of instance 0 add up to 1e\+150; beyond 1e\+100 they overflow"):
        Problem(Multiclass(2, 2), Steep([np.eye(2)] * 2), [0, 1], "svm")


def test_links_that_are_wrong_cost_something() -> None:
    for space in (Matching([(2, 2)]), Assignment([(2, 2)]), Assignment([(2, 2)]).relax()):
        features = MatrixFeatures([np.ones((1, space.n_parts(0)))])
        problem = Problem(space, features, [[(0, 0)]], "svm")
        p, q = problem.cost.parts(space, 0, space.encode(0, [(0, 0)])[:4])
        assert p @ space.encode(0, [(0, 0), (1, 1)])[:4] + q == 1.0
        assert p @ np.zeros(4) + q == 1.0
    labels = Problem(Multiclass(1, 2), MatrixFeatures([np.eye(2)]), [0], "svm")
    p, q = labels.cost.parts(labels.space, 0, np.array([1.0, 0.0]))
    assert p @ [0.0, 1.0] + q == 1.0

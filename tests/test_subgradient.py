"""The stochastic subgradient method: its steps written out, its averages, its projections, where it leads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from problems import Memory, Tiny, proximal_hinge, tiny

from partwise.exceptions import CapabilityError, ParameterError
from partwise.learners import FrankWolfe, Subgradient
from partwise.losses import Loss
from partwise.problem import Problem

Floats = NDArray[np.float64]
SVM = Loss.named("svm")


def written_out(case: Tiny, C: float, passes: int, radius: float | None, positive: NDArray[np.bool_] | None) -> Floats:
    """The averaged θ by dense vectors, with the same order of the instances."""
    m, dim = len(case.outputs), case.features.dim
    rng = np.random.default_rng(0)
    theta, total, weights, squares = np.zeros(dim), np.zeros(dim), 0.0, 0.0
    order = np.concatenate([rng.permutation(m) for _ in range(passes)])
    for t, i in enumerate(order, start=1):
        _, gradient = case.instance_loss(i, theta, SVM)
        if radius is None:
            decay = 1.0 / (C * m)
            theta = theta - (decay * theta + gradient) / (decay * t)
            weight = float(t)
        else:
            squares += gradient @ gradient
            theta = theta - (radius * np.sqrt(2 / squares) if squares > 0 else 0.0) * gradient
            weight = 1.0
        if positive is not None:
            theta = np.where(positive & (theta < 0), 0.0, theta)
        if radius is not None and np.linalg.norm(theta) > radius:
            theta = theta * radius / np.linalg.norm(theta)
        total, weights = total + weight * theta, weights + weight
    return total / weights


@pytest.mark.parametrize("radius", [None, 0.8])
@pytest.mark.parametrize("signs", [False, True])
def test_steps(radius: float | None, signs: bool) -> None:
    case, C = tiny(seed=3), 0.3
    positive = np.arange(case.features.dim) % 3 == 0 if signs else None
    problem = case.problem("svm", nonnegative=positive)
    learner = Subgradient(C=C, radius=radius, max_passes=4)
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(4):
        known = learner.advance(problem, state)
    expected = written_out(case, C, 4, radius, positive)
    np.testing.assert_allclose(learner.weights(state), expected, atol=1e-11)
    cost = 0.0 if radius is not None else 0.5 * expected @ expected / C
    assert known["objective"] == pytest.approx((cost + case.loss(expected, SVM)[0]) / 5)
    assert radius is None or np.linalg.norm(expected) <= radius + 1e-12


def test_leads_to_the_optimum() -> None:
    case, C = tiny(seed=3), 0.3
    problem = case.problem("svm")
    theta, value = proximal_hinge(case, range(5), np.zeros(problem.dim), C, 1.0)
    result = Subgradient(C=C, max_passes=400).fit(problem)
    assert value / 5 <= result.trace[-1].objective <= 1.002 * value / 5  # type: ignore[operator]
    assert result.certificate is None and result.status == "max_passes"
    radius = float(np.linalg.norm(theta))  # the ball in which θ of the regularised problem is the best
    best = (value - 0.5 * theta @ theta / C) / 5
    ball = Subgradient(radius=radius, max_passes=2000).fit(problem)
    objective = min(record.objective for record in ball.trace)  # type: ignore[type-var]
    assert best - 1e-9 <= objective <= 1.01 * best  # type: ignore[operator]


def test_signs_lead_where_frank_wolfe_leads() -> None:
    case = tiny(seed=3)
    positive = np.arange(case.features.dim) % 2 == 0
    problem = case.problem("svm", nonnegative=positive)
    certificate = FrankWolfe(C=0.5, tolerance=1e-4, max_passes=500).fit(problem).certificate
    result = Subgradient(C=0.5, max_passes=500).fit(problem)
    assert certificate is not None and (result.theta[positive] >= 0).all()
    assert certificate.dual - 1e-9 <= result.trace[-1].objective <= 1.003 * certificate.primal  # type: ignore[operator]


def test_the_best_pass_is_returned_and_a_resumed_run_is_the_same() -> None:
    problem = tiny(seed=3).problem("svm")
    learner = Subgradient(C=1.0, max_passes=9, average=False)
    whole, memory = learner.fit(problem), Memory()
    objectives = [record.objective for record in whole.trace]
    assert whole.best_step == 1 + int(np.argmin(objectives))  # type: ignore[arg-type]
    Subgradient(C=1.0, max_passes=4, average=False).fit(problem, checkpoint=memory)
    np.testing.assert_array_equal(learner.fit(problem, checkpoint=memory).theta, whole.theta)


def test_smooth_losses_and_plain_python() -> None:
    case = tiny(seed=3)
    learner = Subgradient(C=0.3, max_passes=3)
    for loss in ("crf", "svm"):
        fast, plain = learner.fit(case.problem(loss)), learner.fit(case.plain(loss))
        np.testing.assert_allclose(plain.theta, fast.theta, atol=1e-10)


def test_what_it_refuses() -> None:
    case = tiny(seed=1, lengths=(2, 1))
    with pytest.raises(ParameterError, match=r"'radius' .* positive"):
        Subgradient(radius=0.0)
    with pytest.raises(CapabilityError, match="Subgradient minimises convex losses, not ramp"):
        Subgradient().fit(case.problem("ramp"))
    with pytest.raises(CapabilityError, match="Subgradient needs a convex problem"):
        Subgradient().fit(Problem(case.space, case.features, case.space, "crf"))

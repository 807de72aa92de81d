"""MIRA with many cuts: Hildreth's method against a QP solver, and every step against the problem it solves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import Tiny, differences, iterates, proximal_hinge, solve_qp, tiny

from partwise.learners import DCA, LBFGS, ExactDCA, KBestMIRA
from partwise.learners._cut_weights import hildreth
from partwise.losses import Loss

Floats = NDArray[np.float64]
CASE = tiny(seed=1, lengths=(3, 2, 4, 1, 3))
ORDER = [0, 1, 2, 3, 4, 2, 0, 3, 4, 1]


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(
    seed=st.integers(0, 9999),
    count=st.integers(1, 8),
    rank=st.integers(1, 8),
    C=st.floats(-3, 3).map(lambda x: 10.0**x),
    warm=st.booleans(),
)
def test_hildreth_against_a_qp(seed: int, count: int, rank: int, C: float, warm: bool) -> None:
    """max α·c − C/2 αᵀGα over α ≥ 0, Σα ≤ 1: also where rows are dependent, repeated or zero, and from any start."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-2, 3, size=(count, rank)).astype(float)
    a[rng.random(count) < 0.2] = a[0]
    gram, offsets = a @ a.T, rng.normal(size=count)
    alpha = rng.dirichlet(np.ones(count + 1))[:count] if warm else np.zeros(count)
    wide = np.pad(gram, ((0, 2), (0, 2)), constant_values=np.nan)
    hildreth(wide, np.append(offsets, [np.nan] * 2), count, C, alpha, 1e-10)
    assert (alpha >= 0).all() and alpha.sum() <= 1 + 1e-12

    def dual(x: Floats) -> float:
        return float(x @ offsets - 0.5 * C * x @ gram @ x)

    bounds = np.vstack([-np.eye(count), np.ones(count)])
    best = solve_qp(C * gram, -offsets, bounds, np.append(np.zeros(count), 1.0))
    scale = 1.0 + C
    np.testing.assert_allclose(dual(alpha), dual(best), rtol=1e-6, atol=1e-7 * scale)
    np.testing.assert_allclose(alpha @ a, best @ a, atol=1e-3)
    # and by its optimality: no row is worth more than the least one in use, or than nothing
    worth = offsets - C * gram @ alpha
    if alpha.sum() < 1 - 1e-9:
        assert worth.max() <= 1e-8 * scale
    for k in np.flatnonzero(alpha > 1e-12):
        assert worth.max() - worth[k] <= 1e-8 * scale and worth[k] >= -1e-8 * scale


# --------------------------------------------------------------------------------------------------
# Steps


@pytest.mark.parametrize("C", [0.02, 0.3, 100.0])
def test_one_best_is_dca(C: float) -> None:
    one, other = (iterates(CASE.problem("svm"), learner, ORDER) for learner in (DCA(C=C), KBestMIRA(C=C, k=1)))
    np.testing.assert_allclose(one, other, atol=1e-8)
    settings = {"C": C, "max_passes": 3, "trace_objective": True}
    one_pass, other_pass = (kind.fit(CASE.problem("svm")) for kind in (DCA(**settings), KBestMIRA(**settings, k=1)))
    np.testing.assert_allclose(one_pass.theta, other_pass.theta, atol=1e-8)
    for left, right in zip(one_pass.trace, other_pass.trace, strict=True):
        np.testing.assert_allclose(left.objective, right.objective, rtol=1e-8)
        assert (left.dual is None) == (right.dual is None) == (left.step > 1)
        np.testing.assert_allclose(left.dual or 0.0, right.dual or 0.0, rtol=1e-8)


def cut_step(a: Floats, c: Floats, theta: Floats, C: float) -> Floats:
    """argmin 1/(2C) ‖x − θ‖² + max(0, max_k a_kᵀx + c_k) as a quadratic program."""
    dim = len(theta)
    rows = np.vstack([np.hstack([a, -np.ones((len(a), 1))]), np.append(np.zeros(dim), -1.0)])
    P = np.diag(np.append(np.full(dim, 1.0 / C), 0.0))
    return solve_qp(P, np.append(-theta / C, 1.0), rows, np.append(-c, 0.0))[:dim]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("C", [0.05, 5.0])
def test_k_best_step_is_the_qp_of_eq_17(k: int, C: float) -> None:
    """Over the k outputs of largest θᵀφ + ℓ, one step at a time, from weights that leave no ties."""
    theta = CASE.theta(np.random.default_rng(0), 0.5)
    for i, found in zip(ORDER, iterates(CASE.problem("svm"), KBestMIRA(C=C, k=k), ORDER, theta), strict=True):
        a, c = differences(CASE, i, 1.0)
        chosen = np.argsort(-(a @ theta + c))[:k]
        np.testing.assert_allclose(found, cut_step(a[chosen], c[chosen], theta, C), atol=1e-5)
        theta = found


def exact_hinge(case: Tiny, i: int, theta: Floats, C: float, loss: Loss) -> Floats:
    return proximal_hinge(case, [i], theta, C, loss.gamma)[0]


def exact_smooth(case: Tiny, i: int, theta: Floats, C: float, loss: Loss) -> Floats:
    def function(x: Floats) -> tuple[float, Floats]:
        value, gradient = case.instance_loss(i, x, loss)
        return 0.5 / C * (x - theta) @ (x - theta) + value, (x - theta) / C + gradient

    options = {"maxiter": 1000, "gtol": 1e-9, "ftol": 1e-15}
    return scipy.optimize.minimize(function, theta, jac=True, method="L-BFGS-B", options=options).x


EXACT: list[tuple[Loss, Callable[..., Floats]]] = [
    (Loss.named("svm"), exact_hinge),
    (Loss(math.inf, 3.0), exact_hinge),
    (Loss.named("crf"), exact_smooth),
    (Loss(2.0, 1.0), exact_smooth),
]


@pytest.mark.parametrize(("loss", "solve"), EXACT, ids=[str(loss) for loss, _ in EXACT])
@pytest.mark.parametrize("C", [0.05, 5.0])
def test_exact_step_is_the_optimum_of_eq_11(loss: Loss, solve: Callable[..., Floats], C: float) -> None:
    theta = CASE.theta(np.random.default_rng(0), 0.2)
    learner = ExactDCA(C=C, inner_tolerance=1e-9, max_cuts=200)
    for i, found in zip(ORDER[:6], iterates(CASE.problem(loss), learner, ORDER[:6], theta), strict=True):
        np.testing.assert_allclose(found, solve(CASE, i, theta, C, loss), atol=3e-4)
        values = [
            0.5 / C * (x - theta) @ (x - theta) + CASE.instance_loss(i, x, loss)[0]
            for x in (found, solve(CASE, i, theta, C, loss))
        ]
        np.testing.assert_allclose(values[0], values[1], rtol=1e-7, atol=1e-7)
        theta = found


def test_all_outputs_make_the_exact_step() -> None:
    everything = iterates(CASE.problem("svm"), KBestMIRA(C=0.5, k=100), ORDER)
    exact = iterates(CASE.problem("svm"), ExactDCA(C=0.5, inner_tolerance=1e-9), ORDER)
    np.testing.assert_allclose(everything, exact, atol=1e-4)


@pytest.mark.parametrize("loss", ["crf", "svm"])
def test_one_cut_is_dca(loss: str) -> None:
    one = iterates(CASE.problem(loss), DCA(C=0.3), ORDER)
    cut = iterates(CASE.problem(loss), ExactDCA(C=0.3, max_cuts=1), ORDER)
    np.testing.assert_allclose(one, cut, atol=1e-6)


@pytest.mark.parametrize("C", [0.05, 2.0])
def test_bounds_of_the_first_pass(C: float) -> None:
    """Each is a lower bound on the optimum; the better the step, the higher the first one of them."""
    svm = [DCA(C=C, max_passes=1), KBestMIRA(C=C, k=5, max_passes=1), ExactDCA(C=C, max_passes=1)]
    optimum = proximal_hinge(CASE, range(5), np.zeros(CASE.features.dim), C, 1.0)[1] / 5
    bounds = [learner.fit(CASE.problem("svm")).trace[0].dual for learner in svm]
    assert all(bound is not None and 0 < bound <= optimum + 1e-7 for bound in bounds)
    alone = tiny(seed=6, lengths=(4,))
    first = [learner.fit(alone.problem("svm")).trace[0].dual for learner in svm]
    assert first[0] <= first[1] + 1e-9 <= first[2] + 1e-6
    best = proximal_hinge(alone, [0], np.zeros(alone.features.dim), C, 1.0)[1]
    np.testing.assert_allclose(first[2], best, atol=1e-5)

    optimum = LBFGS(C=C, tolerance=1e-9).fit(CASE.problem("crf")).trace[-1].objective
    for learner in (DCA(C=C, max_passes=1), ExactDCA(C=C, max_passes=1)):
        bound = learner.fit(CASE.problem("crf")).trace[0].dual
        assert bound is not None and optimum is not None and 0 < bound <= optimum + 1e-7


def test_averages() -> None:
    """Both kernels keep the sum of the θ after every step."""
    for learner, loss in ((KBestMIRA(k=3), "svm"), (ExactDCA(), "crf")):
        steps = iterates(CASE.problem(loss), learner, [*range(5), *range(5)])
        settings = {**vars(learner), "shuffle": False, "max_passes": 2}
        averaged = type(learner)(**settings).fit(CASE.problem(loss))
        np.testing.assert_allclose(averaged.theta, np.mean(steps, axis=0), atol=1e-8)
        last = type(learner)(**{**settings, "average": False}).fit(CASE.problem(loss))
        np.testing.assert_allclose(last.theta, steps[-1], atol=1e-8)

"""The small quadratic programs behind cutting planes and Frank–Wolfe, at scales that stop exchanges of weight."""

from __future__ import annotations

import numpy as np
import pytest
from hard_scales import time_limit
from numpy.typing import NDArray

from partwise.features import MatrixFeatures
from partwise.learners import FrankWolfe, NSlack, OneSlack
from partwise.learners._cut_weights import active_set, best_step, hildreth, signed_ascent
from partwise.problem import Problem
from partwise.structures import Multiclass

Floats = NDArray[np.float64]


def cuts(seed: int) -> tuple[Floats, Floats, float]:
    """Up to 20 cuts, some of them twice, of features whose scales differ by up to 1e4."""
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(1, 20)), int(rng.integers(1, 7))
    images = rng.normal(size=(n, dim)) * 10.0 ** rng.uniform(-2, 2, size=dim)
    images[rng.integers(n)] = images[rng.integers(n)]
    return images, rng.normal(size=n) + 0.5, 10.0 ** float(rng.uniform(-4, 4))


@pytest.mark.parametrize("solver", [active_set, hildreth])
def test_the_gap_of_the_weights_closes(solver: object) -> None:
    for seed in range(200):
        images, offsets, C = cuts(seed)
        gram, alpha = images @ images.T, np.zeros(len(offsets))
        if seed % 2:
            alpha[:] = np.random.default_rng(seed).dirichlet(np.ones(len(alpha) + 1))[1:]
        solver(gram, offsets, len(offsets), C, alpha, 1e-9)  # type: ignore[operator]
        worth = offsets - C * gram @ alpha
        assert alpha.min() >= 0.0 and alpha.sum() <= 1.0 + 1e-15
        # w is a difference of numbers of the size of C·gram·α: no gap below their rounding
        assert max(worth.max(), 0.0) - alpha @ worth <= 1e-7 + 1e-14 * C * float(np.abs(gram).max()), seed


def test_weights_above_zero() -> None:
    """With θ = clip(−C Σ α g): the gap closes, raw belongs to the weights, and nothing gets worse."""
    for seed in range(200):
        images, constants, C = cuts(seed)
        rng = np.random.default_rng(seed)
        signed = rng.random(images.shape[1]) < 0.7
        others = rng.normal(size=len(signed))  # what other instances put into raw
        alpha, raw = np.zeros(len(constants)), others.copy()
        before = dual(alpha, constants, raw, signed, C)
        signed_ascent(images, constants, len(constants), C, signed, raw, alpha, 1e-9)
        assert alpha.min() >= 0.0 and alpha.sum() <= 1.0 + 1e-15
        size = 1.0 + C * float(np.abs(images).max())
        np.testing.assert_allclose(raw, others - C * alpha @ images, atol=1e-12 * size)
        theta = np.where(signed & (raw < 0), 0.0, raw)
        worth = constants + images @ theta
        assert dual(alpha, constants, raw, signed, C) >= before
        assert max(worth.max(), 0.0) - alpha @ worth <= 1e-7 + 1e-13 * float(np.abs(images).max()) * size, seed


def dual(alpha: Floats, constants: Floats, raw: Floats, signed: NDArray[np.bool_], C: float) -> float:
    theta = np.where(signed & (raw < 0), 0.0, raw)
    return float(alpha @ constants - 0.5 * theta @ theta / C)


def test_the_best_step_is_where_the_slope_is_zero() -> None:
    raw, direction, signed = np.array([1.0, -1.0]), np.array([-2.0, 4.0]), np.array([True, True])
    # slope = gain − Σ clip(raw + tδ)δ: −2·(1 − 2t) until ½, and 4(4t − 1) from ¼ on
    t = best_step(raw, direction, signed, 1.0, 1.0)
    np.testing.assert_allclose(t, (1.0 + 2.0 + 4.0) / 20.0)
    assert best_step(raw, direction, signed, 1.0, -5.0) == 0.0 and best_step(raw, direction, signed, 1.0, 99.0) == 1.0


@pytest.mark.parametrize("kind", [OneSlack, NSlack, FrankWolfe])
def test_unevenly_scaled_features_with_signs(kind: type[OneSlack]) -> None:
    """The fits of the audit that did not come back, or not near the optimum."""
    matrix = np.array([[1000.0, -1000.0, 6000.0], [0.1, -0.5, 0.4]])
    problem = Problem(Multiclass(1, 3), MatrixFeatures([matrix]), [0], "svm", nonnegative=np.ones(2, bool))
    with time_limit(30.0):
        result = kind(C=1.0, max_passes=50).fit(problem)
    assert result.status == "converged" and result.certificate is not None
    np.testing.assert_allclose(result.certificate.primal, 1.0, rtol=1e-3)
    converged = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        matrices = [np.array([[1e3], [0.1]]) * rng.normal(size=(2, 3)) for _ in range(2)]
        problem = Problem(Multiclass(2, 3), MatrixFeatures(matrices), [0, 1], "svm", nonnegative=np.ones(2, bool))
        with time_limit(30.0):
            converged += kind(C=1.0, max_passes=200).fit(problem).status == "converged"
    assert converged >= 11

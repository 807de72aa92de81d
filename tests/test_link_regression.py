"""Logistic regression of links: derivatives against differences, Newton's method against L-BFGS and its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.alignment import link_regression as module
from partwise.alignment.link_model import link_data
from partwise.alignment.link_regression import LinkRegression, Newton
from partwise.exceptions import CapabilityError, ParameterError
from partwise.learners import LBFGS
from partwise.losses import Loss
from partwise.objective import Objective

LOSS = Loss.named("crf")


def drawn(seed: int, m: int, dim: int, scale: float = 1.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=scale, size=(m, dim)) * (rng.random((m, dim)) < 0.7)
    return x, rng.random(m) < 0.3, rng.choice([0.0, 0.5, 1.0, 10.0], m)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 11), st.integers(1, 4), st.sampled_from([0.1, 1.0, 30.0]))
def test_derivatives(seed: int, m: int, dim: int, scale: float) -> None:
    data = LinkRegression(*drawn(seed, m, dim, scale), LOSS)
    theta = np.random.default_rng(seed + 1).normal(size=dim)
    value, gradient, second = data.sums(theta)
    margins = data.y * (data.x @ theta)
    np.testing.assert_allclose(data.losses(theta), data.weights * np.logaddexp(0.0, -margins), rtol=1e-12, atol=1e-300)
    assert value == pytest.approx(data.losses(theta).sum())
    p = 1.0 / (1.0 + np.exp(np.clip(-margins, None, 700)))
    np.testing.assert_allclose(gradient, data.x.T @ (-data.weights * (1 - p) * data.y), rtol=1e-9, atol=1e-12)
    expected = (data.x.T * (data.weights * p * (1 - p))) @ data.x
    np.testing.assert_allclose(second, expected, rtol=1e-7, atol=1e-12 * scale**2)
    plain, flat = data.loss_and_gradient(theta)
    assert plain == value and (flat == gradient).all() and (data.curvature(theta) == second).all()


def test_newton_finds_the_minimum_that_lbfgs_finds() -> None:
    given_data = drawn(3, 400, 6)
    for C in (0.01, 1.0, 100.0):
        learner = Newton(C=C, tolerance=1e-12)
        found = learner.fit(link_data(*given_data, learner, LOSS))
        other = LBFGS(C=C, tolerance=1e-10)
        reference = other.fit(link_data(*given_data, other, LOSS))
        np.testing.assert_allclose(found.theta, reference.theta, atol=2e-5 * max(1.0, np.abs(reference.theta).max()))
        assert found.status == "converged" and len(found.trace) < 20
        assert found.certificate is not None and reference.certificate is not None
        assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-8)
        for record in found.trace:  # bounds of the minimum, whatever the pass
            assert record.dual is not None and record.dual <= found.certificate.primal + 1e-12


def test_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 64)
    one, two = (Newton(C=1.0).fit(LinkRegression(*drawn(5, 500, 4), LOSS, n)) for n in (1, 2))
    assert (one.theta == two.theta).all()


def test_what_newton_needs() -> None:
    data = LinkRegression(*drawn(0, 5, 2), LOSS)
    assert isinstance(data, Objective)
    with pytest.raises(CapabilityError, match="curvature"):
        Newton().fit(link_data(*drawn(0, 5, 2), LBFGS(), LOSS))
    with pytest.raises(ParameterError, match="tolerance"):
        Newton(tolerance=-1.0)
    assert data.digest() != LinkRegression(*drawn(1, 5, 2), LOSS).digest()
    huge = LinkRegression(np.array([[1e3], [-1e3]]), np.array([True, False]), np.ones(2), LOSS)
    assert Newton(C=1e6).fit(huge).status == "converged"  # separable: margins far from 0

"""Kernelised extragradient: the linear kernel is the primal form, and other kernels do what no features could."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from problems import Tiny, tiny
from saddle import case_of

from partwise.exceptions import CapabilityError, InputError
from partwise.learners import EntropicExtragradient, Extragradient, KernelExtragradient
from partwise.structures import Multiclass

Floats = NDArray[np.float64]


def gram_of(case: Tiny) -> Any:
    return lambda i, j: case.matrices[i].T @ case.matrices[j]


@pytest.mark.parametrize("geometry", ["euclidean", "entropic"])
@pytest.mark.parametrize("settings", [{"C": 0.5}, {"radius": 1.0}, {"radius": math.inf}], ids=str)
def test_the_linear_kernel_is_the_primal_form(geometry: str, settings: dict[str, Any]) -> None:
    case = case_of("multiclass")
    common = {"geometry": geometry, "step": 0.15, "balance": 1.0, "max_passes": 40, "tolerance": 0.0, **settings}
    primal = Extragradient(**common).fit(case.problem("svm"))
    labels = [y[0] for y in case.outputs]
    kernel = KernelExtragradient(**common).fit_kernel(case.space, gram_of(case), labels)
    theta = np.hstack(case.matrices) @ kernel.alpha
    np.testing.assert_allclose(theta, primal.theta, rtol=0, atol=1e-9)
    for one, other in zip(kernel.result.trace, primal.trace, strict=True):
        assert one.objective == pytest.approx(other.objective, abs=1e-9)
        if other.dual is not None:
            assert one.dual == pytest.approx(other.dual, abs=1e-9)
        np.testing.assert_allclose(one.extra["norm"], other.extra["norm"], atol=1e-9)
    for i, scores in enumerate(kernel.scores(case.space, gram_of(case))):
        np.testing.assert_allclose(scores, case.matrices[i].T @ primal.theta, atol=1e-9)


def test_a_kernel_separates_what_a_line_cannot() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(60, 2))
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)  # exclusive or

    def between(i: int, j: int) -> Floats:
        return math.exp(-float(((points[i] - points[j]) ** 2).sum())) * np.eye(2)

    train, test = Multiclass(40, 2), Multiclass(20, 2)
    found = KernelExtragradient(C=5.0, max_passes=150).fit_kernel(train, between, labels[:40].tolist())
    guesses = found.predict(test, lambda i, j: between(i, 40 + j))
    assert np.mean(np.array(guesses) == labels[40:]) >= 0.8


def test_a_chain_with_a_kernel() -> None:
    case = tiny(3, lengths=(2, 3, 2), every=True)
    common: dict[str, Any] = {"step": 0.1, "balance": 1.0, "max_passes": 15, "tolerance": 0.0, "C": 0.3}
    primal = EntropicExtragradient(**common).fit(case.problem("svm"))
    learner = KernelExtragradient(geometry="entropic", **common)
    found = learner.fit_kernel(case.space, gram_of(case), case.outputs)
    np.testing.assert_allclose(np.hstack(case.matrices) @ found.alpha, primal.theta, atol=1e-9)
    for guess, other in zip(
        found.predict(case.space, gram_of(case)), case.problem("svm").predict(primal.theta), strict=True
    ):
        np.testing.assert_array_equal(guess, other)


def test_kernels_that_are_none() -> None:
    space, learner = Multiclass(2, 2), KernelExtragradient(max_passes=1)
    with pytest.raises(InputError, match=r"kernel\(0, 0\) has shape \(3, 3\); expected \(2, 2\)"):
        learner.fit_kernel(space, lambda i, j: np.eye(3), [0, 1])
    with pytest.raises(InputError, match=r"kernel\(0, 0\) holds NaN or infinity"):
        learner.fit_kernel(space, lambda i, j: np.full((2, 2), np.nan), [0, 1])
    with pytest.raises(InputError, match="the kernel is not symmetric"):
        learner.fit_kernel(space, lambda i, j: np.eye(2) * (1 + i), [0, 1])
    with pytest.raises(CapabilityError, match="norm='l1' needs features"):
        KernelExtragradient(norm="l1", radius=1.0)
    with pytest.raises(CapabilityError, match="call fit_kernel, not fit"):
        learner.fit(case_of("multiclass").problem("svm"))

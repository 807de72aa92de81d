"""Weights of instances: a weight of 2 is the instance twice, for losses, gradients and every learner that can."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from partwise.exceptions import CapabilityError, InputError
from partwise.features import MatrixFeatures
from partwise.learners.base import LEARNERS, objective
from partwise.losses import LOSSES
from partwise.problem import Problem
from partwise.structures.multiclass import Multiclass

RNG = np.random.default_rng(3)
M, L, D = 7, 3, 4
MATRICES = [RNG.normal(size=(D, L)) for _ in range(M)]
LABELS = RNG.integers(L, size=M).tolist()
WEIGHTS = np.array([1, 2, 0, 1, 3, 1, 1])
REPEATED = np.repeat(np.arange(M), WEIGHTS)


def problem(which: Any, loss: str, weights: Any = None) -> Problem:
    chosen = [MATRICES[i] for i in which]
    return Problem(
        Multiclass(len(chosen), L), MatrixFeatures(chosen), [LABELS[i] for i in which], loss, weights=weights
    )


def both(loss: str) -> tuple[Problem, Problem]:
    return problem(range(M), loss, WEIGHTS), problem(REPEATED, loss)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_loss_and_gradient_are_those_of_the_repeated_instances(loss: str) -> None:
    weighted, repeated = both(loss)
    theta = RNG.normal(size=D)
    (value, gradient), (other, other_gradient) = (p.loss_and_gradient(theta) for p in (weighted, repeated))
    assert value == pytest.approx(other, rel=1e-12)
    np.testing.assert_allclose(gradient, other_gradient, rtol=1e-10, atol=1e-12)
    if weighted.loss.smooth:
        numeric = [
            (weighted.losses(theta + h).sum() - weighted.losses(theta - h).sum()) / 2e-6 for h in np.eye(D) * 1e-6
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name, kind in LEARNERS.items() if kind.weighs])
def test_a_weight_of_two_is_the_instance_twice(name: str) -> None:
    kind = LEARNERS[name]
    loss = kind.own_loss or ("svm" if kind().obstacle(Multiclass(1, 2), LOSSES["svm"]) is None else "crf")
    weighted, repeated = both(loss)
    batch = kind.certified or name == "lbfgs"
    learner = kind(
        C=0.7,
        max_passes=400 if batch else 3,
        **({"tolerance": 1e-6} if kind.certified and name != "subgradient" else {}),
    )
    found, other = learner.fit(weighted), learner.fit(repeated)
    if not batch:  # the order of visits differs, and the weights must be felt all the same
        assert not np.allclose(found.theta, learner.fit(problem(range(M), loss)).theta)
        if found.trace[0].dual is not None:  # of the first pass: a lower bound on the weighted objective
            best = LEARNERS["n_slack"](C=0.7).fit(problem(REPEATED, "svm")).certificate
            assert best is not None and found.trace[0].dual * M <= best.primal * len(REPEATED) + 1e-9
        return
    one, two = objective(weighted, found.theta, 0.7) * M, objective(repeated, other.theta, 0.7) * len(REPEATED)
    assert one == pytest.approx(two, rel=1e-3 if name != "subgradient" else 0.05)
    if found.certificate is not None and found.certificate.dual > -np.inf:
        assert found.certificate.primal * M == pytest.approx(one, rel=1e-9)
        assert found.certificate.dual * M <= two + 1e-9
        assert name == "subgradient" or found.certificate.relative_gap <= 1e-3


def test_sdca_certifies_the_weighted_problem() -> None:
    weighted, repeated = both("crf")
    result = LEARNERS["sdca"](C=0.7, tolerance=1e-8, max_passes=300).fit(weighted)
    best = LEARNERS["lbfgs"](C=0.7).fit(repeated)
    assert result.certificate is not None and result.certificate.relative_gap <= 1e-7
    assert result.certificate.primal * M == pytest.approx(
        objective(repeated, best.theta, 0.7) * len(REPEATED), rel=1e-6
    )


@pytest.mark.parametrize("name", [name for name, kind in LEARNERS.items() if not kind.weighs])
def test_a_learner_that_cannot_refuses(name: str) -> None:
    with pytest.raises(CapabilityError, match=r"cannot weight instances\. Learners that can: .*n_slack"):
        LEARNERS[name]().fit(problem(range(M), "svm", WEIGHTS))


def test_reweighted_leaves_the_first_alone() -> None:
    plain = problem(range(M), "svm")
    theta = RNG.normal(size=D)
    before = plain.losses(theta)
    weighted = plain.reweighted(WEIGHTS)
    np.testing.assert_allclose(weighted.losses(theta), WEIGHTS * before)
    np.testing.assert_array_equal(plain.losses(theta), before)
    np.testing.assert_array_equal(copy.deepcopy(weighted).losses(theta), weighted.losses(theta))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0], "one number per instance"),
        ([-1.0] * M, "instance 0 is -1"),
        ([np.nan] * M, "is nan"),
        ([0] * M, "every"),
    ],
)
def test_bad_weights(weights: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        problem(range(M), "svm", weights)

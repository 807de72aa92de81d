"""Bad settings of the saddle-point learners, what they cannot train, and the L1 ball."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracles
import pytest
from saddle import case_of

from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.learners import EntropicExtragradient, Extragradient, Learner, ProjectedGradient, find_learner
from partwise.learners._saddle_players import L1Ball
from partwise.problem import Problem


@pytest.mark.parametrize("kind", [Extragradient, EntropicExtragradient, ProjectedGradient])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": 0.0}, r"'C' parameter of .* must be a positive number\. Got 0\.0"),
        ({"C": math.nan}, "'C' parameter"),
        ({"radius": 0.0}, r"'radius' parameter of .* must be a positive number\. Got 0\.0"),
        ({"radius": -1.0}, "'radius' parameter"),
        ({"radius": math.nan}, "'radius' parameter"),
        ({"balance": 0.0}, "'balance' parameter"),
        ({"norm": "l3"}, r"'norm' parameter of .* must be 'l1' or 'l2'\. Got 'l3'"),
        ({"norm": "l1"}, r"'radius' parameter of .* must be a positive number if norm is 'l1'\. Got None"),
        ({"norm": "l1", "radius": math.inf}, "'radius' parameter"),
        ({"tolerance": -1.0}, "'tolerance' parameter"),
    ],
)
def test_bad_settings(kind: type[Learner], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        kind(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"geometry": "round"}, r"'geometry' .* must be 'euclidean' or 'entropic'\. Got 'round'"),
        ({"step": "long"}, r"'step' .* must be 'adaptive', 'fixed' or a positive number\. Got 'long'"),
        ({"step": 0.0}, "'step' parameter"),
        ({"average": "none"}, r"'average' .* must be 'late' or 'all'\. Got 'none'"),
    ],
)
def test_bad_settings_of_extragradient(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Extragradient(**settings)


def test_bad_steps_of_projected_gradient() -> None:
    with pytest.raises(ParameterError, match="'eta' parameter of ProjectedGradient must be a positive number"):
        ProjectedGradient(eta=0.0)
    assert ProjectedGradient(eta=0.01, max_passes=2).fit(case_of("multiclass").problem("svm")).trace[1].extra[
        "step"
    ] == pytest.approx(0.01 / math.sqrt(2))


def test_what_does_not_fit_is_said_before_training() -> None:
    with pytest.raises(CapabilityError, match=r"Chain has no oracle 'project', which Extragradient needs\. .*entropic"):
        Extragradient().fit(case_of("chain").problem("svm"))
    with pytest.raises(CapabilityError, match="minimises convex losses with β = ∞ that rescale the margin, not crf"):
        EntropicExtragradient().fit(case_of("chain").problem("crf"))
    with pytest.raises(CapabilityError, match="that rescale the margin, not slack_svm"):
        Extragradient().fit(case_of("multiclass").problem("slack_svm"))
    with pytest.raises(CapabilityError, match="partly known gold outputs"):
        case = case_of("chain")
        EntropicExtragradient().fit(Problem(case.space, case.features, case.space, "perceptron"))
    with pytest.raises(InputError, match="with norm='l1' training starts at θ = 0"):
        problem = case_of("multiclass").problem("svm")
        Extragradient(norm="l1", radius=1.0).fit(problem, theta=np.ones(problem.dim))
    assert find_learner("extragradient")().needs == {"project"}
    assert find_learner("entropic_extragradient")().needs == {"marginals"}


def test_the_l1_ball() -> None:
    rng = np.random.default_rng(0)
    corners = np.vstack([2.0 * np.eye(3), -2.0 * np.eye(3)])
    for _ in range(20):
        v = rng.normal(size=3) * rng.choice([0.3, 3.0])
        ball = L1Ball(radius=2.0)
        np.testing.assert_allclose(ball.project(v), oracles.nearest_in_hull(corners, v), atol=1e-7)
        assert ball.bound(v) == pytest.approx((-corners @ v).min()) == pytest.approx(-ball.best(v) @ v)
        signs = L1Ball(radius=2.0, nonnegative=np.array([True, False, False]))
        inside = np.vstack([corners[[0, 1, 2, 4, 5]], np.zeros(3)])
        np.testing.assert_allclose(signs.project(v), oracles.nearest_in_hull(inside, v), atol=1e-7)
        assert signs.bound(v) == pytest.approx((-inside @ v).min()) == pytest.approx(-signs.best(v) @ v)

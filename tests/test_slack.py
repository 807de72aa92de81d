"""Slack rescaling: the loss against enumeration, what it bounds, which learners train it, and what cannot be done."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import Enumeration, Interval
from problems import Enumerated, Tiny, best_output, hamming, slopes, tiny, tiny_multiclass

from partwise.costs import Cost, Hamming, LabelCost
from partwise.estimation.base import params_from_json, params_to_json
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import DCA, SGD, ExactDCA, KBestMIRA, Learner, OneSlack
from partwise.learners.base import objective
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Chain

Floats = NDArray[np.float64]
INF = math.inf
SLACK = Loss.named("slack_svm")
PRICES = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 4.0], [7.0, 1.0, 0.0]])
CHAINS = [
    tiny(seed=1),
    tiny(seed=2, lengths=(1, 4, 2), order=2),
    tiny(seed=3, lengths=(4, 3), transitions=[[1, 1, 0], [1, 1, 1], [0, 1, 1]], start=[1, 1, 0]),
]


def label_costs(instance: Enumeration, y: tuple[int, ...]) -> Floats:
    return np.array([sum(PRICES[a, b] for a, b in zip(y, other, strict=True)) for other in instance.outputs])


COSTS: dict[str, tuple[Cost, Callable[[Enumeration, tuple[int, ...]], Floats]]] = {
    "hamming": (Hamming(), hamming),
    "wrong and missed": (Hamming(1.0, 2.0), lambda instance, y: hamming(instance, y, 3.0)),
    "labels": (LabelCost(PRICES), label_costs),
}


def reference(case: Tiny, theta: Floats, gamma: float, costs: Callable[..., Floats]) -> tuple[float, Floats]:
    """Σ_i max_y γℓ(1 + s·(z' − z)) output by output, and its gradient."""
    total, gradient = 0.0, np.zeros(len(theta))
    for matrix, instance, y in zip(case.matrices, case.instances, case.outputs, strict=True):
        gold, price = instance.parts[instance.outputs.index(tuple(y))], gamma * costs(instance, y)
        values = price * (1.0 + (instance.parts - gold) @ (matrix.T @ theta))
        best = best_output(instance, values)
        total, gradient = total + values[best], gradient + price[best] * matrix @ (instance.parts[best] - gold)
    return total, gradient


# --------------------------------------------------------------------------------------------------
# The loss


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("gamma", [1.0, 0.3])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_value_and_gradient_by_enumeration(cost: str, gamma: float, scale: float) -> None:
    loss = Loss(INF, gamma, slack=True)
    for seed, case in enumerate(CHAINS):
        theta = case.theta(np.random.default_rng(seed), scale)
        expected, slope = reference(case, theta, gamma, COSTS[cost][1])
        for problem in (case.problem(loss, cost=COSTS[cost][0]), case.plain(loss, cost=COSTS[cost][0])):
            value, gradient = problem.loss_and_gradient(theta)
            np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-9)
            np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_single_variables_take_any_cost() -> None:
    case = tiny_multiclass()
    prices = np.random.default_rng(0).uniform(0.1, 3.0, size=(4, 4))
    np.fill_diagonal(prices, 0.0)
    theta = case.theta(np.random.default_rng(1))
    problem = case.problem(SLACK, cost=LabelCost(prices))
    expected, slope = reference(
        case, theta, 1.0, lambda instance, y: np.array([prices[y[0], b] for (b,) in instance.outputs])
    )
    value, gradient = problem.loss_and_gradient(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-12)


def test_gradient_by_finite_differences() -> None:
    case = CHAINS[0]
    problem, theta = case.problem(SLACK), case.theta(np.random.default_rng(5))
    found = slopes(lambda x: problem.loss_and_gradient(x)[0], theta)
    np.testing.assert_allclose(problem.loss_and_gradient(theta)[1][case.weights], found[case.weights], atol=2e-5)


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 9999), scale=st.floats(-2, 2).map(lambda x: 10.0**x))
def test_it_bounds_the_cost_and_is_convex(seed: int, scale: float) -> None:
    """L_i ≥ ℓ(ŷ_i, y_i) of the prediction, as every other output it beats would; and L lies above its cuts."""
    case = CHAINS[seed % 3]
    rng = np.random.default_rng(seed)
    theta, other = case.theta(rng, scale), case.theta(rng, scale)
    problem = case.problem(SLACK)
    losses = problem.losses(theta)
    for i, (instance, y, predicted) in enumerate(
        zip(case.instances, case.outputs, problem.predict(theta), strict=True)
    ):
        assert losses[i] >= hamming(instance, y)[instance.outputs.index(tuple(predicted))] - 1e-9 * max(1.0, scale)
    value, gradient = problem.loss_and_gradient(theta)
    assert problem.losses(other).sum() >= value + gradient @ (other - theta) - 1e-8 * max(1.0, scale)


def test_long_chain_against_every_level() -> None:
    """T = 60: for each number of errors e the best score with exactly e of them, by a plain recursion."""
    rng = np.random.default_rng(0)
    length, n_labels = 60, 4
    chain = Chain([length], n_labels)
    gold = rng.integers(n_labels, size=length)
    scores = rng.normal(size=chain.n_parts(0))
    labels, pairs = scores[: length * n_labels].reshape(length, n_labels), scores[length * n_labels :].reshape(4, 4)
    best = np.full((length + 1, n_labels), -np.inf)
    wrong = (np.arange(n_labels) != gold[:, None]).astype(int)
    best[wrong[0], np.arange(n_labels)] = labels[0]
    for t in range(1, length):
        new = np.full_like(best, -np.inf)
        for b in range(n_labels):
            shifted = np.roll(best, wrong[t, b], axis=0)
            shifted[: wrong[t, b]] = -np.inf
            new[:, b] = labels[t, b] + (shifted + pairs[:, b]).max(axis=1)
        best = new
    z = chain.encode(0, gold)
    expected = (np.arange(length + 1) * (1.0 - scores @ z + best.max(axis=1))).max()
    p, q = Hamming().parts(chain, 0, z[: length * n_labels])
    costs = np.append(p, np.zeros(16))
    found = chain.slack(0, scores, costs, q, 1.0 - scores @ z)
    np.testing.assert_allclose((costs @ found + q) * (1.0 + scores @ (found - z)), expected, rtol=1e-10)


# --------------------------------------------------------------------------------------------------
# Learners


@pytest.mark.parametrize("learner", [DCA(C=0.3), SGD(C=0.3, eta=0.05), ExactDCA(C=0.3)], ids=lambda x: type(x).__name__)
def test_learners_that_take_any_convex_loss(learner: Learner) -> None:
    problem = CHAINS[0].plain(SLACK)
    best = OneSlack(C=0.3, tolerance=1e-5).fit(problem).certificate
    result = learner.fit(problem)
    start = objective(problem, np.zeros(problem.dim), 0.3)
    found = objective(problem, result.theta, 0.3)
    assert best is not None and best.dual <= found + 1e-9
    assert found - best.primal < 0.7 * (start - best.primal)
    if result.trace[0].dual is not None:
        assert 0 < result.trace[0].dual <= best.primal


def test_where_it_cannot_be_used() -> None:
    chains = CHAINS[0]
    for learner in (KBestMIRA(), DCA(variant="prediction")):
        with pytest.raises(CapabilityError, match=r"not slack_svm\. Learners that can: (?=.*\bdca)(?=.*\bone_slack)"):
            learner.fit(chains.problem(SLACK))
    problem = Problem(Interval([3]), MatrixFeatures([np.eye(3)]), [(0, 1)], SLACK)
    words = (
        r"Interval has no oracle 'slack', which the slack_svm loss needs\. No learner can; with loss 'svm': .*n_slack"
    )
    with pytest.raises(CapabilityError, match=words):
        OneSlack().fit(problem)
    with pytest.raises(CapabilityError, match=r"Interval has no slack \(its oracles: argmax\)"):
        Interval([3]).slack(0, np.zeros(3), np.zeros(3))


def test_costs_of_a_chain_are_integers() -> None:
    words = r"part 3 of instance 1 costs 0\.5; slack rescaling on a Chain adds up integer costs: multiply them"
    with pytest.raises(InputError, match=words):
        Chain([1, 2], 2).slack(1, np.zeros(8), np.array([0, 1, 0, 0.5, 0, 0, 0, 0]))
    case = CHAINS[0]
    with pytest.raises(InputError, match=r"of instance 0 costs -0\.5; slack rescaling"):
        case.problem(SLACK, cost=Hamming(0.0, 0.5))
    theta = case.theta(np.random.default_rng(0))
    # what the message advises: the same loss
    value = case.problem(Loss(INF, 0.5, slack=True)).losses(theta).sum()
    np.testing.assert_allclose(value, reference(case, theta, 1.0, lambda *a: hamming(*a, 0.5))[0], rtol=1e-12)
    case.problem("svm", cost=Hamming(0.0, 0.5))  # no such limit for the margin


@pytest.mark.parametrize(("beta", "gamma", "difference"), [(1.0, 1.0, False), (INF, 0.0, False), (INF, 1.0, True)])
def test_settings_that_make_no_loss(beta: float, gamma: float, difference: bool) -> None:
    with pytest.raises(ParameterError, match="'slack' parameter of Loss must be False unless β = ∞, γ > 0"):
        Loss(beta, gamma, difference, slack=True)


def test_an_oracle_that_errs_is_named() -> None:
    class Wrong(Enumerated):
        answer: Any = None

        def slack(self, i: int, scores: Floats, costs: Floats, constant: float = 0.0, offset: float = 1.0) -> Floats:
            return super().slack(i, scores, costs, constant, offset) if i < 2 else type(self).answer

        def allows(self, i: int, parts: Floats) -> bool:
            return bool((self.instances[i].parts == parts).all(axis=1).any())

    case = CHAINS[0]
    space = Wrong(case.instances, [case.space.n_atoms(i) for i in range(5)])
    problem = case.plain(SLACK, space)
    n = case.space.n_parts(2)
    for answer, words in (
        (np.zeros(3), rf"Wrong\.slack returned shape \(3,\) for instance 2; expected \({n},\)"),
        (np.full(n, np.nan), r"Wrong\.slack returned NaN or infinity for instance 2"),
        (np.zeros(n), r"Wrong\.slack left the output space of instance 2: the output is outside the space"),
    ):
        Wrong.answer = answer
        with pytest.raises(InputError, match=words):
            OneSlack().fit(problem)


def test_it_is_stored() -> None:
    for loss in (SLACK, Loss(INF, 2.0, slack=True), Loss.named("ramp")):
        assert params_from_json(params_to_json({"loss": loss}))["loss"] == loss
    assert params_from_json({"loss": {"loss": [1.0, 0.0, False]}})["loss"] == Loss.named("crf")  # an older file

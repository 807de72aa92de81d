"""The loss family against enumeration: values (eq. 8), gradients (eq. 9), its limits, bounds and symmetries."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import Enumeration
from problems import Enumerated, Tiny, hamming, reference_loss, slopes, tiny, tiny_multiclass

from partwise.costs import Cost, Hamming, LabelCost
from partwise.exceptions import ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import LBFGS
from partwise.learners.base import objective
from partwise.losses import LOSSES, Loss
from partwise.problem import Problem
from partwise.structures import Chain, Multiclass

Floats = NDArray[np.float64]
PROPERTY = settings(max_examples=40, derandomize=True, database=None, deadline=None)
INF = math.inf

POINTS = [
    (1e-3, 0.0), (1e-3, 2.0), (0.5, 1.0), (1.0, 0.0), (1.0, 1.0), (1.0, 3.0),
    (3.0, 0.5), (50.0, 0.0), (50.0, 1.0), (INF, 0.0), (INF, 1.0), (INF, 2.5),
]  # fmt: skip

PRICES = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 0.5], [7.0, 1.0, 0.0]])


def label_costs(instance: Enumeration, y: tuple[int, ...]) -> Floats:
    return np.array([sum(PRICES[a, b] for a, b in zip(y, other, strict=True)) for other in instance.outputs])


COSTS: dict[str, tuple[Cost, Callable[[Enumeration, tuple[int, ...]], Floats]]] = {
    "hamming": (Hamming(), hamming),
    "missed": (Hamming(0.0, 2.0), lambda instance, y: hamming(instance, y, 2.0)),
    "wrong and missed": (Hamming(0.75, 2.0), lambda instance, y: hamming(instance, y, 2.75)),
    "labels": (LabelCost(PRICES), label_costs),
}

# orders, lengths and constraints are numbers in one pack: these three share their compiled code
CHAINS = [
    tiny(seed=1),
    tiny(seed=2, lengths=(1, 4, 2), order=2),
    tiny(seed=3, lengths=(4, 3), transitions=[[1, 1, 0], [1, 1, 1], [0, 1, 1]], start=[1, 1, 0]),
]


def reference(case: Tiny, theta: Floats, loss: Loss, costs: Callable[..., Floats] = hamming) -> tuple[float, Floats]:
    """Σ_i L_i and its gradient by enumeration; of both terms where the loss is a difference."""
    total, gradient = 0.0, np.zeros(len(theta))
    for matrix, instance, y in zip(case.matrices, case.instances, case.outputs, strict=True):
        args = (instance, y, matrix.T @ theta)
        value, parts = reference_loss(*args, loss, costs(instance, y))
        if loss.difference:
            other, less = reference_loss(*args, Loss(loss.beta, 0.0), costs(instance, y))
            value, parts = value - other, parts - less
        total, gradient = total + value, gradient + matrix @ parts
    return total, gradient


# --------------------------------------------------------------------------------------------------
# Values and gradients


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize(("beta", "gamma"), POINTS)
def test_value_and_gradient_by_enumeration(beta: float, gamma: float, cost: str) -> None:
    loss = Loss(beta, gamma)
    for seed, case in enumerate(CHAINS):
        theta = case.theta(np.random.default_rng(seed))
        value, gradient = case.problem(loss, cost=COSTS[cost][0]).loss_and_gradient(theta)
        expected, slope = reference(case, theta, loss, COSTS[cost][1])
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


@PROPERTY
@given(
    beta=st.one_of(st.just(INF), st.floats(-3, 3).map(lambda x: 10.0**x)),
    gamma=st.floats(0, 5),
    scale=st.floats(-2, 2).map(lambda x: 10.0**x),
    seed=st.integers(0, 9999),
)
def test_any_point_of_the_family(beta: float, gamma: float, scale: float, seed: int) -> None:
    """Also for weights from 1/100 to 100; never negative, because y itself is one of the outputs."""
    case, loss = CHAINS[seed % 3], Loss(beta, gamma)
    theta = case.theta(np.random.default_rng(seed), scale)
    value, gradient = case.problem(loss).loss_and_gradient(theta)
    expected, slope = reference(case, theta, loss)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9 * max(1.0, scale))
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)
    assert value >= -1e-9 * max(1.0, scale)


@pytest.mark.parametrize(("beta", "gamma"), POINTS)
def test_gradient_by_finite_differences(beta: float, gamma: float) -> None:
    """Also of the hinge and of the perceptron, which have a gradient almost everywhere."""
    problem = CHAINS[0].problem(Loss(beta, gamma))
    theta = CHAINS[0].theta(np.random.default_rng(5))
    found = slopes(lambda x: problem.loss_and_gradient(x)[0], theta)
    existing = CHAINS[0].weights
    np.testing.assert_allclose(problem.loss_and_gradient(theta)[1][existing], found[existing], atol=2e-5)


# --------------------------------------------------------------------------------------------------
# Differences: footnote 1


@pytest.mark.parametrize("name", ["risk", "ramp"])
def test_differences_by_enumeration(name: str) -> None:
    """In plain Python on chains, compiled on single variables."""
    rng = np.random.default_rng(0)
    loss = Loss.named(name)
    single = tiny_multiclass()
    pairs = [(case.plain(loss), case) for case in CHAINS] + [(single.problem(loss), single)]
    assert [p.compiled for p, _ in pairs] == [False] * 3 + [True]
    for p, case in pairs:
        theta = rng.normal(size=p.dim)
        value, gradient = p.loss_and_gradient(theta)
        expected, slope = reference(case, theta, loss)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(slopes(lambda x, p=p: p.loss_and_gradient(x)[0], theta), gradient, atol=2e-5)


@PROPERTY
@given(seed=st.integers(0, 9999), gamma=st.floats(0, 3), scale=st.floats(0, 5))
def test_differences_bound_the_cost(seed: int, gamma: float, scale: float) -> None:
    """β = 1: δL = log E exp γℓ ≥ γ E ℓ. β = ∞: the ramp is ≥ γ ℓ(ŷ, y), the cost of the prediction itself."""
    case = CHAINS[seed % 3]
    theta = case.theta(np.random.default_rng(seed), scale)
    soft = case.plain(Loss(1.0, gamma, difference=True)).losses(theta)
    ramp = case.plain(Loss(INF, gamma, difference=True)).losses(theta)
    for i, (matrix, instance, y) in enumerate(zip(case.matrices, case.instances, case.outputs, strict=True)):
        p, cost = instance.probabilities(matrix.T @ theta), hamming(instance, y)
        np.testing.assert_allclose(soft[i], math.log(p @ np.exp(gamma * cost)), rtol=1e-9, atol=1e-9)
        assert soft[i] >= gamma * p @ cost - 1e-9
        predicted = instance.outputs.index(tuple(case.plain("svm").predict(theta)[i]))
        assert ramp[i] >= gamma * cost[predicted] - 1e-9


# --------------------------------------------------------------------------------------------------
# Symmetries and limits


@PROPERTY
@given(
    seed=st.integers(0, 9999),
    a=st.floats(-1, 1).map(lambda x: 10.0**x),
    beta=st.one_of(st.just(INF), st.floats(-1, 1).map(lambda x: 10.0**x)),
    gamma=st.floats(0, 3),
    C=st.floats(-2, 2).map(lambda x: 10.0**x),
)
def test_scaling_identity(seed: int, a: float, beta: float, gamma: float, C: float) -> None:
    """Footnote 18: L(β/a, aγ)(aθ) = a L(β, γ)(θ), so λ' = λ/a, that is C' = aC, multiplies all of eq. (2) by a."""
    case = CHAINS[seed % 3]
    theta = case.theta(np.random.default_rng(seed))
    plain, scaled = case.problem(Loss(beta, gamma)), case.problem(Loss(beta / a, a * gamma))
    expected = a * objective(plain, theta, C)
    np.testing.assert_allclose(objective(scaled, a * theta, a * C), expected, rtol=1e-9)
    np.testing.assert_allclose(plain.loss_and_gradient(theta)[1], scaled.loss_and_gradient(a * theta)[1], atol=1e-8)


def test_scaled_problems_have_scaled_solutions() -> None:
    case, a = CHAINS[0], 2.5
    plain = LBFGS(C=0.5, tolerance=1e-9).fit(case.problem(Loss(1.0, 1.0)))
    scaled = LBFGS(C=0.5 * a, tolerance=1e-9).fit(case.problem(Loss(1.0 / a, a)))
    assert plain.theta.any()
    np.testing.assert_allclose(scaled.theta, a * plain.theta, atol=1e-5)
    np.testing.assert_allclose(scaled.trace[-1].objective, a * plain.trace[-1].objective, rtol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_limit_is_the_maximum(gamma: float) -> None:
    """0 ≤ L(β,γ) − L(∞,γ) ≤ log |Y| / β, and the gradient becomes that of the one maximiser."""
    for case in CHAINS:
        theta = case.theta(np.random.default_rng(1))
        hard = case.problem(Loss(INF, gamma))
        sizes = np.log([len(instance.outputs) for instance in case.instances])
        for beta in (0.1, 1.0, 10.0, 1e3, 1e5):
            excess = case.problem(Loss(beta, gamma)).losses(theta) - hard.losses(theta)
            assert (excess >= -1e-9).all() and (excess <= sizes / beta + 1e-9).all()
        near = case.problem(Loss(1e5, gamma)).loss_and_gradient(theta)[1]
        np.testing.assert_allclose(near, hard.loss_and_gradient(theta)[1], atol=1e-9)


def test_names() -> None:
    assert LOSSES.keys() == {"crf", "softmax_margin", "svm", "perceptron", "slack_svm", "risk", "ramp"}
    for name in LOSSES:
        loss = Loss.named(name)
        assert str(loss) == name
        assert loss.oracle == ("marginals" if loss.smooth else "slack" if loss.slack else "argmax")
    assert (Loss.named("crf").beta, Loss.named("crf").gamma) == (1.0, 0.0)
    assert (Loss.named("softmax_margin").beta, Loss.named("softmax_margin").gamma) == (1.0, 1.0)
    assert (Loss.named("svm").beta, Loss.named("svm").gamma) == (INF, 1.0)
    assert (Loss.named("perceptron").beta, Loss.named("perceptron").gamma) == (INF, 0.0)
    assert str(Loss(3.0, 0.5)) == "L(β=3, γ=0.5)" and str(Loss(2.0, 1.0, True)) == "δL(β=2, γ=1)"
    assert str(Loss(INF, 2.0, slack=True)) == "slack L(β=inf, γ=2)"


def test_gold_costs_nothing_and_costs_are_counted() -> None:
    z = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # labels 0, 2
    other = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])  # labels 0, 1
    for cost, price in ((Hamming(), 1.0), (Hamming(0.5, 0.25), 0.75), (LabelCost(PRICES), PRICES[2, 1])):
        p, q = cost.parts(Chain([2], 3), 0, z)
        assert p @ z + q == 0.0 and p @ other + q == price


# --------------------------------------------------------------------------------------------------
# Gold that is only partly known: L = 1/β log Z(Y) − 1/β log Z(G)


def subset(instance: Enumeration, keep: Callable[[tuple[int, ...]], bool]) -> Enumeration:
    chosen = [j for j, y in enumerate(instance.outputs) if keep(y)]
    return Enumeration([instance.outputs[j] for j in chosen], instance.parts[chosen], [])


def partial_reference(case: Tiny, golds: list[Enumeration], theta: Floats, beta: float) -> tuple[float, Floats]:
    total, gradient = 0.0, np.zeros(len(theta))
    for matrix, instance, gold in zip(case.matrices, case.instances, golds, strict=True):
        for space, sign in ((instance, 1.0), (gold, -1.0)):
            values = space.values(matrix.T @ theta)
            if math.isinf(beta):
                total += sign * values.max()
                gradient += sign * matrix @ space.parts[np.argmax(values)]
            else:
                total += sign * space.log_partition(beta * (matrix.T @ theta)) / beta
                gradient += sign * matrix @ space.marginals(beta * (matrix.T @ theta))
    return total, gradient


@pytest.mark.parametrize("beta", [0.5, 1.0, INF])
def test_partial_gold_by_enumeration(beta: float) -> None:
    """Chains in plain Python, and compiled for β < ∞; single variables compiled."""
    rng, loss = np.random.default_rng(0), Loss(beta, 0.0)
    case = CHAINS[0]
    allowed = rng.random((sum(case.space.lengths), 3)) < 0.6
    allowed[np.arange(len(allowed)), np.concatenate([np.array(y) for y in case.outputs])] = True
    rows = np.split(allowed, np.cumsum(case.space.lengths)[:-1])
    golds = [
        subset(instance, lambda y, row=row: bool(row[np.arange(len(y)), y].all()))
        for instance, row in zip(case.instances, rows, strict=True)
    ]
    atoms = [case.space.n_atoms(i) for i in range(len(golds))]
    plain = Enumerated(case.instances, atoms)
    problems = [Problem(plain, MatrixFeatures(case.matrices), Enumerated(golds, atoms), loss)]
    if loss.smooth:
        partly = Chain(case.space.lengths, 3, allowed=allowed)
        problems.append(Problem(case.space, case.features, partly, loss))
    theta = case.theta(rng)
    for problem in problems:
        value, gradient = problem.loss_and_gradient(theta)
        expected, slope = partial_reference(case, golds, theta, beta)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-10)

    masks = rng.random((6, 4)) < 0.5
    masks[:, 1] = True
    single = tiny_multiclass()
    problem = Problem(single.space, single.features, Multiclass(6, 4, allowed=masks), loss)
    golds = [subset(single.instances[0], lambda y, row=row: bool(row[y[0]])) for row in masks]
    theta = rng.normal(size=problem.dim)
    value, gradient = problem.loss_and_gradient(theta)
    expected, slope = partial_reference(single, golds, theta, beta)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("beta", [1.0, INF])
def test_partial_gold_of_one_output_is_gold(beta: float) -> None:
    case, loss = CHAINS[0], Loss(beta, 0.0)
    theta = case.theta(np.random.default_rng(2))
    golds = [
        subset(instance, lambda y, gold=gold: y == gold)
        for instance, gold in zip(case.instances, case.outputs, strict=True)
    ]
    atoms = [case.space.n_atoms(i) for i in range(len(golds))]
    problem = Problem(Enumerated(case.instances, atoms), MatrixFeatures(case.matrices), Enumerated(golds, atoms), loss)
    value, gradient = problem.loss_and_gradient(theta)
    expected, slope = case.loss(theta, loss)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)


def test_partial_gold_has_no_cost() -> None:
    case = CHAINS[0]
    with pytest.raises(ParameterError, match=r"'loss' .* without a cost, because gold outputs are only partly known"):
        Problem(case.space, case.features, case.space, "svm")

"""The public checks: they pass what is right, they fail what is wrong, and outsiders need few lines to use them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import REGISTRY
from hypothesis import find
from numpy.typing import NDArray
from problems import tiny

from partwise import DCA, Chain, FrankWolfe, Multiclass, Problem, StructuredClassifier
from partwise.capabilities import capability_table
from partwise.exceptions import InputError
from partwise.features import MatrixFeatures
from partwise.learners import LEARNERS, Learner, register_learner
from partwise.losses import LOSSES, Loss, LossFunction, add_cost, gold_score, loss_parts, register_loss, subtract_gold
from partwise.structures import Structure
from partwise.structures.oracles import argmax
from partwise.testing import check_learner, check_loss, check_structure

Floats = NDArray[np.float64]


def multiclass(loss: Any = "svm", m: int = 6) -> Problem:
    rng = np.random.default_rng(0)
    features = MatrixFeatures([rng.normal(size=(4, 3)) for _ in range(m)])
    return Problem(Multiclass(m, 3), features, rng.integers(3, size=m), loss)


# --------------------------------------------------------------------------------------------------
# A structure from outside: at most two of n items, chosen greedily and so perhaps not the best pair


class Knapsack(Structure):
    """Items with weights 1, 2, 3, …; a set of weight at most ``room``. Greedy: an inner oracle, with a bound."""

    def __init__(self, sizes: list[int], room: int = 4) -> None:
        self.sizes, self.room = sizes, room

    def __len__(self) -> int:
        return len(self.sizes)

    def n_parts(self, i: int) -> int:
        return self.sizes[i]

    def encode(self, i: int, y: Any) -> Floats:
        return np.isin(np.arange(self.sizes[i]), list(y)).astype(float)

    def decode(self, i: int, parts: Floats) -> tuple[int, ...]:
        return tuple(np.flatnonzero(parts).tolist())

    def guarantee(self, oracle: str) -> str:
        return "inner"

    def argmax(self, i: int, scores: Floats) -> Floats:
        left, taken = self.room, []
        for j in np.argsort(-scores / np.arange(1, len(scores) + 1)):
            if scores[j] > 0 and j + 1 <= left:
                taken.append(int(j))
                left -= j + 1
        return self.encode(i, taken)

    def bound(self, i: int, scores: Floats) -> float:
        return float(np.maximum(scores, 0.0).sum())


class Boastful(Knapsack):
    """The same, claiming to be exact."""

    def guarantee(self, oracle: str) -> str:
        return "exact"


def sets(n: int, room: int = 4) -> list[tuple[int, ...]]:
    every = (tuple(np.flatnonzero(bits).tolist()) for bits in product([0, 1], repeat=n))
    return [y for y in every if sum(j + 1 for j in y) <= room]


def test_an_approximate_structure_from_outside() -> None:
    check_structure(Knapsack([3, 4]), [sets(3), sets(4)])
    with pytest.raises(AssertionError, match=r"Boastful, check_argmax, instance \d"):
        check_structure(Boastful([3, 4]), [sets(3), sets(4)])


def test_a_greedy_knapsack_is_never_certified_as_exact() -> None:
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(3, 4)) for _ in range(8)]
    y = [sets(4)[rng.integers(len(sets(4)))] for _ in X]
    honest = StructuredClassifier(lambda X: Knapsack([4] * len(X)), learner="frank_wolfe", check_oracle=False).fit(X, y)
    assert honest.result_.certificate is not None  # it has a bound
    doubted = StructuredClassifier(lambda X: Boastful([4] * len(X)), learner="frank_wolfe", check_oracle=False)
    problem_certificate = doubted.fit(X, y).result_.certificate
    assert problem_certificate is None or problem_certificate.primal >= honest.result_.certificate.dual - 1e-9


def test_a_greedy_knapsack_that_claims_to_be_exact_is_found_before_training() -> None:
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(3, 4)) for _ in range(8)]
    y = [sets(4)[rng.integers(len(sets(4)))] for _ in X]
    with pytest.raises(InputError, match=r"Boastful\.argmax of instance \d .* although another one scores"):
        StructuredClassifier(lambda X: Boastful([4] * len(X)), learner="frank_wolfe").fit(X, y)


# --------------------------------------------------------------------------------------------------
# A loss from outside: the squared hinge


class SquaredPack(NamedTuple):
    gamma: float


@loss_parts.register(SquaredPack)
def _squared(loss, space, gold, cost, i, scores, work, parts, spare):
    target = gold_score(gold, loss, i, scores, work, spare)
    constant = add_cost(cost, i, loss.gamma, scores)
    hinge = argmax(space, i, scores, work, parts) + loss.gamma * constant - target
    subtract_gold(gold, i, spare, parts)
    for r in range(parts.shape[0]):
        parts[r] *= hinge
    return 0.5 * hinge * hinge


@dataclass(frozen=True)
class SquaredHinge(LossFunction):
    gamma: float = 1.0
    oracle = "argmax"

    @property
    def pack(self) -> SquaredPack:
        return SquaredPack(self.gamma)


def test_a_loss_from_outside() -> None:
    register_loss("squared_hinge", SquaredHinge())
    try:
        check_loss(SquaredHinge(), Multiclass(3, 3), [0, 1, 2])
        check_loss(SquaredHinge(), Chain([2, 3], 2), [[0, 1], [1, 1, 0]])
        result = DCA(max_passes=5).fit(multiclass("squared_hinge"))
        assert np.isfinite(result.theta).all() and result.theta.any()
        assert "`squared_hinge`" in capability_table({"Multiclass": Multiclass(1, 2)})
    finally:
        del LOSSES["squared_hinge"]


@pytest.mark.parametrize("name", [*LOSSES])
def test_the_losses_of_the_package(name: str) -> None:
    check_loss(Loss.named(name), Multiclass(3, 3), [0, 1, 2])
    check_loss(Loss.named(name), Chain([2, 3], 2), [[0, 1], [1, 1, 0]])


@pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda kind: kind.__name__)
def test_gradients_on_given_scores_of_every_structure(kind: type[Structure]) -> None:
    """The first case of each structure that has several outputs; a loss for each of argmax and marginals."""
    case = find(REGISTRY[kind], lambda case: all(len(each.outputs) > 1 for each in case.instances))
    space, outputs = case.structure, [each.outputs[-1] for each in case.instances]
    for name in ("svm", "softmax_margin"):
        loss = Loss.named(name)
        if loss.oracle in space.oracles and space.guarantee(loss.oracle) != "none":
            check_loss(loss, space, outputs, rounds=2, tame=case.tame)


def test_a_wrong_gradient_is_seen() -> None:
    class Wrong(SquaredHinge):
        @property
        def pack(self) -> Any:
            return WrongPack(self.gamma)

    class WrongPack(NamedTuple):
        gamma: float

    @loss_parts.register(WrongPack)
    def _(loss, space, gold, cost, i, scores, work, parts, spare):
        value = argmax(space, i, scores, work, parts)
        subtract_gold(gold, i, spare, parts)
        return 2.0 * value

    with pytest.raises(AssertionError):
        check_loss(Wrong(), Multiclass(2, 3), [0, 1])


# --------------------------------------------------------------------------------------------------
# A learner from outside: plain gradient steps over the whole sum


def test_a_learner_from_outside() -> None:
    @dataclass(frozen=True)
    class Steepest(Learner):
        losses = "smooth losses"
        batch = True
        max_passes: int = 50

        def accepts(self, loss: LossFunction) -> bool:
            return loss.smooth

        def start(self, problem: Any, theta: Floats, score: Any) -> dict[str, Any]:
            return {"theta": theta}

        def advance(self, problem: Any, state: dict[str, Any]) -> dict[str, Any]:
            value, gradient = problem.loss_and_gradient(state["theta"])
            objective = (value + 0.5 * state["theta"] @ state["theta"] / self.C) / problem.m
            state["theta"] = state["theta"] - 0.1 * (gradient + state["theta"] / self.C)
            return {"objective": float(objective)}

    register_learner("steepest")(Steepest)
    try:
        check_learner(Steepest(), multiclass("crf"))
        assert "`steepest`" in capability_table({"Multiclass": Multiclass(1, 2)})
    finally:
        del LEARNERS["steepest"]


@pytest.mark.parametrize("name", ["perceptron", "sgd", "dca", "frank_wolfe", "n_slack", "one_slack", "lbfgs", "eg"])
def test_the_learners_of_the_package(name: str) -> None:
    loss = "perceptron" if name == "perceptron" else "crf" if name == "lbfgs" else "svm"
    check_learner(LEARNERS[name](max_passes=20), tiny(seed=4).problem(loss))


def test_a_learner_that_lies_is_seen() -> None:
    class Boaster(FrankWolfe):
        def advance(self, problem: Problem, state: dict[str, Any]) -> dict[str, Any]:
            return {**super().advance(problem, state), "dual": 0.0, "objective": 1e-3, "converged": True}

    with pytest.raises(AssertionError, match=r"primal .* below the optimum"):
        check_learner(Boaster(), multiclass(), optimum=0.5)

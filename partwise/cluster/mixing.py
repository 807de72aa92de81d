"""Iterative parameter mixing: an online pass on every group of shards, then the mean of their weights.

    θ_k ← pass(θ; group k),        θ ← Σ_k (m_k/m) θ_k

McDonald, Hall and Mann (2010), with the groups weighted by their numbers of instances. For the perceptron the bound on
the number of mistakes carries over; for SGD and DCA it is the simple alternative to learners with a certificate
(:mod:`partwise.cluster.dual`). The average of all θ is that of all steps of all groups. With a single group it is the
learner's own pass, shard after shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise._math import dot
from partwise.cluster.shards import ShardedObjective, dense, sparse
from partwise.exceptions import ParameterError
from partwise.learners.base import Floats, Learner, State
from partwise.learners.online import SGD, OnlineLearner
from partwise.losses import LossFunction
from partwise.problem import Problem

__all__ = ["Mixing"]


def online_visits(problem: Problem, memory: dict[str, Any], number: int, carry: dict[str, Any]) -> dict[str, Any]:
    """One shard's part of a pass; ``carry`` holds the weights as θ = a·v, and all that is summed up on the way."""
    learner: OnlineLearner = carry["learner"]
    state, share = carry["state"], problem.m / carry["m"]
    rng = np.random.default_rng([learner.random_state, carry["epoch"], number])
    order = rng.permutation(problem.m) if learner.shuffle else np.arange(problem.m)
    # the step size counts passes, and 1/λ is C times all instances: both in terms of this shard's number of them
    state["counters"][2] = (carry["epoch"] + carry["done"] / carry["m"] * carry["groups"]) * problem.m
    replace(learner, C=learner.C if learner.rule != SGD.rule else learner.C / share).one_pass(problem, state, order)
    carry["done"] += problem.m
    return carry


def group_weights(before: Any, carry: dict[str, Any]) -> dict[str, Any]:
    """(θ, Σ θ_t, number of steps, Σ losses, updates) of a group after its pass."""
    state = carry["state"]
    a, total = state["counters"][:2]
    sums = total * state["v"] - state["w"] if len(state["w"]) else np.zeros(0)
    return {
        "theta": sparse(a * state["v"]),
        "sums": sparse(sums),
        "steps": carry["done"],
        "loss": float(state["counters"][3]),
        "updates": float(state["counters"][5]),
    }


@dataclass(frozen=True)
class Mixing(Learner):
    """An online learner on groups of shards at the same time; see the module."""

    batch: ClassVar[bool] = True

    base: OnlineLearner | None = None
    groups: int = 1

    @classmethod
    def of(cls, base: OnlineLearner, groups: int) -> Mixing:
        """With the settings of the learner whose passes it makes."""
        return cls(base.C, base.max_passes, base.random_state, base, groups)

    @property
    def _base(self) -> OnlineLearner:
        assert self.base is not None
        return self.base

    @property
    def losses(self) -> str:  # type: ignore[override]
        return self._base.losses

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        return self._base.weighs

    def accepts(self, loss: LossFunction) -> bool:
        return self._base.accepts(loss)

    def start(self, problem: ShardedObjective, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        state: State = {
            "borders": problem.runner.borders(self.groups),
            "theta": theta,
            "sums": np.zeros(problem.dim if self._base.average else 0),
            "steps": 0,
            "epoch": 0,
            "eta": 0.0,
        }
        if isinstance(self._base, SGD):
            state["eta"] = self._base.eta or self._best_rate(problem, state, score)
        return state

    def _best_rate(self, problem: ShardedObjective, state: State, score: Callable[[Floats], float] | None) -> float:
        """The step size whose first pass is the best, as :class:`~partwise.learners.SGD` chooses it."""
        assert isinstance(self._base, SGD)
        best, best_value = self._base.candidates[0], -np.inf
        for eta in self._base.candidates:
            trial = {**state, "theta": state["theta"].copy(), "sums": state["sums"].copy(), "eta": eta}
            try:
                self.advance(problem, trial)
            except ParameterError:  # it diverged
                continue
            theta = self.weights(trial)
            value = score(theta) if score is not None else -self._objective(problem, theta)
            if value > best_value:
                best, best_value = eta, value
        return best

    def _objective(self, problem: ShardedObjective, theta: Floats) -> float:
        result: float = (0.5 * dot(theta, theta) / self.C + float(problem.losses(theta).sum())) / problem.m
        return result

    def advance(self, problem: ShardedObjective, state: State) -> dict[str, Any]:
        online = {
            "eta": state["eta"],
            "v": state["theta"],
            "w": np.zeros(len(state["sums"])),
            "counters": np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        }
        groups = len(state["borders"]) - 1
        common = {"learner": self._base, "state": online, "epoch": state["epoch"], "m": problem.m, "groups": groups}
        common["done"] = 0
        found = problem.runner.sweep(online_visits, group_weights, state["borders"], common)
        loss = sum(part["loss"] for part in found)
        if np.isnan(loss):
            raise ParameterError("eta", type(self._base).__name__, "small enough for θ to stay finite", state["eta"])
        mixed = np.zeros(problem.dim)
        for part in found:
            mixed += (part["steps"] / problem.m) * dense(part["theta"])
            if len(state["sums"]):
                state["sums"] = state["sums"] + dense(part["sums"])
            state["steps"] += part["steps"]
        state["theta"] = mixed
        state["epoch"] += 1
        updates = sum(part["updates"] for part in found)
        known: dict[str, Any] = {
            "extra": {"online_loss": loss / problem.m, "updates": updates, "groups": float(groups)},
            "converged": updates == 0.0,
        }
        if self._base.trace_objective:
            known["objective"] = self._objective(problem, self.weights(state))
        return known

    def weights(self, state: State) -> Floats:
        if self._base.average and state["steps"]:
            answer: Floats = state["sums"] / state["steps"]
            return answer
        answer = state["theta"]
        return answer

"""Learners whose steps need a sum over all instances, on shards: exponentiated gradient and the subgradient method.

A step is one sum along the tree of :mod:`partwise.cluster.shards`, so that θ has the same bits wherever it is added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from partwise._math import dot
from partwise.cluster.shards import Scratch, ShardedObjective, Total
from partwise.exceptions import ParameterError
from partwise.learners.base import Floats, Learner, State
from partwise.learners.eg import EG
from partwise.learners.eg_steps import StepBounds, bounds_from, instance_radii
from partwise.learners.subgradient import Subgradient
from partwise.problem import Problem

__all__ = ["ShardedEG", "ShardedSubgradient"]

_NONE: Floats = np.zeros(0)


def _settings(learner: Learner) -> dict[str, Any]:
    return {setting.name: getattr(learner, setting.name) for setting in fields(learner)}


def shard_gibbs(problem: Problem, common: tuple[EG, Floats, float, float], scratch: Scratch) -> Total:
    """((Σ_i E ℓ_i, Σ_i H_i), Σ_i F_i (z_i − μ_i)) of one shard, for θ_i = step·F_iᵀ u + a p_i."""
    learner, weights, step, a = common
    totals, v = EG.gibbs(learner, problem, _NONE, 0.0, weights, step, a, _NONE)
    v += 0.0  # no −0: then leaving out a zero changes no bit of a sum
    return totals, v


def shard_radii(problem: Problem, memory: Any, common: Any, own: Any) -> tuple[Floats, Floats]:
    """What the bounds of step sizes ask of one shard."""
    return instance_radii(problem)


@dataclass(frozen=True)
class ShardedEG(EG):
    """Exponentiated gradient in its primal form, which keeps vectors of weights only; see :class:`EG`."""

    batch: ClassVar[bool] = True

    @classmethod
    def of(cls, base: EG) -> Self:
        """With the settings of the learner whose steps it makes."""
        if base.form != "primal":
            raise ParameterError(
                "form", type(base).__name__, "'primal' on shards: it keeps nothing per instance", base.form
            )
        return cls(**_settings(base))

    def bounds(self, problem: ShardedObjective) -> StepBounds:  # type: ignore[override]
        found = problem.runner.each(shard_radii, None)
        lengths, costs = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return bounds_from(lengths, costs, problem.loss, self.C)

    def gibbs(  # type: ignore[override]
        self, problem: ShardedObjective, old: Floats, keep: float, weights: Floats, step: float, a: float, new: Floats
    ) -> tuple[Floats, Floats]:
        return problem.runner.total((self, weights, step, a), shard_gibbs)


@dataclass(frozen=True)
class ShardedSubgradient(Subgradient):
    """θ ← Π[θ − η_t(λθ + 1/m Σ_i ∇L_i(θ))]: one step per pass, step sizes and averages as of :class:`Subgradient`.

    Where that takes an instance at a time, this takes all of them: shards can then be worked on at the same time, and
    the result does not depend on how they are cut but for rounding. It needs many more passes than the certified
    learners.
    """

    batch: ClassVar[bool] = True

    @classmethod
    def of(cls, base: Subgradient) -> Self:
        """With the settings of the learner whose steps it makes."""
        return cls(**_settings(base))

    def advance(self, problem: ShardedObjective, state: State) -> dict[str, Any]:  # type: ignore[override]
        domain, theta, m = self.domain(problem), state["theta"], problem.m  # type: ignore[arg-type]
        _, gradient = problem.loss_and_gradient(theta)
        state["steps"] = t = state["steps"] + 1
        if self.radius is None:  # η_t = Cm/t: the first step forgets its start
            weight = float(t)
            theta = domain.project((1.0 - 1.0 / t) * theta - (self.C / t) * gradient)
        else:
            weight = 1.0
            state["sums"][1] += dot(gradient, gradient) / m**2
            squares = state["sums"][1]
            step = self.radius * math.sqrt(2.0 / squares) if squares > 0 else 0.0
            theta = domain.project(theta - (step / m) * gradient)
        state["theta"] = theta
        state["sums"][0] += weight
        state["total"] = state["total"] + weight * theta
        state["answer"] = state["total"] / state["sums"][0] if self.average else theta
        primal = (domain.cost(state["answer"]) + float(problem.losses(state["answer"]).sum())) / m
        return {"objective": primal}

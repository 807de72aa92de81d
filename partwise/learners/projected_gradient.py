"""Averaged projected gradient on the saddle-point problem, Lacoste-Julien (2009) eq. (2.16): the simple baseline.

    θ ← π_W(θ − η_t/β ∇_θ L(θ, z)),     z_i ← π_{Z_i}(z_i + η_t ∇_{z_i} L(θ, z)),     η_t = η/√t

Each player improves its own move without looking ahead at the other's, so the iterates circle around the solution;
their averages, weighted by η_t, converge like 1/√t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise.features.base import accumulate, feature_scores
from partwise.learners._saddle_kernels import operator_norm
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.extragradient import SaddlePointLearner
from partwise.losses import add_cost, subtract_gold
from partwise.problem import Problem
from partwise.structures.base import part_count, project

__all__ = ["ProjectedGradient"]


@kernel
def gradient_block(data, offsets, start, stop, theta, eta, buffers, outputs, gradient):
    """outputs_i ← π(outputs_i + η(F_iᵀθ + γp_i)); adds F_i(z_i − ẑ_i) at the old z_i to ``gradient``.

    Returns Σ_i γ(p_i·z_i + q_i) at the old z_i.
    """
    gamma, total = data.loss.gamma, 0.0
    for i in range(start, stop):
        n = part_count(data.space, i)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        z = outputs[offsets[i] : offsets[i + 1]]
        for r in range(n):
            parts[r], spare[r] = z[r], 0.0
        total += gamma * add_cost(data.cost, i, gamma, spare)
        feature_scores(data.features, i, theta, scores, 0)
        for r in range(n):
            total += spare[r] * z[r]
            scores[r] = z[r] + eta * (scores[r] + spare[r])
        subtract_gold(data.gold, i, spare, parts)
        accumulate(data.features, i, parts, 0, 1.0, gradient)
        project(data.space, i, scores, buffers.work, z)
    return total


@register_learner("projected_gradient")
@dataclass(frozen=True)
class ProjectedGradient(SaddlePointLearner):
    """θ and z by simultaneous projected gradient steps, averaged.

    Lacoste-Julien (2009), eq. (2.16), the baseline of §2.6.

    The gradient of a regulariser is taken at the new θ (an implicit step). State: the parts of all instances.

    Parameters
    ----------
    eta : float, optional
        η; √β/‖F‖₂ if absent.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"project"})

    eta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            self._positive("eta")

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        norm = operator_norm(problem, self.random_state) or 1.0
        beta = self._beta(problem, norm, max(float(problem.data.gold.values.sum()), 1e-12))
        return {
            "theta": self.domain(problem).project(theta),
            "outputs": problem.gold_parts(),  # where §2.6 starts
            "sum": np.zeros(problem.dim),
            "pull": np.zeros(problem.dim),
            "cost": 0.0,
            "weight": 0.0,
            "steps": 0,
            "best_dual": -np.inf,
            "beta": beta,
            "eta": math.sqrt(beta) / norm if self.eta is None else self.eta,
        }

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        state["steps"] += 1
        eta, theta, domain = state["eta"] / math.sqrt(state["steps"]), state["theta"], self.domain(problem)

        def task(data: Any, start: int, stop: int, sums: Floats) -> float:
            return float(
                problem.run(
                    gradient_block, data, problem.part_offsets, start, stop, theta, eta, problem.buffers(),
                    state["outputs"], sums[0],
                )
            )  # fmt: skip

        costs, (gradient,) = problem.collect(task)
        state["sum"] += eta * theta
        state["pull"] -= eta * gradient
        state["cost"] += eta * sum(costs)
        state["weight"] += eta
        pace = eta / state["beta"]
        curvature = 1.0 / self.C if self.radius is None else 0.0
        state["theta"] = domain.project((theta - pace * gradient) / (1.0 + pace * curvature))
        weight = state["weight"]
        dual = None if self._free else self.dual(problem, state["cost"] / weight, state["pull"] / weight)
        return self.judge(problem, state, state["sum"] / weight, dual, step=eta)

    def weights(self, state: State) -> Floats:
        answer: Floats = state["sum"] / state["weight"] if state["weight"] > 0 else state["theta"]
        return answer

"""The stochastic subgradient method: θ ← Π[θ − η_t(λθ + ∇L_t)], with the step size that the theory asks for.

==================  ===================================  ==========================================================
problem             η_t                                  average
==================  ===================================  ==========================================================
regularised         1/(λt), λ = 1/(Cm)                   2/(T(T+1)) Σ_t t·θ_{t+1}: O(1/T) from the optimum
                                                         (Lacoste-Julien, Schmidt and Bach 2012)
ball of radius R    √2·R / √(Σ_{s ≤ t} ‖∇L_s‖²)          1/T Σ_t θ_{t+1}: O(1/√T)
==================  ===================================  ==========================================================

For the hinge the first is Pegasos (Shalev-Shwartz et al. 2007). Π is the projection onto the ball and onto θ_j ≥ 0
where that is asked for. Without constraints t·θ_{t+1} is a plain sum, z_t = z_{t−1} − ∇L_t/λ, and so is the sum
of the z_t: a step costs what the sparse gradient costs. With constraints it costs O(dim) more.

It has no dual, hence no certificate: the exact primal is evaluated after every pass, and the best θ is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners.base import Floats, Learner, Result, State, register_learner
from partwise.learners.certified import best_start, start_wins
from partwise.learners.domains import Domain
from partwise.losses import LossFunction, loss_parts
from partwise.problem import Problem
from partwise.structures.base import part_count

__all__ = ["Subgradient"]


@kernel
def free_pass(data, order, scale, z, late, buffers, t):
    """Steps t, t + 1, … without constraints: z ← z − scale·∇L(z/(t − 1)), scale = 1/λ; ``late`` sums (t − 1)δ_t."""
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        feature_scores(data.features, i, z, scores, 0)
        past = float(t + place - 1)
        if past > 0.0:
            for r in range(n):
                scores[r] /= past
        loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)
        accumulate(data.features, i, parts, 0, -scale, z)
        if past > 0.0:
            accumulate(data.features, i, parts, 0, -scale * past, late)


@kernel
def projected_pass(data, order, decay, radius, positive, theta, total, buffers, scratch, sums, t):
    """Steps with a projection each. ``decay`` is λ, or 0 for the ball of that radius (∞: none) with its own steps.

    ``total`` collects Σ_t w_t θ_{t+1}, sums[0] is Σ_t w_t, sums[1] Σ_t ‖∇L_t‖²; w_t = t, or 1 for the ball.
    """
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        feature_scores(data.features, i, theta, scores, 0)
        loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)
        now = float(t + place)
        weight, shrink, step = now, (now - 1.0) / now, 0.0
        if decay > 0.0:
            step = 1.0 / (decay * now)
        else:
            weight, shrink = 1.0, 1.0
            sums[1] += squared_norm(data.features, i, parts, scratch)
            if sums[1] > 0.0:
                step = radius * math.sqrt(2.0 / sums[1])
        for j in range(theta.shape[0]):
            theta[j] *= shrink
        accumulate(data.features, i, parts, 0, -step, theta)
        norm = 0.0
        for j in range(theta.shape[0]):
            if positive.shape[0] > 0 and positive[j] and theta[j] < 0.0:
                theta[j] = 0.0
            norm += theta[j] * theta[j]
        factor = radius / math.sqrt(norm) if norm > radius * radius else 1.0
        sums[0] += weight
        for j in range(theta.shape[0]):
            theta[j] *= factor
            total[j] += weight * theta[j]


@register_learner("subgradient")
@dataclass(frozen=True)
class Subgradient(Learner):
    """Stochastic subgradient steps with 1/(λt), weighted averages and projections; any convex loss.

    Parameters
    ----------
    radius : float, optional
        Minimise the losses over the ball ‖θ‖ ≤ radius in place of the regularised sum; C is not used then.
    average : bool
        Return the average of the table above instead of the last θ.
    """

    losses: ClassVar[str] = "convex losses"
    constrains: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    converges: ClassVar[bool] = False
    certified: ClassVar[bool] = True
    convex_only: ClassVar[bool] = True

    radius: float | None = None
    average: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius is not None:
            self._positive("radius", infinite=True)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.convex

    def domain(self, problem: Problem) -> Domain:
        """Where θ may be."""
        return Domain(self.C, self.radius, problem.nonnegative)

    def _free(self, problem: Problem) -> bool:
        return self.radius is None and problem.nonnegative is None

    def fit(self, problem: Any, *, theta: Floats | None = None, score: Any = None, **settings: Any) -> Result:
        """As :meth:`Learner.fit`; the answer is the best θ of all passes, of the start and of 0."""
        result = super().fit(problem, theta=theta, score=score, **settings)
        reached = result.trace[result.best_step - 1].objective if result.best_step else None
        if score is not None or reached is None:
            return result
        primal, start = best_start(problem, self.domain(problem), theta)
        wins = start_wins(problem, self.domain(problem), start, primal, result.theta, reached)
        return replace(result, theta=start, best_step=0) if wins else result

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        """The regularised method forgets its start at once: its first step has η_1 λ = 1."""
        return {
            "theta": self.domain(problem).project(theta),  # z of the free method
            "total": np.zeros(problem.dim),  # and its late
            "sums": np.zeros(2),
            "steps": 0,
            "answer": np.zeros(problem.dim),
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
        }

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        order = rng.permutation(problem.m)
        state["rng"] = rng.bit_generator.state
        theta, total, t = state["theta"], state["total"], state["steps"]
        scale = self.C * problem.m
        if self._free(problem):
            if t == 0:
                theta[:] = 0.0
            problem.run(free_pass, problem.data, order, scale, theta, total, problem.buffers(), t + 1)
        else:
            radius = np.inf if self.radius is None else self.radius
            positive = np.zeros(0, np.bool_) if problem.nonnegative is None else problem.nonnegative
            problem.run(
                projected_pass, problem.data, order, 1.0 / scale if self.radius is None else 0.0, radius, positive,
                theta, total, problem.buffers(), np.zeros(problem.dim), state["sums"], t + 1,
            )  # fmt: skip
        state["steps"] = t = t + problem.m
        if self._free(problem):
            # Σ_t z_t = T z_T − Σ_t (t − 1)δ_t, over the sum of the weights T(T + 1)/2
            state["answer"] = (t * theta - total) / (0.5 * t * (t + 1)) if self.average else theta / t
        else:
            state["answer"] = total / state["sums"][0] if self.average else theta.copy()
        primal = (self.domain(problem).cost(state["answer"]) + float(problem.losses(state["answer"]).sum())) / problem.m
        return {"objective": primal}

    def weights(self, state: State) -> Floats:
        answer: Floats = state["answer"]
        return answer

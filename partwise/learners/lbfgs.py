"""L-BFGS for the smooth losses, and OWL-QN where there is an L1 term.

    min_θ  Σ_i L_i(θ) + 1/C ( (1 − ρ)/2 ‖θ‖² + ρ ‖θ‖₁ ),     ρ = l1_ratio,

reported, as every objective here, divided by m. Limited-memory BFGS (Nocedal 1980) with a backtracking line search
(Armijo; steps that fail the curvature condition are not remembered); for ρ > 0 the orthant-wise method of
Andrew & Gao (2007): pseudo-gradient, directions and steps kept within one orthant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise._math import add_scaled, dot
from partwise.exceptions import ParameterError
from partwise.learners.base import Floats, Learner, State, register_learner
from partwise.learners.online import DCA
from partwise.losses import LossFunction
from partwise.objective import Objective
from partwise.problem import Problem

__all__ = ["LBFGS"]


@register_learner("lbfgs")
@dataclass(frozen=True)
class LBFGS(Learner):
    """Batch quasi-Newton on all threads of the problem.

    Parameters
    ----------
    l1_ratio : float in [0, 1]
        0: L2 alone; 1: L1 alone; between: elastic net.
    memory : int
        Number of remembered steps.
    tolerance : float
        Converged when ‖gradient‖ ≤ tolerance · max(1, ‖θ‖), or when the objective fell by less than this share
        of itself over the last ten passes (CRFsuite stops at 1e-5 too).
    warm_passes : int
        Passes of DCA before the first step.
    """

    losses: ClassVar[str] = "smooth losses (β < ∞)"
    weighs: ClassVar[bool] = True
    batch: ClassVar[bool] = True

    max_passes: int = 1000
    l1_ratio: float = 0.0
    memory: int = 6
    tolerance: float = 1e-5
    warm_passes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.l1_ratio <= 1:
            raise ParameterError("l1_ratio", "LBFGS", "between 0 and 1", self.l1_ratio)
        if not self.memory >= 1:
            raise ParameterError("memory", "LBFGS", "at least 1", self.memory)
        if not self.tolerance >= 0:
            raise ParameterError("tolerance", "LBFGS", "a number ≥ 0", self.tolerance)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.smooth

    def near(self, gap: float, primal: float) -> bool:
        return gap <= self.tolerance * abs(primal)

    def start(self, problem: Objective, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        if self.warm_passes and not isinstance(problem, Problem):
            raise ParameterError("warm_passes", "LBFGS", "0 if the sum is not a Problem", self.warm_passes)
        if self.warm_passes:
            warm = DCA(C=self.C, max_passes=self.warm_passes, random_state=self.random_state)
            theta = warm.fit(problem, theta=theta).theta
        value, gradient = self._smooth(problem, theta)
        value += self._l1 * float(np.abs(theta).sum())
        return {
            "theta": theta,
            "value": value,
            "gradient": gradient,
            "steps": np.zeros((self.memory, problem.dim), np.float32),  # they only shape the direction
            "changes": np.zeros((self.memory, problem.dim), np.float32),
            "remembered": 0,
            "values": np.full(10, np.inf),
        }

    @property
    def _l1(self) -> float:
        return self.l1_ratio / self.C

    @property
    def _l2(self) -> float:
        return (1.0 - self.l1_ratio) / self.C

    def weights(self, state: State) -> Floats:
        answer: Floats = state["theta"]  # replaced in every pass, never written to
        return answer

    def _smooth(self, problem: Objective, theta: Floats) -> tuple[float, Floats]:
        """The objective without its L1 term, and its gradient."""
        value, gradient = problem.loss_and_gradient(theta)
        if self._l2:
            value += 0.5 * self._l2 * dot(theta, theta)
            add_scaled(gradient, 0, self._l2, theta, 0, problem.dim)
        return value, gradient

    # θ may have millions of entries: no more vectors than the method needs are alive at any time.

    def advance(self, problem: Objective, state: State) -> dict[str, Any]:
        theta, l1 = state["theta"], self._l1
        steepest = _pseudo_gradient(theta, state["gradient"], l1)
        direction = _two_loop(steepest, state["steps"], state["changes"], state["remembered"])
        if l1:
            direction[direction * steepest >= 0] = 0.0  # stay in the orthant of the pseudo-gradient
        slope = dot(direction, steepest)
        if slope >= 0:  # the memory has gone stale: forget it
            state["remembered"] = 0
            direction, slope = -steepest, -dot(steepest, steepest)
        size = 1.0 if state["remembered"] else 1.0 / max(math.sqrt(-slope), 1e-300)
        orthant = np.where(theta != 0, np.sign(theta), -np.sign(steepest)) if l1 else None
        evaluations, accepted = 0, False
        while evaluations < 30 and slope < 0:
            if direction is None:  # where the first step was too long; of the memory nothing has changed
                direction = _two_loop(steepest, state["steps"], state["changes"], state["remembered"])
            if orthant is None:
                new, direction = direction, None  # one vector serves as both
                new *= size
                new += theta
            else:
                new = size * direction
                new += theta
                new[new * orthant < 0] = 0.0
            value, gradient = self._smooth(problem, new)
            value += l1 * float(np.abs(new).sum()) if l1 else 0.0
            evaluations += 1
            decrease = dot(new - theta, steepest) if l1 else size * slope
            if value <= state["value"] + 1e-4 * decrease:
                accepted = True
                break
            size *= 0.5
        if accepted:
            _remember(state, new, gradient)
            state["theta"], state["value"], state["gradient"] = new, value, gradient
        values = state["values"]
        past, now = values[0], state["value"]
        values[:-1] = values[1:]
        values[-1] = now
        norm = _norm(_pseudo_gradient(state["theta"], state["gradient"], l1))
        small = norm <= self.tolerance * max(1.0, _norm(state["theta"]))
        slow = past - now <= self.tolerance * abs(now) if accepted and np.isfinite(past) else False
        return {
            "objective": now / problem.m,
            "dual": self._lower_bound(problem, state, norm),
            "extra": {
                "gradient_norm": norm,
                "evaluations": float(evaluations),
                "step": size if accepted else 0.0,
            },
            "converged": small or slow,
            "stalled": not accepted,
        }

    def _lower_bound(self, problem: Objective, state: State, norm: float) -> float | None:
        """P − ‖∇P‖²/(2λ') ≤ min P for a λ'-strongly convex P: a certificate from strong convexity alone."""
        if not self._l2 or not problem.convex:
            return None
        result: float | None = (state["value"] - 0.5 * norm * norm / self._l2) / problem.m
        return result


def _norm(x: Floats) -> float:
    return math.sqrt(dot(x, x))


def _pseudo_gradient(theta: Floats, gradient: Floats, l1: float) -> Floats:
    """The subgradient of smallest norm of the objective with its L1 term."""
    if not l1:
        return gradient
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(theta == 0, shrunk, gradient + l1 * np.sign(theta))


@kernel
def _two_loop(gradient, steps, changes, remembered):
    """−H·gradient by the two-loop recursion over the remembered steps, newest first (Nocedal & Wright, Alg. 7.4)."""
    memory, n = steps.shape[0], min(remembered, steps.shape[0])
    direction = -gradient
    weights, curvatures = np.zeros(n), np.zeros(n)
    for k in range(n):
        j = (remembered - 1 - k) % memory
        curvatures[k] = dot(steps[j], changes[j])
        weights[k] = dot(steps[j], direction) / curvatures[k]
        add_scaled(direction, 0, -weights[k], changes[j], 0, direction.shape[0])
    if n > 0:
        newest = changes[(remembered - 1) % memory]
        direction *= curvatures[0] / dot(newest, newest)
    for k in range(n - 1, -1, -1):
        j = (remembered - 1 - k) % memory
        other = dot(changes[j], direction) / curvatures[k]
        add_scaled(direction, 0, weights[k] - other, steps[j], 0, direction.shape[0])
    return direction


@kernel
def _curvature(new, theta, gradient, before):
    """(s·y, y·y) of the step s = new − θ and the change of the gradient y, without storing them."""
    along, size = 0.0, 0.0
    for j in range(new.shape[0]):
        change = gradient[j] - before[j]
        along += (new[j] - theta[j]) * change
        size += change * change
    return along, size


def _remember(state: State, new: Floats, gradient: Floats) -> None:
    along, size = _curvature(new, state["theta"], gradient, state["gradient"])
    if along <= 1e-10 * size:
        return
    slot = state["remembered"] % len(state["steps"])
    np.subtract(new, state["theta"], out=state["steps"][slot], casting="same_kind")
    np.subtract(gradient, state["gradient"], out=state["changes"][slot], casting="same_kind")
    state["remembered"] += 1

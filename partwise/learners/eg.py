"""Exponentiated gradient on the dual, with Gibbs distributions in part space (Bartlett et al. 2004, Figure 2).

The dual of min ‖w‖²/(2C) + Σ_i L(β,γ)_i(w) has a distribution α_i over the outputs of every instance,

    max_α  Σ_i [ γ E_{α_i} ℓ + H(α_i)/β ] − C/2 ‖v‖²,    v = Σ_i F_i (z_i − μ_i),   w = C v,   μ_i = E_{α_i} z,

which times C is F(α) of Figure 1 for the hinge (β = ∞) and, with the entropy, the dual of the log-loss of Collins,
Globerson, Koo, Carreras and Bartlett (2008). α_i is kept as a Gibbs distribution with scores θ_i of the parts,
α_i(y) ∝ exp(θ_i·z), and EG multiplies α_i(y) by exp(η ∂F/∂α_i(y)), so that, with δ = ηC,

    θ_i ← (1 − δ/β) θ_i + δ (γ p_i + F_iᵀ w).

Two forms of one algorithm. The **dual form** keeps the θ_i, all parts of all instances. The **primal form** (§3)
notices that from θ_i = a p_i + F_iᵀ u on they stay so: a ← (1 − δ/β) a + δγ, u ← (1 − δ/β) u + δw. (The paper's z is
u/(ηC), a name that belongs to the parts here.) A few vectors of weights are all it keeps, however many instances
there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.exceptions import CapabilityError, ParameterError
from partwise.features.base import accumulate, feature_scores
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import CertifiedLearner
from partwise.learners.eg_steps import StepBounds, step_bounds
from partwise.losses import LossFunction, add_cost, subtract_gold
from partwise.problem import Problem
from partwise.structures.base import marginals, part_count

__all__ = ["EG", "DualEG", "judged", "without_loss"]

BOUNDS = ("theorem2", "smooth")

#: An adaptive step must gain this share of what its tangent promises: with ½ it does not overshoot along its line.
ENOUGH = 0.5


@kernel
def gibbs_pass(data, offsets, old, keep, weights, step, coefficient, buffers, new, v, totals):
    """θ_i ← keep·old_i + step·F_iᵀ weights + coefficient·p_i for every i, and what follows from it.

    v ← Σ_i F_i (z_i − μ_i); totals ← (Σ_i E ℓ_i, Σ_i H_i). ``old`` and ``new`` are the θ_i side by side, or have length
    0 where they are not kept.
    """
    v[:] = 0.0
    totals[:] = 0.0
    for i in range(offsets.shape[0] - 1):
        n = part_count(data.space, i)
        start = offsets[i]
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        feature_scores(data.features, i, weights, buffers.scores, 0)
        for r in range(n):
            scores[r] *= step
            spare[r] = 0.0
        if old.shape[0] > 0:
            for r in range(n):
                scores[r] += keep * old[start + r]
        cost = add_cost(data.cost, i, 1.0, spare)
        for r in range(n):
            scores[r] += coefficient * spare[r]
        if new.shape[0] > 0:
            for r in range(n):
                new[start + r] = scores[r]
        entropy = marginals(data.space, i, scores, buffers.work, parts)
        for r in range(n):
            cost += spare[r] * parts[r]
            if parts[r] != 0.0:
                entropy -= scores[r] * parts[r]
        totals[0] += cost
        totals[1] += entropy
        subtract_gold(data.gold, i, spare, parts)
        accumulate(data.features, i, parts, 0, -1.0, v)


def without_loss(problem: Problem) -> Any:
    """The data of a problem for kernels that never look at its loss: compiled once for all losses."""
    return problem.data._replace(loss=0.0)


def judged(learner: CertifiedLearner, state: State, primal: float, dual: float, **extra: float) -> dict[str, Any]:
    """What ``advance`` returns; converged where the best primal and the best dual of all passes have met.

    ``state["best"]`` (2,) keeps these two: neither need be that of the last pass.
    """
    best = state["best"]
    best[0], best[1] = min(best[0], primal), max(best[1], dual)
    known = learner.assess(float(primal), float(dual), **extra)
    known["converged"] = bool(best[0] - best[1] <= learner.tolerance * abs(best[0]))
    return known


@dataclass(frozen=True)
class DualEG(CertifiedLearner):
    """Settings common to the learners with Gibbs distributions.

    Parameters
    ----------
    eta : float or "adaptive"
        η of Figure 2, for F = C·(m D).
    first_eta : float, optional
        Where an adaptive η begins; 0.01/C² if absent. Rather too small: what a step too large put into θ_i takes long
        to be undone.
    growth : float
        What an adaptive η is multiplied by when a step raised the dual enough (at least half as much as its tangent
        promised); it is halved when a step did not, and that step is not taken (after Collins et al. 2008).
    head_start : float
        α_i¹(y) ∝ exp(−head_start·ℓ_i(y)): 0 is the uniform distribution, large values begin near the gold output.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"marginals"})
    losses: ClassVar[str] = "convex losses L(β,γ)"

    max_passes: int = 200
    eta: float | str = "adaptive"
    first_eta: float | None = None
    growth: float = 1.05
    head_start: float = 0.0

    names: ClassVar[tuple[str, ...]] = ("adaptive",)

    def __post_init__(self) -> None:
        super().__post_init__()
        words = "a positive number, " + " or ".join(repr(name) for name in self.names)
        if isinstance(self.eta, str):
            if self.eta not in self.names:
                raise ParameterError("eta", type(self).__name__, words, self.eta)
        elif not self.eta > 0:
            raise ParameterError("eta", type(self).__name__, words, self.eta)
        if self.first_eta is not None:
            self._positive("first_eta")
        if not self.growth >= 1:
            raise ParameterError("growth", type(self).__name__, "at least 1", self.growth)
        if not self.head_start >= 0:
            raise ParameterError("head_start", type(self).__name__, "a number ≥ 0", self.head_start)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.augmented

    def first_rate(self, problem: Problem) -> float:
        """The first δ = ηC. With an entropy in the dual δ ≤ β: there the step forgets θ_i altogether."""
        first = 0.01 / self.C**2 if self.first_eta is None else self.first_eta
        return min((first if isinstance(self.eta, str) else self.eta) * self.C, problem.loss.beta)

    def first_scores(self, problem: Problem, theta: Floats) -> tuple[float, Floats]:
        """(a, u) of the first θ_i = a p_i + F_iᵀ u: given weights count as their own Gibbs distribution."""
        a = -self.head_start
        if not theta.any():
            return a, theta
        scale = problem.loss.beta if problem.loss.smooth else 1.0
        return a + scale * problem.loss.gamma, scale * theta


@register_learner("eg")
@dataclass(frozen=True)
class EG(DualEG):
    """Batch exponentiated gradient: all θ_i move together, one pass over the data per step.

    Bartlett et al. (2004), Figure 2.

    Parameters
    ----------
    form : {"primal", "dual"}
        Keep vectors of weights, or the θ_i: the same sequence of w.
    eta : float, "adaptive", "theorem2" or "smooth"
        η, one that grows and shrinks, or one of the bounds of :mod:`partwise.learners.eg_steps` with which the dual
        never falls.

    Examples
    --------
    >>> from partwise.features import MatrixFeatures
    >>> from partwise.structures import Multiclass
    >>> matrices = [np.eye(2), -np.eye(2), 2 * np.eye(2)]
    >>> problem = Problem(Multiclass(3, 2), MatrixFeatures(matrices), [0, 1, 0], "svm")
    >>> result = EG(C=10.0).fit(problem)
    >>> result.status, result.theta.round(2).tolist()
    ('converged', [0.5, -0.5])
    """

    constrains: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = ("adaptive", *BOUNDS)

    max_passes: int = 500
    form: str = "primal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in ("primal", "dual"):
            raise ParameterError("form", "EG", "'primal' or 'dual'", self.form)

    def check(self, problem: Any) -> None:
        super().check(problem)
        if self.eta in BOUNDS and "argmax" not in problem.oracles:
            name = type(getattr(problem, "space", problem)).__name__
            raise CapabilityError(f"{name} has no oracle 'argmax', which eta={self.eta!r} needs; use eta='adaptive'")
        if self.eta == "theorem2" and problem.loss.smooth:
            raise CapabilityError(
                f"Theorem 2 is about β = ∞, not {problem.loss}; use eta='smooth', which covers the entropy in its dual"
            )

    def first_rate(self, problem: Problem) -> float:
        if self.eta not in BOUNDS:
            return super().first_rate(problem)
        return float(getattr(self.bounds(problem), str(self.eta))) * self.C

    def bounds(self, problem: Problem) -> StepBounds:
        """The step sizes that the data allows."""
        return step_bounds(problem, self.C)

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        a, u = self.first_scores(problem, theta)
        size = int(problem.part_offsets[-1]) if self.form == "dual" else 0
        state: State = {
            "rate": self.first_rate(problem),
            "a": a,
            "u": u,
            "scores": np.zeros(size),
            "v": np.zeros(problem.dim),
            "theta": np.zeros(problem.dim),
            "constant": 0.0,
            "dual": -np.inf,
            "primal": np.inf,
            "best": np.array([np.inf, -np.inf]),
        }
        self._move(problem, state, np.zeros(0), 0.0, u, 1.0, a)
        if self.form == "dual":
            state["u"] = np.zeros(0)
        return state

    def gibbs(
        self, problem: Problem, old: Floats, keep: float, weights: Floats, step: float, a: float, new: Floats
    ) -> tuple[Floats, Floats]:
        """((Σ_i E ℓ_i, Σ_i H_i), Σ_i F_i (z_i − μ_i)) at θ_i = keep·old_i + step·F_iᵀ weights + a p_i: the kernel."""
        v, totals = np.zeros(problem.dim), np.zeros(2)
        problem.run(
            gibbs_pass, without_loss(problem), problem.part_offsets, old, keep, weights, step, a, problem.buffers(),
            new, v, totals,
        )  # fmt: skip
        return totals, v

    def _move(
        self, problem: Problem, state: State, old: Floats, keep: float, weights: Floats, step: float, a: float
    ) -> bool:
        """Set the θ_i, unless that lowers the dual and η is adaptive; returns whether it was done."""
        domain, loss = self.domain(problem), problem.loss
        new = np.zeros(len(state["scores"]))
        totals, v = self.gibbs(problem, old, keep, weights, step, a, new)
        constant = loss.gamma * float(totals[0]) + float(totals[1]) / loss.beta
        dual = self.dual(problem, constant, v)
        if self.eta == "adaptive" and np.isfinite(state["dual"]):
            # the tangent of −min Ω − θᵀv at the old v: what the step would gain if the dual had no curvature
            slope = constant - state["constant"] + dot(state["theta"], state["v"] - v)
            if not problem.m * (dual - state["dual"]) >= ENOUGH * slope:
                return False
        theta = domain.best(v)
        state.update(scores=new, v=v, theta=theta, constant=constant, dual=dual, primal=self.primal(problem, theta))
        return True

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        delta, theta, loss = state["rate"], state["theta"], problem.loss
        keep = 1.0 - delta / loss.beta
        if self.form == "primal":
            a, u = keep * state["a"] + delta * loss.gamma, keep * state["u"] + delta * theta
            moved = self._move(problem, state, np.zeros(0), 0.0, u, 1.0, a)
            if moved:
                state.update(a=a, u=u)
        else:
            moved = self._move(problem, state, state["scores"], keep, theta, delta, delta * loss.gamma)
        if self.eta == "adaptive":
            state["rate"] = min(delta * self.growth if moved else 0.5 * delta, loss.beta)
        return judged(self, state, state["primal"], state["dual"], eta=delta / self.C, moved=float(moved))

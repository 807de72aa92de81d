"""Dual ascent by projections: the block of one instance at a time, moved along its gradient and projected back.

With a dual point μ_i per instance, u_i = μ_i − z_i and θ = −C Σ_i w_i F_i u_i (see
:mod:`partwise.learners.domains`), the dual as a function of μ_i alone has the gradient w_i(γp_i + F_iᵀθ) and the
Hessian −C w_i² F_iᵀF_i. So with κ_i = λ_max(F_iᵀF_i)

    μ_i ← Π( μ_i + (γp_i + F_iᵀθ) / (C w_i κ_i) ),         Π the Euclidean projection onto the marginal polytope,

never lowers it. Where F_iᵀF_i = κ_i·I, as for one label out of L with a copy of x for each, κ_i = ‖x‖², this is the
exact maximum over the block: the sequential dual method of Keerthi et al. (2008) for the multi-class SVM of Crammer
and Singer (2001). Elsewhere the step along the projected direction δ is the best one, t = min(1, ⟨gradient, δ⟩ /
(C w_i² ‖F_i δ‖²)).

Most instances soon stop moving. A pass sweeps over all of them once and then, again and again, only over those that
moved in the last sweep, always in the order that the pass has drawn.

Once the faces are found, such sweeps are a linear iteration, slow where the Hessian is ill-conditioned. So ``MEMORY``
sweeps are followed by an Anderson extrapolation (Bertrand and Massias 2021, for coordinate descent) of those that
moved: with μ⁽ᵏ⁾ after sweep k,

    μ_i ← Π( Σ_k c_k μ_i⁽ᵏ⁾ ),         c = argmin ‖Σ_k c_k (μ⁽ᵏ⁾ − μ⁽ᵏ⁻¹⁾)‖   over Σ_k c_k = 1,

which is kept where the dual is higher there: it never falls, and it is always that of a feasible point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import dot
from partwise.exceptions import ParameterError
from partwise.features.base import accumulate, feature_scores, norm_and_clear, squared_norm
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import CertifiedLearner, gather
from partwise.losses import LossFunction, add_cost
from partwise.problem import Buffers, Problem
from partwise.structures.base import part_count, project

__all__ = ["ProjectedAscent"]

#: Rounds of the power method for λ_max, and what it is multiplied by where they do not settle it.
ROUNDS, MARGIN = 20, 1.1

#: Sweeps that an extrapolation mixes.
MEMORY = 5
#: One instance of so many may still move: a linear iteration before that is unlikely, and memory stays small.
FEW = 3


@kernel
def curvatures(data, gamma, buffers, scratch, found, exact):
    """found[i] ← λ_max(F_iᵀF_i) by the power method; exact[i] ← 1 where F_iᵀF_i is a multiple of the identity."""
    for i in range(found.shape[0]):
        n = part_count(data.space, i)
        v, u = buffers.parts[:n], buffers.scores[:n]
        size = 0.0
        for r in range(n):
            v[r] = 1.0 + 0.5 * np.sin(1.7 * r + 0.3)  # no symmetry of a feature map is its own
            size += v[r] * v[r]
        value = 0.0
        for turn in range(ROUNDS):
            for r in range(n):
                v[r] /= np.sqrt(size)
            accumulate(data.features, i, v, 0, 1.0, scratch)
            feature_scores(data.features, i, scratch, buffers.scores, 0)
            norm_and_clear(data.features, i, v, 0, scratch)
            value, size, off = 0.0, 0.0, 0.0
            for r in range(n):
                value += u[r] * v[r]
                size += u[r] * u[r]
            for r in range(n):
                off += abs(u[r] - value * v[r])
            if turn == 0 and off <= 1e-10 * value * n:
                exact[i] = 1
                break
            if size == 0.0:
                break
            for r in range(n):
                v[r] = u[r]
        found[i] = value if exact[i] == 1 else MARGIN * value


@kernel
def ascent_sweep(data, offsets, order, C, weights, gamma, curvature, exact, theta, masses, moved, buffers, scratch):
    """Visits in the given order; moved[i] ← how far μ_i went, in the 1-norm."""
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        scores, parts, own = buffers.scores[:n], buffers.parts[:n], masses[offsets[i] : offsets[i + 1]]
        slope = buffers.spare[:n]
        moved[i] = 0.0
        if weights[i] == 0.0 or (curvature[i] == 0.0 and exact[i] == 1):
            continue
        feature_scores(data.features, i, theta, buffers.scores, 0)
        add_cost(data.cost, i, gamma, scores)
        step = 1.0 / max(C * weights[i] * curvature[i], 1e-300)
        for r in range(n):
            slope[r] = scores[r]
            scores[r] = own[r] + step * scores[r]
        project(data.space, i, scores, buffers.work, parts)
        gain, size = 0.0, 0.0
        for r in range(n):
            parts[r] -= own[r]
            if parts[r] != 0.0:
                gain += parts[r] * slope[r]
                size += abs(parts[r])
        if not gain > 0.0:
            continue
        t = 1.0
        if exact[i] == 0:
            norm = C * weights[i] * squared_norm(data.features, i, parts, scratch)
            t = min(1.0, gain / norm) if norm > 0.0 else 1.0
        for r in range(n):
            own[r] += t * parts[r]
        accumulate(data.features, i, parts, 0, -C * weights[i] * t, theta)
        moved[i] = t * size


@kernel
def extrapolate(data, offsets, chosen, history, mix, C, weights, gamma, theta, masses, buffers):
    """μ_i ← Π(Σ_k mix_k μ_i⁽ᵏ⁾) for the chosen instances, θ with it; returns by how much Σ_i w_i γ ℓ(μ_i) rises.

    ``history[k]`` holds their μ_i⁽ᵏ⁾ side by side.
    """
    gain, start = 0.0, 0
    for place in range(chosen.shape[0]):
        i = chosen[place]
        n = part_count(data.space, i)
        scores, parts, own = buffers.scores[:n], buffers.parts[:n], masses[offsets[i] : offsets[i + 1]]
        for r in range(n):
            scores[r] = 0.0
        for k in range(mix.shape[0]):
            for r in range(n):
                scores[r] += mix[k] * history[k, start + r]
        project(data.space, i, scores, buffers.work, parts)
        for r in range(n):
            scores[r] = 0.0
        add_cost(data.cost, i, gamma, scores)
        for r in range(n):
            parts[r] -= own[r]
            gain += weights[i] * parts[r] * scores[r]
            own[r] += parts[r]
        accumulate(data.features, i, parts, 0, -C * weights[i], theta)
        start += n
    return gain


@kernel
def copy_masses(offsets, chosen, masses, out):
    """out ← the μ_i of the chosen instances, side by side."""
    start = 0
    for place in range(chosen.shape[0]):
        for r in range(offsets[chosen[place]], offsets[chosen[place] + 1]):
            out[start] = masses[r]
            start += 1


@kernel
def mass_costs(data, offsets, weights, gamma, masses, buffers):
    """Σ_i w_i γ ℓ(μ_i)."""
    total = 0.0
    for i in range(offsets.shape[0] - 1):
        n = part_count(data.space, i)
        scores = buffers.scores[:n]
        for r in range(n):
            scores[r] = 0.0
        cost = gamma * add_cost(data.cost, i, gamma, scores)
        for r in range(n):
            cost += scores[r] * masses[offsets[i] + r]
        total += weights[i] * cost
    return total


class Recent:
    """The points that some instances passed through in the last sweeps, for an extrapolation."""

    def __init__(self, problem: Problem, chosen: NDArray[np.int64], masses: Floats) -> None:
        self.chosen, self.count = chosen, 0
        size = int((problem.part_offsets[chosen + 1] - problem.part_offsets[chosen]).sum())
        self.points = np.empty((MEMORY + 1, size))  # their μ_i side by side: at the start, then after every sweep
        problem.run(copy_masses, problem.part_offsets, chosen, masses, self.points[0])

    def append(self, problem: Problem, masses: Floats) -> bool:
        """Remember the present point; whether there are enough of them."""
        self.count += 1
        problem.run(copy_masses, problem.part_offsets, self.chosen, masses, self.points[self.count])
        return self.count == MEMORY

    def mixture(self) -> Floats:
        """argmin_c ‖Σ_k c_k (μ⁽ᵏ⁾ − μ⁽ᵏ⁻¹⁾)‖ over Σ_k c_k = 1: c ∝ G⁻¹1, G their products, a little regularised."""
        steps = np.diff(self.points, axis=0)
        products = steps @ steps.T
        products.flat[:: MEMORY + 1] += 1e-10 * np.trace(products)
        mix = np.linalg.solve(products, np.ones(MEMORY))
        return np.asarray(mix / mix.sum())


@register_learner("projected_ascent")
@dataclass(frozen=True)
class ProjectedAscent(CertifiedLearner):
    """Dual block-coordinate ascent with projections onto the marginal polytope: the SVM's and the perceptron's loss.

    A start θ ≠ 0 is kept where no pass finds a better one.

    Parameters
    ----------
    sweeps : int
        Maximum number of sweeps per pass over the instances that still move; then primal, dual and gap are reported.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"project"})
    weighs: ClassVar[bool] = True

    max_passes: int = 100
    sweeps: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sweeps >= 1:
            raise ParameterError("sweeps", type(self).__name__, "at least 1", self.sweeps)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.augmented and not loss.smooth

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        curvature, exact = np.zeros(problem.m), np.zeros(problem.m, np.int64)
        data, scratch = self._data(problem), np.zeros(problem.dim)
        problem.run(curvatures, data, problem.loss.gamma, problem.buffers(), scratch, curvature, exact)
        return {
            "theta": np.zeros(problem.dim),
            "masses": problem.gold_parts(),
            "moved": np.ones(problem.m),
            "curvature": curvature,
            "exact": exact,
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
            "answer": np.zeros(problem.dim),
            "primal": np.inf,
            "best_dual": -np.inf,
        }

    def _data(self, problem: Problem) -> Any:
        return problem.data._replace(loss=problem.loss.pack)  # the weights go into C

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        weights = np.ones(problem.m) if problem.weights is None else problem.weights
        data, offsets, gamma = self._data(problem), problem.part_offsets, problem.loss.gamma
        masses, moved, theta = state["masses"], state["moved"], state["theta"]
        buffers, scratch = problem.buffers(), np.zeros(problem.dim)
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        active, visits, recent = rng.permutation(problem.m), 0, None
        state["rng"] = rng.bit_generator.state
        for _ in range(self.sweeps):
            problem.run(
                ascent_sweep, data, offsets, active, self.C, weights, gamma, state["curvature"], state["exact"], theta,
                masses, moved, buffers, scratch,
            )  # fmt: skip
            visits += len(active)
            active = active[moved[active] > 1e-9]
            if not len(active):
                break
            if recent is not None and recent.append(problem, masses):
                visits += len(recent.chosen)
                self._extrapolate(problem, recent, weights, theta, masses, buffers)
                recent = None
            if recent is None and len(active) * FEW <= problem.m:
                recent = Recent(problem, active, masses)
        # afresh, so that rounding does not add up: the dual is that of these masses
        v, own = np.zeros(problem.dim), state["masses"] - problem.gold_parts()
        own *= np.repeat(weights, np.diff(offsets))
        problem.run(gather, data, offsets, own, -1.0, v)
        theta[:] = self.C * v
        constant = float(problem.run(mass_costs, data, offsets, weights, gamma, state["masses"], buffers))
        dual = (constant - 0.5 * dot(theta, theta) / self.C) / problem.m
        state["best_dual"] = max(state["best_dual"], dual)
        primal = self.primal(problem, theta)
        if primal < state["primal"]:
            state["answer"], state["primal"] = theta.copy(), primal
        known = self.assess(state["primal"], dual, state["best_dual"], visits=float(visits) / problem.m)
        return {**known, "stalled": not moved.any()}

    def _extrapolate(
        self, problem: Problem, recent: Recent, weights: Floats, theta: Floats, masses: Floats, buffers: Buffers
    ) -> None:
        """Mix the recent points, and go back to the last of them where the dual is not higher."""
        move = [self._data(problem), problem.part_offsets, recent.chosen, recent.points[1:], np.zeros(MEMORY)]
        move += [self.C, weights, problem.loss.gamma, theta, masses, buffers]
        before, move[4] = dot(theta, theta), recent.mixture()
        rise = problem.run(extrapolate, *move)
        if not rise > 0.5 * (dot(theta, theta) - before) / self.C:
            move[4] = np.eye(MEMORY)[-1]
            problem.run(extrapolate, *move)

    def weights(self, state: State) -> Floats:
        return np.array(state["answer"])

"""SMO on the factored dual, and the hybrid that hands over to exponentiated gradient.

The hinge's dual in part space (Taskar, Guestrin and Koller 2004) has marginals μ_i in place of distributions α_i,

    max_μ  Σ_i γ ℓ_i(μ_i) − C/2 ‖v‖²,     v = Σ_i F_i (z_i − μ_i),   w = C v,   μ_i in the marginal polytope.

A step moves mass ε from one output to another, μ_i ← μ_i + ε d with d = z⁺ − z⁻. With g = γ p_i + F_iᵀ w the dual rises
by ε g·d − C/2 ε² ‖F_i d‖², most for

    ε = min( g·d / (C ‖F_i d‖²),  min{ μ_{i,r} : r in z⁻, not in z⁺ } ),

the second being where μ_i would leave the polytope. The pair is the one that violates optimality most: z⁺ of largest
g·z of all outputs, z⁻ of least g·z of those whose every part has mass in μ_i. No list of outputs is kept.

**Hybrid** (Bartlett et al. 2004, §5): SMO is quick at first and slow later, EG the reverse. After some passes of SMO
the marginals become Gibbs parameters, log-conditionals of the cliques, and EG continues from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise.exceptions import ParameterError
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import CertifiedLearner, gather
from partwise.learners.eg import judged, without_loss
from partwise.learners.online_eg import OnlineEG, expected_costs
from partwise.losses import LossFunction, add_cost
from partwise.problem import Problem
from partwise.structures.base import argmax, part_count, support_argmin

__all__ = ["SMO", "HybridEG"]


@kernel
def smo_pass(data, offsets, order, C, gamma, pairs, masses, buffers, gains, scratch, w):
    """Up to ``pairs`` steps on each instance in the given order; returns the number of steps taken.

    ``gains`` has room for the parts of an instance, ``scratch`` (dim,) holds zeros.
    """
    steps = 0
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        mass = masses[offsets[i] : offsets[i + 1]]
        g, d, least = gains[:n], buffers.parts[:n], buffers.spare[:n]
        for _ in range(pairs):
            feature_scores(data.features, i, w, gains, 0)
            if gamma != 0.0:
                add_cost(data.cost, i, gamma, g)
            best = argmax(data.space, i, g, buffers.work, d)
            support_argmin(data.space, i, g, mass, buffers.work, least)
            slope, limit = 0.0, np.inf
            for r in range(n):
                d[r] -= least[r]
                slope += g[r] * d[r]
                if d[r] < 0.0:
                    limit = min(limit, -mass[r] / d[r])
            if slope <= 1e-12 * (1.0 + abs(best)):
                break
            curvature = C * squared_norm(data.features, i, d, scratch)
            step = limit if curvature * limit <= slope else slope / curvature
            for r in range(n):
                if d[r] != 0.0:
                    mass[r] = max(mass[r] + step * d[r], 0.0)
            accumulate(data.features, i, d, 0, -C * step, w)
            steps += 1
    return steps


@register_learner("smo")
@dataclass(frozen=True)
class SMO(CertifiedLearner):
    """Sequential minimal optimisation of the factored dual of the hinge. It keeps μ_i, one number per part.

    Parameters
    ----------
    pairs : int
        Maximum number of steps on an instance before moving on to the next.
    shuffle : bool
        Visit the instances in a new random order in every pass.

    Examples
    --------
    >>> from partwise.features import MatrixFeatures
    >>> from partwise.structures import Multiclass
    >>> matrices = [np.eye(2), -np.eye(2), 2 * np.eye(2)]
    >>> problem = Problem(Multiclass(3, 2), MatrixFeatures(matrices), [0, 1, 0], "svm")
    >>> result = SMO(C=10.0).fit(problem)
    >>> result.status, result.theta.round(2).tolist()
    ('converged', [0.5, -0.5])
    """

    needs: ClassVar[frozenset[str]] = frozenset({"support"})

    max_passes: int = 200
    pairs: int = 1
    shuffle: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pairs >= 1:
            raise ParameterError("pairs", type(self).__name__, "at least 1", self.pairs)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.augmented and not loss.smooth

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        """All mass on the gold outputs, so that w = 0: a dual point has its own w, and a given θ is not used."""
        return {
            "masses": problem.gold_parts(),
            "theta": np.zeros(problem.dim),
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
            "best": np.array([np.inf, -np.inf]),
        }

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        order = rng.permutation(problem.m) if self.shuffle else np.arange(problem.m)
        state["rng"] = rng.bit_generator.state
        offsets, gamma, buffers = problem.part_offsets, problem.loss.gamma, problem.buffers()
        steps = problem.run(
            smo_pass, without_loss(problem), offsets, order, self.C, gamma, self.pairs, state["masses"], buffers,
            np.zeros(len(buffers.scores)), np.zeros(problem.dim), state["theta"],
        )  # fmt: skip
        v = np.zeros(problem.dim)  # summed afresh: rounding must not add up over many steps
        problem.run(gather, without_loss(problem), offsets, problem.gold_parts() - state["masses"], 1.0, v)
        state["theta"] = self.C * v
        dual = self.dual(problem, gamma * expected_costs(problem, state["masses"]), v)
        return judged(self, state, self.primal(problem, state["theta"]), dual, steps=float(steps))


@register_learner("smo_eg")
@dataclass(frozen=True)
class HybridEG(OnlineEG):
    """SMO first, then online EG from the Gibbs parameters of SMO's marginals: §5 of Bartlett et al. (2004).

    Parameters
    ----------
    smo_passes : int
        Passes of SMO before EG takes over.
    pairs : int
        As for :class:`SMO`.
    smoothing : float in (0, 1)
        Share of the uniform distribution that is mixed in at the handover: a Gibbs distribution has no zeros.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"marginals", "support", "gibbs"})
    losses: ClassVar[str] = "convex losses with β = ∞"

    smo_passes: int = 5
    pairs: int = 1
    smoothing: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.smo_passes >= 0:
            raise ParameterError("smo_passes", "HybridEG", "at least 0", self.smo_passes)
        if not 0 < self.smoothing < 1:
            raise ParameterError("smoothing", "HybridEG", "between 0 and 1", self.smoothing)
        if not self.pairs >= 1:
            raise ParameterError("pairs", "HybridEG", "at least 1", self.pairs)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.augmented and not loss.smooth

    @property
    def first(self) -> SMO:
        """The SMO that begins."""
        shared = {name: getattr(self, name) for name in ("C", "tolerance", "random_state", "pairs", "shuffle")}
        return SMO(**shared)

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        return {**self.first.start(problem, theta, score), "left": self.smo_passes}

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        if state["left"] > 0:
            state["left"] -= 1
            return {**self.first.advance(problem, state)}
        if "scores" not in state:
            self._hand_over(problem, state)
        return super().advance(problem, state)

    def _hand_over(self, problem: Problem, state: State) -> None:
        """μ_i → θ_i, as :meth:`OnlineEG.start_from` wants them."""
        scores = np.zeros(problem.part_offsets[-1])
        for i in range(problem.m):
            here = slice(problem.part_offsets[i], problem.part_offsets[i + 1])
            _, uniform = problem.space.marginals(i, scores[here])
            mixed = (1.0 - self.smoothing) * state["masses"][here] + self.smoothing * uniform
            found = problem.space.gibbs(i, mixed)
            # a forbidden part has no mass in the uniform distribution either: its score never counts, but is finite
            scores[here] = np.where(np.isneginf(found), 0.0, found)
        begun = self.start_from(problem, scores)
        state.update({**begun, "rng": state["rng"], "best": state["best"]})

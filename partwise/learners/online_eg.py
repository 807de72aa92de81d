"""Online exponentiated gradient: one instance at a time, w up to date at every step (Bartlett et al. 2004, §5).

    θ_i ← (1 − δ/β) θ_i + δ (γ p_i + F_iᵀ w),     w ← w − C F_i (μ_i' − μ_i),     δ = ηC.

With d = μ_i' − μ_i and the part scores g = γ p_i + F_iᵀ w the dual (times m) changes by exactly

    g·d + (H' − H)/β − C/2 ‖F_i d‖²,

so that an adaptive η can be one for every instance: a step that would not raise the dual enough is halved before it
is taken.
Collins et al. (2008) prove that the step of relative smoothness, δ ≤ 1/(C ρ_i² + 1/β), never needs that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import gather
from partwise.learners.eg import ENOUGH, DualEG, judged, without_loss
from partwise.losses import add_cost
from partwise.problem import Problem
from partwise.structures.base import marginals, part_count

__all__ = ["OnlineEG"]

HALVINGS = 40  # a step that small changes nothing


def expected_costs(problem: Problem, masses: Floats) -> float:
    """Σ_i p_i·μ_i + q_i."""
    cost = problem.data.cost
    places = cost.numbers + np.repeat(problem.part_offsets[:-1], np.diff(cost.offsets))
    result: float = dot(cost.values, masses[places]) + float(cost.constants.sum())
    return result


@kernel
def online_eg_pass(
    data, offsets, order, C, gamma, temperature, growth, rates, scores, masses, entropies, buffers, gains, scratch, w
):  # fmt: skip
    """A pass in the given order with δ = rates[i]; growth > 0: adaptive. ``temperature`` is 1/β.

    Returns how many oracle calls it took. ``gains`` has room for the parts of an instance, ``scratch`` (dim,) holds
    zeros.
    """
    calls = 0
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        start = offsets[i]
        trial, parts, d = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        feature_scores(data.features, i, w, gains, 0)
        if gamma != 0.0:
            add_cost(data.cost, i, gamma, gains)
        delta = rates[i]
        for _ in range(HALVINGS):
            keep = 1.0 - delta * temperature
            for r in range(n):
                trial[r] = keep * scores[start + r] + delta * gains[r]
            entropy = marginals(data.space, i, trial, buffers.work, parts)
            calls += 1
            change, slope = 0.0, 0.0
            for r in range(n):
                d[r] = parts[r] - masses[start + r]
                change += gains[r] * d[r]
                if parts[r] != 0.0:
                    entropy -= trial[r] * parts[r]
            if growth == 0.0:
                break
            change += temperature * (entropy - entropies[i])
            slope = change
            change -= 0.5 * C * squared_norm(data.features, i, d, scratch)
            if change >= ENOUGH * slope:
                break
            delta *= 0.5
        if growth > 0.0:
            rates[i] = delta * growth if temperature == 0.0 else min(delta * growth, 1.0 / temperature)
            if change < 0.0:  # rounding: the instance is at its optimum
                continue
        for r in range(n):
            scores[start + r] = trial[r]
            masses[start + r] = parts[r]
        entropies[i] = entropy
        accumulate(data.features, i, d, 0, -C, w)
    return calls


@register_learner("online_eg")
@dataclass(frozen=True)
class OnlineEG(DualEG):
    """Exponentiated gradient, one instance at a time: far fewer passes than :class:`~partwise.learners.eg.EG`.

    It keeps θ_i and μ_i, two numbers per part.

    Parameters
    ----------
    shuffle : bool
        Visit the instances in a new random order in every pass.
    head_start : float
        Starting near the gold outputs, where w is small, makes the first pass cheapest; see
        :class:`~partwise.learners.eg.DualEG`.

    Examples
    --------
    >>> from partwise.features import MatrixFeatures
    >>> from partwise.structures import Multiclass
    >>> matrices = [np.eye(2), -np.eye(2), 2 * np.eye(2)]
    >>> problem = Problem(Multiclass(3, 2), MatrixFeatures(matrices), [0, 1, 0], "crf")
    >>> result = OnlineEG(C=10.0, tolerance=1e-6).fit(problem)
    >>> result.certificate.relative_gap <= 1e-6
    True
    """

    max_passes: int = 500
    growth: float = 1.5
    head_start: float = 10.0
    shuffle: bool = True

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        a, u = self.first_scores(problem, theta)
        scores = np.zeros(problem.part_offsets[-1])
        for i in range(problem.m):
            here = scores[problem.part_offsets[i] : problem.part_offsets[i + 1]]
            add_cost(problem.data.cost, i, a, here)
            if u.any():
                here += problem.scores(i, u)
        return self.start_from(problem, scores)

    def start_from(self, problem: Problem, scores: Floats) -> State:
        """The state with these θ_i, side by side."""
        state: State = {
            "rates": np.full(problem.m, self.first_rate(problem)),
            "scores": scores,
            "masses": problem.gold_parts(),
            "entropies": np.zeros(problem.m),
            "theta": np.zeros(problem.dim),
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
            "best": np.array([np.inf, -np.inf]),
        }
        # a step of size 0 from the gold outputs, where w = 0, to the θ_i
        self._one_pass(problem, state, np.arange(problem.m), np.zeros(problem.m), 0.0)
        return state

    def _one_pass(self, problem: Problem, state: State, order: Any, rates: Floats, growth: float) -> int:
        loss, buffers = problem.loss, problem.buffers()
        calls = problem.run(
            online_eg_pass, without_loss(problem), problem.part_offsets, order, self.C, loss.gamma, 1.0 / loss.beta,
            growth, rates, state["scores"], state["masses"], state["entropies"], buffers,
            np.zeros(len(buffers.scores)), np.zeros(problem.dim), state["theta"],
        )  # fmt: skip
        return int(calls)

    def _direction(self, problem: Problem, state: State) -> Floats:
        """v = Σ_i F_i (z_i − μ_i), summed afresh: rounding must not add up over many steps."""
        v = np.zeros(problem.dim)
        duals = problem.gold_parts() - state["masses"]
        problem.run(gather, without_loss(problem), problem.part_offsets, duals, 1.0, v)
        return v

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        order = rng.permutation(problem.m) if self.shuffle else np.arange(problem.m)
        state["rng"] = rng.bit_generator.state
        growth, loss = self.growth if self.eta == "adaptive" else 0.0, problem.loss
        calls = self._one_pass(problem, state, order, state["rates"], growth)
        v = self._direction(problem, state)
        state["theta"] = self.C * v
        cost = expected_costs(problem, state["masses"])
        dual = self.dual(problem, loss.gamma * cost + float(state["entropies"].sum()) / loss.beta, v)
        rate = float(np.median(state["rates"])) / self.C
        return judged(self, state, self.primal(problem, state["theta"]), dual, eta=rate, calls=calls / problem.m)

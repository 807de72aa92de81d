"""SDCA: dual coordinate ascent that remembers every instance's dual, for the smooth losses of the family.

A loss with β < ∞ is the maximum over the marginal polytope of

    L_i(θ) = max_μ  θᵀF_i(μ − z_i) + γℓ(μ) + H(μ)/β,

H(μ) being the largest entropy of a distribution with marginals μ, and the maximum is at the marginals μ̂ of the model
itself. So a dual point is one vector of marginals per instance, with u_i = μ_i − z_i and b_i = γℓ(μ_i) + H(μ_i)/β
(see :mod:`partwise.learners.domains`). A step moves μ_i towards μ̂(θ), δ = μ̂ − μ_i, by the t that maximises

    m·ΔD(t) = t·a + [H(μ_i + tδ) − H(μ_i)]/β − t²/2 · C ‖F_i δ‖²,      a = γ(ℓ(μ̂) − ℓ(μ_i)) + θᵀF_i δ,

a concave function of one variable: Shalev-Shwartz and Zhang (2013), for structures Le Priol, Piché and Lacoste-Julien
(2018). DCA as in Martins et al. (2010) takes the same steps but forgets μ_i, so that it is a heuristic after its first
pass; this one converges to the batch optimum, and its gap falls geometrically.

Every instance starts at its gold output, where H = 0, its slope is infinite and θ = 0: the first visit
takes it inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.blocks import BlockLearner, draw, put
from partwise.learners.certified import cut_of
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.base import marginal_entropy, part_count

__all__ = ["SDCA"]

#: The line search ends when what it may still gain is this share of the block's gap.
ACCURACY = 0.01
#: … or after this many evaluations of the entropy.
EVALUATIONS = 20


@kernel
def ascent_pass(
    data, offsets, order, draws, tree, C, weights, beta, guide, theta, duals, linear, entropies, steps, gaps,
    buffers, kept, scratch,
):  # fmt: skip
    """m visits. An instance of weight w has a C of its own, C·w.

    ``duals`` holds the μ_i side by side, ``linear`` γℓ(μ_i), ``entropies`` H(μ_i), ``steps`` last t.
    """
    source = guide if guide.shape[0] > 0 else theta
    for place in range(order.shape[0]):
        i = order[place]
        if tree.shape[0] > 0 and tree[1] > 0.0:
            i = draw(tree, draws[place])
        first = offsets[i]
        n = part_count(data.space, i)
        own, target = duals[first : offsets[i + 1]], buffers.parts[:n]
        direction, point = buffers.spare[:n], buffers.scores[:n]
        _, constant = cut_of(data, i, source, buffers, kept)
        if guide.shape[0] > 0:
            feature_scores(data.features, i, theta, kept, 0)
        slope = 0.0  # θᵀF_i δ
        for j in range(data.gold.offsets[i], data.gold.offsets[i + 1]):
            target[data.gold.numbers[j]] += data.gold.values[j]
        for r in range(n):
            target[r] = max(target[r], 0.0)
            direction[r] = target[r] - own[r]
            if direction[r] != 0.0:
                slope += direction[r] * kept[r]
        entropy, steep = marginal_entropy(data.space, i, target, direction)
        far = constant - entropy / beta  # γℓ(μ̂)
        gap = slope + constant - linear[i] - entropies[i] / beta
        slope += far - linear[i]
        gaps[i] = weights[i] * max(gap, 0.0)
        if gap > 1e-15 * (1.0 + abs(constant)):
            norm = C * weights[i] * squared_norm(data.features, i, direction, scratch)
            # the zero of the slope of ΔD, which falls from D'(0) > 0
            low, high, low_rise, high_rise = 0.0, 1.0, np.inf, slope + steep / beta - norm
            t = 1.0
            if high_rise < 0.0:
                t = 0.0
                guess = steps[i]
                for _ in range(EVALUATIONS):
                    for r in range(n):
                        point[r] = own[r] + guess * direction[r]
                    entropy, steep = marginal_entropy(data.space, i, point, direction)
                    rise = slope + steep / beta - guess * norm
                    gain = guess * slope + (entropy - entropies[i]) / beta - 0.5 * guess * guess * norm
                    if gain > 0.0 and abs(rise) * (high - low) <= ACCURACY * gap:
                        t = guess
                        break
                    if rise > 0.0:
                        low, low_rise = guess, rise
                    else:
                        high, high_rise = guess, rise
                    guess = 0.5 * (low + high)
                    if low_rise < np.inf:  # the secant, kept away from the ends
                        cross = low + (high - low) * low_rise / (low_rise - high_rise)
                        guess = min(max(cross, low + 0.05 * (high - low)), high - 0.05 * (high - low))
                else:
                    t = low
                    for r in range(n):
                        point[r] = own[r] + t * direction[r]
                    entropy, steep = marginal_entropy(data.space, i, point, direction)
            if t > 0.0:
                steps[i] = min(max(t, 1e-3), 0.999)
                linear[i] += t * (far - linear[i])
                entropies[i] = entropy
                for r in range(n):
                    own[r] = target[r] if t == 1.0 else max(own[r] + t * direction[r], 0.0)
                accumulate(data.features, i, direction, 0, -C * weights[i] * t, theta)
        if tree.shape[0] > 0:
            put(tree, i, gaps[i])


@register_learner("sdca")
@dataclass(frozen=True)
class SDCA(BlockLearner):
    """Dual coordinate ascent over remembered marginals: CRFs and all losses with β < ∞, to any gap.

    The entropy of given marginals must be known (the oracle ``marginal_entropy``): a chain must be untied, with the
    transition weights shared by its features. ``SequenceLabeler(learner="sdca")`` sees to that. A start θ ≠ 0 gives
    the directions of the first pass.

    Parameters
    ----------
    sampling : {"permutation", "uniform", "gap"}
        How the m visits of a pass are chosen; "gap" in proportion to the last block gaps, KL(μ_i ‖ μ̂)/β
        (Le Priol et al. 2018, §3.3).
    """

    needs: ClassVar[frozenset[str]] = frozenset({"marginal_entropy"})
    losses: ClassVar[str] = "convex losses with β < ∞"
    weighs: ClassVar[bool] = True

    def accepts(self, loss: LossFunction) -> bool:
        return loss.convex and loss.smooth

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        return {
            **self.visiting_state(problem),
            "guide": theta if theta.any() else np.zeros(0),
            "theta": np.zeros(problem.dim),
            "duals": problem.gold_parts(),
            "linear": np.zeros(problem.m),
            "entropies": np.zeros(problem.m),
            "steps": np.full(problem.m, 0.5),
            "best_dual": -np.inf,
        }

    def visit(self, problem: Problem, state: State, order: Any, draws: Floats, tree: Floats) -> None:
        buffers = problem.buffers()
        data = problem.data._replace(loss=problem.loss.pack)  # duals are marginals: the weights go into C
        problem.run(
            ascent_pass, data, problem.part_offsets, order, draws, tree, self.C, self._weights(problem),
            problem.loss.beta, state["guide"], state["theta"], state["duals"], state["linear"],
            state["entropies"], state["steps"], state["gaps"], buffers, np.empty_like(buffers.scores),
            np.zeros(problem.dim),
        )  # fmt: skip
        state["guide"] = np.zeros(0)

    def _weights(self, problem: Problem) -> Floats:
        return np.ones(problem.m) if problem.weights is None else problem.weights

    def constant(self, problem: Problem, state: State) -> float:
        weights = self._weights(problem)
        result: float = dot(weights, state["linear"]) + dot(weights, state["entropies"]) / problem.loss.beta
        return result

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        self.visit(problem, state, *self.visits(problem, state))
        theta, constant = state["theta"], self.constant(problem, state)
        dual = (constant - 0.5 * dot(theta, theta) / self.C) / problem.m
        state["best_dual"] = max(state["best_dual"], dual)
        return self.assess(self.primal(problem, theta), dual, state["best_dual"], **self.estimate(problem, state))

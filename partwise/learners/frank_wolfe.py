"""Frank–Wolfe on the dual of a structural SVM: one argmax per step, with the step size in closed form.

The dual point is one mixture of cuts (u_i, b_i) for every instance (see :mod:`partwise.learners.domains`). A linear
function over the cuts of instance i is maximised by the loss-augmented argmax, so that the Frank–Wolfe corner costs
what a subgradient costs. With (u_s, b_s) the cut at θ and d = u_s − u_i, a step η in block i changes m·D by

    η g_i − η²/2 · C ‖F_i d‖²,        g_i = L_i(θ) − (b_i + θᵀF_i u_i)   (the block's gap),

whose maximum is η = min(1, g_i / (C ‖F_i d‖²)): Lacoste-Julien, Jaggi, Schmidt and Pletscher (2013), Algorithms 2
(batch) and 4 (block-coordinate). The dual never decreases, and the gap needs no step size nor any other setting.

Memory is one sparse vector in part space for every instance, no more than the parts of the outputs that it has met, and
not a weight vector. The cost of a step beside the oracle is that of ‖F_i d‖² and of θ ← θ − ηC F_i d over the rows
where d ≠ 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.exceptions import ParameterError
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners._cut_weights import best_step
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.blocks import BlockLearner, draw, put
from partwise.learners.certified import CertifiedLearner, cut_of
from partwise.learners.kept_cuts import FLOOR, add_up, corrective_pass, cut_state, keep_again, kept_cuts
from partwise.problem import Problem
from partwise.structures.base import part_count

__all__ = ["BatchFrankWolfe", "FrankWolfe"]


@kernel
def block_pass(
    data, order, draws, tree, C, signed, guide, raw, theta, late, gaps, mixtures, buffers, kept, scratch, counters
):  # fmt: skip
    """Visits of Algorithm 4 until the pass is over or the pool of the mixtures is full; returns how many.

    ``mixtures`` keeps (u_i, b_i) as the only cut of instance i, sparse. ``counters``: steps k, Σ_i b_i, Σ_k k·Σ_i b_i,
    calls of the oracle. ``raw`` is C v and ``theta`` the same, clipped at 0 where ``signed`` (None if nothing is);
    they may be one array. ``late`` (dim,) collects Σ_k W_{k−1} δ_k, with W_k = 1 + … + k, so that Σ_k k·θ_k is
    W_k θ_k − late.
    ``guide`` (dim,) gives the cuts in place of θ where it is not empty: a start from outside.
    """
    source = guide if guide.shape[0] > 0 else theta
    direction = np.zeros(0)
    if signed is not None:  # None is a type of its own: without signs this is not even compiled
        direction = np.zeros(raw.shape[0])
    for place in range(order.shape[0]):
        i = order[place]
        if tree.shape[0] > 0 and tree[1] > 0.0:
            i = draw(tree, draws[place])
        n = part_count(data.space, i)
        if mixtures.used[0] + n > mixtures.numbers.shape[0]:
            return place
        parts, own = buffers.parts[:n], buffers.spare[:n]
        _, constant = cut_of(data, i, source, buffers, kept)
        if guide.shape[0] > 0:
            feature_scores(data.features, i, theta, kept, 0)
        for r in range(n):
            own[r] = 0.0
        add_up(mixtures, i, 0, 1.0, own)
        rise = constant - mixtures.constants[i, 0]
        gap = rise
        for r in range(n):
            parts[r] -= own[r]
            if parts[r] != 0.0:
                gap += parts[r] * kept[r]
        gaps[i] = max(gap, 0.0)
        if gap > 0.0:
            if signed is not None:
                direction[:] = 0.0
                accumulate(data.features, i, parts, 0, -C, direction)
                step = best_step(raw, direction, signed, C, rise)
                for j in range(raw.shape[0]):
                    raw[j] += step * direction[j]
                    theta[j] = raw[j] if raw[j] > 0.0 or not signed[j] else 0.0
            else:
                norm = C * squared_norm(data.features, i, parts, scratch)
                step = gap / norm if gap < norm else 1.0
                accumulate(data.features, i, parts, 0, -C * step, theta)
            mixtures.constants[i, 0] += step * rise
            mixtures.filled[i] = 1
            counters[1] += step * rise
            for r in range(n):
                own[r] += step * parts[r]
            keep_again(mixtures, i, 0, own, n)
            if late.shape[0] > 0:
                accumulate(data.features, i, parts, 0, -C * step * 0.5 * counters[0] * (counters[0] + 1.0), late)
        if tree.shape[0] > 0:
            put(tree, i, gaps[i])
        counters[0] += 1.0
        counters[2] += counters[0] * counters[1]
        counters[3] += 1.0
    return order.shape[0]


@register_learner("frank_wolfe")
@dataclass(frozen=True)
class FrankWolfe(BlockLearner):
    """Block-coordinate Frank–Wolfe (Lacoste-Julien et al. 2013, Algorithm 4), with a certificate after every pass.

    A start θ ≠ 0 gives the cuts of the first pass, and the answer until a better one is found. Where weights must
    stay ≥ 0, θ = C·clip(v), and every step is the best one for that θ.

    Parameters
    ----------
    average : bool, optional
        Return 2/(k(k+1)) Σ_k k·θ_k instead of the last θ: less noise, and the dual point that belongs to it is the same
        average, so the certificate holds for it just as well. By default only if no cuts are kept: with cuts, the
        last θ is soon better than any average.
    sampling : {"permutation", "uniform", "gap"}
        How the m visits of a pass are chosen; "gap" goes where the block gaps are large (Osokin et al. 2016).
    cuts : int
        How many cuts of every instance are kept. A visit then finds the best weights of all of them, and skips the
        argmax where they promise enough (see :mod:`partwise.learners.kept_cuts`). 0 keeps the mixture alone:
        Algorithm 4 itself, which needs many more passes for a small gap.
    certify_every : int
        The exact primal is evaluated after this many passes (it costs about half a pass), after the first and the last,
        and whenever the sum of the block gaps suggests that training is done. That sum is only an estimate: its terms
        belong to different θ. The result is the best certified θ.
    """

    constrains: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    average: bool | None = None
    cuts: int = 10
    certify_every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cuts >= 0 or self.cuts == 1:
            raise ParameterError("cuts", type(self).__name__, "0, or at least 2", self.cuts)
        if not self.certify_every >= 1:
            raise ParameterError("certify_every", type(self).__name__, "at least 1", self.certify_every)

    @property
    def averaging(self) -> bool:
        """Whether the answer is an average."""
        return self.cuts == 0 if self.average is None else self.average

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        warm, start = bool(theta.any()), self.domain(problem).clip(theta)
        return {
            **self.visiting_state(problem),
            **cut_state(problem.m, max(self.cuts, 1)),
            "guide": theta if warm else np.zeros(0),
            "theta": np.zeros(problem.dim),
            "late": np.zeros(problem.dim if self.averaging else 0),
            "counters": np.zeros(4),
            "raw": np.zeros(problem.dim if problem.nonnegative is not None else 0),
            "answer": start.copy(),
            "primal": self.primal(problem, start) if warm else np.inf,
            "best_dual": -np.inf,
        }

    def constant(self, problem: Problem, state: State) -> float:
        return float(state["counters"][1])

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        self.visit(problem, state, *self.visits(problem, state))
        return self._known(problem, state)

    def visit(self, problem: Problem, state: State, order: Any, draws: Floats, tree: Floats) -> None:
        buffers, scratch = problem.buffers(), np.zeros(problem.dim)
        kept = np.empty_like(buffers.scores)
        signed, raw = problem.nonnegative, state["raw"] if problem.nonnegative is not None else state["theta"]
        moving = (state["guide"], raw, state["theta"], state["late"])
        done, floor = 0, FLOOR * float(state["gaps"].mean())
        while done < len(order):  # until the pool of the cuts is full, and on with a larger one
            rest = (order[done:], draws[done:], tree, self.C, signed)
            known = (state["gaps"], kept_cuts(problem, state), buffers, kept)
            if self.cuts == 0:
                done += problem.run(block_pass, problem.data, *rest, *moving, *known, scratch, state["counters"])
            else:
                done += problem.run(
                    corrective_pass, problem.data, *rest, floor, *moving, *known, np.empty_like(kept), scratch,
                    state["counters"],
                )  # fmt: skip
        state["guide"] = np.zeros(0)

    def _known(self, problem: Problem, state: State) -> dict[str, Any]:
        (k, constant, weighted, calls), domain = state["counters"].tolist(), self.domain(problem)
        raw, total = state["theta"] if problem.nonnegative is None else state["raw"], 0.5 * k * (k + 1)
        answer, dual = state["theta"], self.dual(problem, constant, raw / self.C)
        if self.averaging:
            mean = raw - state["late"] / total
            answer, dual = domain.clip(mean), max(dual, self.dual(problem, weighted / total, mean / self.C))
        extra = {**self.estimate(problem, state), "oracle_calls": float(calls)}
        state["best_dual"] = max(state["best_dual"], dual)
        promising = extra["gap_estimate"] <= self.tolerance * abs(dual)
        due = state["passes"] % self.certify_every == 0 or state["passes"] in (1, self.max_passes)
        if due or promising:
            primal = self.primal(problem, answer)
            if primal < state["primal"]:
                state["answer"], state["primal"] = answer.copy(), primal
        return self.assess(state["primal"], dual, state["best_dual"], **extra)

    def weights(self, state: State) -> Floats:
        answer: Floats = state["answer"]
        return answer


@register_learner("batch_frank_wolfe")
@dataclass(frozen=True)
class BatchFrankWolfe(CertifiedLearner):
    """Frank–Wolfe with one step for all instances together (Lacoste-Julien et al. 2013, Algorithm 2).

    With G = Σ_i F_i u_{s,i} the subgradient at θ, the corner is v_s = −G and the step min(1, g / (C ‖v_s − v‖²)). It
    needs neither the duals of single instances nor an evaluation of its own for the certificate, and runs in threads;
    it also needs many more passes than :class:`FrankWolfe`.
    """

    constrains: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    batch: ClassVar[bool] = True

    max_passes: int = 1000

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        return {
            "guide": theta if theta.any() else np.zeros(0),
            "v": np.zeros(problem.dim),
            "constant": 0.0,
            "theta": np.zeros(problem.dim),
            "best_dual": -np.inf,
        }

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        """The primal is that of the θ before the step, which is the answer of this pass."""
        domain, v = self.domain(problem), state["v"]
        best, guide = domain.best(v), state["guide"]
        source = domain.clip(guide) if len(guide) else best
        losses, gradient = problem.loss_and_gradient(source)
        constant = losses - dot(source, gradient)
        dual = self.dual(problem, state["constant"], v)
        state["best_dual"] = max(state["best_dual"], dual)
        primal = (domain.cost(source) + losses) / problem.m
        direction = -gradient - v
        gap = constant - state["constant"] - dot(best, direction)
        norm = self.C * dot(direction, direction)
        if gap > 0.0:
            step = gap / norm if gap < norm else 1.0
            if domain.nonnegative is not None:
                gain = constant - state["constant"]
                step = float(best_step(self.C * v, self.C * direction, domain.nonnegative, self.C, gain))
            state["v"] = v + step * direction
            state["constant"] += step * (constant - state["constant"])
        state["theta"], state["guide"] = source, np.zeros(0)
        return self.assess(primal, dual, state["best_dual"])

"""MIRA with many half-spaces: tighter solutions of the step of dual coordinate ascent.

A step at instance t (Martins et al. 2010, eqs. (11) and (17)) solves

    min_θ  1/(2C) ‖θ − θ_t‖² + L(θ; x_t, y_t),                                                              (11)

with the loss replaced by a maximum of cuts, L(θ) ≥ c_k + a_kᵀ(θ − θ_t), and by 0. One cut at θ_t gives eq. (15), that
is DCA. Here there are more of them: the k best outputs under the hinge (**k-best MIRA**), or, until the model meets
the loss, one new cut at each trial point (the **exact** solution, for every convex loss). In both cases the
dual over the cuts' weights,

    max_{α ≥ 0, Σα ≤ 1}  Σ_k α_k c_k − C/2 ‖Σ_k α_k a_k‖²,          θ = θ_t − C Σ_k α_k a_k,

is solved by Hildreth's method: one row at a time, each to its own optimum; a row that finds the slack used up
trades with the row that is worth least (:mod:`partwise.learners._cut_weights`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._compile import composite, kernel
from partwise.exceptions import ParameterError
from partwise.features.base import accumulate, feature_scores, norm_and_clear
from partwise.learners._cut_weights import hildreth
from partwise.learners.base import State, register_learner
from partwise.learners.online import ASCENT, OnlineLearner
from partwise.losses import LossFunction, add_cost, gold_score, subtract_gold
from partwise.problem import Problem, instance_loss
from partwise.structures.base import kbest, part_count

__all__ = ["ExactDCA", "KBestMIRA"]


@composite
def add_cut(features, i, cuts, count, gram, scores, scratch):
    """Row and column ``count`` of the Gram matrix of F_i cuts[k]."""
    accumulate(features, i, cuts[count], 0, 1.0, scratch)
    feature_scores(features, i, scratch, scores, 0)
    norm_and_clear(features, i, cuts[count], 0, scratch)
    n = cuts.shape[1]
    for k in range(count + 1):
        product = 0.0
        for r in range(n):
            if cuts[k, r] != 0.0:
                product += cuts[k, r] * scores[r]
        gram[count, k] = product
        gram[k, count] = product


@composite
def apply_cuts(features, i, cuts, weights, count, step, target, mixed):
    """target ← target + step·F_i Σ_k weights[k]·cuts[k]."""
    n = cuts.shape[1]
    for r in range(n):
        mixed[r] = 0.0
    for k in range(count):
        if weights[k] != 0.0:
            for r in range(n):
                mixed[r] += weights[k] * cuts[k, r]
    accumulate(features, i, mixed, 0, step, target)


@kernel
def kbest_pass(data, order, C, instance_weights, limit, buffers, scratch, v, w, counters):
    """One pass of k-best MIRA, k = ``limit``; ``counters`` as in ``online_pass``. A weight multiplies C."""
    for place in range(order.shape[0]):
        i = order[place]
        bound = C * instance_weights[i]
        n = part_count(data.space, i)
        scores, spare = buffers.scores[:n], buffers.spare[:n]
        feature_scores(data.features, i, v, scores, 0)
        target = gold_score(data.gold, data.loss, i, scores, buffers.work, spare)
        constant = data.loss.gamma * add_cost(data.cost, i, data.loss.gamma, scores)
        cuts, values = np.zeros((limit, n)), np.zeros(limit)
        gram, alpha = np.zeros((limit, limit)), np.zeros(limit)
        found = kbest(data.space, i, scores, buffers.work, cuts, values)
        counters[3] += instance_weights[i] * (values[0] + constant - target)
        for k in range(found):
            subtract_gold(data.gold, i, spare, cuts[k])
            values[k] += constant - target
            add_cut(data.features, i, cuts, k, gram, scores, scratch)
        if bound > 0.0:
            hildreth(gram, values, found, bound, alpha, 1e-10)
        if alpha.sum() > 0.0:
            counters[5] += 1.0
            apply_cuts(data.features, i, cuts, alpha, found, -bound, v, buffers.parts[:n])
            if w.shape[0] > 0:
                apply_cuts(data.features, i, cuts, alpha, found, -bound * counters[1], w, buffers.parts[:n])
        gain = 0.0
        for k in range(found):
            gain += alpha[k] * values[k]
            for j in range(found):
                gain -= 0.5 * bound * alpha[k] * alpha[j] * gram[k, j]
        counters[4] += instance_weights[i] * gain
        counters[1] += 1.0
        counters[2] += 1.0


@kernel
def exact_pass(data, order, C, limit, tolerance, buffers, scratch, v, w, counters):
    """One pass that solves eq. (11) at every instance by cuts at the trial points, at most ``limit`` of them."""
    for place in range(order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        cuts, offsets = np.zeros((limit, n)), np.zeros(limit)
        gram, alpha, before = np.zeros((limit, limit)), np.zeros(limit), np.zeros(limit)
        count = 0
        while True:
            loss = instance_loss(data, i, v, buffers)
            if count == 0:
                counters[3] += loss
            model = 0.0  # the value of the cuts at the trial point
            for k in range(count):
                here = offsets[k]
                for j in range(count):
                    here -= C * gram[k, j] * alpha[j]
                model = max(model, here)
            if loss - model <= tolerance or count == limit:
                break
            for r in range(n):
                cuts[count, r] = buffers.parts[r]
            add_cut(data.features, i, cuts, count, gram, buffers.scores[:n], scratch)
            # c = L(θ_j) − aᵀ(θ_j − θ_t), and θ_j − θ_t = −C Σ α_k a_k
            offsets[count] = loss
            for k in range(count):
                offsets[count] += C * gram[count, k] * alpha[k]
            count += 1
            for k in range(count):
                before[k] = alpha[k]
            hildreth(gram, offsets, count, C, alpha, 0.1 * tolerance)
            for k in range(count):
                before[k] = alpha[k] - before[k]
            apply_cuts(data.features, i, cuts, before, count, -C, v, buffers.parts[:n])
        if count > 0:
            counters[5] += 1.0
            if w.shape[0] > 0:
                apply_cuts(data.features, i, cuts, alpha, count, -C * counters[1], w, buffers.parts[:n])
        for k in range(count):
            counters[4] += alpha[k] * offsets[k]
            for j in range(count):
                counters[4] -= 0.5 * C * alpha[k] * alpha[j] * gram[k, j]
        counters[1] += 1.0
        counters[2] += 1.0


@register_learner("mira")
@dataclass(frozen=True)
class KBestMIRA(OnlineLearner):
    """k-best MIRA: the step of Martins et al. (2010), eq. (17), over the k most violated outputs of the hinge loss."""

    rule = ASCENT
    needs: ClassVar[frozenset[str]] = frozenset({"kbest"})
    losses: ClassVar[str] = "losses with β = ∞"

    k: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.k >= 1:
            raise ParameterError("k", "KBestMIRA", "at least 1", self.k)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.augmented and not loss.smooth

    def one_pass(self, problem: Problem, state: State, order: Any) -> None:
        weights = np.ones(problem.m) if problem.weights is None else problem.weights
        data = problem.data._replace(loss=problem.loss.pack)
        problem.run(
            kbest_pass, data, order, self.C, weights, self.k, problem.buffers(), np.zeros(problem.dim),
            state["v"], state["w"], state["counters"],
        )  # fmt: skip


@register_learner("exact_dca")
@dataclass(frozen=True)
class ExactDCA(OnlineLearner):
    """DCA whose inner problem is solved to ``inner_tolerance`` instead of linearised once.

    Martins et al. (2010), eq. (11).

    The step is exact, not the result. Like DCA, it forgets its duals: in its first pass every step raises the dual, so
    that the sum of the gains is a lower bound on the optimum; later passes start every step from all of θ, count an
    instance again as if it were new, and go on to fit the losses without the regulariser. After many passes the
    objective, eq. (2), lies anywhere above its minimum, tens of times above where C is small beside what the losses
    ask for. Stop early by a held-out score, as one does with MIRA; for the minimum of eq. (2) use
    :class:`~partwise.learners.SDCA` or :class:`~partwise.learners.LBFGS` where β < ∞, cutting planes or Frank–Wolfe
    where β = ∞.
    """

    rule = ASCENT
    losses: ClassVar[str] = "convex losses"
    convex_only: ClassVar[bool] = True

    max_passes: int = 10  # more drift away from the minimum
    inner_tolerance: float = 1e-6
    max_cuts: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        self._positive("inner_tolerance")
        self._positive("max_cuts")

    def accepts(self, loss: LossFunction) -> bool:
        return loss.convex

    def one_pass(self, problem: Problem, state: State, order: Any) -> None:
        problem.run(
            exact_pass, problem.data, order, self.C, self.max_cuts, self.inner_tolerance, problem.buffers(),
            np.zeros(problem.dim), state["v"], state["w"], state["counters"],
        )  # fmt: skip

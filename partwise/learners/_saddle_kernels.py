"""Compiled passes of the saddle-point learners: what the players of the outputs answer, summed over the instances.

Write S_i for the scores that the past has summed up for instance i, z_i for its gold output and λ for the present step.
The players answer with proximal steps, T_η of Lacoste-Julien (2009) §2.4.2 at η = 1,

    v_i = argmax_z ⟨S_i, z⟩ − d_i(z),        u_i = argmax_z ⟨λ(F_iᵀv_w + γp_i), z⟩ − D(v_i, z),

where d_i is the divergence from a centre and D the one from v_i:

==============  =======================  ==================  =======================================
geometry        d_i(z)                   v_i                 u_i
==============  =======================  ==================  =======================================
``Euclidean``   ½‖z − z_i‖²              π(z_i + S_i)        π(v_i + λ(F_iᵀv_w + γp_i))
``Entropic``    KL(P_z ‖ uniform)        marginals of S_i    marginals of S_i + λ(F_iᵀv_w + γp_i)
==============  =======================  ==================  =======================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from partwise._compile import Generic, kernel
from partwise._math import dot
from partwise.features.base import accumulate, feature_scores
from partwise.losses import add_cost, gold_score, subtract_gold
from partwise.problem import Problem
from partwise.structures.base import Floats, marginals, part_count, project

__all__ = ["Answers", "Entropic", "Euclidean", "answers", "operator_norm", "update_scores"]


class Euclidean(NamedTuple):
    """Projections onto the marginal polytope; the centre is the gold output (§2.4.1)."""

    unit: float  # compiled code needs a field


class Entropic(NamedTuple):
    """Marginals of Gibbs distributions; the centre is the uniform distribution (§2.4.2, Example 2)."""

    unit: float


@Generic
def answer(geometry, data, i, scores, more, work, parts, base):
    """parts ← the answer to ``more`` after the sum of earlier ``scores`` (entropic) or from ``base`` (Euclidean).

    Leaves the new sum in ``scores``, the answer in ``base`` where the next one needs it. Returns, for the first answer,
    max_v ⟨more, v − z⟩ − d(v) with z the gold output, which is the first ``base``.
    """


@answer.register(Entropic)
def _(geometry, data, i, scores, more, work, parts, base):
    for r in range(part_count(data.space, i)):
        scores[r] += more[r]
    value = -gold_score(data.gold, data.loss, i, scores, work, base)
    return value + marginals(data.space, i, scores, work, parts)


@answer.register(Euclidean)
def _(geometry, data, i, scores, more, work, parts, base):
    n = part_count(data.space, i)
    for r in range(n):
        scores[r] = base[r] + more[r]
    project(data.space, i, scores, work, parts)
    value = 0.0
    for r in range(n):
        step = parts[r] - base[r]
        value += (more[r] - 0.5 * step) * step
        base[r] = parts[r]
    return value


# Both answers are turns of one loop: every further call of an oracle in the source costs seconds of compile time.


@kernel
def answer_block(
    geometry, data, offsets, start, stop, past, weight, kept, move, step, buffers, more, totals, mean, sums
):  # fmt: skip
    """Both answers of the instances start:stop.

    S_i = F_iᵀ·past + weight·γp_i, or ``kept`` at offsets[i] where that is given (the plain form). Adds F_i(v_i − z_i)
    to sums[0], F_i(u_i − z_i) to sums[1], step·(u_i − z_i) to ``mean`` unless that is empty, and to ``totals`` the
    potential max ⟨S_i, v − z_i⟩ − d(v), the cost γ(p_i·u_i + q_i) and γp_i·(u_i − z_i).
    """
    gamma = data.loss.gamma
    for i in range(start, stop):
        n = part_count(data.space, i)
        scores, parts, base, extra = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n], more[:n]
        for r in range(n):
            scores[r], base[r] = 0.0, 0.0
        subtract_gold(data.gold, i, parts, base)
        for r in range(n):
            base[r] = -base[r]
        for turn in range(2):
            if turn == 0 and kept.shape[0] > 0:
                for r in range(n):
                    extra[r] = kept[offsets[i] + r]
            else:
                feature_scores(data.features, i, past if turn == 0 else move, extra, 0)
                if turn == 1:
                    for r in range(n):
                        extra[r] *= step
                add_cost(data.cost, i, gamma * (weight if turn == 0 else step), extra)
            value = answer(geometry, data, i, scores, extra, buffers.work, parts, base)
            if turn == 0:
                totals[0] += value
            else:
                for r in range(n):
                    extra[r] = 0.0
                totals[1] += gamma * add_cost(data.cost, i, gamma, extra)
                for r in range(n):
                    totals[1] += extra[r] * parts[r]
            subtract_gold(data.gold, i, base, parts)
            if turn == 1:
                for r in range(n):
                    totals[2] += extra[r] * parts[r]
                if mean.shape[0] > 0:
                    for r in range(n):
                        mean[offsets[i] + r] += step * parts[r]
            accumulate(data.features, i, parts, 0, 1.0, sums[turn])


@kernel
def update_scores(data, offsets, move, step, buffers, kept):
    """kept_i ← kept_i + step·(F_iᵀmove + γp_i) for every instance: s_z of the plain form."""
    for i in range(offsets.shape[0] - 1):
        n = part_count(data.space, i)
        scores = buffers.scores[:n]
        feature_scores(data.features, i, move, scores, 0)
        add_cost(data.cost, i, data.loss.gamma, scores)
        for r in range(n):
            kept[offsets[i] + r] += step * scores[r]


@kernel
def square_block(data, start, stop, x, scores, out):
    """out ← out + Σ_i F_i F_iᵀ x."""
    for i in range(start, stop):
        feature_scores(data.features, i, x, scores, 0)
        accumulate(data.features, i, scores[: part_count(data.space, i)], 0, 1.0, out)


class Answers(NamedTuple):
    """What a pass brings: see ``answer_block``."""

    ahead: Floats  # (dim,) Σ F_i(v_i − z_i)
    behind: Floats  # (dim,) Σ F_i(u_i − z_i)
    potential: float
    cost: float
    tilt: float


def answers(
    problem: Problem, geometry: Any, past: Floats, weight: float, move: Floats, step: float, kept: Floats, mean: Floats
) -> Answers:
    """The answers of all instances to the past (W, Λ) and the move v_w at step λ; see ``answer_block``."""

    def task(data: Any, start: int, stop: int, sums: Floats) -> Floats:
        totals, buffers = np.zeros(3), problem.buffers()
        problem.run(
            answer_block, geometry, data, problem.part_offsets, start, stop, past, weight, kept, move, step,
            buffers, np.empty_like(buffers.scores), totals, mean, sums,
        )  # fmt: skip
        return totals

    blocks, (ahead, behind) = problem.collect(task, rows=2)
    return Answers(ahead, behind, *map(float, np.sum(blocks, axis=0)))


def _length(x: Floats) -> float:
    """‖x‖ where the squares of x alone might overflow: x is a product of features twice over."""
    largest = float(np.abs(x).max(initial=0.0))
    if largest < 1e100:
        return math.sqrt(dot(x, x))
    x = x / largest
    return largest * math.sqrt(dot(x, x))


def operator_norm(problem: Problem, seed: int, tolerance: float = 1e-3, most: int = 100) -> float:
    """‖F‖₂, the largest singular value of (F_1, …, F_m), by power iteration x ← Σ_i F_i F_iᵀ x.

    Every value is a lower bound; the iteration ends when it grows by less than ``tolerance``, relatively.
    """
    x = np.random.default_rng(seed).normal(size=problem.dim)
    norm = 0.0

    def task(data: Any, start: int, stop: int, sums: Floats) -> None:
        problem.run(square_block, data, start, stop, x, problem.buffers().scores, sums[0])

    for _ in range(most):
        size = _length(x)
        if size == 0.0:
            return 0.0
        x /= size
        _, (x,) = problem.collect(task)
        before, norm = norm, math.sqrt(_length(x))  # ‖FFᵀx‖^½
        if norm - before <= tolerance * norm:
            break
    return norm

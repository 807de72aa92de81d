"""Step sizes for which exponentiated gradient never lowers the dual, from the data alone.

With F = C·(m D) the dual of Bartlett et al. (2004), Figure 1, and ρ_i ≥ max_y ‖Φ(x_i, y)‖:

====================  ==============================================  ================================================
bound                 η                                               valid for
====================  ==============================================  ================================================
Theorem 2             0.4 / (B + λ); F rises up to 0.567 / (B + λ)    the hinge
relative smoothness   1 / (C² Σ_i ρ_i² + C/β)                         every loss L(β,γ), Collins et al. (2008)
====================  ==============================================  ================================================

**B** bounds how much ∇F varies within the outputs of one instance: C(γ max_y ℓ_i + 2ρ_i max ‖w‖) with
‖w‖ ≤ 2C Σ_j ρ_j. **λ** is the largest eigenvalue of A = C²(⟨Φ_{i,y}, Φ_{j,y'}⟩), which has a row for every output and
may grow with their number. But Lemma 3 needs it only for δᵀAδ ≤ λ Σ_i var X_i, where δ_i is the covariance of output
and X_i, so that δᵀAδ = C² ‖Σ_i Cov(Φ_i, X_i)‖² ≤ C² (Σ_i tr Var Φ_i)(Σ_i var X_i) by Cauchy–Schwarz: C² Σ_i ρ_i² does
as well, and that is what stands for λ here.

The second bound: ‖Σ_i Φ_i d_i‖² ≤ (Σ_i ρ_i ‖d_i‖₁)² ≤ Σ_i ρ_i² · Σ_i ‖d_i‖₁² for differences d of distributions and, by
Pinsker, ‖d_i‖₁² ≤ 2 KL, so that −F is smooth relative to the entropy with constant C² Σ_i ρ_i², to which the entropy
in the dual of a smooth loss adds C/β. (Collins et al. bound Σ_i ρ_i² by n max |A_{ij}|.)

ρ_i = max_y Σ_r ‖φ(x_i, r)‖ z_r comes from one argmax over the norms of the parts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise._compile import kernel
from partwise.features.base import squared_norm
from partwise.losses import LossFunction, add_cost
from partwise.problem import Problem
from partwise.structures.base import Floats, argmax, part_count

__all__ = ["StepBounds", "bounds_from", "instance_radii", "step_bounds"]


class StepBounds(NamedTuple):
    """B and λ of Theorem 2, and the step sizes η that follow."""

    B: float
    eigenvalue: float
    theorem2: float
    smooth: float


@kernel
def radii(data, gamma, buffers, unit, scratch, lengths, costs):
    """lengths[i] ← max_y Σ_r ‖φ(x_i, r)‖ z_r, costs[i] ← γ max_y ℓ_i(y). ``unit`` and ``scratch`` hold zeros."""
    for i in range(lengths.shape[0]):
        n = part_count(data.space, i)
        scores, parts, one = buffers.scores[:n], buffers.parts[:n], unit[:n]
        for r in range(n):
            one[r] = 1.0
            scores[r] = math.sqrt(squared_norm(data.features, i, one, scratch))
            one[r] = 0.0
        lengths[i] = argmax(data.space, i, scores, buffers.work, parts)
        for r in range(n):
            scores[r] = 0.0
        constant = add_cost(data.cost, i, gamma, scores)
        costs[i] = argmax(data.space, i, scores, buffers.work, parts) + gamma * constant


def instance_radii(problem: Problem) -> tuple[Floats, Floats]:
    """(ρ_i, γ max_y ℓ_i) of every instance; O(parts²) per instance, once."""
    lengths: Floats = np.zeros(problem.m)
    costs: Floats = np.zeros(problem.m)
    buffers = problem.buffers()
    unit, scratch = np.zeros(len(buffers.scores)), np.zeros(problem.dim)
    data = problem.data._replace(loss=0.0)  # compiled once for all losses
    problem.run(radii, data, problem.loss.gamma, buffers, unit, scratch, lengths, costs)
    return lengths, costs


def step_bounds(problem: Problem, C: float) -> StepBounds:
    """The bounds above for a problem."""
    return bounds_from(*instance_radii(problem), problem.loss, C)


def bounds_from(lengths: Floats, costs: Floats, loss: LossFunction, C: float) -> StepBounds:
    """The bounds above from the radii of all instances."""
    eigenvalue = C * C * float(lengths @ lengths)
    largest_weights = 2.0 * C * float(lengths.sum())
    B = C * float((costs + 2.0 * lengths * largest_weights).max())
    entropy = C / loss.beta  # 0 for the hinge
    return StepBounds(B, eigenvalue, 0.4 / max(B + eigenvalue, 1e-300), 1.0 / max(eigenvalue + entropy, 1e-300))

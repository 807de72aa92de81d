"""Learners of convex problems that know how good their answer is: primal, dual and gap after every pass.

A dual point is a convex combination of cuts (u_i, b_i) for every instance, see :mod:`partwise.learners.domains`. It is
kept in part space: the u_i side by side in one array, ``problem.part_offsets`` saying where each begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise._compile import composite, kernel
from partwise.exceptions import InputError, ParameterError
from partwise.features.base import accumulate, feature_scores
from partwise.learners.base import Floats, Learner, Result
from partwise.learners.domains import Domain
from partwise.losses import LossFunction, loss_parts
from partwise.problem import Problem
from partwise.structures.base import part_count

__all__ = ["CertifiedLearner", "best_start", "cut_of", "gather", "start_wins"]


@composite
def cut_of(data, i, theta, buffers, kept):
    """The cut of instance i at θ: leaves u in ``buffers.parts`` and F_iᵀθ in ``kept``; returns (L_i(θ), b).

    L_i(θ') ≥ b + θ'ᵀF_i u for all θ', with equality at θ: b = L_i(θ) − uᵀF_iᵀθ.
    """
    n = part_count(data.space, i)
    feature_scores(data.features, i, theta, kept, 0)
    scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
    for r in range(n):
        scores[r] = kept[r]
    loss = loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)
    constant = loss
    for r in range(n):
        if parts[r] != 0.0:  # a forbidden part has score −inf and is never used
            constant -= parts[r] * kept[r]
    return loss, constant


@kernel
def gather(data, offsets, duals, step, out):
    """out ← out + step·Σ_i F_i u_i for the u_i side by side in ``duals``."""
    for i in range(offsets.shape[0] - 1):
        accumulate(data.features, i, duals[offsets[i] : offsets[i + 1]], 0, step, out)


def best_start(problem: Problem, domain: Domain, theta: Floats | None) -> tuple[float, Floats]:
    """(P(θ), θ) of the better of 0 and a given start, brought into the domain; P from upper bounds on the losses."""
    starts = [np.zeros(problem.dim)]
    if theta is not None and np.any(theta):
        starts.append(domain.project(np.asarray(theta, float)))
    primals = [(domain.cost(start) + float(problem.upper_losses(start).sum())) / problem.m for start in starts]
    best = int(np.argmin(primals))
    return primals[best], starts[best]


def start_wins(problem: Problem, domain: Domain, start: Floats, primal: float, theta: Floats, reached: float) -> bool:
    """Whether a start with that P is better than a θ that reached P; of an inner oracle what it attained decides."""
    if problem.guarantee != "inner":
        return primal < reached
    values = [domain.cost(weights) + float(problem.losses(weights).sum()) for weights in (start, theta)]
    return bool(values[0] < values[1])


@dataclass(frozen=True)
class CertifiedLearner(Learner):
    """Settings common to the learners that report primal, dual and gap.

    Parameters
    ----------
    tolerance : float
        Training stops when gap ≤ tolerance · |primal|.
    """

    losses: ClassVar[str] = "convex losses with β = ∞"
    certified: ClassVar[bool] = True
    convex_only: ClassVar[bool] = True

    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tolerance >= 0:
            raise ParameterError("tolerance", type(self).__name__, "a number ≥ 0", self.tolerance)

    def accepts(self, loss: LossFunction) -> bool:
        return loss.convex and not loss.smooth

    def domain(self, problem: Problem) -> Domain:
        """Ω of this learner on that problem."""
        return Domain(self.C, nonnegative=problem.nonnegative)

    def primal(self, problem: Problem, theta: Floats) -> float:
        """P(θ) = 1/m [Ω(θ) + Σ_i L_i(θ)], eq. (2) of Martins et al."""
        return (self.domain(problem).cost(theta) + float(problem.losses(theta).sum())) / problem.m

    def near(self, gap: float, primal: float) -> bool:
        return gap <= self.tolerance * abs(primal)

    def upper_objective(self, problem: Any, theta: Floats, attained: float) -> float:
        """P(θ) with upper bounds in place of the losses, which saves a call of every oracle."""
        upper = self.domain(problem).cost(theta) + float(problem.upper_losses(theta).sum())
        return max(attained, upper / float(problem.m))

    def dual(self, problem: Problem, constant: float, v: Floats) -> float:
        """D = 1/m [Σ_i b_i + min_θ Ω(θ) − θᵀv] from Σ_i b_i and v = −Σ_i F_i u_i."""
        return (constant + self.domain(problem).bound(v)) / problem.m

    def fit(self, problem: Any, *, theta: Floats | None = None, score: Any = None, **settings: Any) -> Result:
        """As :meth:`Learner.fit`; the answer is the best θ of all passes, of the start and of 0."""
        result = super().fit(problem, theta=theta, score=score, **settings)
        return result if score is not None else self._or_start(problem, theta, result)

    def _or_start(self, problem: Problem, theta: Floats | None, result: Result) -> Result:
        """The start, or 0, in place of an answer that is worse."""
        if result.certificate is None or result.status == "interrupted":  # who asks for an end gets it
            return result
        if theta is None and self._beats_zero(problem, result):
            return result
        primal, start = best_start(problem, self.domain(problem), theta)
        if not start_wins(problem, self.domain(problem), start, primal, result.theta, result.certificate.primal):
            return result
        certificate = replace(result.certificate, primal=primal)
        near = self.near(certificate.gap, primal)
        status = "converged" if near and result.status in ("max_passes", "stalled") else result.status
        return Result(start, result.trace, certificate, status, 0)

    def _beats_zero(self, problem: Problem, result: Result) -> bool:
        """Whether the certificate alone shows that P(0) > P(θ), which saves its evaluation.

        P is 1/(Cm)-strongly convex, so that ‖θ − θ*‖² ≤ r² = 2Cm·gap and P(0) ≥ D + (‖θ‖ − r)²/(2Cm).
        """
        domain, certificate = self.domain(problem), result.certificate
        if certificate is None or domain.radius is not None:
            return False
        reach = np.sqrt(2.0 * domain.cost(result.theta)) - np.sqrt(2.0 * problem.m * max(certificate.gap, 0.0))
        return bool(reach > 0.0 and certificate.dual + 0.5 * reach**2 / problem.m > certificate.primal)

    def assess(self, primal: float, dual: float, best_dual: float = -np.inf, **extra: float) -> dict[str, Any]:
        """What ``advance`` returns: with the best dual so far, whether the gap is small enough."""
        if np.isnan(primal) or np.isnan(dual):
            raise InputError(
                f"{type(self).__name__}: the objective is not a number; features or costs are too large, "
                f"with C = {self.C:g}"
            )
        gap = primal - max(dual, best_dual)
        return {
            "objective": primal,
            "dual": dual,
            "converged": self.near(gap, primal),
            "extra": extra,
        }

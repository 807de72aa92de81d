"""The weight player of the saddle-point problem: its domain, divergence and proximal steps.

    first:    v = argmin_θ −⟨s, θ⟩ + Λ Ω(θ) + β d(θ)
    second:   u = argmin_θ −λ⟨r, θ⟩ + λ Ω(θ) + D(v, θ),     D the Bregman divergence of Λ Ω + β d

with s = −Σ_k λ_k Σ_i F_i(u_i^k − z_i) what the past has summed up, Λ = Σ_k λ_k, and r = −Σ_i F_i(v_i − z_i). For the
regularised problem Ω(θ) = ‖θ‖²/(2C) is part of the proximal steps instead of the operator, which stays
bilinear; for a ball Ω = 0 inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.learners.domains import Domain
from partwise.structures.base import Floats

__all__ = ["L1Ball", "L2Player", "Player", "SimplexPlayer"]


@dataclass(frozen=True)
class L1Ball(Domain):
    """‖θ‖₁ ≤ R: Ω = 0 inside, argmin −θᵀv a corner, min −θᵀv = −R max_j |v_j|.

    Examples
    --------
    >>> ball = L1Ball(radius=2.0)
    >>> ball.best(np.array([1.0, -3.0])).tolist(), ball.bound(np.array([1.0, -3.0]))
    ([0.0, -2.0], -6.0)
    >>> ball.project(np.array([2.0, -1.0])).tolist()
    [1.5, -0.5]
    """

    def best(self, v: Floats) -> Floats:
        v, out = self.clip(v), np.zeros_like(v)
        if len(v):
            j = int(np.argmax(np.abs(v)))
            out[j] = self.radius * np.sign(v[j])
        return out

    def bound(self, v: Floats) -> float:
        return -float(self.radius or 0.0) * float(np.abs(self.clip(v)).max(initial=0.0))

    def project(self, theta: Floats) -> Floats:
        """Soft thresholding with the threshold that leaves a norm of R."""
        theta, radius = self.clip(theta), float(self.radius or 0.0)
        sizes = np.sort(np.abs(theta))[::-1]
        if sizes.sum() <= radius:
            return theta
        thresholds = (np.cumsum(sizes) - radius) / np.arange(1, len(sizes) + 1)
        cut = thresholds[np.flatnonzero(sizes > thresholds)[-1]]
        result: Floats = np.sign(theta) * np.maximum(np.abs(theta) - cut, 0.0)
        return result


@dataclass(frozen=True)
class L2Player:
    """d(θ) = ½‖θ − θ̂‖²: projections onto the domain, π_W of eq. (2.17)."""

    domain: Domain
    center: Floats
    beta: float

    @property
    def curvature(self) -> float:
        """Of Ω: what makes the player stiffer with every step."""
        return 0.0 if self.domain.radius is not None else 1.0 / self.domain.C

    def stiffness(self, weight: float) -> float:
        """Strong convexity of Λ Ω + β d."""
        return self.beta + weight * self.curvature

    def first(self, pull: Floats, weight: float) -> Floats:
        return self.domain.project((pull + self.beta * self.center) / self.stiffness(weight))

    def second(self, v: Floats, pull: Floats, weight: float, push: Floats, step: float) -> Floats:
        before = self.stiffness(weight)
        return self.domain.project((step * push + before * v) / (before + step * self.curvature))

    def potential(self, v: Floats, pull: Floats, weight: float) -> float:
        """The minimum that ``first`` finds, at its v."""
        away = v - self.center
        cost = weight * self.domain.cost(v) + 0.5 * self.beta * self.domain.dot(away, away)
        return cost - self.domain.dot(pull, v)


@dataclass(frozen=True)
class SimplexPlayer:
    """d = KL from the centre of the simplex {v : v_0 + 1·(v⁺ + v⁻) = 1}, θ = R(v⁺ − v⁻): Example 1 of §2.4.2.

    The steps are multiplicative, v ∝ exp(R(0, s, −s)/β). A weight that must stay ≥ 0 has no v⁻, one that does not exist
    (``live``, where given) has neither.
    """

    domain: Domain
    beta: float
    live: NDArray[np.uint8] | None = None

    def stiffness(self, weight: float) -> float:
        return self.beta

    def _logits(self, pull: Floats) -> Floats:
        up, down = pull, -pull
        if self.domain.nonnegative is not None:
            down = np.where(self.domain.nonnegative, -np.inf, down)
        if self.live is not None:
            up, down = np.where(self.live, up, -np.inf), np.where(self.live, down, -np.inf)
        return np.concatenate([[0.0], up, down]) * (float(self.domain.radius or 0.0) / self.beta)

    def first(self, pull: Floats, weight: float) -> Floats:
        logits = self._logits(pull)
        mass = np.exp(logits - logits.max())
        mass *= float(self.domain.radius or 0.0) / mass.sum()
        result: Floats = mass[1 : 1 + len(pull)] - mass[1 + len(pull) :]
        return result

    def second(self, v: Floats, pull: Floats, weight: float, push: Floats, step: float) -> Floats:
        return self.first(pull + step * push, weight)

    def potential(self, v: Floats, pull: Floats, weight: float) -> float:
        logits = self._logits(pull)
        top, corners = logits.max(), int((logits > -np.inf).sum())
        return -self.beta * float(top + math.log(np.exp(logits - top).sum()) - math.log(corners))


Player = L2Player | SimplexPlayer

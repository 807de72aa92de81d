"""Domains: where θ may be and what it costs, the part of a max-margin problem that is not the losses.

With L_i(θ) = max_k (b_k + θᵀF_i u_k), every convex loss being a maximum of such cuts, the problem and its dual are

    P(θ) = 1/m [ Ω(θ) + Σ_i L_i(θ) ],           D(u, b) = 1/m [ Σ_i b_i + min_θ Ω(θ) − θᵀv ],   v = −Σ_i F_i u_i,

where (u_i, b_i) is a convex combination of the cuts of instance i; for the hinge u = μ − z and b = γℓ(μ) with μ in
the marginal polytope. Weak duality, D ≤ min P, holds for every θ and every (u, b): that is the certificate.

==================  ====================  =================  ============================
domain              Ω(θ)                  argmin Ω − θᵀv      min Ω − θᵀv
==================  ====================  =================  ============================
regularised         ‖θ‖²/(2C)             C v                −C/2 ‖v‖²
ball of radius R    0 if ‖θ‖ ≤ R, else ∞  R v/‖v‖            −R ‖v‖  (Lacoste-Julien 2.8)
==================  ====================  =================  ============================

Where some weights must be ≥ 0, v is first clipped at 0 there. The formulations meet: λ = 1/(Cm), and the θ* of the
regularised problem with C solves the ball problem with R = ‖θ*‖; in the other direction 1/C is the multiplier of
the ball, ‖v*‖/R at its solution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise._math import dot
from partwise.structures.base import Floats

__all__ = ["Domain"]


@dataclass(frozen=True)
class Domain:
    """Ω(θ) = ‖θ‖²/(2C), or the ball ‖θ‖ ≤ R where a radius is given; θ_j ≥ 0 where ``nonnegative``.

    Examples
    --------
    >>> ball = Domain(radius=2.0, nonnegative=np.array([True, False]))
    >>> ball.best(np.array([-3.0, -4.0])).tolist(), ball.bound(np.array([-3.0, -4.0]))
    ([0.0, -2.0], -8.0)
    """

    C: float = 1.0
    radius: float | None = None
    nonnegative: NDArray[np.bool_] | None = None

    def dot(self, a: Floats, b: Floats) -> float:
        """aᵀb, the inner product behind every norm here."""
        return float(dot(a, b))

    def cost(self, theta: Floats) -> float:
        """Ω(θ) for a θ inside."""
        return 0.0 if self.radius is not None else 0.5 * self.dot(theta, theta) / self.C

    def clip(self, v: Floats) -> Floats:
        """The nearest point with the signs that are asked for."""
        if self.nonnegative is None:
            return v
        return np.where(self.nonnegative & (v < 0), 0.0, v)

    def best(self, v: Floats) -> Floats:
        """argmin_θ Ω(θ) − θᵀv."""
        v = self.clip(v)
        if self.radius is None:
            return self.C * v
        norm = math.sqrt(self.dot(v, v))
        return v * (self.radius / norm) if norm > 0 else np.zeros_like(v)

    def bound(self, v: Floats) -> float:
        """min_θ Ω(θ) − θᵀv."""
        v = self.clip(v)
        return -0.5 * self.C * self.dot(v, v) if self.radius is None else -self.radius * math.sqrt(self.dot(v, v))

    def project(self, theta: Floats) -> Floats:
        """The point of the domain that is nearest to θ."""
        theta = self.clip(theta)
        norm = math.sqrt(self.dot(theta, theta))
        return theta * (self.radius / norm) if self.radius is not None and norm > self.radius else theta

"""Optima of tiny max-margin problems from the list of all their outputs, by solvers that know nothing of structures."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from problems import Tiny, differences, tiny, tiny_multiclass

Floats = NDArray[np.float64]

CASES = {"multiclass": tiny_multiclass, "chain": lambda: tiny(0)}
DOMAINS: dict[str, dict[str, Any]] = {
    "regularised": {"C": 0.5},
    "ball": {"radius": 1.0},
    "l1": {"radius": 2.0, "norm": "l1"},
}


@cache
def case_of(name: str) -> Tiny:
    return CASES[name]()


def sign_mask(case: Tiny, signs: bool) -> NDArray[np.bool_] | None:
    """Every third weight must stay ≥ 0."""
    return np.arange(case.features.dim) % 3 == 0 if signs else None


def hinge(case: Tiny, theta: Floats) -> float:
    """Σ_i max_y, over the list of outputs."""
    cuts = [differences(case, i, 1.0) for i in range(len(case.outputs))]
    return float(sum((a @ theta + c).max() for a, c in cuts))


@cache
def optimum(name: str, domain: str, signs: bool) -> float:
    """min of (Ω(θ) + Σ_i L_i(θ))/m with one slack per instance and a row for every output."""
    case, settings = case_of(name), DOMAINS[domain]
    d, m = case.features.dim, len(case.outputs)
    cuts = [differences(case, i, 1.0) for i in range(m)]
    rows = np.vstack([np.hstack([a, np.tile(-np.eye(m)[i], (len(a), 1))]) for i, (a, _) in enumerate(cuts)])
    limits = np.concatenate([-c for _, c in cuts])
    mask = sign_mask(case, signs)
    low = np.where(mask, 0.0, -np.inf) if mask is not None else np.full(d, -np.inf)
    if domain == "l1":  # θ = p − n
        signed = np.hstack([rows[:, :d], -rows[:, :d], rows[:, d:]])
        budget = np.concatenate([np.ones(2 * d), np.zeros(m)])[None]
        high = [(0, None)] * d + [(0, 0 if b == 0 else None) for b in low] + [(0, None)] * m
        cost = np.append(np.zeros(2 * d), np.ones(m))
        found = scipy.optimize.linprog(
            cost, np.vstack([signed, budget]), np.append(limits, settings["radius"]), bounds=high
        )
        return float(found.fun) / m

    ridge = 1.0 / settings["C"] if domain == "regularised" else 0.0
    constraints = [{"type": "ineq", "fun": lambda x: limits - rows @ x, "jac": lambda x: -rows}]
    if domain == "ball":
        square = settings["radius"] ** 2
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda x: square - x[:d] @ x[:d],
                "jac": lambda x: np.append(-2 * x[:d], np.zeros(m)),
            }
        )
    start = np.append(np.zeros(d), [c.max() for _, c in cuts])
    found = scipy.optimize.minimize(
        lambda x: 0.5 * ridge * x[:d] @ x[:d] + x[d:].sum(),
        start,
        jac=lambda x: np.append(ridge * x[:d], np.ones(m)),
        bounds=[(b, None) for b in low] + [(0, None)] * m,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return float(found.fun) / m

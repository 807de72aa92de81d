"""Small problems at scales that hurt, their optima by enumeration, and what a certified result must obey.

Everything is judged from the list of all outputs, in extended precision: the objective of the answer, and an interval
that holds the optimum.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import oracles
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray
from oracles import Enumeration

from partwise.features import MatrixFeatures
from partwise.learners.base import Learner, Result
from partwise.learners.certified import CertifiedLearner
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Assignment, Chain, Matching, Multiclass
from partwise.structures.base import Structure

Floats = NDArray[np.float64]
Wide = np.longdouble

STRUCTURES = ("multiclass", "chain", "untied_chain", "matching", "relaxed_assignment", "assignment")
#: What rounding may do: a share of the optimum, and of the size of the terms that it is the sum of.
RELATIVE, ROUNDING = 1e-9, 1e-12


class TooSlowError(Exception):
    """A fit that did not come back."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TooSlowError` inside the block after this many seconds of processor time."""

    def ring(*_: Any) -> None:
        raise TooSlowError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Hard:
    """A small problem with all that is needed to solve it without the library."""

    structure: str
    loss: Loss
    C: float
    radius: float | None
    space: Structure
    matrices: list[Floats]
    outputs: list[Any]
    corners: list[Floats]  # z of all outputs (of the relaxation: of all corners), row by row
    gold: list[Floats]
    nonnegative: NDArray[np.bool_] | None
    about: str = ""
    known: dict[str, float] = field(default_factory=dict)

    def problem(self) -> Problem:
        features = MatrixFeatures(self.matrices)
        return Problem(self.space, features, self.outputs, self.loss, nonnegative=self.nonnegative)

    @cached_property
    def cuts(self) -> list[tuple[Any, Any]]:
        """(a_y, c_y) of every instance: L(θ) = max_y (or soft) of a_yᵀθ + c_y; the costs are those of the problem."""
        problem, found = self.problem(), []
        for i, (matrix, corners, gold) in enumerate(zip(self.matrices, self.corners, self.gold, strict=True)):
            costs = problem.data.cost
            p, here = np.zeros(corners.shape[1]), slice(costs.offsets[i], costs.offsets[i + 1])
            np.add.at(p, costs.numbers[here], costs.values[here])
            ell = self.loss.gamma * (corners @ p + costs.constants[i])
            a = (corners - gold).astype(Wide) @ matrix.T.astype(Wide)
            found.append((ell[:, None] * a, ell) if self.loss.slack else (a, ell))
        return found

    @property
    def m(self) -> int:
        return len(self.outputs)

    @property
    def dim(self) -> int:
        return int(self.matrices[0].shape[0])

    def loss_of(self, theta: Floats) -> Any:
        """Σ_i L_i(θ)."""
        total, wide = Wide(0.0), theta.astype(Wide)
        for a, c in self.cuts:
            values = a @ wide + c
            top = values.max()
            if self.loss.smooth:
                top += np.log(np.exp(self.loss.beta * (values - top)).sum()) / Wide(self.loss.beta)
            total += top
        return total

    def cost(self, theta: Floats) -> Any:
        return Wide(0.0) if self.radius is not None else (theta.astype(Wide) @ theta.astype(Wide)) / (2 * Wide(self.C))

    def primal(self, theta: Floats) -> float:
        return float((self.cost(theta) + self.loss_of(theta)) / self.m)

    def bound(self, alphas: list[Floats]) -> float:
        """The dual value of distributions over the outputs of every instance: a lower bound on the optimum."""
        v, constant = np.zeros(self.dim, Wide), Wide(0.0)
        for (a, c), alpha in zip(self.cuts, alphas, strict=True):
            q = np.maximum(alpha, 0.0).astype(Wide)
            q = q / q.sum()
            v -= q @ a
            constant += q @ c
            if self.loss.smooth:
                constant -= (q[q > 0] * np.log(q[q > 0])).sum() / Wide(self.loss.beta)
        if self.nonnegative is not None:
            v = np.where(self.nonnegative & (v < 0), Wide(0.0), v)
        worst = -Wide(self.radius) * np.sqrt(v @ v) if self.radius is not None else -Wide(self.C) / 2 * (v @ v)
        return float((constant + worst) / self.m)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """(lower, upper) with the optimum between, from a solver that knows nothing of structures."""
        lower, upper = 0.0, self.primal(np.zeros(self.dim))
        for theta, alphas in self._solutions():
            upper = min(upper, self.primal(theta))
            lower = max(lower, self.bound(alphas))
        return lower, upper

    def _solutions(self) -> Iterator[tuple[Floats, list[Floats]]]:
        if self.loss.smooth:
            yield self._smooth()
        else:
            yield from self._hinge()

    def _smooth(self) -> tuple[Floats, list[Floats]]:
        """Newton-like in the scaled variable θ = √C φ/size; its gradient's softmax is the dual point."""
        size = float(max(np.abs(a).max() for a, _ in self.cuts)) or 1.0
        low = None if self.nonnegative is None else np.where(self.nonnegative, 0.0, -np.inf)

        def both(phi: Floats) -> tuple[float, Floats]:
            theta = phi / size
            value, gradient = 0.5 * theta @ theta / self.C, theta / self.C
            for a, c in self.cuts:
                values = (a @ theta + c).astype(float)
                p = np.exp(self.loss.beta * (values - values.max()))
                value += values.max() + math.log(p.sum()) / self.loss.beta
                gradient = gradient + (p / p.sum()) @ a.astype(float)
            return value, gradient / size

        bounds = None if low is None else [(b, None) for b in low]
        found = scipy.optimize.minimize(
            both, np.zeros(self.dim), jac=True, bounds=bounds, method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-14, "maxiter": 2000},
        )  # fmt: skip
        theta = found.x / size
        alphas = []
        for a, c in self.cuts:
            values = (a @ theta + c).astype(float)
            alphas.append(np.exp(self.loss.beta * (values - values.max())))
        return theta, alphas

    def _hinge(self) -> Iterator[tuple[Floats, list[Floats]]]:
        """The program with one slack per instance, its variable in units of 1/size or of √C."""
        import clarabel

        size = float(max(np.abs(a).max() for a, _ in self.cuts)) or 1.0
        d, m = self.dim, self.m
        for unit in (1.0 / size, math.sqrt(self.C), math.sqrt(self.C) / size):
            rows = [np.hstack([a.astype(float) * unit, np.tile(-np.eye(m)[i], (len(a), 1))])
                    for i, (a, _) in enumerate(self.cuts)]  # fmt: skip
            signs = np.zeros((0, d + m))
            if self.nonnegative is not None:
                signs = -np.eye(d + m)[np.flatnonzero(self.nonnegative)]
            G = np.vstack([*rows, signs])
            h = np.concatenate([*(-c for _, c in self.cuts), np.zeros(len(signs))])
            cones = [clarabel.NonnegativeConeT(len(h))]
            if self.radius is not None:
                ball = np.vstack([np.zeros((1, d + m)), -np.eye(d, d + m)])
                G, h = np.vstack([G, ball]), np.concatenate([h, [self.radius / unit], np.zeros(d)])
                cones.append(clarabel.SecondOrderConeT(d + 1))
            ridge = 0.0 if self.radius is not None else unit**2 / self.C
            P = scipy.sparse.csc_matrix(np.diag(np.append(np.full(d, ridge), np.zeros(m))))
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
            solution = clarabel.DefaultSolver(
                P, np.append(np.zeros(d), np.ones(m)), scipy.sparse.csc_matrix(G), h, cones, settings
            ).solve()
            theta = np.array(solution.x)[:d] * unit
            if self.nonnegative is not None:
                theta = np.where(self.nonnegative, np.maximum(theta, 0.0), theta)
            if self.radius is not None and (norm := float(np.linalg.norm(theta))) > self.radius:
                theta *= self.radius / norm
            multipliers = np.split(np.array(solution.z)[: sum(map(len, rows))], np.cumsum([len(r) for r in rows])[:-1])
            if np.isfinite(theta).all() and all(np.isfinite(z).all() and (z > 0).any() for z in multipliers):
                yield theta, multipliers


def enumeration(structure: str, rng: np.random.Generator, m: int) -> tuple[Structure, list[Enumeration]]:
    """m instances with the list of their outputs."""
    if structure == "multiclass":
        n = int(rng.integers(2, 5))
        return Multiclass(m, n), [oracles.enumerate_multiclass(n, np.ones(n, bool))] * m
    if structure in ("chain", "untied_chain"):
        tied, lengths = structure == "chain", rng.integers(1, 4, size=m)
        ones = np.ones((2, 2), bool)
        cases = [oracles.enumerate_chain(2, 1, tied, np.ones((n, 2), bool), ones, ones[0], ones[0]) for n in lengths]
        return Chain(lengths, 2, tied=tied), cases
    sizes = [(2, int(rng.integers(1, 3))) for _ in range(m)] if structure == "matching" else [(2, 2)] * m
    if structure == "matching":
        return Matching(sizes), [oracles.enumerate_links(1, np.ones(size, bool)) for size in sizes]
    space, kinds = Assignment(sizes), ("monotone", "inverted")
    cases = [oracles.enumerate_links(1, np.ones(size, bool), kinds) for size in sizes]
    if structure == "assignment":
        return space, cases
    hull = oracles.relaxed_corners(2, 2, 1, kinds)
    return space.relax(), [Enumeration(c.outputs, c.parts, [], hull) for c in cases]


def hard(seed: int, structure: str, loss: str = "svm") -> Hard:
    """A random problem: sizes 1e-3 to 1e8, scale ratios to 1e4, C 1e-4 to 1e4, one instance or equal ones, signs."""
    rng = np.random.default_rng([seed, STRUCTURES.index(structure)])
    m, dim = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    space, cases = enumeration(structure, rng, m)
    size, ratio = 10.0 ** rng.uniform(-3, 8), rng.uniform(0, 4)
    if rng.random() < 0.5:
        size = 10.0 ** rng.uniform(-1, 3)
    rows = size * 10.0 ** (-ratio * rng.random(dim))
    if rng.random() < 0.5:
        rows[0], rows[-1] = size, size * 10.0**-ratio
    C = 10.0 ** rng.uniform(-4, 4)
    matrices = [rows[:, None] * rng.normal(size=(dim, case.parts.shape[1])) for case in cases]
    if rng.random() < 0.3:
        matrices = [np.sign(matrix) * rows[:, None] * np.ceil(np.abs(matrix) / rows[:, None]) for matrix in matrices]
    chosen = [int(rng.integers(len(case.outputs))) for case in cases]
    if m > 1 and rng.random() < 0.3:  # the last instance is the first once more, with or without its gold output
        same = rng.random() < 0.5
        space, cases = enumeration(structure, np.random.default_rng(seed), 1)
        cases, m = cases * 2, 2
        space = _twice(space)
        first = rows[:, None] * rng.normal(size=(dim, cases[0].parts.shape[1]))
        matrices = [first, first.copy()]
        pick = int(rng.integers(len(cases[0].outputs)))
        chosen = [pick, pick if same else int(rng.integers(len(cases[0].outputs)))]
    signs = [None, np.ones(dim, bool), rng.random(dim) < 0.5][int(rng.integers(3))]
    return Hard(
        structure, Loss.named(loss), C, None, space, matrices,
        [case.outputs[j] for case, j in zip(cases, chosen, strict=True)],
        [case.hull if structure == "relaxed_assignment" else case.parts for case in cases],
        [case.parts[j] for case, j in zip(cases, chosen, strict=True)],
        signs, f"{structure} seed {seed} m={m} d={dim} size={size:.1e} ratio=1e{ratio:.1f} C={C:.1e} "
        f"signs={None if signs is None else int(signs.sum())}",
    )  # fmt: skip


def _twice(space: Structure) -> Structure:
    if isinstance(space, Multiclass):
        return Multiclass(2, space.n_labels)
    if isinstance(space, Chain):
        return Chain(np.repeat(space.lengths, 2), space.n_labels, tied=space.tied)
    if isinstance(space, Matching):
        return Matching([space.size(0)] * 2)
    assert isinstance(space, Assignment)
    double = Assignment([space.size(0)] * 2)
    return double.relax() if "project" in space.oracles else double


def faults(case: Hard, learner: Learner, result: Result) -> list[str]:
    """What is wrong with a result; nothing is."""
    theta, certificate = result.theta, result.certificate
    if not np.isfinite(theta).all():
        return ["θ is not finite"]
    if result.status not in ("converged", "stalled", "max_passes"):
        return [f"status {result.status}"]
    wrong = []
    lower, upper = case.interval
    exact, zero = case.primal(theta), case.primal(np.zeros(case.dim))
    slop = RELATIVE * upper + ROUNDING * (1.0 + zero)  # costs are of size 1 even where a space has one output
    upper = min(upper, exact)
    if case.nonnegative is not None and theta[case.nonnegative].min(initial=0.0) < 0:
        wrong.append("a weight is below 0")
    if case.radius is not None and np.linalg.norm(theta) > case.radius * (1 + 1e-12):
        wrong.append("θ is outside the ball")
    vouched = case.space.certifies(case.loss.oracle) != "none"  # else nothing is promised of the answer
    if vouched and exact > zero + slop:
        wrong.append(f"θ = 0 is better: {zero:.6g} against {exact:.6g}")
    if certificate is None:
        return [*wrong, "no certificate"] if vouched and isinstance(learner, CertifiedLearner) else wrong
    if not math.isfinite(certificate.primal) or math.isnan(certificate.dual):
        wrong.append(f"certificate {certificate}")
    above = certificate.primal - exact
    if case.space.guarantee(case.loss.oracle) == "inner" or "bound" in case.space.oracles:
        above = min(above, 0.0)  # its primal comes from a bound
    if abs(above) > RELATIVE * exact + ROUNDING * (1.0 + zero):
        wrong.append(f"primal {certificate.primal:.12g} is {exact:.12g}")
    if certificate.dual > upper + slop:
        wrong.append(f"dual {certificate.dual:.12g} exceeds the optimum {upper:.12g}")
    if certificate.primal < lower - slop:
        wrong.append(f"primal {certificate.primal:.12g} is below the optimum {lower:.12g}")
    tolerance = getattr(learner, "tolerance", 0.0)
    if not learner.certified:  # it ends by another rule than its gap
        return wrong
    if result.status == "converged":
        if certificate.gap > tolerance * abs(certificate.primal) + slop:
            wrong.append(f"converged with a gap of {certificate.relative_gap:.3g}")
        if exact - upper > tolerance * exact + slop:
            wrong.append(f"converged at {exact:.9g}, the optimum is at most {upper:.9g}")
    elif certificate.gap <= tolerance * abs(certificate.primal) and result.status == "max_passes":
        wrong.append("the gap is small enough, and it says max_passes")
    return wrong

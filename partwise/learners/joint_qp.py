"""The joint convex form of max-margin learning, Lacoste-Julien (2009) eq. (2.15), for an interior-point solver.

With the marginal polytope as linear constraints, max_z (F_iᵀθ + c_i)ᵀz over it equals the minimum of its dual, and
the min–max problem (2.13) becomes one minimisation:

    min_{θ, λ, μ ≥ 0}  Ω(θ) − θᵀΣ_i F_i ẑ_i + Σ_i b_iᵀλ_i + e_iᵀμ_i   s. t.  F_iᵀθ + c_i ≤ A_iᵀλ_i + B_iᵀμ_i for all i,

where the polytope of instance i is {z ≥ 0 : A_i z = b_i, B_i z ≤ e_i} and c_i = γp_i. The multipliers of the
constraints are the z_i of the saddle point. Size and time grow with the number of parts: this is the reference, exact
to the solver's tolerance, that the other learners are held against, and the way to a regularisation path on small
problems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from partwise.exceptions import CapabilityError, ParameterError
from partwise.learners.base import Certificate, Floats, Record, Result, State, register_learner
from partwise.learners.certified import gather
from partwise.learners.extragradient import SaddlePointLearner
from partwise.losses import add_cost
from partwise.problem import Problem
from partwise.structures.base import Polytope

__all__ = ["JointQP"]

#: How often multipliers are corrected at most, to bring them onto the polytope.
ROUNDS = 10


class Program(NamedTuple):
    """What eq. (2.15) is made of, for any Ω: variables θ, then λ and μ of every instance."""

    rows: scipy.sparse.csr_array  # (x of all instances, variables): F_iᵀθ − A_iᵀλ_i − B_iᵀμ_i
    limits: Floats  # −c_i
    linear: Floats  # (variables,)
    inequality: NDArray[np.bool_]  # (variables,): the μ
    spaces: list[Polytope]
    sizes: list[int]  # variables x of every instance
    costs: list[tuple[Floats, float]]  # (γp_i, γq_i)


def feature_matrix(problem: Problem, i: int) -> scipy.sparse.csc_array:
    """F_i (dim, parts), column by column."""
    n = problem.space.n_parts(i)
    unit, column = np.zeros(n), np.zeros(problem.dim)
    rows, values, starts = [], [], [0]
    for r in range(n):
        unit[r] = 1.0
        problem.features.accumulate(i, unit, 1.0, column)
        unit[r] = 0.0
        used = np.flatnonzero(column)
        rows.append(used)
        values.append(column[used])
        starts.append(starts[-1] + len(used))
        column[used] = 0.0
    return scipy.sparse.csc_array((np.concatenate(values), np.concatenate(rows), starts), shape=(problem.dim, n))


def joint_program(problem: Problem) -> Program:
    """Eq. (2.15) without Ω."""
    gold, offsets = problem.gold_parts(), problem.part_offsets
    first, others, limits, linear, inequality = [], [], [], [], []
    spaces, sizes, costs = [], [], []
    pull = np.zeros(problem.dim)
    for i in range(problem.m):
        space = problem.space.polytope(i)
        n = int(offsets[i + 1] - offsets[i])
        cost = np.zeros(n)
        gamma = problem.loss.gamma
        constant = gamma * add_cost(problem.data.cost, i, gamma, cost)
        matrix = feature_matrix(problem, i)
        pull += matrix @ gold[offsets[i] : offsets[i + 1]]
        rows, c = matrix.T, cost
        if space.lift is not None:
            rows, c = space.lift.T @ rows, space.lift.T @ cost
        first.append(rows)
        others.append(-scipy.sparse.hstack([space.equal.T, space.below.T]))
        limits.append(-c)
        linear += [space.equal_to, space.limit]
        inequality += [np.zeros(len(space.equal_to)), np.ones(len(space.limit))]
        spaces.append(space)
        sizes.append(rows.shape[0])
        costs.append((cost, float(constant)))
    return Program(
        scipy.sparse.hstack([scipy.sparse.vstack(first), scipy.sparse.block_diag(others)], format="csr"),
        np.concatenate(limits),
        np.concatenate([-pull, *linear]),
        np.concatenate([np.zeros(problem.dim), *inequality]).astype(bool),
        spaces,
        sizes,
        costs,
    )


def brought_inside(spaces: Sequence[Polytope], x: Floats) -> Floats | None:
    """Points x_i ≥ 0 that obey the constraints of their polytopes to rounding, near the given ones; side by side.

    With a slack y for every inequality, the constraints are A(x, y) = b. A round adds D Aᵀ(A D Aᵀ)⁻¹(b − A(x, y)) with
    D = diag(x, y), the least change relative to what is there, and clips at 0. For a simplex that is x/Σx. None if
    a few rounds do not do it.
    """
    equal, below = (scipy.sparse.block_diag([getattr(s, name) for s in spaces]) for name in ("equal", "below"))
    limit = np.concatenate([s.limit for s in spaces])
    target = np.concatenate([*(s.equal_to for s in spaces), limit])
    system = scipy.sparse.csr_array(
        scipy.sparse.vstack(
            [
                scipy.sparse.hstack([equal, scipy.sparse.csr_array((equal.shape[0], len(limit)))]),
                scipy.sparse.hstack([below, scipy.sparse.eye_array(len(limit))]),
            ]
        )
    )
    point = np.maximum(x, 0.0)
    point = np.concatenate([point, np.maximum(limit - below @ point, 0.0)])
    alive = _may_be_positive(system, target)
    size = max(1.0, float(np.abs(target).max(initial=0.0)))
    point *= alive
    for _ in range(ROUNDS):
        missing = target - system @ point
        if np.abs(missing).max(initial=0.0) <= 1e-14 * size:
            break
        weights = (point + 1e-12 * size) * alive
        square = scipy.sparse.csc_array(system @ scipy.sparse.diags_array(weights) @ system.T)
        ridge = 1e-13 * float(square.diagonal().max())  # constraints may follow from each other
        square = square + ridge * scipy.sparse.eye_array(len(target), format="csc")
        point = np.maximum(point + weights * (system.T @ scipy.sparse.linalg.spsolve(square, missing)), 0.0)
    if not np.abs(target - system @ point).max(initial=0.0) <= 1e-12 * size:
        return None
    return point[: len(x)]


def _may_be_positive(system: scipy.sparse.csr_array, target: Floats) -> NDArray[np.bool_]:
    """Which of the x ≥ 0 a system does not force to be 0, as Σx = 0 does: forbidden parts, and what hangs on them."""
    alive, zero = np.ones(system.shape[1], bool), target == 0.0
    signs = [scipy.sparse.csr_array((sign * system) > 0, dtype=float) for sign in (1.0, -1.0)]
    while True:
        up, down = (s @ alive.astype(float) > 0 for s in signs)
        one_sided = zero & (up ^ down)
        dead = (sum(s.T @ one_sided.astype(float) for s in signs) > 0) & alive
        if not dead.any():
            return alive
        alive &= ~dead


@register_learner("joint_qp")
@dataclass(frozen=True)
class JointQP(SaddlePointLearner):
    """Lacoste-Julien (2009), eq. (2.15), solved as a whole by clarabel: exact solutions of small problems, in one pass.

    The certificate does not rely on the solver: primal and dual are computed from its θ and its multipliers z. These
    obey the constraints of the polytope only to about the solver's tolerance, so they are first brought onto it (where
    that fails, the gold outputs stand for them). Needs the extra ``qp``.

    Parameters
    ----------
    solver_tolerance : float
        Of gap and feasibility, for clarabel.

    Examples
    --------
    >>> from partwise.features import MatrixFeatures
    >>> from partwise.structures import Multiclass
    >>> matrices = [np.array([[x, 0.0], [0.0, x]]) for x in (1.0, 2.0, -1.0)]
    >>> problem = Problem(Multiclass(3, n_labels=2), MatrixFeatures(matrices), [0, 0, 1], "svm")
    >>> [r.theta.round(3).tolist() for r in JointQP().path(problem, radius=[0.25, 0.5])]
    [[0.177, -0.177], [0.354, -0.354]]
    """

    needs: ClassVar[frozenset[str]] = frozenset({"polytope"})

    max_passes: int = 1
    solver_tolerance: float = 1e-9

    def __post_init__(self) -> None:
        super().__post_init__()
        self._positive("solver_tolerance")
        if self._free:
            raise ParameterError(
                "radius", "JointQP", "finite, because without a ball there may be no minimum", self.radius
            )

    def check(self, problem: Any) -> None:
        super().check(problem)
        _clarabel()

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        return {"theta": theta, "best_dual": -np.inf}

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        return self._solved(problem, joint_program(problem), state)

    def path(
        self, problem: Problem, *, C: Sequence[float] | None = None, radius: Sequence[float] | None = None
    ) -> list[Result]:
        """The exact solutions for several C, or several radii of a ball: points of the regularisation path."""
        if (C is None) == (radius is None):
            raise ParameterError("C", "JointQP.path", "given if radius is not, and only then", (C, radius))
        name, values = ("C", C) if C is not None else ("radius", radius)
        self.check(problem)
        program = joint_program(problem)
        results = []
        for value in values or ():
            begin, learner = time.perf_counter(), self._with(name, value)
            state = learner.start(problem, np.zeros(problem.dim), None)
            known = learner._solved(problem, program, state)
            primal, dual = known["objective"], known["dual"]
            record = Record(1, time.perf_counter() - begin, primal, dual, None, known["extra"])
            status = "converged" if known["converged"] else "max_passes"
            results.append(Result(state["theta"], [record], Certificate(primal, dual), status, 1))
        return results

    def _with(self, name: str, value: float) -> JointQP:
        return replace(self, C=value) if name == "C" else replace(self, radius=value)

    def _solved(self, problem: Problem, program: Program, state: State) -> dict[str, Any]:
        theta, outputs = self.solve(problem, program)
        state["theta"], state["outputs"] = theta, outputs
        offsets = problem.part_offsets
        constant = sum(
            float(p @ outputs[a:b]) + q for (p, q), a, b in zip(program.costs, offsets[:-1], offsets[1:], strict=True)
        )
        v = np.zeros(problem.dim)
        problem.run(gather, problem.data, offsets, outputs - problem.gold_parts(), -1.0, v)
        return self.judge(problem, state, theta, self.dual(problem, constant, v))

    def solve(self, problem: Problem, program: Program) -> tuple[Floats, Floats]:
        """(θ, z of all instances side by side) at the saddle point."""
        clarabel = _clarabel()
        d, n_x = problem.dim, program.rows.shape[0]
        extra = d if self.norm == "l1" else 0  # |θ_j| ≤ t_j
        n = len(program.linear) + extra
        eye = scipy.sparse.eye_array

        def at(block: Any, column: int) -> Any:
            """A block of rows whose columns begin at that variable."""
            after = n - column - block.shape[1]
            zeros = [scipy.sparse.csr_array((block.shape[0], k)) for k in (column, after)]
            return scipy.sparse.hstack([zeros[0], block, zeros[1]], format="csr")

        rows, limits = [at(program.rows, 0)], [program.limits]
        signs = [np.flatnonzero(program.inequality)]
        if problem.nonnegative is not None:
            signs.append(np.flatnonzero(problem.nonnegative))
        chosen = np.concatenate(signs)
        rows.append(at(-eye(n, format="csr")[chosen], 0))
        limits.append(np.zeros(len(chosen)))
        if extra:
            for sign in (1.0, -1.0):
                rows.append(at(sign * eye(d), 0) - at(eye(d), n - d))
                limits.append(np.zeros(d))
            rows.append(at(scipy.sparse.csr_array(np.ones((1, d))), n - d))
            limits.append(np.array([float(self.radius or 0.0)]))
        cones = [clarabel.NonnegativeConeT(sum(map(len, limits)))]
        if self.radius is not None and not extra:  # (R, θ) in the second-order cone
            rows.append(at(scipy.sparse.vstack([scipy.sparse.csr_array((1, d)), -eye(d)]), 0))
            limits.append(np.append(self.radius, np.zeros(d)))
            cones.append(clarabel.SecondOrderConeT(d + 1))
        curvature = np.zeros(n)
        if self.radius is None:
            curvature[:d] = 1.0 / self.C
        linear = np.append(program.linear, np.zeros(extra))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        # supernodal: several times faster than QDLDL; in one thread, since its sums depend on how many there are
        settings.direct_solve_method, settings.max_threads = "faer", 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.solver_tolerance
        solution = clarabel.DefaultSolver(
            scipy.sparse.csc_matrix(scipy.sparse.diags_array(curvature)),
            linear,
            scipy.sparse.csc_matrix(scipy.sparse.vstack(rows)),
            np.concatenate(limits),
            cones,
            settings,
        ).solve()
        if str(solution.status) not in ("Solved", "AlmostSolved"):
            raise CapabilityError(f"clarabel could not solve the joint program: {solution.status}")
        live = problem.features.live  # an interior point puts a little on weights that do not exist
        theta = np.array(solution.x)[:d] * (1.0 if live is None else live)
        theta = self.domain(problem).project(theta)
        z = np.array(solution.z)[:n_x]
        inside = brought_inside(program.spaces, z) if np.isfinite(z).all() else None
        if inside is None:
            return theta, problem.gold_parts()
        pieces = np.split(inside, np.cumsum(program.sizes)[:-1])
        outputs = [x if s.lift is None else s.lift @ x for x, s in zip(pieces, program.spaces, strict=True)]
        return theta, np.concatenate(outputs)


def _clarabel() -> Any:
    try:
        import clarabel
    except ImportError as error:
        raise CapabilityError("JointQP needs the solver clarabel: pip install 'partwise[qp]'") from error
    return clarabel

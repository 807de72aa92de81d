"""Dual extragradient against enumeration, against the paper's equations written out, and against itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracles
import pytest
from numpy.typing import NDArray
from problems import Enumerated, Memory, Tiny, tiny
from saddle import DOMAINS, case_of, hinge, optimum, sign_mask

from partwise.features import MatrixFeatures, RowFeatures, RowLayout, RowMatrix
from partwise.learners import (
    EntropicExtragradient,
    Extragradient,
    ProjectedGradient,
)
from partwise.learners._saddle_kernels import operator_norm
from partwise.problem import Problem
from partwise.storage import Checkpoint
from partwise.structures import Multiclass

Floats = NDArray[np.float64]

KINDS = [("multiclass", "euclidean"), ("multiclass", "entropic"), ("chain", "entropic")]


def problem_of(name: str, signs: bool = False, **settings: Any) -> Problem:
    case = case_of(name)
    return case.problem("svm", nonnegative=sign_mask(case, signs), **settings)


def states(learner: Any, problem: Problem, passes: int) -> list[Floats]:
    """θ after every pass."""
    found: list[Floats] = []
    learner.__class__(**{**learner.__dict__, "max_passes": passes, "tolerance": 0.0}).fit(
        problem, callbacks=[lambda record, theta: found.append(theta.copy())]
    )
    return found


# --------------------------------------------------------------------------------------------------
# The optimum


@pytest.mark.parametrize("signs", [False, True], ids=["free", "signs"])
@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize(("name", "geometry"), KINDS)
def test_the_gap_closes_at_the_optimum(name: str, geometry: str, domain: str, signs: bool) -> None:
    problem, best = problem_of(name, signs), optimum(name, domain, signs)
    learner = Extragradient(geometry=geometry, tolerance=3e-4, max_passes=3000, **DOMAINS[domain])
    result = learner.fit(problem)
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.dual <= best + 1e-6 <= result.certificate.primal + 2e-6
    assert result.certificate.gap <= 3e-4 * result.certificate.primal
    theta, ball = result.theta, learner.domain(problem)
    np.testing.assert_allclose(ball.project(theta), theta, atol=1e-12)
    written_out = (ball.cost(theta) + hinge(case_of(name), theta)) / problem.m
    np.testing.assert_allclose(result.certificate.primal, written_out, rtol=1e-10)


class Hull(Enumerated):
    """Every output listed, and projections onto their hull: what the Euclidean geometry needs, for a chain."""

    def project(self, i: int, point: Floats) -> Floats:
        return oracles.nearest_in_hull(self.instances[i].parts, point)


@pytest.mark.parametrize("domain", ["regularised", "ball"])
def test_a_structure_in_plain_python_with_projections(domain: str) -> None:
    case = case_of("chain")
    atoms = [case.space.n_atoms(i) for i in range(len(case.space))]
    problem = case.plain("svm", space=Hull(case.instances, atoms))
    result = Extragradient(tolerance=3e-3, max_passes=400, **DOMAINS[domain]).fit(problem)
    assert result.status == "converged" and result.certificate is not None
    best = optimum("chain", domain, False)
    assert result.certificate.dual <= best + 1e-6 <= result.certificate.primal + 2e-6


def test_plain_python_and_compiled_walk_the_same_way() -> None:
    case = case_of("chain")
    learner = EntropicExtragradient(step=0.05, balance=1.0)
    compiled, plain = (states(learner, problem, 12) for problem in (case.problem("svm"), case.plain("svm")))
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=1e-10)


def test_the_perceptron_loss_has_its_optimum_at_zero() -> None:
    result = EntropicExtragradient(max_passes=5).fit(case_of("multiclass").problem("perceptron"))
    assert result.certificate is not None and result.certificate.dual <= 1e-12


# --------------------------------------------------------------------------------------------------
# The paper's equations


def by_the_book(case: Tiny, radius: float, eta: float, passes: int, geometry: str, norm: str) -> list[Floats]:
    """Figures 2.2 and 2.4 word by word on a multiclass problem: all of u, v and s kept; θ̄ after every iteration."""
    m, dim = len(case.outputs), case.features.dim
    F = case.matrices
    gold = [np.eye(4)[y[0]] for y in case.outputs]
    c = [1.0 - z for z in gold]  # the cost of a wrong label, up to a constant that no player sees
    vertices = np.eye(4)

    def softmax(x: Floats) -> Floats:
        weights = np.exp(x - x.max())
        return weights / weights.sum()

    def on_ball(w: Floats) -> Floats:
        return w * radius / max(radius, float(np.linalg.norm(w)))

    s_w, s_z = np.zeros(dim), [np.zeros(4) for _ in range(m)]
    mean, out = np.zeros(dim), []
    for t in range(passes):
        if norm == "l1":  # Example 1: v = (v_0, w⁺/γ, w⁻/γ), its centre uniform
            v_s = softmax(eta * radius * np.concatenate([[0.0], s_w, -s_w]))
            v_w = radius * (v_s[1 : dim + 1] - v_s[dim + 1 :])
        else:
            v_w = on_ball(eta * s_w)
        if geometry == "euclidean":
            v_z = [oracles.nearest_in_hull(vertices, gold[i] + eta * s_z[i]) for i in range(m)]
        else:
            v_z = [softmax(eta * s_z[i]) for i in range(m)]
        push = -sum(F[i] @ (v_z[i] - gold[i]) for i in range(m))
        if norm == "l1":
            u_s = v_s * np.exp(eta * radius * np.concatenate([[0.0], push, -push]))
            u_s /= u_s.sum()
            u_w = radius * (u_s[1 : dim + 1] - u_s[dim + 1 :])
        else:
            u_w = on_ball(v_w + eta * push)
        gains = [F[i].T @ v_w + c[i] for i in range(m)]
        if geometry == "euclidean":
            u_z = [oracles.nearest_in_hull(vertices, v_z[i] + eta * gains[i]) for i in range(m)]
        else:
            u_z = [v_z[i] * np.exp(eta * gains[i]) / (v_z[i] * np.exp(eta * gains[i])).sum() for i in range(m)]
        s_w = s_w - sum(F[i] @ (u_z[i] - gold[i]) for i in range(m))
        s_z = [s_z[i] + F[i].T @ u_w + c[i] for i in range(m)]
        mean = mean + (u_w - mean) / (t + 1)
        out.append(mean)
    return out


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("geometry", ["euclidean", "entropic"])
def test_iterates_are_those_of_the_figures(geometry: str, norm: str) -> None:
    case = case_of("multiclass")
    learner = Extragradient(radius=1.5, norm=norm, geometry=geometry, step=0.1, balance=1.0, average="all")
    expected = by_the_book(case, 1.5, 0.1, 30, geometry, norm)
    np.testing.assert_allclose(states(learner, case.problem("svm"), 30), expected, rtol=0, atol=1e-9)


def test_the_regularised_step_is_the_proximal_one() -> None:
    """θ-steps with ‖θ‖²/(2C) inside: each minimises its own quadratic, here found by solving it numerically."""
    case, C, beta = case_of("multiclass"), 0.7, 0.3
    problem = case.problem("svm")
    learner = Extragradient(C=C, step=0.2, balance=beta, average="all")
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(3):
        learner.advance(problem, state)
    player, weight = learner.player(problem, state), state["weight"]
    v = player.first(state["pull"], weight)
    slope = -state["pull"] + weight * v / C + beta * v
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
    push = np.random.default_rng(0).normal(size=problem.dim)
    u = player.second(v, state["pull"], weight, push, 0.4)
    slope = -0.4 * push + 0.4 * u / C + (weight / C + beta) * (u - v)
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)


@pytest.mark.parametrize("step", ["adaptive", "fixed"])
@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize(("name", "geometry"), KINDS)
def test_the_memory_efficient_form_makes_the_same_iterates(name: str, geometry: str, domain: str, step: str) -> None:
    problem = problem_of(name)
    settings = {"geometry": geometry, "step": step, **DOMAINS[domain]}
    lean, plain = (states(Extragradient(memory_efficient=lean, **settings), problem, 40) for lean in (True, False))
    np.testing.assert_allclose(lean, plain, rtol=0, atol=1e-9)


def test_the_plain_form_keeps_the_mean_outputs() -> None:
    problem = problem_of("chain")
    learner = EntropicExtragradient(memory_efficient=False, C=0.5, average="all")
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(25):
        learner.advance(problem, state)
    case, offsets, total = case_of("chain"), problem.part_offsets, np.zeros(problem.dim)
    for i in range(problem.m):
        z = (
            state["mean"][offsets[i] : offsets[i + 1]] / state["weight"]
            + problem.gold_parts()[offsets[i] : offsets[i + 1]]
        )
        np.testing.assert_allclose(oracles.nearest_in_hull(case.instances[i].parts, z), z, atol=1e-9)
        total -= case.matrices[i] @ (
            z * state["weight"] - problem.gold_parts()[offsets[i] : offsets[i + 1]] * state["weight"]
        )
    live = np.isin(np.arange(problem.dim), case.weights)
    np.testing.assert_allclose(total * live, state["pull"], atol=1e-8)


# --------------------------------------------------------------------------------------------------
# Gaps and rates


@pytest.mark.parametrize("step", ["adaptive", "fixed"])
@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize("geometry", ["euclidean", "entropic"])
def test_the_restricted_gap_obeys_its_bound(geometry: str, domain: str, step: str) -> None:
    """Eq. (2.19) for any radii; and with radii that reach everything it is the gap itself."""
    problem = problem_of("multiclass")
    learner = Extragradient(geometry=geometry, step=step, average="all", **DOMAINS[domain])
    state = learner.start(problem, np.zeros(problem.dim), None)
    for passes in range(1, 61):
        known = learner.advance(problem, state)
        if passes in (5, 20, 60):
            for theta_radius, output_radius in ((0.3, 1.0), (2.0, 0.5), (0.1, 4.0)):
                gap = learner.restricted_gap(problem, state, theta_radius, output_radius)
                bound = (state["beta"] * theta_radius + output_radius) / (state["weight"] * problem.m)
                assert gap <= bound * (1 + 1e-6) + 1e-9
            whole = learner.restricted_gap(problem, state, 1e6, 1e6)
            np.testing.assert_allclose(whole, known["objective"] - known["dual"], rtol=1e-5, atol=1e-7)


def test_rates() -> None:
    """The average of all steps: 1/t in a ball, 1/t² with a regulariser; that of the later half is better still."""
    problem = problem_of("multiclass")
    domains: list[tuple[dict[str, Any], int]] = [({"radius": 1.0}, 1), ({"C": 0.5}, 2)]
    for settings, power in domains:
        gaps = {}
        for average in ("all", "late"):
            trace = Extragradient(average=average, tolerance=0.0, max_passes=480, **settings).fit(problem).trace
            gaps[average] = [trace[k - 1].gap or 0.0 for k in (120, 240, 480)]
        first, second, third = gaps["all"]
        assert second < 0.7**power * first and third < 0.7**power * second
        assert gaps["late"][2] < 0.3 * third


def test_the_operator_norm_is_the_largest_singular_value() -> None:
    for name in ("multiclass", "chain"):
        case = case_of(name)
        exact = np.linalg.norm(np.hstack(case.matrices), 2)
        found = operator_norm(case.problem("svm"), 0, tolerance=1e-9, most=2000)
        np.testing.assert_allclose(found, exact, rtol=1e-5)
    nothing = Problem(Multiclass(2, 3), MatrixFeatures([np.zeros((2, 3))] * 2), [0, 1], "svm")
    assert operator_norm(nothing, 0) == 0.0
    result = Extragradient().fit(nothing)
    assert result.status == "converged" and not result.theta.any()


# --------------------------------------------------------------------------------------------------
# Memory, threads, checkpoints


def blobs(m: int, loss: str = "svm", **settings: Any) -> Problem:
    """m points in the plane, three classes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=m)
    points = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])[labels] + rng.normal(size=(m, 2))
    rows = RowMatrix(
        np.arange(m + 1), 3 * np.arange(m + 1), np.tile(np.arange(3, dtype=np.int32), m),
        np.hstack([points, np.ones((m, 1))]).ravel(), 3,
    )  # fmt: skip
    layout = RowLayout(3, 3)
    return Problem(Multiclass(m, 3), RowFeatures(layout.pack(rows), layout.dim), labels.tolist(), loss, **settings)


def size_of(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, list):
        return sum(map(size_of, value))
    return value.nbytes if isinstance(value, np.ndarray) else 8


@pytest.mark.parametrize("geometry", ["euclidean", "entropic"])
def test_the_state_does_not_grow_with_the_data(geometry: str) -> None:
    sizes = {}
    for lean in (True, False):
        for m in (500, 8000):
            problem = blobs(m)
            learner = Extragradient(geometry=geometry, memory_efficient=lean)
            state = learner.start(problem, np.zeros(problem.dim), None)
            for _ in range(5):
                learner.advance(problem, state)
            sizes[lean, m] = size_of(state)
    assert sizes[True, 500] == sizes[True, 8000] < 3000
    assert sizes[False, 8000] > 10 * sizes[False, 500]


def test_threads_do_not_change_a_bit() -> None:
    for kind in (Extragradient, EntropicExtragradient, ProjectedGradient):
        one, three = (kind(max_passes=7).fit(blobs(300, n_threads=n)).theta for n in (1, 3))
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize(
    "learner",
    [
        Extragradient(geometry="entropic", tolerance=0.0, C=0.5),
        Extragradient(tolerance=0.0, radius=1.0, memory_efficient=False),
        Extragradient(tolerance=0.0, radius=1.0, norm="l1", step="fixed"),
        ProjectedGradient(tolerance=0.0),
    ],
    ids=["entropic", "plain", "l1", "projected"],
)
@pytest.mark.parametrize("stop", [1, 9, 16])
def test_a_resumed_run_ends_with_the_same_bits(learner: Any, stop: int, tmp_path: Any) -> None:
    problem = problem_of("multiclass")

    def until(passes: int) -> Any:
        return type(learner)(**{**learner.__dict__, "max_passes": passes})

    whole = until(25).fit(problem)
    for checkpoint in (Memory(), Checkpoint(tmp_path / "run.pw")):
        until(stop).fit(problem, checkpoint=checkpoint)
        resumed = until(25).fit(problem, checkpoint=checkpoint)
        np.testing.assert_array_equal(resumed.theta, whole.theta)
        assert [r.objective for r in resumed.trace] == [r.objective for r in whole.trace]


def test_a_start_near_the_solution_helps() -> None:
    problem = problem_of("multiclass")
    solution = Extragradient(C=0.5, tolerance=1e-5).fit(problem).theta
    learner = Extragradient(C=0.5, max_passes=1)
    near, far = (learner.fit(problem, theta=theta).trace[0].objective for theta in (solution, None))
    assert near is not None and far is not None and near < far


# --------------------------------------------------------------------------------------------------
# The unregularised path, projected gradient


@pytest.mark.parametrize("kind", [Extragradient, EntropicExtragradient, ProjectedGradient])
def test_the_unregularised_path_stops_by_a_held_out_score(kind: type[Any]) -> None:
    """§2.6: neither ball nor regulariser; the norm grows, and the best θ on other data is what comes back."""
    problem, held_out = blobs(60), blobs(400)

    def score(theta: Floats) -> float:
        return -float(held_out.losses(theta).mean())

    result = kind(radius=math.inf, max_passes=300).fit(problem, score=score, patience=20)
    assert result.status == "early_stopping" and result.certificate is None
    scores = [record.score for record in result.trace]
    assert result.best_step == 1 + int(np.argmax(scores)) < len(scores)
    assert score(result.theta) == max(s for s in scores if s is not None)
    norms = [record.extra["norm"] for record in result.trace]
    assert norms[-1] > norms[0] and all(record.dual is None for record in result.trace)


@pytest.mark.parametrize("signs", [False, True], ids=["free", "signs"])
@pytest.mark.parametrize("domain", list(DOMAINS))
def test_projected_gradient_is_certified_and_slower(domain: str, signs: bool) -> None:
    problem, best = problem_of("multiclass", signs), optimum("multiclass", domain, signs)
    slow = ProjectedGradient(max_passes=400, tolerance=0.0, **DOMAINS[domain]).fit(problem)
    assert slow.certificate is not None
    assert slow.certificate.dual <= best <= slow.certificate.primal
    assert slow.certificate.relative_gap < 0.2
    assert (slow.trace[-1].gap or 0.0) < (slow.trace[99].gap or 0.0)
    fast = Extragradient(max_passes=400, tolerance=0.0, **DOMAINS[domain]).fit(problem)
    assert fast.certificate is not None and fast.certificate.gap < 0.1 * slow.certificate.gap
    if signs:
        assert slow.theta[sign_mask(case_of("multiclass"), True)].min() >= 0.0


def test_hard_constraints_hold() -> None:
    case = tiny(2, lengths=(3, 2, 3), transitions=[[1, 1, 0], [1, 1, 1], [0, 1, 1]], start=[1, 1, 0])
    result = EntropicExtragradient(C=0.5, tolerance=1e-3).fit(case.problem("svm"))
    assert result.status == "converged" and result.certificate is not None
    value = (0.5 * result.theta @ result.theta / 0.5 + hinge(case, result.theta)) / 3
    np.testing.assert_allclose(value, result.certificate.primal, rtol=1e-10)


@pytest.mark.parametrize("seed", [4, 7, 8, 11])
def test_an_average_always_has_weight(seed: int) -> None:
    """Steps taken back one after the other must not let the average begin where it ends."""
    rng = np.random.default_rng(seed)
    matrices = [1e4 * rng.normal(size=(1, 3)) for _ in range(3)]
    problem = Problem(Multiclass(3, 3), MatrixFeatures(matrices), [0, 1, 2], "svm", nonnegative=np.ones(1, bool))
    for C in (1e-4, 1.0, 100.0):
        result = EntropicExtragradient(C=C, max_passes=60).fit(problem)
        assert np.isfinite(result.theta).all() and result.certificate is not None

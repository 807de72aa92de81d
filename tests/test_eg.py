"""Exponentiated gradient: theorems as tests, forms against each other, optima against other solvers."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import Enumerated, Memory, Tiny, differences, proximal_hinge, solve_qp, tiny, tiny_multiclass

from partwise.costs import Hamming
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features import MatrixFeatures, RowFeatures, RowLayout, RowMatrix
from partwise.learners import EG, LBFGS, OnlineEG, eg_qp
from partwise.learners.eg_steps import step_bounds
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.multiclass import Multiclass

Floats = NDArray[np.float64]
CHAIN, CLASSES = tiny(seed=3), tiny_multiclass(seed=3)
CASES = {"chain": CHAIN, "classes": CLASSES}


def optimum(case: Tiny, C: float, gamma: float = 1.0) -> float:
    """min of eq. (2) for the hinge, by a quadratic program over all outputs."""
    m = len(case.outputs)
    return proximal_hinge(case, range(m), np.zeros(case.features.dim), C, gamma)[1] / m


def written_out(case: Tiny, C: float, gamma: float) -> tuple[Floats, Floats, list[int]]:
    """(A, b, groups) of Q = −F: one variable for every output of every instance."""
    pairs = [differences(case, i, gamma) for i in range(len(case.outputs))]
    rows = np.vstack([a for a, _ in pairs])  # Φ(x, y) − Φ(x, y_i)
    return C * C * rows @ rows.T, -C * np.concatenate([c for _, c in pairs]), [len(a) for a, _ in pairs]


# --------------------------------------------------------------------------------------------------
# Theorems


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["primal", "dual"])
def test_structured_eg_is_eg_qp(name: str, form: str) -> None:
    """Theorem 1: the same sequence of distributions, so the same w and the same value at every step."""
    case, C, gamma, eta = CASES[name], 0.7, 1.5, 0.05
    A, b, groups = written_out(case, C, gamma)
    explicit = eg_qp(A, b, groups, eta=eta, max_steps=20, tolerance=-1.0, keep_path=True)
    rows = np.vstack([differences(case, i, gamma)[0] for i in range(len(case.outputs))])
    found: list[Floats] = []
    learner = EG(C=C, eta=eta, form=form, max_passes=20, tolerance=0.0)
    result = learner.fit(case.problem(Loss(math.inf, gamma)), callbacks=[lambda record, w: found.append(w.copy())])
    assert len(found) == 20 and len(explicit.path) == 21
    np.testing.assert_allclose(found, [-C * alpha @ rows for alpha in explicit.path[1:]], atol=1e-10)
    duals = [record.dual for record in result.trace]
    np.testing.assert_allclose(duals, -np.array(explicit.values[1:]) / (C * len(groups)), atol=1e-10)


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(
    seed=st.integers(0, 999),
    C=st.floats(-2, 2).map(lambda x: 10.0**x),
    share=st.sampled_from([0.1, 1.0, 0.567 / 0.4]),
    head_start=st.sampled_from([0.0, 4.0]),
    gamma=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_the_dual_never_falls_within_the_bound_of_theorem_2(
    seed: int, C: float, share: float, head_start: float, gamma: float
) -> None:
    problem = tiny_multiclass(seed).problem(Loss(math.inf, gamma))
    eta = share * step_bounds(problem, C).theorem2
    result = EG(C=C, eta=eta, head_start=head_start, max_passes=30, tolerance=0.0).fit(problem)
    duals = [record.dual for record in result.trace if record.dual is not None]
    assert len(duals) == 30
    scale = 1e-12 * (1.0 + max(map(abs, duals)))
    assert all(after >= before - scale for before, after in pairwise(duals))


@pytest.mark.parametrize("loss", ["svm", "crf", Loss(3.0, 1.0)])
@pytest.mark.parametrize("name", CASES)
def test_the_dual_never_falls_within_the_smooth_bound(name: str, loss: Any) -> None:
    problem = CASES[name].problem(loss)
    result = EG(C=2.0, eta="smooth", max_passes=60, tolerance=0.0).fit(problem)
    duals = [record.dual for record in result.trace if record.dual is not None]
    assert all(after >= before - 1e-12 for before, after in pairwise(duals))
    assert duals[-1] > duals[0]


@pytest.mark.parametrize("name", CASES)
def test_bounds_against_enumeration(name: str) -> None:
    """B and λ bound what they should: the range of the gradient at random points, and Lemma 3's quadratic form."""
    case, C, rng = CASES[name], 0.8, np.random.default_rng(1)
    bounds = step_bounds(case.problem("svm"), C)
    assert bounds.theorem2 == pytest.approx(0.4 / (bounds.B + bounds.eigenvalue))
    A, b, groups = written_out(case, C, 1.0)
    cuts = np.cumsum(groups)[:-1]
    for _ in range(50):
        alphas = [rng.dirichlet(np.full(n, 0.1)) for n in groups]
        slopes = np.split(b + A @ np.concatenate(alphas), cuts)
        assert max(float(np.ptp(s)) for s in slopes) <= bounds.B
        X = [rng.normal(size=n) for n in groups]
        means = [float(alpha @ x) for alpha, x in zip(alphas, X, strict=True)]
        shifts = [alpha * (x - mean) for alpha, x, mean in zip(alphas, X, means, strict=True)]
        delta = np.concatenate(shifts)
        variance = sum(float(s @ (x - mean)) for s, x, mean in zip(shifts, X, means, strict=True))
        assert delta @ A @ delta <= bounds.eigenvalue * variance
    # ... while the eigenvalue of A itself counts every output: with long chains it is the larger one
    assert name == "classes" or np.linalg.eigvalsh(A)[-1] > 0


@pytest.mark.parametrize("loss", ["svm", "crf", Loss(2.0, 1.5)])
@pytest.mark.parametrize("eta", [0.3, "adaptive", "smooth"])
@pytest.mark.parametrize("head_start", [0.0, 3.0])
def test_both_forms_give_the_same_weights(loss: Any, eta: Any, head_start: float) -> None:
    sequences = []
    for form in ("primal", "dual"):
        found: list[Floats] = []
        learner = EG(C=0.5, eta=eta, form=form, head_start=head_start, max_passes=12, tolerance=0.0)
        result = learner.fit(CHAIN.problem(loss), callbacks=[lambda record, w, found=found: found.append(w.copy())])
        sequences.append((found, [(record.objective, record.dual) for record in result.trace]))
    np.testing.assert_allclose(sequences[0][0], sequences[1][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(sequences[0][1], sequences[1][1], rtol=0, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# Optima


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "learner", [EG(max_passes=3000, growth=1.3), OnlineEG(max_passes=2000)], ids=["batch", "online"]
)
@pytest.mark.parametrize("C", [0.1, 2.0])
def test_hinge_against_a_qp(name: str, learner: Any, C: float) -> None:
    problem = CASES[name].problem("svm")
    result = type(learner)(C=C, max_passes=learner.max_passes, growth=learner.growth, tolerance=1e-3).fit(problem)
    best = optimum(CASES[name], C)
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.dual <= best + 1e-9 and best <= result.certificate.primal + 1e-9
    assert result.certificate.relative_gap <= 1e-3
    assert CASES[name].objective(result.theta, Loss.named("svm"), C) == pytest.approx(result.certificate.primal)


@pytest.mark.parametrize("loss", ["crf", "softmax_margin", Loss(3.0, 2.0)])
@pytest.mark.parametrize("kind", [EG, OnlineEG])
def test_smooth_losses_meet_lbfgs(kind: Any, loss: Any) -> None:
    problem = CHAIN.problem(loss)
    result = kind(C=3.0, tolerance=1e-7, max_passes=1000).fit(problem)
    other = LBFGS(C=3.0, tolerance=1e-10, max_passes=1000).fit(problem)
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.primal == pytest.approx(other.trace[-1].objective, rel=1e-6)
    np.testing.assert_allclose(result.theta, other.theta, atol=5e-3)


def test_constrained_spaces_and_given_weights() -> None:
    """Hard constraints, a start from weights, costs of false positives: still the optimum."""
    rules = {"transitions": [[1, 1, 0], [1, 1, 1], [0, 1, 1]], "start": [1, 1, 0]}
    case = tiny(seed=5, **rules)
    problem = case.problem("softmax_margin", cost=Hamming(0.5, 1.0))
    best = LBFGS(C=1.0, tolerance=1e-10, max_passes=1000).fit(problem)
    for kind in (EG, OnlineEG):
        result = kind(C=1.0, tolerance=1e-6, max_passes=500).fit(problem, theta=case.theta(np.random.default_rng(0)))
        assert result.status == "converged"
        assert result.trace[-1].objective == pytest.approx(best.trace[-1].objective, rel=1e-5)
    warm = EG(C=1.0, tolerance=1e-6).fit(problem, theta=best.theta)
    assert len(warm.trace) <= 2  # the Gibbs distributions of the optimal weights are the optimal dual point
    svm = EG(C=1.0, tolerance=1e-2).fit(case.problem("svm"), theta=case.theta(np.random.default_rng(0)))
    assert svm.status == "converged"


def test_nonnegative_weights_against_a_qp() -> None:
    case, C = CLASSES, 1.0
    mask = np.arange(case.features.dim) % 2 == 0
    problem = case.problem("svm", nonnegative=mask)
    result = EG(C=C, max_passes=3000, growth=1.3).fit(problem)
    assert result.status == "converged" and (result.theta[mask] >= 0).all()
    dim, m = case.features.dim, len(case.outputs)
    rows, bounds = [np.hstack([-np.eye(dim)[mask], np.zeros((mask.sum(), m))])], [np.zeros(mask.sum())]
    for i in range(m):
        a, c = differences(case, i, 1.0)
        rows.append(np.hstack([a, np.tile(-np.eye(m)[i], (len(a), 1))]))
        bounds.append(-c)
    P, q = np.diag(np.append(np.full(dim, 1.0 / C), np.zeros(m))), np.append(np.zeros(dim), np.ones(m))
    theta = solve_qp(P, q, np.vstack(rows), np.concatenate(bounds))[:dim]
    best = case.objective(theta, Loss.named("svm"), C)
    assert result.certificate is not None
    assert result.certificate.dual <= best + 1e-8 and best <= result.certificate.primal + 1e-8


def test_binary_svm() -> None:
    """Two classes with opposite features: the plain binary SVM, by hand as a box-constrained dual."""
    rng = np.random.default_rng(4)
    X, C = rng.normal(size=(30, 3)), 2.0
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1, 0)
    matrices = [np.stack([-0.5 * x, 0.5 * x], axis=1) for x in X]
    problem = Problem(Multiclass(30, 2), MatrixFeatures(matrices), list(y), "svm")
    signed = np.where(y == 1, 1.0, -1.0)[:, None] * X
    box = np.vstack([np.eye(30), -np.eye(30)])
    alpha = solve_qp(C * signed @ signed.T, -np.ones(30), box, np.append(np.ones(30), np.zeros(30)))
    w = C * alpha @ signed
    for learner in (
        EG(C=C, tolerance=1e-4, max_passes=5000, growth=1.3),
        OnlineEG(C=C, tolerance=1e-5, max_passes=3000),
    ):
        result = learner.fit(problem)
        assert result.status == "converged"
        np.testing.assert_allclose(result.theta, w, atol=0.05)


def test_structures_in_plain_python() -> None:
    case = tiny(seed=2, lengths=(2, 1, 3))
    for kind in (EG, OnlineEG):
        learner = kind(C=1.0, max_passes=12, tolerance=0.0)
        compiled, plain = learner.fit(case.problem("crf")), learner.fit(case.plain("crf"))
        np.testing.assert_allclose(compiled.theta, plain.theta, atol=1e-8)


# --------------------------------------------------------------------------------------------------
# Runs


def test_adaptive_steps() -> None:
    """The dual never falls, η is halved where a step was refused and grows where it was not."""
    result = EG(C=5.0, first_eta=10.0, growth=1.1, max_passes=60, tolerance=0.0).fit(CHAIN.problem("svm"))
    for before, after in pairwise(result.trace):
        assert after.dual is not None and before.dual is not None and after.dual >= before.dual
        factor = after.extra["eta"] / before.extra["eta"]
        assert factor == pytest.approx(1.1 if before.extra["moved"] else 0.5)
        assert after.extra["moved"] or after.dual == before.dual
    assert {record.extra["moved"] for record in result.trace} == {0.0, 1.0}


def test_online_steps_never_lower_the_dual() -> None:
    for loss in ("svm", "crf"):
        result = OnlineEG(C=5.0, max_passes=40, tolerance=0.0).fit(CHAIN.problem(loss))
        duals = [record.dual for record in result.trace if record.dual is not None]
        assert all(after >= before - 1e-12 for before, after in pairwise(duals))
        assert max(record.extra["calls"] for record in result.trace) > 1.0


def test_fixed_online_step_is_the_rule() -> None:
    """One pass in order, against θ_i ← θ_i + ηC(p + Fᵀw) by enumeration."""
    case, C, eta = CHAIN, 0.5, 0.4
    learner = OnlineEG(C=C, eta=eta, shuffle=False, head_start=0.0, max_passes=1, tolerance=0.0)
    result = learner.fit(case.problem("svm"))
    w = np.zeros(case.features.dim)
    pairs = [differences(case, i, 1.0) for i in range(len(case.outputs))]
    alphas = [np.full(len(a), 1.0 / len(a)) for a, _ in pairs]
    for (a, _), alpha in zip(pairs, alphas, strict=True):
        w -= C * alpha @ a
    for (a, c), alpha in zip(pairs, alphas, strict=True):
        weights = alpha * np.exp(eta * C * (c + a @ w))
        w -= C * (weights / weights.sum() - alpha) @ a
    np.testing.assert_allclose(result.theta, w, atol=1e-10)


@pytest.mark.parametrize("learner", [EG(form="primal"), EG(form="dual"), OnlineEG()], ids=["primal", "dual", "online"])
def test_a_resumed_run_has_the_same_bits(learner: Any) -> None:
    settings = {"C": 2.0, "tolerance": 0.0, **({"form": learner.form} if isinstance(learner, EG) else {})}
    problem, memory = CHAIN.problem("svm"), Memory()
    whole = type(learner)(max_passes=14, **settings).fit(problem)
    type(learner)(max_passes=5, **settings).fit(problem, checkpoint=memory)
    resumed = type(learner)(max_passes=14, **settings).fit(problem, checkpoint=memory)
    np.testing.assert_array_equal(whole.theta, resumed.theta)
    assert [r.dual for r in whole.trace] == [r.dual for r in resumed.trace]


def synthetic(m: int) -> Problem:
    """m instances with four labels over the same twelve attributes."""
    rng = np.random.default_rng(m)
    rows = RowMatrix.from_csr(scipy.sparse.csr_array(rng.normal(size=(m, 12))), np.arange(m + 1, dtype=np.int64))
    layout = RowLayout(12, 4)
    return Problem(Multiclass(m, 4), RowFeatures(layout.pack(rows), layout.dim), rng.integers(4, size=m), "svm")


def test_memory_of_the_primal_form_is_flat_and_time_is_linear() -> None:
    sizes: dict[str, list[int]] = {"primal": [], "dual": []}
    seconds = []
    for m in (500, 8000):
        problem = synthetic(m)
        for form, found in sizes.items():
            learner = EG(C=1.0 / m, form=form, max_passes=3, tolerance=0.0)
            state = learner.start(problem, np.zeros(problem.dim), None)
            learner.advance(problem, state)
            found.append(sum(np.asarray(value).nbytes for value in state.values()))
        begin = time.process_time()
        for _ in range(40 if m == 500 else 10):
            learner.advance(problem, state)
        seconds.append((time.process_time() - begin) / (40 if m == 500 else 10))
    assert sizes["primal"][1] == sizes["primal"][0]
    assert sizes["dual"][1] > 10 * sizes["dual"][0]
    assert seconds[1] < 3 * 16 * seconds[0]  # 16 times the instances; a factor for noise


# --------------------------------------------------------------------------------------------------
# EG-QP


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 4), rank=st.integers(1, 6))
def test_eg_qp_against_a_qp_solver(seed: int, n: int, rank: int) -> None:
    """Within Theorem 2's step Q never rises and its average obeys the theorem; the gap bounds the error."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(1, 5, size=n)
    m = int(groups.sum())
    root, b = rng.normal(size=(m, rank)), rng.normal(size=m)
    A = root @ root.T
    owner = np.repeat(np.eye(n), groups, axis=1)
    limits = np.vstack([-np.eye(m), owner, -owner])
    best = solve_qp(A, b, limits, np.concatenate([np.zeros(m), np.ones(n), -np.ones(n)]))
    best = np.maximum(best, 0.0) / np.repeat(np.add.reduceat(np.maximum(best, 0.0), np.cumsum(groups) - groups), groups)
    least = float(b @ best + 0.5 * best @ A @ best)
    found = eg_qp(A, b, groups.tolist(), max_steps=300, tolerance=-1.0)
    values = np.array(found.values)
    assert (np.diff(values) <= 1e-12 * (1 + abs(values[0]))).all()
    assert -1e-7 <= values[-1] - least <= found.gap + 1e-7
    T = len(values) - 1
    divergence = float(
        sum(p * math.log(p / q) for p, q in zip(best, 1 / np.repeat(groups, groups), strict=True) if p > 0)
    )
    promise = least + divergence / (found.eta * T) + 1.5 * (values[0] - values[-1]) / T
    assert values[:-1].mean() <= promise + 1e-7
    quick = eg_qp(A, b, groups.tolist(), eta=10 * found.eta, max_steps=20000, tolerance=1e-3)
    assert quick.values[-1] - least <= max(quick.gap, 1e-3) + 1e-7


def test_eg_qp_refuses_bad_input() -> None:
    eye, zero = np.eye(3), np.zeros(3)
    with pytest.raises(InputError, match=r"A has shape \(2, 2\) and b \(3,\); expected \(m, m\) and \(m,\)"):
        eg_qp(np.eye(2), zero, [3])
    for groups in ([], [2, 2], [0, 3]):
        with pytest.raises(ParameterError, match=r"groups.*positive sizes whose sum is 3"):
            eg_qp(eye, zero, groups)
    with pytest.raises(ParameterError, match=r"A.*a symmetric matrix"):
        eg_qp(np.triu(np.ones((3, 3))), zero, [3])
    with pytest.raises(ParameterError, match=r"positive semi-definite.*eigenvalue of -1"):
        eg_qp(-eye, zero, [3])
    with pytest.raises(ParameterError, match=r"eta.*a positive number"):
        eg_qp(eye, zero, [3], eta=0.0)
    for alpha in (np.ones(3), np.array([0.0, 0.5, 0.5]), np.ones(2) / 2):
        with pytest.raises(ParameterError, match=r"alpha.*positive, with a sum of 1"):
            eg_qp(eye, zero, [3], alpha=alpha)
    start = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(eg_qp(eye, zero, [3], alpha=start, max_steps=0).alpha, start)


# --------------------------------------------------------------------------------------------------
# Refusals


def test_settings_are_checked() -> None:
    for kind, words in ((EG, "'adaptive' or 'theorem2' or 'smooth'"), (OnlineEG, "'adaptive'")):
        for eta in (0.0, -1.0, math.nan, "fast"):
            with pytest.raises(ParameterError, match=f"eta.*a positive number, {words}"):
                kind(eta=eta)
        with pytest.raises(ParameterError, match=r"growth.*at least 1"):
            kind(growth=0.9)
        with pytest.raises(ParameterError, match=r"head_start.*a number ≥ 0"):
            kind(head_start=-1.0)
        with pytest.raises(ParameterError, match=r"first_eta.*a positive number"):
            kind(first_eta=0.0)
        with pytest.raises(ParameterError, match=r"C.*a positive number"):
            kind(C=0.0)
        with pytest.raises(ParameterError, match=r"tolerance.*a number ≥ 0"):
            kind(tolerance=-1.0)
    with pytest.raises(ParameterError, match=r"form.*'primal' or 'dual'"):
        EG(form="both")


def test_mismatches_fail_before_training() -> None:
    with pytest.raises(CapabilityError, match="EG minimises convex losses L\\(β,γ\\), not risk"):
        EG().fit(CHAIN.problem("risk"))
    with pytest.raises(CapabilityError, match="Theorem 2 is about β = ∞, not crf; use eta='smooth'"):
        EG(eta="theorem2").fit(CHAIN.problem("crf"))

    class Sums(Enumerated):
        oracles = property(lambda self: frozenset({"marginals"}))  # type: ignore[assignment]

    atoms = [CHAIN.space.n_atoms(i) for i in range(len(CHAIN.space))]
    only_sums = CHAIN.plain("crf", space=Sums(CHAIN.instances, atoms))
    with pytest.raises(CapabilityError, match="Sums has no oracle 'argmax', which eta='smooth' needs"):
        EG(eta="smooth").fit(only_sums)
    assert EG(C=1.0, tolerance=1e-2).fit(only_sums).status == "converged"
    with pytest.raises(CapabilityError, match="OnlineEG cannot keep weights ≥ 0"):
        OnlineEG().fit(CLASSES.problem("svm", nonnegative=np.ones(CLASSES.features.dim, bool)))

"""Frank–Wolfe: the dual rises with every step, the gap bounds what is left, and the optimum is a QP solver's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import Interval
from problems import Memory, Tiny, differences, proximal_hinge, solve_qp, tiny

from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import LEARNERS, BatchFrankWolfe, FrankWolfe, Learner
from partwise.learners.blocks import draw, put
from partwise.learners.kept_cuts import kept_cuts
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Multiclass

Floats = NDArray[np.float64]

KINDS: dict[str, Learner] = {
    "kept cuts": FrankWolfe(),
    "few kept cuts": FrankWolfe(cuts=2),
    "kept cuts, averaged": FrankWolfe(average=True),
    "kept cuts by gap": FrankWolfe(sampling="gap"),
    "mixture": FrankWolfe(cuts=0),
    "mixture by gap, last": FrankWolfe(cuts=0, sampling="gap", average=False),
    "mixture, uniform": FrankWolfe(cuts=0, sampling="uniform"),
    "batch": BatchFrankWolfe(),
}
CASE = tiny(seed=3)


@pytest.fixture(scope="module")
def optimum() -> float:
    """The minimum of eq. (2) for CASE, C = 0.3, by a quadratic program."""
    _, value = proximal_hinge(CASE, range(5), np.zeros(CASE.features.dim), 0.3, 1.0)
    return value / 5


def with_signs(case: Tiny, nonnegative: NDArray[np.bool_], C: float) -> float:
    """min of eq. (2) with θ_j ≥ 0 for the hinge, as a quadratic program with slacks."""
    m, dim = len(case.outputs), case.features.dim
    rows, bounds = [], []
    for i in range(m):
        a, c = differences(case, i, 1.0)
        rows.append(np.hstack([a, np.tile(-np.eye(m)[i], (len(a), 1))]))
        bounds.append(-c)
    signs = np.hstack([-np.eye(dim)[nonnegative], np.zeros((int(nonnegative.sum()), m))])
    P = np.diag(np.append(np.full(dim, 1.0 / C), np.zeros(m)))
    q = np.append(np.zeros(dim), np.ones(m))
    x = solve_qp(P, q, np.vstack([*rows, signs]), np.concatenate([*bounds, np.zeros(len(signs))]))
    return case.objective(x[:dim], Loss.named("svm"), C)


@pytest.mark.parametrize("name", KINDS)
def test_the_certificate_encloses_the_optimum(name: str, optimum: float) -> None:
    problem = CASE.problem("svm")
    result = replace(KINDS[name], C=0.3, tolerance=2e-3, max_passes=2000).fit(problem)
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.relative_gap <= 2e-3
    assert result.certificate.dual <= optimum + 1e-9 <= result.certificate.primal + 2e-9
    np.testing.assert_allclose(result.certificate.primal, CASE.objective(result.theta, Loss.named("svm"), 0.3))
    duals = np.array([record.dual for record in result.trace], float)
    assert (duals <= optimum + 1e-9).all()
    if not isinstance(KINDS[name], FrankWolfe) or not KINDS[name].averaging:
        assert np.diff(duals).min(initial=0.0) >= -1e-12


def test_kept_cuts_reach_a_tiny_gap(optimum: float) -> None:
    result = FrankWolfe(C=0.3, tolerance=1e-7, max_passes=300).fit(CASE.problem("svm"))
    assert result.status == "converged"
    np.testing.assert_allclose(result.certificate.primal, optimum, rtol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("cuts", [0, 3])
def test_no_single_step_lowers_the_dual(cuts: int) -> None:
    """D of the stored dual point, written out from its cuts, after every visit."""
    problem, C = CASE.problem("svm"), 0.7
    learner = FrankWolfe(C=C, cuts=cuts)
    state = learner.start(problem, np.zeros(problem.dim), None)
    before = 0.0
    for i in np.random.default_rng(0).integers(5, size=60):
        learner.visit(problem, state, np.array([i]), np.zeros(1), np.zeros(0))
        theta, constant = np.zeros(problem.dim), 0.0
        for j in range(5):
            u, b = mixture(problem, state, cuts, j)
            theta -= C * CASE.matrices[j] @ u
            constant += b
        np.testing.assert_allclose(state["theta"], theta, atol=1e-10)
        np.testing.assert_allclose(state["counters"][1], constant, atol=1e-10)
        dual = constant - 0.5 * theta @ theta / C
        assert dual >= before - 1e-12
        before = dual
    assert before > 0.5


def mixture(problem: Problem, state: dict[str, Any], cuts: int, i: int) -> tuple[Floats, float]:
    """(u_i, b_i) of a state."""
    first, last = problem.part_offsets[i : i + 2]
    kept, u, b = kept_cuts(problem, state), np.zeros(last - first), 0.0
    if cuts == 0:  # the mixture is the only cut
        here = slice(kept.start[i, 0], kept.start[i, 0] + kept.size[i, 0])
        u[kept.numbers[here]] = kept.values[here]
        return u, kept.constants[i, 0]
    assert kept.weights[i].min() >= 0 and kept.weights[i].sum() <= 1 + 1e-12
    for k in range(kept.filled[i]):
        here = slice(kept.start[i, k], kept.start[i, k] + kept.size[i, k])
        u[kept.numbers[here]] += kept.weights[i, k] * kept.values[here]
        b += kept.weights[i, k] * kept.constants[i, k]
    return u, b


def test_the_first_step_of_algorithm_4_by_hand() -> None:
    """From u = 0: η = min(1, L/(C‖F u_s‖²)), θ = −ηC F u_s."""
    problem, C = CASE.problem("svm"), 0.4
    learner = FrankWolfe(C=C, cuts=0)
    state = learner.start(problem, np.zeros(problem.dim), None)
    learner.visit(problem, state, np.array([4]), np.zeros(1), np.zeros(0))
    loss, gradient = CASE.instance_loss(4, np.zeros(problem.dim), Loss.named("svm"))
    step = min(1.0, loss / (C * gradient @ gradient))
    np.testing.assert_allclose(state["theta"], -step * C * gradient, atol=1e-12)
    assert state["gaps"][4] == pytest.approx(loss)


def test_the_average_is_what_it_says() -> None:
    """2/(k(k+1)) Σ_k k·θ_k and the same average of Σ_i b_i, collected without a dense step."""
    problem = CASE.problem("svm")
    learner = FrankWolfe(C=0.5, cuts=0)
    state = learner.start(problem, np.zeros(problem.dim), None)
    total, constant = np.zeros(problem.dim), 0.0
    for k, i in enumerate([0, 2, 4, 2, 1, 0, 3, 3, 1], start=1):
        learner.visit(problem, state, np.array([i]), np.zeros(1), np.zeros(0))
        total += k * state["theta"]
        constant += k * state["counters"][1]
    weight = state["counters"][0] * (state["counters"][0] + 1) / 2
    np.testing.assert_allclose(state["theta"] - state["late"] / weight, total / weight, atol=1e-12)
    np.testing.assert_allclose(state["counters"][2], constant)


@pytest.mark.parametrize("name", ["kept cuts", "mixture", "batch"])
def test_weights_that_must_not_be_negative(name: str) -> None:
    case = tiny(seed=3, lengths=(3, 2, 2))
    nonnegative = np.arange(case.features.dim) % 2 == 0
    best = with_signs(case, nonnegative, 0.3)
    learner = replace(KINDS[name], C=0.3, tolerance=3e-3, max_passes=2000)
    result = learner.fit(case.problem("svm", nonnegative=nonnegative))
    assert result.status == "converged" and (result.theta[nonnegative] >= 0).all()
    assert result.certificate.dual <= best + 1e-9 <= result.certificate.primal + 2e-9  # type: ignore[union-attr]
    free = learner.fit(case.problem("svm"))
    assert free.certificate.primal < best - 1e-3  # type: ignore[union-attr]  # the constraint binds


@pytest.mark.parametrize("name", ["kept cuts", "mixture", "batch"])
def test_a_start_is_used(name: str, optimum: float) -> None:
    """Its cuts give the dual of the first pass, and the answer is never worse than the start."""
    problem = CASE.problem("svm")
    start = FrankWolfe(C=0.3, tolerance=0.02, max_passes=300).fit(problem).theta
    learner = replace(KINDS[name], C=0.3, max_passes=2)
    cold, warm = learner.fit(problem), learner.fit(problem, theta=start)
    assert cold.certificate is not None and warm.certificate is not None
    assert optimum <= warm.certificate.primal <= CASE.objective(start, Loss.named("svm"), 0.3) + 1e-12
    assert warm.certificate.primal < cold.certificate.primal and 0 < warm.certificate.dual <= optimum
    assert warm.certificate.dual != cold.certificate.dual


@pytest.mark.parametrize("name", ["kept cuts", "kept cuts by gap", "mixture", "batch"])
def test_a_resumed_run_is_the_same(name: str) -> None:
    problem = CASE.problem("svm")
    learner = replace(KINDS[name], C=0.3, tolerance=0.0, max_passes=14)
    whole = learner.fit(problem)
    memory = Memory()
    replace(learner, max_passes=6).fit(problem, checkpoint=memory)
    assert memory.state is not None
    again = learner.fit(problem, checkpoint=memory)
    np.testing.assert_array_equal(again.theta, whole.theta)
    tail = [(record.objective, record.dual) for record in again.trace[-8:]]
    assert tail == [(record.objective, record.dual) for record in whole.trace[-8:]]


def test_plain_python_is_the_same() -> None:
    """A structure and features in plain Python take the very steps of the compiled ones."""
    learner = FrankWolfe(C=0.3, max_passes=5, cuts=0, tolerance=0.0)
    compiled, plain = learner.fit(CASE.problem("svm")), learner.fit(CASE.plain("svm"))
    np.testing.assert_allclose(plain.theta, compiled.theta, atol=1e-9)


def test_plain_python_with_kept_cuts(optimum: float) -> None:
    """A block at its optimum makes outputs tie, and rounding decides: other steps, the same place."""
    result = FrankWolfe(C=0.3, tolerance=1e-5, max_passes=200).fit(CASE.plain("svm"))
    assert result.status == "converged"
    np.testing.assert_allclose(result.certificate.primal, optimum, rtol=1e-5)  # type: ignore[union-attr]


class Lazy(Interval):
    """Counts how often its argmax is asked for."""

    calls = 0

    def argmax(self, i: int, scores: Floats) -> Floats:
        self.calls += 1
        return super().argmax(i, scores)


def intervals(kind: type[Interval] = Interval) -> Problem:
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 7, size=12).tolist()
    gold = [(int(a), int(rng.integers(a + 1, size + 1))) for size in sizes for a in [rng.integers(size)]]
    inside = [(np.arange(size) >= a) & (np.arange(size) < b) for size, (a, b) in zip(sizes, gold, strict=True)]
    matrices = [np.vstack([row + 0.2 * rng.normal(size=len(row)), np.ones(len(row))]) for row in inside]
    return Problem(kind(sizes), MatrixFeatures(matrices), gold, "svm")


def test_kept_cuts_save_calls_of_the_oracle() -> None:
    """An argmax in plain Python is enough; the same gap with fewer calls of it."""
    results = {}
    for cuts in (0, 10):
        problem = intervals(Lazy)
        result = FrankWolfe(C=1.0, cuts=cuts, tolerance=1e-4, max_passes=2000, certify_every=10**6).fit(problem)
        assert result.certificate.relative_gap <= 1e-4  # type: ignore[union-attr]
        results[cuts] = result.trace[-1].extra["oracle_calls"]
        assert results[cuts] <= problem.space.calls  # type: ignore[attr-defined]
    assert results[10] < 0.5 * results[0]


def test_an_output_outside_the_space_is_named() -> None:
    class Rogue(Interval):
        def argmax(self, i: int, scores: Floats) -> Floats:
            return np.zeros(99) if i == 7 else super().argmax(i, scores)

    with pytest.raises(InputError, match=r"Rogue\.argmax returned shape \(99,\) for instance 7"):
        FrankWolfe().fit(intervals(Rogue))


def test_draws_follow_the_weights() -> None:
    weights = np.array([0.0, 1.0, 3.0, 0.0, 6.0])
    tree = np.zeros(16)
    for i, weight in enumerate(weights):
        put(tree, i, weight)
    assert tree[1] == 10.0
    uniform = (np.arange(1000) + 0.5) / 1000
    counts = np.bincount([draw(tree, u) for u in uniform], minlength=5)
    np.testing.assert_array_equal(counts, [0, 100, 300, 0, 600])
    assert draw(tree, np.nextafter(1.0, 0.0)) == 4
    put(tree, 4, 0.0)
    assert draw(tree, np.nextafter(1.0, 0.0)) == 2


def test_the_primal_is_evaluated_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, calls = CASE.problem("svm"), []
    exact = problem.losses
    monkeypatch.setattr(problem, "losses", lambda theta: calls.append(theta) or exact(theta))
    result = FrankWolfe(C=3.0, certify_every=4, max_passes=10, tolerance=0.0).fit(problem)
    # after passes 1, 4, 8 and, being the last, 10; then at θ = 0, which might be better
    assert [bool(theta.any()) for theta in calls] == [True] * 4 + [False]
    objectives = [record.objective for record in result.trace]
    assert objectives[0] == objectives[2] > objectives[3] == objectives[6]  # type: ignore[operator]
    np.testing.assert_allclose(result.certificate.primal, exact_objective(problem, result.theta, 3.0))  # type: ignore[union-attr]
    assert 0 <= result.trace[-1].extra["gap_estimate"] < result.trace[0].extra["gap_estimate"]


def exact_objective(problem: Problem, theta: Floats, C: float) -> float:
    return float(0.5 * theta @ theta / C + problem.losses(theta).sum()) / problem.m


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cuts": 1}, "'cuts' .* 0, or at least 2"),
        ({"certify_every": 0}, "'certify_every' .* at least 1"),
        ({"sampling": "gaps"}, "'sampling' .* 'gap'"),
        ({"C": 0.0}, "'C' .* positive"),
        ({"tolerance": -1.0}, "'tolerance'"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        FrankWolfe(**settings)


def test_what_they_accept() -> None:
    assert LEARNERS["frank_wolfe"] is FrankWolfe and LEARNERS["batch_frank_wolfe"] is BatchFrankWolfe
    for kind in (FrankWolfe, BatchFrankWolfe):
        with pytest.raises(CapabilityError, match="convex losses with β = ∞, not crf"):
            kind().fit(CASE.problem("crf"))
        with pytest.raises(CapabilityError, match="not ramp"):
            kind().fit(CASE.problem("ramp"))


def test_a_mixture_is_as_sparse_as_its_outputs() -> None:
    """Memory grows with the parts that were met, not with those that exist."""
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=(3, 5000)) for _ in range(4)]
    problem = Problem(Multiclass(4, 5000), MatrixFeatures(matrices), [1, 2, 3, 4], "svm")
    learner = FrankWolfe(C=1.0, cuts=0, max_passes=20)
    state = learner.start(problem, np.zeros(3), None)
    for _ in range(20):
        learner.advance(problem, state)
    kept = kept_cuts(problem, state)
    assert kept.size.shape == (4, 1) and kept.size.max() <= 21  # the gold output and one more for every pass
    dense = FrankWolfe(C=1.0, cuts=10, max_passes=20).fit(problem).certificate
    sparse = learner.fit(problem).certificate
    assert dense is not None and sparse is not None and sparse.dual <= dense.primal

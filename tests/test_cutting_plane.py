"""Cutting planes: their optimum against a QP solver and each other, the bounds of the theory, caches and removal."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import Enumerated, Memory, Tiny, differences, hamming, solve_qp, tiny, tiny_multiclass

from partwise import SequenceLabeler
from partwise.exceptions import CapabilityError, ParameterError
from partwise.learners import NSlack, OneSlack
from partwise.learners._cuts import Cuts, forgotten, grown
from partwise.learners.base import Record, objective
from partwise.learners.cutting_plane import CuttingPlane
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.storage import Checkpoint

Floats = NDArray[np.float64]
INF = math.inf
CASE = tiny(seed=1)
CHAINS = [CASE, tiny(seed=3, lengths=(4, 3, 2), transitions=[[1, 1, 0], [1, 1, 1], [0, 1, 1]], start=[1, 1, 0])]
LEARNERS = [NSlack, OneSlack]


def all_cuts(case: Tiny, i: int, loss: Loss) -> tuple[Floats, Floats]:
    """(F u, b) of every output of instance i: L_i = max_k b_k + (F u)_kᵀθ."""
    a, cost = differences(case, i, loss.gamma)
    return (cost[:, None] * a, cost) if loss.slack else (a, cost)


def optimum(case: Tiny, loss: Loss, C: float, nonnegative: Floats | None = None) -> tuple[float, Floats]:
    """(min P, θ*) as a quadratic program with one slack per instance and all constraints."""
    dim, m = case.features.dim, len(case.outputs)
    rows, bounds = [], []
    for i in range(m):
        a, b = all_cuts(case, i, loss)
        rows.append(np.hstack([a, np.tile(-np.eye(m)[i], (len(a), 1))]))
        bounds.append(-b)
    if nonnegative is not None:
        rows.append(np.hstack([-np.eye(dim), np.zeros((dim, m))])[nonnegative])
        bounds.append(np.zeros(int(nonnegative.sum())))
    P = np.diag(np.append(np.full(dim, 1.0 / C), np.zeros(m)))
    theta = solve_qp(P, np.append(np.zeros(dim), np.ones(m)), np.vstack(rows), np.concatenate(bounds))[:dim]
    value = 0.5 * theta @ theta / C
    for i in range(m):
        a, b = all_cuts(case, i, loss)
        value += (a @ theta + b).max()
    return float(value) / m, theta


def radius(case: Tiny, loss: Loss) -> float:
    """R = max ‖F_i u‖."""
    return max(float(np.linalg.norm(all_cuts(case, i, loss)[0], axis=1).max()) for i in range(len(case.outputs)))


# --------------------------------------------------------------------------------------------------
# The optimum


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("C", [0.02, 0.5, 20.0])
@pytest.mark.parametrize("name", ["svm", "L(∞, 2.5)", "slack_svm", "perceptron"])
def test_optimum_is_that_of_the_full_qp(kind: type[CuttingPlane], C: float, name: str) -> None:
    loss = Loss(INF, 2.5) if name.startswith("L") else Loss.named(name)
    for case in CHAINS:
        best, theta = optimum(case, loss, C)
        result = kind(C=C, tolerance=1e-6).fit(case.problem(loss))
        assert result.status == "converged" and result.certificate is not None
        assert result.certificate.gap <= 1e-6 * result.certificate.primal
        assert result.certificate.dual <= best + 1e-8 and result.certificate.primal >= best - 1e-8
        np.testing.assert_allclose(result.certificate.primal, best, rtol=2e-6, atol=1e-9)
        # strong convexity: P − P* ≥ ‖θ − θ*‖²/(2Cm)
        reach = math.sqrt(2 * C * len(case.outputs) * (2e-6 * best + 1e-8))
        assert np.linalg.norm(result.theta - theta) <= reach + 1e-4


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("loss", ["svm", "slack_svm"])
def test_plain_python_is_the_same(kind: type[CuttingPlane], loss: str) -> None:
    """Not bit for bit, because ties of rounding decide which rows a quadratic program begins with."""
    results = [kind(C=0.5, tolerance=1e-8).fit(problem) for problem in (CASE.problem(loss), CASE.plain(loss))]
    assert results[0].trace[0].objective == pytest.approx(results[1].trace[0].objective)
    np.testing.assert_allclose(results[0].certificate.primal, results[1].certificate.primal, rtol=2e-8)
    np.testing.assert_allclose(results[0].theta, results[1].theta, atol=1e-3)


@settings(max_examples=25, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 9999), C=st.floats(-2, 1.5).map(lambda x: 10.0**x))
def test_every_record_is_a_certificate(seed: int, C: float) -> None:
    """dual ≤ optimum ≤ primal after every pass, the dual never falls, and both learners meet."""
    case = tiny_multiclass(seed)
    best, _ = optimum(case, Loss.named("svm"), C)
    for kind in LEARNERS:
        result = kind(C=C, tolerance=1e-5).fit(case.plain("svm"))
        assert result.status == "converged"
        duals = [record.dual for record in result.trace]
        for record in result.trace:
            assert record.dual <= best + 1e-7 and record.objective >= best - 1e-7
            assert record.gap == record.objective - record.dual
        assert all(after >= before - 1e-9 for before, after in pairwise(duals))
        np.testing.assert_allclose(result.certificate.primal, best, rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(objective(case.plain("svm"), result.theta, C), result.certificate.primal)


@pytest.mark.parametrize("kind", LEARNERS)
def test_weights_that_must_not_be_negative(kind: type[CuttingPlane]) -> None:
    masks = [np.zeros(CASE.features.dim, bool) for _ in range(2)]
    masks[0][CASE.layout.dim :] = True
    masks[1][:] = True
    free, _ = optimum(CASE, Loss.named("svm"), 0.5)
    for mask in masks:
        best, _ = optimum(CASE, Loss.named("svm"), 0.5, mask)
        assert best > free + 1e-3, "the constraint binds"
        result = kind(C=0.5, tolerance=1e-5).fit(CASE.problem("svm", nonnegative=mask))
        assert result.status == "converged" and result.certificate is not None
        assert (result.theta[mask] >= 0).all()
        assert result.certificate.dual <= best + 1e-8 <= result.certificate.primal + 2e-8
        np.testing.assert_allclose(result.certificate.primal, best, rtol=2e-5)


def test_one_label_and_no_loss() -> None:
    """Nothing to learn: the first pass certifies θ = 0."""
    case = tiny(seed=0, lengths=(2, 1), n_labels=1)
    for kind in LEARNERS:
        result = kind().fit(case.problem("svm"))
        assert result.status == "converged" and len(result.trace) == 1 and not result.theta.any()
        assert result.trace[0].objective == result.trace[0].dual == 0.0


# --------------------------------------------------------------------------------------------------
# The working set


def test_sweeps_solve_the_qp_of_the_working_sets() -> None:
    """max α·b − C/2 αᵀGα over α ≥ 0, Σ_k α_ik ≤ 1, with the Gram matrix of all cuts written out."""
    C, problem = 2.0, CASE.problem("svm")
    learner = NSlack(C=C, tolerance=1e-9, max_sweeps=0)
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(4):
        learner.advance(problem, state)
    cuts, raw = Cuts(**state["cuts"]), state["raw"]
    before = learner.dual(problem, float(cuts.alpha @ cuts.constant), raw / C)
    for _ in range(500):
        totals = np.zeros(2)
        learner._over(problem, np.arange(problem.m), False, 0.0, 1e-11, raw, raw, cuts, totals)
    rows, bounds, group = [], [], []
    for i in range(problem.m):
        for slot in range(cuts.first[i], cuts.first[i] + cuts.filled[i]):
            u = np.zeros(CASE.space.n_parts(i))
            u[cuts.numbers[cuts.start[slot] : cuts.stop[slot]]] = cuts.values[cuts.start[slot] : cuts.stop[slot]]
            rows.append(CASE.matrices[i] @ u)
            bounds.append(cuts.constant[slot])
            group.append(i)
    a, b = np.array(rows), np.array(bounds)
    assert len(b) > 12
    limits = np.vstack([-np.eye(len(b)), (np.array(group) == np.arange(5)[:, None]).astype(float)])
    best = solve_qp(C * a @ a.T, -b, limits, np.append(np.zeros(len(b)), np.ones(5)))
    expected = (best @ b - 0.5 * C * best @ a @ a.T @ best) / problem.m
    found = learner.dual(problem, float(cuts.alpha @ cuts.constant), raw / C)
    assert before < found - 1e-4, "the sweeps had something to do"
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(raw, -C * best @ a, atol=1e-4)
    assert totals[0] < 1e-8 and (cuts.alpha >= 0).all()
    assert all(cuts.alpha[p:q].sum() <= 1 + 1e-12 for p, q in pairwise(cuts.first))


def test_room_is_made_and_cuts_are_removed() -> None:
    """Growing and forgetting keep every cut that is in use, with its Gram matrix."""
    problem, learner = CASE.problem("svm"), NSlack(C=20.0, tolerance=1e-6)
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(8):
        learner.advance(problem, state)
    cuts = Cuts(**state["cuts"])
    assert cuts.filled.max() > 2 and len(cuts.numbers) > 16 * problem.m, "more than there was room for"

    def content(some: Cuts, i: int) -> list[Any]:
        room = some.first[i + 1] - some.first[i]
        gram = some.gram[some.square[i] : some.square[i + 1]].reshape(room, room)
        slots = range(some.first[i], some.first[i] + some.filled[i])
        parts = [(some.numbers[some.start[s] : some.stop[s]].tolist(), some.values[some.start[s]]) for s in slots]
        weights = some.alpha[slots.start : slots.stop].tolist()
        return [parts, weights, gram[: len(slots), : len(slots)].tolist(), some.constant[slots.start : slots.stop]]

    larger = grown(cuts, 2, 1000)
    for i in range(problem.m):
        for left, right in zip(content(cuts, i), content(larger, i), strict=True):
            np.testing.assert_array_equal(np.array(left, object), np.array(right, object))
    used = cuts.alpha > 0
    for _ in range(3):
        cuts = forgotten(cuts, 2)
    assert cuts.filled.sum() == used.sum() < used.size and (cuts.alpha[: cuts.filled[0]] > 0).all()
    for i in range(problem.m):
        matrix = CASE.matrices[i]
        for row, slot in enumerate(range(cuts.first[i], cuts.first[i] + cuts.filled[i])):
            u = np.zeros(matrix.shape[1])
            u[cuts.numbers[cuts.start[slot] : cuts.stop[slot]]] = cuts.values[cuts.start[slot] : cuts.stop[slot]]
            room = cuts.first[i + 1] - cuts.first[i]
            np.testing.assert_allclose(cuts.gram[cuts.square[i] + row * room + row], u @ matrix.T @ matrix @ u)


@pytest.mark.parametrize("kind", LEARNERS)
def test_forgetting_and_caching_change_the_way_not_the_end(kind: type[CuttingPlane]) -> None:
    best, _ = optimum(CASE, Loss.named("svm"), 5.0)
    settings: list[dict[str, Any]] = [{"forget": 1}, {"forget": 10**6}]
    settings += [{"cache": 1}, {"cache": 5, "forget": 3}] if kind is OneSlack else [{"max_sweeps": 0}]
    held = []
    for more in settings:
        result = kind(C=5.0, tolerance=1e-5, **more).fit(CASE.problem("svm"))
        assert result.status == "converged"
        np.testing.assert_allclose(result.certificate.primal, best, rtol=2e-5)
        held.append([record.extra["constraints"] for record in result.trace])
        assert result.trace[-1].extra["added"] >= max(held[-1])
    assert max(held[0]) < max(held[1]) and held[1] == sorted(held[1])


class Counting(Enumerated):
    """How often the oracle is asked."""

    calls = 0

    def argmax(self, i: int, scores: Floats) -> Floats:
        type(self).calls += 1
        return super().argmax(i, scores)


def test_the_cache_saves_calls_of_the_oracle() -> None:
    asked = []
    for cache in (0, 5):
        Counting.calls = 0
        problem = CASE.plain("svm", Counting(CASE.instances, [CASE.space.n_atoms(i) for i in range(5)]))
        result = OneSlack(C=5.0, tolerance=1e-4, cache=cache).fit(problem)
        assert result.status == "converged"
        # once a pass; the cache asks again for an instance that found its memory full
        assert problem.m * len(result.trace) <= Counting.calls <= problem.m * len(result.trace) + cache
        asked.append(Counting.calls)
    assert asked[1] < 0.75 * asked[0]


# --------------------------------------------------------------------------------------------------
# Theory (Sarawagi's overview; her C is Cm, her J is C·m·D)


@pytest.mark.parametrize("name", ["svm", "slack_svm"])
@pytest.mark.parametrize("C", [0.05, 0.5])
def test_constraint_counts_stay_below_the_bounds(name: str, C: float) -> None:
    """n-slack: max(2NΔ/ε, 8CΔR²/ε²) constraints; 1-slack: max(log CΔ/(4R²C²), 16CR²/ε). With ε as in the slides."""
    loss = Loss.named(name)
    m, R = 5, radius(CASE, loss)
    paper_c = C * m
    worst = max(hamming(instance, y).max() for instance, y in zip(CASE.instances, CASE.outputs, strict=True))
    for epsilon in (0.3, 0.03):
        bounds = {
            NSlack: max(2 * m * worst / epsilon, 8 * paper_c * worst * R**2 / epsilon**2),
            OneSlack: max(math.log(worst / (4 * R**2 * paper_c)), 16 * paper_c * R**2 / epsilon),
        }
        for kind, bound in bounds.items():
            result = kind(C=C, tolerance=0.0, epsilon=epsilon, forget=10**6).fit(CASE.problem(loss))
            assert result.status == "converged"
            assert 1 <= result.trace[-1].extra["added"] <= bound
            assert result.certificate.gap <= 2 * epsilon


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("C", [0.05, 0.5, 5.0])
def test_every_constraint_raises_the_dual(kind: type[CuttingPlane], C: float) -> None:
    """J(α^{t+1}) − J(α^t) ≥ min(Cε/2N, ε²/8R²) for each constraint that was violated by more than ε."""
    epsilon, m, R = 0.05, 5, radius(CASE, Loss.named("svm"))
    records: list[Record] = []
    learner = kind(C=C, tolerance=0.0, epsilon=epsilon, forget=10**6)
    learner.fit(CASE.problem("svm"), callbacks=[lambda record, theta: records.append(record)])
    assert len(records) > 3
    paper_c = C * m
    # the joint constraint stands for all N at once: N = 1 in the bound, and its slack is the mean of theirs
    step = min(paper_c * epsilon / 2 / (m if kind is NSlack else 1), epsilon**2 / 8 / R**2)
    pairs = list(pairwise(records))
    gains = [paper_c * (after.dual - before.dual) for before, after in pairs]
    if kind is NSlack:
        new = [after.extra["added"] - before.extra["added"] for before, after in pairs]
    else:  # a constraint found in one pass is used in the next; the last one found none to add
        new = [1.0] * len(pairs)
    assert all(gain >= count * step - 1e-12 for gain, count in zip(gains, new, strict=True))
    assert sum(new) > 3


def test_epsilon_is_the_largest_violation() -> None:
    """After n-slack has stopped no output of any instance violates its slack by more than ε (and what QP leaves)."""
    epsilon = 0.05
    result = NSlack(C=1.0, tolerance=0.0, epsilon=epsilon).fit(CASE.problem("svm"))
    assert result.status == "converged" and result.trace[-1].gap <= 2 * epsilon
    assert result.trace[-1].extra["added"] == result.trace[-2].extra["added"]
    finer = NSlack(C=1.0, tolerance=0.0, epsilon=1e-5).fit(CASE.problem("svm"))
    assert finer.certificate.gap <= 2e-5 < result.trace[-1].gap


# --------------------------------------------------------------------------------------------------
# The loop around them


@pytest.mark.parametrize("settings", [(NSlack, {}), (OneSlack, {}), (OneSlack, {"cache": 2})], ids=str)
def test_resumed_run_ends_with_the_same_weights(settings: tuple[Any, Any], tmp_path: Path) -> None:
    kind, more = settings
    problem, mask = CASE.problem("svm"), np.arange(CASE.features.dim) % 3 == 0
    for p in (problem, CASE.problem("svm", nonnegative=mask)):
        whole = kind(C=5.0, tolerance=1e-5, forget=3, **more).fit(p)
        for keep in (Memory(), Checkpoint(tmp_path / f"{id(p)}.pw")):
            kind(C=5.0, tolerance=1e-5, forget=3, max_passes=5, **more).fit(p, checkpoint=keep)
            resumed = kind(C=5.0, tolerance=1e-5, forget=3, **more).fit(p, checkpoint=keep)
            assert resumed.status == "converged" and len(resumed.trace) == len(whole.trace)
            # not to the last bit: a difference of rounding in the small programs was once seen to grow to 1e-8
            np.testing.assert_allclose(resumed.theta, whole.theta, rtol=1e-6, atol=1e-9)
            objectives = [[r.objective for r in run.trace] for run in (resumed, whole)]
            np.testing.assert_allclose(*objectives, rtol=1e-6)


@pytest.mark.parametrize("kind", LEARNERS)
def test_threads_do_not_matter(kind: type[CuttingPlane]) -> None:
    one, two = (kind(C=5.0).fit(CASE.problem("svm", n_threads=n)) for n in (1, 2))
    assert one.theta.tobytes() == two.theta.tobytes()


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_good_start_helps(kind: type[CuttingPlane]) -> None:
    cold = kind(C=1.0, tolerance=1e-4).fit(CASE.problem("svm"))
    warm = kind(C=1.0, tolerance=1e-4).fit(CASE.problem("svm"), theta=cold.theta)
    assert warm.status == "converged" and len(warm.trace) <= len(cold.trace)
    np.testing.assert_allclose(warm.certificate.primal, cold.certificate.primal, rtol=1e-3)
    if kind is OneSlack:
        np.testing.assert_allclose(warm.trace[0].objective, cold.certificate.primal)


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_interrupted_run_keeps_the_best_iterate(kind: type[CuttingPlane]) -> None:
    class Busy(Enumerated):
        left = 60

        def argmax(self, i: int, scores: Floats) -> Floats:
            type(self).left -= 1
            if type(self).left < 0:
                raise KeyboardInterrupt
            return super().argmax(i, scores)

    problem = CASE.plain("svm", Busy(CASE.instances, [CASE.space.n_atoms(i) for i in range(5)]))
    result = kind(C=5.0, tolerance=1e-9).fit(problem)
    assert result.status == "interrupted" and len(result.trace) >= 3 and result.certificate is not None
    values = [record.objective for record in result.trace]
    assert result.certificate.primal == min(values) == values[result.best_step - 1]
    np.testing.assert_allclose(objective(CASE.problem("svm"), result.theta, 5.0), min(values), rtol=1e-9)


@pytest.mark.parametrize("learner", ["n_slack", "one_slack"])
def test_sequence_labeler_by_name(learner: str) -> None:
    X = [[["a", "x"], ["b"], ["a"]], [["b", "y"], ["a"]], [["b"], ["b", "x"]]] * 3
    y = [["A", "B", "A"], ["B", "A"], ["B", "B"]] * 3
    model = SequenceLabeler(loss="svm", learner=learner, C=1.0, learner_options={"tolerance": 1e-4}).fit(X, y)
    assert model.predict(X) == y
    assert model.result_.status == "converged" and model.result_.certificate.relative_gap <= 1e-4


def test_what_they_refuse() -> None:
    for kind in LEARNERS:
        for name in ("C", "epsilon"):
            with pytest.raises(
                ParameterError, match=f"'{name}' parameter of {kind.__name__} must be a positive number"
            ):
                kind(**{name: 0.0})
        with pytest.raises(ParameterError, match=r"'forget' .* at least 1\. Got 0"):
            kind(forget=0)
        with pytest.raises(ParameterError, match=r"'tolerance' .* a number ≥ 0"):
            kind(tolerance=-1.0)
        with pytest.raises(CapabilityError, match=f"{kind.__name__} minimises convex losses with β = ∞, not crf"):
            kind().fit(CASE.problem("crf"))
        with pytest.raises(CapabilityError, match="not ramp"):
            kind().fit(CASE.problem("ramp"))
        with pytest.raises(CapabilityError, match="partly known gold outputs make it non-convex"):
            kind().fit(Problem(CASE.space, CASE.features, CASE.space, "perceptron"))
    with pytest.raises(ParameterError, match="'max_sweeps' parameter of NSlack must be at least 0"):
        NSlack(max_sweeps=-1)
    with pytest.raises(ParameterError, match="'cache' parameter of OneSlack must be at least 0"):
        OneSlack(cache=-1)

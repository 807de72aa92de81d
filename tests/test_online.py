"""The online learners against step-by-step references in plain numpy, and the loop around every learner."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray
from problems import Enumerated, Memory, Tiny, differences, iterates, proximal_hinge, tiny, tiny_multiclass

from partwise.exceptions import ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import DCA, LBFGS, SGD, KBestMIRA, Learner, Perceptron, Record
from partwise.learners.base import objective
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.storage import Checkpoint

Floats = NDArray[np.float64]
CASE = tiny(seed=1, lengths=(3, 2, 4, 1, 3))
SVM, CRF = Loss.named("svm"), Loss.named("crf")


def bits(array: Any) -> bytes:
    return np.asarray(array, float).tobytes()


# --------------------------------------------------------------------------------------------------
# Step by step


def mira(case: Tiny, order: Iterable[int], C: float, prediction: bool, power: float = 1.0) -> list[Floats]:
    """1-best MIRA from its formula: τ = min(C, (θᵀ(φ(ŷ) − φ(y)) + ℓ(ŷ, y)^power) / ‖φ(ŷ) − φ(y)‖²)."""
    theta, found = np.zeros(case.features.dim), []
    for i in order:
        a, cost = differences(case, i, 1.0)
        worth = a @ theta if prediction else a @ theta + cost
        ties = np.flatnonzero(worth >= worth.max() - 1e-9)
        best = min(ties, key=lambda j: case.instances[i].outputs[j][::-1])
        loss, norm = a[best] @ theta + cost[best] ** power, a[best] @ a[best]
        if loss > 0 and norm > 0:
            theta = theta - min(C, loss / norm) * a[best]
        found.append(theta)
    return found


ORDER = [0, 1, 2, 3, 4, 2, 0, 3, 4, 1]


@pytest.mark.parametrize("C", [0.02, 0.3, 100.0])
def test_dca_on_the_hinge_is_mira(C: float) -> None:
    found = iterates(CASE.problem("svm"), DCA(C=C), ORDER)
    expected = mira(CASE, ORDER, C, prediction=False)
    assert len({bits(theta) for theta in expected}) > 4
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("C", [0.02, 100.0])
def test_prediction_based_mira(C: float) -> None:
    """The hinge at the plain prediction; compiled on single variables, in plain Python on chains."""
    learner = DCA(C=C, variant="prediction", margin="cost")
    for case, problem in ((CASE, CASE.plain("svm")), (tiny_multiclass(), tiny_multiclass().problem("svm"))):
        expected = mira(case, ORDER, C, prediction=True)
        assert not np.allclose(expected, mira(case, ORDER, C, prediction=False))
        np.testing.assert_allclose(iterates(problem, learner, ORDER), expected, atol=1e-10)


def test_the_margin_is_the_root_of_the_cost() -> None:
    """As CRFsuite's passive–aggressive learner wants it: √(wrong labels), here of chains with several of them."""
    learner = DCA(C=100.0, variant="prediction")
    expected = mira(CASE, ORDER, 100.0, prediction=True, power=0.5)
    assert not np.allclose(expected, mira(CASE, ORDER, 100.0, prediction=True))
    np.testing.assert_allclose(iterates(CASE.plain("svm"), learner, ORDER), expected, atol=1e-10)
    for margin in (None, "root", "cost"):
        result = DCA(variant="prediction", margin=margin, max_passes=1).fit(CASE.problem("svm"))
        assert (result.trace[0].dual is None) == (margin != "cost")


@pytest.mark.parametrize("loss", [CRF, Loss(1.0, 1.0), Loss(3.0, 0.5)], ids=str)
@pytest.mark.parametrize("C", [0.05, 50.0])
def test_dca_takes_the_step_of_eq_15(loss: Loss, C: float) -> None:
    theta = np.zeros(CASE.features.dim)
    for i, found in zip(ORDER, iterates(CASE.problem(loss), DCA(C=C), ORDER), strict=True):
        value, gradient = CASE.instance_loss(i, theta, loss)
        theta = theta - min(C, value / (gradient @ gradient)) * gradient
        np.testing.assert_allclose(found, theta, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# The dual


def conjugate(case: Tiny, i: int, mu: Floats, loss: Loss) -> float:
    """L*(μ). As L(θ) = max_p θᵀAp + γ c·p + H(p)/β over distributions p of outputs, A = (φ(y') − φ(y))_{y'}:
    L*(μ) = min { −γ c·p − H(p)/β : Ap = μ }; for β < ∞ as sup_θ θᵀμ − L(θ), which is attained inside."""
    a, cost = differences(case, i, loss.gamma)
    if math.isinf(loss.beta):
        equalities = np.vstack([a.T, np.ones(len(cost))])
        solution = scipy.optimize.linprog(-cost, A_eq=equalities, b_eq=np.append(mu, 1.0), bounds=(0, None))
        assert solution.status == 0, solution.message
        return float(solution.fun)

    def excess(theta: Floats) -> tuple[float, Floats]:
        value, gradient = case.instance_loss(i, theta, loss)
        return value - theta @ mu, gradient - mu

    options = {"gtol": 1e-8, "maxiter": 500}
    return -float(scipy.optimize.minimize(excess, np.zeros(len(mu)), jac=True, method="BFGS", options=options).fun)


@pytest.mark.parametrize("loss", [SVM, CRF, Loss(1.0, 1.0), Loss(4.0, 0.5)], ids=str)
@pytest.mark.parametrize("C", [0.05, 0.5, 20.0])
def test_no_step_of_the_first_pass_lowers_the_dual(loss: Loss, C: float) -> None:
    """D_{t+1}(μ_1..μ_t) of eq. (10), computed exactly, rises by at least η_t/C (L_t − η_t/2 ‖∇L_t‖²) ≥ 0."""
    case = tiny(seed=2, lengths=(2, 3, 1, 2), n_attributes=6)
    theta, dual, conjugates, gains = np.zeros(case.features.dim), 0.0, 0.0, 0.0
    for i, after in enumerate(iterates(case.problem(loss), DCA(C=C), range(4))):
        mu = (theta - after) / C
        value, gradient = case.instance_loss(i, theta, loss)
        step = min(C, value / (gradient @ gradient))
        gain = step / C * (value - 0.5 * step * gradient @ gradient)
        conjugates += conjugate(case, i, mu, loss)
        now = -0.5 / C * float(after @ after) - conjugates
        assert gain >= 0 and now >= dual + gain - 1e-6
        theta, dual, gains = after, now, gains + gain
    result = DCA(C=C, max_passes=3, shuffle=False, trace_objective=True).fit(case.problem(loss))
    bound = result.trace[0].dual
    assert bound is not None and bound > 0
    np.testing.assert_allclose(bound, gains / 4, rtol=1e-9)
    if loss.smooth:
        optimum = LBFGS(C=C, tolerance=1e-9).fit(case.problem(loss)).trace[-1].objective
    else:
        optimum = proximal_hinge(case, range(4), np.zeros(case.features.dim), C, loss.gamma)[1] / 4
    assert optimum is not None and bound <= dual / 4 + 1e-6 and dual / 4 <= optimum + 1e-6
    assert [record.dual for record in result.trace[1:]] == [None, None], "later passes certify nothing"
    assert result.certificate is not None and result.certificate.dual == bound
    assert result.certificate.dual <= optimum + 1e-9 <= result.certificate.primal + 2e-9
    primal = case.objective(result.theta, loss, C)
    np.testing.assert_allclose(result.certificate.primal, primal, rtol=1e-9)


def test_no_bound_without_zero_start_or_convexity() -> None:
    start = CASE.theta(np.random.default_rng(0))
    assert DCA(max_passes=1).fit(CASE.problem("crf"), theta=start).trace[0].dual is None
    assert DCA(max_passes=1).fit(CASE.plain("ramp")).trace[0].dual is None
    single = tiny_multiclass()
    partly = Problem(single.space, MatrixFeatures(single.matrices), single.space, "crf")
    assert DCA(max_passes=1).fit(partly).trace[0].dual is None


def test_a_negative_loss_makes_no_step() -> None:
    """Footnote 17: a log-partition that is too small must not turn the step around."""

    class Careless(Enumerated):
        def marginals(self, i: int, scores: Floats) -> tuple[float, Floats]:
            log_partition, mean = super().marginals(i, scores)
            return (log_partition - 10.0 if i in (0, 2) else log_partition), mean

    careless = Careless(CASE.instances, CASE.plain("crf").space.atom_counts)
    found = iterates(CASE.plain("crf", careless), DCA(), range(5))
    assert not found[0].any() and bits(found[1]) == bits(found[2]) and found[1].any()
    right = iterates(CASE.plain("crf"), DCA(), [1, 3, 4])
    np.testing.assert_allclose([found[1], found[3], found[4]], right, atol=1e-12)
    result = DCA(max_passes=1).fit(CASE.plain("crf", careless))
    assert result.trace[0].extra["updates"] == 3


# --------------------------------------------------------------------------------------------------
# Whole passes: perceptron, SGD, averages


def passes(case: Tiny, learner: Any, loss: Loss, m: int, n_passes: int) -> list[Floats]:
    """θ after every step of the rule, instances in order, from the definitions alone."""
    theta, found = np.zeros(case.features.dim), []
    for t in range(m * n_passes):
        value, gradient = case.instance_loss(t % m, theta, loss)
        if isinstance(learner, Perceptron):
            theta = theta - gradient
        elif isinstance(learner, SGD):
            eta = learner.eta / (1 + t / m)
            theta = theta - eta * (theta / (learner.C * m) + gradient)
        else:
            norm = gradient @ gradient
            theta = theta - (min(learner.C, value / norm) if value > 0 and norm > 0 else 0.0) * gradient
        found.append(theta)
    return found


@pytest.mark.parametrize(
    ("learner", "loss"),
    [
        (Perceptron(), "perceptron"),
        (SGD(eta=0.5, C=2.0), "crf"),
        (SGD(eta=0.5, C=2.0), "svm"),
        (SGD(eta=4.0, C=1.0), "crf"),  # 1 − ηλ = 1/5
        (SGD(eta=5.0, C=1.0), "crf"),  # 1 − ηλ = 0: the first step forgets everything
        (SGD(eta=1.0, C=0.2), "svm"),
        (SGD(eta=3.0, C=0.3), "crf"),  # 1 − ηλ = −1
        (SGD(eta=0.0299, C=0.006), "crf"),  # shrinks by 10^9 within a few steps, again and again
        (DCA(C=0.1), "svm"),
        (DCA(C=10.0), "crf"),
    ],
    ids=str,
)
def test_iterates_and_their_average(learner: Any, loss: str) -> None:
    """The last θ, and the average of the θ after every step, are those of the definition."""
    case, fields = CASE, {"shuffle": False, "max_passes": 4}
    expected = passes(case, learner, Loss.named(loss), 5, 4)
    for average in (False, True):
        settings = {**vars(learner), **fields, "average": average}
        seen: list[Floats] = []
        result = type(learner)(**settings).fit(
            case.problem(loss), callbacks=[lambda record, theta, seen=seen: seen.append(theta.copy())]
        )
        for j, theta in enumerate(seen):
            steps = expected[: 5 * (j + 1)]
            right = np.mean(steps, axis=0) if average else steps[-1]
            np.testing.assert_allclose(theta, right, rtol=1e-8, atol=1e-9)
        assert bits(seen[-1]) == bits(result.theta)


def test_perceptron_on_whole_numbers() -> None:
    """Binary features: every weight is an integer, ties are exact, and so must be the equality."""
    case = tiny(seed=3, lengths=(3, 4, 2, 3), real=False)
    expected = passes(case, Perceptron(), Loss.named("perceptron"), 4, 5)
    learner = Perceptron(shuffle=False, average=False, max_passes=5)
    assert learner.fit(case.problem("perceptron")).theta.tolist() == expected[-1].tolist()
    assert {float(x) % 1 for x in expected[-1]} == {0.0} and expected[-1].any()


def test_perceptron_stops_when_nothing_is_wrong() -> None:
    case = tiny(seed=4, lengths=(3, 3, 2), n_attributes=30)
    result = Perceptron(max_passes=200, average=False).fit(case.problem("perceptron"))
    assert result.status == "converged" and len(result.trace) < 200
    assert [tuple(y) for y in case.problem("perceptron").predict(result.theta)] == case.outputs


CANDIDATES = (1e-4, 0.01, 0.3, 5.0, 1e200)


def test_eta_is_chosen_by_the_objective_of_one_pass() -> None:
    for C in (0.05, 10.0):
        values = {}
        for eta in CANDIDATES[:-1]:
            theta = SGD(C=C, eta=eta, max_passes=1, random_state=3).fit(CASE.problem("crf")).theta
            values[eta] = objective(CASE.problem("crf"), theta, C)
        best = min(values, key=lambda eta: values[eta])
        chosen = SGD(C=C, candidates=CANDIDATES, max_passes=4, random_state=3).fit(CASE.problem("crf"))
        fixed = SGD(C=C, eta=best, max_passes=4, random_state=3).fit(CASE.problem("crf"))
        assert bits(chosen.theta) == bits(fixed.theta)


def test_a_rate_that_is_too_large() -> None:
    with pytest.raises(ParameterError, match=r"'eta' .* SGD must be small enough for θ to stay finite. Got 1e\+200"):
        SGD(eta=1e200, max_passes=3).fit(CASE.problem("crf"))


@pytest.mark.parametrize("wanted", CANDIDATES[:-1])
def test_eta_is_chosen_by_the_held_out_score(wanted: float) -> None:
    fixed = SGD(C=1.0, eta=wanted, max_passes=1).fit(CASE.problem("crf")).theta

    def score(theta: Floats) -> float:
        return -float(np.abs(theta - fixed).sum())

    chosen = SGD(C=1.0, candidates=CANDIDATES, max_passes=1).fit(CASE.problem("crf"), score=score)
    assert bits(chosen.theta) == bits(fixed) and chosen.trace[0].score == 0.0


# --------------------------------------------------------------------------------------------------
# The loop around every learner

LOOPS: list[tuple[Learner, str]] = [
    (Perceptron(max_passes=6), "perceptron"),
    (SGD(max_passes=6, candidates=(0.1, 0.5)), "crf"),
    (DCA(max_passes=6, trace_objective=True), "svm"),
    (KBestMIRA(max_passes=6, k=3), "svm"),
]


def with_seed(learner: Learner, seed: int) -> Learner:
    return type(learner)(**{**vars(learner), "random_state": seed})


@pytest.mark.parametrize(("learner", "loss"), LOOPS, ids=str)
def test_same_seed_same_bits(learner: Learner, loss: str) -> None:
    thetas = [with_seed(learner, seed).fit(CASE.problem(loss)).theta for seed in (0, 0, 1)]
    assert bits(thetas[0]) == bits(thetas[1]) != bits(thetas[2])


def test_every_pass_has_an_order_of_its_own() -> None:
    seen: list[list[int]] = []

    class Watched(DCA):
        def one_pass(self, problem: Problem, state: dict[str, Any], order: Any) -> None:
            seen.append(order.tolist())
            super().one_pass(problem, state, order)

    Watched(max_passes=4, C=0.01).fit(CASE.problem("svm"))
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in seen) and len({tuple(o) for o in seen}) > 2
    seen.clear()
    Watched(max_passes=2, C=0.01, shuffle=False).fit(CASE.problem("svm"))
    assert seen == [[0, 1, 2, 3, 4]] * 2


def test_callbacks_see_every_pass_and_can_stop() -> None:
    seen: list[int] = []

    def watch(record: Record, theta: Floats) -> None:
        seen.append(record.step)

    def stop(record: Record, theta: Floats) -> bool:
        return record.step == 2

    result = DCA(max_passes=9).fit(CASE.problem("svm"), callbacks=[stop, watch])
    assert result.status == "stopped" and seen == [1, 2] and len(result.trace) == 2
    assert bits(result.theta) == bits(DCA(max_passes=2).fit(CASE.problem("svm")).theta)
    assert all(a.seconds <= b.seconds for a, b in zip(result.trace, result.trace[1:], strict=False))


def scores_of(values: list[float]) -> Any:
    given = iter(values)
    return lambda theta: next(given)


def test_ctrl_c_returns_the_best_so_far() -> None:
    def interrupt(record: Record, theta: Floats) -> None:
        if record.step == 3:
            raise KeyboardInterrupt

    problem = CASE.problem("svm")
    plain = DCA(max_passes=9).fit(problem, callbacks=[interrupt])
    assert plain.status == "interrupted" and plain.best_step == 3
    assert bits(plain.theta) == bits(DCA(max_passes=3).fit(problem).theta)
    scored = DCA(max_passes=9).fit(problem, callbacks=[interrupt], score=scores_of([0.1, 0.9, 0.5]))
    assert scored.status == "interrupted" and scored.best_step == 2
    assert bits(scored.theta) == bits(DCA(max_passes=2).fit(problem).theta)


def test_early_stopping_returns_the_best() -> None:
    problem = CASE.problem("svm")
    result = DCA(max_passes=9).fit(problem, score=scores_of([0.5, 0.7, 0.6, 0.7, 0.2]), patience=3)
    assert result.status == "early_stopping" and result.best_step == 2 and len(result.trace) == 5
    assert bits(result.theta) == bits(DCA(max_passes=2).fit(problem).theta)
    assert [record.score for record in result.trace] == [0.5, 0.7, 0.6, 0.7, 0.2]


def test_no_passes_at_all() -> None:
    start = CASE.theta(np.random.default_rng(0))
    result = DCA(max_passes=0).fit(CASE.problem("svm"), theta=start)
    assert bits(result.theta) == bits(start) and result.trace == [] and result.certificate is None


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(("learner", "loss"), LOOPS, ids=str)
def test_a_resumed_run_is_the_run(learner: Learner, loss: str, kind: str, tmp_path: Path) -> None:
    """Broken off in the third pass, before it was saved: θ, trace and best pass as if nothing had happened."""
    checkpoint: Any = Memory() if kind == "memory" else Checkpoint(tmp_path / "run.pw")

    def interrupt(record: Record, theta: Floats) -> None:
        if record.step == 3:
            raise KeyboardInterrupt

    problem, values = CASE.problem(loss), [0.1, 0.6, 0.3, 0.2, 0.7, 0.4]
    choose = [0.0] * (len(learner.candidates) if isinstance(learner, SGD) else 0)
    whole = learner.fit(problem, score=scores_of(choose + values))
    broken = learner.fit(problem, score=scores_of(choose + values), callbacks=[interrupt], checkpoint=checkpoint)
    assert broken.status == "interrupted" and checkpoint.exists()
    resumed = learner.fit(CASE.problem(loss), score=scores_of(values[2:]), checkpoint=checkpoint)
    assert bits(resumed.theta) == bits(whole.theta) and resumed.best_step == whole.best_step == 5
    assert resumed.status == whole.status
    for left, right in zip(resumed.trace, whole.trace, strict=True):
        assert (left.step, left.objective, left.dual, left.score) == (
            right.step,
            right.objective,
            right.dual,
            right.score,
        )
        assert left.extra == right.extra
    if resumed.status == "converged":  # a run that is over stays so: another pass would change the average
        assert bits(learner.fit(problem, checkpoint=checkpoint).theta) == bits(whole.theta)

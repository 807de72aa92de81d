"""L-BFGS and OWL-QN: optima against scipy and CRFsuite, optimality conditions, certificates, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray
from problems import Memory, slopes, tiny, tiny_multiclass

from partwise.exceptions import ParameterError
from partwise.features import ChainFeatures, MatrixFeatures, RowLayout, Vocabulary
from partwise.learners import LBFGS, Record
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.storage import Checkpoint
from partwise.structures import Chain

Floats = NDArray[np.float64]
CASE = tiny(seed=1, lengths=(3, 2, 4, 1, 3, 4))
CRF = Loss.named("crf")


def bits(array: Any) -> bytes:
    return np.asarray(array, float).tobytes()


def optimum(loss: Loss, C: float) -> tuple[float, Floats]:
    """(min of eq. (2), its θ) by scipy on the enumerated objective."""

    def function(theta: Floats) -> tuple[float, Floats]:
        value, gradient = CASE.loss(theta, loss)
        return 0.5 / C * theta @ theta + value, theta / C + gradient

    options = {"maxiter": 2000, "gtol": 1e-10, "ftol": 1e-16}
    found = scipy.optimize.minimize(function, np.zeros(CASE.features.dim), jac=True, method="L-BFGS-B", options=options)
    return found.fun / len(CASE.outputs), found.x


@pytest.mark.parametrize("loss", [CRF, Loss(1.0, 1.0), Loss(0.3, 2.0), Loss(8.0, 0.5)], ids=str)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_optimum_against_scipy(loss: Loss, C: float) -> None:
    best, theta = optimum(loss, C)
    result = LBFGS(C=C, tolerance=1e-9, max_passes=500).fit(CASE.problem(loss))
    assert result.status == "converged"
    assert result.trace[-1].objective == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(result.theta, theta, atol=1e-3 * max(1.0, np.abs(theta).max()))
    np.testing.assert_allclose(CASE.objective(result.theta, loss, C), best, rtol=1e-8)


def test_objective_falls_and_the_trace_tells_it() -> None:
    seen: list[float] = []

    def check(record: Record, theta: Floats) -> None:
        assert record.objective == pytest.approx(CASE.objective(theta, CRF, 2.0), rel=1e-10)
        gradient = theta / 2.0 + CASE.loss(theta, CRF)[1]
        assert record.extra["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6, abs=1e-9)
        seen.append(record.objective)

    result = LBFGS(C=2.0, max_passes=15, tolerance=0.0).fit(CASE.problem("crf"), callbacks=[check])
    assert len(seen) == len(result.trace) and seen == sorted(seen, reverse=True)
    assert seen[0] < CASE.objective(np.zeros(CASE.features.dim), CRF, 2.0)


# --------------------------------------------------------------------------------------------------
# L1 and elastic net


@pytest.mark.parametrize("ratio", [0.2, 0.7, 1.0])
@pytest.mark.parametrize("C", [0.5, 3.0])
def test_optimality_with_l1(ratio: float, C: float) -> None:
    """0 ∈ ∇(Σ L + l2/2 ‖θ‖²) + l1 ∂‖θ‖₁, coordinate by coordinate, with gradients by enumeration."""
    result = LBFGS(C=C, l1_ratio=ratio, tolerance=1e-9, max_passes=2000).fit(CASE.problem("crf"))
    theta, l1, l2 = result.theta, ratio / C, (1 - ratio) / C
    value, gradient = CASE.loss(theta, CRF)
    gradient = gradient + l2 * theta
    zero = theta == 0
    assert (np.abs(gradient[zero]) <= l1 + 1e-4).all()
    np.testing.assert_allclose(gradient[~zero], -l1 * np.sign(theta[~zero]), atol=1e-4)
    existing = zero[CASE.weights]
    assert existing.any() and not existing.all(), "some weights are zero, some are not"
    total = value + l1 * np.abs(theta).sum() + 0.5 * l2 * theta @ theta
    assert result.trace[-1].objective == pytest.approx(total / len(CASE.outputs), rel=1e-9)


def test_strong_l1_leaves_nothing() -> None:
    """θ = 0 is the optimum as soon as l1 exceeds every slope there; just below, it no longer is."""
    largest = np.abs(CASE.loss(np.zeros(CASE.features.dim), CRF)[1]).max()
    nothing = LBFGS(C=0.999 / largest, l1_ratio=1.0).fit(CASE.problem("crf"))
    assert not nothing.theta.any() and nothing.status == "converged"
    assert LBFGS(C=1.01 / largest, l1_ratio=1.0).fit(CASE.problem("crf")).theta.any()


def test_l1_against_a_reference() -> None:
    """θ = u − v with u, v ≥ 0 turns the L1 term into a linear one, which scipy can bound."""
    C, dim = 1.0, CASE.features.dim

    def function(pair: Floats) -> tuple[float, Floats]:
        value, gradient = CASE.loss(pair[:dim] - pair[dim:], CRF)
        return value + pair.sum() / C, np.concatenate([gradient, -gradient]) + 1 / C

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    best = scipy.optimize.minimize(
        function, np.zeros(2 * dim), jac=True, bounds=[(0, None)] * (2 * dim), method="L-BFGS-B", options=options
    )
    result = LBFGS(C=C, l1_ratio=1.0, tolerance=1e-9, max_passes=2000).fit(CASE.problem("crf"))
    assert result.trace[-1].objective == pytest.approx(best.fun / len(CASE.outputs), rel=1e-7)


# --------------------------------------------------------------------------------------------------
# Certificates


@pytest.mark.parametrize("ratio", [0.0, 0.5])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_certificate_holds_the_optimum(C: float, ratio: float) -> None:
    """With C = 0.01 the regulariser is nearly all of the curvature, and the bound nearly tight."""
    problem = CASE.problem("crf")
    best = LBFGS(C=C, l1_ratio=ratio, tolerance=1e-10, max_passes=3000).fit(problem).trace[-1].objective
    result = LBFGS(C=C, l1_ratio=ratio).fit(problem)
    for record in result.trace:
        assert record.dual is not None and record.objective is not None and best is not None
        assert record.dual <= best + 1e-9 <= record.objective + 2e-9
        assert record.gap == record.objective - record.dual
    certificate = result.certificate
    assert certificate is not None and certificate.dual == max(record.dual for record in result.trace)
    assert 0 <= certificate.relative_gap < 1e-3 and certificate.gap <= result.trace[0].gap


def test_no_certificate_where_there_is_none() -> None:
    """Not strongly convex (L1 alone), not convex at all (risk, partly known gold)."""
    assert LBFGS(l1_ratio=1.0, max_passes=3).fit(CASE.problem("crf")).certificate is None
    assert LBFGS(max_passes=3).fit(CASE.plain("risk")).certificate is None
    single = tiny_multiclass()
    partly = Problem(single.space, MatrixFeatures(single.matrices), single.space, "crf")
    result = LBFGS(max_passes=3).fit(partly, theta=np.ones(partly.dim))
    assert result.certificate is None and result.trace[0].objective is not None


def test_risk_goes_down_to_a_stationary_point() -> None:
    problem = CASE.plain("risk")
    result = LBFGS(C=1.0, max_passes=200).fit(problem)
    assert result.status == "converged"

    def function(theta: Floats) -> float:
        return 0.5 * float(theta @ theta) + float(problem.losses(theta).sum())

    assert function(result.theta) < function(np.zeros(problem.dim)) - 0.1
    np.testing.assert_allclose(slopes(function, result.theta), 0.0, atol=5e-3)


# --------------------------------------------------------------------------------------------------
# Starting, stopping, resuming


def test_warm_starts() -> None:
    problem = CASE.problem("crf")
    cold = LBFGS(C=3.0, tolerance=1e-9).fit(problem)
    again = LBFGS(C=3.0, tolerance=1e-6).fit(problem, theta=cold.theta)
    assert again.status == "converged" and len(again.trace) <= 2
    assert again.trace[-1].objective == pytest.approx(cold.trace[-1].objective, rel=1e-9)
    warm = LBFGS(C=3.0, tolerance=1e-9, warm_passes=3).fit(problem)
    assert warm.trace[0].objective < cold.trace[0].objective
    assert warm.trace[-1].objective == pytest.approx(cold.trace[-1].objective, rel=1e-8)


def test_start_is_not_changed() -> None:
    start = CASE.theta(np.random.default_rng(0))
    before = start.copy()
    LBFGS(max_passes=3, warm_passes=1).fit(CASE.problem("crf"), theta=start)
    assert bits(start) == bits(before)


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_a_resumed_run_is_the_run(ratio: float, kind: str, tmp_path: Path) -> None:
    checkpoint: Any = Memory(every=4) if kind == "memory" else Checkpoint(tmp_path / "run.pw", every=4)

    def interrupt(record: Record, theta: Floats) -> None:
        if record.step == 10:
            raise KeyboardInterrupt

    learner = LBFGS(C=10.0, l1_ratio=ratio, max_passes=14, memory=3, warm_passes=1)
    whole = learner.fit(CASE.problem("crf"))
    assert learner.fit(CASE.problem("crf"), callbacks=[interrupt], checkpoint=checkpoint).status == "interrupted"
    resumed = learner.fit(CASE.problem("crf"), checkpoint=checkpoint)
    assert bits(resumed.theta) == bits(whole.theta) and resumed.status == whole.status
    assert [(r.objective, r.dual, r.extra) for r in resumed.trace] == [
        (r.objective, r.dual, r.extra) for r in whole.trace
    ]


def test_a_line_search_that_fails_is_no_convergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, file = CASE.problem(CRF), Checkpoint(tmp_path / "run")
    right = problem.loss_and_gradient

    def wrong(theta: Floats) -> tuple[float, Floats]:
        value, gradient = right(theta)
        return value, -gradient

    monkeypatch.setattr(problem, "loss_and_gradient", wrong)
    result = LBFGS(C=100.0).fit(problem, checkpoint=file)
    assert result.status == "stalled" and len(result.trace) == 1 and not result.theta.any()
    assert result.trace[0].extra["step"] == 0.0 and result.trace[0].extra["evaluations"] == 30.0
    again = LBFGS(C=100.0).fit(problem, checkpoint=file)  # a stalled run has come to its end
    assert again.status == "stalled" and again.trace == result.trace


def test_settings() -> None:
    for settings, message in (
        ({"l1_ratio": 1.5}, r"'l1_ratio' parameter of LBFGS must be between 0 and 1\. Got 1\.5"),
        ({"memory": 0}, r"'memory' parameter of LBFGS must be at least 1\. Got 0"),
        ({"tolerance": -1.0}, r"'tolerance' parameter of LBFGS must be a number ≥ 0\. Got -1\.0"),
    ):
        with pytest.raises(ParameterError, match=message):
            LBFGS(**settings)


# --------------------------------------------------------------------------------------------------
# CRFsuite


def test_crfsuite_meets_at_the_same_optimum() -> None:
    """c2 ‖w‖² with c2 = 1 is ½ ‖θ‖²/C with C = ½; observed states, all transitions, on both sides."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    rng = np.random.default_rng(0)
    xs, ys = [], []
    for _ in range(40):
        y = rng.integers(4, size=rng.integers(1, 12))
        xs.append([[f"w={b}{rng.integers(3)}", f"noise={rng.integers(6)}", "bias"] for b in y])
        ys.append([f"L{b}" for b in y])
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(xs, ys, strict=True):
        trainer.append(x, y)
    trainer.select("lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 1.0, "feature.possible_transitions": True})
    trainer.set_params({"max_iterations": 500, "epsilon": 1e-8, "delta": 1e-8})
    trainer.train("")
    theirs = trainer.logparser.last_iteration["loss"]

    names = sorted({label for y in ys for label in y})
    outputs = [np.array([names.index(label) for label in y]) for y in ys]
    rows = Vocabulary().read(xs, grow=True)
    layout = RowLayout.observed(rows, np.concatenate(outputs), len(names))
    features = ChainFeatures(layout.pack(rows), layout.dim, len(names))
    problem = Problem(Chain([len(y) for y in ys], len(names)), features, outputs, "crf")
    result = LBFGS(C=0.5, tolerance=1e-7, max_passes=500).fit(problem)
    assert result.trace[-1].objective * len(ys) == pytest.approx(theirs, rel=1e-4)

"""SMO and the hybrid: against quadratic programs, inside the polytope, never downhill."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import enumerate_chain, nearest_in_hull
from problems import Memory, Tiny, differences, proximal_hinge, row_matrix, solve_qp, tiny, tiny_multiclass

from partwise.exceptions import CapabilityError, ParameterError
from partwise.features import ChainFeatures, MatrixFeatures, RowLayout, RowMatrix
from partwise.learners import SMO, HybridEG
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.chain import Chain

Floats = NDArray[np.float64]


def untied(seed: int = 0, lengths: tuple[int, ...] = (3, 2, 4, 1, 3), n_labels: int = 3, **rules: Any) -> Tiny:
    """The chain problem of ``tiny`` with a block of transition parts a position, scored by shared weights."""
    case = tiny(seed, lengths, n_labels, **rules)
    offsets = np.append(0, np.cumsum(np.array(lengths) - 1)).astype(np.int64)
    ones = RowMatrix.from_csr(scipy.sparse.csr_array(np.ones((int(offsets[-1]), 1))), offsets)
    edges = RowLayout(1, n_labels * n_labels, base=case.layout.dim)
    features = ChainFeatures(case.features.rows, case.layout.dim, n_labels, edges=(edges.pack(ones), edges.dim))
    shared = np.zeros((features.dim, n_labels * n_labels))
    shared[case.layout.dim :] = np.eye(n_labels * n_labels)
    matrices = [
        np.hstack([row_matrix(case.rows, case.layout, i, features.dim), *([shared] * (n - 1))])
        for i, n in enumerate(lengths)
    ]
    shapes = {"transitions": (n_labels, n_labels), "start": (n_labels,), "stop": (n_labels,)}
    masks = [np.array(rules.get(name, np.ones(shape)), bool) for name, shape in shapes.items()]
    instances = [enumerate_chain(n_labels, 1, False, np.ones((n, n_labels), bool), *masks) for n in lengths]
    space = Chain(lengths, n_labels, tied=False, **rules)
    return Tiny(space, features, case.outputs, case.rows, case.layout, matrices, instances)


CHAIN, CLASSES = untied(seed=3), tiny_multiclass(seed=3)
CASES = {"chain": CHAIN, "classes": CLASSES}


def uncompiled(case: Tiny) -> Problem:
    """A problem whose loops run in Python, since its features do: what one more type would cost to compile."""
    outputs = case.outputs if isinstance(case.space, Chain) else [y[0] for y in case.outputs]
    return Problem(case.space, MatrixFeatures(case.matrices), outputs, "svm")


def optimum(case: Tiny, C: float) -> float:
    m = len(case.outputs)
    return proximal_hinge(case, range(m), np.zeros(case.features.dim), C, 1.0)[1] / m


def test_the_untied_problem_is_the_tied_one() -> None:
    tied, rng = tiny(seed=3), np.random.default_rng(0)
    theta = tied.theta(rng)
    np.testing.assert_allclose(CHAIN.problem("svm").losses(theta), tied.problem("svm").losses(theta), atol=1e-10)
    assert CHAIN.loss(theta, Loss.named("svm"))[0] == pytest.approx(tied.loss(theta, Loss.named("svm"))[0])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("C", [0.1, 2.0])
@pytest.mark.parametrize("learner", ["smo", "smo-many", "hybrid"])
def test_optimum_against_a_qp(name: str, C: float, learner: str) -> None:
    settings = {"C": C, "tolerance": 1e-3, "max_passes": 3000}
    made = {"smo": SMO(**settings), "smo-many": SMO(**settings, pairs=8), "hybrid": HybridEG(**settings)}[learner]
    result = made.fit(uncompiled(CASES[name]) if learner == "hybrid" else CASES[name].problem("svm"))
    best = optimum(CASES[name], C)
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.dual <= best + 1e-8 and best <= result.certificate.primal + 1e-8
    assert result.certificate.relative_gap <= 1e-3
    assert CASES[name].objective(result.theta, Loss.named("svm"), C) == pytest.approx(result.certificate.primal)


@settings(max_examples=15, derandomize=True, database=None, deadline=None)
@given(
    seed=st.integers(0, 999),
    C=st.floats(-1.5, 1.5).map(lambda x: 10.0**x),
    pairs=st.integers(1, 3),
    gamma=st.sampled_from([0.5, 2.0]),
    constrained=st.booleans(),
)
def test_the_dual_never_falls_and_marginals_stay_inside(
    seed: int, C: float, pairs: int, gamma: float, constrained: bool
) -> None:
    rules = {"transitions": [[1, 1, 0], [1, 1, 1], [0, 1, 1]], "start": [1, 1, 0]} if constrained else {}
    case = untied(seed, **rules)
    problem = case.problem(Loss(math.inf, gamma))
    learner = SMO(C=C, pairs=pairs, tolerance=0.0, random_state=seed)
    state = learner.start(problem, np.zeros(problem.dim), None)
    before = 0.0  # all mass on the gold outputs
    for _ in range(12):
        dual = learner.advance(problem, state)["dual"]
        assert dual >= before - 1e-12 * (1 + abs(before))
        before = dual
        for i, instance in enumerate(case.instances):
            mass = state["masses"][problem.part_offsets[i] : problem.part_offsets[i + 1]]
            assert (mass >= 0).all()
            np.testing.assert_allclose(nearest_in_hull(instance.parts, mass), mass, rtol=0, atol=1e-8)
    masses = np.split(state["masses"], problem.part_offsets[1:-1])
    gold = [instance.parts[instance.outputs.index(y)] for instance, y in zip(case.instances, case.outputs, strict=True)]
    v = sum(F @ (z - mass) for F, z, mass in zip(case.matrices, gold, masses, strict=True))
    np.testing.assert_allclose(state["theta"], C * v, atol=1e-9 * (1 + C))
    cost = sum(float((~np.isclose(z, 0) * (z - mass))[: case.space.n_atoms(i)].sum())
               for i, (z, mass) in enumerate(zip(gold, masses, strict=True)))  # fmt: skip
    assert before == pytest.approx((gamma * cost - 0.5 * C * float(v @ v)) / len(gold), abs=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_one_step_is_the_best_move_of_the_most_violating_pair(C: float) -> None:
    """A single instance, by enumeration: from z to z⁺, ε from the one-dimensional quadratic program."""
    case = untied(seed=8, lengths=(3,))
    a, c = differences(case, 0, 1.0)  # from the gold output, which holds all mass at first, so w = 0
    chosen = int(np.argmax(c))
    assert np.flatnonzero(np.isclose(c, c.max())).size > 1  # any output with all labels wrong is as good
    learner = SMO(C=C, max_passes=1, tolerance=0.0)
    problem = case.problem("svm")
    state = learner.start(problem, np.zeros(problem.dim), None)
    known = learner.advance(problem, state)
    moved = state["masses"] - case.instances[0].parts[case.instances[0].outputs.index(case.outputs[0])]
    ranks = [r for r, row in enumerate(case.instances[0].parts) if (row[moved > 0] == 1).all() and (moved > 0).any()]
    chosen = max(ranks, key=lambda r: c[r])
    curve = C * float(a[chosen] @ a[chosen])
    best = solve_qp(np.array([[curve]]), np.array([-c[chosen]]), np.array([[1.0], [-1.0]]), np.array([1.0, 0.0]))[0]
    assert c[chosen] == pytest.approx(c.max())
    np.testing.assert_allclose(state["theta"], -C * best * a[chosen], atol=1e-6)
    assert known["dual"] == pytest.approx(best * c[chosen] - 0.5 * curve * best**2, abs=1e-8)
    assert known["extra"]["steps"] == 1.0


# --------------------------------------------------------------------------------------------------
# Hybrid


@pytest.mark.parametrize("name", CASES)
def test_the_handover_keeps_the_marginals(name: str) -> None:
    """Gibbs parameters of the smoothed marginals; the dual changes by no more than the smoothing makes it."""
    case, share = CASES[name], 1e-4
    problem = uncompiled(case)
    learner = HybridEG(C=1.0, smo_passes=4, smoothing=share, tolerance=0.0)
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(4):
        dual = learner.advance(problem, state)["dual"]
    before = state["masses"].copy()
    learner._hand_over(problem, state)
    for i, instance in enumerate(case.instances):
        here = slice(problem.part_offsets[i], problem.part_offsets[i + 1])
        uniform = instance.parts.mean(axis=0)
        np.testing.assert_allclose(state["masses"][here], (1 - share) * before[here] + share * uniform, atol=1e-9)
        np.testing.assert_allclose(instance.marginals(state["scores"][here]), state["masses"][here], atol=1e-9)
    assert learner.advance(problem, state)["dual"] >= dual - 100 * share


def test_the_hybrid_begins_as_smo() -> None:
    problem = uncompiled(CHAIN)
    hybrid = HybridEG(C=1.0, smo_passes=3, max_passes=20, tolerance=0.0).fit(problem)
    smo = SMO(C=1.0, max_passes=3, tolerance=0.0).fit(problem)
    assert [r.dual for r in hybrid.trace[:3]] == [r.dual for r in smo.trace]
    later = [record.dual for record in hybrid.trace[3:] if record.dual is not None]
    assert all(after >= before - 1e-12 for before, after in pairwise(later))
    assert hybrid.trace[-1].dual is not None and smo.trace[-1].dual is not None
    assert hybrid.trace[-1].dual > smo.trace[-1].dual


@pytest.mark.parametrize("kind", [SMO, HybridEG])
def test_a_resumed_run_has_the_same_bits(kind: Any) -> None:
    problem = uncompiled(CHAIN)
    whole = kind(C=2.0, max_passes=12, tolerance=0.0).fit(problem)
    for stop in (3, 5, 8):  # before, at and after the handover
        memory = Memory()
        kind(C=2.0, max_passes=stop, tolerance=0.0).fit(problem, checkpoint=memory)
        resumed = kind(C=2.0, max_passes=12, tolerance=0.0).fit(problem, checkpoint=memory)
        np.testing.assert_array_equal(whole.theta, resumed.theta)
        assert [r.dual for r in whole.trace] == [r.dual for r in resumed.trace]


# --------------------------------------------------------------------------------------------------
# Refusals


def test_mismatches_fail_before_training() -> None:
    with pytest.raises(CapabilityError, match="Chain has no oracle 'support', which SMO needs"):
        SMO().fit(tiny().problem("svm"))
    with pytest.raises(CapabilityError, match="Chain has no oracle 'gibbs', which HybridEG needs"):
        HybridEG().fit(tiny().problem("svm"))
    for kind in (SMO, HybridEG):
        with pytest.raises(CapabilityError, match=f"{kind.__name__} minimises convex losses with β = ∞, not crf"):
            kind().fit(CHAIN.problem("crf"))


def test_settings_are_checked() -> None:
    for kind in (SMO, HybridEG):
        with pytest.raises(ParameterError, match=r"pairs.*at least 1"):
            kind(pairs=0)
        with pytest.raises(ParameterError, match=r"C.*a positive number"):
            kind(C=-1.0)
    with pytest.raises(ParameterError, match=r"smo_passes.*at least 0"):
        HybridEG(smo_passes=-1)
    for smoothing in (0.0, 1.0):
        with pytest.raises(ParameterError, match=r"smoothing.*between 0 and 1"):
            HybridEG(smoothing=smoothing)

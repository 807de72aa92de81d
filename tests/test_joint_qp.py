"""The joint convex form against enumeration, against other learners, and along the regularisation path."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hard_scales import hard
from problems import tiny
from saddle import DOMAINS, case_of, hinge, optimum, sign_mask

from partwise.exceptions import CapabilityError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import EntropicExtragradient, JointQP
from partwise.learners.joint_qp import brought_inside, feature_matrix, joint_program
from partwise.problem import Problem
from partwise.structures import Chain, Multiclass

pytest.importorskip("clarabel", reason="the joint convex form needs clarabel")


@pytest.mark.parametrize("signs", [False, True], ids=["free", "signs"])
@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_the_optimum_is_that_of_enumeration(name: str, domain: str, signs: bool) -> None:
    case = case_of(name)
    learner = JointQP(**DOMAINS[domain])
    problem = case.problem("svm", nonnegative=sign_mask(case, signs))
    result = learner.fit(problem)
    assert result.status == "converged" and result.certificate is not None
    np.testing.assert_allclose(result.certificate.primal, optimum(name, domain, signs), rtol=1e-5)
    assert abs(result.certificate.relative_gap) < 1e-4
    written_out = (learner.domain(problem).cost(result.theta) + hinge(case, result.theta)) / problem.m
    np.testing.assert_allclose(result.certificate.primal, written_out, rtol=1e-10)
    if signs:
        assert result.theta[sign_mask(case, True)].min() >= 0.0


def test_multipliers_are_outputs_of_the_saddle_point() -> None:
    """z lies in the polytope, and no output beats it: it is a best answer to θ, and θ to it."""
    case = case_of("chain")
    problem, learner = case.problem("svm"), JointQP(C=0.5)
    theta, outputs = learner.solve(problem, joint_program(problem))
    pull = np.zeros(problem.dim)
    for i in range(problem.m):
        z = outputs[problem.part_offsets[i] : problem.part_offsets[i + 1]]
        gold = case.instances[i].parts[case.instances[i].outputs.index(case.outputs[i])]
        labels = z[: case.space.n_atoms(i)].reshape(-1, 3)
        np.testing.assert_allclose(labels.sum(axis=1), 1.0, atol=1e-6)
        costs = 1.0 - gold[: labels.size]
        scores = case.matrices[i].T @ theta
        scores[: labels.size] += costs
        np.testing.assert_allclose(scores @ z, case.instances[i].values(scores).max(), atol=1e-5)
        pull -= case.matrices[i] @ (z - gold)
    live = np.isin(np.arange(problem.dim), case.weights)
    np.testing.assert_allclose(theta, 0.5 * pull * live, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2},
        {"transitions": [[1, 1, 0], [1, 1, 1], [0, 1, 1]], "start": [1, 1, 0], "stop": [0, 1, 1]},
        {"lengths": (1, 1, 2)},
    ],
    ids=["second order", "constraints", "short"],
)
def test_other_chains_meet_extragradient(settings: dict) -> None:
    case = tiny(4, **{"lengths": (3, 2, 4), **settings})
    problem = case.problem("svm")
    exact, other = JointQP(C=0.5).fit(problem), EntropicExtragradient(C=0.5, tolerance=1e-3).fit(problem)
    assert exact.certificate is not None and other.certificate is not None
    assert exact.certificate.gap < 1e-5
    assert other.certificate.dual <= exact.certificate.primal + 1e-6
    assert exact.certificate.dual <= other.certificate.primal + 1e-6


def test_an_untied_chain() -> None:
    """Every position with transition scores of its own: no lift, the parts are the variables."""
    chain, rng = Chain([3, 2], 2, tied=False), np.random.default_rng(0)
    matrices = [rng.normal(size=(4, chain.n_parts(i))) for i in range(2)]
    problem = Problem(chain, MatrixFeatures(matrices), [[0, 1, 1], [1, 0]], "svm")
    assert chain.polytope(0).lift is None
    exact, other = JointQP(radius=0.4).fit(problem), EntropicExtragradient(radius=0.4, tolerance=1e-3).fit(problem)
    assert exact.certificate is not None and other.certificate is not None
    np.testing.assert_allclose(exact.certificate.primal, other.certificate.primal, rtol=2e-3)


def test_the_path_and_the_map_between_c_and_radius() -> None:
    """Norms grow and losses fall along the path; the solution for C solves the ball of its own norm."""
    problem = case_of("multiclass").problem("svm")
    values = [0.05, 0.2, 0.8]
    path = JointQP().path(problem, C=values)
    norms = [float(np.linalg.norm(r.theta)) for r in path]
    losses = [problem.losses(r.theta).sum() for r in path]
    assert norms == sorted(norms) and losses == sorted(losses, reverse=True)
    for C, result in zip(values, path, strict=True):
        np.testing.assert_allclose(result.theta, JointQP(C=C).fit(problem).theta, atol=1e-6)
        assert (
            result.certificate is not None and result.certificate.relative_gap < 1e-6 and result.status == "converged"
        )
    balls = JointQP().path(problem, radius=norms)
    for ball, result in zip(balls, path, strict=True):
        np.testing.assert_allclose(ball.theta, result.theta, atol=1e-3)
        np.testing.assert_allclose(problem.losses(ball.theta).sum(), problem.losses(result.theta).sum(), rtol=1e-5)


def test_feature_matrices_are_the_features() -> None:
    case = case_of("chain")
    problem = case.problem("svm")
    for i, expected in enumerate(case.matrices):
        live = np.isin(np.arange(problem.dim), case.weights)
        np.testing.assert_allclose(feature_matrix(problem, i).toarray(), expected * live[:, None])


def test_what_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case_of("multiclass").problem("svm")
    with pytest.raises(ParameterError, match=r"'radius' parameter of JointQP must be finite"):
        JointQP(radius=math.inf)
    with pytest.raises(ParameterError, match="'solver_tolerance' parameter of JointQP must be a positive number"):
        JointQP(solver_tolerance=0.0)
    for both in ({}, {"C": [1.0], "radius": [1.0]}):
        with pytest.raises(
            ParameterError, match=r"'C' parameter of JointQP\.path must be given if radius is not, and only then"
        ):
            JointQP().path(problem, **both)
    with pytest.raises(CapabilityError, match="has no oracle 'polytope', which JointQP needs"):
        JointQP().fit(case_of("multiclass").plain("svm"))
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(CapabilityError, match=r"JointQP needs the solver clarabel: pip install 'partwise\[qp\]'"):
        JointQP().fit(problem)


def test_forbidden_labels_get_no_mass() -> None:
    space = Multiclass(2, 3, allowed=[[1, 1, 0], [1, 1, 1]])
    problem = Problem(space, MatrixFeatures([np.eye(3), np.eye(3)]), [0, 2], "svm")
    _, outputs = JointQP(C=1.0).solve(problem, joint_program(problem))
    assert abs(outputs[2]) < 1e-7
    np.testing.assert_allclose(outputs.reshape(2, 3).sum(axis=1), 1.0, atol=1e-7)


@pytest.mark.parametrize("structure", ["multiclass", "untied_chain", "matching"])
def test_the_dual_never_exceeds_the_optimum(structure: str) -> None:
    """Multipliers that are inside the polytope to the solver's tolerance alone broke this in one fit of five."""
    for seed in range(1000, 1025):
        case = hard(seed, structure)
        result = JointQP(C=case.C).fit(case.problem())
        assert result.certificate is not None
        known = min(case.interval[1], case.primal(result.theta))
        zero = case.primal(np.zeros(case.dim))
        assert result.certificate.dual <= known * (1 + 1e-12) + 1e-15 * zero, case.about


def test_multipliers_are_brought_onto_the_polytope() -> None:
    rng = np.random.default_rng(0)
    for structure in ("multiclass", "chain", "untied_chain", "matching"):
        for seed in range(5):
            space = hard(seed, structure).space
            spaces = [space.polytope(i) for i in range(len(space))]
            rough = [np.maximum(rng.dirichlet(np.ones(s.equal.shape[1])) - 0.05, 0.0) for s in spaces]
            inside = brought_inside(spaces, np.concatenate(rough))
            assert inside is not None and inside.min() >= 0.0
            for s, x in zip(spaces, np.split(inside, np.cumsum([len(x) for x in rough])[:-1]), strict=True):
                np.testing.assert_allclose(s.equal @ x, s.equal_to, atol=1e-12)
                assert (s.below @ x <= s.limit + 1e-12).all()


def test_the_number_of_threads_changes_nothing() -> None:
    case = case_of("chain")
    one, two = (JointQP(C=0.5).fit(case.problem("svm", n_threads=n)) for n in (1, 2))
    np.testing.assert_array_equal(one.theta, two.theta)
    assert one.certificate == two.certificate

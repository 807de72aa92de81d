"""Every learner with a certificate on small problems at hard scales: it ends, and what it says of the end is true.

Sizes of features from 1e-3 to 1e8 and ratios between them up to 1e4, C from 1e-4 to 1e4, weights ≥ 0, one instance or
equal ones: no hang, no false status, no invalid certificate, no NaN, no raw exception. Features are matrices in plain
Python, so that only the structures' own kernels are compiled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hard_scales import Hard, TooSlowError, faults, hard, time_limit

from partwise.exceptions import CapabilityError
from partwise.learners.base import LEARNERS, Learner
from partwise.learners.certified import CertifiedLearner

pytest.importorskip("clarabel", reason="the optima come from a solver of quadratic programs")

#: Passes of a fit; fewer where an argmax is an integer program.
PASSES = {"assignment": 6, "relaxed_assignment": 15}
#: Seconds of processor time for a fit, what it compiles included. A fit that ends needs a few hundredths.
SECONDS = 60.0
#: Settings beside the defaults that take other ways through a learner.
FORMS: dict[str, list[dict[str, Any]]] = {
    "one_slack": [{}, {"cache": 2}],
    "frank_wolfe": [{}, {"cuts": 0}, {"cuts": 3, "sampling": "gap"}],
    "eg": [{}, {"form": "dual"}],
}
#: How many random problems of a structure with a loss: fewer where the oracles are slow.
CASES = {
    ("multiclass", "svm"): 45,
    ("multiclass", "crf"): 12,
    ("multiclass", "slack_svm"): 8,
    ("chain", "svm"): 8,
    ("chain", "slack_svm"): 4,
    ("untied_chain", "svm"): 8,
    ("untied_chain", "crf"): 8,
    ("matching", "svm"): 15,
    ("relaxed_assignment", "svm"): 3,
    ("assignment", "svm"): 2,
}


def learners(case: Hard) -> list[Learner]:
    """Every learner that reports a certificate or returns the best θ, at the C or the radius of the case."""
    made: list[Learner] = []
    for name, kind in LEARNERS.items():
        if not (kind.certified or name == "lbfgs"):
            continue
        for form in FORMS.get(name, [{}]):
            passes = 1 if name == "joint_qp" else PASSES.get(case.structure, 40)
            if case.radius is None:
                made.append(kind(C=case.C, max_passes=passes, **form))
            elif hasattr(kind, "radius"):
                made.append(kind(max_passes=passes, radius=case.radius, **form))  # type: ignore[call-arg]
    return made


def complaints(case: Hard) -> list[str]:
    """What is wrong with the fits of one problem."""
    found, problem = [], case.problem()
    for learner in learners(case):
        try:
            learner.check(problem)
        except CapabilityError:
            continue
        try:
            with time_limit(SECONDS):
                wrong = faults(case, learner, learner.fit(problem))
        except (TooSlowError, ArithmeticError, ValueError, IndexError, RuntimeWarning) as error:
            wrong = [f"{type(error).__name__}: {error}"]
        found += [f"{learner}: {words} ({case.about})" for words in wrong]
    return found


@pytest.mark.parametrize(("structure", "loss"), list(CASES))
def test_what_is_certified_is_true(structure: str, loss: str) -> None:
    found = [words for seed in range(CASES[structure, loss]) for words in complaints(hard(seed, structure, loss))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("structure", "cases"), [("multiclass", 15), ("untied_chain", 5), ("matching", 5)])
def test_the_same_in_a_ball(structure: str, cases: int) -> None:
    found = []
    for seed in range(cases):
        radius = 10.0 ** np.random.default_rng(seed).uniform(-4, 2)
        found += complaints(replace(hard(seed, structure), radius=radius))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("size", [1e-160, 1e40, 9e99])
def test_sizes_beyond_any_reason(size: float) -> None:
    """Nothing can be found there, and nothing false is said: θ is finite, no worse than 0, converged if it says so."""
    for seed in range(3):
        case = hard(seed, "multiclass", "svm" if seed else "crf")
        largest = max(float(np.abs(matrix).max()) for matrix in case.matrices)
        case = replace(case, matrices=[matrix * (size / largest) for matrix in case.matrices])
        problem, zero = case.problem(), case.primal(np.zeros(case.dim))
        for learner in learners(case):
            try:
                learner.check(problem)
            except CapabilityError:
                continue
            with time_limit(SECONDS):
                result = learner.fit(problem)
            assert np.isfinite(result.theta).all() and case.primal(result.theta) <= zero * (1 + 1e-9), learner
            if result.status == "converged" and isinstance(learner, CertifiedLearner):
                assert result.certificate is not None
                assert result.certificate.gap <= learner.tolerance * abs(result.certificate.primal), learner


def test_the_judge_sees_faults() -> None:
    """A dual too high, a primal too low, a status that is false and a θ worse than 0 are all found."""
    case = hard(0, "multiclass")
    learner = LEARNERS["one_slack"](C=case.C)
    assert isinstance(learner, CertifiedLearner)
    good = learner.fit(case.problem())
    assert good.status == "converged" and good.certificate is not None and not faults(case, learner, good)
    primal, dual = good.certificate.primal, good.certificate.dual
    worse = [
        replace(good, certificate=replace(good.certificate, dual=primal * 1.01)),
        replace(good, certificate=replace(good.certificate, primal=dual * 0.99)),
        replace(good, certificate=replace(good.certificate, dual=0.5 * dual)),
        replace(good, theta=1e3 * good.theta),
        replace(good, theta=np.full(case.dim, np.nan)),
        replace(good, status="max_passes"),
        replace(good, certificate=None),
    ]
    for result in worse:
        assert faults(case, learner, result)

"""Every learner × every structure: dual ≤ optimum ≤ primal, the optimum from the list of all outputs.

Exact oracles, an outer one, and inner ones that overlook outputs, with a bound and without. The profile "nightly"
(``PARTWISE_PROFILE=nightly``) draws fresh problems, and many more of them: 60 for each structure and 40 for each kind
of inexact oracle, or ``PARTWISE_PROBLEMS`` of both.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from cases import REGISTRY
from hard_scales import ROUNDING, Hard, faults
from hypothesis import given, settings
from hypothesis import strategies as st
from test_guarantees import Bounded, Hulled, Overlooking, problem_of
from test_hard_scales import learners

from partwise.exceptions import CapabilityError, OracleError
from partwise.learners.base import LEARNERS
from partwise.learners.certified import CertifiedLearner
from partwise.losses import Loss
from partwise.structures.base import Structure
from partwise.testing import Case

pytest.importorskip("clarabel", reason="the optima come from a solver of quadratic programs")

NIGHTLY = os.environ.get("PARTWISE_PROFILE") == "nightly"
PROBLEMS = os.environ.get("PARTWISE_PROBLEMS")
EXAMPLES = int(PROBLEMS or 60) if NIGHTLY else 3
SEEDS = int(PROBLEMS or 40) if NIGHTLY else 4
LOSSES = ("svm", "svm", "svm", "crf", "softmax_margin", "slack_svm")
#: Integer and linear programs: few passes tell as much.
SLOW = ("Assignment", "RelaxedAssignment")


def problem_from(case: Case, rng: np.random.Generator, loss: str) -> Hard:
    """A random problem over a case of the conformance suite."""
    dim, size, C = int(rng.integers(1, 4)), 10.0 ** rng.uniform(-2, 3), 10.0 ** rng.uniform(-3, 3)
    matrices, gold, outputs, corners = [], [], [], []
    for i, instance in enumerate(case.instances):
        matrix = size * rng.normal(size=(dim, instance.parts.shape[1])) * 10.0 ** rng.uniform(-2, 0, size=(dim, 1))
        if case.tame is not None:  # such parts must not score above 0
            matrix[:, case.structure.n_atoms(i) :] = 0.0
        j = int(rng.integers(len(instance.outputs)))
        matrices.append(matrix)
        outputs.append(instance.outputs[j])
        gold.append(instance.parts[j])
        corners.append(case.candidates(i).parts)
    signs = [None, rng.random(dim) < 0.5][int(rng.integers(2))]
    about = f"{type(case.structure).__name__} {loss} m={len(gold)} d={dim} size={size:.1e} C={C:.1e} signs={signs}"
    return Hard(
        type(case.structure).__name__, Loss.named(loss), C, None, case.structure, matrices, outputs, corners, gold,
        signs, about,
    )  # fmt: skip


@pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda kind: kind.__name__)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_the_optimum_lies_between(kind: type[Structure], data: st.DataObject) -> None:
    case = data.draw(REGISTRY[kind])
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    hard = problem_from(case, rng, str(rng.choice(LOSSES)))
    if hard.loss.oracle not in case.structure.oracles:
        hard = replace(hard, loss=Loss.named("svm"))
    try:
        problem = hard.problem()
    except CapabilityError:
        return
    for learner in learners(hard):
        learner = replace(learner, max_passes=min(learner.max_passes, 4 if kind.__name__ in SLOW else 25))
        try:
            learner.check(problem)
        except CapabilityError:
            continue
        result = learner.fit(problem)
        wrong = faults(hard, learner, result)
        assert not wrong, f"{learner}: {wrong} ({hard.about})"
        if result.certificate is not None:
            assert result.certificate.of == ("relaxation" if case.relaxed else "problem")


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", [Overlooking, Bounded, Hulled], ids=lambda kind: kind.__name__)
def test_oracles_that_are_not_exact(kind: type[Overlooking], seed: int) -> None:
    problem, C = problem_of(kind, seed), 10.0 ** np.random.default_rng(seed).uniform(-2, 2)
    instances = problem.space.instances  # type: ignore[attr-defined]
    gold = [row.copy() for row in np.split(problem.gold_parts(), problem.part_offsets[1:-1])]
    listed = [instance.parts for instance in instances]
    if kind is Hulled:
        listed = [np.array(list(np.ndindex(*(2,) * rows.shape[1])), float) for rows in listed]
    outputs = [i.outputs[int(np.argmax((i.parts == z).all(axis=1)))] for i, z in zip(instances, gold, strict=True)]
    matrices = [matrix.toarray() for matrix in problem.features.matrices]  # type: ignore[attr-defined]
    hard = Hard(kind.__name__, problem.loss, C, None, problem.space, matrices, outputs, listed, gold, None)
    lower, upper = hard.interval
    slop = 1e-9 * upper + ROUNDING
    for name, kind_of in LEARNERS.items():
        learner = kind_of(C=C, max_passes=30)
        if not isinstance(learner, CertifiedLearner) or learner.obstacle(problem.space, problem.loss) is not None:
            continue
        try:
            result = learner.fit(problem)
        except OracleError:  # found out
            assert kind is not Hulled, name
            continue
        for line in result.trace:
            assert line.dual is None or line.dual <= upper + slop, name
            assert line.objective is None or line.objective >= lower - slop, name
        if kind is Overlooking:
            assert result.certificate is None and result.status != "converged", name
            continue
        certificate = result.certificate
        assert certificate is not None and certificate.of == ("relaxation" if kind is Hulled else "problem"), name
        assert certificate.dual <= upper + slop and certificate.primal >= hard.primal(result.theta) - slop, name
        if result.status == "converged":
            assert hard.primal(result.theta) <= lower + 1e-3 * abs(certificate.primal) + slop, name

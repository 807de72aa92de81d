"""Problem: the same numbers whatever computes them, threads, compiled code or plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import Interval
from problems import Enumerated, Tiny, tiny, tiny_multiclass

from partwise.exceptions import InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import DCA, LBFGS, SGD, ExactDCA, KBestMIRA, Learner, Perceptron
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Chain

Floats = NDArray[np.float64]

TRAININGS: list[tuple[Learner, str]] = [
    (Perceptron(max_passes=3), "perceptron"),
    (SGD(max_passes=3, eta=0.3, average=True), "crf"),
    (DCA(max_passes=3, trace_objective=True), "crf"),
    (DCA(max_passes=3, C=0.3), "svm"),
    (KBestMIRA(max_passes=2, k=3), "svm"),
    (ExactDCA(max_passes=2), "svm"),
    (ExactDCA(max_passes=1), "softmax_margin"),
    (LBFGS(max_passes=4), "crf"),
]
IDS = [f"{type(learner).__name__}-{loss}" for learner, loss in TRAININGS]


def bits(array: Any) -> bytes:
    return np.asarray(array, float).tobytes()


# --------------------------------------------------------------------------------------------------
# Threads


def test_threads_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(0)
    case = tiny(seed=4, lengths=[int(n) for n in rng.integers(1, 5, size=60)], n_attributes=40)
    one, two = case.problem("crf"), case.problem("crf", n_threads=2)
    for scale in (0.0, 1.0, 30.0):
        theta = case.theta(rng, scale)
        (value, gradient), (other, also) = one.loss_and_gradient(theta), two.loss_and_gradient(theta)
        assert value == other and bits(gradient) == bits(also)
        assert bits(one.losses(theta)) == bits(two.losses(theta))
    results = [LBFGS(C=3.0, max_passes=25).fit(problem) for problem in (one, two)]
    assert bits(results[0].theta) == bits(results[1].theta)
    assert [r.objective for r in results[0].trace] == [r.objective for r in results[1].trace]


def test_a_sum_that_was_broken_off_leaves_nothing_behind() -> None:
    """Ctrl-C in the middle of a gradient: the next one must not hold a part of it."""

    class Breaking(MatrixFeatures):
        calls = 0

        def accumulate(self, i: int, parts: Floats, step: float, theta: Floats) -> None:
            super().accumulate(i, parts, step, theta)
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt

    case = tiny(seed=5)
    space, theta = (
        Enumerated(case.instances, case.plain("crf").space.atom_counts),
        case.theta(np.random.default_rng(0)),
    )
    problem = Problem(space, Breaking(case.matrices), case.outputs, "crf")
    with pytest.raises(KeyboardInterrupt):
        problem.loss_and_gradient(theta)
    expected = case.loss(theta, Loss.named("crf"))[1]
    for _ in range(2):
        np.testing.assert_allclose(problem.loss_and_gradient(theta)[1], expected, atol=1e-10)


# --------------------------------------------------------------------------------------------------
# Compiled, interpreted, plain Python


def mixtures(loss: str) -> dict[str, tuple[Problem, Tiny]]:
    """Each side compiled or in plain Python. (A chain with features in Python would only take long to compile.)"""
    case, single = tiny(seed=6, lengths=(3, 1, 2, 4)), tiny_multiclass()
    space = case.plain(loss).space
    features, outputs = MatrixFeatures(single.matrices), [y[0] for y in single.outputs]
    return {
        "all compiled": (case.problem(loss), case),
        "structure in Python": (Problem(space, case.features, case.outputs, loss), case),
        "features in Python": (Problem(single.space, features, outputs, loss), single),
        "all in Python": (case.plain(loss), case),
    }


@pytest.mark.parametrize("loss", ["crf", "svm"])
def test_every_mixture_gives_the_same_numbers(loss: str) -> None:
    problems = mixtures(loss)
    assert [problem.compiled for problem, _ in problems.values()] == [True, False, False, False]
    for name, (problem, case) in problems.items():
        theta = case.theta(np.random.default_rng(0))
        value, gradient = problem.loss_and_gradient(theta)
        expected, slope = case.loss(theta, Loss.named(loss))
        np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(gradient, slope, atol=1e-12, err_msg=name)
        single = [case.instance_loss(i, theta, Loss.named(loss)) for i in range(problem.m)]
        np.testing.assert_allclose(problem.losses(theta), [value for value, _ in single], rtol=1e-12)
        for i, (one, slope) in enumerate(single):
            value, parts = problem.instance(i, theta)
            np.testing.assert_allclose(value, one, rtol=1e-12)
            np.testing.assert_allclose(case.matrices[i] @ parts, slope, atol=1e-12)


@pytest.mark.parametrize(("learner", "loss"), TRAININGS, ids=IDS)
def test_plain_python_learns_what_compiled_code_learns(learner: Learner, loss: str) -> None:
    case = tiny(seed=7, lengths=(3, 1, 2, 4))
    start = case.theta(np.random.default_rng(0), 0.3)
    compiled, plain = case.problem(loss), case.plain(loss)
    assert compiled.compiled and not plain.compiled
    one, other = (learner.fit(problem, theta=start) for problem in (compiled, plain))
    assert not np.allclose(one.theta, start)
    np.testing.assert_allclose(one.theta, other.theta, rtol=0, atol=slack(learner, 1e-10))
    for left, right in zip(one.trace, other.trace, strict=True):
        np.testing.assert_allclose(left.objective or 0.0, right.objective or 0.0, rtol=1e-10)
        assert left.extra.get("updates") == right.extra.get("updates")


def slack(learner: Learner, usual: float) -> float:
    """A step with a solver inside is as exact as that one's tolerance; the last bit decides when it stops."""
    return 1e-6 if isinstance(learner, ExactDCA | KBestMIRA) else usual


def everything() -> dict[str, list[float]]:
    """Every learner on a constrained chain of order 2, and its predictions: run here and with compilation off."""
    case = tiny(
        seed=8,
        lengths=(3, 1, 2),
        n_labels=3,
        order=2,
        transitions=[[1, 1, 0], [1, 1, 1], [1, 1, 1]],
        stop=[1, 1, 0],
    )
    found: dict[str, list[float]] = {}
    for name, (learner, loss) in zip(IDS, TRAININGS, strict=True):
        problem = case.problem(loss)
        start = case.theta(np.random.default_rng(1), 0.3)
        theta = learner.fit(problem, theta=start).theta
        found[name] = theta.tolist()
        found[f"{name} predictions"] = np.concatenate(problem.predict(theta)).tolist()
        found[f"{name} best three"] = problem.kbest(0, theta, 3).ravel().tolist()
    return found


def test_everything_runs_without_compilation() -> None:
    root = Path(__file__).parents[1]
    paths = [str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    script = "import json, test_problem; print(json.dumps(test_problem.everything()))"
    child = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    interpreted, compiled = json.loads(child.stdout), everything()
    assert interpreted.keys() == compiled.keys()
    for name, (learner, _) in zip(IDS, TRAININGS, strict=True):
        near = slack(learner, 1e-12)
        np.testing.assert_allclose(interpreted.pop(name), compiled.pop(name), rtol=near, atol=near, err_msg=name)
    assert interpreted == compiled, "the same weights must give the same outputs"


# --------------------------------------------------------------------------------------------------
# The other questions a problem answers


def test_argmax_kbest_and_predictions() -> None:
    case = tiny(seed=9)
    theta = case.theta(np.random.default_rng(0))
    for problem in (case.problem("svm"), case.plain("svm")):
        predictions = problem.predict(theta)
        for i, instance in enumerate(case.instances):
            scores = case.matrices[i].T @ theta
            np.testing.assert_allclose(problem.scores(i, theta), scores, atol=1e-12)
            best = instance.parts[np.argsort(-instance.values(scores))[:4]]
            np.testing.assert_array_equal(problem.argmax(i, theta), best[0])
            np.testing.assert_array_equal(problem.kbest(i, theta, 4), best)
            assert tuple(predictions[i]) == instance.outputs[int(np.argmax(instance.values(scores)))]


def test_blocks_cover_every_instance_once() -> None:
    """From one instance to many, and when one of them is far longer than all the others together."""
    for lengths in ([1], [2, 3], [1] * 9, [7, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1] * 30 + [6]):
        case = tiny(seed=10, lengths=lengths, n_labels=2)
        theta = case.theta(np.random.default_rng(0))
        problem = case.problem("crf")
        value, gradient = problem.loss_and_gradient(theta)
        expected, slope = case.loss(theta, Loss.named("crf"))
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, atol=1e-10)
        np.testing.assert_allclose(problem.losses(theta).sum(), expected, rtol=1e-12)


# --------------------------------------------------------------------------------------------------
# What does not fit together


def test_parts_must_be_those_that_are_scored() -> None:
    """Wherever it is: compiled code would read beyond the end of an array."""
    case = tiny(seed=11, lengths=(2, 3, 2))
    longer = Chain([2, 4, 2], 3)
    outputs = [[0] * n for n in (2, 4, 2)]
    with pytest.raises(InputError, match="features score 18 parts of instance 1, the structure has 21"):
        Problem(longer, case.features, outputs, "crf")
    with pytest.raises(InputError, match="features score 18 parts of instance 1, the structure has 21"):
        Problem(longer, MatrixFeatures(case.matrices), outputs, "crf")
    with pytest.raises(InputError, match=r"gold space .* score 18 parts of instance 1, the structure has 21"):
        Problem(case.space, case.features, longer, "crf")


def test_settings() -> None:
    case = tiny(seed=11)
    with pytest.raises(ParameterError, match=r"'n_threads' parameter of Problem must be at least 1\. Got 0"):
        case.problem("crf", n_threads=0)
    with pytest.raises(InputError, match="a problem needs at least one instance"):
        Problem(Chain([], 2), MatrixFeatures([]), [], "crf")


def test_what_a_structure_in_python_returns_is_checked() -> None:
    class Wrong(Interval):
        answer: Any = None

        def argmax(self, i: int, scores: Floats) -> Floats:
            return self.answer

        def allows(self, i: int, parts: Floats) -> bool:
            return bool(parts.any())

    space = Wrong([3])
    problem = Problem(space, MatrixFeatures([np.eye(3)]), [(0, 2)], "svm")
    for answer, message in (
        (np.zeros(4), r"Wrong.argmax returned shape \(4,\) for instance 0; expected \(3,\)"),
        (np.full(3, np.nan), "Wrong.argmax returned NaN or infinity for instance 0"),
        (np.zeros(3), "Wrong.argmax left the output space of instance 0: the output is outside the space"),
    ):
        space.answer = answer
        with pytest.raises(InputError, match=message):
            problem.loss_and_gradient(np.zeros(3))
    space.answer = np.array([1.0, 1.0, 0.0])
    assert problem.loss_and_gradient(np.zeros(3))[0] == 0.0


def test_encode_must_have_the_shape_of_the_parts() -> None:
    class Short(Interval):
        def encode(self, i: int, y: tuple[int, int]) -> Floats:
            return super().encode(i, y)[:-1]

    with pytest.raises(InputError, match=r"Short.encode returned shape \(2,\) for instance 0; expected \(3,\)"):
        Problem(Short([3]), MatrixFeatures([np.eye(3)]), [(0, 2)], "svm")

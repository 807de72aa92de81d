"""Checks of a learner: its answer, its trace, its certificate, its determinism."""

from __future__ import annotations

import numpy as np

from partwise.learners.base import Learner
from partwise.learners.loop import Record, State
from partwise.problem import Problem

__all__ = ["check_learner"]

STATUSES = {"converged", "stalled", "max_passes", "stopped", "early_stopping", "interrupted"}


class _Memory:
    """A checkpoint in memory."""

    def __init__(self) -> None:
        self.saved: State | None = None

    def due(self, step: int) -> bool:
        return True

    def exists(self) -> bool:
        return self.saved is not None

    def save(self, state: State) -> None:
        import copy

        self.saved = copy.deepcopy(state)

    def load(self) -> State:
        import copy

        return copy.deepcopy(self.saved or {})


def check_learner(learner: Learner, problem: Problem, optimum: float | None = None) -> None:
    """Train on a small problem and check what comes back; raises AssertionError.

    * θ is finite, weights that must be ≥ 0 are, statuses and steps are what the loop promises.
    * The certificate holds: its primal is P(θ), its dual is no larger, and both enclose ``optimum`` where it is given.
    * The same seed gives the same bits; a run that is stopped after one pass and resumed ends with the same bits too.

    Examples
    --------
    >>> from partwise import FrankWolfe, Multiclass, Problem
    >>> from partwise.features import MatrixFeatures
    >>> rng = np.random.default_rng(0)
    >>> features = MatrixFeatures([rng.normal(size=(2, 3)) for _ in range(4)])
    >>> check_learner(FrankWolfe(), Problem(Multiclass(4, 3), features, [0, 1, 2, 0], "svm"))
    """
    result = learner.fit(problem)
    assert result.theta.shape == (problem.dim,) and np.isfinite(result.theta).all()
    assert problem.nonnegative is None or (result.theta[problem.nonnegative] >= 0).all()
    assert result.status in STATUSES and [record.step for record in result.trace] == list(
        range(1, len(result.trace) + 1)
    )
    if result.certificate is not None:
        primal, dual = result.certificate.primal, result.certificate.dual
        size = max(abs(primal), abs(dual), 1e-9)
        assert dual <= primal + 1e-6 * size, f"dual {dual} above primal {primal}"
        if optimum is not None:
            assert dual <= optimum + 1e-6 * size, f"dual {dual} above the optimum {optimum}"
            assert primal >= optimum - 1e-6 * size, f"primal {primal} below the optimum {optimum}"
    np.testing.assert_array_equal(learner.fit(problem).theta, result.theta, "another run, another answer")
    memory = _Memory()

    def stop(record: Record, theta: object) -> bool:
        return record.step == 1

    learner.fit(problem, callbacks=[stop], checkpoint=memory)
    resumed = learner.fit(problem, checkpoint=memory)
    np.testing.assert_array_equal(resumed.theta, result.theta, "a resumed run ends elsewhere")
    assert resumed.status == result.status

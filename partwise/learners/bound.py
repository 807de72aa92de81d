"""A learner bound to its problem: what it may claim, given the guarantee of the problem's oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.learners.loop import Certificate, Floats, Record, State
from partwise.objective import Objective
from partwise.problem import Problem

if TYPE_CHECKING:
    from partwise.learners.base import Learner

__all__ = ["BoundLearner"]


class BoundLearner:
    """A learner with its problem, as the loop wants it; corrects what is known by the guarantee of the oracle.

    A cut or a dual point is made of what the oracle attained, so it holds for exact, outer and inner oracles alike. A
    primal needs an upper bound: an inner oracle without one gives none, an outer one that stops early has its own.
    Where the guarantee is "none", nothing holds.
    """

    def __init__(self, learner: Learner, problem: Problem | Objective, score: Callable[[Floats], float] | None) -> None:
        self.learner, self.problem, self.score = learner, problem, score
        self.weights = learner.weights

    def better(self, new: Record, best: Record) -> bool:
        """As the learner says; with an inner oracle by what it attained, since a loose bound favours θ = 0."""
        now, then = (record.extra.get("attained_objective") for record in (new, best))
        inner = self.problem.guarantee == "inner" and self.learner.certified and new.score is None
        if inner and now is not None and then is not None:
            return now < then
        return self.learner.better(new, best)

    def start(self, theta: Floats) -> State:
        return self.learner.start(self.problem, theta, self.score)

    def resume(self, state: State) -> None:
        """All that a learner of a problem knows is in the state."""

    def advance(self, state: State) -> dict[str, Any]:
        return self.learner.advance(self.problem, state)

    def satisfied(self, certificate: Certificate | None) -> bool:
        if certificate is None or not self.learner.certified:
            return False
        return self.learner.near(certificate.gap, certificate.primal)

    @property
    def certifies(self) -> str:
        return "relaxation" if self.problem.guarantee == "outer" else "problem"

    def certify(self, known: dict[str, Any], theta: Floats, best_dual: float) -> str:
        problem = self.problem
        # two things that a sum of problems need not know of: without them nothing iterates, and losses are their bounds
        left, loose = getattr(problem, "unconverged", None), getattr(problem, "loose", False)
        if left is not None:
            known["extra"] = {**known.get("extra", {}), "unconverged": left}
        if problem.guarantee in ("exact", "outer") and not loose:
            return ""
        objective, dual = known.get("objective"), known.get("dual")
        note = ""
        if objective is not None:
            known["extra"] = {**known.get("extra", {}), "attained_objective": float(objective)}
            known["objective"] = None
        if problem.guarantee == "none":
            known["dual"] = None
            note = f"the {problem.loss.oracle} oracle gives no bound: objective and dual are unknown"
        elif not problem.bounded:
            note = f"the {problem.loss.oracle} oracle may overlook outputs and has no bound: the objective is unknown"
        elif objective is not None:
            known["objective"] = self.learner.upper_objective(problem, theta, objective)
        if known.get("converged"):
            primal, lower = known["objective"], max(best_dual, -np.inf if dual is None else dual)
            if primal is None or not self.learner.near(primal - lower, primal):
                known["converged"], known["stalled"] = False, True
        return note

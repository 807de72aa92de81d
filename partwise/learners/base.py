"""Learner: finds θ for a Problem and depends on nothing else.

A learner is a frozen dataclass of settings with three methods: ``start`` makes a state (a plain dict of arrays and
numbers), ``advance`` improves it by one pass, ``weights`` reads θ off it. The loop around them is
:func:`partwise.learners.loop.run_passes`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from partwise._math import dot
from partwise.exceptions import CapabilityError, ParameterError
from partwise.learners.bound import BoundLearner
from partwise.learners.loop import (
    Callback,
    Certificate,
    CheckpointLike,
    Floats,
    Record,
    Result,
    State,
    run_passes,
)
from partwise.learners.registry import LEARNERS, find_learner, register_learner
from partwise.losses import Loss, LossFunction
from partwise.objective import Objective
from partwise.problem import Problem
from partwise.structures.base import Structure

__all__ = [
    "LEARNERS",
    "Callback",
    "Certificate",
    "CheckpointLike",
    "Floats",
    "Learner",
    "Record",
    "Result",
    "State",
    "find_learner",
    "objective",
    "register_learner",
]


@dataclass(frozen=True)
class Learner(ABC):
    """Settings common to all learners.

    Parameters
    ----------
    C : float
        1/(λm): weight of the losses against ½‖θ‖²; larger means less regularisation.
    max_passes : int
    random_state : int
        Seed of all random choices.
    """

    needs: ClassVar[frozenset[str]] = frozenset()  # oracles beside the one the loss needs
    losses: ClassVar[str] = "any loss"  # which losses it can minimise, in words, for the table and the errors
    constrains: ClassVar[bool] = False  # whether it can keep the weights of ``Problem.nonnegative`` ≥ 0
    own_loss: ClassVar[str | None] = None  # the loss to use by default
    convex_only: ClassVar[bool] = False  # whether the problem, not the loss alone, must be convex
    certified: ClassVar[bool] = False  # whether its primal objective is what counts: the best iterate is returned
    weighs: ClassVar[bool] = (
        False  # whether ``Problem.weights`` may multiply the losses: it sees an instance by cuts only
    )
    converges: ClassVar[bool] = (
        True  # whether to end after max_passes is to end early; online learners run their passes
    )
    batch: ClassVar[bool] = False  # whether it sees nothing but an Objective, so that any sum of losses will do

    C: float = 1.0
    max_passes: int = 100
    random_state: int = 0

    def __post_init__(self) -> None:
        for setting in fields(self):  # numbers of NumPy's own types would compute in their precision
            object.__setattr__(self, setting.name, _plain(getattr(self, setting.name)))
        self._positive("C")
        self._check_kinds()
        if not self.max_passes >= 0:
            raise ParameterError("max_passes", type(self).__name__, "at least 0", self.max_passes)

    def _check_kinds(self) -> None:
        """Raise ParameterError for a setting that is not of the type that its annotation names."""
        for setting in fields(self):
            value, names = getattr(self, setting.name), str(setting.type).split(" | ")
            known = [KINDS[name] for name in names if name in KINDS]
            if setting.name == "random_state" and value is None:
                continue
            if len(known) == len(names) and not any(accepts(value) for _, accepts in known):
                expected = " or ".join(words for words, _ in known)
                raise ParameterError(setting.name, type(self).__name__, expected, value)

    def _positive(self, name: str, infinite: bool = False) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not (isinstance(value, int | float) and value > 0):
            raise ParameterError(name, type(self).__name__, "a positive number", value)
        if math.isinf(value) and not infinite:
            raise ParameterError(name, type(self).__name__, "finite", value)

    # what a learner can do

    def accepts(self, loss: LossFunction) -> bool:
        """Whether the learner can minimise this loss."""
        return True

    def obstacle(self, space: Structure | Objective, loss: LossFunction) -> str | None:
        """Why this learner cannot train this structure with this loss, or None if it can."""
        if not self.accepts(loss):
            return f"{type(self).__name__} minimises {self.losses}, not {loss}"
        missing = sorted((self.needs | {loss.oracle}) - space.oracles)
        if missing:
            wanted = f"the {loss} loss" if missing == [loss.oracle] else type(self).__name__
            return f"{type(space).__name__} has no oracle {missing[0]!r}, which {wanted} needs"
        return None

    def check(self, problem: Problem | Objective) -> None:
        """Raise :class:`CapabilityError` before anything is computed, naming what would work."""
        if not isinstance(problem, Problem):
            self._check_objective(problem)
            return
        reason = self.obstacle(problem.space, problem.loss)
        if reason is None and problem.nonnegative is not None and not self.constrains:
            able = ", ".join(
                name
                for name, kind in LEARNERS.items()
                if kind.constrains and kind().obstacle(problem.space, problem.loss) is None
            )
            raise CapabilityError(f"{type(self).__name__} cannot keep weights ≥ 0. Learners that can: {able}.")
        if reason is None and problem.weights is not None and not self.weighs:
            able = ", ".join(
                name
                for name, kind in LEARNERS.items()
                if kind.weighs and kind().obstacle(problem.space, problem.loss) is None
            )
            raise CapabilityError(f"{type(self).__name__} cannot weight instances. Learners that can: {able}.")
        if reason is None and self.convex_only and not problem.convex:
            raise CapabilityError(
                f"{type(self).__name__} needs a convex problem, and partly known gold outputs make it non-convex. "
                "Train with 'dca', 'sgd' or 'lbfgs'."
            )
        if reason is None:
            return
        raise CapabilityError(f"{reason}. {_who_can(problem.space, problem.loss)}")

    def _check_objective(self, given: Objective) -> None:
        name = type(given).__name__
        if not isinstance(given, Objective):
            raise CapabilityError(f"{type(self).__name__} trains on a Problem or an Objective, not on a {name}")
        able = ", ".join(name for name, kind in LEARNERS.items() if kind.batch)
        if not self.batch:
            mine = type(self).__name__
            raise CapabilityError(
                f"{mine} visits single instances, which {name} does not offer. Learners of a whole sum: {able}."
            )
        reason = self.obstacle(given, given.loss)
        if reason is None and given.nonnegative is not None and not self.constrains:
            reason = f"{type(self).__name__} cannot keep weights ≥ 0"
        if reason is None and self.convex_only and not given.convex:
            reason = f"{type(self).__name__} needs a convex problem"
        if reason is None and getattr(given, "weights", None) is not None and not self.weighs:
            reason = f"{type(self).__name__} cannot weight instances"
        if reason is not None:
            raise CapabilityError(f"{reason}. Learners of a whole sum: {able}.")

    # what a learner does

    @abstractmethod
    def start(self, problem: Any, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        """The state before the first pass."""

    @abstractmethod
    def advance(self, problem: Any, state: State) -> dict[str, Any]:
        """One pass, in place. Returns what is known then: objective, dual, converged, stalled, ``extra`` numbers."""

    def weights(self, state: State) -> Floats:
        """θ of a state, in an array that later passes leave alone."""
        return np.array(state["theta"])

    def better(self, new: Record, best: Record) -> bool:
        """Whether a pass brought the θ to return: by held-out score, else by certificate, else the last."""
        if new.score is not None and best.score is not None:
            return new.score > best.score
        if self.certified and new.objective is not None and best.objective is not None:
            return new.objective < best.objective
        return True

    def near(self, gap: float, primal: float) -> bool:
        """Whether a gap this small, relative to its primal, is what the learner was asked for."""
        return gap <= 0.0

    def upper_objective(self, problem: Any, theta: Floats, attained: float) -> float:
        """An upper bound on the objective at θ, from ``Problem.upper_losses`` and the value that an oracle attained."""
        excess = float(problem.upper_losses(theta).sum()) - float(problem.losses(theta).sum())
        return attained + max(excess, 0.0) / float(problem.m)

    def precision(self, problem: Any) -> Any:
        """The type of θ while it is learned."""
        return np.float64

    def fit(
        self,
        problem: Problem | Objective,
        *,
        theta: Floats | None = None,
        score: Callable[[Floats], float] | None = None,
        patience: int | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: CheckpointLike | None = None,
    ) -> Result:
        """Run passes until convergence, ``max_passes``, a callback that returns True, or Ctrl-C.

        Parameters
        ----------
        problem : Problem, or for batch learners any Objective
        theta : (dim,), optional
            Where to start; zeros if absent.
        score : callable, optional
            θ → score on held-out data, higher is better. The best θ is returned, and with ``patience`` training
            stops after this many passes without improvement.
        callbacks : of (record, θ) → True to stop
        checkpoint : optional
            Continues from it if it exists, and saves to it when due. A finished run is not continued.
        """
        self.check(problem)
        precision = self.precision(problem)
        return run_passes(
            BoundLearner(self, problem, score),
            max_passes=self.max_passes,
            theta=np.zeros(problem.dim, precision) if theta is None else np.asarray(theta, precision),
            score=score,
            patience=patience,
            callbacks=callbacks,
            checkpoint=checkpoint,
        )


#: What a setting with this annotation must be, in words and as a test.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "str": ("a string", lambda value: isinstance(value, str)),
    "None": ("None", lambda value: value is None),
    "tuple[float, ...]": (
        "numbers in a tuple",
        lambda value: isinstance(value, tuple | list) and all(isinstance(item, int | float) for item in value),
    ),
}


def _plain(setting: Any) -> Any:
    """A setting with Python's own numbers in place of NumPy's."""
    if isinstance(setting, tuple):
        return tuple(map(_plain, setting))
    return setting.item() if isinstance(setting, np.generic | np.ndarray) and np.ndim(setting) == 0 else setting


def objective(problem: Problem, theta: Floats, C: float) -> float:
    """Eq. (2): λ/2 ‖θ‖² + 1/m Σ_i L_i(θ) with λ = 1/(Cm)."""
    result: float = (0.5 * dot(theta, theta) / C + float(problem.losses(theta).sum())) / problem.m
    return result


def _who_can(space: Structure, loss: LossFunction) -> str:
    """The learners that can train this structure, with this loss or else with others, in words."""
    able = {
        str(point): ", ".join(name for name, kind in LEARNERS.items() if kind().obstacle(space, point) is None)
        for point in (loss, *map(Loss.named, ("svm", "perceptron", "crf")))
    }
    if able[str(loss)]:
        return f"Learners that can: {able[str(loss)]}."
    others = "; ".join(f"with loss {name!r}: {names}" for name, names in able.items() if names)
    return f"No learner can; {others}." if others else "No learner can, with any loss."

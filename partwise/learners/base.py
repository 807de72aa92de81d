"""Learner: finds θ from a Problem and sees nothing else. The loop that all learners share is here, once.

A learner is a frozen dataclass of settings with three methods: ``start`` makes a state (a plain dict of arrays and
numbers), ``advance`` improves it by one pass, ``weights`` reads θ off it. Everything around that is common: the
trace, callbacks, the score on held-out data, early stopping, Ctrl-C, checkpoints. Because a state is nothing but
arrays and numbers, a checkpoint is the state, and a resumed run continues bit for bit.
"""

from __future__ import annotations

import importlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise._math import dot
from partwise._memory import give_back
from partwise.exceptions import CapabilityError, ParameterError, unknown_name
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.base import Structure

__all__ = ["LEARNERS", "Certificate", "Learner", "Record", "Result", "find_learner", "register_learner"]

Floats = NDArray[np.float64]
State = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One line of a trace: what is known after a pass. None where a learner does not define it."""

    step: int
    seconds: float
    objective: float | None = None  # eq. (2)
    dual: float | None = None  # a lower bound of the optimum of eq. (2)
    score: float | None = None  # on held-out data
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float | None:
        """objective − dual."""
        return None if self.objective is None or self.dual is None else self.objective - self.dual


@dataclass(frozen=True)
class Certificate:
    """dual ≤ min of eq. (2) ≤ primal: how far from the optimum the answer can be at most."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), 1e-300)


@dataclass(frozen=True)
class Result:
    """What every learner returns."""

    theta: Floats
    trace: list[Record]
    certificate: Certificate | None
    status: str  # "converged", "stalled" (no step helps), "max_passes", "stopped", "early_stopping" or "interrupted"
    best_step: int  # the pass whose θ this is; 0 where no pass found better than the start


Callback = Callable[[Record, Floats], bool | None]


class CheckpointLike(Protocol):
    """Where a run keeps its state; :class:`partwise.storage.Checkpoint` is one."""

    def due(self, step: int) -> bool: ...
    def exists(self) -> bool: ...
    def save(self, state: State) -> None: ...
    def load(self) -> State: ...


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
    own_loss: ClassVar[str | None] = None  # the loss to take where nobody says which
    convex_only: ClassVar[bool] = False  # whether the problem, not the loss alone, must be convex
    certified: ClassVar[bool] = False  # whether its primal objective is what counts: the best iterate is returned

    C: float = 1.0
    max_passes: int = 100
    random_state: int = 0

    def __post_init__(self) -> None:
        for setting in fields(self):  # numbers of NumPy's own types would compute in their precision
            object.__setattr__(self, setting.name, _plain(getattr(self, setting.name)))
        self._positive("C")
        if not self.max_passes >= 0:
            raise ParameterError("max_passes", type(self).__name__, "at least 0", self.max_passes)

    def _positive(self, name: str, infinite: bool = False) -> None:
        value = getattr(self, name)
        if not (isinstance(value, int | float) and value > 0):
            raise ParameterError(name, type(self).__name__, "a positive number", value)
        if math.isinf(value) and not infinite:
            raise ParameterError(name, type(self).__name__, "finite", value)

    # what a learner can do

    def accepts(self, loss: Loss) -> bool:
        """Whether the learner can minimise this loss."""
        return True

    def obstacle(self, space: Structure | type[Structure], loss: Loss) -> str | None:
        """Why this learner cannot train this structure with this loss, or None if it can."""
        if not self.accepts(loss):
            return f"{type(self).__name__} minimises {self.losses}, not {loss}"
        missing = sorted((self.needs | {loss.oracle}) - space.oracles)
        if missing:
            name = space.__name__ if isinstance(space, type) else type(space).__name__
            wanted = f"the {loss} loss" if missing == [loss.oracle] else type(self).__name__
            return f"{name} has no oracle {missing[0]!r}, which {wanted} needs"
        return None

    def check(self, problem: Problem) -> None:
        """Raise :class:`CapabilityError` before anything is computed, naming what would work."""
        reason = self.obstacle(problem.space, problem.loss)
        if reason is None and problem.nonnegative is not None and not self.constrains:
            able = ", ".join(
                name
                for name, kind in LEARNERS.items()
                if kind.constrains and kind().obstacle(problem.space, problem.loss) is None
            )
            raise CapabilityError(f"{type(self).__name__} cannot keep weights ≥ 0. Learners that can: {able}.")
        if reason is None and self.convex_only and not problem.convex:
            raise CapabilityError(
                f"{type(self).__name__} needs a convex problem, and partly known gold outputs make it non-convex. "
                "Train with 'dca', 'sgd' or 'lbfgs'."
            )
        if reason is None:
            return
        raise CapabilityError(f"{reason}. {_who_can(problem.space, problem.loss)}")

    # what a learner does

    @abstractmethod
    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        """The state before the first pass."""

    @abstractmethod
    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        """One pass, in place. Returns what is known then: objective, dual, converged, stalled, ``extra`` numbers."""

    def weights(self, state: State) -> Floats:
        """θ of a state, in an array that later passes leave alone."""
        return np.array(state["theta"])

    def _better(self, new: Record, best: Record) -> bool:
        """Whether a pass brought the θ to return: by held-out score, else by certificate, else the last."""
        if new.score is not None and best.score is not None:
            return new.score > best.score
        if self.certified and new.objective is not None and best.objective is not None:
            return new.objective < best.objective
        return True

    # the loop

    def fit(
        self,
        problem: Problem,
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
        theta : (dim,), optional
            Where to start; zeros if absent.
        score : callable, optional
            θ → score on held-out data, higher is better. The best θ is returned, and with ``patience`` training
            stops after so many passes without a better one.
        callbacks : of (record, θ) → True to stop
        checkpoint : optional
            Continues from it if it exists, and saves to it when due. A run that had come to its end stays so.
        """
        self.check(problem)
        callbacks = list(callbacks)
        give_back(problem.dim)
        begin = time.perf_counter()
        trace: list[Record] = []
        best_theta = np.zeros(problem.dim) if theta is None else np.array(theta, float)
        best_step, before, status = 0, 0.0, "max_passes"
        try:
            if checkpoint is not None and checkpoint.exists():
                saved = checkpoint.load()
                state, trace = saved["state"], [Record(**line) for line in saved["trace"]]
                best_theta, best_step, before = saved["best_theta"], saved["best_step"], saved["seconds"]
                if saved["status"] in ("converged", "stalled", "early_stopping"):
                    return Result(best_theta, trace, _certificate(trace, best_step), saved["status"], best_step)
            else:
                state = self.start(problem, best_theta.copy(), score)
            for step in range(len(trace) + 1, self.max_passes + 1):
                known = self.advance(problem, state)
                now = self.weights(state)
                record = Record(
                    step,
                    before + time.perf_counter() - begin,
                    known.pop("objective", None),
                    known.pop("dual", None),
                    None if score is None else float(score(now)),
                    known.pop("extra", {}),
                )
                trace.append(record)
                if len(trace) == 1:  # by now every kernel is loaded
                    give_back(problem.dim)
                if best_step == 0 or self._better(record, trace[best_step - 1]):
                    best_theta, best_step = now, step
                stop = sum(bool(callback(record, now)) for callback in callbacks)  # all of them see every record
                if known.get("converged"):  # an end of its own comes first: a run resumed from here has no more to do
                    status = "converged"
                elif known.get("stalled"):
                    status = "stalled"
                elif patience is not None and score is not None and step - best_step >= patience:
                    status = "early_stopping"
                elif stop:
                    status = "stopped"
                if checkpoint is not None and (checkpoint.due(step) or status != "max_passes"):
                    lines = [{f.name: getattr(r, f.name) for f in fields(r)} for r in trace]
                    checkpoint.save(
                        {"state": state, "trace": lines, "best_theta": best_theta, "best_step": best_step,
                         "seconds": record.seconds, "status": status}
                    )  # fmt: skip
                if status != "max_passes":
                    break
        except KeyboardInterrupt:  # the last complete pass is what counts
            status = "interrupted"
        return Result(best_theta, trace, _certificate(trace, best_step), status, best_step)


def _plain(setting: Any) -> Any:
    """A setting with Python's own numbers in place of NumPy's."""
    if isinstance(setting, tuple):
        return tuple(map(_plain, setting))
    return setting.item() if isinstance(setting, np.generic | np.ndarray) and np.ndim(setting) == 0 else setting


def _certificate(trace: list[Record], step: int) -> Certificate | None:
    if step == 0 or trace[step - 1].objective is None:
        return None
    duals = [record.dual for record in trace if record.dual is not None]
    primal = trace[step - 1].objective
    return Certificate(primal, max(duals)) if duals and primal is not None else None


def objective(problem: Problem, theta: Floats, C: float) -> float:
    """Eq. (2): λ/2 ‖θ‖² + 1/m Σ_i L_i(θ) with λ = 1/(Cm)."""
    return (0.5 * dot(theta, theta) / C + float(problem.losses(theta).sum())) / problem.m


class _Registry(dict[str, type[Learner]]):
    """Learners by name. One of this package comes in when asked for, all when somebody looks through them."""

    _complete = False

    def _load(self) -> None:
        if not self._complete:
            self._complete = True
            from partwise import learners

            homes = [f"partwise.learners.{module}" for module in dict.fromkeys(learners._HOME.values())]
            for home in homes:
                importlib.import_module(home)
            # one order, whatever was imported first: that of the package, then those of others
            place = {home: n for n, home in enumerate(homes)}
            found = sorted(super().items(), key=lambda pair: place.get(pair[1].__module__, len(homes)))
            self.clear()
            self.update(found)

    def __missing__(self, name: str) -> type[Learner]:
        from partwise import learners

        if name not in learners._NAMED:
            raise KeyError(name)
        return getattr(learners, learners._NAMED[name])  # type: ignore[no-any-return]  # its import adds it here

    def __contains__(self, name: object) -> bool:
        from partwise import learners

        return super().__contains__(name) or name in learners._NAMED

    def __iter__(self) -> Iterator[str]:
        self._load()
        return super().__iter__()

    def __len__(self) -> int:
        self._load()
        return super().__len__()

    def keys(self) -> Any:
        self._load()
        return super().keys()

    def values(self) -> Any:
        self._load()
        return super().values()

    def items(self) -> Any:
        self._load()
        return super().items()


LEARNERS: dict[str, type[Learner]] = _Registry()


def _who_can(space: Structure, loss: Loss) -> str:
    """The learners that can train this structure, with this loss or else with others, in words."""
    able = {
        str(point): ", ".join(name for name, kind in LEARNERS.items() if kind().obstacle(space, point) is None)
        for point in (loss, *map(Loss.named, ("svm", "perceptron", "crf")))
    }
    if able[str(loss)]:
        return f"Learners that can: {able[str(loss)]}."
    others = "; ".join(f"with loss {name!r}: {names}" for name, names in able.items() if names)
    return f"No learner can; {others}." if others else "No learner can, with any loss."


def register_learner(name: str) -> Callable[[type[Learner]], type[Learner]]:
    """Make a learner known by name."""

    def add(kind: type[Learner]) -> type[Learner]:
        LEARNERS[name] = kind
        return kind

    return add


def find_learner(name: str) -> type[Learner]:
    """The learner of that name; an unknown one is an error with the nearest."""
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]

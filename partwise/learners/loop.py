"""The loop that all learners share: trace, callbacks, held-out score, early stopping, Ctrl-C, checkpoints, certificate.

A learner is three functions on a state (a plain dict of arrays and numbers): ``start`` makes it, ``advance`` improves
it by one pass, ``weights`` reads θ off it. Nothing here knows what is being learned: a learner of a
:class:`~partwise.problem.Problem`, of a sum over other machines or of a search space runs through the same loop.
Because a state is nothing but arrays and numbers, a checkpoint is the state, and a resumed run continues bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise._memory import release_free_memory
from partwise.exceptions import OracleError

__all__ = ["Callback", "Certificate", "CheckpointLike", "Passes", "Record", "Result", "State", "run_passes"]

Floats = NDArray[np.float64]
State = dict[str, Any]

#: A primal this much below its dual, relative to their size, is no rounding error.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Record:
    """One line of a trace: what is known after a pass. None if a learner does not define it."""

    step: int
    seconds: float
    objective: float | None = None  # eq. (2), or an upper bound on it where inference is approximate
    dual: float | None = None  # a lower bound on the optimum of eq. (2)
    score: float | None = None  # on held-out data
    extra: dict[str, float] = field(default_factory=dict)
    note: str = ""  # why objective or dual are unknown, where inference is to blame

    @property
    def gap(self) -> float | None:
        """objective − dual."""
        return None if self.objective is None or self.dual is None else self.objective - self.dual


@dataclass(frozen=True)
class Certificate:
    """dual ≤ min_θ P(θ) ≤ primal: how far the answer can be from the optimum, at most.

    P is the objective of Martins et al. (2010), eq. (2).

    ``of`` says what it certifies: the "problem", or the "relaxation" that an outer oracle solves in its place, whose
    objective is never below the problem's.
    """

    primal: float
    dual: float
    of: str = "problem"

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), 1e-300)


@dataclass(frozen=True)
class Result:
    """What every learner returns.

    ``status``: "converged"; "stalled" (no step helps, or the oracle cannot tell whether one would); "max_passes";
    "stopped" (by a callback); "early_stopping"; or "interrupted".
    """

    theta: Floats
    trace: list[Record]
    certificate: Certificate | None
    status: str
    best_step: int  # the pass whose θ this is; 0 where no pass found better than the start

    @property
    def uncertified(self) -> str:
        """Why there is no certificate, as the trace says; empty where there is one, or where the learner has none."""
        return "" if self.certificate is not None else next((line.note for line in self.trace if line.note), "")


Callback = Callable[[Record, Floats], bool | None]


class CheckpointLike(Protocol):
    """Where a run keeps its state; :class:`partwise.storage.Checkpoint` is one."""

    def due(self, step: int) -> bool: ...
    def exists(self) -> bool: ...
    def save(self, state: State) -> None: ...
    def load(self) -> State: ...


class Passes(Protocol):
    """What the loop asks of a learner that is bound to its data."""

    def start(self, theta: Floats) -> State:
        """The state before the first pass."""

    def resume(self, state: State) -> None:
        """Take up a state that a checkpoint held; called once, before anything else is asked."""

    def advance(self, state: State) -> dict[str, Any]:
        """One pass, in place. Returns what is known then: objective, dual, converged, stalled, ``extra`` numbers."""

    def weights(self, state: State) -> Floats:
        """θ of a state, in an array that later passes leave alone."""

    def better(self, new: Record, best: Record) -> bool:
        """Whether a pass brought the θ to return."""

    def satisfied(self, certificate: Certificate | None) -> bool:
        """Whether the best primal and the best dual, of two passes perhaps, are near enough to end."""

    def certify(self, known: dict[str, Any], theta: Floats, best_dual: float) -> str:
        """Correct objective, dual and converged to what the oracle's guarantee allows; returns a note, or ""."""

    @property
    def certifies(self) -> str:
        """What a certificate is about: "problem" or "relaxation"."""


def run_passes(
    learner: Passes,
    *,
    max_passes: int,
    theta: Floats,
    score: Callable[[Floats], float] | None = None,
    patience: int | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: CheckpointLike | None = None,
) -> Result:
    """Run passes until convergence, ``max_passes``, a callback that returns True, or Ctrl-C.

    Parameters are those of :meth:`partwise.learners.Learner.fit`.
    """
    callbacks = list(callbacks)
    begin = time.perf_counter()
    trace: list[Record] = []
    best_theta, best_step, before, status = theta, 0, 0.0, "max_passes"
    try:
        if checkpoint is not None and checkpoint.exists():
            saved = checkpoint.load()
            state, trace = saved["state"], [Record(**line) for line in saved["trace"]]
            best_theta, best_step, before = saved["best_theta"], saved["best_step"], saved["seconds"]
            learner.resume(state)
            if saved["status"] in ("converged", "stalled", "early_stopping"):
                return _result(learner, best_theta, trace, saved["status"], best_step)
        else:
            state = learner.start(best_theta.copy())
        for step in range(len(trace) + 1, max_passes + 1):
            known = learner.advance(state)
            if not trace:  # reading the data and loading the kernels took more than later passes will
                release_free_memory()
            now = learner.weights(state)
            note = learner.certify(known, now, _best_dual(trace))
            record = Record(
                step,
                before + time.perf_counter() - begin,
                known.get("objective"),
                known.get("dual"),
                None if score is None else float(score(now)),
                known.get("extra", {}),
                note,
            )
            trace.append(record)
            if best_step == 0 or learner.better(record, trace[best_step - 1]):
                best_theta, best_step = now, step
            _check_bounds(trace)
            stop = sum(bool(callback(record, now)) for callback in callbacks)  # all of them see every record
            closed = score is None and learner.satisfied(_certificate(learner, trace, best_step))
            if known.get("converged") or closed:  # before "stopped", or a resumed run would not know that it is over
                status = "converged"
            elif known.get("stalled"):
                status = "stalled"
            elif patience is not None and score is not None and step - best_step >= patience:
                status = "early_stopping"
            elif stop:
                status = "stopped"
            if checkpoint is not None and (checkpoint.due(step) or status != "max_passes"):
                checkpoint.save(
                    {"state": state, "trace": [asdict(line) for line in trace], "best_theta": best_theta,
                     "best_step": best_step, "seconds": record.seconds, "status": status}
                )  # fmt: skip
            if status != "max_passes":
                break
    except KeyboardInterrupt:  # the last complete pass is what counts
        status = "interrupted"
    return _result(learner, best_theta, trace, status, best_step)


def _best_dual(trace: list[Record]) -> float:
    return max((record.dual for record in trace if record.dual is not None), default=-np.inf)


def _check_bounds(trace: list[Record]) -> None:
    """A primal below a dual is impossible: some oracle returned less than the maximum, or more."""
    dual, primal = _best_dual(trace), trace[-1].objective
    if primal is None or not primal < dual - ROUNDING * max(abs(primal), abs(dual), 1e-3):
        return
    raise OracleError(
        f"pass {trace[-1].step}: the objective {primal:.6g} lies below its lower bound {dual:.6g}, which proves an "
        "oracle wrong: an argmax overlooked an output that it returned in another pass, or a log-partition is not one. "
        'If inference is approximate, declare it: guarantee("argmax") returns "inner" (StructuredClassifier: '
        "check_oracle=False)"
    )


def _certificate(learner: Passes, trace: list[Record], step: int) -> Certificate | None:
    primal, dual = trace[step - 1].objective if step else None, _best_dual(trace)
    return None if primal is None or dual == -np.inf else Certificate(primal, dual, learner.certifies)


def _result(learner: Passes, theta: Floats, trace: list[Record], status: str, step: int) -> Result:
    return Result(theta, trace, _certificate(learner, trace, step), status, step)

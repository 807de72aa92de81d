"""The schedule of a training run, from the first model to the last, and its checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise.alignment._cooccurrence import Corpus
from partwise.alignment._expectation import Tables
from partwise.alignment._jumps import weights_to_jumps
from partwise.alignment._training import TrainedModel
from partwise.estimation.base import GuardedCheckpoint
from partwise.learners.base import Record

__all__ = ["JUMP_KEYS", "TrainingCheckpoint", "restored", "run_plan", "stored"]

JUMP_KEYS = ("forward_weights", "forward_starts", "backward_weights", "backward_starts")

Arrays = dict[str, NDArray[Any]]
Plan = Sequence[tuple[str, int, bool]]  # model, iterations, agreement
Trace = list[dict[str, Any]]


def stored(model: TrainedModel) -> tuple[Arrays, Arrays]:
    """Tables and jump weights by name."""
    jumps = (model.jumps[0].weights, model.jumps[0].starts, model.jumps[1].weights, model.jumps[1].starts)
    return model.tables._asdict(), dict(zip(JUMP_KEYS, jumps, strict=True))


def restored(tables: Arrays, jumps: Arrays, longest: int) -> TrainedModel:
    """The model of what :func:`stored` returned."""
    weights = [np.asarray(jumps[key]) for key in JUMP_KEYS]
    sides = (weights_to_jumps(weights[0], weights[1], longest), weights_to_jumps(weights[2], weights[3], longest))
    return TrainedModel(Tables(**{key: np.asarray(tables[key]) for key in Tables._fields}), sides)


class Trainable(Protocol):
    """EM on one corpus, here or elsewhere: what a schedule asks of it."""

    @property
    def corpus(self) -> Corpus: ...

    @property
    def longest(self) -> int: ...

    def begin(self, model: str, start: str | None = None) -> None: ...

    def step(self, agree: bool) -> NDArray[np.float64]: ...

    def keep(self, name: str) -> None: ...

    def resume(self, model: str, kept: dict[str, TrainedModel], current: TrainedModel) -> None: ...

    def state(self) -> tuple[dict[str, TrainedModel], TrainedModel]: ...


class TrainingCheckpoint:
    """The state of a training after each iteration; belongs to one run: same settings, same data."""

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.file = GuardedCheckpoint(path, fingerprint)

    def save(self, stage: int, done: int, kept: dict[str, TrainedModel], current: TrainedModel, trace: Trace) -> None:
        models = {name: stored(model) for name, model in kept.items()}
        state = {"stage": stage, "done": done, "kept": models, "current": stored(current), "trace": trace}
        self.file.save(state)

    def load(self, longest: int) -> tuple[int, int, dict[str, TrainedModel], TrainedModel, Trace] | None:
        """The last saved state; None if there is none."""
        if not self.file.exists():
            return None
        state = self.file.load()
        kept = {name: restored(parts[0], parts[1], longest) for name, parts in state["kept"].items()}
        tables, jumps = state["current"]
        return state["stage"], state["done"], kept, restored(tables, jumps, longest), state["trace"]


def run_plan(
    training: Trainable,
    plan: Plan,
    checkpoint: TrainingCheckpoint | None,
    progress: Callable[[Record, NDArray[np.float64]], Any] | None,
) -> Trace:
    """Train and keep every model of the plan, from the second on with the tables of the first; or resume that."""
    trace: Trace = []
    first = done = 0
    resumed = None if checkpoint is None else checkpoint.load(training.longest)
    if resumed is not None:
        first, done, kept, current, trace = resumed
        training.resume(plan[first][0], kept, current)
    words = len(training.corpus.target), len(training.corpus.source)
    began = time.perf_counter()
    for stage, (name, count, agree) in enumerate(plan[first:], start=first):
        if stage > first or resumed is None:
            training.begin(name, plan[0][0] if stage else None)
            done = 0
        while done < count:
            likelihood = training.step(agree) / words
            done += 1
            seconds = time.perf_counter() - began
            values = {"forward": float(likelihood[0]), "backward": float(likelihood[1]), "seconds": seconds}
            trace.append({"model": name, "iteration": done, **values})
            if progress is not None:
                progress(Record(len(trace), seconds, objective=-float(likelihood.sum())), np.zeros(0))
            if checkpoint is not None:
                checkpoint.save(stage, done, *training.state(), trace)
        training.keep(name)
    return trace

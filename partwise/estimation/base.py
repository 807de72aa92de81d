"""What all estimators share: losses and learners from their names, threads, and one-file storage."""

from __future__ import annotations

import difflib
import functools
import importlib
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, ParameterError, PartwiseError, StorageError
from partwise.learners import Learner, find_learner
from partwise.losses import Loss, LossFunction
from partwise.storage import Checkpoint
from partwise.storage import load as load_file
from partwise.storage import save as save_file

__all__ = [
    "MODELS",
    "GuardedCheckpoint",
    "StoredModel",
    "find_model",
    "load_model",
    "make_learner",
    "make_loss",
    "thread_count",
]


def make_loss(loss: Any, learner: Any = None, usual: str = "crf") -> LossFunction:
    """A Loss from a Loss, a name or (β, γ); if None, the learner's own or the default."""
    if loss is None:
        kind = find_learner(learner) if isinstance(learner, str) else learner
        return Loss.named(getattr(kind, "own_loss", None) or usual)
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return Loss.named(loss)
    if isinstance(loss, (tuple, list)) and len(loss) == 2:
        return Loss(float(loss[0]), float(loss[1]))
    raise ParameterError("loss", "partwise", "a name, a Loss or a pair (beta, gamma)", loss)


def make_learner(learner: Any, C: float, max_passes: int | None, random_state: int, options: dict[str, Any]) -> Learner:
    """A Learner from a Learner, or from a name or class and settings."""
    if isinstance(learner, Learner):
        return learner
    kind = learner if isinstance(learner, type) and issubclass(learner, Learner) else find_learner(learner)
    if not isinstance(options, Mapping):
        raise ParameterError("learner_options", kind.__name__, "a dict of settings by name", options)
    settings: dict[str, Any] = {"C": C, "random_state": random_state, **options}
    if max_passes is not None:
        settings["max_passes"] = max_passes
    known = {setting.name for setting in fields(kind)}
    for name in options:
        if name not in known:
            own = sorted(known - {"C", "max_passes", "random_state"})
            near = difflib.get_close_matches(str(name), own, n=1, cutoff=0.5)
            offer = f"among {', '.join(own)}" + (f" (did you mean {near[0]!r}?)" if near else "")
            raise ParameterError("learner_options", kind.__name__, offer, name)
    return kind(**settings)


def thread_count(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``, as in scikit-learn: −1 is all cores."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs < -1:
        raise ParameterError("n_jobs", "partwise", "a positive number, or -1 for all cores", n_jobs)
    if n_jobs > 0:
        return n_jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class GuardedCheckpoint:
    """A checkpoint that belongs to one run: same settings, same data."""

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.file, self.fingerprint = Checkpoint(path), fingerprint

    def due(self, step: int) -> bool:
        return self.file.due(step)

    def exists(self) -> bool:
        return self.file.exists()

    def save(self, state: dict[str, Any]) -> None:
        self.file.save({**state, "fingerprint": self.fingerprint})

    def load(self) -> dict[str, Any]:
        state = self.file.load()
        if state.pop("fingerprint", None) != self.fingerprint:
            raise InputError(
                f"checkpoint {self.file.path} belongs to another run (other settings or data); "
                "delete it, or continue with the settings and data it was made with"
            )
        return state


MODELS: dict[str, type[StoredModel]] = {}


class StoredModel:
    """A fitted estimator that saves to and loads from one file. Subclasses name their ``kind`` and their state."""

    kind: ClassVar[str]
    shows_weights: ClassVar[bool] = False  # whether :meth:`describe_weights` has something to say

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            MODELS[cls.kind] = cls

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON-able header, arrays) of the fitted model."""
        raise TypeError(f"{type(self).__name__} cannot be stored")

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """The model of a stored state."""
        raise TypeError(f"{cls.__name__} cannot be stored")

    @property
    def stages(self) -> list[Any]:
        """The models that this one consists of, in the order in which they run; the last one makes the prediction."""
        return [self]

    @classmethod
    def stage_headers(cls, header: dict[str, Any]) -> list[dict[str, Any]]:
        """The headers of the stages in the header of a stored model."""
        return [header]

    def describe_weights(self, label: Any = None, top: int = 5) -> dict[str, Any]:
        """The strongest weights by name, of one label or of all, JSON-able; for ``partwise inspect``."""
        raise TypeError(f"{type(self).__name__} has no named weights to show")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; an existing one is replaced only when the new one is complete."""
        header, arrays = self.to_state()
        save_file(path, self.kind, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read a model written by :meth:`save`. Nothing in the file is executed."""
        stored = load_file(path, cls.kind, mmap=mmap)
        result: Self = restore(cls, path, stored.header, stored.arrays)
        return result


@functools.cache
def _homes() -> dict[str, str]:
    """The module of each kind, as the files ``kinds.py`` of the packages say."""
    found: dict[str, str] = {}
    root = Path(__file__).parents[1]
    for path in sorted(root.glob("*/kinds.py")):
        found |= importlib.import_module(f"partwise.{path.parent.name}.kinds").KINDS
    return found


def find_model(kind: str) -> type[StoredModel] | None:
    """The class that reads a kind of model; None if the kind is unknown."""
    if kind not in MODELS and kind in _homes():
        importlib.import_module(_homes()[kind])
    return MODELS.get(kind)


def load_model(path: str | os.PathLike[str], *, mmap: bool = False) -> Any:
    """Read a model of any kind."""
    stored = load_file(path, mmap=mmap)
    found = find_model(stored.kind)
    if found is None:
        known = ", ".join(sorted({*MODELS, *_homes()}))
        raise StorageError(f"{os.fspath(path)}: holds a {stored.kind!r}; expected one of {known}")
    return restore(found, path, stored.header, stored.arrays)


def restore(kind: Any, path: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """``from_state``, whose errors are reported as errors of the file."""
    try:
        return kind.from_state(header, arrays)
    except PartwiseError as error:
        raise StorageError(f"{os.fspath(path)}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise StorageError(f"{os.fspath(path)}: not a complete {kind.kind} ({detail})") from error


def params_to_json(params: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters in JSON: losses, learners and costs as what they are made of."""

    def plain(value: Any) -> Any:
        if isinstance(value, Loss):
            return {"loss": [float(value.beta), float(value.gamma), value.difference, value.slack]}
        if isinstance(value, Learner):
            from partwise.learners import LEARNERS

            name = next(n for n, kind in LEARNERS.items() if kind is type(value))
            return {"learner": name, "settings": plain(asdict(value))}
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        if hasattr(value, "text"):  # Templates
            return value.text
        return {"repr": repr(value)}

    return {name: plain(value) for name, value in params.items()}


def params_from_json(params: dict[str, Any]) -> dict[str, Any]:
    """The inverse, as far as a fitted model needs it: values stored only as ``repr`` become None."""

    def rich(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"loss"}:
            return Loss(*value["loss"])
        if isinstance(value, dict) and set(value) == {"learner", "settings"}:
            settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value["settings"].items()}
            return find_learner(value["learner"])(**settings)
        if isinstance(value, dict) and set(value) == {"repr"}:
            return None
        if isinstance(value, list):
            return tuple(rich(item) for item in value)
        return value

    return {name: rich(value) for name, value in params.items()}

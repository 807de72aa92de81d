"""The stored state of a topic model, and checkpoints of its training."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.estimation.base import StoredModel
from partwise.exceptions import InputError, StorageError
from partwise.storage import Checkpoint, pack_strings, unpack_strings

from .corpus import Corpus

__all__ = ["CheckpointSource", "Keeper", "State", "StateMixin"]

State = tuple[dict[str, Any], dict[str, np.ndarray]]
CheckpointSource = State | str | os.PathLike[str] | Checkpoint


def _plain(value: Any) -> Any:
    """Parameters as JSON would hold them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool, dict)):
        return value
    raise StorageError(f"a {type(value).__name__} cannot be stored: {value!r}")


class StateMixin(StoredModel):
    """``to_state``/``from_state``: a JSON-able header and named arrays, all that storage needs.

    Subclasses list the fitted attributes: ``_scalars`` go to the header, ``_arrays`` beside it; either may
    be absent from a particular fit. ``callback`` is not stored; any other callable is an error, since the
    model would behave otherwise without it.
    """

    _scalars: tuple[str, ...] = ()
    _arrays: tuple[str, ...] = ()

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = dict(self.get_params(deep=False))  # type: ignore[attr-defined]
        parameters.pop("callback", None)
        if isinstance(parameters.get("random_state"), (np.random.Generator, np.random.RandomState)):
            parameters["random_state"] = self.seed_  # type: ignore[attr-defined]  # the seed drawn from it
        return {name: _plain(value) for name, value in parameters.items()}

    def to_state(self) -> State:
        """(header, arrays) of the fitted estimator; strings as bytes and offsets."""
        check_is_fitted(self)
        header = {
            "class": type(self).__name__,
            "format": 1,
            "parameters": self._stored_parameters(),
            "fitted": {name: _plain(getattr(self, name)) for name in self._scalars if hasattr(self, name)},
        }
        arrays: dict[str, np.ndarray] = {}
        for name in self._arrays:
            array = getattr(self, name, None)
            if array is not None and array.dtype.kind == "U":
                arrays[f"{name}.bytes"], arrays[f"{name}.offsets"] = pack_strings(array.tolist())
            elif array is not None:
                arrays[name] = array
        return header, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The estimator that ``to_state`` described."""
        if header.get("class") != cls.__name__ or header.get("format") != 1:
            raise StorageError(
                f"expected the state of a {cls.__name__} in format 1, "
                f"got {header.get('class')!r} in format {header.get('format')!r}"
            )
        estimator = cls(**header["parameters"])
        known = set(cls._arrays)
        for name, value in header["fitted"].items():
            if name not in cls._scalars:
                raise StorageError(f"unknown value {name!r} in the state of a {cls.__name__}")
            setattr(estimator, name, value)
        for name, array in arrays.items():
            base, _, part = name.partition(".")
            if base not in known or part not in ("", "bytes", "offsets"):
                raise StorageError(f"unknown array {name!r} in the state of a {cls.__name__}")
            if part == "bytes":
                setattr(estimator, base, np.array(unpack_strings(array, arrays[f"{base}.offsets"]), dtype=str))
            elif not part:
                setattr(estimator, base, np.asarray(array))
        estimator._check_state()
        return estimator

    def _check_state(self) -> None:
        """Raise StorageError if the restored arrays do not fit together."""

    def _check_shapes(self, expected: dict[str, tuple[int | None, ...]]) -> None:
        for name, shape in expected.items():
            array = getattr(self, name, None)
            if array is None:
                raise StorageError(f"the state of a {type(self).__name__} lacks {name!r}")
            fits = array.ndim == len(shape) and all(
                wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
            )
            if not fits:
                raise StorageError(f"{name} of a {type(self).__name__} has shape {array.shape}, expected {shape}")


# Settings that may change between a training and its continuation: they do not touch what was done so far.
_FREE = frozenset({"n_iterations", "n_jobs", "callback", "transform_samples", "transform_burn_in"})


class Keeper:
    """The ``checkpoint`` of ``fit``: a state to continue from, or a file that holds one.

    A file is written after the first step and then whenever writing costs less than a twentieth of the time
    since; a ``Checkpoint`` is written when it is due. A checkpoint made with other settings or data is an error.
    """

    def __init__(self, source: CheckpointSource | None, owner: StateMixin, corpus: Corpus, labels: Any = None) -> None:
        self.state: State | None = None
        self.file: Checkpoint | None = None
        if source is None:
            return
        if isinstance(source, tuple):
            self.state = source
            return
        self.paced = not isinstance(source, Checkpoint)
        self.file = source if isinstance(source, Checkpoint) else Checkpoint(source)
        settings = {name: value for name, value in owner._stored_parameters().items() if name not in _FREE}
        self.made_by: dict[str, Any] = {
            "class": type(owner).__name__,
            "settings": settings,
            "data": _digest(corpus, labels),
        }
        self.next = 0.0
        if self.file.exists():
            saved = self.file.load("topics-checkpoint")
            self._compare(saved["made_by"])
            self.state = (saved["header"], saved["arrays"])

    def _compare(self, other: dict[str, Any]) -> None:
        assert self.file is not None
        if other["class"] != self.made_by["class"]:
            raise InputError(f"{self.file.path}: a checkpoint of {other['class']}, not of {self.made_by['class']}")
        for name, value in self.made_by["settings"].items():
            if other["settings"].get(name) != value:
                raise InputError(
                    f"{self.file.path}: a checkpoint with {name}={other['settings'].get(name)!r}, "
                    f"not {value!r}; delete it to start again"
                )
        if other["data"] != self.made_by["data"]:
            raise InputError(f"{self.file.path}: a checkpoint of other data; delete it to start again")

    def keep(self, step: int, state: Callable[[], State]) -> None:
        """Write the state after ``step``, if it is time to."""
        if self.file is None:
            return
        begin = time.monotonic()
        if begin < self.next if self.paced else not self.file.due(step):
            return
        header, arrays = state()
        self.file.save({"made_by": self.made_by, "header": header, "arrays": arrays}, "topics-checkpoint")
        end = time.monotonic()
        self.next = end + 20.0 * (end - begin)


def _digest(corpus: Corpus, labels: Any) -> str:
    digest = hashlib.blake2b(corpus.offsets.tobytes() + corpus.words.tobytes(), digest_size=16)
    if labels is not None:
        digest.update(np.asarray(labels).tobytes())
    return digest.hexdigest()

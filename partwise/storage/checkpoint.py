"""Checkpoints: training that was killed resumes where it stopped."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise._atomic import temporary_name
from partwise.exceptions import ParameterError
from partwise.storage.layout import Array, Path, damaged, file_name, short
from partwise.storage.reading import load
from partwise.storage.writing import save

__all__ = ["Checkpoint"]


class Checkpoint:
    """The state of a training run, saved from time to time; if the process is killed, the last saved state remains.

    Parameters
    ----------
    path
        File of the checkpoint. Only one process may write it at a time: each save first removes the
        temporary files that killed processes left.
    every
        ``due(step)`` holds at each multiple of this number of steps.

    Examples
    --------
    >>> import os, tempfile
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "run.pw"), every=10)
    ...     if checkpoint.due(20):
    ...         checkpoint.save({"step": 20, "w": np.ones(2), "rng": rng.bit_generator.state})
    ...     state = checkpoint.load()
    >>> state["step"], state["w"], state["rng"] == rng.bit_generator.state
    (20, array([1., 1.]), True)
    """

    def __init__(self, path: Path, every: int = 1) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ParameterError("every", "Checkpoint", "a positive integer", every)
        self.path, self.every = file_name(path), every

    def due(self, step: int) -> bool:
        """Whether to save after ``step`` steps (counted from 1)."""
        return step > 0 and step % self.every == 0

    def exists(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return os.path.exists(self.path)

    def save(self, state: Mapping[str, Any], kind: str = "checkpoint") -> None:
        """Save arrays, numpy scalars and JSON-able values, nested in dicts and lists as they are."""
        arrays: dict[str, Array] = {}
        try:
            tree = _detach(dict(state), "", arrays)
        except RecursionError:
            raise ParameterError("state", "Checkpoint", "a tree", "one that contains itself") from None
        folder, name = os.path.split(os.path.realpath(self.path))
        for leftover in glob.glob(temporary_name(os.path.join(glob.escape(folder), name), "*")):
            with contextlib.suppress(OSError):  # in the way of nothing: it only takes space
                os.unlink(leftover)
        save(self.path, kind, {"state": tree}, arrays)

    def load(self, kind: str = "checkpoint") -> dict[str, Any]:
        """The state last saved; tuples come back as lists, all else as it was, bit by bit."""
        stored = load(self.path, kind)
        state = _attach(stored.header.get("state"), stored.arrays, self.path)
        if not isinstance(state, dict):
            raise damaged(self.path, "header: not the state of a checkpoint")
        return state


def _detach(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    """Move arrays out of a tree, leaving ``{"$array": name}``; names are JSON pointers, so unique."""
    if isinstance(value, np.ndarray | np.generic):
        arrays[place] = value if isinstance(value, np.ndarray) else np.asarray(value)
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": place}
    if isinstance(value, list | tuple):
        return [_detach(item, f"{place}/{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, dict):
        if "$array" in value or "$scalar" in value:
            raise ParameterError("state", "Checkpoint", "without keys '$array' and '$scalar'", list(value))
        escaped = {key: str(key).replace("~", "~0").replace("/", "~1") for key in value}
        return {key: _detach(item, f"{place}/{escaped[key]}", arrays) for key, item in value.items()}
    return value


def _attach(value: Any, arrays: dict[str, Array], name: str) -> Any:
    if isinstance(value, list):
        return [_attach(item, arrays, name) for item in value]
    if not isinstance(value, dict):
        return value
    for mark in value.keys() & {"$array", "$scalar"}:
        array = arrays.get(value[mark]) if isinstance(value[mark], str) else None
        if array is None or (mark == "$scalar" and array.ndim):
            raise damaged(name, f"header: no array {short(value[mark])}")
        return array if mark == "$array" else array[()]
    return {key: _attach(item, arrays, name) for key, item in value.items()}

"""Every error partwise raises on purpose: one base class, one place.

Each also inherits the built-in exception a Python user would expect, so ``except ValueError`` keeps
working. Messages say what is wrong, where (file:line, instance, token) and what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "CapabilityError",
    "ClusterError",
    "EdgeError",
    "FormatError",
    "InputError",
    "OracleError",
    "ParameterError",
    "PartwiseError",
    "SolverError",
    "StorageError",
    "unknown_name",
]


class PartwiseError(Exception):
    """Base of all errors that partwise raises on purpose."""


class InputError(PartwiseError, ValueError):
    """Data that cannot be learned from or predicted on; names the instance and the token."""


class EdgeError(InputError):
    """An edge whose ends prefer to differ, in a model that must be submodular: (edge, instance, its two nodes).

    Examples
    --------
    >>> str(EdgeError(3, 0, 1, 2))[:68]
    'edge 3 of instance 0, between nodes 1 and 2, scores above 0 where th'
    """

    def __str__(self) -> str:
        edge, instance, first, second = self.args
        return (
            f"edge {edge} of instance {instance}, between nodes {first} and {second}, scores above 0 where they "
            "differ: the model is not submodular (eq. 2.4). Learn with nonnegative edge features and weights ≥ 0, or "
            "use an inference engine that allows repulsion."
        )


class FormatError(InputError):
    """A file that is not in the expected format; names the file and the line.

    Examples
    --------
    >>> raise FormatError("expected 3 columns, got 2", path="train.txt", line=7)
    Traceback (most recent call last):
        ...
    partwise.exceptions.FormatError: train.txt:7: expected 3 columns, got 2
    """

    def __init__(
        self,
        message: str,
        path: object = None,
        line: int | None = None,
        byte: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (path, line, byte) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.path, self.line, self.byte = path, line, byte


class ParameterError(PartwiseError, ValueError):
    """A setting out of its range.

    Examples
    --------
    >>> raise ParameterError("C", "Learner", "a positive number", -1.0)
    Traceback (most recent call last):
        ...
    partwise.exceptions.ParameterError: The 'C' parameter of Learner must be a positive number. Got -1.0 instead.
    """

    def __init__(self, parameter: str, owner: str, expected: str, got: Any) -> None:
        super().__init__(f"The {parameter!r} parameter of {owner} must be {expected}. Got {got!r} instead.")


class CapabilityError(PartwiseError, TypeError):
    """A learner needs an oracle that the structure does not have; raised before training."""


class OracleError(PartwiseError, RuntimeError):
    """An oracle that is not what it claims to be: the bounds that follow from its answers contradict each other."""


class SolverError(PartwiseError, RuntimeError):
    """A solver that ended without a solution: a time limit, with the remaining gap, or a failure."""


class ClusterError(PartwiseError, RuntimeError):
    """A cluster that cannot be reached, has the wrong versions, or has lost its workers."""


class StorageError(PartwiseError, OSError):
    """A model file that cannot be written, or whose contents are not what they claim to be."""


def unknown_name(kind: str, got: object, known: Iterable[str]) -> ParameterError:
    """The error for a name that is not in a registry, with the nearest known name.

    Examples
    --------
    >>> print(unknown_name("loss", "crff", ["crf", "svm"]))
    The 'loss' parameter of partwise must be one of 'crf', 'svm' (did you mean 'crf'?). Got 'crff' instead.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(got), names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ParameterError(kind, "partwise", "one of " + ", ".join(map(repr, names)) + hint, got)

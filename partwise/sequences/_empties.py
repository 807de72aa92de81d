"""Sequences without positions, and no sequences at all: answered without asking the model.

A service that splits text into sentences meets both. There is only one output without positions, so nothing has to be
computed; in training they are still an error, since there is nothing to learn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from partwise.data.columns import CodedColumn, Columns
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs
from partwise.exceptions import InputError
from partwise.sequences.encoders import sequences_of

__all__ = ["answers_empty", "codes_empty"]

Method = TypeVar("Method", bound=Callable[..., Any])


def answers_empty(empty: Callable[[Any], Any], *, constrained: bool = False) -> Callable[[Method], Method]:
    """Let a method that returns one answer per sequence give ``empty(model)`` for those without positions.

    ``constrained`` says that its second argument is one dict of constraints per sequence, or a single dict.
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
            X, full = _full(self, X)
            if full is None:
                return method(self, X, *args, **kwargs)
            args, kwargs = _selected(len(X), full, args, kwargs) if constrained else (args, kwargs)
            found = iter(method(self, [X[i] for i in full], *args, **kwargs) if full else ())
            kept = set(full)
            return Outputs([next(found) if i in kept else empty(self) for i in range(len(X))])

        return cast(Method, answer)

    return decorate


def codes_empty(*, constrained: bool = False) -> Callable[[Method], Method]:
    """The same for a method that returns the labels of all sequences as one column of codes."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> CodedColumn:
            X, full = _full(self, X)
            if full is None:
                answer: CodedColumn = method(self, X, *args, **kwargs)
                return answer
            args, kwargs = _selected(len(X), full, args, kwargs) if constrained else (args, kwargs)
            lengths = np.zeros(len(X) + 1, np.int64)
            if not full:
                return CodedColumn(np.zeros(0, np.int32), [], lengths)
            found = method(self, [X[i] for i in full], *args, **kwargs)
            lengths[np.array(full) + 1] = np.diff(found.offsets)
            answer = found._replace(offsets=np.cumsum(lengths))
            return answer

        return cast(Method, answer)

    return decorate


def _full(model: Any, X: Any) -> tuple[Any, list[int] | None]:
    """(X as sequences, which of them have positions); None in place of "all", unless there are none."""
    check_is_fitted(model, "classes_")
    X = list(X) if hasattr(X, "__next__") else sequences_of(X)
    if isinstance(X, Columns) or not hasattr(X, "__len__") or isinstance(X, str):
        return X, None
    full = [i for i, x in enumerate(X) if isinstance(x, str) or _length(x)]
    return X, None if 0 < len(full) == len(X) else full


def _length(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _selected(n: int, full: Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments, with the constraints of the sequences that are kept."""
    given = args[0] if args else kwargs.get("constraints")
    if given is None:
        return args, kwargs
    rows = [given] if isinstance(given, dict) and n == 1 else given
    if isinstance(rows, dict):
        raise InputError(f"a single dict of constraints applies to one sequence; X has {n}: pass a list of dicts")
    if len(rows) != n:
        raise InputError(f"X has {n} sequences but constraints has {len(rows)}")
    for i in sorted(set(range(n)) - set(full)):
        for position in rows[i] or ():
            raise InputError(f"constraint at position {position} of sequence {i}, which has 0 positions")
    return (), {**kwargs, "constraints": [rows[i] for i in full]}

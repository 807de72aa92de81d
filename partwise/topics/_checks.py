"""Parameter checks and the (header, arrays) state that every topic estimator shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ParameterError, StorageError, unknown_name

__all__ = ["State", "StateMixin", "at_least", "one_of", "positive", "seed_of"]

State = tuple[dict[str, Any], dict[str, np.ndarray]]


def at_least(owner: object, name: str, low: int) -> int:
    """The integer parameter ``name`` of ``owner``, if it is at least ``low``."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ParameterError(name, type(owner).__name__, f"an integer of at least {low}", value)
    return int(value)


def positive(owner: object, name: str) -> float:
    """The parameter ``name`` of ``owner``, if it is a positive finite number."""
    value = getattr(owner, name)
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value <= 0:
        raise ParameterError(name, type(owner).__name__, "a positive number", value)
    return float(value)


def one_of(owner: object, name: str, known: Any) -> Any:
    """The parameter ``name`` of ``owner``, if it is among ``known``."""
    value = getattr(owner, name)
    if value not in known:
        if isinstance(value, str):
            raise unknown_name(name, value, [k for k in known if isinstance(k, str)])
        raise ParameterError(name, type(owner).__name__, f"one of {sorted(known, key=str)}", value)
    return value


def seed_of(random_state: Any) -> int:
    """A 63-bit seed from ``None`` (fresh), an integer (itself) or a generator (drawn from it)."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ParameterError("random_state", "partwise", "a non-negative integer", random_state)
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ParameterError("random_state", "partwise", "None, an integer or a NumPy generator", random_state)


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
    return value


class StateMixin:
    """``to_state``/``from_state``: a JSON-able header and named arrays, all that storage needs.

    Subclasses list the fitted attributes: ``_scalars`` go to the header, ``_arrays`` beside it; either may
    be absent from a particular fit. Callables (``callback``) are not stored.
    """

    _scalars: tuple[str, ...] = ()
    _arrays: tuple[str, ...] = ()

    def to_state(self) -> State:
        """(header, arrays) of the fitted estimator."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        header = {
            "class": type(self).__name__,
            "format": 1,
            "parameters": {k: _plain(v) for k, v in parameters.items() if not callable(v)},
            "fitted": {name: _plain(getattr(self, name)) for name in self._scalars if hasattr(self, name)},
        }
        return header, {name: getattr(self, name) for name in self._arrays if hasattr(self, name)}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The estimator that ``to_state`` described."""
        if header.get("class") != cls.__name__ or header.get("format") != 1:
            raise StorageError(
                f"expected the state of a {cls.__name__} in format 1, "
                f"got {header.get('class')!r} in format {header.get('format')!r}"
            )
        estimator = cls(**header["parameters"])
        for name, value in header["fitted"].items():
            setattr(estimator, name, value)
        for name, array in arrays.items():
            setattr(estimator, name, np.asarray(array))
        return estimator

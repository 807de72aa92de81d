"""Parameter checks that the topic estimators share."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.exceptions import ParameterError, unknown_name

__all__ = ["at_least", "one_of", "positive", "seed_of"]


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

"""A digest of packed data, so that a checkpoint is not mistaken for that of other data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack_digest"]


def pack_digest(pack: Any) -> bytes:
    """Of the arrays and numbers of nested packs, in order.

    Examples
    --------
    >>> pack_digest((np.arange(3), 1.0)) == pack_digest((np.arange(3), 2.0))
    False
    """
    digest = hashlib.blake2b()
    for array in _arrays(pack):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _arrays(pack: Any) -> Iterator[NDArray[Any]]:
    if isinstance(pack, tuple):
        for item in pack:
            yield from _arrays(item)
    elif isinstance(pack, np.ndarray | int | float | np.generic):
        yield np.asarray(pack)

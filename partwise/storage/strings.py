"""Strings as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.exceptions import ParameterError, StorageError
from partwise.storage.layout import Array

__all__ = ["pack_strings", "unpack_strings"]


def pack_strings(strings: Iterable[str]) -> tuple[Array, Array]:
    """Strings as two arrays: all their UTF-8 bytes, and the n + 1 offsets between them.

    Examples
    --------
    >>> data, offsets = pack_strings(["a", "", "né"])
    >>> data, offsets
    (array([ 97, 110, 195, 169], dtype=uint8), array([0, 1, 1, 4]))
    >>> unpack_strings(data, offsets)
    ['a', '', 'né']
    """
    items: list[Any] = [strings] if isinstance(strings, str) else list(strings)
    for item in items:
        if not isinstance(item, str) or isinstance(strings, str):
            raise ParameterError("strings", "pack_strings", "a list of strings", item)
    encoded = [item.encode("utf-8", "surrogatepass") for item in items]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(bytearray(b"".join(encoded)), np.uint8), offsets


def unpack_strings(data: Array, offsets: Array) -> list[str]:
    """The strings that ``pack_strings`` packed; StorageError if the arrays are not such."""
    if data.dtype != np.uint8 or data.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise StorageError(f"strings: expected uint8 and int64 vectors, got {data.dtype} and {offsets.dtype}")
    if not offsets.size or offsets[0] != 0 or offsets[-1] != data.size or (offsets[1:] < offsets[:-1]).any():
        raise StorageError("strings: the offsets do not ascend from 0 to the number of bytes")
    try:
        text = data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise StorageError(f"strings: not UTF-8: {error}") from None
    if len(text) < data.size:  # decoding once and then cutting is fast, but needs to count characters
        begins = (data & 0xC0) != 0x80
        if not begins[offsets[offsets < data.size]].all():
            raise StorageError("strings: an offset is inside a character")
        counts = np.zeros(data.size + 1, np.int64)
        np.cumsum(begins, out=counts[1:])
        offsets = counts[offsets]
    return [text[begin:end] for begin, end in pairwise(offsets.tolist())]

"""What a file looks like, and what writing and reading have in common.

The layout, all numbers little-endian::

    12 bytes   magic
     4 bytes   format version        (uint32)
     8 bytes   length of the header  (uint64)
     n bytes   header: UTF-8 JSON {"kind", "partwise", "header", "arrays"}
    16 bytes   BLAKE2b of everything above
    zeros up to a multiple of 64: here the data begin
    arrays     raw, C order, in the header's order, each at the next multiple of 64, zeros in between

For each array the header has ``name``, ``dtype``, ``shape``, ``offset`` (from the beginning of the
data), ``nbytes`` and ``blake2b``. Every format version keeps the part up to the first checksum, so
that an older partwise can say which version wrote the file. Checksums find damage, not forgery; what
makes a hostile file harmless is that nothing in it is executed and that every size in the header is
compared with the size of the file before memory is asked for.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.exceptions import ParameterError, StorageError

__all__ = [
    "DIGEST_BYTES",
    "DTYPES",
    "FORMAT_VERSION",
    "MAGIC",
    "MAX_DEPTH",
    "MAX_HEADER",
    "MAX_NDIM",
    "PRELUDE",
    "Array",
    "ArrayInfo",
    "Description",
    "Path",
    "Stored",
    "align",
    "damaged",
    "digest_of",
    "failed",
    "file_name",
    "short",
]

FORMAT_VERSION = 1  # the one that is written, and the newest that can be read
MAGIC = b"\x89partwise\r\n\n"  # a transfer as text changes one of the line ends, and is so noticed
PRELUDE = struct.Struct("<12sIQ")
DIGEST_BYTES = 16
_ALIGN = 64
MAX_HEADER = 1 << 24  # parsed JSON takes up to 20 times its text: large data belong in arrays
MAX_DEPTH = 64
MAX_NDIM = 32
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_PLAIN = ("bool", *_INTEGERS, "float16", "float32", "float64")
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _PLAIN}

Path = str | os.PathLike[str]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stored:
    """What ``load`` returns; ``version`` is that of the partwise that wrote the file."""

    kind: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    version: str


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file; ``offset`` counts from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    blake2b: str


@dataclass(frozen=True)
class Description:
    """What ``describe`` returns; ``size`` is that of the file in bytes."""

    kind: str
    header: dict[str, Any]
    arrays: dict[str, ArrayInfo]
    version: str
    format_version: int
    size: int


def align(position: int) -> int:
    """The next multiple of 64."""
    return -(-position // _ALIGN) * _ALIGN


def digest_of(data: bytes | memoryview) -> bytes:
    """The checksum."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def file_name(path: Path) -> str:
    """The path as a string; ParameterError if it cannot be one."""
    name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if not name or "\0" in name:
        raise ParameterError("path", "storage", "a file name", path)
    return name


def failed(name: str, what: str, error: OSError) -> StorageError:
    """The operating system's error as ours, with its ``errno`` kept for callers that look at it."""
    failure = StorageError(f"{name}: {what}: {error.strerror or error}")
    failure.errno = error.errno
    return failure


def damaged(name: str, what: str) -> StorageError:
    """The error for a file that contradicts itself."""
    return StorageError(f"{name}: damaged: {what}")


def short(value: object) -> str:
    """At most 100 characters of a value from a file, for an error message."""
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."

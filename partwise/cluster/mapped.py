"""Arrays that cost little memory: in files without a name, whose pages the system may drop, or one for many owners."""

from __future__ import annotations

import hashlib
import mmap
import tempfile
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError

__all__ = ["drop_pages", "shared", "to_disk"]

#: Smaller arrays are no memory to speak of.
SMALLEST = 1 << 16

_SHARED: WeakValueDictionary[bytes, NDArray[Any]] = WeakValueDictionary()


def to_disk(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, mapped from a file that goes with the last use of the array."""
    if array.nbytes < SMALLEST:
        return array
    try:
        with tempfile.TemporaryFile(prefix="partwise-") as file:
            file.write(np.ascontiguousarray(array).data)  # ``tofile`` says nothing of a disk that is full
            file.flush()
            mapped = np.memmap(file, array.dtype, "c", shape=array.shape)
    except OSError as error:
        where = tempfile.gettempdir()
        raise StorageError(
            f"{where}: cannot be written: {error.strerror or error}; set TMPDIR to a larger disk"
        ) from None
    return mapped.view(np.ndarray)


def shared(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers: one array for all that have them, as long as any of its owners lives."""
    key = hashlib.blake2b(np.ascontiguousarray(array).data, person=array.dtype.str.encode()).digest()
    return _SHARED.setdefault(key, array)


def drop_pages(pack: Any) -> None:
    """Give back the pages of files that a nested pack maps: they are read again when they are touched.

    They are the page cache's, but whoever looks at the memory of a process counts them. The arrays must be as they are
    in their files.
    """
    if not hasattr(mmap, "MADV_DONTNEED"):  # a system that has no such thing
        return
    for mapped in {id(found): found for found in _maps(pack)}.values():
        mapped.madvise(mmap.MADV_DONTNEED)


def _maps(pack: Any) -> Iterator[mmap.mmap]:
    if isinstance(pack, np.ndarray):
        owner: Any = pack
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if isinstance(owner, mmap.mmap):
            yield owner
    elif isinstance(pack, tuple):
        for item in pack:
            yield from _maps(item)

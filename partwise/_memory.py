"""Memory that a process holds but does not need goes back to the system before the long part of training.

Loading a kernel walks through LLVM, whose library is 170 MB: some 70 MB of it stay resident though nobody will call
them again. They are unchanged copies of a file, so the system may drop them, and reads them anew where another kernel
is loaded or compiled. The heap keeps what packing has freed, some tens of MB on large data.

Only Linux with glibc says where such memory is and takes it back; elsewhere nothing happens, and nothing is lost.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator

__all__ = ["give_back"]

_DONTNEED = 4  # MADV_DONTNEED
_COMPILER = "libllvmlite"
SMAPS = "/proc/self/smaps"
_HEADER = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)")


#: What is smaller is not worth the milliseconds.
LARGE = 1 << 16


def give_back(size: int) -> None:
    """Trim the heap and drop the resident pages of the compiler's library, before work on so many numbers."""
    if size < LARGE or not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not (hasattr(libc, "malloc_trim") and hasattr(libc, "madvise")):  # not glibc
        return
    libc.malloc_trim(ctypes.c_size_t(0))
    for start, length in _unchanged(_COMPILER):
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _DONTNEED)


def _unchanged(library: str) -> Iterator[tuple[int, int]]:
    """(address, length) of every mapping of a library in which no page was written to: only such may be dropped."""
    try:
        with open(SMAPS) as file:
            lines = file.read().splitlines()
    except OSError:  # a system that keeps it to itself
        return
    place: tuple[int, int] | None = None
    for line in lines:
        if header := _HEADER.match(line):
            start, end = int(header[1], 16), int(header[2], 16)
            place = (start, end - start) if library in header[3] else None
        elif place is not None and line.startswith("Anonymous:"):
            if line.split()[1] == "0":
                yield place
            place = None

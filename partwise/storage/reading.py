"""Reading a file without trusting it: ``load`` and ``describe``."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

import numpy as np

from partwise.exceptions import FormatError, PartwiseError, StorageError
from partwise.storage.layout import (
    DIGEST_BYTES,
    DTYPES,
    FORMAT_VERSION,
    MAGIC,
    MAX_DEPTH,
    MAX_HEADER,
    MAX_NDIM,
    PRELUDE,
    Array,
    ArrayInfo,
    Description,
    Path,
    Stored,
    align,
    damaged,
    digest_of,
    failed,
    file_name,
    short,
)

__all__ = ["describe", "load"]


def describe(path: Path) -> Description:
    """Header, and names, dtypes and shapes of the arrays, without reading the arrays.

    Examples
    --------
    >>> import os, tempfile
    >>> from partwise.storage import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.pw")
    ...     save(path, "model", {}, {"weights": np.zeros((2, 3))})
    ...     description = describe(path)
    >>> description.kind, description.arrays["weights"].shape
    ('model', (2, 3))
    """
    name = file_name(path)
    with _reading(name) as file:
        return _describe(file, name)


def load(path: Path, kind: str | None = None, *, mmap: bool | str = False, verify: bool | None = None) -> Stored:
    """Read a file that ``save`` wrote; nothing in it is executed.

    Parameters
    ----------
    path
        File to read.
    kind
        Expected kind; None accepts all.
    mmap
        Return read-only arrays that the system pages in from disk as they are used, and shares
        between processes. The file must not be changed in place while they are in use (``save``
        does not: it replaces). "private" gives arrays that may be written to, without any effect on the
        file: compiled code takes them for ordinary ones, read-only arrays for a type of their own.
    verify
        Whether to verify the checksums of the arrays; that of the header always is. None: verify
        unless ``mmap``, since verifying reads everything.

    Raises
    ------
    FormatError
        The file is not a partwise file.
    StorageError
        Missing, truncated, damaged, of another kind, or of a newer format; the message says which.
    """
    name = file_name(path)
    verify = not mmap if verify is None else verify
    arrays: dict[str, Array] = {}
    with _reading(name) as file:
        found = _describe(file, name)
        if kind is not None and found.kind != kind:
            raise StorageError(f"{name}: expected kind {kind!r}, got kind {short(found.kind)}")
        fetch = _fetcher(file, name, found.size, mmap)
        end = min((info.offset for info in found.arrays.values()), default=0)
        for key, info in found.arrays.items():
            block = fetch(info.offset, info.nbytes)
            if verify and digest_of(block.data).hex() != info.blake2b:
                raise damaged(name, f"the checksum of array {short(key)} does not match")
            if verify and fetch(end, info.offset - end).any():
                raise damaged(name, f"nonzero bytes before array {short(key)}")
            if verify and info.dtype == "bool" and (block > 1).any():
                raise damaged(name, f"values other than 0 and 1 in array {short(key)} of bool")
            array = block.view(DTYPES[info.dtype]).reshape(info.shape)
            arrays[key] = array.astype(array.dtype.newbyteorder("="), copy=False)  # copied if big-endian
            end = info.offset + info.nbytes
    return Stored(found.kind, found.header, arrays, found.version)


def _fetcher(file: BinaryIO, name: str, size: int, mmap: bool | str) -> Callable[[int, int], Array]:
    """A function of position and length that returns these bytes, mapped or read."""
    # A view as a plain array: compiled code treats ``np.memmap`` as something special.
    mode: Any = "c" if mmap == "private" else "r"
    mapped = np.memmap(file, np.uint8, mode).view(np.ndarray) if mmap else None

    def fetch(begin: int, nbytes: int) -> Array:
        if mapped is not None:
            block = mapped[begin : begin + nbytes]
            count = block.size
        else:
            # Read, not copied from a map: there, an error of the disk would end the process.
            block = np.empty(nbytes, np.uint8)
            file.seek(begin)
            count = cast(io.BufferedIOBase, file).readinto(block.data)
        if count < nbytes:  # another process cut the file after its size was taken
            raise _truncated(name, size, begin + count)
        return block

    return fetch


@contextlib.contextmanager
def _reading(name: str) -> Iterator[BinaryIO]:
    try:
        mode = os.stat(name).st_mode  # before opening, since opening a pipe would wait for its writer
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "a special file"
            raise StorageError(f"{name}: cannot be read: is {what}, not a file")
        with open(name, "rb") as file:
            yield file
    except PartwiseError:
        raise
    except OSError as error:
        raise failed(name, "cannot be read", error) from error
    except MemoryError:
        message = f"{name}: does not fit into memory; mmap=True reads it from disk as needed"
        raise StorageError(message) from None


def _truncated(name: str, needed: int, size: int) -> StorageError:
    return StorageError(f"{name}: truncated: {needed} bytes are needed, the file has {size}")


def _describe(file: BinaryIO, name: str) -> Description:
    """Read and check everything up to the data, and the data's place and size."""
    size = os.fstat(file.fileno()).st_size
    prelude = file.read(PRELUDE.size)
    if not prelude or not (prelude.startswith(MAGIC) or MAGIC.startswith(prelude)):
        if prelude.startswith(MAGIC[:9]):
            raise damaged(name, "line ends were changed, as by a transfer in text mode")
        begins = f"begins with {prelude[: len(MAGIC)]!r}" if prelude else "is empty"
        raise FormatError(f"not a partwise file: {begins}", name)
    if len(prelude) < PRELUDE.size:
        raise _truncated(name, PRELUDE.size, size)
    _, format_version, length = PRELUDE.unpack(prelude)
    if length > MAX_HEADER:
        raise damaged(name, f"declares a header of {length} bytes, at most {MAX_HEADER} are allowed")
    needed = PRELUDE.size + length + DIGEST_BYTES
    text, digest = file.read(length), file.read(DIGEST_BYTES)
    if len(text) + len(digest) < length + DIGEST_BYTES:
        raise _truncated(name, needed, size)
    reads = f"format {format_version}; this version reads up to {FORMAT_VERSION}"
    if digest != digest_of(prelude + text):
        newer = f" (or from a newer partwise: claims {reads})" if format_version > FORMAT_VERSION else ""
        raise damaged(name, f"the checksum of the header does not match{newer}")
    root = _parse(text, name)
    kind, version, header, entries = map(root.get, ("kind", "partwise", "header", "arrays"))
    if not isinstance(version, str):
        raise damaged(name, f"header without the version of partwise; {reads}")
    if format_version > FORMAT_VERSION:
        raise StorageError(f"{name}: written by partwise {version[:20]}, {reads}")
    if format_version < 1:
        raise damaged(name, f"format {format_version} does not exist")
    if not (isinstance(kind, str) and isinstance(header, dict) and isinstance(entries, list)):
        raise damaged(name, "header: 'kind', 'header' or 'arrays' is missing or of a wrong type")
    end = start = align(needed)
    if file.read(start - needed).strip(b"\0"):
        raise damaged(name, "nonzero bytes after the header")
    infos: dict[str, ArrayInfo] = {}
    for entry in entries:
        key, info = _check_entry(entry, start, end, name)
        if key in infos:
            raise damaged(name, f"header: there are two arrays {short(key)}")
        infos[key], end = info, info.offset + info.nbytes
    if size < end:
        raise _truncated(name, end, size)
    if size > end:
        raise damaged(name, f"{size - end} extra bytes after the last array")
    return Description(kind, header, infos, version, format_version, size)


def _parse(text: bytes, name: str) -> dict[str, Any]:
    try:
        root = json.loads(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise damaged(name, f"header: not readable as JSON: {error}") from None
    if not isinstance(root, dict):
        raise damaged(name, f"header: expected a JSON object, got {type(root).__name__}")
    level: list[Any] = [root]
    for _ in range(MAX_DEPTH + 2):  # the user's header is one below the root
        inner = [item for value in level for item in (value.values() if isinstance(value, dict) else value)]
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        raise damaged(name, f"header: nested more than {MAX_DEPTH} deep")
    return root


def _check_entry(entry: Any, start: int, end: int, name: str) -> tuple[str, ArrayInfo]:
    """The entry of an array that must follow the byte ``end``."""

    def wrong(what: str, value: object) -> StorageError:
        return damaged(name, f"header: array {short(key)}: {what} {short(value)}")

    fields = ("name", "dtype", "shape", "offset", "nbytes", "blake2b")
    key, dtype, shape, offset, nbytes, checksum = map((entry if isinstance(entry, dict) else {}).get, fields)
    if not isinstance(key, str) or not isinstance(checksum, str):
        raise wrong("no name or no checksum in", entry)
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise wrong("unknown dtype", dtype)
    # ``type`` and not ``isinstance``: JSON's true is an int to Python.
    dims = shape if isinstance(shape, list) and len(shape) <= MAX_NDIM else [-1]
    if any(type(n) is not int or n < 0 for n in dims):
        raise wrong("impossible shape", shape)
    itemsize = DTYPES[dtype].itemsize
    # numpy forbids shapes that would be too large were it not for a zero in them.
    if math.prod(n for n in dims if n) * itemsize >= 1 << 63:
        raise wrong("impossible shape", shape)
    if type(nbytes) is not int or nbytes != math.prod(dims) * itemsize:
        raise wrong(f"shape {short(shape)} of {dtype} does not fit the number of bytes", nbytes)
    if type(offset) is not int or offset < 0:
        raise wrong("impossible offset", offset)
    if start + offset < end:
        raise wrong("overlaps the previous array, at offset", offset)
    if start + offset != align(end):
        raise wrong(f"expected at offset {align(end) - start}, got", offset)
    return key, ArrayInfo(dtype, tuple(dims), start + offset, nbytes, checksum)

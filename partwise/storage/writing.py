"""Writing a file: ``save`` and ``check_writable``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from partwise._atomic import replacing
from partwise._version import __version__
from partwise.exceptions import ParameterError, StorageError
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
    Path,
    align,
    digest_of,
    failed,
    file_name,
)

__all__ = ["check_writable", "save"]

_CHUNK = 1 << 20


def check_writable(path: Path) -> None:
    """Raise at once what ``save`` would raise at the end of a long training run; leaves no file behind.

    Examples
    --------
    >>> check_writable("no/such/folder/model.pw")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    partwise.exceptions.StorageError: no/such/folder/model.pw: cannot be written: no folder ...
    """
    with _replacing(file_name(path), commit=False) as file:
        file.write(MAGIC)  # permissions, quotas and read-only disks: only a real write tells


def _target(name: str) -> str:
    """The file to replace, with links followed; raises when that cannot work."""
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    if os.path.isdir(target) or name.endswith(("/", os.sep)):
        reason = "is a folder, not a file"
    elif not os.path.isdir(folder):
        reason = f"no folder {folder}"
    elif os.path.exists(target) and not os.path.isfile(target):
        reason = "not a regular file"
    elif os.path.exists(target) and not os.access(target, os.W_OK):
        reason = "the existing file is write-protected"
    else:
        return target
    raise StorageError(f"{name}: cannot be written: {reason}")


@contextlib.contextmanager
def _replacing(name: str, *, commit: bool = True) -> Iterator[BinaryIO]:
    """``replacing``, with the operating system's errors as ours."""
    target = _target(name)
    try:
        with replacing(target, commit=commit) as file:
            yield file
    except OSError as error:
        raise failed(name, "cannot be written", error) from error


def save(path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write one file, whole or not at all.

    The file is written under a temporary name in the same folder, flushed to disk and then renamed:
    after any failure an existing file at ``path`` is as it was. So it is after a kill, which may
    leave a hidden ``.partwise-*.tmp`` next to it.

    Parameters
    ----------
    path
        File to write; an existing one is replaced (links are followed, its permissions are kept).
    kind
        What the file holds, such as ``"model"``; ``load`` can insist on it.
    header
        JSON-able settings; tuples come back as lists. At most 16 MiB as text.
    arrays
        Arrays of plain dtypes (bool, integers, floats up to 64 bit); come back in C order.

    Raises
    ------
    ParameterError
        For contents that cannot be stored; nothing is written.
    StorageError
        When writing fails, such as on a full disk; no temporary file is left.

    Examples
    --------
    >>> import os, tempfile
    >>> from partwise.storage import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.pw")
    ...     save(path, "model", {"C": 0.5}, {"weights": np.arange(3.0)})
    ...     stored = load(path, "model")
    >>> stored.header, stored.arrays["weights"]
    ({'C': 0.5}, array([0., 1., 2.]))
    """
    name = file_name(path)
    if not isinstance(kind, str) or not kind:
        raise ParameterError("kind", "save", "a non-empty string", kind)
    header = dict(header)
    _check_json(header, "header")
    entries: list[dict[str, Any]] = []
    end = 0
    for key, array in arrays.items():
        _check_array(key, array)
        begin, end = align(end), align(end) + array.nbytes
        entry = {"name": key, "dtype": array.dtype.name, "shape": list(array.shape)}
        entries.append(entry | {"offset": begin, "nbytes": array.nbytes, "blake2b": "0" * (2 * DIGEST_BYTES)})
    root = {"kind": kind, "partwise": __version__, "header": header, "arrays": entries}
    length = len(_dumps(root))
    start = align(PRELUDE.size + length + DIGEST_BYTES)
    with _replacing(name) as file:
        file.truncate(start + end)
        for entry, array in zip(entries, arrays.values(), strict=True):
            file.seek(start + entry["offset"])
            entry["blake2b"] = _write_array(file, array)
        # The header comes last, at the length known beforehand: checksums are all of one length.
        head = PRELUDE.pack(MAGIC, FORMAT_VERSION, length) + _dumps(root)
        file.seek(0)
        file.write(head + digest_of(head))


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Raise for what JSON cannot hold, or would read back as something else."""
    if depth > MAX_DEPTH:
        raise ParameterError("header", "save", f"nested at most {MAX_DEPTH} deep", where[:40] + "...")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParameterError(where, "save", "a dict with strings as keys", key)
            _check_json(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_json(item, f"{where}[{i}]", depth + 1)
    elif value is not None and not isinstance(value, str | int | float):
        raise ParameterError(where, "save", "None, bool, int, float, str, list or dict", value)


def _check_array(name: Any, array: Any) -> None:
    where = f"arrays[{name!r}]"
    if not isinstance(name, str):
        raise ParameterError("arrays", "save", "a dict with strings as keys", name)
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ParameterError(where, "save", "a numpy array (without mask)", type(array))
    if array.dtype.name not in DTYPES:
        raise ParameterError(where, "save", "of one of the dtypes " + ", ".join(DTYPES), str(array.dtype))
    if array.ndim > MAX_NDIM:
        raise ParameterError(where, "save", f"of at most {MAX_NDIM} dimensions", array.ndim)


def _dumps(root: dict[str, Any]) -> bytes:
    # Not ASCII: escapes would join two lone surrogates into one character on the way back.
    try:
        text = json.dumps(root, ensure_ascii=False, separators=(",", ":"))
    except ValueError as error:  # an integer of more digits than Python converts
        raise ParameterError("header", "save", "JSON-able", str(error)) from None
    if len(data := text.encode("utf-8", "surrogatepass")) > MAX_HEADER:
        expected = f"at most {MAX_HEADER} bytes as JSON (large data belong in arrays)"
        raise ParameterError("header", "save", expected, len(data))
    return data


def _write_array(file: BinaryIO, array: Array) -> str:
    flat = np.ascontiguousarray(array, dtype=DTYPES[array.dtype.name]).reshape(-1)
    block = flat.view(np.uint8).data
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for begin in range(0, len(block), _CHUNK):  # by chunks, so that the second use is from the cache
        digest.update(block[begin : begin + _CHUNK])
        file.write(block[begin : begin + _CHUNK])
    return digest.hexdigest()

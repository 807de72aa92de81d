"""Sources and targets of text: paths, plain or compressed, addresses, open files, standard input and output."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, cast

from partwise._atomic import replacing
from partwise.exceptions import FormatError

__all__ = ["COMPRESSED", "Source", "is_address", "name_of", "open_bytes", "open_target", "read_lines"]

Source = str | os.PathLike[str] | IO[str] | IO[bytes]

# Large enough that the work per block outweighs its overhead, small enough to be no memory to speak of.
BLOCK_BYTES = 1 << 18

#: Endings of the names of compressed files.
COMPRESSED = (".gz", ".bz2", ".xz")


def is_address(path: str) -> bool:
    """Whether a path is an address such as ``s3://bucket/train.txt`` rather than a file of this machine."""
    return "://" in path


def open_bytes(path: str) -> IO[bytes]:
    """The bytes of a file, or of whatever fsspec finds at an address."""
    if not is_address(path):
        return open(path, "rb")
    try:
        import fsspec
    except ImportError:
        raise FormatError("addresses are read by fsspec: pip install 'partwise[dask]'", path=path) from None
    try:
        return cast(IO[bytes], fsspec.open(path, "rb").open())
    except (ImportError, ValueError) as error:  # a protocol that nobody knows, or whose package is not there
        raise FormatError(f"cannot be opened: {error}", path=path) from None


def name_of(source: Source) -> str:
    """What to call a source in an error message."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "<text>"))


def read_lines(source: Source, encoding: str, bulk: bool, advice: str = "") -> Iterator[bytes]:
    """Whole lines as UTF-8, LF-ended: in large blocks, or (not ``bulk``) as soon as they arrive.

    ``advice``: what the error says to somebody whose file has another encoding.
    """
    path, line = name_of(source), 1
    if not isinstance(source, str | os.PathLike) and isinstance(source.read(0), str):
        # Already decoded; bytes that the decoder let through as surrogates are found again below.
        encoding = "utf-8"
        texts = _text_blocks(cast(IO[str], source), bulk)
        blocks: Iterator[bytes] = (text.encode(errors="surrogateescape") for text in texts)
    else:
        blocks = _byte_blocks(cast("str | os.PathLike[str] | IO[bytes]", source), path)
    for block in blocks:
        try:
            text = block.decode(encoding)
        except UnicodeDecodeError as error:
            line += block.count(b"\n", 0, error.start)
            byte = error.start - block.rfind(b"\n", 0, error.start)
            message = f"not {encoding}: byte {block[error.start]:#04x} ({error.reason}){advice}"
            raise FormatError(message, path=path, line=line, byte=byte) from None
        lines = block.count(b"\n")
        if codecs.lookup(encoding).name != "utf-8":
            block = text.encode()
        if line == 1:
            block = block.removeprefix(codecs.BOM_UTF8)
        line += lines
        yield block.replace(b"\r\n", b"\n") if b"\r" in block else block


def _text_blocks(file: IO[str], bulk: bool) -> Iterator[str]:
    """Blocks of lines; from what is not stored (a pipe, a terminal) the lines up to the next empty one.

    A sentence must not wait for later ones that may take long to arrive, unless all are wanted at once
    (``bulk``).
    """
    if bulk or (hasattr(file, "seekable") and file.seekable()):
        while text := "".join(file.readlines(BLOCK_BYTES)):
            yield text
        return
    lines: list[str] = []
    for line in file:
        lines.append(line)
        if line.isspace():
            yield "".join(lines)
            lines.clear()
    if lines:
        yield "".join(lines)


def _byte_blocks(source: str | os.PathLike[str] | IO[bytes], path: str) -> Iterator[bytes]:
    if not isinstance(source, str | os.PathLike):
        yield from _whole_lines(source)
    elif source == "-":
        yield from _whole_lines(sys.stdin.buffer)
    else:
        with open_bytes(path) as raw:
            try:
                yield from _whole_lines(_unpacked(raw, path, "rb"))
            except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
                raise FormatError(f"incomplete compressed file: {error}", path=path) from error
            except OSError as error:
                if error.errno is not None:
                    raise
                raise FormatError(f"incomplete compressed file: {error}", path=path) from error  # bz2's own


def _whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    # read1 returns what a pipe holds instead of waiting for a full block.
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rest = b""
    while chunk := read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest


def _unpacked(raw: IO[bytes], path: str, mode: str) -> IO[bytes]:
    """The stream that (de)compresses what its name says is compressed."""
    if path.endswith(".gz"):
        # No name and no time inside, so that equal content makes equal files.
        return cast(IO[bytes], gzip.GzipFile(filename="", mode=mode, fileobj=raw, mtime=0))
    if path.endswith(".bz2"):
        return cast(IO[bytes], bz2.BZ2File(raw, mode))  # type: ignore[call-overload]
    return cast(IO[bytes], lzma.LZMAFile(raw, mode)) if path.endswith(".xz") else raw


@contextmanager
def open_target(target: Source, encoding: str) -> Iterator[Callable[[str], object]]:
    """A function that writes text to the target; a file appears at a path only once all of it is written."""
    if not isinstance(target, str | os.PathLike):
        # Text files have an encoding, also those that are wrapped in a class of their own.
        if hasattr(target, "encoding"):
            yield cast(IO[str], target).write
        else:
            binary = cast(IO[bytes], target)
            yield lambda text: binary.write(text.encode(encoding))
    elif target == "-":
        yield lambda text: sys.stdout.buffer.write(text.encode(encoding))
        sys.stdout.buffer.flush()
    else:
        # A device or a pipe is written to, never replaced by a file.
        special = os.path.exists(target) and not os.path.isfile(target)
        path = os.path.realpath(target)
        with open(target, "wb") if special else replacing(path) as raw:
            packed = _unpacked(raw, path, "wb")
            try:
                yield lambda text: packed.write(text.encode(encoding))
            finally:
                if packed is not raw:
                    packed.close()

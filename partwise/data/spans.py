"""Byte ranges of text files that cut no sentence and no document, so that several processes can read one file.

A file is cut at about equal distances, and each border is moved to the next place where a sentence ends (an empty
line) or, where documents must stay whole, to the next line that starts one. Compressed files and pipes have no such
places: they are read in one go.
"""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import IO, Any, NamedTuple, cast

import numpy as np

from partwise.data.column_files import iter_blocks
from partwise.data.columns import Columns
from partwise.data.streams import COMPRESSED, is_address, open_bytes
from partwise.exceptions import FormatError, ParameterError

__all__ = ["Reading", "Span", "expand_paths", "plan_spans", "read_shards", "span_blocks"]

_CHUNK = 1 << 16
_OVERLAP = 1 << 12  # what a search keeps of the chunk before: no border is longer


class Span(NamedTuple):
    """The bytes start:stop of a file; all of it where ``stop`` is None."""

    path: str
    start: int = 0
    stop: int | None = None


class Reading(NamedTuple):
    """How a column file is read; see :func:`partwise.data.read_columns`. ``whole``: what must not be cut."""

    columns: tuple[str, ...] | None = None
    separator: str | None = None
    comment: str | None = None
    docstart: str | None = "-DOCSTART-"
    encoding: str = "utf-8"
    whole: str = "sentence"

    def blocks(self, source: Any) -> Iterator[Columns]:
        """The file in pieces that cut nothing."""
        return iter_blocks(source, **self._asdict())


def expand_paths(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Files, patterns (``data/*.txt.gz``) and addresses as a list of files, each pattern sorted by name."""
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    found: list[str] = []
    for item in (os.fspath(source) for source in given):
        if not glob.has_magic(item) or os.path.exists(item):
            found.append(item)
            continue
        if is_address(item):
            import fsspec

            system, pattern = fsspec.core.url_to_fs(item)
            matches = [system.unstrip_protocol(name) for name in sorted(system.glob(pattern))]
        else:
            matches = sorted(glob.glob(item, recursive=True))
        if not matches:
            raise FormatError("no file matches this pattern", path=item)
        found += matches
    if not found:
        raise ParameterError("source", "pack", "at least one file", given)
    return found


def plan_spans(paths: Sequence[str], reading: Reading, span_bytes: int) -> list[list[Span]]:
    """What each task reads: a byte range of a large file, a whole compressed one, or several small files."""
    tasks: list[list[Span]] = []
    small: list[Span] = []
    held = 0
    for path in paths:
        whole = path == "-" or path.endswith(COMPRESSED)
        size = span_bytes if whole else _size(path)
        if not whole and size <= span_bytes:
            if held + size > span_bytes and small:
                tasks.append(small)
                small, held = [], 0
            small.append(Span(path))
            held += size
            continue
        if small:
            tasks.append(small)
            small, held = [], 0
        tasks += [[Span(path)]] if whole else [[span] for span in _cut(path, size, reading, span_bytes)]
    return [*tasks, small] if small else tasks


def _size(path: str) -> int:
    if not is_address(path):
        return os.path.getsize(path)
    with open_bytes(path) as file:
        return file.seek(0, os.SEEK_END)


def _cut(path: str, size: int, reading: Reading, span_bytes: int) -> list[Span]:
    border = re.compile(rb"\n[ \t\r\v\f]*\n")
    n = max(1, round(size / span_bytes))
    announced = None if reading.docstart is None else reading.docstart.encode()
    with open_bytes(path) as file:
        if reading.whole == "document" and reading.docstart is not None:
            after = rb"\s" if reading.separator is None else re.escape(reading.separator.encode()) + rb"|\s"
            opens = re.compile(rb"\n(?=" + re.escape(reading.docstart.encode()) + rb"(?:" + after + rb"))")
            if _search(file, 0, opens) is not None:  # else every sentence is a document of its own
                border, announced = opens, None
        places = {0, size}
        for k in range(1, n):
            found = _search(file, size * k // n, border, announced)
            if found is not None:
                places.add(found)
    return [Span(path, a, b) for a, b in pairwise(sorted(places))]


def _search(file: IO[bytes], start: int, border: re.Pattern[bytes], docstart: bytes | None = None) -> int | None:
    """Where the first border at or after ``start`` ends; one that follows a line of ``docstart`` does not count."""
    file.seek(start)
    text, base = b"", start
    while chunk := file.read(_CHUNK):
        text += chunk
        for match in border.finditer(text):
            line = text[text.rfind(b"\n", 0, match.start()) + 1 : match.start()] if docstart is not None else b"-"
            whole = docstart is None or b"\n" in text[: match.start()]
            # the line that announces a document stays with what it announces
            if whole and line.strip() and not (docstart is not None and line.startswith(docstart)):
                return base + match.end()
        kept = text[-_OVERLAP:]
        base += len(text) - len(kept)
        text = kept
    return None


class _Range(io.RawIOBase):
    """The bytes of a span as a file."""

    def __init__(self, span: Span) -> None:
        super().__init__()
        self.name = span.path
        self._file = open_bytes(span.path)
        self._file.seek(span.start)
        self._left = cast(int, span.stop) - span.start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def read_shards(task: Sequence[Span], reading: Reading, shard_tokens: int | None) -> Iterator[Columns]:
    """The text of a task in shards of about ``shard_tokens`` tokens; all in one where that is None.

    Documents are numbered through all files of a task.
    """
    held: list[Columns] = []
    tokens = documents = 0
    for span in task:
        base, last = documents, -1
        for block in span_blocks(span, reading):
            announced = block.docstart is not None or bool(block.documents.any())
            last = int(block.documents[-1])
            held.append(_renumbered(block, base))
            documents = base + last + int(announced)
            tokens += block.tokens
            if shard_tokens is not None and tokens >= shard_tokens:
                yield Columns.joined(held)
                held, tokens = [], 0
    if held:
        yield Columns.joined(held)


def _renumbered(block: Columns, base: int) -> Columns:
    if base == 0:
        return block
    return Columns(
        block.names, block.codes, block.vocab, block.offsets, block.documents + np.int64(base), block.lines, block.path,
        block.docstart,
    )  # fmt: skip


def span_blocks(span: Span, reading: Reading) -> Iterator[Columns]:
    """The text of a span in pieces that cut nothing; errors name the line of the file."""
    if span.stop is None:
        yield from reading.blocks(span.path)
        return
    try:
        with io.BufferedReader(_Range(span)) as file:
            yield from reading.blocks(file)
    except FormatError as error:
        raise _placed(error, span) from None


def _placed(error: FormatError, span: Span) -> FormatError:
    """The error with the line of the file in place of the line of the span."""
    if error.line is None or span.start == 0:
        return error
    before, left = 0, span.start
    with open_bytes(span.path) as file:
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            before += chunk.count(b"\n")
            left -= len(chunk)
    place = ":".join(str(part) for part in (error.path, error.line, error.byte) if part is not None)
    return FormatError(str(error).removeprefix(f"{place}: "), error.path, error.line + before, error.byte)

"""Sentences in batches: large enough to be quick, in constant memory, and never late for a waiting pipe."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from partwise.cli.files import FileLayout, without

if TYPE_CHECKING:
    from partwise.data import Columns, Sentence

__all__ = ["batch_columns", "each_batch"]

BATCH_TOKENS = 50_000


def batch_columns(sentences: Sequence[Sentence], layout: FileLayout, path: str) -> Columns:
    """The sentences of a batch as the columns that a model may see."""
    import numpy as np

    from partwise.data import Columns

    names = layout.names(len(sentences[0][0]), path, sentences[0].line)
    data = Columns.from_sentences(sentences, names=names)
    documents = np.array([sentence.document for sentence in sentences], np.int64)
    lines = np.array([sentence.line for sentence in sentences], np.int64)
    return without(replace(data, documents=documents, lines=lines, path=path), layout.label)


def each_batch(
    source: str,
    layout: FileLayout,
    handle: Callable[[list[Sentence], Columns], object],
    context: str = "sentence",
) -> None:
    """Call ``handle`` with the sentences of a file, batch by batch, and their columns.

    A batch holds whole documents, or everything, where the context says so. What standard input has, is done
    before more is waited for, so that a program at the other ends of the pipes gets its answers.
    """
    from partwise.data import iter_columns
    from partwise.data.streams import name_of

    pending: list[Sentence] = []
    tokens = 0

    def flush() -> None:
        nonlocal tokens
        if pending:
            handle(list(pending), batch_columns(pending, layout, name_of(source)))
            pending.clear()
            tokens = 0

    origin: Any = source
    if source == "-":
        origin = _Attentive(sys.stdin.buffer, flush if context == "sentence" else lambda: None)
    for sentence in iter_columns(origin, separator=layout.separator, comment=layout.comment):
        if context == "document" and pending and sentence.document != pending[-1].document:
            flush()
        pending.append(sentence)
        tokens += len(sentence)
        if context == "sentence" and tokens >= BATCH_TOKENS:
            flush()
    flush()


class _Attentive:
    """A stream of bytes that does something else first whenever it would have to wait."""

    name = "<stdin>"

    def __init__(self, stream: IO[bytes], before_waiting: Callable[[], None]) -> None:
        self.stream, self.before_waiting = stream, before_waiting

    def read(self, size: int = -1) -> bytes:
        return self.stream.read(size) if size else b""

    def read1(self, size: int = -1) -> bytes:
        if not self._ready():
            self.before_waiting()
        read: Callable[[int], bytes] = getattr(self.stream, "read1", self.stream.read)
        return read(size)

    def _ready(self) -> bool:
        try:
            return bool(select.select([self.stream], [], [], 0)[0])
        except (OSError, ValueError):  # not a file of the system, or a system that cannot tell
            return False

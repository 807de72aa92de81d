"""Streams of commands: output files that appear only when complete, and a pipe that is served as soon as possible."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

__all__ = ["Attentive", "opened"]


class Attentive:
    """A stream of bytes that calls a function before every read that would have to wait."""

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


@contextmanager
def opened(target: str) -> Iterator[Callable[[str], object]]:
    """A function that writes text: at once to standard output; a file appears when all of it is written."""
    from partwise.data.streams import open_target

    if target != "-":
        with open_target(target, "utf-8") as write:
            yield write
        return

    def show(text: str) -> None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()

    sys.stdout.flush()
    yield show

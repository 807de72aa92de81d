"""A pipe that is never kept waiting for what could be done already."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import IO

__all__ = ["Attentive"]


class Attentive:
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

"""Progress of long work: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from partwise.learners.base import Record

__all__ = ["Progress", "has_rich"]


def has_rich() -> bool:
    """Whether rich is installed, for bars and framed tables on a terminal; without it the output is plain text."""
    return importlib.util.find_spec("rich") is not None


class Progress:
    """A callback for learners: shows passes, objective, gap and held-out score.

    On a terminal, one live line with a bar (if rich is installed: extra ``terminal``); elsewhere one line per pass, at
    most one every ``interval`` seconds.

    Examples
    --------
    >>> import io
    >>> log = io.StringIO()
    >>> with Progress(2, "training", stream=log) as progress:
    ...     _ = progress(Record(1, 0.5, objective=1.25), np.zeros(1))
    >>> log.getvalue()
    'training: pass 1/2, 0.5 s, objective 1.25\\n'
    """

    def __init__(self, total: int, title: str = "training", stream: TextIO | None = None, interval: float = 2.0):
        self.total, self.title, self.interval = total, title, interval
        self.stream = stream if stream is not None else sys.stderr
        self._bar: Any = None
        self._task: Any = None
        self._last = -np.inf

    def __enter__(self) -> Progress:
        if self.stream.isatty() and has_rich():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
            )
            self._bar = RichProgress(*columns, console=Console(file=self.stream), transient=False)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, text="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: Record, theta: NDArray[np.float64]) -> None:
        text = describe(record)
        if self._bar is not None:
            self._bar.update(self._task, completed=record.step, text=f"{record.step}/{self.total} {text}")
            return
        now = time.monotonic()
        if now - self._last >= self.interval or record.step == self.total:
            self._last = now
            self.stream.write(
                f"{self.title}: pass {record.step}/{self.total}, {record.seconds:.1f} s{', ' + text if text else ''}\n"
            )
            self.stream.flush()


def describe(record: Record) -> str:
    """The numbers of a record that are there, in words."""
    shown = []
    if record.objective is not None:
        shown.append(f"objective {record.objective:.6g}")
    elif "online_loss" in record.extra:
        shown.append(f"loss {record.extra['online_loss']:.6g}")
    if record.gap is not None:
        shown.append(f"gap {record.gap:.2g}")
    if record.score is not None:
        shown.append(f"dev {100 * record.score:.2f}")
    return ", ".join(shown)

"""The stops of ``partwise demo``: one per task, each found as ``STOP`` in ``partwise/<task>/commands/_tour.py``."""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from partwise.cli.registry import UsageError

__all__ = ["Outcome", "Stop", "all_stops", "choose_stops", "source_of"]


class Outcome(NamedTuple):
    """What a stop shows: its scores by name, the lines to print, and the pictures (HTML) for the report."""

    scores: dict[str, float]
    lines: list[str]
    pictures: list[Any]


@dataclass(frozen=True)
class Stop:
    """One task of the tour.

    Parameters
    ----------
    name : str
        What ``--only`` calls it.
    title, lead : str
        Heading of its section in the report, and a sentence (in lower case) that says what is learned.
    train : callable
        Trains on the embedded sample and returns what ``show`` needs. The report prints its source.
    show : callable (what ``train`` returned, folder of the demo) → Outcome
        Scores the model on held-out data, draws, and may save the model.
    rank : int
        Place in the tour.
    """

    name: str
    title: str
    lead: str
    train: Callable[[], Any]
    show: Callable[[Any, str], Outcome]
    rank: int


@functools.cache
def all_stops() -> tuple[Stop, ...]:
    """Every stop, in the order of the tour."""
    root = Path(__file__).parents[1]
    tasks = [path.parts[-3] for path in sorted(root.glob("*/commands/_tour.py"))]
    stops = [importlib.import_module(f"partwise.{task}.commands._tour").STOP for task in tasks]
    return tuple(sorted(stops, key=lambda stop: stop.rank))


def choose_stops(only: str | None) -> list[Stop]:
    """The stops that ``--only`` names, separated by commas; all of them by default."""
    stops = {stop.name: stop for stop in all_stops()}
    if only is None:
        return list(stops.values())
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in stops:
            raise UsageError(f"--only must name some of {', '.join(stops)}; got {name!r}")
    return [stop for name, stop in stops.items() if name in names]


def source_of(stop: Stop) -> str:
    """The body of the stop's training function, without its docstring and ``return``."""
    lines = textwrap.dedent(inspect.getsource(stop.train)).splitlines()
    body = textwrap.dedent("\n".join(lines[1:])).splitlines()
    kept = [line for line in body if not line.startswith(('"""', "return "))]
    return "\n".join(kept).strip()

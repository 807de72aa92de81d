"""``--workers`` and ``--scheduler``: where the work of a command is done."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from partwise.cli.registry import UsageError

__all__ = ["add_engine", "engine_of"]


def add_engine(parser: argparse._ActionsContainer) -> None:
    """The two flags."""
    parser.add_argument("--workers", metavar="N", type=int, help="train with N processes on this machine")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="train on a dask cluster, such as tcp://host:8786")


@contextlib.contextmanager
def engine_of(workers: int | None, scheduler: str | None) -> Iterator[dict[str, Any]]:
    """The argument ``engine`` of ``fit`` that the flags ask for, if they do."""
    if workers is not None and scheduler is not None:
        raise UsageError("--workers starts processes here, --scheduler uses a cluster: give one of them")
    if scheduler is not None:
        yield {"engine": scheduler}
    elif workers is not None:
        from partwise.cluster.engine import local_client

        with local_client(workers) as client:
            yield {"engine": client}
    else:
        yield {}

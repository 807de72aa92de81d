"""What commands print: tables for people (by rich on a terminal that has it, plain otherwise) and JSON for programs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "STATUS",
    "as_json",
    "note",
    "percent",
    "plain",
    "print_json",
    "print_table",
    "size_of",
    "tell",
    "warn",
]

# How a training ended, in words.
STATUS = {
    "converged": "converged",
    "stalled": "stalled: no further step lowered the objective",
    "max_passes": "all passes done",
    "stopped": "stopped by a callback",
    "early_stopping": "early stopping: the held-out score stopped improving",
    "interrupted": "interrupted",
}


def tell(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)


def note(args: argparse.Namespace, text: str) -> None:
    """A line about what is going on; not with ``--quiet``."""
    if not args.quiet:
        tell(text)


def warn(text: str) -> None:
    """Something the user should know, although the command continues."""
    tell(f"partwise: warning: {text}")


def plain(value: Any) -> Any:
    """The value in JSON types: converts NumPy numbers and arrays, tuples, dataclasses and infinities.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.float64(0.5), "b": (np.arange(2), float("inf"), float("nan"))})
    {'a': 0.5, 'b': [[0, 1], 'inf', None]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def as_json(value: Any, indent: int | None = None) -> str:
    """The value in JSON."""
    return json.dumps(plain(value), ensure_ascii=False, indent=indent)


def print_json(value: Any) -> None:
    """Print a result in JSON."""
    print(as_json(value, indent=2))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table on standard output; columns of numbers are right-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    right = [bool(cells) and all(_is_number(row[c]) for row in cells) for c in range(len(headers))]
    if sys.stdout.isatty() and _has_rich():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", title_style="bold")
        for header, flushed in zip(headers, right, strict=True):
            table.add_column(header, justify="right" if flushed else "left")
        for row in cells:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    if title:
        print(title)
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    for row in [list(headers), *cells]:
        shown = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)]
        print("  ".join(shown).rstrip())


def _has_rich() -> bool:
    from partwise.progress import has_rich

    return has_rich()


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip("%").replace(",", ""))
    except ValueError:
        return text in ("", "-")
    return True


def percent(fraction: float) -> str:
    """A score with two decimals, of 100."""
    return f"{100 * fraction:.2f}"


def size_of(n: int) -> str:
    """A number of bytes, in words.

    Examples
    --------
    >>> size_of(999), size_of(1_234_567)
    ('999 bytes', '1.2 MB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB")
    size, k = float(n), 0
    while size >= 1000 and k < len(units) - 1:
        size, k = size / 1000, k + 1
    return f"{size:.1f} {units[k]}" if k else f"{n} bytes"

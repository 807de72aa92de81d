"""What experiments write: results as JSON values, and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from partwise.exceptions import InputError

__all__ = ["markdown_table", "plain", "table_of_cells"]


def plain(value: Any) -> Any:
    """The same in JSON: numpy's numbers and arrays as Python's, and what is not finite as a string."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(f"a result must be of JSON values, got {type(value).__name__}")


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; None becomes an empty cell.

    Examples
    --------
    >>> print(markdown_table(["loss", "F1"], [["crf", 85.2], ["svm", None]]))
    | loss | F1 |
    |---|---|
    | crf | 85.2 |
    | svm |  |
    """
    head = list(head)
    lines = [head, *([("" if value is None else str(value)) for value in row] for row in rows)]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(head), *shown[1:]])


def table_of_cells(cells: Iterable[Any]) -> str:
    """One row per cell: its settings, and the numbers and strings of its result, including those in nested dicts."""

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, Mapping):
                found.update(flat(value, f"{prefix}{key}."))
            elif isinstance(value, str | int | float):
                found[prefix + key] = f"{value:.4g}" if isinstance(value, float) else value
        return found

    rows = [{**flat(cell.settings), **flat(cell.result)} for cell in cells]
    head = list(dict.fromkeys(key for row in rows for key in row))
    return markdown_table(head, ([row.get(key) for key in head] for row in rows))

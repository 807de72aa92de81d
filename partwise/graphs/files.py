"""Graphs in files: one JSON object per line.

    {"nodes": [[0.2, 1.0], [0.7, 0.1]], "edges": [[0, 1]], "edge_features": [[0.5]], "labels": ["sky", null]}

``nodes`` are rows of features; ``edges`` pairs of node numbers from 0; ``edge_features`` (optional) one row per edge;
``labels`` (optional) one per node, null where unknown. With several types, ``nodes``, ``edges``, ``edge_features``
and ``labels`` are objects from the names of types to such lists, and nodes are numbered type by type in the order in
which they stand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from partwise.exceptions import FormatError, InputError
from partwise.graphs.attributed import AttributedGraph

__all__ = ["read_graphs"]

FIELDS = ("nodes", "edges", "edge_features", "labels")


def read_graphs(path: str | os.PathLike[str], *, labelled: bool = True) -> tuple[list[AttributedGraph], list[Any]]:
    """(graphs, labels) of a file of one JSON object per line; errors name the line.

    Labels are None if a line has none, which is an error if ``labelled``.
    """
    graphs, labels = [], []
    for number, text in _lines(path):
        try:
            item = json.loads(text)
        except ValueError as error:
            raise FormatError(f"not JSON: {error}", path=os.fspath(path), line=number) from None
        if not isinstance(item, dict) or "nodes" not in item:
            raise FormatError("expected an object with 'nodes'", path=os.fspath(path), line=number)
        unknown = sorted(set(item) - set(FIELDS))
        if unknown:
            raise FormatError(
                f"unknown field {unknown[0]!r}; known: {', '.join(FIELDS)}", path=os.fspath(path), line=number
            )
        if labelled and "labels" not in item:
            raise FormatError("the graph has no 'labels'", path=os.fspath(path), line=number)
        try:
            graphs.append(AttributedGraph(item["nodes"], item.get("edges", ()), item.get("edge_features")))
        except (InputError, TypeError, ValueError) as error:
            raise FormatError(str(error), path=os.fspath(path), line=number) from None
        labels.append(item.get("labels"))
    if not graphs:
        raise FormatError("holds no graph", path=os.fspath(path))
    return graphs, labels


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, text
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=os.fspath(path)) from error
    except UnicodeDecodeError:
        raise FormatError("is not UTF-8 text", path=os.fspath(path)) from None

"""Outputs that are sets of links (j, k) between source and target words: what all their structures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures.base import Floats

__all__ = ["checked_allowed", "checked_fertility", "checked_links", "checked_sizes", "fertility_parts", "misfit"]

Links = NDArray[np.int64]


def checked_sizes(sizes: Any, owner: str) -> NDArray[np.int64]:
    """(n, 2) numbers of source and target words."""
    table = np.asarray(sizes)
    if table.size == 0:
        return np.zeros((0, 2), np.int64)
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise ParameterError("sizes", owner, "a sequence of pairs of integers (source words, target words)", sizes)
    empty = np.flatnonzero((table < 1).any(axis=1))
    if len(empty):
        i = int(empty[0])
        raise InputError(f"instance {i} has {table[i, 0]} source and {table[i, 1]} target words; expected at least one")
    return table.astype(np.int64)


def checked_fertility(max_fertility: Any, owner: str) -> int:
    """The largest number of links of a word."""
    if not isinstance(max_fertility, int | np.integer) or max_fertility < 1:
        raise ParameterError("max_fertility", owner, "an integer of at least 1", max_fertility)
    return int(max_fertility)


def checked_allowed(allowed: Sequence[ArrayLike] | None, sizes: NDArray[np.int64], owner: str) -> NDArray[np.uint8]:
    """One flag per link of all instances, in the order of their parts; empty if every link is allowed."""
    if allowed is None:
        return np.zeros(0, np.uint8)
    if len(allowed) != len(sizes):
        raise ParameterError("allowed", owner, f"one mask per instance, {len(sizes)} in all", len(allowed))
    flags = [np.zeros(0, bool)]
    for i, (mask, (n_rows, n_cols)) in enumerate(zip(allowed, sizes, strict=True)):
        table = np.asarray(mask)
        if table.shape != (n_rows, n_cols):
            expected = f"an array of shape {(int(n_rows), int(n_cols))} for instance {i}"
            raise ParameterError("allowed", owner, expected, table.shape)
        flags.append(table.astype(bool).ravel())
    return np.concatenate(flags).astype(np.uint8)


def checked_links(i: int, y: Any, n_rows: int, n_cols: int) -> Links:
    """(n, 2) links, from an array, a list or a set of pairs; errors name the link."""
    pairs = list(y) if not isinstance(y, np.ndarray) else y
    if len(pairs) == 0:
        return np.zeros((0, 2), np.int64)
    links = np.asarray(pairs)
    if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
        raise InputError(f"the links of instance {i} must be pairs of integers (source word, target word); got {y!r}")
    outside = (links < 0).any(axis=1) | (links[:, 0] >= n_rows) | (links[:, 1] >= n_cols)
    if outside.any():
        j, k = links[np.argmax(outside)].tolist()
        raise InputError(
            f"link {j}-{k} of instance {i} is out of range: there are {n_rows} source and {n_cols} target words, "
            "counted from 0"
        )
    numbers, counts = np.unique(links[:, 0] * n_cols + links[:, 1], return_counts=True)
    if (counts > 1).any():
        e = int(numbers[np.argmax(counts > 1)])
        raise InputError(f"link {e // n_cols}-{e % n_cols} of instance {i} is given more than once")
    return np.stack([numbers // n_cols, numbers % n_cols], axis=1).astype(np.int64)


def fertility_parts(table: Floats, max_fertility: int) -> Floats:
    """[degree ≥ d] for d = 2..D of every source word, then of every target word, from the (J, K) links."""
    levels = np.arange(2, max_fertility + 1)
    return np.concatenate([(table.sum(axis=axis)[:, None] >= levels).ravel() for axis in (1, 0)]).astype(float)


def misfit(table: Floats, allowed: NDArray[np.uint8], max_fertility: int) -> str | None:
    """Why the (J, K) links are no output, in words that name a link; None if they are one."""
    if len(allowed):
        barred = np.argwhere((table != 0) & (allowed.reshape(table.shape) == 0))
        if len(barred):
            return f"link {barred[0][0]}-{barred[0][1]} is forbidden by the constraints"
    for side, axis in (("source", 1), ("target", 0)):
        degrees = table.sum(axis=axis)
        if (degrees > max_fertility).any():
            word = int(np.argmax(degrees > max_fertility))
            others = np.flatnonzero(table[word] if axis else table[:, word])
            names = [f"{word}-{other}" if axis else f"{other}-{word}" for other in others]
            return (
                f"{side} word {word} has {len(others)} links ({', '.join(names)}), and more than {max_fertility} "
                "of one word are forbidden by the constraints (max_fertility)"
            )
    return None

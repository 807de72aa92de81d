"""Labels: strings ↔ numbers, partly known labels, and constraints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import is_coded
from partwise.exceptions import InputError

__all__ = ["GoldLabels", "allowed_rows", "check_held_out", "check_size", "encode_labels", "find_classes"]

#: Arrays as large as the transition weights that a training keeps at least: weights, gradient, scratch memory.
COPIES = 6
#: Beyond so many transition weights a training says how large it is.
LARGE = 20_000_000


class GoldLabels:
    """Label numbers of all rows, flat; −1 where unknown, with the labels that an unknown one may be."""

    def __init__(self, codes: NDArray[np.int64], offsets: NDArray[np.int64], sets: dict[int, list[int]]) -> None:
        self.codes, self.offsets, self.sets = codes, offsets, sets

    @property
    def partial(self) -> bool:
        return bool((self.codes < 0).any())

    def sequences(self) -> list[NDArray[np.int64]]:
        return np.split(self.codes, self.offsets[1:-1])

    def allowed(self, n_labels: int) -> NDArray[np.uint8]:
        """(rows, n_labels): the labels that each row may have."""
        rows = np.zeros((len(self.codes), n_labels), np.uint8)
        known = self.codes >= 0
        rows[np.flatnonzero(known), self.codes[known]] = 1
        rows[~known] = 1
        for row, labels in self.sets.items():
            rows[row] = 0
            rows[row, labels] = 1
        return rows


def find_classes(y: Any) -> list[Any]:
    """The distinct labels, sorted; None (unknown) and sets (one of several) are looked into."""
    if is_coded(y):
        used = np.unique(y.codes)
        return sorted(y.vocab[code] for code in used)
    found: set[Any] = set()
    for sequence in y:
        for label in sequence:
            if label is None:
                continue
            if isinstance(label, (set, frozenset, list, tuple)):
                found.update(label)
            else:
                found.add(label)
    found = {
        label.item() if isinstance(label, np.generic) else label for label in found
    }  # Python's own, as they return
    if not found:
        raise InputError("y contains no label")
    kinds = {type(label) for label in found}
    if len(kinds) > 1 and not all(np.issubdtype(k, np.number) for k in kinds):
        raise InputError(f"labels must be of one type, got {', '.join(sorted(k.__name__ for k in kinds))}")
    return sorted(found)


def check_size(n_labels: int, order: int) -> None:
    """Raise an error that gives the size of the transitions of a chain if they do not fit into memory."""
    weights = [sum(n_labels ** (j + 1) for j in range(1, k + 1)) for k in (order - 1, order)]
    if weights[1] <= LARGE:
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 34
    least = 8 * COPIES * weights[1]
    told = (
        f"{n_labels} labels with order={order} make {weights[1]:,} transition weights: {least / 1e9:,.1f} GB at least"
    )
    if least > memory:
        fewer = f"order={order - 1} makes {weights[0]:,}" if order > 1 else "fewer labels are the only way"
        raise InputError(f"{told}, and this machine has {memory / 1e9:,.1f} GB; {fewer}")
    warnings.warn(told, UserWarning, stacklevel=6)


def check_held_out(y: Any, classes: Sequence[Any], offsets: NDArray[np.int64]) -> None:
    """Lengths and labels of held-out data: unknown labels count as mistakes, with a warning; none known is an error."""
    gold = encode_labels(y, classes, offsets, strict=False)
    unknown = np.flatnonzero(gold.codes < 0)
    labels = [_label_at(y, row, offsets) for row in unknown[:1000].tolist()]
    new = [(row, label) for row, label in zip(unknown.tolist(), labels, strict=False) if _new(label, classes)]
    if not new:
        return
    error = _unknown(new[0][1], new[0][0], offsets, classes)
    if len(new) == min(len(gold.codes), 1000):
        raise InputError(f"dev: none of the labels in the held-out data occurs in training: {error}")
    shown = ", ".join(map(repr, dict.fromkeys(label for _, label in new[:50])))
    warnings.warn(
        f"dev: labels {shown} do not occur in training and count as mistakes: {error}", UserWarning, stacklevel=6
    )


def _label_at(y: Any, row: int, offsets: NDArray[np.int64]) -> Any:
    if is_coded(y):
        return y.vocab[int(y.codes[row])]
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    return y[i][row - int(offsets[i])]


def _new(label: Any, classes: Sequence[Any]) -> bool:
    return label is not None and not isinstance(label, set | frozenset | list | tuple) and label not in classes


def encode_labels(y: Any, classes: Sequence[Any], offsets: NDArray[np.int64], *, strict: bool = True) -> GoldLabels:
    """Numbers of the labels in ``classes``; lengths are checked against the input's ``offsets``.

    An unknown label is an error that names it and where it is, or −1 if not ``strict``.
    """
    n = len(offsets) - 1
    if is_coded(y):
        y_offsets = np.asarray(y.offsets, np.int64)
        lengths = np.diff(y_offsets)
        numbers = {label: j for j, label in enumerate(classes)}
        table = np.array([numbers.get(label, -1) for label in y.vocab], np.int64)
        codes = table[np.asarray(y.codes)]
        sets: dict[int, list[int]] = {}
        unknown = codes < 0
        if strict and unknown.any():
            row = int(np.argmax(unknown))
            raise _unknown(y.vocab[y.codes[row]], row, y_offsets, classes)
    else:
        lengths = np.array([len(sequence) for sequence in y], np.int64)
        codes, sets = _encode_lists(y, classes, offsets, lengths, strict)
    if len(lengths) != n:
        raise InputError(f"X has {n} sequences but y has {len(lengths)}")
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if len(wrong):
        i = int(wrong[0])
        raise InputError(f"sequence {i} has {offsets[i + 1] - offsets[i]} positions in X but {lengths[i]} in y")
    return GoldLabels(codes, offsets, sets)


def _encode_lists(
    y: Any, classes: Sequence[Any], offsets: NDArray[np.int64], lengths: NDArray[np.int64], strict: bool
) -> tuple[NDArray[np.int64], dict[int, list[int]]]:
    numbers: dict[Any, int] = {label: j for j, label in enumerate(classes)}
    flat = [label for sequence in y for label in sequence]
    try:
        return np.array([numbers[label] for label in flat], np.int64), {}
    except (KeyError, TypeError):
        pass  # some are unknown, None or sets: the slow way, with a message
    codes = np.full(len(flat), -1, np.int64)
    sets: dict[int, list[int]] = {}
    starts = np.concatenate([[0], np.cumsum(lengths)])
    for row, label in enumerate(flat):
        if label is None:
            continue
        if isinstance(label, (set, frozenset, list, tuple)):
            sets[row] = [numbers[x] for x in label if x in numbers]
            if not sets[row]:
                raise _unknown(label, row, starts, classes)
            continue
        if label not in numbers:
            if strict:
                raise _unknown(label, row, starts, classes)
            continue
        codes[row] = numbers[label]
    return codes, sets


def _unknown(label: Any, row: int, offsets: NDArray[np.int64], classes: Sequence[Any]) -> InputError:
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    shown = ", ".join(map(str, classes[:12])) + (", …" if len(classes) > 12 else "")
    return InputError(
        f"label {label!r} at position {row - offsets[i]} of sequence {i} is unknown; the model knows {shown}"
    )


def allowed_rows(
    constraints: Mapping[int, Any] | Sequence[Mapping[int, Any] | None],
    classes: Sequence[Any],
    offsets: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """(rows, L) from one {position: label or labels} per sequence (None: free); negative positions count from the end.

    A single dict is that of a single sequence.
    """
    if isinstance(constraints, Mapping):
        if len(offsets) != 2:
            raise InputError(
                f"a single dict of constraints applies to one sequence; X has {len(offsets) - 1}: pass a list of dicts"
            )
        constraints = [constraints]
    for i, pinned in enumerate(constraints):
        if pinned is not None and not isinstance(pinned, Mapping):
            raise InputError(
                f"constraints of sequence {i}: expected a dict {{position: label}} or None, got {pinned!r}"
            )
    if len(constraints) != len(offsets) - 1:
        raise InputError(f"X has {len(offsets) - 1} sequences but constraints has {len(constraints)}")
    numbers = {label: j for j, label in enumerate(classes)}
    rows = np.ones((int(offsets[-1]), len(classes)), np.uint8)
    for i, pinned in enumerate(constraints):
        length = int(offsets[i + 1] - offsets[i])
        for position, wanted in (pinned or {}).items():
            if not isinstance(position, int | np.integer):
                raise InputError(f"constraint of sequence {i}: expected a position, an integer, got {position!r}")
            if not -length <= position < length:
                raise InputError(f"constraint at position {position} of sequence {i}, which has {length} positions")
            row = int(offsets[i]) + position % length
            labels = wanted if isinstance(wanted, (set, frozenset, list, tuple)) else [wanted]
            unknown = [label for label in labels if label not in numbers]
            if unknown:
                raise _unknown(unknown[0], row, offsets, classes)
            rows[row] = 0
            rows[row, [numbers[label] for label in labels]] = 1
    return rows

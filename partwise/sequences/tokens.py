"""Scores of single tags, and the alignment of gold and predicted tags that all scores start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, encode
from partwise.exceptions import InputError

__all__ = ["Confusion", "Tags", "align", "confusion", "token_accuracy"]

Tags = Sequence[Sequence[str]] | CodedColumn


class Pair(NamedTuple):
    """Gold and predicted labels of the same tokens, as codes into one list."""

    gold: NDArray[np.int64]
    predicted: NDArray[np.int64]
    labels: list[str]
    offsets: NDArray[np.int64]


def align(gold: Tags, predicted: Tags) -> Pair:
    """Both taggings in one coding; InputError if they are not of the same tokens."""
    a, b = encode(gold, "gold"), encode(predicted, "predicted")
    if len(a.offsets) != len(b.offsets):
        raise InputError(f"{len(a.offsets) - 1} gold sentences, but {len(b.offsets) - 1} predicted ones")
    if (wrong := np.flatnonzero(np.diff(a.offsets) != np.diff(b.offsets))).size:
        k = int(wrong[0])
        lengths = [int(side.offsets[k + 1] - side.offsets[k]) for side in (a, b)]
        raise InputError(f"sentence {k}: {lengths[0]} gold tags, but {lengths[1]} predicted ones")
    if not a.codes.size:
        raise InputError("no tokens: scores are undefined")
    labels = list(dict.fromkeys([*a.vocab, *b.vocab]))
    code_of = {label: code for code, label in enumerate(labels)}
    recoded = [np.array([code_of[label] for label in side.vocab], np.int64)[side.codes] for side in (a, b)]
    return Pair(recoded[0], recoded[1], labels, a.offsets)


class Confusion(NamedTuple):
    """``matrix[i, j]`` tokens of gold label ``labels[i]`` were given label ``labels[j]``."""

    labels: list[str]
    matrix: NDArray[np.int64]


def token_accuracy(gold: Tags, predicted: Tags) -> float:
    """Fraction of tokens whose predicted tag is the gold one.

    Examples
    --------
    >>> token_accuracy([["O", "B-NP"], ["O", "O"]], [["O", "B-NP"], ["O", "B-NP"]])
    0.75
    """
    pair = align(gold, predicted)
    return float(np.mean(pair.gold == pair.predicted))


def confusion(gold: Tags, predicted: Tags) -> Confusion:
    """How often each gold label (row) was given each label (column), labels in alphabetical order.

    Examples
    --------
    >>> labels, matrix = confusion([["N", "V", "N"]], [["N", "N", "N"]])
    >>> labels, matrix.tolist()
    (['N', 'V'], [[2, 0], [1, 0]])
    """
    pair = align(gold, predicted)
    size = len(pair.labels)
    pairs = np.bincount(pair.gold.astype(np.int64) * size + pair.predicted, minlength=size * size)
    matrix = pairs.reshape(size, size)
    used = [k for k in range(size) if matrix[k].any() or matrix[:, k].any()]
    order = sorted(used, key=pair.labels.__getitem__)
    return Confusion([pair.labels[k] for k in order], matrix[np.ix_(order, order)])

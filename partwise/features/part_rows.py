"""A row of numbers for every part, compiled: s_r = x_r·θ, in blocks of parts that have weights of their own.

The map of structures whose parts are described one by one (links, arcs, pairs of links), where
:class:`~partwise.features.base.MatrixFeatures` would be slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._math import fill
from partwise.exceptions import InputError
from partwise.features.base import (
    LARGEST,
    Features,
    Floats,
    Stack,
    accumulate,
    feature_parts,
    feature_scores,
    norm_and_clear,
)

__all__ = ["PartFeatures"]


class PartRows(NamedTuple):
    """Packed rows: part r of instance i is row offsets[i] + r."""

    offsets: NDArray[np.int64]  # (n + 1,)
    x: Floats  # (rows, D)
    base: int  # where the D weights begin in θ


@feature_parts.register(PartRows)
def _(features, i):
    return features.offsets[i + 1] - features.offsets[i]


@feature_scores.register(PartRows)
def _(features, i, theta, scores, at):
    x, base, start = features.x, np.uintp(features.base), features.offsets[i]
    for r in range(start, features.offsets[i + 1]):
        total = 0.0
        for d in range(np.uintp(x.shape[1])):
            total += x[r, d] * theta[base + d]
        scores[at + r - start] = total


@accumulate.register(PartRows)
def _(features, i, parts, at, step, theta):
    x, base, start = features.x, np.uintp(features.base), features.offsets[i]
    for r in range(start, features.offsets[i + 1]):
        amount = step * parts[at + r - start]
        if amount != 0.0:
            for d in range(np.uintp(x.shape[1])):
                theta[base + d] += amount * x[r, d]


@norm_and_clear.register(PartRows)
def _(features, i, parts, at, scratch):
    total = 0.0
    for j in range(features.base, features.base + features.x.shape[1]):
        total += scratch[j] * scratch[j]
    fill(scratch, features.base, features.x.shape[1], 0.0)
    return total


class PartFeatures(Features):
    """s = (X_1 θ_1, X_2 θ_2, …): the parts of an instance in blocks, each with rows of its own width.

    Parameters
    ----------
    blocks : sequence of (offsets, x)
        offsets (n + 1,): the rows of instance i in this block are offsets[i]:offsets[i + 1]; x (rows, D_b).

    Examples
    --------
    Two instances; two parts with two numbers each and, in the second block, one part with one number:

    >>> features = PartFeatures([([0, 2, 3], [[1, 0], [0, 1], [1, 1]]), ([0, 1, 2], [[5], [7]])])
    >>> features.scores(1, np.array([1.0, 2.0, 3.0])).tolist()
    [3.0, 21.0]
    """

    def __init__(self, blocks: Sequence[tuple[ArrayLike, ArrayLike]]) -> None:
        packs: list[Any] = []
        base = 0
        if not len(blocks):
            raise InputError("features of parts need at least one block")
        for b, (starts, rows) in enumerate(blocks):
            offsets, x = np.asarray(starts, np.int64), np.ascontiguousarray(rows, float)
            if packs and len(offsets) != len(packs[0].offsets):
                sizes = f"covers {len(offsets) - 1} instances, but block 0 covers {len(packs[0].offsets) - 1}"
                raise InputError(f"block {b} of features {sizes}")
            if x.ndim != 2 or offsets[-1] != len(x):
                raise InputError(f"block {b} of features has shape {x.shape}; expected {offsets[-1]} rows")
            if x.size and not (x.min() >= -LARGEST and x.max() <= LARGEST):  # NaN is neither
                row = int(np.argmax(~(np.abs(x) <= LARGEST).all(axis=1)))
                i = int(np.searchsorted(offsets, row, side="right")) - 1
                what = f"more than {LARGEST:g}" if np.isfinite(x).all() else "NaN or infinity"
                raise InputError(f"block {b} of features holds {what} at part {row - offsets[i]} of instance {i}")
            packs.append(PartRows(offsets, x, base))
            base += x.shape[1]
        self._dim, self._pack = base, packs[-1]
        for pack in packs[-2::-1]:
            self._pack = Stack(pack, self._pack)

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def pack(self) -> Any:
        return self._pack

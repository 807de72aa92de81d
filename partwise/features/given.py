"""Scores computed elsewhere: the identity map, under which θ is the packed scores of all instances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.features.base import Features, accumulate, feature_parts, feature_scores, norm_and_clear

__all__ = ["GivenScores", "packed_scores"]


class GivenPack(NamedTuple):
    """The scores of instance i are θ[offsets[i]:offsets[i + 1]]."""

    offsets: NDArray[np.int64]  # (n + 1,)


@feature_parts.register(GivenPack)
def _(features, i):
    return features.offsets[i + 1] - features.offsets[i]


@feature_scores.register(GivenPack)
def _(features, i, theta, scores, at):
    begin = features.offsets[i]
    for r in range(features.offsets[i + 1] - begin):
        scores[at + r] = theta[begin + r]


@accumulate.register(GivenPack)
def _(features, i, parts, at, step, theta):
    begin = features.offsets[i]
    for r in range(features.offsets[i + 1] - begin):
        theta[begin + r] += step * parts[at + r]


@norm_and_clear.register(GivenPack)
def _(features, i, parts, at, scratch):
    total = 0.0
    for r in range(features.offsets[i], features.offsets[i + 1]):
        total += scratch[r] * scratch[r]
        scratch[r] = 0.0
    return total


class GivenScores(Features):
    """s_i = θ[offsets[i]:offsets[i + 1]]: θ holds the part scores themselves, one instance after another.

    A :class:`~partwise.problem.Problem` with this map is a loss on given scores: its gradient is the gradient in part
    space, which is what a neural scorer backpropagates.

    Parameters
    ----------
    sizes : (n,) ints
        Number of parts of each instance: ``space.instance_sizes()[0]``.

    Examples
    --------
    >>> given = GivenScores([2, 3])
    >>> given.dim, given.scores(1, np.arange(5.0)).tolist()
    (5, [2.0, 3.0, 4.0])
    """

    def __init__(self, sizes: NDArray[np.int64] | list[int]) -> None:
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def dim(self) -> int:
        return int(self.offsets[-1])

    @property
    def pack(self) -> GivenPack:
        return GivenPack(self.offsets)


def packed_scores(sizes: NDArray[np.int64], scores: Any) -> NDArray[np.float64]:
    """Scores of all instances side by side, checked; from such an array or from one array per instance."""
    if isinstance(scores, np.ndarray) and scores.ndim == 1 and scores.dtype != object:
        flat = np.ascontiguousarray(scores, float)
    else:
        for i, (row, size) in enumerate(zip(scores, sizes.tolist(), strict=True)):
            if np.shape(row) != (size,):
                raise InputError(f"scores of instance {i} have shape {np.shape(row)}; expected ({size},)")
        flat = np.concatenate([np.zeros(0), *(np.asarray(row, float) for row in scores)])
    if flat.shape != (int(sizes.sum()),):
        raise InputError(f"the packed scores have shape {flat.shape}; expected ({int(sizes.sum())},)")
    if not (flat < np.inf).all():
        place = int(np.argmax(~(flat < np.inf)))
        i = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
        raise InputError(f"scores of instance {i} hold NaN or +inf at part {place - int(sizes[:i].sum())}")
    return flat

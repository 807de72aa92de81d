"""One matrix per sentence pair, packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinkMatrices", "LinkPosteriors"]


class LinkMatrices(Sequence[NDArray[np.float32]]):
    """An (I, J) matrix for every pair: cell (i, j) of pair s is ``values[offsets[s] + i·J + j]``.

    Attributes
    ----------
    values : float32 array [Σ I·J]
    offsets : int64 array [pairs + 1]
    columns : int64 array [pairs]
        J of each pair.

    Examples
    --------
    >>> matrices = LinkMatrices(np.arange(8, dtype=np.float32), np.array([0, 2, 8]), np.array([2, 3]))
    >>> matrices[1]
    array([[2., 3., 4.],
           [5., 6., 7.]], dtype=float32)
    """

    def __init__(self, values: NDArray[np.float32], offsets: NDArray[np.int64], columns: NDArray[np.int64]) -> None:
        self.values, self.offsets, self.columns = values, offsets, columns

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        index %= len(self)
        return self.values[self.offsets[index] : self.offsets[index + 1]].reshape(-1, self.columns[index])

    def __mul__(self, other: LinkMatrices) -> LinkMatrices:
        return LinkMatrices(self.values * other.values, self.offsets, self.columns)


class LinkPosteriors(NamedTuple):
    """Posteriors of both directions; all matrices are (source words, target words).

    ``forward[s][i, j]`` = p(a_j = i | e, f): columns sum to at most 1, the rest is the empty word's.
    ``backward[s][i, j]`` = p(b_i = j | e, f): rows sum to at most 1.
    ``log_likelihood`` (pairs, 2): log p(f | e) and log p(e | f), lengths given.
    """

    forward: LinkMatrices
    backward: LinkMatrices
    log_likelihood: NDArray[np.float64]

    @property
    def product(self) -> LinkMatrices:
        """p(a_j = i)·p(b_i = j), where the two directions agree (Liang et al. 2006)."""
        return self.forward * self.backward

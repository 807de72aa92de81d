"""Tables of atoms, as :meth:`Structure.atoms` returns them: one entry per atom, in the order of the parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ConstituentAtoms", "LabelAtoms", "LinkAtoms"]

Ints = NDArray[np.int64]


class LabelAtoms(NamedTuple):
    """A label at a position."""

    position: Ints
    label: Ints

    @classmethod
    def grid(cls, n_positions: int, n_labels: int) -> LabelAtoms:
        """Every label at every position, position by position.

        Examples
        --------
        >>> LabelAtoms.grid(2, 2).label.tolist()
        [0, 1, 0, 1]
        """
        return cls(np.repeat(np.arange(n_positions), n_labels), np.tile(np.arange(n_labels), n_positions))


class LinkAtoms(NamedTuple):
    """A link between a row (source word) and a column (target word)."""

    row: Ints
    column: Ints

    @classmethod
    def grid(cls, n_rows: int, n_columns: int) -> LinkAtoms:
        """Every link, row by row."""
        return cls(np.repeat(np.arange(n_rows), n_columns), np.tile(np.arange(n_columns), n_rows))


class ConstituentAtoms(NamedTuple):
    """A constituent: a symbol over the words start … stop − 1, and the label that costs and scores see."""

    start: Ints
    stop: Ints
    label: Ints
    symbol: Ints

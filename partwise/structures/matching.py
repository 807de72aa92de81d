"""Matching: links between the words of two sentences, with at most one link per word, or up to D with a penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError
from partwise.structures import _matching_project  # noqa: F401, registers the projection
from partwise.structures._links import (
    Links,
    checked_allowed,
    checked_fertility,
    checked_links,
    checked_sizes,
    fertility_parts,
    misfit,
)
from partwise.structures._matching_kernels import MatchingSpace
from partwise.structures.atoms import LinkAtoms
from partwise.structures.base import CompiledStructure, Floats, Polytope
from partwise.structures.registry import register_structure

__all__ = ["Matching"]


class Matching(CompiledStructure):
    """y ⊆ {0..J−1} × {0..K−1} with score Σ_jk s_jk y_jk, each word in at most one link, Lacoste-Julien eq. (3.1).

    With ``max_fertility`` D > 1 a word may have up to D links, and each one after the first has a score, eq. (3.2):

        Σ_jk s_jk y_jk + Σ_j Σ_{2≤d≤D} s_dj [degree(j) ≥ d] + Σ_k Σ_{2≤d≤D} s_dk [degree(k) ≥ d].

    Parts: the J·K links, row-major, which are the atoms; then (D − 1) fertility parts of each source word, d = 2..D,
    then of each target word. Unmatched words have no part. A link with score −inf is forbidden.

    The paper subtracts penalties; here scores are added, so they must be ≤ 0 and must not rise with d:
    0 ≥ s_2j ≥ s_3j ≥ …, a convex penalty. ``argmax`` and ``kbest`` raise an error on other scores, because no flow is
    then the best output. Learning keeps the condition by a cone of weights: write the features of a fertility part as
    minus numbers ≥ 0, let those of d include those of d − 1, and learn with weights ≥ 0 for them.

    ``project`` is onto the polytope of these programs, {0 ≤ z ≤ 1, Σ_k z_jk ≤ 1 + Σ_d z_dj, Σ_j z_jk ≤ 1 + Σ_d z_dk},
    whose corners are the outputs where D = 1. Where D > 1 it has others, in which a fertility part is on without need;
    none of them is a better output for scores ≤ 0.

    Parameters
    ----------
    sizes : (n, 2) ints
        Numbers (J, K) of source and target words of each instance.
    max_fertility : int
        D, the largest number of links of a word.
    allowed : sequence of n (J, K) bool arrays, optional
        Links that each instance may have.

    Notes
    -----
    Complexity: O(D·J·(J + K)²) at worst for an argmax, O(k·min(J, K)) times that for k-best; a projection takes about
    ten Newton steps of O(J·K + min(J, K)³).

    Examples
    --------
    >>> space = Matching([(2, 3)])
    >>> space.decode(0, space.argmax(0, np.array([3.0, 2.0, -1.0, 2.0, 0.5, -1.0]))).tolist()
    [[0, 1], [1, 0]]
    >>> space.project(0, np.array([1.0, 0.5, 0.0, 0.5, 0.0, 0.0])).round(3).tolist()
    [0.667, 0.333, 0.0, 0.333, 0.0, 0.0]

    One word, two translations; the second costs 0.5:

    >>> space = Matching([(1, 2)], max_fertility=2)
    >>> space.decode(0, space.argmax(0, np.array([1.0, 0.8, -0.5, 0.0, 0.0]))).tolist()
    [[0, 0], [0, 1]]
    """

    def __init__(
        self,
        sizes: ArrayLike | Sequence[tuple[int, int]],
        *,
        max_fertility: int = 1,
        allowed: Sequence[ArrayLike] | None = None,
    ) -> None:
        table = checked_sizes(sizes, "Matching")
        self.max_fertility = checked_fertility(max_fertility, "Matching")
        offsets = np.append(0, np.cumsum(table.prod(axis=1)))
        n_rows, n_cols = np.ascontiguousarray(table.T)
        flags = checked_allowed(allowed, table, "Matching")
        self._pack = MatchingSpace(offsets, n_rows, n_cols, self.max_fertility, flags)

    @property
    def pack(self) -> MatchingSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self._pack.n_rows)

    def size(self, i: int) -> tuple[int, int]:
        """(J, K) of instance i."""
        return int(self._pack.n_rows[i]), int(self._pack.n_cols[i])

    def default_cost(self) -> tuple[float, float]:
        """Wrong links and missed links count alike: words may have no link, so neither follows from the other."""
        return 1.0, 1.0

    def atoms(self, i: int) -> LinkAtoms:
        """(row, column) of every atom: source and target word of the link."""
        return LinkAtoms.grid(*self.size(i))

    def n_atoms(self, i: int) -> int:
        n_rows, n_cols = self.size(i)
        return n_rows * n_cols

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of links: an (n, 2) array, a list or a set of pairs (j, k). ``allows`` sees too many links of a word."""
        n_rows, n_cols = self.size(i)
        table = np.zeros((n_rows, n_cols))
        table[tuple(checked_links(i, y, n_rows, n_cols).T)] = 1.0
        return np.concatenate([table.ravel(), fertility_parts(table, self.max_fertility)])

    def decode(self, i: int, parts: Floats) -> Links:
        """(n, 2) links in order; of a point inside the polytope those with more than one half."""
        return np.argwhere(self._table(i, parts) > 0.5)

    def _table(self, i: int, parts: Floats) -> Floats:
        return np.asarray(parts, float)[: self.n_atoms(i)].reshape(self.size(i))

    def _allowed(self, i: int) -> NDArray[np.uint8]:
        return self._pack.allowed[self._pack.offsets[i] : self._pack.offsets[i + 1]]

    def allows(self, i: int, parts: Floats) -> bool:
        return misfit(self._table(i, parts), self._allowed(i), self.max_fertility) is None

    def forbidden_part(self, i: int, parts: Floats) -> str:
        reason = misfit(self._table(i, parts), self._allowed(i), self.max_fertility)
        return "nothing is forbidden" if reason is None else reason

    def polytope(self, i: int) -> Polytope:
        """Σ_k z_jk ≤ 1 + Σ_d z_dj for source words, the same for target words, z ≤ 1, forbidden links 0: eq. (3.2)."""
        import scipy.sparse  # here, because predicting does not need it

        (n_rows, n_cols), extra = self.size(i), self.max_fertility - 1
        n_links, n_words = n_rows * n_cols, n_rows + n_cols
        width = n_links + n_words * extra
        row, column = np.divmod(np.arange(n_links), n_cols)
        words = np.concatenate([row, n_rows + column, np.repeat(np.arange(n_words), extra)])
        parts = np.concatenate([np.arange(n_links), np.arange(n_links), n_links + np.arange(n_words * extra)])
        signs = np.concatenate([np.ones(2 * n_links), np.full(n_words * extra, -1.0)])
        below = scipy.sparse.csr_array((signs, (words, parts)), shape=(n_words, width))
        if extra:  # without fertility a word's one link is at most 1 already
            below = scipy.sparse.vstack([below, scipy.sparse.eye_array(width)], format="csr")
        barred = np.zeros((0, width))
        allowed = self._allowed(i)
        if len(allowed) and not allowed.all():
            barred = np.concatenate([allowed == 0, np.zeros(width - n_links)])[None].astype(float)
        return Polytope(scipy.sparse.csr_array(barred), np.zeros(len(barred)), below, np.ones(below.shape[0]))

    def nearest_feasible(self, i: int, links: Any) -> Links:
        """The largest set of the given links that is an output: the argmax of their indicator.

        Gold links that a model cannot produce are an error in training. Replace them with this only if you mean to.

        Examples
        --------
        >>> Matching([(2, 2)]).nearest_feasible(0, [(0, 0), (0, 1), (1, 1)]).tolist()
        [[0, 0], [1, 1]]
        """
        scores = self.encode(i, links)
        scores[: self.n_atoms(i)] = np.where(scores[: self.n_atoms(i)] > 0, 1.0, -np.inf)
        scores[self.n_atoms(i) :] = 0.0
        return self.decode(i, self.argmax(i, scores))

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        self._check_penalties(i, scores)
        return super().argmax(i, scores)

    def kbest(self, i: int, scores: ArrayLike, k: int) -> Floats:
        self._check_penalties(i, scores)
        return super().kbest(i, scores, k)

    def _check_penalties(self, i: int, scores: ArrayLike) -> None:
        """Name the word whose fertility scores are not a convex penalty, before the kernel rejects them."""
        if self.max_fertility == 1:
            return
        n_rows, _ = self.size(i)
        table = np.asarray(scores, float)[self.n_atoms(i) :].reshape(-1, self.max_fertility - 1)
        above = np.hstack([np.zeros((len(table), 1)), table[:, :-1]])
        with np.errstate(invalid="ignore"):  # −inf after −inf
            wrong = table > above + 1e-12 * (1.0 + np.abs(above))
        wrong &= table > -np.inf
        if wrong.any():
            row, d = np.argwhere(wrong)[0].tolist()
            word = f"source word {row}" if row < n_rows else f"target word {row - n_rows}"
            where = f"the score of fertility {d + 2} of {word} in instance {i} is {table[row, d]:g}"
            raise InputError(f"{where}; it must be ≤ 0 and must not exceed that of a smaller fertility (eq. 3.2)")


register_structure("Matching", lambda: Matching([(2, 2)]))

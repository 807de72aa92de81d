"""Bounds on the number of corrections and their margins: Theorems 1 and 4, Corollaries 2 and 5 of Daumé & Marcu (2005).

The proofs need two things of a correction, whose Δ is ``x`` after ℘ (eq. 3): some u with ‖u‖ ≤ 1 has uᵀx ≥ γ, and the
weights at that time have wᵀx ≤ (1 − α)B k^{−1/2}. The second holds where Δ subtracts nodes that are ahead of the y-good
ones (``rivals="ahead"``). With all nodes of the queue it need not: at a wrong goal some are far behind the right one.
The first can be checked for any u once training is over, on the corrections that were made, which
:class:`RecordedSearch` keeps. So the bounds here are those of the very run, whatever u is: each says how many
corrections there may have been *at most*, and the one of the widest margin is the tightest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.learners.laso._learning import Rule, new_log
from partwise.learners.laso.learner import PackedSearch
from partwise.learners.loop import State

__all__ = ["RecordedSearch", "Separation", "corollary_2", "corollary_5", "theorem_1", "theorem_4", "widest_margin"]

Floats = NDArray[np.float64]


def theorem_1(radius: float, margin: float) -> float:
    """R²/γ²: how many corrections the perceptron update makes at most, if ‖Δ‖ ≤ R and uᵀΔ ≥ γ for all of them.

    Examples
    --------
    >>> theorem_1(2.0, 0.5)
    16.0
    """
    return corollary_2(radius, margin, 0.0)


def corollary_2(radius: float, margin: float, deficit: float) -> float:
    """(R + D)²/γ² with D = [Σ max(0, γ − uᵀΔ)²]^{1/2}: any u and γ > 0, separable or not."""
    return math.inf if margin <= 0.0 else (radius + deficit) ** 2 / margin**2


def theorem_4(margin: float, alpha: float) -> float:
    """2/γ² (2/α − 1)² + 8/α − 4: corrections of ALMA with B = √8/α and C = √2, if uᵀx ≥ γ for all of them.

    Examples
    --------
    The paper's example, §4.2:

    >>> round(theorem_4(1.299e-2, 0.9), -2)
    17700.0
    """
    return math.inf if margin <= 0.0 else 2.0 / margin**2 * (2.0 / alpha - 1.0) ** 2 + 8.0 / alpha - 4.0


def corollary_5(margin: float, deficit: float, step_scale: float) -> float:
    """D/γ + ρ²/2 + ρ [ρ²/4 + D/γ + 1]^{1/2}, ρ = (Cγ)⁻¹, eq. (4): any u and γ > 0, if C² + 2(1 − α)BC = 1.

    With N² ≤ 1 + 1/k, √(k + 1) uᵀw_{k+1} ≥ √k uᵀw_k + C uᵀx_k as long as uᵀw ≥ 0, so that Cγm ≤ CD + √(m + 1), where
    D = Σ max(0, γ − uᵀx). The paper prints ρ = (Cγ)⁻², which this does not need, and is never tighter for Cγ ≤ 1.
    """
    if margin <= 0.0:
        return math.inf
    rho, share = 1.0 / (step_scale * margin), deficit / margin
    return share + rho**2 / 2.0 + rho * math.sqrt(rho**2 / 4.0 + share + 1.0)


class RecordedSearch(PackedSearch):
    """Training data that keep Δ of every correction, in the order in which they were made.

    Parameters
    ----------
    data : PackedSearch
    entries : int
        How many numbers the corrections of one input may have together.
    """

    def __init__(self, data: PackedSearch, *, entries: int = 1 << 20) -> None:
        super().__init__(data.pack, data.dim, data.m, dynamic=data.dynamic)
        self._entries = entries
        self._rows: list[tuple[Any, Any, Any]] = []

    def run(self, order: NDArray[np.int64], rule: Rule, state: State) -> None:
        log = new_log(1 << 12, self._entries)
        for i in order:
            log.used[:] = 0
            self._run(np.array([i]), rule, state, log)
            if log.used[1]:
                raise InputError(f"the corrections of input {i} have over {self._entries} numbers; raise 'entries'")
            n = int(log.used[0])
            if n:
                end = int(log.ends[n - 1])
                self._rows.append((log.ends[:n].copy(), log.places[:end].copy(), log.values[:end].copy()))

    @property
    def corrections(self) -> csr_matrix:
        """(corrections, weights): the rows are Δ of eq. (2)."""
        sizes = [np.diff(ends, prepend=0) for ends, _, _ in self._rows]
        ends = np.append(0, np.cumsum(np.concatenate(sizes))) if sizes else np.zeros(1, np.int64)
        places, values = (np.concatenate([row[k] for row in self._rows]) if self._rows else np.zeros(0) for k in (1, 2))
        return csr_matrix((values, places.astype(np.int64), ends), shape=(len(ends) - 1, self.dim))


def projected(corrections: csr_matrix) -> csr_matrix:
    """℘(Δ) = Δ / max{1, ‖Δ‖} of every row, as in eq. (3)."""
    lengths = np.sqrt(np.asarray(corrections.multiply(corrections).sum(axis=1)).ravel())
    found = corrections.copy()
    found.data /= np.repeat(np.maximum(1.0, lengths), np.diff(found.indptr))
    return found


@dataclass(frozen=True)
class Separation:
    """A vector u of length 1 with uᵀx ≥ ``margin`` for all rows x; no vector of length 1 has more than ``limit``."""

    direction: Floats
    margin: float
    limit: float


def widest_margin(rows: csr_matrix, *, tolerance: float = 0.01, max_passes: int = 2000) -> Separation:
    """max_{‖u‖ ≤ 1} min_x uᵀx to a relative ``tolerance``: a support vector machine without a bias, no errors allowed.

    min ½‖v‖² s.t. vᵀx ≥ 1 by coordinate ascent in its dual; u = v/‖v‖. A convex combination c of the rows limits what
    any u can have, uᵀc ≤ ‖c‖: the margin is positive only if the rows can be separated, and ``limit`` is near 0 if not.

    Examples
    --------
    >>> found = widest_margin(csr_matrix([[1.0, 0.0], [0.0, 1.0]]))
    >>> round(found.margin, 3), round(found.limit, 3)
    (0.707, 0.707)
    """
    if rows.shape[0] == 0:
        raise InputError("there are no rows to separate")
    rng = np.random.default_rng(0)
    columns = np.unique(rows.indices)  # of millions of weights, a correction touches some hundreds
    dim, rows = rows.shape[1], rows[:, columns]
    weights, dual = np.zeros(len(columns)), np.zeros(rows.shape[0])
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    arrays = rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data, squares
    best, margin, limit = weights, -math.inf, math.inf
    for _ in range(max_passes):
        _ascend(*arrays, rng.permutation(rows.shape[0]), dual, weights)
        length = float(np.sqrt(weights @ weights))
        here = float((rows @ weights).min()) / length if length > 0.0 else -math.inf
        if here > margin:
            best, margin = weights / length, here
        if dual.sum() > 0.0:
            limit = min(limit, length / float(dual.sum()))  # v = Σ a x, so c = v / Σ a
        if limit - margin <= tolerance * abs(limit) or limit < 1e-12:
            break
    direction = np.zeros(dim)
    direction[columns] = best
    return Separation(direction, margin, limit)


@kernel
def _ascend(indptr, indices, values, squares, order, dual, weights):
    """One pass of coordinate ascent: a ← max(0, a + (1 − vᵀx)/‖x‖²), v = Σ a x."""
    for row in order:
        if squares[row] == 0.0:
            continue
        score = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            score += weights[indices[j]] * values[j]
        new = max(0.0, dual[row] + (1.0 - score) / squares[row])
        step = new - dual[row]
        if step != 0.0:
            dual[row] = new
            for j in range(indptr[row], indptr[row + 1]):
                weights[indices[j]] += step * values[j]

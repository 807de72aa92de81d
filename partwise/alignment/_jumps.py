"""Jump distances: p(i | i', I) = c(i − i') / Σ_{l=1..I} c(l − i'), Vogel, Ney and Tillmann (1996), Och and Ney (2003).

c has one weight for each distance below ``reach`` and one weight for all distances that are longer, on either
side. Model 2 uses the same form with the diagonal's position in place of i'.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Jumps", "fit_jumps", "fit_starts", "flat_jumps", "resized", "weights_to_jumps"]


class Jumps(NamedTuple):
    """Weights and normalisers of one direction.

    ``weights[reach + d]`` = c(d) for |d| ≤ reach; longer jumps weigh as much as those of length ``reach``.
    ``inverse[l, r]`` = 1 / Σ_{d=−l..r} c(d), for a position with l positions before it and r after it.
    ``starts[i]`` and ``start_inverse[n]``: the same for the first aligned position, 1 / Σ_{i<n} starts[min(i, reach)].
    """

    weights: NDArray[np.float32]  # (2·reach + 1,)
    inverse: NDArray[np.float32]  # (longest, longest)
    starts: NDArray[np.float32]  # (reach + 1,)
    start_inverse: NDArray[np.float32]  # (longest + 1,)


def weights_to_jumps(weights: NDArray[Any], starts: NDArray[Any], longest: int) -> Jumps:
    """The normalisers of given weights, for sentences of up to ``longest`` words."""
    # Rounded first: weights that were stored give the very same normalisers.
    weights, starts = (x.astype(np.float32).astype(np.float64) for x in (weights, starts))
    reach = len(starts) - 1
    along = np.minimum(np.arange(longest), reach)
    before = np.cumsum(weights[reach - along])  # Σ_{d=−l..0} c(d)
    after = np.cumsum(weights[reach + along]) - weights[reach]  # Σ_{d=1..r} c(d)
    begin = np.concatenate([[np.inf], np.cumsum(starts[along])])
    inverse = 1.0 / (before[:, None] + after[None, :])
    return Jumps(*(x.astype(np.float32) for x in (weights, inverse, starts, 1.0 / begin)))


def resized(jumps: Jumps, longest: int) -> Jumps:
    """The same weights with normalisers for sentences of up to ``longest`` words."""
    return weights_to_jumps(jumps.weights, jumps.starts, longest)


def flat_jumps(reach: int, longest: int) -> Jumps:
    """All distances alike."""
    return weights_to_jumps(np.ones(2 * reach + 1), np.ones(reach + 1), longest)


def fit_jumps(
    counts: NDArray[np.float64], windows: NDArray[np.float64], old: NDArray[np.float64]
) -> NDArray[np.float64]:
    """max_c Σ_d n(d) log c(d) − Σ_{l,r} m(l, r) log Σ_{d=−l..r} c(d), by minorisation (Hunter 2004).

    Parameters
    ----------
    counts : array [2·reach + 1]
        Expected number n(d) of jumps of each distance.
    windows : array [longest, longest]
        Expected number m(l, r) of jumps from a position with l positions before it and r after it.
    old : array [2·reach + 1]
        Where to start.

    Each step c(d) ← n(d) / Σ m(l, r)·|{distances of that weight in the window}| / Σ_window c cannot lower the
    objective, so that EM stays monotone although the normaliser depends on the window.
    """
    reach = (len(counts) - 1) // 2
    left, right = np.nonzero(windows > 0)
    mass = windows[left, right]
    distance = np.arange(-reach, reach + 1)
    inside = ((distance >= -left[:, None]) & (distance <= right[:, None])).astype(np.float64)
    inside[:, 0] = np.maximum(left - reach + 1, 0)
    inside[:, -1] = np.maximum(right - reach + 1, 0)
    return _minorise(counts, mass, inside, old)


def fit_starts(counts: NDArray[np.float64], old: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for the first position; ``counts[n, b]``: starts at bucket b in sentences of n words."""
    reach = counts.shape[1] - 1
    lengths = np.flatnonzero(counts.sum(axis=1) > 0)
    inside = (np.arange(reach + 1) < lengths[:, None]).astype(np.float64)
    inside[:, -1] = np.maximum(lengths - reach, 0)
    return _minorise(counts.sum(axis=0), counts[lengths].sum(axis=1), inside, old)


def _minorise(
    counts: NDArray[np.float64], mass: NDArray[np.float64], inside: NDArray[np.float64], old: NDArray[np.float64]
) -> NDArray[np.float64]:
    if not mass.size:
        return old
    weights = old.copy()
    for _ in range(50):
        below = inside.T @ (mass / (inside @ weights))
        # A distance that no window holds has neither counts nor a say: it keeps its weight.
        new = np.where(below > 0, counts / np.maximum(below, 1e-300), weights)
        new = np.maximum(new / new.max(), 1e-9)
        done = np.abs(new - weights).max() < 1e-7
        weights = new
        if done:
            break
    return weights

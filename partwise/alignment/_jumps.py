"""Jump distances: p(i | i', I) = c(i − i') / Σ_{l=1..I} c(l − i'), Vogel, Ney and Tillmann (1996), Och and Ney (2003).

c has one weight for each distance below ``reach`` and one weight for all distances that are longer, on either
side. Model 2 uses the same form with the diagonal's position in place of i'.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Jumps", "fit_jumps", "fit_starts", "flat_jumps", "resized", "weights_to_jumps"]


FLOOR = 1e-9  # least weight of a distance, as a share of the greatest


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
    """max_c Σ_d n(d) log c(d) − Σ_{l,r} m(l, r) log Σ_{d=−l..r} c(d), by Newton's method.

    Parameters
    ----------
    counts : array [2·reach + 1]
        Expected number n(d) of jumps of each distance.
    windows : array [longest, longest]
        Expected number m(l, r) of jumps from a position with l positions before it and r after it.
    old : array [2·reach + 1]
        Where to start.
    """
    reach = (len(counts) - 1) // 2
    left, right = np.nonzero(windows > 0)
    mass = windows[left, right]
    distance = np.arange(-reach, reach + 1)
    inside = ((distance >= -left[:, None]) & (distance <= right[:, None])).astype(np.float64)
    inside[:, 0] = np.maximum(left - reach + 1, 0)
    inside[:, -1] = np.maximum(right - reach + 1, 0)
    return _maximise(counts, mass, inside, old)


def fit_starts(counts: NDArray[np.float64], old: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for the first position; ``counts[n, b]``: starts at bucket b in sentences of n words."""
    reach = counts.shape[1] - 1
    lengths = np.flatnonzero(counts.sum(axis=1) > 0)
    inside = (np.arange(reach + 1) < lengths[:, None]).astype(np.float64)
    inside[:, -1] = np.maximum(lengths - reach, 0)
    return _maximise(counts.sum(axis=0), counts[lengths].sum(axis=1), inside, old)


def _maximise(
    counts: NDArray[np.float64], mass: NDArray[np.float64], inside: NDArray[np.float64], old: NDArray[np.float64]
) -> NDArray[np.float64]:
    """argmax_c Σ_d n(d) log c(d) − Σ_w m(w) log Σ_d inside(w, d) c(d), c(d) ≥ FLOOR·max c: Newton in log c.

    In log c the objective is concave, with gradient n(d) − Σ_w m(w) p(d | w) and curvature Σ_w m(w) (diag p − p pᵀ),
    p(d | w) ∝ inside(w, d) c(d). Steps are shortened until they gain, so that EM stays monotone.
    """
    if not mass.size:
        return old
    held = inside.any(axis=0)  # a distance that no window holds has neither counts nor a say: it keeps its weight
    weights = np.maximum(old / old.max(), FLOOR)
    logs, floor = np.log(weights), np.log(FLOOR)

    def value_at(logs: NDArray[np.float64]) -> float:
        return float(counts[held] @ logs[held] - mass @ np.log(inside @ np.exp(logs)))

    value = value_at(logs)
    for _ in range(200):
        share = inside * np.exp(logs)
        share /= share.sum(axis=1, keepdims=True)
        slope = counts - mass @ share
        free = held & ((logs > floor) | (slope > 0))
        if not free.any() or np.abs(slope[free]).max() <= 1e-9 * mass.sum():
            break
        part = share[:, free]
        bend = np.diag(mass @ part) - (part * mass[:, None]).T @ part
        bend += 1e-10 * np.trace(bend) * np.eye(len(bend))  # a common factor of all weights changes nothing
        step = np.zeros_like(logs)
        step[free] = np.linalg.solve(bend, slope[free])
        length = min(1.0, 2.0 * abs(floor) / np.abs(step).max())  # longer ones leave the range of log c
        while length > 1e-12:
            tried = np.maximum(logs + length * step, floor)
            found = value_at(tried)
            if found > value:
                break
            length /= 2
        else:
            break  # nothing is gained any more: rounding
        logs = np.where(held, np.maximum(tried - tried[held].max(), floor), logs)
        value = value_at(logs)
    return np.asarray(np.exp(logs))

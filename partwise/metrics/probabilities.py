"""Calibration: whether predictions are correct as often as their probabilities say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError

__all__ = ["Calibration", "calibration"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Expected calibration error and its bins; ``confidence`` and ``accuracy`` are NaN in an empty bin."""

    error: float
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    def report(self) -> str:
        """One row per bin."""
        rows = ["      bin          n  confidence  accuracy"]
        for b, count in enumerate(self.counts.tolist()):
            bounds = f"({self.edges[b]:.3f}, {self.edges[b + 1]:.3f}]"
            values = f"{self.confidence[b]:10.4f}  {self.accuracy[b]:8.4f}" if count else f"{'-':>10}  {'-':>8}"
            rows.append(f"{bounds} {count:6d}  {values}")
        return "\n".join([*rows, f"expected calibration error: {self.error:.4f}"])

    __str__ = report


def calibration(probabilities: ArrayLike, correct: ArrayLike, bins: int = 15) -> Calibration:
    """Expected calibration error: sum over bins b of (n_b / N) |accuracy_b - mean probability_b|.

    The bins are (0, 1/M], ..., (1 - 1/M, 1], with 0 in the first.

    Parameters
    ----------
    probabilities : array_like [N]
        The probability given to each prediction.
    correct : array_like of bool [N]
        Whether that prediction is right.
    bins : int
        Number M of bins of equal width.

    Examples
    --------
    >>> result = calibration([0.9, 0.9, 0.9, 0.6], [True, True, False, True], bins=5)
    >>> round(result.error, 3), result.counts.tolist()
    (0.275, [0, 0, 1, 0, 3])
    """
    if not isinstance(bins, int | np.integer) or bins < 1:
        raise ParameterError("bins", "calibration", "a positive integer", bins)
    p, right = np.asarray(probabilities, np.float64), np.asarray(correct)
    if p.ndim != 1 or p.shape != right.shape:
        raise InputError(f"expected two vectors of one length, got shapes {p.shape} and {right.shape}")
    if not p.size:
        raise InputError("no predictions: calibration is undefined")
    if not ((p >= 0) & (p <= 1)).all():
        wrong = int(np.argmin((p >= 0) & (p <= 1)))
        raise InputError(f"prediction {wrong}: expected a probability in [0, 1], got {p[wrong]}")
    if not np.isin(right, (0, 1)).all():
        raise InputError("'correct' must hold only True and False")
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.maximum(np.searchsorted(edges, p, side="left") - 1, 0)
    counts = np.bincount(bin_of, minlength=bins)
    confidence, accuracy = np.full(bins, np.nan), np.full(bins, np.nan)
    filled = counts > 0
    confidence[filled] = np.bincount(bin_of, weights=p, minlength=bins)[filled] / counts[filled]
    accuracy[filled] = np.bincount(bin_of, weights=right, minlength=bins)[filled] / counts[filled]
    gaps = np.abs(accuracy[filled] - confidence[filled])
    return Calibration(float(counts[filled] @ gaps / p.size), edges, counts, confidence, accuracy)

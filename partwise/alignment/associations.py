"""How strongly two words are associated, from sentence pairs alone, without alignment or iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import unknown_name

__all__ = ["ASSOCIATIONS", "association"]

Floats = NDArray[np.float64]


def association(together: ArrayLike, source: ArrayLike, target: ArrayLike, n: int, measure: str = "dice") -> Floats:
    """Dice 2·c(e,f) / (c(e) + c(f)), as in Taskar et al. (2005), and other measures, for arrays of counts.

    Parameters
    ----------
    together, source, target : arrays
        The number of sentence pairs in which both words, e, and f occur.
    n : int
        Number of sentence pairs.
    measure : {"dice", "jaccard", "phi2", "llr", "pmi"}
        Dice, Jaccard c(e,f) / (c(e) + c(f) − c(e,f)), Gale and Church's φ², Dunning's log-likelihood ratio, and
        pointwise mutual information log n·c(e,f) / (c(e)·c(f)), −inf where c(e,f) = 0.

    Examples
    --------
    >>> association(np.array([2.0, 0.0]), np.array([2.0, 3.0]), np.array([4.0, 4.0]), 10)
    array([0.66666667, 0.        ])
    """
    if measure not in ASSOCIATIONS:
        raise unknown_name("measure", measure, ASSOCIATIONS)
    a, e, f = (np.asarray(x, np.float64) for x in (together, source, target))
    with np.errstate(divide="ignore", invalid="ignore"):
        # A word that never occurs is associated with nothing: 0 / 0 is 0.
        return np.nan_to_num(ASSOCIATIONS[measure](a, e, f, float(n)), nan=0.0, neginf=-np.inf, posinf=np.inf)


def _phi2(a: Floats, e: Floats, f: Floats, n: float) -> Floats:
    return (a * (n - e - f + a) - (e - a) * (f - a)) ** 2 / (e * f * (n - e) * (n - f))


def _llr(a: Floats, e: Floats, f: Floats, n: float) -> Floats:
    total = np.zeros(np.broadcast(a, e, f).shape)
    for observed, row, column in (
        (a, e, f),
        (e - a, e, n - f),
        (f - a, n - e, f),
        (n - e - f + a, n - e, n - f),
    ):
        total += np.where(observed > 0, observed * np.log(observed * n / (row * column)), 0.0)
    return 2.0 * total


ASSOCIATIONS: dict[str, Callable[[Floats, Floats, Floats, float], Floats]] = {
    "dice": lambda a, e, f, n: 2 * a / (e + f),
    "jaccard": lambda a, e, f, n: a / (e + f - a),
    "phi2": _phi2,
    "llr": _llr,
    "pmi": lambda a, e, f, n: np.log(n * a / (e * f)),
}

"""EG-QP: quadratic programs over products of simplices, Figure 3 of Bartlett et al. (2004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partwise.exceptions import InputError, ParameterError
from partwise.structures.base import Floats

__all__ = ["EGQPResult", "eg_qp"]


class EGQPResult(NamedTuple):
    """What :func:`eg_qp` found."""

    alpha: Floats
    values: list[float]  # Q(α¹), Q(α²), …
    gap: float  # Q(α) − min Q is at most this
    eta: float
    path: list[Floats]  # α¹, α², … where asked for


def eg_qp(
    A: ArrayLike,
    b: ArrayLike,
    groups: Sequence[int],
    *,
    eta: float | None = None,
    max_steps: int = 1000,
    tolerance: float = 1e-6,
    alpha: ArrayLike | None = None,
    keep_path: bool = False,
) -> EGQPResult:
    """min_α Q(α) = b·α + ½ αᵀAα over α = (α_1, …, α_n), each α_i in a simplex.

    Bartlett et al. (2004), Figure 3:

    α_{i,j} ← α_{i,j} exp(−η s_{i,j}) / Σ_k α_{i,k} exp(−η s_{i,k}), s = ∇Q(α) = b + Aα.

    Parameters
    ----------
    A : (m, m), positive semi-definite
    b : (m,)
    groups : sequence of n int
        Sizes of the simplices; their sum is m.
    eta : float, optional
        η. If absent, that of Theorem 2, 0.4 / (B + λ) with B = 2(n max |A_ij| + max |b_i|) and λ the largest
        eigenvalue of A, for which Q never rises.
    tolerance : float
        Stops when the gap ∇Q·α − Σ_i min_j ∇Q_{i,j} ≥ Q(α) − min Q is at most this.
    alpha : (m,), optional
        Where to start, in the interior; uniform if absent.
    keep_path : bool
        Return all the iterates.

    Examples
    --------
    The point of a triangle that is nearest to (1, 1):

    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> found = eg_qp(corners @ corners.T, -corners @ [1.0, 1.0], [3], eta=0.5)
    >>> (found.alpha @ corners).round(3).tolist()
    [0.8, 0.6]
    """
    matrix, linear, sizes = np.asarray(A, float), np.asarray(b, float), np.asarray(groups, np.int64)
    m, n = len(linear), len(sizes)
    if linear.ndim != 1 or matrix.shape != (m, m):
        raise InputError(f"eg_qp: A has shape {matrix.shape} and b {linear.shape}; expected (m, m) and (m,)")
    if n == 0 or (sizes < 1).any() or sizes.sum() != m:
        raise ParameterError("groups", "eg_qp", f"positive sizes whose sum is {m}", groups)
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * (1.0 + np.abs(matrix).max())):
        raise ParameterError("A", "eg_qp", "a symmetric matrix", "one that is not")
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -1e-9 * max(1.0, eigenvalues[-1]):
        raise ParameterError("A", "eg_qp", "positive semi-definite", f"an eigenvalue of {eigenvalues[0]:.3g}")
    if eta is None:
        B = 2.0 * (n * float(np.abs(matrix).max()) + float(np.abs(linear).max()))
        eta = 0.4 / max(B + float(eigenvalues[-1]), 1e-300)
    elif not eta > 0:
        raise ParameterError("eta", "eg_qp", "a positive number", eta)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if alpha is None:
        scores = np.zeros(m)
    else:
        given = np.asarray(alpha, float)
        if given.shape != (m,) or not (given > 0).all() or not np.allclose(np.add.reduceat(given, starts), 1.0):
            raise ParameterError("alpha", "eg_qp", "positive, with a sum of 1 in every group", alpha)
        scores = np.log(given)

    def distribution(scores: Floats) -> Floats:
        weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        result: Floats = weights / np.repeat(np.add.reduceat(weights, starts), sizes)
        return result

    point = distribution(scores)
    values: list[float] = []
    path: list[Floats] = []
    gap = np.inf
    for step in range(max_steps + 1):
        gradient = linear + matrix @ point
        values.append(float(0.5 * (linear + gradient) @ point))
        gap = float(gradient @ point - np.minimum.reduceat(gradient, starts).sum())
        if keep_path:
            path.append(point)
        if gap <= tolerance or step == max_steps:
            break
        scores -= eta * gradient
        point = distribution(scores)
    return EGQPResult(point, values, gap, eta, path)

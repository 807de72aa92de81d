"""The transformations T^y: K × L stochastic matrices, one per class, and their log-domain parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "Support",
    "block_transformation",
    "class_dependent_topics",
    "log_domain_gradient",
    "smoothed_start",
    "softmax_columns",
    "support_of",
]


def block_transformation(n_classes: int, class_topics: int, shared_topics: int) -> np.ndarray:
    """T^y of eqs. 4.5 and 4.11: B_c topics of its own for every class, B_s topics shared by all.

    Shape (C, K, L) with K = C·B_c + B_s and L = B_c + B_s: prior topic l < B_c becomes topic y·B_c + l,
    the others become the last B_s topics.

    Examples
    --------
    >>> block_transformation(2, 1, 1)[1]
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    n_prior = class_topics + shared_topics
    transformation = np.zeros((n_classes, n_classes * class_topics + shared_topics, n_prior))
    own, shared = np.arange(class_topics), np.arange(shared_topics)
    for y in range(n_classes):
        transformation[y, y * class_topics + own, own] = 1.0
        transformation[y, n_classes * class_topics + shared, class_topics + shared] = 1.0
    return transformation


def smoothed_start(transformation: np.ndarray, sharpness: float = 3.0) -> np.ndarray:
    """t_0 = s·T − 2 (footnote 10, where s = 3): block matrices moved off the boundary of the log domain.

    A column then has e^s / (e^s + K − 1) of its mass in its own place and spreads the rest: with the thesis's
    K = 60 that is 25% for s = 3, and 96% for s = 7.3.
    """
    return sharpness * transformation - 2.0


def softmax_columns(parameters: np.ndarray) -> np.ndarray:
    """T_kl = exp(t_kl) / Σ_r exp(t_rl); shapes (C, K, L)."""
    exponentials = np.exp(parameters - parameters.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def log_domain_gradient(gradient: np.ndarray, transformation: np.ndarray) -> np.ndarray:
    """∂/∂t_kl = T_kl (∂/∂T_kl − Σ_r T_rl ∂/∂T_rl); shapes (C, K, L).

    The thesis prints only the diagonal of this Jacobian, T_kl (1 − T_kl) ∂/∂T_kl; the normaliser couples
    the entries of a column, so the other terms belong to the gradient too.
    """
    mean = (transformation * gradient).sum(axis=1, keepdims=True)
    return np.asarray(transformation * (gradient - mean))


def class_dependent_topics(phi: np.ndarray, transformation: np.ndarray) -> np.ndarray:
    """Φ^y = Φ T^y (eq. 4.3): (C, V, L) float32 from phi (V, K) and transformation (C, K, L)."""
    n_classes, _, n_prior = transformation.shape
    topics = np.empty((n_classes, phi.shape[0], n_prior), np.float32)
    for y in range(n_classes):
        rows = np.flatnonzero(transformation[y].any(axis=1))
        topics[y] = phi[:, rows] @ transformation[y, rows]
    return topics


class Support(NamedTuple):
    """The non-zero rows of every T^y, packed for the sampler.

    rows: (C, S) int32, of which the first sizes[y] count; by_row: (C, S, L); by_column: (C, L, S).
    """

    rows: np.ndarray
    sizes: np.ndarray
    by_row: np.ndarray
    by_column: np.ndarray


def support_of(transformation: np.ndarray) -> Support:
    """Pack T for ``joint_sweep``: what a token costs is the number of non-zero rows, not K."""
    n_classes, _, n_prior = transformation.shape
    found = [np.flatnonzero(matrix.any(axis=1)) for matrix in transformation]
    sizes = np.array([rows.size for rows in found])
    rows = np.zeros((n_classes, sizes.max()), np.int32)
    by_row = np.zeros((n_classes, sizes.max(), n_prior))
    for y, kept in enumerate(found):
        rows[y, : kept.size] = kept
        by_row[y, : kept.size] = transformation[y, kept]
    return Support(rows, sizes, by_row, np.ascontiguousarray(by_row.transpose(0, 2, 1)))

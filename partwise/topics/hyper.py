"""Dirichlet hyper-parameters by fixed-point iteration, and the collapsed likelihood they maximise."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, psi

__all__ = ["asymmetric_fixed_point", "document_topic_counts", "log_joint", "symmetric_fixed_point"]

FLOOR = 1e-6  # a parameter of exactly zero could never leave it


def document_topic_counts(offsets: np.ndarray, topics: np.ndarray, n_topics: int) -> np.ndarray:
    """n_k^{(d)} of eq. 4.18 as a (D, K) int64 array; O(N + D·K)."""
    documents = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    flat = np.bincount(documents * n_topics + topics, minlength=(offsets.size - 1) * n_topics)
    return flat.reshape(offsets.size - 1, n_topics)


def _rising_derivative(counts: np.ndarray, start: float) -> float:
    """Σ_i ψ(counts_i + start) − ψ(start), the derivative of Σ_i log start^{[counts_i]}."""
    values, times = np.unique(counts, return_counts=True)
    return float((times * (psi(values + start) - psi(start))).sum())


def symmetric_fixed_point(counts: np.ndarray, parameter: float, n_steps: int = 20) -> float:
    """Maximise Π_d Π_k a^{[n_dk]} / (Ka)^{[N_d]} over the one number a (eq. 4.18 with all α_l equal).

    a ← a Σ_dk (ψ(n_dk + a) − ψ(a)) / (K Σ_d (ψ(N_d + Ka) − ψ(Ka)))   (Minka 2000)

    counts: (D, K). With topics as rows and words as columns the same step estimates β (eq. 4.19).
    """
    size, sums = counts.shape[1], counts.sum(axis=1)
    values, times = np.unique(counts, return_counts=True)
    for _ in range(n_steps):
        numerator = float((times * (psi(values + parameter) - psi(parameter))).sum())
        denominator = size * _rising_derivative(sums, size * parameter)
        updated = max(parameter * numerator / denominator, FLOOR)
        done = abs(updated - parameter) < 1e-6 * parameter
        parameter = updated
        if done:
            break
    return parameter


def asymmetric_fixed_point(counts: np.ndarray, parameter: np.ndarray, n_steps: int = 20) -> np.ndarray:
    """Maximise Π_d Π_k a_k^{[n_dk]} / a^{[N_d]} (eq. 4.18) over the K numbers a_k, a = Σ_k a_k.

    a_k ← a_k Σ_d (ψ(n_dk + a_k) − ψ(a_k)) / Σ_d (ψ(N_d + a) − ψ(a))   (Minka 2000)

    counts: (D, K); parameter: (K,), the start. Each step increases the likelihood.
    """
    parameter = np.array(parameter, dtype=np.float64)
    sums = counts.sum(axis=1)
    columns = [np.unique(column, return_counts=True) for column in counts.T]
    for _ in range(n_steps):
        denominator = _rising_derivative(sums, float(parameter.sum()))
        numerator = np.array([(t * (psi(v + a) - psi(a))).sum() for (v, t), a in zip(columns, parameter, strict=True)])
        updated = np.maximum(parameter * numerator / denominator, FLOOR)
        done = np.abs(updated - parameter).max() < 1e-6 * parameter.max()
        parameter = updated
        if done:
            break
    return parameter


def log_joint(document_topics: np.ndarray, word_topics: np.ndarray, alpha: np.ndarray, beta: float) -> float:
    """log p(w, z | α, β) with θ and Φ integrated out: the product of eqs. 4.18 and 4.19.

    document_topics: (D, K); word_topics: (V, K); alpha: (K,). O(D·K + V·K).
    """
    lengths, totals = document_topics.sum(axis=1), word_topics.sum(axis=0)
    vocabulary = word_topics.shape[0]
    documents = gammaln(document_topics + alpha).sum() - document_topics.shape[0] * gammaln(alpha).sum()
    documents += (gammaln(alpha.sum()) - gammaln(lengths + alpha.sum())).sum()
    present = word_topics[word_topics > 0]
    words = (gammaln(present + beta) - gammaln(beta)).sum()
    words += (gammaln(vocabulary * beta) - gammaln(totals + vocabulary * beta)).sum()
    return float(documents + words)

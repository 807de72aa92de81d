"""The variational route (§4.5.2, §5.2): mean-field bounds instead of samples; deterministic.

For a document and a class, with Φ^y given and q(θ) = Dir(γ), q(z_n = l) ∝ Φ^y_{w_n l} exp E_q[log θ_l],

    log p(w | y) ≥ B_y(γ) = Σ_n log Σ_l Φ^y_{w_n l} e^{ψ(γ_l) − ψ(γ_·)} − KL(Dir(γ) ‖ Dir(α))

and γ_l = α_l + Σ_n q(z_n = l) at the maximum (Blei et al. 2003). Then p(y | w) ≈ π_y e^{B_y} / Σ. At the
maximum ∂B_y/∂γ = 0, so ∂B_y/∂T^y_kl = Σ_n q(z_n = l) Φ_{w_n k}/Φ^y_{w_n l} is the whole derivative: eq. 4.17
with expectations under q for averages over samples, and no noise.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel

from ._chains import distinct_words

__all__ = ["digamma", "variational_documents", "variational_weights"]


@kernel
def digamma(x):
    """ψ(x), x > 0: recurrence up to 6, then the asymptotic series; error below 1e-9."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return value + math.log(x) - 0.5 / x - series


@kernel
def fit_document(topics, distinct, times, alpha, tolerance, limit, gamma, weights):
    """Maximise B_y over γ from its current value; returns B_y. Leaves e^{E log θ} in ``weights``.

    topics: (V, L) float32, Φ^y; distinct, times: the document's words and counts; O(U·L) a step.
    """
    n_prior = alpha.size
    length = times.sum()
    total = alpha.sum() + length
    updated = np.empty(n_prior)
    psi_total = digamma(total)
    for _ in range(limit):
        for ell in range(n_prior):
            weights[ell] = math.exp(digamma(gamma[ell]) - psi_total)
            updated[ell] = 0.0
        for i in range(distinct.size):
            normalizer = 0.0
            for ell in range(n_prior):
                normalizer += topics[distinct[i], ell] * weights[ell]
            scale = times[i] / normalizer
            for ell in range(n_prior):
                updated[ell] += scale * topics[distinct[i], ell]
        change = 0.0
        for ell in range(n_prior):
            value = alpha[ell] + updated[ell] * weights[ell]
            change += abs(value - gamma[ell])
            gamma[ell] = value
        if change < tolerance * length:
            break
    bound = math.lgamma(alpha.sum()) - math.lgamma(total)
    for ell in range(n_prior):
        expected = digamma(gamma[ell]) - psi_total
        weights[ell] = math.exp(expected)
        bound += math.lgamma(gamma[ell]) - math.lgamma(alpha[ell]) + (alpha[ell] - gamma[ell]) * expected
    for i in range(distinct.size):
        normalizer = 0.0
        for ell in range(n_prior):
            normalizer += topics[distinct[i], ell] * weights[ell]
        bound += times[i] * math.log(normalizer)
    return bound


@kernel
def add_weights(topics, distinct, times, weights, factor, target):
    """target[v, l] += factor · (count of v) · q(z = l | v) / Φ^y_vl."""
    for i in range(distinct.size):
        normalizer = 0.0
        for ell in range(weights.size):
            normalizer += topics[distinct[i], ell] * weights[ell]
        for ell in range(weights.size):
            target[distinct[i], ell] += factor * times[i] * weights[ell] / normalizer


@kernel
def count_words(text, distinct, times):
    """Distinct words and their counts of a document whose equal words are adjacent; returns U."""
    tokens = np.empty(text.size, np.int64)
    size = distinct_words(text, tokens, distinct)
    times[:size] = 0.0
    for i in range(text.size):
        times[tokens[i]] += 1.0
    return size


@kernel
def variational_documents(
    documents, offsets, words, class_topics, log_prior, alpha, tolerance, limit, bounds, probabilities, gammas
):
    """B_y, p(y | w) and γ of every document and class: bounds, probabilities (D, C), gammas (D, C, L)."""
    n_classes = log_prior.size
    weights, scores = np.empty(alpha.size), np.empty(n_classes)
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        distinct, times = np.empty(text.size, np.int64), np.empty(text.size)
        size = count_words(text, distinct, times)
        for y in range(n_classes):
            gammas[d, y] = alpha + text.size / alpha.size
            bounds[d, y] = fit_document(
                class_topics[y], distinct[:size], times[:size], alpha, tolerance, limit, gammas[d, y], weights
            )
        scores[:] = log_prior + bounds[d]
        scores -= scores.max()
        probabilities[d] = np.exp(scores)
        probabilities[d] /= probabilities[d].sum()


@kernel
def variational_weights(
    documents,
    offsets,
    words,
    labels,
    class_topics,
    probabilities,
    alpha,
    tolerance,
    limit,
    discriminative,
    gammas,
    weights,
):
    """Add Σ_d c_dy Σ_n δ(v, w_dn) q(z_dn = l | y)/Φ^y_vl to weights[y, v, l]; all from the γ given, refined.

    discriminative: c_dy = δ(y, y_d) − p(y | w_d), so that ∂ Σ_d log p(y_d | w_d) / ∂T^y = Φᵀ weights[y];
    else c_dy = δ(y, y_d), or p(y | w_d) where the label is missing, so that the expected word-topic counts
    are Φ ∘ Σ_y weights[y] T^yᵀ.
    """
    n_classes = class_topics.shape[0]
    theta = np.empty(alpha.size)
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        distinct, times = np.empty(text.size, np.int64), np.empty(text.size)
        size = count_words(text, distinct, times)
        for y in range(n_classes):
            factor = 1.0 if y == labels[d] else 0.0
            if discriminative:
                factor -= probabilities[d, y]
            elif labels[d] < 0:
                factor = probabilities[d, y]
            if factor != 0.0:
                fit_document(
                    class_topics[y],
                    distinct[:size],
                    times[:size],
                    alpha,
                    tolerance,
                    limit,
                    gammas[d, y],
                    theta,
                )
                add_weights(class_topics[y], distinct[:size], times[:size], theta, factor, weights[y])

"""Kernels for learning T by sampling: the Monte-Carlo EM gradient (4.17) and the local update of Φ."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform

from ._chains import class_sums, lanes_for, lay_out, start_lanes, sweep_lanes
from ._simd import LANES

__all__ = ["gradient_documents", "local_topics"]


@kernel
def gradient_documents(
    documents,
    offsets,
    words,
    labels,
    class_topics,
    log_prior,
    alpha,
    burn_in,
    n_samples,
    mixed,
    seed,
    posterior,
    weights,
):
    """Add to weights[y, v, l] the sums that eq. 4.17 needs; ∂ log p / ∂T^y = Φᵀ weights[y].

    mixed:  weights[y, v, l] = Σ_d Σ_{y'} mean_i [δ(y',y_d) δ(y,y_d) − p̂(y'|w_d) p(y|z^{(i)y'}, w_d)]
                               Σ_n δ(v, w_dn) δ(l, z_dn^{(i)y'}) / Φ^y_vl                      (4.17)
    direct: the same with Σ_{y'} p̂(y') E_{y'}[p(y|z) g(z)] = p̂(y) E_y[g(z)] put in: one chain's samples per
    class instead of C², the same expectation.

    labels: (D,); weights: (C, V, L) float64; posterior: (D, C), p̂, from samples of its own (footnote 12).
    """
    n_classes, n_prior = log_prior.size, alpha.size
    chains = max(1, LANES // n_classes)
    width = lanes_for(n_classes, chains)
    n_sweeps = -(-n_samples // chains)
    everyone = np.arange(n_classes)
    state, pending = np.empty(4 * width, np.uint32), np.empty(width, np.int32)
    counts, cumulative = np.empty(n_prior * width, np.float32), np.empty(n_prior * width, np.float32)
    values = np.empty(n_classes)
    targets = n_classes if mixed else 1
    for d in documents:
        label = labels[d]
        text = words[offsets[d] : offsets[d + 1]]
        tokens, distinct, likelihood, log_likelihood = lay_out(class_topics, everyone, text, width)
        topics = np.empty(text.size * width, np.int32)
        start_lanes(tokens, likelihood, alpha, state, stream(seed, d, 4), topics, counts, cumulative, pending)
        for _ in range(burn_in):
            sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
        # occupied[y', y, u, l]: how often tokens of word u had topic l in chain y', times p(y | z) if mixed
        occupied = np.zeros((n_classes, targets, distinct.size, n_prior))
        responsible = np.empty((distinct.size, n_prior))
        for _ in range(n_sweeps):
            sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
            for j in range(n_classes * chains):
                chain = j % n_classes
                if mixed:  # p(y | z, w), eq. 4.16
                    class_sums(tokens, log_likelihood, n_prior, n_classes, width, topics, j, values)
                    values += log_prior
                    values -= values.max()
                    values[:] = np.exp(values)
                    values /= values.sum()
                else:
                    values[0] = 1.0
                for i in range(tokens.size):
                    ell = topics[i * width + j]
                    for y in range(targets):
                        occupied[chain, y, tokens[i], ell] += values[y]
        scale = 1.0 / (n_sweeps * chains)
        for y in range(n_classes):
            responsible[:] = 0.0
            if mixed:
                for chain in range(n_classes):
                    responsible -= posterior[d, chain] * occupied[chain, y]
                if y == label:
                    for target in range(n_classes):  # Σ_y p(y | z) = 1: plain counts again
                        responsible += occupied[y, target]
            else:
                responsible += ((1.0 if y == label else 0.0) - posterior[d, y]) * occupied[y, 0]
            for i in range(distinct.size):
                for ell in range(n_prior):
                    weights[y, distinct[i], ell] += scale * responsible[i, ell] / class_topics[y, distinct[i], ell]


@kernel
def local_topics(
    documents, offsets, words, labels, class_topics, phi, support, sizes, by_row, alpha, n_sweeps, seed, z, u
):
    """Table 4.1, steps 3b and 3c: n_sweeps of z | y, w, T, Φ (eq. 4.22), then one draw of u (eq. 4.24).

    z, u: (N,) int32, the result; phi: (V, K).
    """
    n_prior = alpha.size
    width = LANES
    state, pending = np.empty(4 * width, np.uint32), np.empty(width, np.int32)
    counts, cumulative = np.empty(n_prior * width, np.float32), np.empty(n_prior * width, np.float32)
    running = np.empty(support.shape[1])
    one_class = np.zeros(1, np.int64)
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        y = labels[d]
        one_class[0] = y
        tokens, _, likelihood, _ = lay_out(class_topics, one_class, text, width)
        topics = np.empty(text.size * width, np.int32)
        start_lanes(tokens, likelihood, alpha, state, stream(seed, d, 5), topics, counts, cumulative, pending)
        for _ in range(n_sweeps):
            sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
        position = stream(seed, d, 6)
        for i in range(text.size):
            ell = topics[i * width]
            total = 0.0
            for s in range(sizes[y]):
                total += phi[text[i], support[y, s]] * by_row[y, s, ell]
                running[s] = total
            position += GOLDEN
            threshold = uniform(position) * total
            s = 0
            while s < sizes[y] - 1 and running[s] <= threshold:
                s += 1
            z[offsets[d] + i] = ell
            u[offsets[d] + i] = support[y, s]

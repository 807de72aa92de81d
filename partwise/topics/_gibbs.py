"""Collapsed Gibbs sweeps: LDA, and the joint (u, z) step of DiscLDA with Φ integrated out.

Both keep the word-topic counts m_k^{(v)} (eq. 4.19) as ``table``, (V·K,) float32 flat (whole numbers are
exact up to 2^24), and their sums over words as ``totals``, (K,) int64.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, mix, uniform

from ._simd import BLOCK, draw_topic, prefetch

__all__ = ["count_topics", "joint_sweep", "lda_sweep", "padded"]

AHEAD = 3  # how many tokens before its use a row of the table is asked for


def padded(n_topics: int) -> int:
    """K rounded up to whole vectors."""
    return -(-n_topics // BLOCK) * BLOCK


@kernel
def count_topics(words, topics, table, width):
    """Add every token's (word, topic) to the flat table whose rows are ``width`` long."""
    for i in range(words.size):
        table[np.int64(words[i]) * width + topics[i]] += np.float32(1)


@kernel
def lda_sweep(documents, offsets, starts, ends, words, topics, table, totals, alpha, beta, n_topics, start):
    """Redraw the topic of every token in starts[d]:ends[d] of the documents d in ``documents``.

    p(z_dn = k | rest) ∝ (α_k + n_{n̄,k}^{(d)}) (β + m_{n̄,k}^{(v)}) / (Vβ + m_{n̄,k}^{(·)})

    (Griffiths & Steyvers 2004; eq. 4.25 with T = I). The first and the last factor are kept as one
    vector a_k, of which a token changes two entries, so a token costs K/16 vector operations.
    words, topics: (N,) int32; alpha: (width,) float32; O(N·K).
    """
    width = alpha.size
    blocks = width // BLOCK
    one = np.float32(1)
    n_words = table.size // width
    smooth, prior = np.float32(n_words * beta), np.float32(beta)
    counts = np.zeros(width, np.float32)
    weights = np.zeros(width, np.float32)
    inverse = np.zeros(width, np.float32)
    sums = np.empty(blocks + 1, np.float32)
    for k in range(n_topics):
        inverse[k] = one / (np.float32(totals[k]) + smooth)
    position = start
    stride = np.uint64(width)
    last_topic = np.uint64(n_topics - 1)
    last_token = np.uint64(words.size - 1)
    for d in documents:
        for k in range(n_topics):
            counts[k] = np.float32(0)
        for i in range(offsets[d], offsets[d + 1]):
            counts[topics[i]] += one
        for k in range(n_topics):
            weights[k] = (counts[k] + alpha[k]) * inverse[k]
        for i in range(np.uint64(starts[d]), np.uint64(ends[d])):
            row = np.uint64(words[i]) * stride
            prefetch(table, np.uint64(words[min(i + np.uint64(AHEAD), last_token)]) * stride, blocks)
            k = np.uint64(topics[i])
            table[row + k] -= one
            counts[k] -= one
            totals[k] -= 1
            inverse[k] = one / (np.float32(totals[k]) + smooth)
            weights[k] = (counts[k] + alpha[k]) * inverse[k]
            position += GOLDEN
            u = np.float32(mix(position) >> np.uint64(40)) * np.float32(2.0**-24)
            k = min(np.uint64(draw_topic(weights, table, row, prior, sums, blocks, u)), last_topic)
            topics[i] = k
            table[row + k] += one
            counts[k] += one
            totals[k] += 1
            inverse[k] = one / (np.float32(totals[k]) + smooth)
            weights[k] = (counts[k] + alpha[k]) * inverse[k]


@kernel
def joint_sweep(
    documents,
    offsets,
    words,
    labels,
    z,
    u,
    table,
    totals,
    alpha,
    beta,
    support,
    sizes,
    by_row,
    by_column,
    start,
):
    """Redraw (u_dn, z_dn) of every token of ``documents``, eq. 4.25, without visiting all L·K pairs.

    p(u = k, z = l | rest) ∝ f_k(v) T_kl^y (α_l + n_l),  f_k(v) = (β + m_k^{(v)}) / (Vβ + m_k^{(·)})

    Summed over l this is f_k(v) s_k with s = T^y (α + n), so k is drawn first, then l given k; and s
    changes by one column of T^y when n_l does. A token costs O(S + L), S the number of non-zero rows of
    T^y: 15 + 15 instead of 110·15 for the block transformation (4.11) on 20 Newsgroups, K + L for a full one.

    labels: (D,) int64; z, u: (N,) int32; support: (C, S) int32, the non-zero rows of each T^y, of which
    the first sizes[y] count; by_row: (C, S, L) and by_column: (C, L, S) float64, those rows.
    """
    n_prior = alpha.size
    n_topics = totals.size
    smooth = (table.size // n_topics) * beta
    counts = np.empty(n_prior)
    mixture = np.empty(support.shape[1])
    cumulative = np.empty(max(support.shape[1], n_prior))
    place = np.zeros(n_topics, np.int64)
    inverse = np.empty(n_topics)
    for k in range(n_topics):
        inverse[k] = 1.0 / (totals[k] + smooth)
    position = start
    for d in documents:
        y = labels[d]
        size = sizes[y]
        for i in range(size):
            place[support[y, i]] = i
        counts[:] = alpha
        for n in range(offsets[d], offsets[d + 1]):
            counts[z[n]] += 1.0
        for i in range(size):
            mixture[i] = 0.0
            for ell in range(n_prior):
                mixture[i] += by_row[y, i, ell] * counts[ell]
        for n in range(offsets[d], offsets[d + 1]):
            row = np.int64(words[n]) * n_topics
            k, ell = u[n], z[n]
            table[row + k] -= np.float32(1)
            totals[k] -= 1
            inverse[k] = 1.0 / (totals[k] + smooth)
            counts[ell] -= 1.0
            for i in range(size):
                mixture[i] -= by_column[y, ell, i]
            total = 0.0
            for i in range(size):
                k = support[y, i]
                total += max(mixture[i], 0.0) * (table[row + k] + beta) * inverse[k]
                cumulative[i] = total
            position += GOLDEN
            threshold = uniform(position) * total
            i = 0
            while i < size - 1 and cumulative[i] <= threshold:
                i += 1
            k = support[y, i]
            total = 0.0
            for ell in range(n_prior):
                total += by_row[y, i, ell] * counts[ell]
                cumulative[ell] = total
            position += GOLDEN
            threshold = uniform(position) * total
            ell = 0
            while ell < n_prior - 1 and cumulative[ell] <= threshold:
                ell += 1
            u[n], z[n] = k, ell
            table[row + k] += np.float32(1)
            totals[k] += 1
            inverse[k] = 1.0 / (totals[k] + smooth)
            counts[ell] += 1.0
            for i in range(size):
                mixture[i] += by_column[y, ell, i]

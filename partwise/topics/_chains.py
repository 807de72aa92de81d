"""Many Gibbs chains over the prior topics z_d of one document, one chain per vector lane.

With Φ given, p(z_d | y, w_d, T, Φ) is sampled by (eq. 4.22)

    p(z_dn = l | rest) ∝ Φ^y_{w_dn, l} (α_l + n_{n̄,l}^{(d)}),   Φ^y = Φ T^y   (eqs. 4.3, 4.20)

A chain alone waits for its own last draw; W chains side by side fill the vector unit. Lane j samples
class j mod C: lanes are the classes in order, repeated when there are few, and padded to whole vectors.

Arrays of one document with N tokens and U distinct words: ``tokens`` (N,) int64 places in 0..U−1;
``likelihood`` and ``log_likelihood`` (U·L·W,) float32; ``topics`` (N·W,) int32; ``counts`` (L·W,) float32,
α_l + n_l of each lane, less the topics in ``pending`` (W,) int32 that ``draw_lanes`` still has to add.
"""

from __future__ import annotations

import functools

import numpy as np

from partwise._compile import composite, kernel
from partwise._random import fill_lanes

from ._simd import LANES, draw_lanes, score_lanes

__all__ = [
    "accumulate_counts",
    "class_sums",
    "lane_sums",
    "lanes_for",
    "lay_out",
    "relative_to",
    "score_sweep",
    "start_lanes",
    "sweep_lanes",
]

# Helpers whose sums may be reordered are inlined into every kernel that calls them: two compiled copies of one,
# optimised apart, could differ in the last bit, and which of them ran would depend on what was read from the cache.
inlined = functools.partial(composite, forceinline=True)


@kernel
def lanes_for(n_classes, n_chains):
    """Number of lanes for ``n_chains`` chains per class: whole vectors."""
    return -(-n_classes * n_chains // LANES) * LANES


@kernel
def distinct_words(words, tokens, distinct):
    """Fill ``distinct`` with the different words of a document whose equal words are adjacent, and
    ``tokens`` with each token's place among them; returns U."""
    size = 0
    for i in range(words.size):
        if i == 0 or words[i] != words[i - 1]:
            distinct[size] = words[i]
            size += 1
        tokens[i] = size - 1
    return size


@kernel
def lay_out(class_topics, classes, words, width):
    """(tokens, distinct, likelihood, log_likelihood) of one document in ``width`` lanes.

    likelihood[u, l, j] = Φ^{classes[j mod C]}_{distinct[u], l}, flat. class_topics: (all classes, V, L) float32;
    classes: (C,) int64, those that take part.
    """
    tokens, distinct = np.empty(words.size, np.int64), np.empty(words.size, np.int64)
    distinct = distinct[: distinct_words(words, tokens, distinct)]
    n_prior = class_topics.shape[2]
    likelihood = np.empty(distinct.size * n_prior * width, np.float32)
    log_likelihood = np.empty(distinct.size * n_prior * width, np.float32)
    for u in range(distinct.size):
        for ell in range(n_prior):
            base = (u * n_prior + ell) * width
            for c in range(classes.size):
                value = class_topics[classes[c], distinct[u], ell]
                logarithm = np.log(value)
                for j in range(c, width, classes.size):
                    likelihood[base + j] = value
                    log_likelihood[base + j] = logarithm
    return tokens, distinct, likelihood, log_likelihood


@kernel
def relative_to(reference, width, log_likelihood):
    """Turn log Φ^c into log Φ^c/Φ^reference, in place: the estimators need nothing but such ratios."""
    for row in range(0, log_likelihood.size, width):
        value = log_likelihood[row + reference]
        for j in range(width):
            log_likelihood[row + j] -= value


@kernel
def start_lanes(tokens, likelihood, alpha, state, start, topics, counts, cumulative, pending):
    """Seed the generators and draw the first topics one token after another, each given those before."""
    width = pending.size
    n_prior = alpha.size
    fill_lanes(state, start)
    for ell in range(n_prior):
        for j in range(width):
            counts[ell * width + j] = alpha[ell]
    pending[:] = -1
    topics[: tokens.size * width] = -1  # no old topic to take out
    for i in range(tokens.size):
        place = tokens[i] * n_prior * width
        draw_lanes(state, likelihood, place, counts, cumulative, n_prior, width // LANES, topics, i, pending)


@kernel
def sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending):
    """Redraw every token of every lane once; O(N·L·W)."""
    width = pending.size
    for i in range(tokens.size):
        place = tokens[i] * n_prior * width
        draw_lanes(state, likelihood, place, counts, cumulative, n_prior, width // LANES, topics, i, pending)


@kernel
def score_sweep(tokens, likelihood, table, n_prior, state, topics, counts, cumulative, pending, scores, sums):
    """``sweep_lanes``, and sums[j] = Σ_n table[w_n, z_n, j] at the new topics of every lane; O(N·L·W).

    sums: (W,) float64, the result; scores: (W,) float32, emptied into it every few tokens to keep its digits.
    """
    width = pending.size
    sums[:] = 0.0
    for begin in range(0, tokens.size, 32):
        scores[:] = np.float32(0)
        for i in range(begin, min(begin + 32, tokens.size)):
            place = tokens[i] * n_prior * width
            score_lanes(
                state, likelihood, place, counts, cumulative, n_prior, width // LANES, topics, i, pending, table, scores
            )
        for j in range(width):
            sums[j] += scores[j]


@kernel
def accumulate_counts(alpha, counts, pending, sums):
    """Add the current n_l of every lane to ``sums`` (L·W,) float64."""
    width = pending.size
    for ell in range(alpha.size):
        for j in range(width):
            sums[ell * width + j] += counts[ell * width + j] - alpha[ell]
    for j in range(width):
        if pending[j] >= 0:
            sums[pending[j] * width + j] += 1.0


@inlined
def class_sums(tokens, table, n_prior, n_classes, width, topics, lane, values):
    """values[c] = Σ_n table[w_n, z_n, c] at the topics of one lane, for every class; (C,) float64, O(N·C).

    With log Φ^c as the table that is log p(w_d | z_d, y = c, T, Φ): since p(z_d) does not depend on the class, ratios
    of the joint densities q_c(z_d) are ratios of these (eqs. 4.16, 4.33). Lanes 0..C−1 hold the classes in order.
    """
    for c in range(n_classes):
        values[c] = 0.0
    for i in range(tokens.size):
        row = (tokens[i] * n_prior + topics[i * width + lane]) * width
        for c in range(n_classes):
            values[c] += table[row + c]


@inlined
def lane_sums(tokens, table, n_prior, topics, sums):
    """sums[j] = Σ_n table[w_n, z_n, j] at the topics of lane j, for every lane; (W,) float64, O(N·W)."""
    width = sums.size
    sums[:] = 0.0
    for i in range(tokens.size):
        base = tokens[i] * n_prior * width
        for j in range(width):
            sums[j] += table[base + topics[i * width + j] * width + j]

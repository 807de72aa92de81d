"""Many Gibbs chains over the prior topics z_d of one document, a chain a vector lane.

With Φ given, p(z_d | y, w_d, T, Φ) is sampled by (eq. 4.22)

    p(z_dn = l | rest) ∝ Φ^y_{w_dn, l} (α_l + n_{n̄,l}^{(d)}),   Φ^y = Φ T^y   (eqs. 4.3, 4.20)

A chain alone waits for its own last draw; W chains side by side fill the vector unit. Lane j samples
class j mod C: lanes are the classes in order, repeated when there are few, and padded to whole vectors.

Arrays of one document with N tokens and U distinct words: ``tokens`` (N,) int64 places in 0..U−1;
``likelihood`` and ``log_likelihood`` (U·L·W,) float32; ``topics`` (N·W,) int32; ``counts`` (L·W,) float32,
α_l + n_l of each lane, less the topics in ``pending`` (W,) int32 that ``draw_lanes`` still has to add.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

from ._random import fill_lanes
from ._simd import LANES, draw_lanes

__all__ = [
    "accumulate_counts",
    "class_log_likelihoods",
    "distinct_words",
    "fill_likelihood",
    "lanes_for",
    "own_log_likelihoods",
    "start_lanes",
    "sweep_lanes",
]


@kernel
def lanes_for(n_classes, n_chains):  # type: ignore[no-untyped-def]
    """Number of lanes for ``n_chains`` chains a class: whole vectors."""
    return -(-n_classes * n_chains // LANES) * LANES


@kernel
def distinct_words(words, tokens, distinct):  # type: ignore[no-untyped-def]
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
def fill_likelihood(class_topics, classes, distinct, width, likelihood, log_likelihood):  # type: ignore[no-untyped-def]
    """likelihood[u, l, j] = Φ^{classes[j mod C]}_{distinct[u], l} and its logarithm.

    class_topics: (all classes, V, L) float32; classes: (C,) int64, those that take part.
    """
    n_prior = class_topics.shape[2]
    for u in range(distinct.size):
        for ell in range(n_prior):
            base = (u * n_prior + ell) * width
            for c in range(classes.size):
                value = class_topics[classes[c], distinct[u], ell]
                logarithm = np.log(value)
                for j in range(c, width, classes.size):
                    likelihood[base + j] = value
                    log_likelihood[base + j] = logarithm


@kernel
def start_lanes(tokens, likelihood, alpha, state, start, topics, counts, cumulative, pending):  # type: ignore[no-untyped-def]
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
def sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending):  # type: ignore[no-untyped-def]
    """Redraw every token of every lane once; O(N·L·W)."""
    width = pending.size
    for i in range(tokens.size):
        place = tokens[i] * n_prior * width
        draw_lanes(state, likelihood, place, counts, cumulative, n_prior, width // LANES, topics, i, pending)


@kernel
def accumulate_counts(alpha, counts, pending, sums):  # type: ignore[no-untyped-def]
    """Add the current n_l of every lane to ``sums`` (L·W,) float64."""
    width = pending.size
    for ell in range(alpha.size):
        for j in range(width):
            sums[ell * width + j] += counts[ell * width + j] - alpha[ell]
    for j in range(width):
        if pending[j] >= 0:
            sums[pending[j] * width + j] += 1.0


@kernel
def class_log_likelihoods(tokens, log_likelihood, n_prior, n_classes, width, topics, lane, values):  # type: ignore[no-untyped-def]
    """values[c] = Σ_n log Φ^c at the topics of one lane, for every class; (C,) float64, O(N·C).

    That is log p(w_d | z_d, y = c, T, Φ): since p(z_d) does not depend on the class, ratios of the joint
    densities q_c(z_d) are ratios of these (eqs. 4.16, 4.33). Lanes 0..C−1 hold the classes in order.
    """
    for c in range(n_classes):
        values[c] = 0.0
    for i in range(tokens.size):
        row = (tokens[i] * n_prior + topics[i * width + lane]) * width
        for c in range(n_classes):
            values[c] += log_likelihood[row + c]


@kernel
def own_log_likelihoods(tokens, log_likelihood, n_prior, topics, reference, own, at_reference):  # type: ignore[no-untyped-def]
    """For every lane j: Σ_n log Φ of its own class and of the reference class at its topics; O(N·W)."""
    width = own.size
    own[:] = 0.0
    at_reference[:] = 0.0
    for i in range(tokens.size):
        base = tokens[i] * n_prior * width
        for j in range(width):
            row = base + topics[i * width + j] * width
            own[j] += log_likelihood[row + j]
            at_reference[j] += log_likelihood[row + reference]

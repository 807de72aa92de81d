"""The entropy of a chain's distribution from its marginals alone."""

from __future__ import annotations

import math

from partwise._compile import kernel
from partwise.structures._chain_kernels import ChainSpace
from partwise.structures.base import marginal_entropy, part_count


@kernel
def _row_entropy(parts, direction, start, n):
    """(−Σ_b μ_b log(μ_b/μ), −Σ_b δ_b log(μ_b/μ)) over a row of n parts, μ its sum: H(b | row) times μ, and slope."""
    total = 0.0
    for r in range(start, start + n):
        total += parts[r]
    value, slope = 0.0, 0.0
    for r in range(start, start + n):
        if parts[r] > 0.0:
            size = math.log(parts[r] / total)
            value -= parts[r] * size
            slope -= direction[r] * size
    return value, slope


@marginal_entropy.register(ChainSpace)
def entropy_of_blocks(space, i, parts, direction):
    """H = H(y_0) + Σ_{t≥1} H(y_t | history of t), O(T·L^{k+1}) logarithms. Untied chains only.

    The distribution of largest entropy with given marginals is Markov, so its entropy is that of the first label and
    of every label after its history; the rows of a block are the histories.
    """
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    value, slope = _row_entropy(parts, direction, 0, n_labels)
    for r in range(length * n_labels, part_count(space, i), n_labels):
        more, steeper = _row_entropy(parts, direction, r, n_labels)
        value += more
        slope += steeper
    return value, slope

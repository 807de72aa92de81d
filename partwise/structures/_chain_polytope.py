"""Kernels of the untied chain that read its marginals: the support of a distribution, and its Gibbs parameters."""

from __future__ import annotations

import math

import numpy as np

from partwise.structures._chain_kernels import ChainSpace, block_start, state_count, viterbi
from partwise.structures.base import LEAST_MASS, gibbs_scores, part_count, support_argmin


@support_argmin.register(ChainSpace)
def _support_argmin(space, i, scores, mass, work, parts):
    """Viterbi on the negative scores, −inf where there is no mass. Untied chains only."""
    n = part_count(space, i)
    length = space.offsets[i + 1] - space.offsets[i]
    # behind what Viterbi uses of the work: masked scores, then one row per position
    start = n + length * state_count(space, space.order)
    inside = work[start : start + n]
    for r in range(n):
        inside[r] = -scores[r] if mass[r] > LEAST_MASS else -np.inf
    return -viterbi(space, i, inside, work, parts)


@gibbs_scores.register(ChainSpace)
def _gibbs_scores(space, i, mass, scores):
    """log μ_0(b), and log μ_t(h, b) − log μ_t(h) for the transitions: p(y) = μ_0(y_0) Π_t μ_t(y_t | h_t). Untied only.

    Each clique divided by what it shares with the one before (Bartlett et al. 2004, §5). Labels after the first
    add nothing of their own.
    """
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    for r in range(length * n_labels):
        alone = mass[r] if r < n_labels else 1.0
        scores[r] = math.log(alone) if alone > 0.0 else -np.inf
    for t in range(1, length):
        at = block_start(space, length, t)
        for h in range(space.powers[min(t, space.order)]):
            row = at + h * n_labels
            total = 0.0
            for b in range(n_labels):
                total += mass[row + b]
            for b in range(n_labels):
                scores[row + b] = math.log(mass[row + b] / total) if mass[row + b] > 0.0 else -np.inf

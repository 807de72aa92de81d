"""The most probable alignment of one direction: a_j for every word j, −1 for the empty word."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.alignment._posteriors import HMM

__all__ = ["best_positions"]


@kernel
def _best_hmm(n, m, margin, jumps, p0, work, best):
    """δ_t(i, aligned) = (1 − p0) p(t | i) max_i' δ_{t−1}(i') p(i | i');  δ_t(i, empty) = p0 p(t | NULL) δ_{t−1}(i).

    In logarithms. ``from_[t, i]`` is the position before; ``empty[t, i]`` whether word t has none at the state whose
    last position is i. State n is the start.
    """
    reach = jumps.starts.shape[0] - 1
    size = n + 2 * margin
    score, new = np.full(n + 1, -np.inf), np.full(n + 1, -np.inf)
    score[n] = 0.0
    from_ = np.empty((m, n + 1), np.int32)
    empty = np.empty((m, n + 1), np.bool_)
    stay, go = np.log(p0), np.log(1.0 - p0)
    weights, inverse = np.log(jumps.weights), np.log(jumps.inverse)
    starts = np.log(jumps.starts) + np.log(jumps.start_inverse[n])
    for t in range(m):
        nothing = stay + np.log(work.null[t])
        for i in range(n):
            top, before = score[n] + starts[min(i, reach)], n
            for k in range(n):
                value = score[k] + weights[reach + max(-reach, min(reach, i - k))] + inverse[k, n - 1 - k]
                if value > top:
                    top, before = value, k
            emitted = work.posteriors[t * size + margin + i]
            top += go + (np.log(emitted) if emitted > 0.0 else -np.inf)
            idle = score[i] + nothing
            empty[t, i] = idle > top
            from_[t, i] = i if idle > top else before
            new[i] = max(idle, top)
        empty[t, n], from_[t, n], new[n] = True, n, score[n] + nothing
        score, new = new, score
    state = np.argmax(score)
    for t in range(m - 1, -1, -1):
        best[t] = -1 if empty[t, state] else state
        state = from_[t, state]


@kernel
def best_positions(model, diagonal, n, m, margin, jumps, p0, work, best):
    """best[t] ← the position of word t in the most probable alignment, from p(t | i) in ``work``."""
    if model == HMM:
        _best_hmm(n, m, margin, jumps, p0, work, best)
        return
    reach = jumps.starts.shape[0] - 1
    for t in range(m):
        centre = (2 * t + 1) * n // (2 * m)
        top, chosen = np.float32(p0) * work.null[t], -1
        for i in range(n):
            prior = np.float32((1.0 - p0) / n)
            if diagonal:
                weight = jumps.weights[reach + max(-reach, min(reach, i - centre))]
                prior = np.float32(1.0 - p0) * jumps.inverse[centre, n - 1 - centre] * weight
            value = prior * work.posteriors[t * (n + 2 * margin) + margin + i]
            if value > top:
                top, chosen = value, i
        best[t] = chosen

"""Kernels of the chain beyond argmax and marginals: k-best lists, samples, feasibility."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform
from partwise.structures._chain_kernels import (
    ChainSpace,
    block_start,
    log_forward,
    masked,
    state_count,
)
from partwise.structures.base import kbest, part_count, sample


@kbest.register(ChainSpace)
def _kbest(space, i, scores, work, parts, values):
    """Exact k-best Viterbi: each state keeps its k best prefixes, merged from the lists of its predecessors.

    O(T·L^k·(L + k·L)) time; the lists live in arrays of their own because their size depends on k.
    """
    k = values.shape[0]
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    s = masked(space, i, scores, work)
    width = state_count(space, space.order)
    best = np.full((length, width, k), -np.inf)  # score of the prefix of rank r that ends in this state
    source = np.zeros((length, width, k), np.int32)  # its previous state …
    rank = np.zeros((length, width, k), np.int32)  # … and its rank there
    head = np.zeros(width, np.int32)
    for b in range(n_labels):
        best[0, b, 0] = s[b]
    for t in range(1, length):
        previous = state_count(space, t - 1)
        groups = state_count(space, t) // n_labels
        at = block_start(space, length, t)
        for h in range(groups * n_labels):
            b = h % n_labels
            head[:previous] = 0
            for r in range(k):
                top = -np.inf
                chosen = -1
                for p in range(h // n_labels, previous, groups):
                    if head[p] < k:
                        x = best[t - 1, p, head[p]] + s[at + p * n_labels + b]
                        if x > top:
                            top = x
                            chosen = p
                if chosen < 0:
                    break
                best[t, h, r] = top + s[t * n_labels + b]
                source[t, h, r] = chosen
                rank[t, h, r] = head[chosen]
                head[chosen] += 1

    last = length - 1
    head[:] = 0
    n = part_count(space, i)
    for r in range(k):
        state = -1
        top = -np.inf
        for h in range(state_count(space, last)):
            if head[h] < k and best[last, h, head[h]] > top:
                top = best[last, h, head[h]]
                state = h
        if state < 0:
            return r
        values[r] = top
        place = head[state]
        head[state] += 1
        parts[r, :n] = 0.0
        for t in range(last, -1, -1):
            b = state % n_labels
            parts[r, t * n_labels + b] = 1.0
            if t > 0:
                before = source[t, state, place]
                place = rank[t, state, place]
                parts[r, block_start(space, length, t) + before * n_labels + b] += 1.0
                state = before
    return k


@sample.register(ChainSpace)
def _(space, i, scores, work, seed, draws):
    """Forward filtering, backward sampling: p(h | h') ∝ exp(a_{t−1}(h) + s_t(h, b)) from the last state on.

    In the log domain, one uniform number per position and draw. Returns log Z; draws nothing if it is −inf.
    """
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    width = state_count(space, space.order)
    alpha = work[n:]  # (length, width), flat
    peaks = work[n + length * width :]  # (length,)
    log_partition = log_forward(space, length, s, alpha, peaks)
    if log_partition == -np.inf:
        return log_partition
    last = alpha[(length - 1) * width :]
    states = state_count(space, length - 1)
    log_total = 0.0
    for h in range(states):
        log_total += math.exp(last[h])
    log_total = math.log(log_total)
    for d in range(draws.shape[0]):
        draws[d, :n] = 0.0
        place = stream(seed, i, d)
        state = _draw(last, states, log_total, uniform(place))
        for t in range(length - 1, 0, -1):
            b = state % n_labels
            draws[d, t * n_labels + b] = 1.0
            groups = state_count(space, t) // n_labels
            at = block_start(space, length, t)
            total = alpha[t * width + state] + peaks[t] - s[t * n_labels + b]  # log Σ_h of the weights below
            place += GOLDEN
            left = uniform(place)
            chosen = -1
            for h in range(state // n_labels, state_count(space, t - 1), groups):
                x = math.exp(alpha[(t - 1) * width + h] + s[at + h * n_labels + b] - total)
                if x > 0.0:
                    chosen = h  # the last possible one, should rounding leave a remainder
                    left -= x
                    if left < 0.0:
                        break
            draws[d, at + chosen * n_labels + b] += 1.0
            state = chosen
        draws[d, state] = 1.0
    return log_partition


@kernel
def _draw(log_weights, count, log_total, u):
    """h < count drawn with probability exp(log_weights[h] − log_total), by inversion."""
    chosen = -1
    left = u
    for h in range(count):
        x = math.exp(log_weights[h] - log_total)
        if x > 0.0:
            chosen = h
            left -= x
            if left < 0.0:
                break
    return chosen


@kernel
def first_infeasible(space):
    """The first instance whose constraints allow no output, or −1. Histories matter by their last label."""
    n_labels = space.n_labels
    pairs = space.transitions[: n_labels * n_labels].reshape(n_labels, n_labels)
    free = space.allowed.shape[0] == 0
    for i in range(space.offsets.shape[0] - 1):
        reached = np.ones(n_labels, np.bool_)
        for row in range(space.offsets[i], space.offsets[i + 1]):
            here = np.zeros(n_labels, np.bool_)
            for b in range(n_labels):
                if free or space.allowed[row, b] != 0:
                    for a in range(n_labels):
                        if reached[a] and (row == space.offsets[i] or pairs[a, b] != 0):
                            here[b] = True
            reached = here
        if not reached.any():
            return i
    return -1

"""Kernels of the chain: forward–backward and Viterbi over histories of up to ``order`` labels.

A position t ≥ 1 has one part for each (history h, label b), h being the last j = min(t, order) labels; the
parts of one position form a block of L^j · L scores, histories in lexicographic order. A state at t is the
history that t hands on. From state h the label b leads to state (h mod M)·L + b, where M·L is the number of
states at t, so that one loop, contiguous over b, serves every order.

Work is done in the exponential domain with a rescaling at every position. Forward values smaller than FLOOR,
or scores that spread by more than SPREAD, might lose an output that later scores would have made the only
one; then the whole instance is done again in the log domain, which is exact for any finite scores.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import (
    add_scaled,
    best_row,
    exp_shifted,
    fill,
    largest,
    multiply_sum,
    normalise,
    outer_add,
    rows_dot,
    rows_max,
    rows_sum,
    smallest_finite,
)
from partwise._vector_rows import extent, weigh_row
from partwise._vectors import TILE
from partwise.structures.base import argmax, marginals, part_count, work_size

FLOOR = 1e-100
SPREAD = 200.0
NEGLIGIBLE = -40.0  # e^−40 is below the rounding of a sum whose largest term is 1


class ChainSpace(NamedTuple):
    """Packed chains. L labels; instance i has positions offsets[i]:offsets[i + 1]."""

    offsets: NDArray[np.int64]  # (n + 1,)
    n_labels: int
    order: int
    powers: NDArray[np.int64]  # (order + 1,) powers[j] = L^j, the number of histories of j labels
    blocks: NDArray[np.int64]  # (order + 2,) start of the block of history length j, after the labels' parts
    stride: int  # from one position's block to the next: 0 where positions share one block (tied)
    allowed: NDArray[np.uint8]  # (total positions, L), or (0, L) where every label is
    transitions: NDArray[np.uint8]  # (blocks[order + 1],) tied layout, or (0,) where every transition is


@kernel
def block_start(space, length, t):
    """Number of the first part of position t ≥ 1, after the length·L label parts."""
    k = space.order
    start = length * space.n_labels + space.blocks[min(t, k)]
    return start + (t - k) * space.stride if t > k else start


@kernel
def state_count(space, t):
    """States at position t: histories of min(t + 1, order) labels."""
    return space.powers[min(t + 1, space.order)]


@kernel
def group_sizes(space, t):
    """(groups, sources): the states at t come in groups of L that share their sources, states of t − 1."""
    groups = space.powers[min(t + 1, space.order) - 1]
    return groups, space.powers[min(t, space.order)] // groups if t > 0 else 0


@kernel
def used_parts(space, length):
    """Parts that an instance of this length uses: a short one lacks the longest histories of a tied chain."""
    own = max(length - 1 - space.order, 0) * space.stride
    return length * space.n_labels + space.blocks[min(length - 1, space.order) + 1] + own


@part_count.register(ChainSpace)
def _part_count(space, i):
    length = space.offsets[i + 1] - space.offsets[i]
    if space.stride == 0:
        return length * space.n_labels + space.blocks[space.order + 1]
    return used_parts(space, length)


@work_size.register(ChainSpace)
def _work_size(space, i):
    # masked scores and their exponentials; a forward and a backward row per position, one row between
    length = space.offsets[i + 1] - space.offsets[i]
    return 2 * part_count(space, i) + (2 * length + 1) * state_count(space, space.order)


@kernel
def mask_scores(space, i, scores, out):
    """out ← scores with −inf wherever a hard constraint forbids the part."""
    start = space.offsets[i]
    length = space.offsets[i + 1] - start
    n_labels = space.n_labels
    n = part_count(space, i)
    for r in range(n):
        out[r] = scores[r]
    if space.allowed.shape[0] > 0:
        for t in range(length):
            for b in range(n_labels):
                if space.allowed[start + t, b] == 0:
                    out[t * n_labels + b] = -np.inf
    if space.transitions.shape[0] > 0:
        last = space.order if space.stride == 0 else length - 1
        for t in range(1, last + 1):
            at = block_start(space, length, t)
            source = space.blocks[min(t, space.order)]
            size = space.blocks[min(t, space.order) + 1] - source
            for r in range(size):
                if space.transitions[source + r] == 0:
                    out[at + r] = -np.inf


@kernel
def masked(space, i, scores, work):
    """The scores to use: the given ones, or a masked copy in ``work`` if there are hard constraints."""
    if space.allowed.shape[0] > 0 or space.transitions.shape[0] > 0:
        mask_scores(space, i, scores, work)
        return work
    return scores


@argmax.register(ChainSpace)
def viterbi(space, i, scores, work, parts):
    """v_t(h') = s_t(b) + max_h v_{t−1}(h) + s_t(h, b), h' = (h mod M)·L + b; O(T·L^{k+1})."""
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    width = state_count(space, space.order)
    v = work[n:]  # (length, width), flat
    for b in range(n_labels):
        v[b] = s[b]
    groups, sources, at = 1, 0, length * n_labels
    for t in range(1, length):
        if t <= space.order:  # from then on nothing changes but, untied, the block
            groups, sources = group_sizes(space, t)
            at = block_start(space, length, t)
        else:
            at += space.stride
        for g in range(groups):
            new, old, row = t * width + g * n_labels, (t - 1) * width + g, at + g * n_labels
            rows_max(v, new, v, old, groups, s, row, groups * n_labels, sources, n_labels)
            add_scaled(v, new, 1.0, s, t * n_labels, n_labels)

    # Trace back by recomputing the maximum of each step: cheaper than keeping pointers.
    parts[:n] = 0.0
    last = length - 1
    state = 0
    best = -np.inf
    for h in range(groups * n_labels):
        if v[last * width + h] > best:
            best = v[last * width + h]
            state = h
    if best == -np.inf:
        return best
    for t in range(last, 0, -1):
        b = state % n_labels
        parts[t * n_labels + b] = 1.0
        if t < space.order:
            groups, sources = group_sizes(space, t)
            at = block_start(space, length, t)
        source = state // n_labels
        row, step = at + source * n_labels + b, groups * n_labels
        source += groups * best_row(v, (t - 1) * width + source, groups, s, row, step, sources)
        parts[at + source * n_labels + b] += 1.0
        state = source
        at -= space.stride if t > space.order else 0
    parts[state] = 1.0
    return best


@kernel
def _exponentials(scores, start, stop, out):
    """out ← exp(scores − max) over start:stop; returns (maximum, spread), NaN where they spread too far."""
    if stop - start >= TILE:
        top, low = extent(scores, start, stop)
    else:
        top, low = largest(scores, start, stop), smallest_finite(scores, start, stop)
    spread = top - low
    if not (-np.inf < top < np.inf and spread <= SPREAD):
        return np.nan, np.nan
    exp_shifted(scores, start, stop, 1.0, top, out, start)
    return top, spread


# No reordering of sums here: x + y − max(x + y) must be exactly 0 at the maximum, however large x and y are.


@kernel(fast=False)
def _log_sum(x, at, y, start, n):
    """(top, total) with log Σ_j exp(x[at + j] + y[start + j]) = top + log total, over j < n."""
    o, p, m = np.uintp(at), np.uintp(start), np.uintp(n)
    top = -np.inf
    for j in range(m):
        top = max(top, x[o + j] + y[p + j])
    total = 0.0
    if top > -np.inf:
        for j in range(m):
            below = (x[o + j] + y[p + j]) - top
            if below > NEGLIGIBLE:
                total += math.exp(below)
    return top, total


@kernel(fast=False)
def log_forward(space, length, s, alpha, peaks):
    """a_t(h') = s_t(b) + log Σ_h exp(a_{t−1}(h) + s_t(h, b)) − peak_t, whose largest is 0; returns log Z.

    alpha is (T, L^k), flat; peaks is (T,). The peaks are left to log Z alone, so that rounding grows with the
    scores of one position and not with their sum over all.
    """
    n_labels = space.n_labels
    width = state_count(space, space.order)
    log_partition, total = 0.0, 0.0
    for t in range(length):
        old, new = (t - 1) * width, t * width
        states = state_count(space, t)
        groups = states // n_labels
        at = block_start(space, length, t)
        for h in range(states):
            b = h % n_labels
            alpha[new + h] = s[t * n_labels + b]
            if t > 0:
                top, total = -np.inf, 0.0
                for p in range(h // n_labels, state_count(space, t - 1), groups):
                    top = max(top, alpha[old + p] + s[at + p * n_labels + b])
                if top > -np.inf:
                    for p in range(h // n_labels, state_count(space, t - 1), groups):
                        below = (alpha[old + p] + s[at + p * n_labels + b]) - top
                        if below > NEGLIGIBLE:
                            total += math.exp(below)
                alpha[new + h] += top + math.log(total) if total > 0.0 else -np.inf
        best = largest(alpha, new, new + states)
        if best == -np.inf:
            return best
        peaks[t] = best
        log_partition += best
        total = 0.0
        for h in range(states):
            alpha[new + h] -= best
            total += math.exp(alpha[new + h])
    return log_partition + math.log(total)


@kernel(fast=False)
def log_forward_backward(space, i, scores, work, parts):
    """log Z and E[z] by log-sum-exp: exact for scores of any finite size, L^{k+1} exponentials per position.

    b_t(h) = log Σ_b exp(s_{t+1}(h, b) + s_{t+1}(b) + b_{t+1}(h')), each row less its maximum; p(h) and
    p(b | h) are divided by their own sums, because the maxima are gone from a and b.
    """
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    width = state_count(space, space.order)
    alpha = work[n:]  # (length, width), flat
    beta = work[n + length * width :]  # (width,) b_t
    ahead = work[n + (length + 1) * width :]  # (width,) s_{t+1}(b) + b_{t+1}(h')
    log_partition = log_forward(space, length, s, alpha, work[n + (length + 2) * width :])
    fill(parts, 0, n, 0.0)
    if log_partition == -np.inf:
        return log_partition
    for t in range(length - 1, -1, -1):
        states = state_count(space, t)
        groups = state_count(space, t + 1) // n_labels
        at = block_start(space, length, t + 1)
        for h in range(states):
            beta[h] = 0.0
            if t < length - 1:
                top, total = _log_sum(s, at + h * n_labels, ahead, (h % groups) * n_labels, n_labels)
                beta[h] = top + math.log(total) if total > 0.0 else -np.inf
        peak, mass = _log_sum(alpha, t * width, beta, 0, states)
        for h in range(states):
            weight = math.exp((alpha[t * width + h] + beta[h]) - peak) / mass
            parts[t * n_labels + h % n_labels] += weight
            if t < length - 1 and weight > 0.0:
                row, state = at + h * n_labels, (h % groups) * n_labels
                top, total = _log_sum(s, row, ahead, state, n_labels)
                for b in range(n_labels):
                    below = (s[row + b] + ahead[state + b]) - top
                    if below > NEGLIGIBLE:
                        parts[row + b] += weight / total * math.exp(below)
        best = largest(beta, 0, states)
        for h in range(states):
            ahead[h] = (beta[h] - best) + s[t * n_labels + h % n_labels]
    return log_partition


@marginals.register(ChainSpace)
def forward_backward(space, i, scores, work, parts):
    """log Z and E[z] by scaled forward–backward; O(T·L^{k+1}) multiply–adds, one exponential per part."""
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    e = work[n : 2 * n]
    used, labels = used_parts(space, length), length * n_labels
    top, spread = _exponentials(s, 0, labels, e)
    log_partition = length * top
    if length > 1:
        top, more = _exponentials(s, labels, used, e)
        log_partition += (length - 1) * top
        spread += more
    if np.isnan(log_partition):
        return log_forward_backward(space, i, scores, work, parts)
    width = state_count(space, space.order)
    alpha, gain = work[2 * n :], work[2 * n + length * width :]  # (length, width) each, flat
    beta = work[2 * n + 2 * length * width :]
    # Without constraints the values of one position lie within e^spread: then only their sum needs watching.
    steady = spread <= SPREAD and space.allowed.shape[0] == 0 and space.transitions.shape[0] == 0

    # a_t(h') = e_t(b) Σ_h a_{t−1}(h) e_t(h, b), divided by a total_t that gain_t keeps until the way back
    groups, sources, at = 1, 0, labels
    for t in range(length):
        new = t * width
        if t <= space.order:  # from then on nothing changes but, untied, the block
            groups, sources = group_sizes(space, t)
            at = block_start(space, length, t)
        else:
            at += space.stride
        total = 0.0
        if t == 0:
            fill(alpha, 0, n_labels, 1.0)
            total = multiply_sum(alpha, 0, e, 0, n_labels)
        else:
            for g in range(groups):
                old, row = new - width + g, at + g * n_labels
                here = new + g * n_labels
                rows_sum(alpha, here, alpha, old, groups, e, row, groups * n_labels, sources, n_labels)
                total += multiply_sum(alpha, here, e, t * n_labels, n_labels)
        gain[new] = 1.0
        if not (steady and 1e-50 < total < 1e50 and t < length - 1):
            if not total > FLOOR or normalise(alpha, new, groups * n_labels, 1.0 / total) < FLOOR:
                return log_forward_backward(space, i, scores, work, parts)
            log_partition += math.log(total)
            gain[new] = 1.0 / total

    # b_{t−1}(h) = Σ_b e_t(h, b) g_t(h'), g_t(h') = e_t(b) b_t(h') / total_t; then a·b is the marginal itself
    fill(beta, 0, groups * n_labels, 1.0)
    fill(parts, 0, labels, 0.0)
    for t in range(length - 1, -1, -1):
        new = t * width
        if t < space.order:
            groups, sources = group_sizes(space, t)
            at = block_start(space, length, t)
        inverse = gain[new]
        for g in range(groups):
            state = new + g * n_labels
            weigh_row(parts, t * n_labels, e, alpha, gain, state, beta, g * n_labels, inverse, n_labels)
        if t > 0:
            for g in range(groups):
                here, row = new + g * n_labels, at + g * n_labels
                rows_dot(beta, g, groups, gain, here, e, row, groups * n_labels, sources, n_labels)
        at -= space.stride if t > space.order else 0

    # E[z_t(h, b)] = a_{t−1}(h) e_t(h, b) g_t(h'): outer products first, e once at the end
    fill(parts, labels, n - labels, 0.0)
    t = 1
    while t < length:
        count = length - t if space.stride == 0 and t == space.order else 1
        groups, sources = group_sizes(space, t)
        at = block_start(space, length, t)
        for g in range(groups):
            old, here = (t - 1) * width + g, t * width + g * n_labels
            row, step = at + g * n_labels, groups * n_labels
            outer_add(parts, row, step, alpha, old, groups, width, gain, here, width, count, sources, n_labels)
        t += count
    multiply_sum(parts, labels, e, labels, used - labels)
    return log_partition

"""Slack rescaling on a chain: an exact maximum of cost × score, by a Viterbi that also counts the cost.

max_z (p·z + q)(o + s·z) does not decompose over positions, but for a fixed cost the best score does. So the states of
Viterbi carry the cost of their prefix as well. Costs are integers, shifted at each position so that its cheapest label
costs 0 and divided by their common divisor: with a Hamming cost a prefix of t labels has t + 1 levels.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._math import fill, rows_max
from partwise.structures._chain_kernels import (
    ChainSpace,
    block_start,
    group_sizes,
    masked,
    state_count,
)
from partwise.structures.base import part_count, slack_argmax


@kernel
def cost_steps(costs, length, n_labels, steps):
    """(unit, base) with costs[t·L + b] = unit·steps[t·L + b] + share of base; steps are ≥ 0, and 0 at each t."""
    unit, base = 0, 0.0
    for t in range(length):
        low = np.inf
        for b in range(n_labels):
            low = min(low, costs[t * n_labels + b])
        base += low
        for b in range(n_labels):
            steps[t * n_labels + b] = round(costs[t * n_labels + b] - low)
            unit = math.gcd(unit, steps[t * n_labels + b])
    if unit > 1:
        for r in range(length * n_labels):
            steps[r] //= unit
    return max(unit, 1), base


@slack_argmax.register(ChainSpace)
def slack_viterbi(space, i, scores, costs, constant, offset, work, parts):
    """v_t(h', c + k_t(b)) = s_t(b) + max_h v_{t−1}(h, c) + s_t(h, b), then max_c ℓ_c (offset + max_h v_{T−1}(h, c)).

    ℓ_c is the cost that c steps stand for. O(T·K·L^{k+1}) for K levels of cost; the table is an array of its own,
    because its size depends on the costs.
    """
    length = space.offsets[i + 1] - space.offsets[i]
    n_labels = space.n_labels
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    width = state_count(space, space.order)
    row = work[n:]  # (L,)
    steps = np.empty(length * n_labels, np.int64)
    unit, base = cost_steps(costs, length, n_labels, steps)
    reach = np.zeros(length, np.int64)  # the highest level at each position
    for t in range(length):
        high = 0
        for b in range(n_labels):
            high = max(high, steps[t * n_labels + b])
        reach[t] = high + (reach[t - 1] if t > 0 else 0)
    last = length - 1
    levels = reach[last] + 1
    v = np.empty(length * levels * width)  # (T, K, L^k), flat
    for t in range(length):
        fill(v, t * levels * width, (reach[t] + 1) * width, -np.inf)
    for b in range(n_labels):
        v[steps[b] * width + b] = s[b]
    for t in range(1, length):
        groups, sources = group_sizes(space, t)
        at = block_start(space, length, t)
        for c in range(reach[t - 1] + 1):
            old = ((t - 1) * levels + c) * width
            for g in range(groups):
                rows_max(row, 0, v, old + g, groups, s, at + g * n_labels, groups * n_labels, sources, n_labels)
                for b in range(n_labels):
                    level = t * levels + c + steps[t * n_labels + b]
                    v[level * width + g * n_labels + b] = row[b] + s[t * n_labels + b]

    parts[:n] = 0.0
    best, state, level = -np.inf, 0, 0
    for c in range(levels):
        cost = base + constant + unit * c
        for h in range(state_count(space, last)):
            x = v[(last * levels + c) * width + h]
            if x > -np.inf and cost * (offset + x) > best:
                best, state, level = cost * (offset + x), h, c
    if best == -np.inf:
        return best
    for t in range(last, 0, -1):
        b = state % n_labels
        parts[t * n_labels + b] = 1.0
        level -= steps[t * n_labels + b]
        groups, sources = group_sizes(space, t)
        at = block_start(space, length, t)
        first = state // n_labels
        top = -np.inf
        for h in range(first, first + sources * groups, groups):
            x = v[((t - 1) * levels + level) * width + h] + s[at + h * n_labels + b]
            if x > top:
                top = x
                state = h
        parts[at + state * n_labels + b] += 1.0
    parts[state] = 1.0
    return best

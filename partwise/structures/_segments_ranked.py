"""Kernels of segmentations beyond argmax and marginals: k-best lists, samples, slack rescaling, feasibility."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise.structures._segments_kernels import SegmentSpace, atom_number, log_forward, masked
from partwise.structures.base import kbest, part_count, slack_argmax


@kbest.register(SegmentSpace)
def _kbest(space, i, scores, work, parts, values):
    """Exact k-best: every border and label keeps the k best covers of what lies before, merged from sorted lists.

    O(k·T(Σ_b M_b + L²)) time; the lists live in arrays of their own because their size depends on k.
    """
    k = values.shape[0]
    length, n_labels = space.lengths[i], space.limits.shape[0]
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    pairs, widest = n - n_labels * n_labels, space.below.shape[0] - 1
    ended = np.full((length + 1, n_labels, k), -np.inf)
    size = np.zeros((length + 1, n_labels, k), np.int32)  # the length of its last segment …
    rank = np.zeros((length + 1, n_labels, k), np.int32)  # … and its rank among those that entered there
    entered = np.full((length + 1, n_labels, k), -np.inf)
    before = np.zeros((length + 1, n_labels, k), np.int32)  # the label that it comes from …
    place = np.zeros((length + 1, n_labels, k), np.int32)  # … and its rank there
    entered[0, :, 0] = 0.0
    head = np.zeros(max(n_labels, widest + 1), np.int32)
    for t in range(1, length + 1):
        for b in range(n_labels):
            limit = min(space.limits[b], t)
            head[:] = 0
            for r in range(k):
                top, chosen = -np.inf, -1
                for d in range(1, limit + 1):
                    if head[d] < k:
                        x = entered[t - d, b, head[d]] + s[atom_number(space, length, t - d, d, b)]
                        if x > top:
                            top, chosen = x, d
                if chosen < 0:
                    break
                ended[t, b, r], size[t, b, r], rank[t, b, r] = top, chosen, head[chosen]
                head[chosen] += 1
        for b in range(n_labels):
            head[:] = 0
            for r in range(k):
                top, chosen = -np.inf, -1
                for a in range(n_labels):
                    if head[a] < k:
                        x = ended[t, a, head[a]] + s[pairs + a * n_labels + b]
                        if x > top:
                            top, chosen = x, a
                if chosen < 0:
                    break
                entered[t, b, r], before[t, b, r], place[t, b, r] = top, chosen, head[chosen]
                head[chosen] += 1

    head[:] = 0
    for r in range(k):
        top, label = -np.inf, -1
        for b in range(n_labels):
            if head[b] < k and ended[length, b, head[b]] > top:
                top, label = ended[length, b, head[b]], b
        if label < 0:
            return r
        values[r] = top
        level = head[label]
        head[label] += 1
        parts[r, :n] = 0.0
        stop = length
        while stop > 0:
            d, inner = size[stop, label, level], rank[stop, label, level]
            stop -= d
            parts[r, atom_number(space, length, stop, d, label)] = 1.0
            if stop > 0:
                a, level = before[stop, label, inner], place[stop, label, inner]
                parts[r, pairs + a * n_labels + label] += 1.0
                label = a
    return k


@kernel
def sample(space, i, scores, work, uniform, draws):
    """Forward filtering, backward sampling: label, length and label before, from the end on; returns log Z.

    p(d | t, b) = exp(s(t − d, t, b) + entered_{t−d}(b) − ended_t(b)), p(a | t, b) = exp(ended_t(a) + s(a, b) −
    entered_t(b)); two uniform numbers per segment. Draws nothing if log Z is −inf.
    """
    length, n_labels = space.lengths[i], space.limits.shape[0]
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    borders, pairs = length + 1, n - n_labels * n_labels
    ended, entered = work[n:], work[n + borders * n_labels :]
    log_partition = log_forward(space, length, s, pairs, ended, entered)
    if log_partition == -np.inf:
        return log_partition
    for r in range(draws.shape[0]):
        draws[r, :n] = 0.0
        stop, label, used = length, -1, 0
        while stop > 0:
            left, chosen = uniform[r, used], -1
            if label < 0:
                total = log_partition
            else:
                total = entered[label * borders + stop]
            for a in range(n_labels):
                x = ended[a * borders + stop]
                if label >= 0:
                    x += s[pairs + a * n_labels + label]
                x = math.exp(x - total)
                if x > 0.0:
                    chosen = a  # the last possible one, should rounding leave a remainder
                    left -= x
                    if left < 0.0:
                        break
            if label >= 0:
                draws[r, pairs + chosen * n_labels + label] += 1.0
            label = chosen
            left, chosen = uniform[r, used + 1], 0
            for d in range(1, min(space.limits[label], stop) + 1):
                x = entered[label * borders + stop - d] + s[atom_number(space, length, stop - d, d, label)]
                x = math.exp(x - ended[label * borders + stop])
                if x > 0.0:
                    chosen = d
                    left -= x
                    if left < 0.0:
                        break
            stop -= chosen
            draws[r, atom_number(space, length, stop, chosen, label)] = 1.0
            used += 2
    return log_partition


@slack_argmax.register(SegmentSpace)
def slack_viterbi(space, i, scores, costs, constant, offset, work, parts):
    """max_z (p·z + q)(offset + s·z): for a fixed cost the best score decomposes, so a border carries the cost so far.

    Costs are integers, counted in their common divisor; the levels at border t run from the least cost of a cover of
    the tokens before it to the largest. O(K·T(Σ_b M_b + L²)) for K levels.
    """
    length, n_labels = space.lengths[i], space.limits.shape[0]
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    pairs = n - n_labels * n_labels
    unit = 0
    for r in range(pairs):
        unit = math.gcd(unit, round(costs[r]))
    unit = max(unit, 1)
    steps = np.empty(pairs, np.int64)
    for r in range(pairs):
        steps[r] = round(costs[r]) // unit
    low, high = np.zeros(length + 1, np.int64), np.zeros(length + 1, np.int64)
    for t in range(1, length + 1):
        least, most = np.int64(1 << 60), np.int64(-(1 << 60))
        for b in range(n_labels):
            for d in range(1, min(space.limits[b], t) + 1):
                step = steps[atom_number(space, length, t - d, d, b)]
                least, most = min(least, low[t - d] + step), max(most, high[t - d] + step)
        low[t], high[t] = least, most
    levels = 1
    for t in range(length + 1):
        levels = max(levels, high[t] - low[t] + 1)
    ended = np.full((length + 1, n_labels, levels), -np.inf)
    entered = np.full((length + 1, n_labels, levels), -np.inf)
    entered[0, :, 0] = 0.0
    for t in range(1, length + 1):
        for b in range(n_labels):
            for d in range(1, min(space.limits[b], t) + 1):
                number = atom_number(space, length, t - d, d, b)
                shift = steps[number] + low[t - d] - low[t]
                for c in range(high[t - d] - low[t - d] + 1):
                    ended[t, b, c + shift] = max(ended[t, b, c + shift], entered[t - d, b, c] + s[number])
        for b in range(n_labels):
            for a in range(n_labels):
                for c in range(high[t] - low[t] + 1):
                    entered[t, b, c] = max(entered[t, b, c], ended[t, a, c] + s[pairs + a * n_labels + b])

    for r in range(n):
        parts[r] = 0.0
    best, label, level = -np.inf, 0, np.int64(0)
    for c in range(high[length] - low[length] + 1):
        cost = constant + unit * (c + low[length])
        for b in range(n_labels):
            x = ended[length, b, c]
            if x > -np.inf and cost * (offset + x) > best:
                best, label, level = cost * (offset + x), b, np.int64(c)
    if best == -np.inf:
        return best
    stop = length
    while stop > 0:
        top, chosen, inner = -np.inf, 1, np.int64(0)
        for d in range(1, min(space.limits[label], stop) + 1):
            number = atom_number(space, length, stop - d, d, label)
            c = level - (steps[number] + low[stop - d] - low[stop])
            if 0 <= c <= high[stop - d] - low[stop - d]:
                x = entered[stop - d, label, c] + s[number]
                if x > top:
                    top, chosen, inner = x, d, c
        stop, level = stop - chosen, inner
        parts[atom_number(space, length, stop, chosen, label)] = 1.0
        if stop > 0:
            top, before = -np.inf, 0
            for a in range(n_labels):
                x = ended[stop, a, level] + s[pairs + a * n_labels + label]
                if x > top:
                    top, before = x, a
            parts[pairs + before * n_labels + label] += 1.0
            label = before
    return best


@kernel
def first_infeasible(space):
    """The first instance whose constraints allow no segmentation, or −1."""
    n_labels = space.limits.shape[0]
    for i in range(space.lengths.shape[0]):
        length = space.lengths[i]
        reached = np.zeros((length + 1, n_labels), np.bool_)
        for t in range(1, length + 1):
            for b in range(n_labels):
                for d in range(1, min(space.limits[b], t) + 1):
                    number = space.starts[i] + atom_number(space, length, t - d, d, b)
                    if space.allowed.shape[0] > 0 and space.allowed[number] == 0:
                        continue
                    if t == d:
                        reached[t, b] = True
                    for a in range(n_labels):
                        free = space.transitions.shape[0] == 0 or space.transitions[a * n_labels + b] != 0
                        if reached[t - d, a] and free:
                            reached[t, b] = True
        if not reached[length].any():
            return i
    return -1

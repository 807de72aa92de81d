"""Kernels of segmentations: layout of the parts, Viterbi and forward–backward over segments.

Positions are borders: border t lies before token t, a segment (t, t + d, b) leads from border t to border t + d. Two
values per border and label: ``ended``, over all ways to cover the tokens before it with a last segment of that label,
and ``entered``, the same with the transition into a label that begins there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import fill
from partwise.structures.base import argmax, marginals, part_count, work_size

__all__ = ["SegmentSpace", "atom_number", "atoms_below", "block_start", "mask_scores", "masked"]


class SegmentSpace(NamedTuple):
    """Packed segmentations. L labels, label b in segments of at most limits[b] tokens, M the largest limit."""

    lengths: NDArray[np.int64]  # (n,) tokens of each instance
    limits: NDArray[np.int64]  # (L,)
    within: NDArray[np.int64]  # (M + 1, L + 1) within[r, b]: atoms of labels before b in a block with r tokens left
    below: NDArray[np.int64]  # (M + 1,) below[r]: atoms of the last r blocks of an instance
    starts: NDArray[np.int64]  # (n + 1,) where the atoms of each instance begin in ``allowed``
    allowed: NDArray[np.uint8]  # (all atoms,), or (0,) where every segment is
    transitions: NDArray[np.uint8]  # (L·L,), or (0,) where every label may follow every label


@kernel
def blocks_below(space, left):
    """Number of atoms that begin in the last ``left`` tokens."""
    return atoms_below(space.below, space.within, left)


@kernel
def atoms_below(below, within, left):
    """The same, of the two arrays that it needs."""
    widest = below.shape[0] - 1
    if left <= widest:
        return below[left]
    return below[widest] + (left - widest) * within[widest, within.shape[1] - 1]


@kernel
def block_start(space, length, t):
    """Number of the first atom that begins at token t."""
    return blocks_below(space, length) - blocks_below(space, length - t)


@kernel
def atom_number(space, length, t, d, b):
    """Number of the atom (t, t + d, b)."""
    left = min(length - t, space.below.shape[0] - 1)
    return block_start(space, length, t) + space.within[left, b] + d - 1


@part_count.register(SegmentSpace)
def _part_count(space, i):
    n_labels = space.limits.shape[0]
    return blocks_below(space, space.lengths[i]) + n_labels * n_labels


@work_size.register(SegmentSpace)
def _work_size(space, i):
    # masked scores; four values per border and label
    return part_count(space, i) + 4 * (space.lengths[i] + 1) * space.limits.shape[0]


@kernel
def mask_scores(space, i, scores, out):
    """out ← scores with −inf wherever a hard constraint forbids the part."""
    n = part_count(space, i)
    atoms = n - space.limits.shape[0] ** 2
    for r in range(n):
        out[r] = scores[r]
    if space.allowed.shape[0] > 0:
        for r in range(atoms):
            if space.allowed[space.starts[i] + r] == 0:
                out[r] = -np.inf
    if space.transitions.shape[0] > 0:
        for r in range(n - atoms):
            if space.transitions[r] == 0:
                out[atoms + r] = -np.inf


@kernel
def masked(space, i, scores, work):
    """The scores to use: the given ones, or a masked copy in ``work`` if there are hard constraints."""
    if space.allowed.shape[0] > 0 or space.transitions.shape[0] > 0:
        mask_scores(space, i, scores, work)
        return work
    return scores


@argmax.register(SegmentSpace)
def viterbi(space, i, scores, work, parts):
    """ended_t(b) = max_d s(t − d, t, b) + entered_{t−d}(b), entered_t(b) = max_a ended_t(a) + s(a, b).

    entered_0 = 0. O(T(Σ_b M_b + L²)). Values are laid out label by label, so that the segments that begin at t with one
    label push their scores to neighbouring places.
    """
    length, n_labels = space.lengths[i], space.limits.shape[0]
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    borders = length + 1
    ended, entered = work[n:], work[n + borders * n_labels :]  # (L, T + 1) each, flat
    pairs = n - n_labels * n_labels
    fill(ended, 0, borders * n_labels, -np.inf)
    for t in range(length):
        left = min(length - t, space.below.shape[0] - 1)
        start = block_start(space, length, t)
        for b in range(n_labels):
            top = 0.0 if t == 0 else -np.inf
            if t > 0:
                for a in range(n_labels):
                    top = max(top, ended[a * borders + t] + s[pairs + a * n_labels + b])
            entered[b * borders + t] = top
            at, to = np.uintp(start + space.within[left, b]), np.uintp(b * borders + t + 1)
            for d in range(np.uintp(min(space.limits[b], left))):
                ended[to + d] = max(ended[to + d], top + s[at + d])

    for r in range(n):
        parts[r] = 0.0
    best, label = -np.inf, 0
    for b in range(n_labels):
        if ended[b * borders + length] > best:
            best, label = ended[b * borders + length], b
    if best == -np.inf:
        return best
    # Trace back by recomputing the maximum of each step: cheaper than keeping pointers.
    stop = length
    while stop > 0:
        top, chosen = -np.inf, 1
        for d in range(1, min(space.limits[label], stop) + 1):
            x = entered[label * borders + stop - d] + s[atom_number(space, length, stop - d, d, label)]
            if x > top:
                top, chosen = x, d
        stop -= chosen
        parts[atom_number(space, length, stop, chosen, label)] = 1.0
        if stop > 0:
            top, before = -np.inf, 0
            for a in range(n_labels):
                x = ended[a * borders + stop] + s[pairs + a * n_labels + label]
                if x > top:
                    top, before = x, a
            parts[pairs + before * n_labels + label] += 1.0
            label = before
    return best


# No reordering of sums below: x + y − max(x + y) must be exactly 0 at the maximum, however large x and y are.


@kernel(fast=False)
def log_forward(space, length, s, pairs, ended, entered):
    """``viterbi``'s recurrences with log-sum-exp for max; returns log Z."""
    n_labels, borders = space.limits.shape[0], length + 1
    for b in range(n_labels):
        ended[b * borders] = -np.inf
        entered[b * borders] = 0.0
    for t in range(1, borders):
        for b in range(n_labels):
            limit = min(space.limits[b], t)
            top = -np.inf
            for d in range(1, limit + 1):
                x = entered[b * borders + t - d] + s[atom_number(space, length, t - d, d, b)]
                ended[b * borders + t] = x  # a place to keep the only one where limit is 1
                top = max(top, x)
            if limit > 1 and top > -np.inf:
                total = 0.0
                for d in range(1, limit + 1):
                    x = entered[b * borders + t - d] + s[atom_number(space, length, t - d, d, b)]
                    total += math.exp(x - top)
                ended[b * borders + t] = top + math.log(total)
            elif limit > 1:
                ended[b * borders + t] = -np.inf
        if t < length:
            for b in range(n_labels):
                top = -np.inf
                for a in range(n_labels):
                    top = max(top, ended[a * borders + t] + s[pairs + a * n_labels + b])
                total = 0.0
                if top > -np.inf:
                    for a in range(n_labels):
                        total += math.exp((ended[a * borders + t] + s[pairs + a * n_labels + b]) - top)
                entered[b * borders + t] = top + math.log(total) if total > 0.0 else -np.inf
    top, total = -np.inf, 0.0
    for b in range(n_labels):
        top = max(top, ended[b * borders + length])
    if top == -np.inf:
        return top
    for b in range(n_labels):
        total += math.exp(ended[b * borders + length] - top)
    return top + math.log(total)


@marginals.register(SegmentSpace)
def forward_backward(space, i, scores, work, parts):
    """log Z and E[z]: leaving_t(b) is over all covers of the tokens from t on after a segment of label b that ends
    at t, begun_t(b) over those whose first segment has label b:

    begun_t(b) = log Σ_d exp(s(t, t + d, b) + leaving_{t+d}(b)), leaving_t(a) = log Σ_b exp(s(a, b) + begun_t(b));
    p(t, t + d, b) = exp(entered_t(b) + s(t, t + d, b) + leaving_{t+d}(b) − log Z). O(T(Σ_b M_b + L²)).

    p(d | t, b) and p(b | t, a) are divided by their own sums, so that only p(t, b) feels the rounding of large scores.
    """
    length, n_labels = space.lengths[i], space.limits.shape[0]
    n = part_count(space, i)
    s = masked(space, i, scores, work)
    borders, pairs = length + 1, n - n_labels * n_labels
    size = borders * n_labels
    ended, entered, leaving, begun = work[n:], work[n + size :], work[n + 2 * size :], work[n + 3 * size :]
    for r in range(n):
        parts[r] = 0.0
    log_partition = log_forward(space, length, s, pairs, ended, entered)
    if log_partition == -np.inf:
        return log_partition
    for b in range(n_labels):
        leaving[b * borders + length] = 0.0
    for t in range(length - 1, -1, -1):
        left = min(length - t, space.below.shape[0] - 1)
        start = block_start(space, length, t)
        for b in range(n_labels):
            limit, at, to = min(space.limits[b], left), start + space.within[left, b], b * borders + t + 1
            top, total = -np.inf, 0.0
            for d in range(limit):
                top = max(top, s[at + d] + leaving[to + d])
            if top > -np.inf:
                for d in range(limit):
                    x = math.exp((s[at + d] + leaving[to + d]) - top)
                    parts[at + d] = x
                    total += x
                # p(t, t + d, b) = p(label b begins at t)·p(d | t, b)
                reach = math.exp(entered[b * borders + t] + top + math.log(total) - log_partition) / total
                for d in range(limit):
                    parts[at + d] *= reach
            begun[b * borders + t] = top + math.log(total) if total > 0.0 else -np.inf
        if t > 0:
            for a in range(n_labels):
                top, total, row = -np.inf, 0.0, pairs + a * n_labels
                for b in range(n_labels):
                    top = max(top, s[row + b] + begun[b * borders + t])
                if top > -np.inf:
                    for b in range(n_labels):
                        total += math.exp((s[row + b] + begun[b * borders + t]) - top)
                    reach = math.exp(ended[a * borders + t] + top + math.log(total) - log_partition) / total
                    if reach > 0.0:
                        for b in range(n_labels):
                            parts[row + b] += reach * math.exp((s[row + b] + begun[b * borders + t]) - top)
                leaving[a * borders + t] = top + math.log(total) if total > 0.0 else -np.inf
    return log_partition

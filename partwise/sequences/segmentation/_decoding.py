"""Exact decoding and marginals of segmentations over many inputs, compiled."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.features.base import feature_scores
from partwise.structures._segments_kernels import block_start
from partwise.structures.base import argmax, marginals, part_count, work_size


@kernel
def exact_segments(space, features, theta, start, stop, offsets, labels):
    """labels[t] ← label of the segment of the best output that begins at token t, −1 inside segments.

    Returns the first input that has no output, −1 if all have.
    """
    widest, n_labels = space.below.shape[0] - 1, space.limits.shape[0]
    for i in range(start, stop):
        n, length = part_count(space, i), space.lengths[i]
        scores, parts, work = np.empty(n), np.empty(n), np.empty(work_size(space, i))
        feature_scores(features, i, theta, scores, 0)
        if argmax(space, i, scores, work, parts) == -np.inf:
            return i
        for t in range(length):
            labels[offsets[i] + t] = -1
            left = min(length - t, widest)
            at = block_start(space, length, t)
            for b in range(n_labels):
                for d in range(min(space.limits[b], left)):
                    if parts[at + space.within[left, b] + d] > 0.0:
                        labels[offsets[i] + t] = b
    return -1


@kernel
def segment_marginals(space, features, theta, beta, start, stop, offsets, labels, probabilities):
    """probabilities[t] ← p of the segment that ``labels`` say begins at token t, with its length and label."""
    widest = space.below.shape[0] - 1
    for i in range(start, stop):
        n, length = part_count(space, i), space.lengths[i]
        scores, parts, work = np.empty(n), np.empty(n), np.empty(work_size(space, i))
        feature_scores(features, i, theta, scores, 0)
        for r in range(n):
            scores[r] *= beta
        marginals(space, i, scores, work, parts)
        t = 0
        while t < length:
            d = 1
            while t + d < length and labels[offsets[i] + t + d] < 0:
                d += 1
            left = min(length - t, widest)
            at = block_start(space, length, t) + space.within[left, labels[offsets[i] + t]]
            probabilities[offsets[i] + t] = parts[at + d - 1]
            t += d

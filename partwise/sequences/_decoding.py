"""Kernels that run a fitted chain over many sequences at once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from partwise._compile import kernel
from partwise._threads import Threads
from partwise.features.base import feature_scores
from partwise.structures.base import argmax, marginals, part_count, work_size


@kernel
def decode_labels(space, features, theta, start, stop, labels):
    """labels[row] ← the label of the best sequence; −1 throughout a sequence that has none of finite score."""
    n, size = 0, 0
    for i in range(start, stop):
        n, size = max(n, part_count(space, i)), max(size, work_size(space, i))
    scores, parts, work = np.empty(n), np.empty(n), np.empty(size)
    for i in range(start, stop):
        here = part_count(space, i)
        feature_scores(features, i, theta, scores, 0)
        best = argmax(space, i, scores[:here], work, parts[:here])
        for row in range(space.offsets[i], space.offsets[i + 1]):
            first = (row - space.offsets[i]) * space.n_labels
            labels[row] = -1
            if best > -np.inf:
                label = 0
                while parts[first + label] == 0.0:
                    label += 1
                labels[row] = label


@kernel
def label_marginals(space, features, theta, beta, start, stop, out, log_partitions):
    """out[row, b] ← P(y_row = b) at inverse temperature β; log_partitions[i] ← log Z."""
    n, size = 0, 0
    for i in range(start, stop):
        n, size = max(n, part_count(space, i)), max(size, work_size(space, i))
    scores, parts, work = np.empty(n), np.empty(n), np.empty(size)
    for i in range(start, stop):
        here = part_count(space, i)
        feature_scores(features, i, theta, scores, 0)
        for r in range(here):
            scores[r] *= beta
        log_partitions[i] = marginals(space, i, scores[:here], work, parts[:here])
        for row in range(space.offsets[i], space.offsets[i + 1]):
            first = (row - space.offsets[i]) * space.n_labels
            for b in range(space.n_labels):
                out[row, b] = parts[first + b]


@kernel
def span_probabilities(space, features, theta, beta, labels, first, spans, start, stop, probabilities):
    """probabilities[s] ← Z(outputs with span s) / Z for the spans first[i] ≤ s < first[i + 1] of every sequence i.

    spans[s] = (start, stop, label that may not follow, or −1); inside, the output keeps ``labels``.
    """
    n, size = 0, 0
    for i in range(start, stop):
        n, size = max(n, part_count(space, i)), max(size, work_size(space, i))
    scores, pinned, parts, work = np.empty(n), np.empty(n), np.empty(n), np.empty(size)
    for i in range(start, stop):
        if first[i] == first[i + 1]:
            continue
        here, n_labels = part_count(space, i), space.n_labels
        feature_scores(features, i, theta, scores, 0)
        for r in range(here):
            scores[r] *= beta
            pinned[r] = scores[r]
        total = marginals(space, i, pinned[:here], work, parts[:here])
        for s in range(first[i], first[i + 1]):
            for r in range(here):
                pinned[r] = scores[r]
            for t in range(spans[s, 0], spans[s, 1]):
                for b in range(n_labels):
                    if b != labels[space.offsets[i] + t]:
                        pinned[t * n_labels + b] = -np.inf
            if spans[s, 2] >= 0:
                pinned[spans[s, 1] * n_labels + spans[s, 2]] = -np.inf
            with_span = marginals(space, i, pinned[:here], work, parts[:here])
            probabilities[s] = np.exp(min(with_span - total, 0.0))


def in_blocks(
    threads: int, function: Any, space: Any, features: Any, settings: tuple[Any, ...], outs: tuple[Any, ...]
) -> None:
    """function(space, features, *settings, start, stop, *outs) over all sequences, a block per thread."""
    cuts = np.linspace(0, len(space), threads + 1).astype(int)
    tasks = [(int(a), int(b)) for a, b in itertools.pairwise(cuts) if b > a]
    Threads(threads).each(lambda *span: function(space.pack, features.pack, *settings, *span, *outs), tasks)

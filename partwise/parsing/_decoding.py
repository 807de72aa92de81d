"""Compiled loops over sentences: features, scores and what is asked of them, without Python in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._threads import Threads
from partwise.features.base import feature_scores
from partwise.structures._arborescence_space import arc_number
from partwise.structures.base import argmax, marginals, part_count, work_size

__all__ = ["arc_probabilities", "best_trees", "in_blocks", "shaped", "tree_log_probabilities"]

RISK = 1


@kernel
def _read_tree(space, i, parts, heads, labels):
    """heads and labels of instance i ← the part of largest value of every word."""
    start = space.offsets[i]
    n, L = space.offsets[i + 1] - start, space.n_labels
    for m in range(n):
        best, top = m * n * L, -np.inf
        for r in range(m * n * L, (m + 1) * n * L):
            if parts[r] > top:
                best, top = r, parts[r]
        h = (best - m * n * L) // L
        heads[start + m] = h + (1 if h > m else 0)
        labels[start + m] = best % L


@kernel
def best_trees(space, features, theta, beta, rule, start, stop, heads, labels, values):
    """The tree with the highest score of instances start:stop; with rule RISK the one with the most right arcs
    expected.

    ``values`` gets the score. An instance without a tree of finite score keeps heads of −1.
    """
    for i in range(start, stop):
        n_parts = part_count(space, i)
        scores, parts, work = np.empty(n_parts), np.empty(n_parts), np.empty(work_size(space, i))
        feature_scores(features, i, theta, scores, 0)
        if rule == RISK:
            for r in range(n_parts):
                scores[r] *= beta
            marginals(space, i, scores, work, parts)
            scores[:] = parts
        values[i] = argmax(space, i, scores, work, parts)
        if values[i] > -np.inf:
            _read_tree(space, i, parts, heads, labels)


@kernel
def arc_probabilities(space, features, theta, beta, start, stop, offsets, arcs, labelled, parts_out):
    """arcs[offsets[i]:] ← the (n + 1, n) probabilities of arcs; the parts themselves where ``labelled``."""
    L = space.n_labels
    for i in range(start, stop):
        n_parts, n = part_count(space, i), space.offsets[i + 1] - space.offsets[i]
        scores, parts, work = np.empty(n_parts), np.empty(n_parts), np.empty(work_size(space, i))
        feature_scores(features, i, theta, scores, 0)
        for r in range(n_parts):
            scores[r] *= beta
        marginals(space, i, scores, work, parts)
        for m in range(1, n + 1):
            for h in range(n + 1):
                if h != m:
                    arc = arc_number(n, h, m)
                    total = 0.0
                    for b in range(L):
                        total += parts[arc * L + b]
                        if labelled:
                            parts_out[(offsets[i] + h * n + m - 1) * L + b] = parts[arc * L + b]
                    arcs[offsets[i] + h * n + m - 1] = total


@kernel
def tree_log_probabilities(space, features, theta, beta, numbers, start, stop, out):
    """out[i] ← log p of the tree whose parts are numbers[offsets[i]:offsets[i + 1]], one per word."""
    for i in range(start, stop):
        n_parts = part_count(space, i)
        scores, parts, work = np.empty(n_parts), np.empty(n_parts), np.empty(work_size(space, i))
        feature_scores(features, i, theta, scores, 0)
        total = 0.0
        for r in range(n_parts):
            scores[r] *= beta
        for j in range(space.offsets[i], space.offsets[i + 1]):
            total += scores[numbers[j]]
        out[i] = total - marginals(space, i, scores, work, parts)


def shaped(packed: NDArray[Any], lengths: NDArray[np.int64], n_labels: int | None) -> list[NDArray[Any]]:
    """(n + 1, n) tables of arcs, one per sentence, out of the array that holds them all; (n + 1, n, L) with labels."""
    last = () if n_labels is None else (n_labels,)
    sizes = (lengths + 1) * lengths * (n_labels or 1)
    ends = np.cumsum(sizes)
    return [
        packed[end - size : end].reshape(n + 1, n, *last) for n, size, end in zip(lengths, sizes, ends, strict=True)
    ]


def in_blocks(offsets: NDArray[np.int64], n_jobs: int, task: Callable[[int, int], Any]) -> None:
    """task(start, stop) over blocks of sentences, in threads where there are several."""
    n = len(offsets) - 1
    if n_jobs == 1 or n < 2:
        task(0, n)
        return
    borders = np.unique(np.searchsorted(offsets, offsets[-1] * np.arange(1, 4 * n_jobs) / (4 * n_jobs)))
    ends = np.unique(np.concatenate([[0], borders, [n]])).tolist()
    Threads(n_jobs).each(task, itertools.pairwise(ends))

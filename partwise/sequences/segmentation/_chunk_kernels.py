"""Chunking as a packed search problem, §4.1: a state covers the first tokens, an action adds a whole labelled chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import feature_parts, feature_scores
from partwise.learners.laso._beam import decode
from partwise.learners.laso.packed import (
    action_features,
    advance,
    cache_size,
    expand,
    good_actions,
    initial_state,
    last_level,
    most_actions,
    most_features,
    prepare,
    reach,
    state_size,
    touch,
)
from partwise.sequences.segmentation._history import (
    PAIR_FACTOR,
    PAIRS,
    TRIPLE_FACTOR,
    TRIPLES,
    History,
    add_weights,
    pair_sums,
    place,
    triple_sums,
)
from partwise.sequences.segmentation.features import SegmentRows
from partwise.structures._segments_kernels import atom_number, atoms_below, mask_scores

__all__ = ["ChunkSearch", "best_segments", "chunk_search"]


class ChunkSearch(NamedTuple):
    """Inputs to cut into chunks. A state is (tokens covered, the last label or −1, chunks so far, the label before it).

    The cache holds the scores of all parts, and then rows of what labels b after b₁ at token t have of their history,
    NaN in the first place of a row until it is needed.
    """

    features: Any  # SegmentRows
    first: NDArray[np.int64]  # (n + 1,) the gold chunks of each input in:
    gold: NDArray[np.int64]  # (chunks,) actions
    entry_order: NDArray[np.int64]  # (entries,) of whole segments, those of an input sorted by atom; to learn from
    history: Any  # History
    most: int  # weights that one action can touch


@state_size.register(ChunkSearch)
def _(problem):
    return 4


@most_actions.register(ChunkSearch)
def _(problem):
    space = problem.features.space
    return space.within[space.below.shape[0] - 1, space.limits.shape[0]]


@most_features.register(ChunkSearch)
def _(problem):
    return problem.most


@cache_size.register(ChunkSearch)
def _(problem, i):
    space, parts = problem.features.space, feature_parts(problem.features, i)
    return parts if problem.history.mask < 0 else parts + space.lengths[i] * space.limits.shape[0] ** 2


@prepare.register(ChunkSearch)
def _(problem, i, theta, cache):
    feature_scores(problem.features, i, theta, cache, 0)
    space = problem.features.space
    if space.allowed.shape[0] > 0 or space.transitions.shape[0] > 0:
        mask_scores(space, i, cache, cache)
    for j in range(feature_parts(problem.features, i), cache.shape[0], space.limits.shape[0]):
        cache[j] = np.nan


@initial_state.register(ChunkSearch)
def _(problem, i, state):
    state[0], state[1], state[2], state[3] = 0, -1, 0, -1


@last_level.register(ChunkSearch)
def _(problem, i):
    return problem.features.space.lengths[i]


@reach.register(ChunkSearch)
def _(problem, i, state, action):
    return state[0] + action // problem.features.space.limits.shape[0] + 1


@kernel
def history_scores(history, start, length, t, b1, b2, theta, cache, row, enter):
    """enter[b] ← what label b has of the labels b1 and b2 before it; cache[row + b] is the part of b1 alone."""
    n_labels = enter.shape[0]
    sums = np.empty((PAIRS + TRIPLES) * history.codes.shape[0] + 1, np.uint64)
    if np.isnan(cache[row]):
        for b in range(n_labels):
            cache[row + b] = 0.0
        n = pair_sums(history, start, length, t, b1, sums)
        add_weights(history, theta, sums, n, PAIR_FACTOR, cache, row, n_labels)
    for b in range(n_labels):
        enter[b] = cache[row + b]
    n = triple_sums(history, start, t, b2, b1, sums)
    add_weights(history, theta, sums, n, TRIPLE_FACTOR, enter, 0, n_labels)


@expand.register(ChunkSearch)
def _(problem, i, theta, cache, state, score, bars, actions, gains):
    # few arrays and no tuples are bound to names here: numba counts the references to each, at every call
    limits, within, below = problem.features.space.limits, problem.features.space.within, problem.features.space.below
    n_labels, length = limits.shape[0], problem.features.space.lengths[i]
    t, before = np.int64(state[0]), np.int64(state[1])
    left = min(length - t, below.shape[0] - 1)
    pairs = atoms_below(below, within, length)
    start = pairs - atoms_below(below, within, length - t)
    enter = np.zeros(n_labels)
    if before >= 0:
        if problem.history.mask >= 0:
            row = pairs + n_labels * (n_labels + t * n_labels + before)
            history_scores(problem.history, problem.features.tokens.offsets[i], length, t, before, np.int64(state[3]),
                           theta, cache, row, enter)  # fmt: skip
        for b in range(n_labels):
            enter[b] += cache[pairs + before * n_labels + b]
    n = 0
    for b in range(n_labels):
        at = start + within[left, b]
        for d in range(min(limits[b], left)):
            gain = cache[at + d] + enter[b]
            if score + gain > bars[t + d + 1]:
                actions[n], gains[n] = d * n_labels + b, gain
                n += 1
    return n


@advance.register(ChunkSearch)
def _(problem, i, state, action, after):
    n_labels = problem.features.space.limits.shape[0]
    after[0], after[1], after[2] = state[0] + action // n_labels + 1, action % n_labels, state[2] + 1
    after[3] = state[1]


@good_actions.register(ChunkSearch)
def _(problem, i, state, actions):
    actions[0] = problem.gold[problem.first[i] + state[2]]
    return 1


@kernel
def row_features(rows, r, output, amount, delta, touched, n):
    """delta += amount·φ of row r with this output."""
    masked = rows.mask.shape[0] > 0
    real, real_pairs = rows.values.shape[0] > 0, rows.pair_values.shape[0] > 0
    for e in range(rows.indptr[r], rows.indptr[r + 1]):
        cell = rows.attributes[e] * rows.n_outputs + output
        if not masked or rows.mask[cell]:
            x = amount * rows.values[e] if real else amount
            n = touch(delta, touched, n, rows.base + cell, x)
    for e in range(rows.pair_indptr[r], rows.pair_indptr[r + 1]):
        if rows.outputs[e] == output:
            x = amount * rows.pair_values[e] if real_pairs else amount
            n = touch(delta, touched, n, np.int64(rows.weights[e]), x)
    return n


@action_features.register(ChunkSearch)
def _(problem, i, state, action, amount, delta, touched, n):
    features = problem.features
    space = features.space
    length, n_labels = space.lengths[i], space.limits.shape[0]
    widest = space.below.shape[0] - 1
    t, d, b = np.int64(state[0]), action // n_labels, action % n_labels
    row = features.tokens.offsets[i] + t
    n = row_features(features.tokens, row, b, amount, delta, touched, n)
    for j in range(1, d + 1):
        n = row_features(features.tokens, row + j, n_labels + b, amount, delta, touched, n)
    n = row_features(features.lasts, row + d, b, amount, delta, touched, n)
    n = touch(delta, touched, n, features.base + space.within[widest, b] + d, amount)
    if state[1] >= 0:
        at = features.base + space.within[widest, n_labels] + state[1] * n_labels + b
        n = touch(delta, touched, n, at, amount)
        if problem.history.mask >= 0:
            history, b1, start = problem.history, np.int64(state[1]), features.tokens.offsets[i]
            sums = np.empty((PAIRS + TRIPLES) * history.codes.shape[0] + 1, np.uint64)
            for j in range(pair_sums(history, start, length, t, b1, sums)):
                n = touch(delta, touched, n, place(history, sums[j], PAIR_FACTOR, b), amount)
            for j in range(triple_sums(history, start, t, np.int64(state[3]), b1, sums)):
                n = touch(delta, touched, n, place(history, sums[j], TRIPLE_FACTOR, b), amount)
    atom = atom_number(space, length, t, d + 1, b)
    low, high = features.starts[i], features.starts[i + 1]
    while low < high:  # the first entry of this atom
        middle = (low + high) // 2
        if features.atoms[problem.entry_order[middle]] < atom:
            low = middle + 1
        else:
            high = middle
    while low < features.starts[i + 1] and features.atoms[problem.entry_order[low]] == atom:
        n = touch(delta, touched, n, np.int64(features.weights[problem.entry_order[low]]), amount)
        low += 1
    return n


@kernel
def best_segments(problem, theta, beam, start, stop, offsets, labels):
    """labels[t] ← label of the chunk that the best output of the search begins at token t with, −1 inside chunks.

    Returns the first input that has no output, −1 if all have.
    """
    n_labels = problem.features.space.limits.shape[0]
    for i in range(start, stop):
        arena, queue = decode(problem, i, theta, beam)
        for t in range(offsets[i], offsets[i + 1]):
            labels[t] = -1
        if queue.shape[0] == 0:
            return i  # no output is allowed
        node = np.int64(queue[0])
        while arena.parent[node] >= 0:
            before = np.int64(arena.parent[node])
            labels[offsets[i] + arena.state[before, 0]] = arena.action[node] % n_labels
            node = before
    return -1


@kernel
def ranked_segments(problem, theta, beam, start, stop, offsets, labels, scores):
    """The k best outputs left in the beam: labels[j, t] as in ``best_segments``, scores[i, j], −inf if there are fewer.

    Returns the first input that has no output, −1 if all have.
    """
    n_labels = problem.features.space.limits.shape[0]
    for i in range(start, stop):
        arena, queue = decode(problem, i, theta, beam)
        if queue.shape[0] == 0:
            return i
        for j in range(min(labels.shape[0], queue.shape[0])):
            for t in range(offsets[i], offsets[i + 1]):
                labels[j, t] = -1
            node = np.int64(queue[j])
            scores[i, j] = arena.score[node]
            while arena.parent[node] >= 0:
                before = np.int64(arena.parent[node])
                labels[j, offsets[i] + arena.state[before, 0]] = arena.action[node] % n_labels
                node = before
    return -1


def chunk_search(
    features: SegmentRows, first: NDArray[np.int64] | None, segments: NDArray[np.int64], history: History
) -> ChunkSearch:
    """The search problem of these inputs; ``first`` and ``segments`` (start, stop, label) are gold, None to predict."""
    if first is None:
        none = np.zeros(0, np.int64)
        return ChunkSearch(features, np.zeros(1, np.int64), none, none, history, 1)
    instance = np.repeat(np.arange(len(features.starts) - 1), np.diff(features.starts))
    order = np.lexsort((features.atoms, instance))
    start, stop, label = segments.T
    gold = (stop - start - 1) * len(features.space.limits) + label
    most = most_entries(features) + (PAIRS + TRIPLES) * len(history.codes) + 1
    return ChunkSearch(features, first, gold, order, history, most)


def most_entries(features: SegmentRows) -> int:
    """How many weights a chunk can touch at most."""
    widest = len(features.space.below) - 1
    sizes = [np.diff(rows.indptr) + np.diff(rows.pair_indptr) for rows in (features.tokens, features.lasts)]
    per_token = int(max(sizes[0].max(initial=0), sizes[1].max(initial=0)))
    if len(features.atoms):
        instance = np.repeat(np.arange(len(features.starts) - 1), np.diff(features.starts))
        _, counts = np.unique(np.stack([instance, features.atoms]), axis=1, return_counts=True)
        return (widest + 1) * per_token + 2 + int(counts.max())
    return (widest + 1) * per_token + 2

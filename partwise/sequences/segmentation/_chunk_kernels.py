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
from partwise.sequences.segmentation._history import PAIRS, TRIPLES, History, pair_places, triple_places
from partwise.sequences.segmentation.features import SegmentRows
from partwise.structures._segments_kernels import atom_number, block_start, blocks_below, mask_scores

__all__ = ["ChunkSearch", "best_segments", "chunk_search"]


class ChunkSearch(NamedTuple):
    """Inputs to cut into chunks. A state is (tokens covered, the last label or −1, chunks so far, the label before it).

    The cache holds the scores of all parts, and then what labels b after b₁ at token t have of their history, NaN in
    the first place of a row until it is needed.
    """

    features: Any  # SegmentRows
    first: NDArray[np.int64]  # (n + 1,) the gold chunks of each input in:
    gold: NDArray[np.int64]  # (chunks,) actions
    entry_order: NDArray[np.int64]  # (entries,) entries of whole segments, those of an input sorted by atom
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
    for j in range(feature_parts(problem.features, i), cache.shape[0]):
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
def history_score(problem, i, theta, cache, state, b):
    """What label b has of the labels before it."""
    history, n_labels = problem.history, problem.features.space.limits.shape[0]
    start, t, b1 = problem.features.tokens.offsets[i], np.int64(state[0]), np.int64(state[1])
    places = np.empty((PAIRS + TRIPLES) * history.codes.shape[0] + 1, np.int64)
    row = feature_parts(problem.features, i) + (t * n_labels + b1) * n_labels + b
    if np.isnan(cache[row]):
        total = 0.0
        for j in range(pair_places(history, start, problem.features.space.lengths[i], t, b1, b, places)):
            if places[j] >= 0:
                total += theta[places[j]]
        cache[row] = total
    total = cache[row]
    for j in range(triple_places(history, start, t, np.int64(state[3]), b1, b, places)):
        if places[j] >= 0:
            total += theta[places[j]]
    return total


@expand.register(ChunkSearch)
def _(problem, i, theta, cache, state, actions, gains):
    space = problem.features.space
    length, n_labels, t, before = space.lengths[i], space.limits.shape[0], state[0], state[1]
    left = min(length - t, space.below.shape[0] - 1)
    start, pairs = block_start(space, length, t), blocks_below(space, length)
    n = 0
    for b in range(n_labels):
        at = start + space.within[left, b]
        enter = cache[pairs + before * n_labels + b] if before >= 0 else 0.0
        if before >= 0 and problem.history.mask >= 0:
            enter += history_score(problem, i, theta, cache, state, b)
        for d in range(min(space.limits[b], left)):
            if cache[at + d] + enter > -np.inf:
                actions[n], gains[n] = d * n_labels + b, cache[at + d] + enter
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
            places = np.empty((PAIRS + TRIPLES) * problem.history.codes.shape[0] + 1, np.int64)
            b1, start = np.int64(state[1]), features.tokens.offsets[i]
            for j in range(pair_places(problem.history, start, length, t, b1, b, places)):
                if places[j] >= 0:
                    n = touch(delta, touched, n, places[j], amount)
            for j in range(triple_places(problem.history, start, t, np.int64(state[3]), b1, b, places)):
                if places[j] >= 0:
                    n = touch(delta, touched, n, places[j], amount)
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
    instance = np.repeat(np.arange(len(features.starts) - 1), np.diff(features.starts))
    order = np.lexsort((features.atoms, instance))
    if first is None:
        return ChunkSearch(features, np.zeros(1, np.int64), np.zeros(0, np.int64), order, history, 1)
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

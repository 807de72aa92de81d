"""Joint tagging and chunking as a packed search problem, §4.2: an action gives the next word its tag and chunk tag.

The chunk tag I-X may only follow B-X or I-X. Words have features with either tag (rows of attributes); histories have
weights of their own, tables with a row of chunk tags for each context that the state holds: the tags and the chunk tag
before, the tag itself, the classes of the next words. Words with tags are hashed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import feature_scores
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
from partwise.sequences.segmentation._chunk_kernels import row_features

#: Contexts that select a row of chunk tags, and how many more that select the weight of a tag alone.
CONTEXTS, TAG_CONTEXTS = 13, 3


class JointSearch(NamedTuple):
    """Inputs to tag and chunk. A state is (words done, last tag, tag before, last chunk tag)."""

    offsets: NDArray[np.int64]
    tag_rows: Any  # SparseRows with one output per tag
    chunk_rows: Any  # SparseRows with one output per chunk tag
    bases: NDArray[np.int64]  # (CONTEXTS + TAG_CONTEXTS,) where the weights of each context begin
    n_classes: int
    hash_mask: int
    classes: NDArray[np.int32]  # (words,) class of each word
    words: NDArray[np.int32]  # (words,) number of each word, −1 if unknown
    lists: NDArray[np.int32]  # (words,) which list of tags the word may have
    list_first: NDArray[np.int64]
    list_tags: NDArray[np.int32]
    legal: NDArray[np.uint8]  # (chunk tags + 1, chunk tags): may the second follow the first, or begin a sentence
    gold: NDArray[np.int64]  # (words,) actions, or (0,)
    most: int


@kernel
def contexts(problem, i, state, tag, rows):
    """rows ← where the row of chunk tags of each context begins, −1 if there is none; then weights of tag contexts."""
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    t1, u = n_tags + 1, problem.n_classes + 1
    start, stop = problem.offsets[i], problem.offsets[i + 1]
    at = start + state[0]
    tag1, tag2, chunk1 = np.int64(state[1]), np.int64(state[2]), np.int64(state[3])
    u1 = np.int64(problem.classes[at + 1]) if at + 1 < stop else np.int64(problem.n_classes)
    u2 = np.int64(problem.classes[at + 2]) if at + 2 < stop else np.int64(problem.n_classes)
    rows[0] = tag
    rows[1] = chunk1
    rows[2] = chunk1 * n_tags + tag
    rows[3] = tag1 * n_tags + tag
    rows[4] = (tag2 * t1 + tag1) * n_tags + tag
    rows[5] = (chunk1 * t1 + tag1) * n_tags + tag
    rows[6] = tag * u + u1
    rows[7] = (tag1 * n_tags + tag) * u + u1
    rows[8] = (tag * u + u1) * u + u2
    rows[9] = (chunk1 * n_tags + tag) * u + u1
    for k in range(3):
        place = at + (0 if k == 0 else (1 if k == 1 else -1))
        word = np.int64(-2)
        if start <= place < stop:
            word = np.int64(problem.words[place])
        key = np.uint64((word + 3) * 3 + k) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(tag + 1)
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        rows[10 + k] = np.int64((key >> np.uint64(20)) & np.uint64(problem.hash_mask)) if word != -1 else -1
    for k in range(CONTEXTS):
        rows[k] = problem.bases[k] + rows[k] * n_chunks if rows[k] >= 0 else -1
    rows[CONTEXTS] = problem.bases[CONTEXTS] + tag1 * n_tags + tag
    rows[CONTEXTS + 1] = problem.bases[CONTEXTS + 1] + (tag2 * t1 + tag1) * n_tags + tag
    rows[CONTEXTS + 2] = problem.bases[CONTEXTS + 2] + (tag1 * n_tags + tag) * u + u1


@state_size.register(JointSearch)
def _(problem):
    return 4


@most_actions.register(JointSearch)
def _(problem):
    return problem.tag_rows.n_outputs * problem.chunk_rows.n_outputs


@most_features.register(JointSearch)
def _(problem):
    return problem.most


@cache_size.register(JointSearch)
def _(problem, i):
    length = problem.offsets[i + 1] - problem.offsets[i]
    return length * (problem.tag_rows.n_outputs + problem.chunk_rows.n_outputs)


@prepare.register(JointSearch)
def _(problem, i, theta, cache):
    length = problem.offsets[i + 1] - problem.offsets[i]
    feature_scores(problem.tag_rows, i, theta, cache, 0)
    feature_scores(problem.chunk_rows, i, theta, cache, length * problem.tag_rows.n_outputs)


@initial_state.register(JointSearch)
def _(problem, i, state):
    n_tags = problem.tag_rows.n_outputs
    state[0], state[1], state[2], state[3] = 0, n_tags, n_tags, problem.chunk_rows.n_outputs


@last_level.register(JointSearch)
def _(problem, i):
    return problem.offsets[i + 1] - problem.offsets[i]


@reach.register(JointSearch)
def _(problem, i, state, action):
    return state[0] + 1


@expand.register(JointSearch)
def _(problem, i, theta, cache, state, actions, gains):
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    length, t = problem.offsets[i + 1] - problem.offsets[i], state[0]
    rows = np.empty(CONTEXTS + TAG_CONTEXTS, np.int64)
    which = problem.lists[problem.offsets[i] + t]
    n = 0
    for e in range(problem.list_first[which], problem.list_first[which + 1]):
        tag = np.int64(problem.list_tags[e])
        contexts(problem, i, state, tag, rows)
        score = cache[t * n_tags + tag]
        for k in range(CONTEXTS, CONTEXTS + TAG_CONTEXTS):
            score += theta[rows[k]]
        for chunk in range(n_chunks):
            if problem.legal[state[3], chunk] == 0:
                continue
            total = score + cache[length * n_tags + t * n_chunks + chunk]
            for k in range(CONTEXTS):
                if rows[k] >= 0:
                    total += theta[rows[k] + chunk]
            actions[n], gains[n] = tag * n_chunks + chunk, total
            n += 1
    return n


@advance.register(JointSearch)
def _(problem, i, state, action, after):
    n_chunks = problem.chunk_rows.n_outputs
    after[0], after[1], after[2], after[3] = state[0] + 1, action // n_chunks, state[1], action % n_chunks


@good_actions.register(JointSearch)
def _(problem, i, state, actions):
    actions[0] = problem.gold[problem.offsets[i] + state[0]]
    return 1


@action_features.register(JointSearch)
def _(problem, i, state, action, amount, delta, touched, n):
    n_chunks = problem.chunk_rows.n_outputs
    tag, chunk = action // n_chunks, action % n_chunks
    row = problem.offsets[i] + state[0]
    n = row_features(problem.tag_rows, row, tag, amount, delta, touched, n)
    n = row_features(problem.chunk_rows, row, chunk, amount, delta, touched, n)
    rows = np.empty(CONTEXTS + TAG_CONTEXTS, np.int64)
    contexts(problem, i, state, tag, rows)
    for k in range(CONTEXTS + TAG_CONTEXTS):
        if rows[k] >= 0:
            n = touch(delta, touched, n, rows[k] + (chunk if k < CONTEXTS else 0), amount)
    return n


@kernel
def best_tags(problem, theta, beam, start, stop, actions):
    """actions[t] ← what the best output of the search does at word t. Returns an input without output, or −1."""
    for i in range(start, stop):
        arena, queue = decode(problem, i, theta, beam)
        if queue.shape[0] == 0:
            return i
        node = np.int64(queue[0])
        while arena.parent[node] >= 0:
            before = np.int64(arena.parent[node])
            actions[problem.offsets[i] + arena.state[before, 0]] = arena.action[node]
            node = before
    return -1

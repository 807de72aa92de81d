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
from partwise.sequences.segmentation._keys import key_of

#: Contexts that select a row of chunk tags, and those that select the weight of a tag alone.
WORD_CONTEXTS, CONTEXTS, TAG_CONTEXTS, CLOSE_CONTEXTS = 6, 18, 24, 19


class JointSearch(NamedTuple):
    """Inputs to tag and chunk.

    A state is (words done, the last three tags, the last two chunk tags, the tags of the chunk so far, the same after
    the tag before it, its words, its length, the type of the chunk before, the tag and the word before the chunk, its
    first tag, its first word); tags and words of chunks are hashed.
    """

    offsets: NDArray[np.int64]
    tag_rows: Any  # SparseRows with one output per tag
    chunk_rows: Any  # SparseRows with one output per chunk tag
    bases: NDArray[np.int64]  # (CONTEXTS + 1,) where the weights of each context begin; the last, of tag contexts
    n_classes: int
    hash_mask: int
    tag_mask: int
    classes: NDArray[np.int32]  # (words,) class of each word
    words: NDArray[np.int32]  # (words,) number of each word, −1 if unknown
    lists: NDArray[np.int32]  # (words,) which list of tags the word may have
    list_first: NDArray[np.int64]
    list_tags: NDArray[np.int32]
    legal: NDArray[np.uint8]  # (chunk tags + 1, chunk tags): may the second follow the first, or begin a sentence
    inside: NDArray[np.uint8]  # (chunk tags,) whether a chunk goes on with it
    types: NDArray[np.int32]  # (chunk tags + 1,) the type of its chunk
    gold: NDArray[np.int64]  # (words,) actions, or (0,)
    most: int


@kernel
def word_contexts(problem, i, t, tag, rows):
    """rows[:WORD_CONTEXTS] ← where the rows of chunk tags begin that a tag has whatever came before; −1 for none."""
    n_chunks, u = problem.chunk_rows.n_outputs, problem.n_classes + 1
    start, stop = problem.offsets[i], problem.offsets[i + 1]
    at = start + t
    u1 = np.int64(problem.classes[at + 1]) if at + 1 < stop else np.int64(problem.n_classes)
    u2 = np.int64(problem.classes[at + 2]) if at + 2 < stop else np.int64(problem.n_classes)
    rows[0] = tag
    rows[1] = tag * u + u1
    rows[2] = (tag * u + u1) * u + u2
    for k in range(3):
        place = at + (0 if k == 0 else (1 if k == 1 else -1))
        word = np.int64(-2)
        if start <= place < stop:
            word = np.int64(problem.words[place])
        rows[3 + k] = -1
        if word != -1:
            rows[3 + k] = key_of(k, word, tag, 0, 0) & np.int64(problem.hash_mask)
    for k in range(WORD_CONTEXTS):
        if rows[k] >= 0:
            rows[k] = problem.bases[k] + rows[k] * n_chunks


@kernel
def state_contexts(problem, i, state, tag, rows):
    """rows[WORD_CONTEXTS:] ← where the rows of chunk tags begin that a tag has after this state."""
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    t1, c1, u = n_tags + 1, n_chunks + 1, problem.n_classes + 1
    at = problem.offsets[i] + state[0]
    tag1, tag2, chunk1, chunk2 = np.int64(state[1]), np.int64(state[2]), np.int64(state[4]), np.int64(state[5])
    u1 = np.int64(problem.classes[at + 1]) if at + 1 < problem.offsets[i + 1] else np.int64(problem.n_classes)
    rows[6] = chunk1
    rows[7] = chunk1 * n_tags + tag
    rows[8] = tag1 * n_tags + tag
    rows[9] = (tag2 * t1 + tag1) * n_tags + tag
    rows[10] = (chunk1 * t1 + tag1) * n_tags + tag
    rows[11] = (tag1 * n_tags + tag) * u + u1
    rows[12] = (chunk1 * n_tags + tag) * u + u1
    rows[13] = chunk2 * c1 + chunk1
    rows[14] = (chunk2 * c1 + chunk1) * n_tags + tag
    rows[15] = tag2 * t1 + tag1
    rows[16] = (np.int64(state[3]) * t1 + tag2) * t1 + tag1
    rows[17] = (np.int64(state[10]) * c1 + chunk1) * n_tags + tag
    for k in range(WORD_CONTEXTS, CONTEXTS):
        rows[k] = problem.bases[k] + rows[k] * n_chunks


@kernel
def tag_contexts(problem, i, state, tag, places):
    """places ← the weights of a tag after this state: of histories of tags, and of the chunks that it comes after.

    What a chunk tag has to do with the tags to its right is known only when they are: it is scored with them.
    """
    start, stop = problem.offsets[i], problem.offsets[i + 1]
    at = start + state[0]
    tag1, tag2, tag3 = np.int64(state[1]), np.int64(state[2]), np.int64(state[3])
    chunk1, chunk2 = np.int64(state[4]), np.int64(state[5])
    u1 = np.int64(problem.classes[at + 1]) if at + 1 < stop else np.int64(problem.n_classes)
    u2 = np.int64(problem.classes[at + 2]) if at + 2 < stop else np.int64(problem.n_classes)
    word = np.int64(problem.words[at])
    word1 = np.int64(problem.words[at - 1]) if at > start else np.int64(-2)
    word2 = np.int64(problem.words[at - 2]) if at - 1 > start else np.int64(-2)
    after = np.int64(problem.words[at + 1]) if at + 1 < stop else np.int64(-2)
    mask = np.int64(problem.tag_mask)
    places[0] = key_of(0, tag1, tag, 0, 0) & mask
    places[1] = key_of(1, tag2, tag1, tag, 0) & mask
    places[2] = key_of(2, tag3, tag2, tag1, tag) & mask
    places[3] = key_of(3, tag1, tag, u1, 0) & mask
    places[4] = key_of(4, tag1, tag, u1, u2) & mask
    places[5] = key_of(5, tag1, tag, word, 0) & mask
    places[6] = key_of(6, tag2, tag, word1, 0) & mask
    places[7] = key_of(7, tag1, tag, after, 0) & mask
    places[8] = key_of(8, chunk1, tag, 0, 0) & mask
    places[9] = key_of(9, chunk1, tag1, tag, 0) & mask
    places[10] = key_of(10, chunk1, tag2, tag1, tag) & mask
    places[11] = key_of(11, chunk1, tag, word1, 0) & mask
    places[12] = key_of(12, chunk1, tag, word, tag1) & mask
    places[13] = key_of(13, chunk1, tag, word, 0) & mask
    places[14] = key_of(14, chunk2, tag, tag1, 0) & mask
    places[15] = key_of(15, chunk2, tag, tag1, tag2) & mask
    places[16] = key_of(16, chunk2, tag, tag1, word2) & mask
    places[17] = key_of(17, chunk2, chunk1, tag1, tag) & mask
    places[18] = key_of(18, chunk2, tag, word1, 0) & mask
    places[19] = key_of(19, chunk1, tag1, tag, u1) & mask
    places[20] = key_of(20, chunk1, word1, word, tag) & mask
    places[21] = key_of(21, chunk2, tag3, key_of(0, tag2, tag1, tag, 0), 0) & mask
    places[22] = key_of(22, chunk1, tag2, tag, 0) & mask
    places[23] = key_of(23, chunk2, tag2, tag, 0) & mask
    for k in range(TAG_CONTEXTS):
        places[k] += problem.bases[CONTEXTS]
    if word == -1:
        places[5] = places[12] = places[13] = places[20] = -1
    if word1 == -1:
        places[6] = places[11] = places[18] = places[20] = -1
    if word2 == -1:
        places[16] = -1
    if after == -1:
        places[7] = -1


@kernel
def close_contexts(problem, i, state, tag, places):
    """places[TAG_CONTEXTS:] ← the weights of the chunk that ends before a word with this tag."""
    start = problem.offsets[i]
    at = start + state[0]
    if state[0] == 0:
        places[TAG_CONTEXTS : TAG_CONTEXTS + CLOSE_CONTEXTS] = -1
        return
    kind, tag1 = np.int64(problem.types[state[4]]), np.int64(state[1])
    word, word1 = np.int64(problem.words[at]), np.int64(problem.words[at - 1])
    whole, before, words, length = np.int64(state[6]), np.int64(state[7]), np.int64(state[8]), np.int64(state[9])
    mask = np.int64(problem.tag_mask)
    places[TAG_CONTEXTS + 0] = key_of(40, kind, whole, 0, 0) & mask
    places[TAG_CONTEXTS + 1] = key_of(41, kind, whole, tag, 0) & mask
    places[TAG_CONTEXTS + 2] = key_of(42, kind, before, 0, 0) & mask
    places[TAG_CONTEXTS + 3] = key_of(43, kind, words, 0, 0) & mask
    places[TAG_CONTEXTS + 4] = key_of(44, kind, tag1, tag, 0) & mask
    places[TAG_CONTEXTS + 5] = key_of(45, kind, word1, tag, 0) & mask
    places[TAG_CONTEXTS + 6] = key_of(46, kind, tag1, word, tag) & mask
    places[TAG_CONTEXTS + 7] = key_of(47, kind, length, 0, 0) & mask
    places[TAG_CONTEXTS + 8] = key_of(48, kind, before, tag, 0) & mask
    tag0, word0, first, first_word = np.int64(state[11]), np.int64(state[12]), np.int64(state[13]), np.int64(state[14])
    u1 = np.int64(problem.classes[at + 1]) if at + 1 < problem.offsets[i + 1] else np.int64(problem.n_classes)
    places[TAG_CONTEXTS + 9] = key_of(49, kind, tag0, tag, length) & mask
    places[TAG_CONTEXTS + 10] = key_of(50, kind, word0, word, 0) & mask
    places[TAG_CONTEXTS + 11] = key_of(51, kind, words, word, 0) & mask
    places[TAG_CONTEXTS + 12] = key_of(52, kind, word0, words, 0) & mask
    places[TAG_CONTEXTS + 13] = key_of(53, kind, first, tag1, length) & mask
    places[TAG_CONTEXTS + 14] = key_of(54, kind, first_word, word1, 0) & mask
    places[TAG_CONTEXTS + 15] = key_of(55, kind, np.int64(state[10]), whole, 0) & mask
    places[TAG_CONTEXTS + 16] = key_of(56, kind, whole, word1, 0) & mask
    places[TAG_CONTEXTS + 17] = key_of(57, kind, whole, word, 0) & mask
    places[TAG_CONTEXTS + 18] = key_of(58, kind, whole, tag, u1) & mask
    for k in range(TAG_CONTEXTS, TAG_CONTEXTS + CLOSE_CONTEXTS):
        places[k] += problem.bases[CONTEXTS]
    if words == -1:
        places[TAG_CONTEXTS + 3] = places[TAG_CONTEXTS + 11] = places[TAG_CONTEXTS + 12] = -1
    if word1 == -1:
        places[TAG_CONTEXTS + 5] = places[TAG_CONTEXTS + 14] = places[TAG_CONTEXTS + 16] = -1
    if word == -1:
        places[TAG_CONTEXTS + 6] = places[TAG_CONTEXTS + 10] = places[TAG_CONTEXTS + 11] = -1
        places[TAG_CONTEXTS + 17] = -1
    if word0 == -1:
        places[TAG_CONTEXTS + 10] = places[TAG_CONTEXTS + 12] = -1
    if first_word == -1:
        places[TAG_CONTEXTS + 14] = -1


@state_size.register(JointSearch)
def _(problem):
    return 15


@most_actions.register(JointSearch)
def _(problem):
    return problem.tag_rows.n_outputs * problem.chunk_rows.n_outputs


@most_features.register(JointSearch)
def _(problem):
    return problem.most


@cache_size.register(JointSearch)
def _(problem, i):
    length = problem.offsets[i + 1] - problem.offsets[i]
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    return length * (n_tags + n_chunks + n_tags * n_chunks)


@prepare.register(JointSearch)
def _(problem, i, theta, cache):
    length = problem.offsets[i + 1] - problem.offsets[i]
    feature_scores(problem.tag_rows, i, theta, cache, 0)
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    feature_scores(problem.chunk_rows, i, theta, cache, length * n_tags)
    for k in range(length * n_tags):  # rows of words with a tag are computed when they are needed
        cache[length * (n_tags + n_chunks) + k * n_chunks] = np.nan


@initial_state.register(JointSearch)
def _(problem, i, state):
    n_tags = problem.tag_rows.n_outputs
    state[0], state[1], state[2], state[3] = 0, n_tags, n_tags, n_tags
    state[4] = state[5] = problem.chunk_rows.n_outputs
    state[6] = state[7] = state[8] = state[9] = 0
    state[10] = problem.types[state[4]]
    state[11], state[12], state[13], state[14] = n_tags, -2, n_tags, -2


@last_level.register(JointSearch)
def _(problem, i):
    return problem.offsets[i + 1] - problem.offsets[i]


@reach.register(JointSearch)
def _(problem, i, state, action):
    return state[0] + 1


@expand.register(JointSearch)
def _(problem, i, theta, cache, state, score, bars, actions, gains):
    n_tags, n_chunks = problem.tag_rows.n_outputs, problem.chunk_rows.n_outputs
    length, t = problem.offsets[i + 1] - problem.offsets[i], np.int64(state[0])
    rows, places = np.empty(CONTEXTS, np.int64), np.empty(TAG_CONTEXTS + CLOSE_CONTEXTS, np.int64)
    total = np.empty(n_chunks)
    which = problem.lists[problem.offsets[i] + t]
    n = 0
    for e in range(problem.list_first[which], problem.list_first[which + 1]):
        tag = np.int64(problem.list_tags[e])
        own = length * (n_tags + n_chunks) + (t * n_tags + tag) * n_chunks
        if np.isnan(cache[own]):
            word_contexts(problem, i, t, tag, rows)
            given = length * n_tags + t * n_chunks
            for chunk in range(n_chunks):
                cache[own + chunk] = cache[given + chunk] + cache[t * n_tags + tag]
            for k in range(WORD_CONTEXTS):
                if rows[k] >= 0:
                    for chunk in range(n_chunks):
                        cache[own + chunk] += theta[rows[k] + chunk]
        state_contexts(problem, i, state, tag, rows)
        tag_contexts(problem, i, state, tag, places)
        close_contexts(problem, i, state, tag, places)
        history, closed = 0.0, 0.0
        for k in range(TAG_CONTEXTS):
            if places[k] >= 0:
                history += theta[places[k]]
        for k in range(TAG_CONTEXTS, TAG_CONTEXTS + CLOSE_CONTEXTS):
            if places[k] >= 0:
                closed += theta[places[k]]
        for chunk in range(n_chunks):
            total[chunk] = cache[own + chunk] + history
        for k in range(WORD_CONTEXTS, CONTEXTS):
            row = rows[k]
            for chunk in range(n_chunks):
                total[chunk] += theta[row + chunk]
        for chunk in range(n_chunks):
            if problem.legal[state[4], chunk] == 1:
                actions[n] = tag * n_chunks + chunk
                gains[n] = total[chunk] if problem.inside[chunk] == 1 else total[chunk] + closed
                n += 1
    return n


@advance.register(JointSearch)
def _(problem, i, state, action, after):
    n_chunks = problem.chunk_rows.n_outputs
    after[0], after[1], after[2], after[3] = state[0] + 1, action // n_chunks, state[1], state[2]
    after[4], after[5] = action % n_chunks, state[4]
    word = np.int64(problem.words[problem.offsets[i] + state[0]])
    if problem.inside[after[4]] == 1:
        after[6], after[7] = (
            key_of(60, state[6], after[1], 0, 0) & 0x7FFFFFFF,
            key_of(60, state[7], after[1], 0, 0) & 0x7FFFFFFF,
        )
        after[8] = key_of(60, state[8], word, 0, 0) & 0x7FFFFFFF if word >= 0 and state[8] >= 0 else -1
        after[9], after[10] = state[9] + 1, state[10]
        for k in range(11, 15):
            after[k] = state[k]
    else:
        after[6], after[7] = after[1], key_of(61, state[1], after[1], 0, 0) & 0x7FFFFFFF
        after[8], after[9], after[10] = word, 1, problem.types[state[4]]
        after[11], after[13], after[14] = state[1], after[1], word
        after[12] = problem.words[problem.offsets[i] + state[0] - 1] if state[0] > 0 else -2


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
    rows, places = np.empty(CONTEXTS, np.int64), np.empty(TAG_CONTEXTS + CLOSE_CONTEXTS, np.int64)
    word_contexts(problem, i, np.int64(state[0]), tag, rows)
    state_contexts(problem, i, state, tag, rows)
    tag_contexts(problem, i, state, tag, places)
    close_contexts(problem, i, state, tag, places)
    for k in range(CONTEXTS):
        if rows[k] >= 0:
            n = touch(delta, touched, n, rows[k] + chunk, amount)
    for k in range(TAG_CONTEXTS + (0 if problem.inside[chunk] == 1 else CLOSE_CONTEXTS)):
        if places[k] >= 0:
            n = touch(delta, touched, n, places[k], amount)
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

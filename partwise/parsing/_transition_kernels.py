"""Arc-hybrid parsing as a packed search problem: shift, or attach the top of the stack to its left or right neighbour.

The words of a sentence are 0 … n − 1 and the root, n, is the last of the buffer. SHIFT moves the first word of the
buffer to the stack; LEFT makes the first of the buffer the head of the top of the stack; RIGHT makes the second of the
stack the head of the top; both remove the top. 2n steps lead to a tree. Which actions are y-good is what the dynamic
oracle of Goldberg & Nivre (2013) says: those that lose the fewest gold arcs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
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

TEMPLATES = 38
STEP, BUFFER, DEPTH, STACK = 0, 1, 2, 3  # places in a state; after the stack: leftmost and rightmost children


class ArcHybrid(NamedTuple):
    """Sentences to parse. Action 0 is SHIFT, 1 + 2r LEFT and 2 + 2r RIGHT with relation r."""

    offsets: NDArray[np.int64]
    codes: NDArray[np.int32]  # (words, 3): form, coarse tag, fine tag
    n_relations: int
    longest: int
    row_mask: int
    heads: NDArray[np.int32]  # (words,) gold heads, the root is the length of the sentence; or (0,)
    relations: NDArray[np.int32]


@state_size.register(ArcHybrid)
def _(problem):
    return STACK + 3 * (problem.longest + 1)


@most_actions.register(ArcHybrid)
def _(problem):
    return 1 + 2 * problem.n_relations


@most_features.register(ArcHybrid)
def _(problem):
    return TEMPLATES


@cache_size.register(ArcHybrid)
def _(problem, i):
    return 1


@prepare.register(ArcHybrid)
def _(problem, i, theta, cache):
    cache[0] = 0.0


@initial_state.register(ArcHybrid)
def _(problem, i, state):
    for j in range(STACK):
        state[j] = 0
    for j in range(STACK, state.shape[0]):
        state[j] = -1


@last_level.register(ArcHybrid)
def _(problem, i):
    return 2 * (problem.offsets[i + 1] - problem.offsets[i])


@reach.register(ArcHybrid)
def _(problem, i, state, action):
    return state[STEP] + 1


@kernel
def _legal(problem, i, state):
    """(may shift, may attach left, may attach right)."""
    n = problem.offsets[i + 1] - problem.offsets[i]
    return state[BUFFER] < n, state[DEPTH] >= 1, state[DEPTH] >= 2


@advance.register(ArcHybrid)
def _(problem, i, state, action, after):
    for j in range(state.shape[0]):
        after[j] = state[j]
    after[STEP] += 1
    size = problem.longest + 1
    if action == 0:
        after[STACK + state[DEPTH]] = state[BUFFER]
        after[BUFFER] += 1
        after[DEPTH] += 1
        return
    depth = state[DEPTH]
    top = state[STACK + depth - 1]
    head = state[BUFFER] if action % 2 == 1 else state[STACK + depth - 2]
    side = STACK + size if action % 2 == 1 else STACK + 2 * size
    # the newest child is the outermost on its side
    after[side + head] = top
    after[STACK + depth - 1] = -1
    after[DEPTH] -= 1


@kernel
def _costs(problem, i, state):
    """How many gold arcs SHIFT, LEFT and RIGHT lose: those that can be built before and not after."""
    start = problem.offsets[i]
    n = problem.offsets[i + 1] - start
    first, depth = state[BUFFER], state[DEPTH]
    shift, left, right = 0, 0, 0
    if first < n:
        head = problem.heads[start + first]
        for j in range(depth):
            word = state[STACK + j]
            if word == head and j < depth - 1:
                shift += 1
            if problem.heads[start + word] == first:
                shift += 1
    if depth > 0:
        top = state[STACK + depth - 1]
        head = problem.heads[start + top]
        lost = 0
        for word in range(first, n):
            if problem.heads[start + word] == top:
                lost += 1
        under = state[STACK + depth - 2] if depth > 1 else -1
        left = lost + (1 if head == under or head > first else 0)
        right = lost + (1 if head >= first else 0)
    return shift, left, right


@good_actions.register(ArcHybrid)
def _(problem, i, state, actions):
    shift, left, right = _costs(problem, i, state)
    may_shift, may_left, may_right = _legal(problem, i, state)
    least = 1 << 30
    if may_shift:
        least = min(least, shift)
    if may_left:
        least = min(least, left)
    if may_right:
        least = min(least, right)
    n = 0
    relation = 0
    if state[DEPTH] > 0:
        relation = problem.relations[problem.offsets[i] + state[STACK + state[DEPTH] - 1]]
    if may_shift and shift == least:
        actions[n] = 0
        n += 1
    if may_left and left == least:
        actions[n] = 1 + 2 * relation
        n += 1
    if may_right and right == least:
        actions[n] = 2 + 2 * relation
        n += 1
    return n


@kernel
def _row(problem, number, a, b, c):
    """A row of weights for a template and three values."""
    key = np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(a + 2)
    key = (key ^ (key >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(b + 2)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x94D049BB133111EB) + np.uint64(c + 2)
    key = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key >> np.uint64(24)) & np.uint64(problem.row_mask))


@kernel
def _codes(problem, i, word):
    """(form, coarse tag, fine tag) of a word; −1 where there is none, −2 for the root."""
    start = problem.offsets[i]
    n = problem.offsets[i + 1] - start
    if word < 0 or word > n:
        return np.int64(-1), np.int64(-1), np.int64(-1)
    if word == n:
        return np.int64(-2), np.int64(-2), np.int64(-2)
    codes = problem.codes[start + word]
    return np.int64(codes[0]), np.int64(codes[1]), np.int64(codes[2])


@kernel
def rows_of(problem, i, state, rows):
    """rows ← the rows of weights that a state selects, one per template."""
    n, size = problem.offsets[i + 1] - problem.offsets[i], problem.longest + 1
    depth, first = state[DEPTH], np.int64(state[BUFFER])
    s0 = np.int64(state[STACK + depth - 1]) if depth > 0 else np.int64(-1)
    s1 = np.int64(state[STACK + depth - 2]) if depth > 1 else np.int64(-1)
    s2 = np.int64(state[STACK + depth - 3]) if depth > 2 else np.int64(-1)
    b1 = first + 1 if first + 1 <= n else np.int64(-1)
    b2 = first + 2 if first + 2 <= n else np.int64(-1)
    left0 = np.int64(state[STACK + size + s0]) if s0 >= 0 else np.int64(-1)
    right0 = np.int64(state[STACK + 2 * size + s0]) if s0 >= 0 else np.int64(-1)
    right1 = np.int64(state[STACK + 2 * size + s1]) if s1 >= 0 else np.int64(-1)
    left_first = np.int64(state[STACK + size + first]) if first <= problem.longest else np.int64(-1)
    w0, p0, x0 = _codes(problem, i, s0)
    w1, p1, x1 = _codes(problem, i, s1)
    _, p2, x2 = _codes(problem, i, s2)
    wb, pb, xb = _codes(problem, i, first)
    wb1, pb1, xb1 = _codes(problem, i, b1)
    _, pb2, xb2 = _codes(problem, i, b2)
    _, pl, xl = _codes(problem, i, left0)
    _, pr, xr = _codes(problem, i, right0)
    _, pr1, xr1 = _codes(problem, i, right1)
    _, plb, xlb = _codes(problem, i, left_first)
    near = min(first - s0, 6) if s0 >= 0 else np.int64(0)
    gap = min(s0 - s1, 6) if s1 >= 0 else np.int64(0)
    o = np.int64(0)
    rows[0] = _row(problem, 0, o, o, o)
    rows[1] = _row(problem, 1, w0, o, o)
    rows[2] = _row(problem, 2, x0, o, o)
    rows[3] = _row(problem, 3, w0, x0, o)
    rows[4] = _row(problem, 4, w1, o, o)
    rows[5] = _row(problem, 5, x1, o, o)
    rows[6] = _row(problem, 6, wb, o, o)
    rows[7] = _row(problem, 7, xb, o, o)
    rows[8] = _row(problem, 8, wb, xb, o)
    rows[9] = _row(problem, 9, wb1, o, o)
    rows[10] = _row(problem, 10, xb1, o, o)
    rows[11] = _row(problem, 11, x0, xb, o)
    rows[12] = _row(problem, 12, w0, xb, o)
    rows[13] = _row(problem, 13, x0, wb, o)
    rows[14] = _row(problem, 14, w0, wb, o)
    rows[15] = _row(problem, 15, x1, x0, o)
    rows[16] = _row(problem, 16, w1, w0, o)
    rows[17] = _row(problem, 17, x1, w0, o)
    rows[18] = _row(problem, 18, w1, x0, o)
    rows[19] = _row(problem, 19, x1, x0, xb)
    rows[20] = _row(problem, 20, x0, xb, xb1)
    rows[21] = _row(problem, 21, x2, x1, x0)
    rows[22] = _row(problem, 22, xb, xb1, xb2)
    rows[23] = _row(problem, 23, p0, pb, near)
    rows[24] = _row(problem, 24, p1, p0, gap)
    rows[25] = _row(problem, 25, x0, xl, xb)
    rows[26] = _row(problem, 26, x0, xr, xb)
    rows[27] = _row(problem, 27, x1, xr1, x0)
    rows[28] = _row(problem, 28, x0, xb, xlb)
    rows[29] = _row(problem, 29, p0, pl, pr)
    rows[30] = _row(problem, 30, p1, pr1, p0)
    rows[31] = _row(problem, 31, pb, plb, p0)
    rows[32] = _row(problem, 32, near, w0, o)
    rows[33] = _row(problem, 33, gap, w0, o)
    rows[34] = _row(problem, 34, near, wb, o)
    rows[35] = _row(problem, 35, p2, p1, p0)
    rows[36] = _row(problem, 36, wb1, xb, x0)
    rows[37] = _row(problem, 37, pb, pb1, pb2)


@expand.register(ArcHybrid)
def _(problem, i, theta, cache, state, actions, gains):
    width = 1 + 2 * problem.n_relations
    rows, totals = np.empty(TEMPLATES, np.int64), np.zeros(width)
    rows_of(problem, i, state, rows)
    for k in range(TEMPLATES):
        at = np.uintp(rows[k] * width)
        for a in range(np.uintp(width)):
            totals[a] += theta[at + a]
    may_shift, may_left, may_right = _legal(problem, i, state)
    n = 0
    for a in range(width):
        if (a == 0 and may_shift) or (a > 0 and a % 2 == 1 and may_left) or (a > 0 and a % 2 == 0 and may_right):
            actions[n], gains[n] = a, totals[a]
            n += 1
    return n


@action_features.register(ArcHybrid)
def _(problem, i, state, action, amount, delta, touched, n):
    width = 1 + 2 * problem.n_relations
    rows = np.empty(TEMPLATES, np.int64)
    rows_of(problem, i, state, rows)
    for k in range(TEMPLATES):
        n = touch(delta, touched, n, rows[k] * width + action, amount)
    return n


@kernel
def best_trees(problem, theta, beam, start, stop, heads, relations):
    """heads, relations ← the best tree that the search finds for every sentence; the root is the sentence's length."""
    for i in range(start, stop):
        arena, queue = decode(problem, i, theta, beam)
        node = np.int64(queue[0])
        while arena.parent[node] >= 0:
            before, action = np.int64(arena.parent[node]), arena.action[node]
            if action > 0:
                state = arena.state[before]
                depth = state[DEPTH]
                word = problem.offsets[i] + state[STACK + depth - 1]
                heads[word] = state[BUFFER] if action % 2 == 1 else state[STACK + depth - 2]
                relations[word] = (action - 1) // 2
            node = before

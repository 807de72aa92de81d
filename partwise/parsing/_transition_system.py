"""Arc-hybrid transitions as a packed search problem: states, what may be done in them, and what is y-good.

The words of a sentence are 0 … n − 1 and the root, n, is the last of the buffer. SHIFT moves the first word of the
buffer to the stack; LEFT makes the first of the buffer the head of the top of the stack; RIGHT makes the second of the
stack the head of the top; both remove the top. 2n steps lead to a tree, and after each step there is room for a choice
of relation: the arc that was built gets its name, or nothing is to be named. So a search has 4n levels, and hypotheses
compete first by their steps and then by their relations.

Which steps are y-good is what the dynamic oracle of Goldberg & Nivre (2013) says: those that lose the fewest gold arcs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.learners.laso.packed import (
    advance,
    cache_size,
    good_actions,
    initial_state,
    last_level,
    most_actions,
    most_features,
    prepare,
    reach,
    state_size,
)

__all__ = ["LEFT", "NO_HEAD", "RIGHT", "SHIFT", "STEP_WIDTH", "ArcHybrid", "uncross"]

SHIFT, LEFT, RIGHT = 0, 1, 2
NO_HEAD = -2  # of a word whose gold arc cannot be built
STEP_WIDTH = 4  # weights of a row of steps, of which three are used: a row lies within a line of the cache

#: Places in a state: level, first of the buffer, depth of the stack, the word whose arc has no name yet (or −1), the
#: stack; then nine fields of every word and the root.
LEVEL, BUFFER, DEPTH, PENDING, STACK = range(5)
HEAD, LABEL, LEFT_CHILD, RIGHT_CHILD, NEXT_INNER, N_LEFT, N_RIGHT, LEFT_LABELS, RIGHT_LABELS = range(9)


class ArcHybrid(NamedTuple):
    """Sentences to parse, and the tables of their weights."""

    offsets: NDArray[np.int64]
    views: NDArray[np.uint64]  # (words + 2, views), see _transition_templates
    step_templates: NDArray[np.int64]  # (T, 4) atoms
    step_salts: NDArray[np.uint64]
    label_templates: NDArray[np.int64]
    label_salts: NDArray[np.uint64]
    step_bits: int  # weights of steps are θ[: 2^step_bits · STEP_WIDTH]
    row_bits: int  # then 2^row_bits rows of one weight per relation
    n_relations: int  # 1: no relations are learned
    single_root: bool
    longest: int
    heads: NDArray[np.int32]  # (words,) gold heads, the root is the length of the sentence; or (0,)
    relations: NDArray[np.int32]


@kernel
def field_of(n, field):
    """Where a field of the words begins, in a state of n words."""
    return STACK + (1 + field) * (n + 1)


@state_size.register(ArcHybrid)
def _(problem):
    return STACK + 10 * (problem.longest + 1)


@most_actions.register(ArcHybrid)
def _(problem):
    return max(3, problem.n_relations)


@most_features.register(ArcHybrid)
def _(problem):
    return max(problem.step_templates.shape[0], problem.label_templates.shape[0])


@cache_size.register(ArcHybrid)
def _(problem, i):
    return 1


@prepare.register(ArcHybrid)
def _(problem, i, theta, cache):
    cache[0] = 0.0


@initial_state.register(ArcHybrid)
def _(problem, i, state):
    clear(state, problem.offsets[i + 1] - problem.offsets[i])


@kernel
def clear(state, n):
    """The initial state of a sentence of n words."""
    for j in range(STACK):
        state[j] = 0
    state[PENDING] = -1
    for j in range(STACK, field_of(n, N_LEFT)):
        state[j] = -1
    for j in range(field_of(n, N_LEFT), field_of(n, RIGHT_LABELS + 1)):
        state[j] = 0


@last_level.register(ArcHybrid)
def _(problem, i):
    return 4 * (problem.offsets[i + 1] - problem.offsets[i])


@reach.register(ArcHybrid)
def _(problem, i, state, action):
    return state[LEVEL] + 1


@kernel
def legal(problem, n, state):
    """(may shift, may attach left, may attach right). One root: what is left in the end may hang from it, one word."""
    left = state[DEPTH] >= 1 and not (problem.single_root and state[BUFFER] == n and state[DEPTH] > 1)
    return state[BUFFER] < n, left, state[DEPTH] >= 2


@kernel
def take_step(state, n, action):
    """Change a state by a step."""
    depth, first = state[DEPTH], state[BUFFER]
    if action == SHIFT:
        state[STACK + depth] = first
        state[BUFFER] = first + 1
        state[DEPTH] = depth + 1
        return
    top = state[STACK + depth - 1]
    head = first if action == LEFT else state[STACK + depth - 2]
    children = field_of(n, LEFT_CHILD if action == LEFT else RIGHT_CHILD) + head
    count = field_of(n, N_LEFT if action == LEFT else N_RIGHT) + head
    state[field_of(n, NEXT_INNER) + top] = state[children]
    state[children] = top  # the newest child is the outermost on its side
    state[count] += 1
    state[field_of(n, HEAD) + top] = head
    state[PENDING] = top
    state[DEPTH] = depth - 1


@kernel
def name_arc(state, n, relation):
    """Give the pending arc its relation."""
    word = state[PENDING]
    head = state[field_of(n, HEAD) + word]
    state[field_of(n, LABEL) + word] = relation
    labels = field_of(n, LEFT_LABELS if word < head else RIGHT_LABELS) + head
    state[labels] ^= np.int32(np.uint32((np.uint64(relation + 1) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)))
    state[PENDING] = -1


@advance.register(ArcHybrid)
def _(problem, i, state, action, after):
    n = problem.offsets[i + 1] - problem.offsets[i]
    for j in range(field_of(n, RIGHT_LABELS + 1)):
        after[j] = state[j]
    if state[LEVEL] % 2 == 0:
        take_step(after, n, action)
    elif state[PENDING] >= 0:
        name_arc(after, n, action)
    after[LEVEL] += 1


@kernel
def costs(problem, i, state):
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
    n = problem.offsets[i + 1] - problem.offsets[i]
    if state[LEVEL] % 2 == 1:
        word = state[PENDING]
        actions[0] = problem.relations[problem.offsets[i] + word] if word >= 0 and problem.n_relations > 1 else 0
        return 1
    lost, may = costs(problem, i, state), legal(problem, n, state)
    least = 1 << 30
    for a in range(3):
        if may[a] and lost[a] < least:
            least = lost[a]
    count = 0
    for a in range(3):
        if may[a] and lost[a] == least:
            actions[count] = a
            count += 1
    return count


@kernel
def _cross(heads, a, b):
    """Whether the arcs of two words cross."""
    low, high = min(a, heads[a]), max(a, heads[a])
    first, last = min(b, heads[b]), max(b, heads[b])
    return low < first < high < last or first < low < last < high


@kernel
def uncross(heads, n):
    """Drop arcs until none cross: always the one that crosses the most others, the longest of these.

    The root is n; words that lose their arcs have the head NO_HEAD. Returns how many.
    """
    lost = 0
    while True:
        most, longest, chosen = 0, 0, -1
        for a in range(n):
            count = 0
            for b in range(n):
                if heads[a] != NO_HEAD and heads[b] != NO_HEAD and _cross(heads, a, b):
                    count += 1
            length = abs(heads[a] - a)
            if count > most or (count == most and count > 0 and length > longest):
                most, longest, chosen = count, length, a
        if chosen < 0:
            return lost
        heads[chosen] = NO_HEAD
        lost += 1

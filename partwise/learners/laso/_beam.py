"""Beam search over packed problems: Figure 1 of Daumé & Marcu with a queue that is cut off.

States have levels (tokens covered, steps taken). The nodes of the lowest level are taken off together, only the b best
of them are expanded, and their children wait in the lists of higher levels. So hypotheses compete with those that
explain as much of the input, and a beam without limit is exact. Nodes live in an arena: parent, action, state, score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import composite, kernel
from partwise.learners.laso.packed import (
    advance,
    cache_size,
    expand,
    initial_state,
    last_level,
    most_actions,
    prepare,
    reach,
    state_size,
)


class Arena(NamedTuple):
    """All nodes of one search; a queue is a list of their numbers."""

    parent: NDArray[np.int32]
    action: NDArray[np.int64]
    good: NDArray[np.uint8]
    score: NDArray[np.float64]
    state: NDArray[np.int32]  # (capacity, S)


@kernel
def new_arena(capacity, size):
    return Arena(
        np.empty(capacity, np.int32), np.empty(capacity, np.int64), np.empty(capacity, np.uint8),
        np.empty(capacity), np.empty((capacity, size), np.int32),
    )  # fmt: skip


@kernel
def room(arena, used, more):
    """The arena, or a copy twice as large, with room for ``more`` nodes."""
    if used + more <= arena.parent.shape[0]:
        return arena
    larger = new_arena(2 * (used + more), arena.state.shape[1])
    for n in range(used):
        larger.parent[n], larger.action[n], larger.good[n] = arena.parent[n], arena.action[n], arena.good[n]
        larger.score[n] = arena.score[n]
        larger.state[n] = arena.state[n]
    return larger


@kernel
def keep_best(keys, count, b, heap):
    """heap[:m] ← the places of the m = min(b, count) largest keys, largest first; earlier places win ties."""
    m = 0
    for j in range(count):
        if m < b:  # sift up: the root is the worst that is kept
            place = m
            m += 1
            while place > 0:
                up = (place - 1) // 2
                if keys[heap[up]] < keys[j] or (keys[heap[up]] == keys[j] and heap[up] > j):
                    break
                heap[place] = heap[up]
                place = up
            heap[place] = j
        elif keys[j] > keys[heap[0]]:
            _sift_down(keys, heap, m, j)
    for last in range(m - 1, 0, -1):  # the worst goes to the end
        moved = heap[last]
        heap[last] = heap[0]
        _sift_down(keys, heap, last, moved)
    return m


@kernel
def _sift_down(keys, heap, m, j):
    """Replace the root of a heap of m places by j."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= m:
            break
        if child + 1 < m:
            a, c = heap[child], heap[child + 1]
            if keys[c] < keys[a] or (keys[c] == keys[a] and c > a):
                child += 1
        c = heap[child]
        if keys[j] < keys[c] or (keys[j] == keys[c] and j > c):
            break
        heap[place] = c
        place = child
    heap[place] = j


@composite
def root(problem, i, arena):
    """Put the initial state into the arena."""
    arena.parent[0], arena.action[0], arena.good[0], arena.score[0] = -1, -1, 1, 0.0
    initial_state(problem, i, arena.state[0])


class Waiting(NamedTuple):
    """Candidates that wait at their levels, in linked lists: children that have no node of their own yet."""

    parent: NDArray[np.int64]
    action: NDArray[np.int64]
    key: NDArray[np.float64]
    good: NDArray[np.uint8]
    link: NDArray[np.int64]  # the next of the same level, −1 at the end


@kernel
def new_waiting(capacity):
    whole = np.int64(capacity)
    return Waiting(
        np.empty(whole, np.int64), np.empty(whole, np.int64), np.empty(whole), np.empty(whole, np.uint8),
        np.empty(whole, np.int64),
    )  # fmt: skip


@kernel
def waiting_room(waiting, used, more):
    """The lists, or a copy twice as large, with room for ``more`` candidates."""
    if used + more <= waiting.parent.shape[0]:
        return waiting
    larger = new_waiting(2 * (used + more))
    larger.parent[:used], larger.action[:used] = waiting.parent[:used], waiting.action[:used]
    larger.key[:used], larger.good[:used], larger.link[:used] = (
        waiting.key[:used], waiting.good[:used], waiting.link[:used],
    )  # fmt: skip
    return larger


@kernel
def collect(waiting, first, keys, places):
    """keys, places ← those of a list, in the order in which they came; returns how many."""
    n = 0
    while first >= 0:
        places[n] = first
        n += 1
        first = waiting.link[first]
    for j in range(n // 2):
        places[j], places[n - 1 - j] = places[n - 1 - j], places[j]
    for j in range(n):
        keys[j] = waiting.key[places[j]]
    return n


@kernel
def prune(waiting, heads, counts, bars, level, beam, down):
    """Cut a list that has grown long to its b best and its y-good ones; what is no better need not come in later."""
    count = counts[level]
    keys, places = np.empty(count), np.empty(count, np.int64)
    collect(waiting, heads[level], keys, places)
    for j in range(count):
        if waiting.good[places[j]] == 1:
            keys[j] -= down
    heap = np.empty(min(beam, count), np.int64)
    size = keep_best(keys, count, beam, heap)
    bars[level] = keys[heap[size - 1]]
    stays = np.zeros(count, np.bool_)
    for q in range(size):
        stays[heap[q]] = True
    heads[level], counts[level] = -1, 0
    for j in range(count):
        if stays[j] or waiting.good[places[j]] == 1:
            waiting.link[places[j]] = heads[level]
            heads[level] = places[j]
            counts[level] += 1


@composite
def settle(problem, i, arena, used, waiting, place):
    """Make a node of a candidate."""
    before = waiting.parent[place]
    arena.parent[used], arena.action[used] = before, waiting.action[place]
    arena.good[used], arena.score[used] = waiting.good[place], waiting.key[place]
    advance(problem, i, arena.state[before], waiting.action[place], arena.state[used])


@kernel
def same_states(arena, queue, size, first):
    """first[q] ← the place in the queue of the first node with the state of queue[q].

    A state is all that the rest of a search depends on, and in a beam many paths lead to the same: one expansion does.
    """
    if size == 1:
        first[0] = 0
        return
    slots = 16
    while slots < 2 * size:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    for q in range(size):
        state = arena.state[queue[q]]
        code = np.uint64(0)
        for k in range(state.shape[0]):
            code = (code ^ np.uint64(np.uint32(state[k]))) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(slots - 1))
        while True:
            other = table[slot]
            if other < 0:
                table[slot] = first[q] = q
                break
            known = arena.state[queue[other]]
            k = 0
            while k < state.shape[0] and known[k] == state[k]:
                k += 1
            if k == state.shape[0]:
                first[q] = other
                break
            slot = (slot + 1) & (slots - 1)


class Expansions(NamedTuple):
    """What was found in the states of one level: sizes[q] actions and gains of queue[q], from start[q] on."""

    actions: NDArray[np.int64]
    gains: NDArray[np.float64]
    start: NDArray[np.int64]
    sizes: NDArray[np.int64]


@kernel
def new_expansions(capacity, size):
    whole, n = np.int64(capacity), np.int64(size)
    return Expansions(np.empty(whole, np.int64), np.empty(whole), np.empty(n, np.int64), np.zeros(n, np.int64))


@kernel
def expansion_room(found, used, more, size):
    """The expansions, or a copy twice as large, with room for ``more`` actions and a queue of ``size``."""
    if used + more <= found.actions.shape[0] and size <= found.start.shape[0]:
        return found
    larger = new_expansions(max(found.actions.shape[0], 2 * (used + more)), max(found.start.shape[0], 2 * size))
    larger.actions[:used], larger.gains[:used] = found.actions[:used], found.gains[:used]
    larger.start[: found.start.shape[0]], larger.sizes[: found.start.shape[0]] = found.start, found.sizes
    return larger


@kernel
def decode(problem, i, theta, beam):
    """(arena, queue): the search of input i; the queue holds the best goals, best first, or none if there is none."""
    cache = np.empty(cache_size(problem, i))
    prepare(problem, i, theta, cache)
    width, last = most_actions(problem), last_level(problem, i)
    arena, waiting = new_arena(64 + 32 * min(beam, 64), state_size(problem)), new_waiting(1024)
    root(problem, i, arena)
    heads, counts = np.full(last + 1, -1, np.int64), np.zeros(last + 1, np.int64)
    bars, long = np.full(last + 1, -np.inf), 2 * beam + 8
    found = new_expansions(4 * width, 64)
    queue = np.zeros(1, np.int64)
    used, size, waits, level = 1, 1, 0, 0
    while level < last:
        first, filled = np.zeros(size, np.int64), 0
        same_states(arena, queue, size, first)
        for q in range(size):
            node = queue[q]
            state, score = arena.state[node], arena.score[node]
            if first[q] == q:
                found = expansion_room(found, filled, width, size)
                found.start[q] = filled
                found.sizes[q] = expand(
                    problem, i, theta, cache, state, score, bars, found.actions[filled:], found.gains[filled:]
                )
                filled += found.sizes[q]
            begin, n = found.start[first[q]], found.sizes[first[q]]
            actions, gains = found.actions[begin : begin + n], found.gains[begin : begin + n]
            waiting = waiting_room(waiting, waits, n)
            for j in range(n):
                to = reach(problem, i, state, actions[j])
                key = score + gains[j]
                if not key > bars[to]:
                    continue
                waiting.parent[waits], waiting.action[waits] = node, actions[j]
                waiting.key[waits], waiting.good[waits] = key, 0
                waiting.link[waits] = heads[to]
                heads[to] = waits
                counts[to] += 1
                waits += 1
                if counts[to] >= long:
                    prune(waiting, heads, counts, bars, to, beam, 0.0)
        level += 1
        while level < last and heads[level] < 0:
            level += 1
        count = counts[level]
        keys, places = np.empty(count), np.empty(count, np.int64)
        collect(waiting, heads[level], keys, places)
        heap = np.empty(min(beam, count), np.int64)
        size = keep_best(keys, count, beam, heap)
        arena = room(arena, used, size)
        queue = np.empty(size, np.int64)
        for q in range(size):
            settle(problem, i, arena, used, waiting, places[heap[q]])
            queue[q] = used
            used += 1
    return arena, queue

"""Learning inside beam search over packed problems: Figure 2, eqs. (2) and (3) of Daumé & Marcu, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import composite, kernel
from partwise.learners.laso._beam import (
    collect,
    expansion_room,
    keep_best,
    new_arena,
    new_expansions,
    new_waiting,
    prune,
    room,
    root,
    same_states,
    settle,
    waiting_room,
)
from partwise.learners.laso.packed import (
    action_features,
    advance,
    cache_size,
    expand,
    good_actions,
    last_level,
    most_actions,
    most_features,
    prepare,
    reach,
    state_size,
)

#: Update rules, and what is done after an error.
PERCEPTRON, ALMA = 0, 1
LASO, EARLY, STANDARD, MAX_VIOLATION, EXPLORE = 0, 1, 2, 3, 4
ALL, AHEAD = 0, 1

#: Violations that differ by less are the same: the first of them counts.
TIE = 1e-9

# Places of the numbers that a pass carries from input to input.
GENERATION, SCALE, NORM2, UPDATES, MASS, STEPS, LARGEST, ERRORS = range(8)


class Rule(NamedTuple):
    """How to learn: eq. (2) or eq. (3), which of the five ways to go on, and what siblings are compared with."""

    update: int
    mode: int
    beam: int
    alpha: float
    b: float
    c: float
    rivals: int = 0


class Log(NamedTuple):
    """Where Δ of every correction is written to, for whoever wants to see them: one row after another."""

    used: NDArray[np.int64]  # corrections; whether there was room for all of them
    ends: NDArray[np.int64]  # where each row ends; of length 0 if nothing is to be written
    places: NDArray[np.int64]
    values: NDArray[np.float64]


def new_log(rows: int = 0, entries: int = 0) -> Log:
    return Log(np.zeros(2, np.int64), np.zeros(rows, np.int64), np.empty(entries, np.int64), np.empty(entries))


@kernel
def write_row(log, touched, values, n):
    """One more row of the log; log.used[1] = 1 if there is no room for it."""
    row = log.used[0]
    begin = log.ends[row - 1] if row > 0 else np.int64(0)
    if row >= log.ends.shape[0] or begin + n > log.places.shape[0]:
        log.used[1] = 1
        return
    for j in range(n):
        log.places[begin + j], log.values[begin + j] = touched[j], values[j]
    log.ends[row] = begin + n
    log.used[0] = row + 1


@composite
def margin(rule, numbers):
    """(1 − α)B k^{−1/2}: what y-good nodes are down-weighted by, in units of theta."""
    if rule.update == PERCEPTRON:
        return 0.0
    return (1.0 - rule.alpha) * rule.b / math.sqrt(numbers[GENERATION]) / numbers[SCALE]


@composite
def difference(problem, i, arena, used, share, delta, touched):
    """delta ← Σ_n share[n]·Φ(x, n): shares are added up towards the root, so that every edge is visited once.

    Where paths meet, the shares of siblings and of nodes cancel: what they have in common is not updated at all.
    """
    n = 0
    most = most_features(problem)
    for node in range(used - 1, 0, -1):
        if abs(share[node]) > 1e-12:
            if n + most > touched.shape[0]:
                longer = np.empty(2 * (n + most), np.int64)
                longer[:n] = touched[:n]
                touched = longer
            before = arena.parent[node]
            n = action_features(problem, i, arena.state[before], arena.action[node], share[node], delta, touched, n)
            share[before] += share[node]
        share[node] = 0.0
    share[0] = 0.0
    return touched, n


@composite
def step(rule, numbers, theta, shift, delta, touched, n, log):
    """w ← w + Δ, eq. (2), or w ← ℘(w + C k^{−1/2} ℘(Δ)), eq. (3), where w = scale·theta; clears Δ.

    ``shift`` keeps the sum of all w so far as mass·theta + shift, so that averaging costs no more than the update.
    """
    norm2, dot = 0.0, 0.0
    kept = 0
    values = np.empty(n)
    for j in range(n):  # what is listed twice is zero the second time
        at = touched[j]
        if delta[at] != 0.0:
            norm2 += delta[at] * delta[at]
            dot += delta[at] * theta[at]
            touched[kept], values[kept] = at, delta[at]
            delta[at] = 0.0
            kept += 1
    if log.ends.shape[0] > 0:
        write_row(log, touched, values, kept)
    scale = numbers[SCALE]
    eta = 1.0
    if rule.update == ALMA:
        eta = rule.c / math.sqrt(numbers[GENERATION]) / max(1.0, math.sqrt(norm2))
    for j in range(kept):
        change = eta / scale * values[j]
        theta[touched[j]] += change
        shift[touched[j]] -= numbers[MASS] * change
    numbers[NORM2] += 2.0 * eta * scale * dot + eta * eta * norm2
    if rule.update == ALMA and numbers[NORM2] > 1.0:
        numbers[SCALE] = scale / math.sqrt(numbers[NORM2])
        numbers[NORM2] = 1.0
    numbers[LARGEST] = max(numbers[LARGEST], numbers[NORM2])
    numbers[GENERATION] += 1.0
    numbers[UPDATES] += 1.0


@composite
def path_score(problem, i, arena, used, node, theta, share, delta, touched):
    """wᵀΦ(x, node) with the present weights, in units of theta."""
    share[node] = 1.0
    touched, n = difference(problem, i, arena, used, share, delta, touched)
    total = 0.0
    for j in range(n):
        total += delta[touched[j]] * theta[touched[j]]
        delta[touched[j]] = 0.0
    return touched, total


@kernel
def learn_input(problem, i, rule, numbers, theta, shift, delta, touched, log):
    """Figure 2 for input i, in place; returns the list ``touched``, which may have grown.

    An error is a queue without a y-good node, or a goal at its head that is not y-good. LASO continues from the y-good
    siblings; EARLY stops at the first error; STANDARD compares complete outputs only; MAX_VIOLATION updates where the
    best node is furthest above the y-good one; EXPLORE continues from the wrong nodes, which then count as y-good.
    """
    cache = np.empty(cache_size(problem, i))
    prepare(problem, i, theta, cache)
    width, last = most_actions(problem), last_level(problem, i)
    arena, waiting = new_arena(64 + 32 * min(rule.beam, 64), state_size(problem)), new_waiting(1024)
    root(problem, i, arena)
    heads, counts = np.full(last + 1, -1, np.int64), np.zeros(last + 1, np.int64)
    bars, open_bars, long = np.full(last + 1, -np.inf), np.full(last + 1, -np.inf), 2 * rule.beam + 8
    found, right = new_expansions(4 * width, 64), np.empty(width, np.int64)
    queue = np.zeros(1, np.int64)
    used, size, waits, level = 1, 1, 0, 0
    down = margin(rule, numbers)
    hopes = 0  # y-good candidates that wait
    whole = rule.mode == STANDARD or rule.mode == MAX_VIOLATION
    reference, reference_level = 0, 0  # a y-good node that goes along where the search does not restart
    worst, worst_bad, worst_good = -np.inf, -1, -1
    while level < last:
        first, filled = np.zeros(size, np.int64), 0
        same_states(arena, queue, size, first)
        for q in range(size):
            node = queue[q]
            state, score = arena.state[node], arena.score[node]
            n_right = good_actions(problem, i, state, right) if arena.good[node] == 1 else 0
            level_bars = bars if n_right == 0 else open_bars  # y-good children come in wherever they stand
            if first[q] == q or n_right > 0:  # nodes come best first, and bars only rise: the first has all that count
                found = expansion_room(found, filled, width, size)
                found.start[q], first[q] = filled, q
                found.sizes[q] = expand(
                    problem, i, theta, cache, state, score, level_bars, found.actions[filled:], found.gains[filled:]
                )
                filled += found.sizes[q]
            begin, n = found.start[first[q]], found.sizes[first[q]]
            actions, gains = found.actions[begin : begin + n], found.gains[begin : begin + n]
            waiting = waiting_room(waiting, waits, n)
            for j in range(n):
                to = reach(problem, i, state, actions[j])
                good = 0
                for r in range(n_right):
                    if right[r] == actions[j]:
                        good = 1
                hopes += good
                key = score + gains[j]
                if good == 0 and not key > bars[to]:
                    continue
                waiting.parent[waits], waiting.action[waits] = node, actions[j]
                waiting.key[waits], waiting.good[waits] = key, good
                waiting.link[waits] = heads[to]
                heads[to] = waits
                counts[to] += 1
                waits += 1
                if counts[to] >= long:
                    prune(waiting, heads, counts, bars, to, rule.beam, down)
        if whole and reference_level == level:  # its best y-good child
            own = arena.state[reference]
            n = expand(problem, i, theta, cache, own, 0.0, open_bars, found.actions, found.gains)
            n_right = good_actions(problem, i, own, right)
            best, chosen = -np.inf, np.int64(0)
            for j in range(n):
                for r in range(n_right):
                    if right[r] == found.actions[j] and found.gains[j] > best:
                        best, chosen = found.gains[j], found.actions[j]
            arena = room(arena, used, 1)
            arena.parent[used], arena.action[used], arena.good[used] = reference, chosen, 1
            arena.score[used] = arena.score[reference] + best
            advance(problem, i, arena.state[reference], chosen, arena.state[used])
            reference_level = reach(problem, i, arena.state[reference], chosen)
            reference = used
            used += 1
        level += 1
        while level < last and heads[level] < 0:
            level += 1

        # the b best of the level, the y-good ones down-weighted
        count = counts[level]
        keys, places = np.empty(count), np.empty(count, np.int64)
        collect(waiting, heads[level], keys, places)
        good_here = 0
        for j in range(count):
            if waiting.good[places[j]] == 1:
                keys[j] -= down
                good_here += 1
        heap = np.empty(min(rule.beam, count), np.int64)
        size = keep_best(keys, count, rule.beam, heap)
        hopes -= good_here
        arena = room(arena, used, size + good_here)
        queue = np.empty(size + good_here, np.int64)
        alive = 0
        for q in range(size):
            settle(problem, i, arena, used, waiting, places[heap[q]])
            alive += arena.good[used]
            queue[q] = used
            used += 1
        if whole:
            violation = arena.score[queue[0]] - (arena.score[reference] - down)
            wrong = reference_level == level and arena.good[queue[0]] == 0
            if wrong and violation >= 0.0 and violation > worst + TIE:
                worst, worst_bad, worst_good = violation, queue[0], reference
            continue
        if good_here == 0 or (alive == 0 and hopes > 0):
            continue  # y-good nodes wait at higher levels
        if alive > 0 and (level < last or arena.good[queue[0]] == 1):
            continue

        # an error: siblings against nodes, and on from the siblings
        nodes = size
        for q in range(nodes):
            if arena.good[queue[q]] == 1:
                queue[size] = queue[q]
                size += 1
        if alive == 0:
            for j in range(count):
                if waiting.good[places[j]] == 1:
                    settle(problem, i, arena, used, waiting, places[j])
                    queue[size] = used
                    size += 1
                    used += 1
        share = np.zeros(used)
        rivals = nodes
        if rule.rivals == AHEAD:
            rivals = 1  # the head of the queue is not y-good, or there would be no error
            while rivals < nodes and arena.good[queue[rivals]] == 0:
                rivals += 1
        for q in range(rivals):
            share[queue[q]] -= 1.0 / rivals
        for q in range(nodes, size):
            share[queue[q]] += 1.0 / (size - nodes)
        touched, n = difference(problem, i, arena, used, share, delta, touched)
        step(rule, numbers, theta, shift, delta, touched, n, log)
        numbers[ERRORS] += 1.0
        if rule.mode == EARLY or level == last:
            return touched
        prepare(problem, i, theta, cache)
        if rule.mode == EXPLORE:
            size = nodes
            for q in range(nodes):
                arena.good[queue[q]] = 1
        else:
            for q in range(nodes, size):
                queue[q - nodes] = queue[q]
            size -= nodes
        heads[:], counts[:], bars[:] = -1, 0, -np.inf
        waits, hopes = 0, 0
        down = margin(rule, numbers)
        if size == 1:
            arena.score[queue[0]] = 0.0  # only differences count from here on
        else:
            for q in range(size):
                touched, total = path_score(problem, i, arena, used, queue[q], theta, share, delta, touched)
                arena.score[queue[q]] = total
    if rule.mode == STANDARD and arena.good[queue[0]] == 0:
        worst_bad, worst_good = queue[0], reference
    if worst_bad >= 0:
        share = np.zeros(used)
        share[worst_good] += 1.0
        share[worst_bad] -= 1.0
        touched, n = difference(problem, i, arena, used, share, delta, touched)
        step(rule, numbers, theta, shift, delta, touched, n, log)
        numbers[ERRORS] += 1.0
    return touched


@kernel
def learn_pass(problem, order, rule, numbers, theta, shift, delta, log):
    """One pass over the inputs in this order; averages over inputs, and writes corrections into a log that has room."""
    touched = np.empty(1024, np.int64)
    for i in order:
        touched = learn_input(problem, i, rule, numbers, theta, shift, delta, touched, log)
        if numbers[SCALE] < 1e-9:  # fold the scale into theta before it underflows
            scale = numbers[SCALE]
            for j in range(theta.shape[0]):
                theta[j] *= scale
            numbers[MASS] /= scale
            numbers[SCALE] = 1.0
        numbers[MASS] += numbers[SCALE]
        numbers[STEPS] += 1.0

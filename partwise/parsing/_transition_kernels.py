"""Scores of arc-hybrid steps and relations, for the search that learns and for parsing.

s(step) = Σ_t θ[4·row_t + step] and s(relation) = Σ_t R[row_t, relation]: rows of tables that the templates select.
A beam of one needs no search tree: ``greedy_tree`` changes one state in place.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.learners.laso._beam import decode
from partwise.learners.laso.packed import action_features, expand, state_size, touch
from partwise.parsing._transition_system import (
    HEAD,
    LABEL,
    LEVEL,
    PENDING,
    STEP_WIDTH,
    ArcHybrid,
    clear,
    field_of,
    legal,
    name_arc,
    take_step,
)
from partwise.parsing._transition_templates import N_LABEL, N_STEP, label_atoms, rows_of, step_atoms

__all__ = ["best_trees"]


@kernel
def step_rows(problem, i, state, atoms, rows):
    """rows ← rows of the weights of steps; returns how many."""
    step_atoms(problem, i, state, atoms)
    rows_of(problem.step_templates, problem.step_salts, atoms, np.uint64(64 - problem.step_bits), rows)
    return problem.step_templates.shape[0]


@kernel
def label_rows(problem, i, state, atoms, rows):
    """rows ← rows of the weights of relations of the pending arc; returns how many."""
    label_atoms(problem, i, state, atoms)
    rows_of(problem.label_templates, problem.label_salts, atoms, np.uint64(64 - problem.row_bits), rows)
    return problem.label_templates.shape[0]


@kernel
def step_scores(theta, rows, n_rows):
    """Scores of SHIFT, LEFT and RIGHT."""
    shift = left = right = theta[0] * 0
    for t in range(np.uintp(n_rows)):
        at = np.uintp(rows[t]) * np.uintp(STEP_WIDTH)
        shift += theta[at]
        left += theta[at + np.uintp(1)]
        right += theta[at + np.uintp(2)]
    return shift, left, right


@kernel
def label_scores(problem, theta, rows, n_rows, totals):
    """totals ← scores of the relations."""
    width = np.uintp(problem.n_relations)
    base = np.uintp(STEP_WIDTH << problem.step_bits)
    totals[:] = 0
    for t in range(np.uintp(n_rows)):
        at = base + np.uintp(rows[t]) * width
        for r in range(width):
            totals[r] += theta[at + r]


@expand.register(ArcHybrid)
def _(problem, i, theta, cache, state, score, bars, actions, gains):
    n = problem.offsets[i + 1] - problem.offsets[i]
    if state[LEVEL] % 2 == 0:
        atoms, rows = np.empty(N_STEP, np.uint64), np.empty(problem.step_templates.shape[0], np.uintp)
        scores = step_scores(theta, rows, step_rows(problem, i, state, atoms, rows))
        may = legal(problem, n, state)
        count = 0
        for a in range(3):
            if may[a]:
                actions[count], gains[count] = a, scores[a]
                count += 1
        return count
    if state[PENDING] < 0 or problem.n_relations == 1:
        actions[0], gains[0] = 0, 0.0
        return 1
    atoms, rows = np.empty(N_LABEL, np.uint64), np.empty(problem.label_templates.shape[0], np.uintp)
    totals = np.empty(problem.n_relations, theta.dtype)
    label_scores(problem, theta, rows, label_rows(problem, i, state, atoms, rows), totals)
    for r in range(problem.n_relations):
        actions[r], gains[r] = r, totals[r]
    return problem.n_relations


@action_features.register(ArcHybrid)
def _(problem, i, state, action, amount, delta, touched, n):
    if state[LEVEL] % 2 == 0:
        atoms, rows = np.empty(N_STEP, np.uint64), np.empty(problem.step_templates.shape[0], np.uintp)
        for t in range(step_rows(problem, i, state, atoms, rows)):
            n = touch(delta, touched, n, np.int64(rows[t]) * STEP_WIDTH + action, amount)
        return n
    if state[PENDING] < 0 or problem.n_relations == 1:
        return n
    atoms, rows = np.empty(N_LABEL, np.uint64), np.empty(problem.label_templates.shape[0], np.uintp)
    base = STEP_WIDTH << problem.step_bits
    for t in range(label_rows(problem, i, state, atoms, rows)):
        n = touch(delta, touched, n, base + np.int64(rows[t]) * problem.n_relations + action, amount)
    return n


@kernel
def greedy_tree(problem, i, theta, state, atoms, rows, totals):
    """state ← the tree that the best step and the best relation, one after the other, lead to."""
    n = problem.offsets[i + 1] - problem.offsets[i]
    clear(state, n)
    for _ in range(2 * n):
        shift, left, right = step_scores(theta, rows, step_rows(problem, i, state, atoms, rows))
        may_shift, may_left, may_right = legal(problem, n, state)
        action, best = 0, -np.inf
        if may_shift:
            best = shift
        if may_left and left > best:
            action, best = 1, left
        if may_right and right > best:
            action = 2
        take_step(state, n, action)
        if action > 0:
            relation = 0
            if problem.n_relations > 1:
                label_scores(problem, theta, rows, label_rows(problem, i, state, atoms, rows), totals)
                relation = np.argmax(totals)
            name_arc(state, n, relation)


@kernel
def best_trees(problem, theta, beam, start, stop, heads, relations):
    """heads, relations ← the best tree that the search finds for every sentence; the root is the sentence's length."""
    state = np.empty(state_size(problem), np.int32)
    atoms = np.empty(max(N_STEP, N_LABEL), np.uint64)
    rows = np.empty(max(problem.step_templates.shape[0], problem.label_templates.shape[0]), np.uintp)
    totals = np.empty(problem.n_relations, theta.dtype)
    for i in range(start, stop):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        if beam == 1:
            greedy_tree(problem, i, theta, state, atoms, rows, totals)
        else:
            arena, queue = decode(problem, i, theta, beam)
            state[:] = arena.state[queue[0]]
        for word in range(n):
            heads[first + word] = state[field_of(n, HEAD) + word]
            relations[first + word] = state[field_of(n, LABEL) + word]

"""Outputs that satisfy the hard factors: diving with propagation; and single-site Gibbs sampling, for checking."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform
from partwise.structures.graphs.domains import propagate
from partwise.structures.graphs.logic import (
    AT_MOST_ONE,
    BUDGET,
    EQUAL,
    HARD_TABLE,
    NODE,
    OR,
    OR_OUTPUT,
    TABLE,
    XOR,
)
from partwise.structures.graphs.pack import atom_count, config_offset, literal_value, write_output

__all__ = ["dive", "node_factors", "run_gibbs"]


@kernel
def dive(graph, i, scores, weights, open_atoms, y):
    """y ← an output: the surest state first, then what follows from it. False if it finds none.

    weights (atoms,): how much each state is preferred. A state that fails is closed; if nothing is left, the dive ends.
    """
    base, first = graph.atom_start[graph.node_start[i]], graph.node_start[i]
    n = graph.node_start[i + 1] - first
    left, saved = open_atoms.copy(), np.empty_like(open_atoms)
    reason = np.empty(left.shape[0], np.int64)
    sure = np.empty(n)
    for k in range(n):
        a, b = graph.atom_start[first + k] - base, graph.atom_start[first + k + 1] - base
        top = second = -np.inf
        for r in range(a, b):
            if left[r] != 0:
                if weights[r] > top:
                    top, second = weights[r], top
                else:
                    second = max(second, weights[r])
        sure[k] = second - top  # most negative: most certain
    for k in np.argsort(sure, kind="mergesort"):
        a, b = graph.atom_start[first + k] - base, graph.atom_start[first + k + 1] - base
        while True:
            best, count = -1, 0
            for r in range(a, b):
                if left[r] != 0:
                    count += 1
                    if best < 0 or weights[r] > weights[best]:
                        best = r
            if count == 0:
                return False
            y[k] = best - a
            if count == 1:
                break
            saved[:] = left
            for r in range(a, b):
                if r != best:
                    left[r] = 0
            if propagate(graph, i, scores, left, reason) < 0:
                break
            left[:] = saved
            left[best] = 0
            if propagate(graph, i, scores, left, reason) >= 0:
                return False
    return True


@kernel
def node_factors(graph, i):
    """(start, slots, owner): the slots of factors at every variable of instance i, NODE factors left out."""
    first, base = graph.factor_start[i], graph.node_start[i]
    n = graph.node_start[i + 1] - base
    start = np.zeros(n + 1, np.int64)
    for f in range(first, graph.factor_start[i + 1]):
        if graph.kind[f] != NODE:
            for s in range(graph.slot_start[f], graph.slot_start[f + 1]):
                start[graph.slot_node[s] - base + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place, slots, owner = start[:n].copy(), np.empty(start[n], np.int64), np.empty(start[n], np.int64)
    for f in range(first, graph.factor_start[i + 1]):
        if graph.kind[f] != NODE:
            for s in range(graph.slot_start[f], graph.slot_start[f + 1]):
                v = graph.slot_node[s] - base
                slots[place[v]], owner[place[v]] = s, f
                place[v] += 1
    return start, slots, owner


@kernel
def holds(graph, f, first, y):
    """Whether hard factor f holds for the states y."""
    a, b = graph.slot_start[f], graph.slot_start[f + 1]
    if graph.kind[f] == HARD_TABLE:
        r = graph.mask_start[f]
        for s in range(a, b):
            r += graph.slot_stride[s] * y[graph.slot_node[s] - first]
        return graph.mask[r] != 0
    true, last = 0, 0
    for s in range(a, b):
        last = literal_value(graph, s, y[graph.slot_node[s] - first])
        true += last
    kind = graph.kind[f]
    if kind == XOR:
        return true == 1
    if kind == AT_MOST_ONE:
        return true <= 1
    if kind == OR:
        return true > 0
    if kind == OR_OUTPUT:
        return (last == 1) == (true - last > 0)
    if kind == BUDGET:
        return true <= graph.budget[f]
    return kind != EQUAL or true == 0 or true == b - a


@kernel
def run_gibbs(graph, i, scores, y, seed, burn_in, thin, parts):
    """parts[d] ← states of a Gibbs chain from output y: every variable in turn, ``thin`` rounds between two draws."""
    first, base = graph.node_start[i], graph.atom_start[graph.node_start[i]]
    n, shift = graph.node_start[i + 1] - first, config_offset(graph, i)
    start, _, owner = node_factors(graph, i)
    widest = 1
    for v in range(first, first + n):
        widest = max(widest, graph.atom_start[v + 1] - graph.atom_start[v])
    level = np.empty(widest)
    place = stream(seed, i, 0)
    rounds = burn_in + thin * parts.shape[0]
    for step in range(rounds):
        for k in range(n):
            states, atom = (
                graph.atom_start[first + k + 1] - graph.atom_start[first + k],
                graph.atom_start[first + k] - base,
            )
            old, top = y[k], -np.inf
            for x in range(states):
                y[k] = x
                total = scores[atom + x]
                if graph.allowed.shape[0] > 0 and graph.allowed[base + atom + x] == 0:
                    total = -np.inf
                for t in range(start[k], start[k + 1]):
                    f = owner[t]
                    if graph.kind[f] == TABLE:
                        c = graph.config_start[f] + shift
                        for s in range(graph.slot_start[f], graph.slot_start[f + 1]):
                            c += graph.slot_stride[s] * y[graph.slot_node[s] - first]
                        total += scores[c]
                    elif not holds(graph, f, first, y):
                        total = -np.inf
                level[x] = total
                top = max(top, total)
            mass = 0.0
            for x in range(states):
                level[x] = math.exp(level[x] - top)
                mass += level[x]
            left, y[k] = uniform(place) * mass, old
            place += GOLDEN
            for x in range(states):
                if level[x] > 0:
                    y[k] = x
                    left -= level[x]
                    if left < 0:
                        break
        if step >= burn_in and (step - burn_in) % thin == thin - 1:
            write_output(graph, i, y, scores, parts[(step - burn_in) // thin])


@kernel
def whole_output(graph, i, scores, open_atoms, y):
    """y ← some output for the scores; False if the dive finds none."""
    return dive(graph, i, scores, scores[: atom_count(graph, i)], open_atoms, y)

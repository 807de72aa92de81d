"""Mean field: the product distribution nearest to the model; log Z is never below its bound.

    log Z ≥ max_q E_q[s·z] + H(q),  q(y) = Π_v q_v(y_v),  by  q_v(x) ∝ exp( s_v(x) + Σ_{C∋v} E_q[s_C(x, y_{C∖v})] )

one variable at a time, which never lowers the bound. Hard factors and scores of −inf restrict the support: a state
is open to v only if every combination of the states that the others may have is an output then. Such a q starts from
one output. The argmax is the same at zero temperature (iterated conditional modes): an output that no change of a
single variable improves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.belief import keep_log
from partwise.structures.graphs.domains import literal_status, open_states, propagate
from partwise.structures.graphs.logic import (
    AT_MOST_ONE,
    BUDGET,
    EQUAL,
    HARD_TABLE,
    OR,
    OR_OUTPUT,
    TABLE,
    XOR,
)
from partwise.structures.graphs.messages import Schedule
from partwise.structures.graphs.pack import GraphSpace, atom_count, config_offset, graph_parts, write_output
from partwise.structures.graphs.search import dive, node_factors
from partwise.structures.oracles import argmax, marginals, part_count, work_size

__all__ = ["MeanFieldSpace"]


class MeanFieldSpace(NamedTuple):
    """Naive mean field."""

    graph: GraphSpace
    schedule: Schedule
    log: NDArray[np.float64]  # (n, 4): sweeps, residual, whether converged, value


@kernel
def always_holds(graph, i, f, support):
    """Whether hard factor f holds for every combination of states in the support."""
    base = graph.atom_start[graph.node_start[i]]
    a, b = graph.slot_start[f], graph.slot_start[f + 1]
    kind = graph.kind[f]
    if kind == HARD_TABLE:
        for c in range(graph.mask_start[f + 1] - graph.mask_start[f]):
            if graph.mask[graph.mask_start[f] + c] == 0:
                possible = True
                for s in range(a, b):
                    v = graph.slot_node[s]
                    x = (c // graph.slot_stride[s]) % (graph.atom_start[v + 1] - graph.atom_start[v])
                    possible = possible and support[graph.atom_start[v] - base + x] != 0
                if possible:
                    return False
        return True
    true = either = 0
    last = -2
    for s in range(a, b):
        last = literal_status(graph, s, base, support)
        if s < b - 1 or kind != OR_OUTPUT:
            true += last == 1
            either += last == -1
    if kind == XOR:
        return either == 0 and true == 1
    if kind == AT_MOST_ONE:
        return true + either <= 1
    if kind == OR:
        return true > 0
    if kind == OR_OUTPUT:
        return true > 0 if last == 1 else last == 0 and true + either == 0
    if kind == BUDGET:
        return true + either <= graph.budget[f]
    return kind != EQUAL or (either == 0 and (true == 0 or true == b - a))


@kernel
def expected_scores(graph, i, k, start, slots, owner, scores, support, q, level):
    """level[x] ← s_v(x) + Σ_C E[s_C | x]; −inf where a combination in the support would be no output."""
    first, base = graph.node_start[i], graph.atom_start[graph.node_start[i]]
    shift = config_offset(graph, i)
    v = first + k
    states, atom = graph.atom_start[v + 1] - graph.atom_start[v], graph.atom_start[v] - base
    for x in range(states):
        level[x] = scores[atom + x]
        if graph.allowed.shape[0] > 0 and graph.allowed[base + atom + x] == 0:
            level[x] = -np.inf
    for t in range(start[k], start[k + 1]):
        s, f = slots[t], owner[t]
        if graph.kind[f] == TABLE:
            at = graph.config_start[f] + shift
            for c in range(graph.config_start[f + 1] - graph.config_start[f]):
                weight = 1.0
                for r in range(graph.slot_start[f], graph.slot_start[f + 1]):
                    if r != s:
                        u = graph.slot_node[r]
                        y = (c // graph.slot_stride[r]) % (graph.atom_start[u + 1] - graph.atom_start[u])
                        weight *= q[graph.atom_start[u] - base + y]
                if weight > 0:
                    level[(c // graph.slot_stride[s]) % states] += weight * scores[at + c]
        else:
            for x in range(states):
                if level[x] > -np.inf:
                    kept = support[atom : atom + states].copy()
                    support[atom : atom + states] = 0
                    support[atom + x] = 1
                    if not always_holds(graph, i, f, support):
                        level[x] = -np.inf
                    support[atom : atom + states] = kept


@kernel
def ascend(space, i, scores, open_atoms, tight, hot, q):
    """Coordinate ascent on q (atoms,), at zero temperature unless ``hot``. Returns (sweeps, residual); −1: no output.

    Without −inf and hard factors it starts from the single variables; else from an output that a dive finds.
    """
    graph = space.graph
    first, base = graph.node_start[i], graph.atom_start[graph.node_start[i]]
    n = graph.node_start[i + 1] - first
    start, slots, owner = node_factors(graph, i)
    support, widest = open_atoms.copy(), 1
    for k in range(n):
        widest = max(widest, graph.atom_start[first + k + 1] - graph.atom_start[first + k])
    level = np.empty(widest)
    if tight:
        y = np.empty(n, np.int64)
        if not dive(graph, i, scores, scores[: q.shape[0]], open_atoms, y):
            return -1, np.inf
        q[:] = 0.0
        for k in range(n):
            q[graph.atom_start[first + k] - base + y[k]] = 1.0
        for r in range(q.shape[0]):
            support[r] = q[r] > 0
    else:
        for k in range(n):
            a, states = (
                graph.atom_start[first + k] - base,
                graph.atom_start[first + k + 1] - graph.atom_start[first + k],
            )
            for x in range(states):
                q[a + x] = 1.0 / states
    residual = np.inf
    for sweep in range(space.schedule.max_sweeps):
        residual = 0.0
        for k in range(n):
            a, states = (
                graph.atom_start[first + k] - base,
                graph.atom_start[first + k + 1] - graph.atom_start[first + k],
            )
            expected_scores(graph, i, k, start, slots, owner, scores, support, q, level)
            top, best = -np.inf, 0
            for x in range(states):
                if level[x] > top or (level[x] == top and q[a + x] > q[a + best]):
                    top, best = level[x], x
            total = 0.0
            for x in range(states):
                if hot:
                    level[x] = math.exp(level[x] - top)
                else:
                    level[x] = 1.0 if x == best else 0.0
                total += level[x]
            for x in range(states):
                new = level[x] / total
                residual = max(residual, abs(new - q[a + x]))
                q[a + x] = new
                support[a + x] = new > 0
        if residual <= space.schedule.tolerance:
            return sweep + 1, residual
    return space.schedule.max_sweeps, residual


@part_count.register(MeanFieldSpace)
def _(space, i):
    return graph_parts(space.graph, i)


@work_size.register(MeanFieldSpace)
def _(space, i):
    return 0


@kernel
def open_for(graph, i, scores, open_atoms):
    """Opens states and propagates; returns (feasible, whether anything is forbidden)."""
    tight = open_states(graph, i, scores, open_atoms)
    if tight and propagate(graph, i, scores, open_atoms, np.empty(open_atoms.shape[0], np.int64)) >= 0:
        return False, tight
    return True, tight


@marginals.register(MeanFieldSpace)
def _(space, i, scores, work, parts):
    """E_q[s·z] + H(q), a lower bound on log Z; parts are those of q. −inf where no output is found."""
    graph = space.graph
    n_atoms, shift = atom_count(graph, i), config_offset(graph, i)
    base = graph.atom_start[graph.node_start[i]]
    parts[: graph_parts(graph, i)] = 0.0
    open_atoms, q = np.empty(n_atoms, np.uint8), np.empty(n_atoms)
    feasible, tight = open_for(graph, i, scores, open_atoms)
    if not feasible:
        return -np.inf
    sweeps, residual = ascend(space, i, scores, open_atoms, tight, True, q)
    if sweeps < 0:
        keep_log(space.log, i, 0, np.inf, 0.0, -np.inf)
        return -np.inf
    value = 0.0
    for r in range(n_atoms):
        parts[r] = q[r]
        if q[r] > 0:
            value += q[r] * (scores[r] - math.log(q[r]))
    for f in range(graph.factor_start[i], graph.factor_start[i + 1]):
        if graph.kind[f] != TABLE:
            continue
        at = graph.config_start[f] + shift
        for c in range(graph.config_start[f + 1] - graph.config_start[f]):
            weight = 1.0
            for s in range(graph.slot_start[f], graph.slot_start[f + 1]):
                v = graph.slot_node[s]
                weight *= q[
                    graph.atom_start[v]
                    - base
                    + (c // graph.slot_stride[s]) % (graph.atom_start[v + 1] - graph.atom_start[v])
                ]
            if weight > 0:
                parts[at + c] = weight
                value += weight * scores[at + c]
    keep_log(space.log, i, sweeps, residual, space.schedule.tolerance, value)
    return value


@argmax.register(MeanFieldSpace)
def _(space, i, scores, work, parts):
    """An output that no change of one variable improves; −inf where none is found."""
    graph = space.graph
    n_atoms, first = atom_count(graph, i), graph.node_start[i]
    base = graph.atom_start[first]
    parts[: graph_parts(graph, i)] = 0.0
    open_atoms, q = np.empty(n_atoms, np.uint8), np.empty(n_atoms)
    feasible, tight = open_for(graph, i, scores, open_atoms)
    if not feasible:
        return -np.inf
    sweeps, residual = ascend(space, i, scores, open_atoms, tight, False, q)
    if sweeps < 0:
        keep_log(space.log, i, 0, np.inf, 0.0, -np.inf)
        return -np.inf
    y = np.empty(graph.node_start[i + 1] - first, np.int64)
    for k in range(y.shape[0]):
        a, best = graph.atom_start[first + k] - base, 0
        for x in range(graph.atom_start[first + k + 1] - graph.atom_start[first + k]):
            if q[a + x] > q[a + best]:
                best = x
        y[k] = best
    value = write_output(graph, i, y, scores, parts)
    keep_log(space.log, i, sweeps, residual, space.schedule.tolerance, value)
    return value

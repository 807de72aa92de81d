"""Engines on messages: loopy belief propagation (no guarantee) and tree-reweighted (log Z never below the truth).

TRW's bound holds whatever the messages are. Any messages M move the scores into forests T of equal share,

    θ^T_v = θ_v + Σ_C ρ_C M_C→v,          θ^T_C = θ_C/ρ_C − Σ_{v∈C} M_C→v  (C ∈ T),

with Σ_T θ^T / #T = θ, and log Z is convex: log Z(θ) ≤ Σ_T log Z(θ^T) / #T. Each term is exact, by one pass over the
forest. The average of the forests' marginals is the gradient of that bound with M held fixed, so value and parts belong
together however early message passing is stopped; where it has converged, they are those of TRW.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.domains import literal_status, open_states, propagate, revise_logic
from partwise.structures.graphs.forests import Forests
from partwise.structures.graphs.free_energy import free_energy
from partwise.structures.graphs.logic import AND_PAIR, HARD_TABLE, NODE, SATISFIED, TABLE, logic_best
from partwise.structures.graphs.messages import (
    NoStructure,
    Schedule,
    factor_incoming,
    make_scratch,
    run_messages,
    start_beliefs,
    update_factor,
)
from partwise.structures.graphs.pack import GraphSpace, atom_count, config_offset, graph_parts, write_output
from partwise.structures.graphs.tables import fill_values
from partwise.structures.oracles import argmax, marginals, part_count, work_size

__all__ = ["MessageSpace", "prepare"]


class MessageSpace(NamedTuple):
    """Message passing: sum-product for marginals, max-product for the argmax."""

    graph: GraphSpace
    forests: Forests
    schedule: Schedule
    reweighted: bool  # weights of the forests, else 1
    memory: NDArray[np.float64]  # (E,) messages of the last call, or (0,) to start afresh every time
    log: NDArray[np.float64]  # (n, 4): sweeps, residual, whether converged, value


@kernel
def prepare(graph, i, scores, theta, open_atoms):
    """theta ← scores of the bits; opens states, propagates constraints. Returns (feasible, constant).

    The score of a variable of two states is s_0 + (s_1 − s_0)·bit; of one state, s_0: their sum is the constant.
    """
    reason = np.empty(open_atoms.shape[0], np.int64)
    if open_states(graph, i, scores, open_atoms) and propagate(graph, i, scores, open_atoms, reason) >= 0:
        return False, -np.inf
    base, atom_base = graph.bit_start[graph.node_start[i]], graph.atom_start[graph.node_start[i]]
    constant = 0.0
    for v in range(graph.node_start[i], graph.node_start[i + 1]):
        first, b = graph.atom_start[v] - atom_base, graph.bit_start[v] - base
        states = graph.atom_start[v + 1] - graph.atom_start[v]
        if states == 1:
            constant += scores[first]
        elif states == 2:
            low = scores[first] if open_atoms[first] != 0 else 0.0
            constant += low
            theta[b] = scores[first + 1] - low if open_atoms[first + 1] != 0 else 0.0
        else:
            for x in range(states):
                theta[b + x] = scores[first + x] if open_atoms[first + x] != 0 else -np.inf
    return True, constant


@kernel
def bit_count(graph, i):
    """Number of bits of instance i."""
    return graph.bit_start[graph.node_start[i + 1]] - graph.bit_start[graph.node_start[i]]


@kernel
def edge_range(graph, i):
    """Edges of instance i."""
    first, last = graph.factor_start[i], graph.factor_start[i + 1]
    return graph.edge_start[graph.slot_start[first]], graph.edge_start[graph.slot_start[last]]


@kernel
def start_messages(memory, first, last):
    """Messages of the last call, or zeros."""
    message = np.zeros(last - first)
    if memory.shape[0] > 0:
        message[:] = memory[first:last]
    return message


@kernel
def keep_log(log, i, sweeps, residual, tolerance, value):
    """What a call did, for the report of convergence."""
    log[i, 0], log[i, 1], log[i, 2], log[i, 3] = sweeps, residual, 1.0 if residual <= tolerance else 0.0, value


@part_count.register(MessageSpace)
def _(space, i):
    return graph_parts(space.graph, i)


@work_size.register(MessageSpace)
def _(space, i):
    return 0


@kernel
def pass_messages(space, i, rho, soft, theta, scores, open_atoms, message, belief):
    """Runs message passing of an engine without a structured factor."""
    graph, forests = space.graph, space.forests
    order = forests.sweep[forests.sweep_start[i] : forests.sweep_start[i + 1]]
    shift = config_offset(graph, i)
    nothing = np.empty(0, np.int64)
    return run_messages(graph, i, NoStructure(0), nothing, open_atoms, theta, scores, shift, rho, order, soft,
                        space.schedule, belief, message, np.empty(0))  # fmt: skip


@kernel
def weights_of(space, i):
    """ρ of the factors of instance i."""
    first, last = space.graph.factor_start[i], space.graph.factor_start[i + 1]
    return space.forests.rho[first:last].copy() if space.reweighted else np.ones(last - first)


@kernel
def decode_along(graph, i, order, scores, open_atoms, rho, belief, message, y):
    """y ← states along a forest, from roots to leaves: each factor takes its best configuration given what is taken."""
    first, atom_base = graph.node_start[i], graph.atom_start[graph.node_start[i]]
    shift, scratch = config_offset(graph, i), make_scratch(graph, i)
    offset = np.zeros(message.shape[0])
    left = open_atoms.copy()
    bit_base = graph.bit_start[first]
    y[: graph.node_start[i + 1] - first] = -1
    changed, reason = np.empty(scratch.slots.shape[0], np.uint8), np.empty(left.shape[0], np.int64)
    for f in order:
        if graph.kind[f] != TABLE and graph.kind[f] != HARD_TABLE and graph.kind[f] != AND_PAIR:
            revise_logic(graph, f, atom_base, left, reason, changed)  # what is taken may decide the rest
        kind, budget, n = factor_incoming(graph, i, f, left, belief, message, offset, scratch, False)
        scale = 1.0 / rho[f - graph.factor_start[i]]
        a = graph.slot_start[f]
        if graph.kind[f] == TABLE or graph.kind[f] == HARD_TABLE:
            size, _, _ = fill_values(graph, f, scores, shift, scale, scratch.inc, scratch.values)
            best = 0
            for c in range(1, size):
                if scratch.values[c] > scratch.values[best]:
                    best = c
            for s in range(a, graph.slot_start[f + 1]):
                v = graph.slot_node[s]
                states = graph.atom_start[v + 1] - graph.atom_start[v]
                settle(graph, v, (best // graph.slot_stride[s]) % states, atom_base, left, y, first)
            continue
        if kind in (SATISFIED, NODE) or n == 0:
            continue
        z = np.empty(n)
        if kind == AND_PAIR:
            u, w = scratch.inc[0, 0], scratch.inc[1, 0]
            both = u + w + scale * scores[graph.config_start[f] + shift]
            z[0] = 1.0 if max(u, both) > max(0.0, w) else 0.0
            z[1] = 1.0 if (both > u if z[0] > 0 else w > 0) else 0.0
        else:
            logic_best(kind, budget, n, scratch.inc[:, 0].copy(), z)
        for j in range(n):
            s = scratch.slots[j]
            if literal_status(graph, s, atom_base, left) == -1:
                on = (z[j] > 0.5) != (graph.slot_negated[s] != 0)
                settle_literal(graph, s, on, atom_base, bit_base, left, belief, y, first)
    for v in range(first, graph.node_start[i + 1]):
        if y[v - first] < 0:
            settle_best(graph, v, -1, atom_base, bit_base, left, belief, y, first)


@kernel
def settle(graph, v, state, atom_base, left, y, first):
    """Variable v takes a state; the others close."""
    y[v - first] = state
    for x in range(graph.atom_start[v + 1] - graph.atom_start[v]):
        if x != state:
            left[graph.atom_start[v] - atom_base + x] = 0


@kernel
def settle_best(graph, v, barred, atom_base, bit_base, left, belief, y, first):
    """Variable v takes its open state of largest belief, but ``barred``."""
    states, b = graph.atom_start[v + 1] - graph.atom_start[v], graph.bit_start[v] - bit_base
    best, top = 0, -np.inf
    for x in range(states):
        if left[graph.atom_start[v] - atom_base + x] == 0 or x == barred:
            continue
        value = 0.0 if states <= 2 and x == 0 else belief[b if states == 2 else b + x]
        if top == -np.inf or value > top:
            best, top = x, value
    settle(graph, v, best, atom_base, left, y, first)


@kernel
def settle_literal(graph, s, on, atom_base, bit_base, left, belief, y, first):
    """The bit of a literal is on or off: its variable has that state, or the best of the others."""
    v = graph.slot_node[s]
    states = graph.atom_start[v + 1] - graph.atom_start[v]
    state = 1 if states == 2 else graph.slot_state[s]
    if on:
        settle(graph, v, state, atom_base, left, y, first)
    else:
        settle_best(graph, v, state, atom_base, bit_base, left, belief, y, first)


@argmax.register(MessageSpace)
def _(space, i, scores, work, parts):
    """Max-product; the output is read off along a spanning forest, exact where that is the whole graph."""
    graph, forests = space.graph, space.forests
    parts[: graph_parts(graph, i)] = 0.0
    theta, open_atoms = np.empty(bit_count(graph, i)), np.empty(atom_count(graph, i), np.uint8)
    feasible, _ = prepare(graph, i, scores, theta, open_atoms)
    if not feasible:
        return -np.inf
    first, last = edge_range(graph, i)
    message, belief, rho = np.zeros(last - first), np.empty(theta.shape[0]), weights_of(space, i)
    sweeps, residual = pass_messages(space, i, rho, False, theta, scores, open_atoms, message, belief)
    y = np.empty(graph.node_start[i + 1] - graph.node_start[i], np.int64)
    t = forests.forest_start[i]
    order = forests.order[forests.order_start[t] : forests.order_start[t + 1]]
    decode_along(graph, i, order, scores, open_atoms, rho, belief, message, y)
    value = write_output(graph, i, y, scores, parts)
    keep_log(space.log, i, sweeps, residual, space.schedule.tolerance, value)
    return value


@kernel
def forest_bound(graph, forests, i, scores, theta, open_atoms, message, belief, parts):
    """parts ← average of the forests' marginals; returns the average of their log-partitions.

    ``message`` and ``belief`` are those of message passing: they reparametrise the scores.
    """
    first = graph.factor_start[i]
    n_factors = graph.factor_start[i + 1] - first
    a, b = forests.forest_start[i], forests.forest_start[i + 1]
    shift, scratch = config_offset(graph, i), make_scratch(graph, i)
    start = belief.copy()
    inner, level = np.empty(message.shape[0]), np.empty(belief.shape[0])
    ones, gain, total = np.ones(n_factors), np.zeros(n_factors), 0.0
    rho = forests.rho[first : first + n_factors]
    scaled = scores.copy()
    for f in range(first, first + n_factors):
        if graph.kind[f] == TABLE or graph.kind[f] == AND_PAIR:
            gain[f - first] = 1.0 / rho[f - first]
            for c in range(graph.config_start[f] + shift, graph.config_start[f + 1] + shift):
                scaled[c] /= rho[f - first]
    for t in range(a, b):
        order = forests.order[forests.order_start[t] : forests.order_start[t + 1]]
        inner[:] = 0.0
        level[:] = start
        for k in range(order.shape[0] - 1, -1, -1):
            update_factor(graph, i, order[k], open_atoms, scaled, shift, 1.0, True, 0.0, level, inner, message, scratch)
        for k in range(order.shape[0]):
            update_factor(graph, i, order[k], open_atoms, scaled, shift, 1.0, True, 0.0, level, inner, message, scratch)
        ones[:] = 0.0
        for f in order:
            ones[f - first] = 1.0
        value = free_energy(graph, i, open_atoms, scaled, shift, ones, level, inner, message, gain, scratch, parts,
                            1.0 / (b - a), shift)  # fmt: skip
        total += value / (b - a)
    return total


@marginals.register(MessageSpace)
def _(space, i, scores, work, parts):
    graph, forests = space.graph, space.forests
    parts[: graph_parts(graph, i)] = 0.0
    theta, open_atoms = np.empty(bit_count(graph, i)), np.empty(atom_count(graph, i), np.uint8)
    feasible, constant = prepare(graph, i, scores, theta, open_atoms)
    if not feasible:
        return -np.inf
    first, last = edge_range(graph, i)
    message, belief, rho = start_messages(space.memory, first, last), np.empty(theta.shape[0]), weights_of(space, i)
    single = forests.forest_start[i + 1] - forests.forest_start[i] == 1
    sweeps, residual = 0, 0.0
    if not (space.reweighted and single):  # a forest needs no messages: its bound is exact
        sweeps, residual = pass_messages(space, i, rho, True, theta, scores, open_atoms, message, belief)
    if space.memory.shape[0] > 0:
        space.memory[first:last] = message
    if space.reweighted:
        start_beliefs(graph, i, theta, open_atoms, rho, message, belief)
        value = constant + forest_bound(graph, forests, i, scores, theta, open_atoms, message, belief, parts)
    else:
        shift, zeros = config_offset(graph, i), np.zeros(last - first)
        value = constant + free_energy(graph, i, open_atoms, scores, shift, rho, belief, message, zeros, rho,
                                       make_scratch(graph, i), parts, 1.0, shift)  # fmt: skip
    keep_log(space.log, i, sweeps, residual, space.schedule.tolerance, value)
    return value

"""AD³: the linear relaxation of the argmax by alternating directions (Martins et al. 2015).

    max Σ_C s_C·q_C  subject to  q_C in the hull of factor C's configurations, and M_C q_C = p for the bits p it meets.

Every factor solves max_q s_C·q + Σ_e (θ_b/d_b + λ_e) q_e − η/2 Σ_e (q_e − p_b)² over its own hull, p is the average of
the copies and λ_e ← λ_e − η(q_e − p_b); b is the bit of edge e, d_b the number of its edges. As Σ_e λ_e = 0 at every
bit, the maxima without the quadratic term add up to an upper bound of the best score at every iteration, and its
minimum is the relaxation's value. Where the bits come out as 0 or 1 and the score meets the bound, the output is the
best: a certificate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.logic import (
    AND_PAIR,
    HARD_TABLE,
    OR_OUTPUT,
    SATISFIED,
    TABLE,
    logic_best,
    logic_project,
    reduced_kind,
)
from partwise.structures.graphs.quadratic import active_set_table, best_config, pair_closed_form, project_structure
from partwise.structures.oracles import argmax, part_count, work_size

__all__ = ["Ad3Settings", "LocalTables", "solve_relaxation"]

AHEAD = 1.5  # over-relaxation: copies count this much more than what p was
STRUCTURE_SET = 40  # outputs that the active set of a structured factor may hold


class Ad3Settings(NamedTuple):
    """When to stop: residuals below the tolerance, or an output whose score is within ``gap`` of the bound."""

    max_iter: int
    tolerance: float
    gap: float  # relative to 1 + |bound|
    every: int  # iterations between two evaluations of the bound
    sweeps: int  # of sequential messages before the first iteration, at most


class LocalTables(NamedTuple):
    """What is left of the factors of one instance once constraints are propagated, and the copies of its bits."""

    kind: NDArray[np.int64]  # (factors,) SATISFIED where nothing is left to say
    budget: NDArray[np.int64]
    fixed: NDArray[np.int8]  # (bits,) −1 free, else its value
    degree: NDArray[np.float64]  # (bits,) copies
    share: NDArray[np.float64]  # (bits,) θ / degree
    table_start: NDArray[np.int64]  # (factors + 1,)
    table: NDArray[np.float64]  # scores of configurations, −inf for those that are not open
    set_start: NDArray[np.int64]  # (factors + 1,) places of the active sets
    configs: NDArray[np.int64]
    weights: NDArray[np.float64]
    held: NDArray[np.int64]  # (factors,) configurations in the active set


@kernel
def fixed_bits(space, i, open_atoms):
    """Bits that the open states decide: 0 or 1, −1 for the others."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    fixed = np.full(space.bit_start[space.node_start[i + 1]] - bit_base, -1, np.int8)
    for v in range(space.node_start[i], space.node_start[i + 1]):
        first, states = space.atom_start[v] - atom_base, space.atom_start[v + 1] - space.atom_start[v]
        b, left = space.bit_start[v] - bit_base, 0
        for x in range(states):
            left += open_atoms[first + x]
        if states == 2 and left == 1:
            fixed[b] = open_atoms[first + 1]
        elif states > 2:
            for x in range(states):
                if open_atoms[first + x] == 0:
                    fixed[b + x] = 0
                elif left == 1:
                    fixed[b + x] = 1
    return fixed


@kernel
def local_tables(space, i, open_atoms, theta, configs, shift, bits):
    """The :class:`LocalTables` of instance i; returns them and the score of the bits that are fixed or in no factor."""
    first, last = space.factor_start[i], space.factor_start[i + 1]
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    n = last - first
    fixed = fixed_bits(space, i, open_atoms)
    kind, budget = space.kind[first:last].copy(), np.zeros(n, np.int64)
    degree = np.zeros(fixed.shape[0])
    table_start, set_start = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for f in range(first, last):
        size = max(space.config_start[f + 1] - space.config_start[f], space.mask_start[f + 1] - space.mask_start[f])
        edges = space.edge_start[space.slot_start[f + 1]] - space.edge_start[space.slot_start[f]]
        tabled = kind[f - first] == TABLE or kind[f - first] == HARD_TABLE
        table_start[f - first + 1] = table_start[f - first] + (size if tabled or kind[f - first] == AND_PAIR else 0)
        set_start[f - first + 1] = set_start[f - first] + (min(size, edges + 2) if tabled else 0)
    table = np.empty(table_start[n])
    for f in range(first, last):
        a, b = space.slot_start[f], space.slot_start[f + 1]
        g = f - first
        if kind[g] == TABLE or kind[g] == HARD_TABLE:
            size, at = table_start[g + 1] - table_start[g], table_start[g]
            for c in range(size):
                if kind[g] == TABLE:
                    table[at + c] = configs[space.config_start[f] + shift + c]
                else:
                    table[at + c] = 0.0 if space.mask[space.mask_start[f] + c] != 0 else -np.inf
            for s in range(a, b):
                v, stride = space.slot_node[s], space.slot_stride[s]
                states = space.atom_start[v + 1] - space.atom_start[v]
                for x in range(states):
                    if open_atoms[space.atom_start[v] - atom_base + x] == 0:
                        for c in range(x * stride, size, stride * states):
                            for k in range(c, c + stride):
                                table[at + k] = -np.inf
                for e in range(space.edge_start[s], space.edge_start[s + 1]):
                    if fixed[space.edge_bit[e] - bit_base] < 0:
                        degree[space.edge_bit[e] - bit_base] += 1.0
            continue
        if kind[g] == AND_PAIR:  # its bits are never fixed
            table[table_start[g]] = configs[space.config_start[f] + shift]
        free = true = 0
        output = -1
        for s in range(a, b):
            status = np.int64(fixed[space.edge_bit[space.edge_start[s]] - bit_base])
            if status < 0:
                free += 1
            else:
                status ^= np.int64(space.slot_negated[s])
                true += status
            if kind[g] == OR_OUTPUT and s == b - 1:
                output = status
        kind[g], budget[g] = reduced_kind(kind[g], space.budget[f], true, b - a - true - free, free, output)
        if kind[g] != SATISFIED:
            for s in range(a, b):
                bit = space.edge_bit[space.edge_start[s]] - bit_base
                if fixed[bit] < 0:
                    degree[bit] += 1.0
    for r in range(bits.shape[0]):
        if fixed[bits[r]] < 0:
            degree[bits[r]] += 1.0
    share, constant = np.zeros(fixed.shape[0]), 0.0
    for b in range(fixed.shape[0]):
        if fixed[b] < 0 and degree[b] > 0:
            share[b] = theta[b] / degree[b]
        elif fixed[b] == 1:
            constant += theta[b]
        elif fixed[b] < 0:
            constant += max(theta[b], 0.0)
    capacity = set_start[n]
    local = LocalTables(kind, budget, fixed, degree, share, table_start, table, set_start,
                        np.zeros(capacity, np.int64), np.zeros(capacity), np.zeros(n, np.int64))  # fmt: skip
    return local, constant


class FactorScratch(NamedTuple):
    """Memory for the subproblem of one factor."""

    point: NDArray[np.float64]  # (slots, states)
    field: NDArray[np.float64]
    values: NDArray[np.float64]  # (configurations,)
    table: NDArray[np.float64]
    gram: NDArray[np.float64]
    lower: NDArray[np.float64]
    rows: NDArray[np.float64]  # (4, capacity)
    sizes: NDArray[np.int64]  # (slots,)
    strides: NDArray[np.int64]
    active: NDArray[np.int64]
    literals: NDArray[np.float64]  # (slots,)
    answers: NDArray[np.float64]


@kernel
def factor_scratch(space, i, local):
    slots, states, configs, capacity = 1, 2, 1, 1
    for f in range(space.factor_start[i], space.factor_start[i + 1]):
        g = f - space.factor_start[i]
        slots = max(slots, space.slot_start[f + 1] - space.slot_start[f])
        configs = max(configs, local.table_start[g + 1] - local.table_start[g])
        capacity = max(capacity, local.set_start[g + 1] - local.set_start[g])
        if local.table_start[g + 1] > local.table_start[g]:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                states = max(states, space.atom_start[space.slot_node[s] + 1] - space.atom_start[space.slot_node[s]])
    return FactorScratch(
        np.empty((slots, states)), np.empty((slots, states)), np.empty(configs), np.empty(configs),
        np.empty((capacity, capacity)), np.empty((capacity, capacity)), np.empty((4, capacity)),
        np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots),
        np.empty(slots),
    )  # fmt: skip


@kernel
def load_table(space, i, f, local, point, scratch):
    """Sizes, strides and point[j, x] of a table from one number per edge; 0 for what is fixed."""
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    a, n = space.slot_start[f], space.slot_start[f + 1] - space.slot_start[f]
    for j in range(n):
        v = space.slot_node[a + j]
        states = space.atom_start[v + 1] - space.atom_start[v]
        scratch.sizes[j], scratch.strides[j], scratch.active[j] = states, space.slot_stride[a + j], 0
        for x in range(states):
            scratch.point[j, x] = 0.0
        at = space.edge_start[a + j]
        for e in range(at, space.edge_start[a + j + 1]):
            if local.fixed[space.edge_bit[e] - bit_base] < 0:
                scratch.point[j, 1 if states == 2 else e - at] = point[e - edge_base]
                scratch.active[j] = 1
    return n


@kernel
def solve_factor(space, i, f, local, eta, point, scratch, copies):
    """copies[e] ← the factor's bits nearest to point[e], its scores counted; edges of fixed bits keep theirs."""
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, a = f - space.factor_start[i], space.slot_start[f]
    kind = local.kind[g]
    if kind in (TABLE, HARD_TABLE):
        n = load_table(space, i, f, local, point, scratch)
        size, at = local.table_start[g + 1] - local.table_start[g], local.table_start[g]
        low, high = local.set_start[g], local.set_start[g + 1]
        table = local.table[at : at + size]
        if n == 2 and size == 4 and scratch.sizes[0] == 2 and scratch.active[0] == 1 and scratch.active[1] == 1:
            lowest = min(min(table[0], table[1]), min(table[2], table[3]))
            if lowest > -np.inf:
                u, v, w = pair_closed_form(
                    scratch.point[0, 1] + (table[2] - table[0]) / eta,
                    scratch.point[1, 1] + (table[1] - table[0]) / eta,
                    (table[3] + table[0] - table[1] - table[2]) / eta,
                )
                copies[space.edge_start[a] - edge_base] = u
                copies[space.edge_start[a + 1] - edge_base] = v
                local.held[g] = 4
                for c in range(4):
                    local.configs[low + c] = c
                local.weights[low], local.weights[low + 1] = 1.0 - u - v + w, v - w
                local.weights[low + 2], local.weights[low + 3] = u - w, w
                return
        for c in range(size):
            scratch.table[c] = table[c] / eta
        count = active_set_table(scratch.table, size, scratch.sizes, scratch.strides, scratch.active, n, scratch.point,
                                 scratch.field, scratch.values, local.configs[low:high], local.weights[low:high],
                                 local.held[g], scratch.gram, scratch.lower, scratch.rows)  # fmt: skip
        local.held[g] = count
        for j in range(n):
            at, states = space.edge_start[a + j], scratch.sizes[j]
            for e in range(at, space.edge_start[a + j + 1]):
                if local.fixed[space.edge_bit[e] - bit_base] < 0:
                    copies[e - edge_base] = 0.0
            for r in range(low, low + count):
                x = (local.configs[r] // scratch.strides[j]) % states
                if states > 1 and (states > 2 or x == 1):
                    e = at if states == 2 else at + x
                    if local.fixed[space.edge_bit[e] - bit_base] < 0:
                        copies[e - edge_base] += local.weights[r]
        return
    n = 0
    for s in range(a, space.slot_start[f + 1]):
        e = space.edge_start[s]
        if local.fixed[space.edge_bit[e] - bit_base] < 0:
            x = point[e - edge_base]
            scratch.literals[n] = 1.0 - x if space.slot_negated[s] != 0 else x
            n += 1
    if kind == AND_PAIR:
        u, v, w = pair_closed_form(scratch.literals[0], scratch.literals[1], local.table[local.table_start[g]] / eta)
        scratch.answers[0], scratch.answers[1] = u, v
    else:
        logic_project(kind, local.budget[g], n, scratch.literals, scratch.answers)
    n = 0
    for s in range(a, space.slot_start[f + 1]):
        e = space.edge_start[s]
        if local.fixed[space.edge_bit[e] - bit_base] < 0:
            z = scratch.answers[n]
            copies[e - edge_base] = 1.0 - z if space.slot_negated[s] != 0 else z
            n += 1


@kernel
def factor_bound(space, i, f, local, price, scratch):
    """max over the configurations of factor f of its scores and price[e] per edge of a free bit."""
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, a = f - space.factor_start[i], space.slot_start[f]
    kind = local.kind[g]
    if kind in (TABLE, HARD_TABLE):
        n = load_table(space, i, f, local, price, scratch)
        size, at = local.table_start[g + 1] - local.table_start[g], local.table_start[g]
        table = local.table[at : at + size]
        return best_config(table, size, scratch.sizes, scratch.strides, n, scratch.point, scratch.values)[1]
    n, total = 0, 0.0
    for s in range(a, space.slot_start[f + 1]):
        e = space.edge_start[s]
        if local.fixed[space.edge_bit[e] - bit_base] < 0:
            x = price[e - edge_base]
            if space.slot_negated[s] != 0:
                total += x
                x = -x
            scratch.literals[n] = x
            n += 1
    if kind == AND_PAIR:
        u, v = scratch.literals[0], scratch.literals[1]
        return total + max(max(0.0, u), max(v, u + v + local.table[local.table_start[g]]))
    return total + logic_best(kind, local.budget[g], n, scratch.literals, scratch.answers)


@kernel
def live_edges(space, i, local):
    """1 for the edges that carry a copy of a free bit."""
    first = space.factor_start[i]
    bit_base = space.bit_start[space.node_start[i]]
    start = space.edge_start[space.slot_start[first]]
    live = np.zeros(space.edge_start[space.slot_start[space.factor_start[i + 1]]] - start, np.uint8)
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] != SATISFIED:
            for e in range(space.edge_start[space.slot_start[f]], space.edge_start[space.slot_start[f + 1]]):
                live[e - start] = local.fixed[space.edge_bit[e] - bit_base] < 0
    return live


@kernel
def price_bound(space, i, local, live, lam, point, scratch):
    """Σ_C max over its configurations of scores and prices θ_b/d_b + λ_e: an upper bound for any λ with Σ_e λ_e = 0."""
    first = space.factor_start[i]
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[first]]
    for e in range(lam.shape[0]):
        point[e] = local.share[space.edge_bit[e + edge_base] - bit_base] + lam[e] if live[e] != 0 else 0.0
    total = 0.0
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] != SATISFIED:
            total += factor_bound(space, i, f, local, point, scratch)
    return total


@kernel
def solve_relaxation(space, i, extra, bits, open_atoms, local, settings, eta, lam, more, p, primal):
    """Runs AD³ from the multipliers λ; p ← relaxed bits. Returns (bound, iterations, residual, η).

    ``primal`` is a score that some output attains (−inf where none is known): a bound that meets it ends the search.
    ``more`` are multipliers of ``extra``, a structured factor over ``bits`` (see ``messages``).
    """
    first, last = space.factor_start[i], space.factor_start[i + 1]
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[first]]
    n_edges, n_bits = lam.shape[0], p.shape[0]
    live = live_edges(space, i, local)
    size = part_count(extra, i)
    work, spot, near = np.empty(work_size(extra, i)), np.empty(size), np.empty(size)
    vertices, mix, held = np.empty((STRUCTURE_SET if size > 0 else 0, size)), np.empty(STRUCTURE_SET), 0
    scratch = factor_scratch(space, i, local)
    copies, point, old = np.zeros(n_edges), np.full(n_edges, np.nan), np.empty(n_bits)
    sums = np.empty(n_bits)
    for b in range(n_bits):
        if local.fixed[b] >= 0:
            p[b] = local.fixed[b]
    best, residual = np.inf, np.inf
    for iteration in range(1, settings.max_iter + 1):
        sums[:] = 0.0
        for f in range(first, last):
            if local.kind[f - first] == SATISFIED:
                continue
            start, stop = space.edge_start[space.slot_start[f]], space.edge_start[space.slot_start[f + 1]]
            moved = False
            for e in range(start, stop):
                if live[e - edge_base] != 0:
                    b = space.edge_bit[e] - bit_base
                    aim = p[b] + (local.share[b] + lam[e - edge_base]) / eta
                    if not abs(aim - point[e - edge_base]) <= 1e-12:
                        moved = True
                        point[e - edge_base] = aim
            if moved:
                solve_factor(space, i, f, local, eta, point, scratch, copies)
            for e in range(start, stop):
                if live[e - edge_base] != 0:
                    b = space.edge_bit[e] - bit_base
                    sums[b] += AHEAD * copies[e - edge_base] + (1.0 - AHEAD) * p[b]
        if size > 0:
            for r in range(size):
                spot[r] = p[bits[r]] + (local.share[bits[r]] + more[r]) / eta
            held = project_structure(extra, i, spot, work, vertices, mix, held, near)
            for r in range(size):
                sums[bits[r]] += AHEAD * near[r] + (1.0 - AHEAD) * p[bits[r]]
        gap_dual = gap_primal = 0.0
        weight = 0.0
        for b in range(n_bits):
            old[b] = p[b]
            if local.fixed[b] < 0:
                if local.degree[b] > 0:
                    p[b] = sums[b] / local.degree[b]
                gap_dual += local.degree[b] * (p[b] - old[b]) * (p[b] - old[b])
                weight += local.degree[b]
        for e in range(n_edges):
            if live[e] != 0:
                b = space.edge_bit[e + edge_base] - bit_base
                lam[e] -= eta * (AHEAD * copies[e] + (1.0 - AHEAD) * old[b] - p[b])
                gap_primal += (copies[e] - p[b]) ** 2
        for r in range(size):
            b = bits[r]
            more[r] -= eta * (AHEAD * near[r] + (1.0 - AHEAD) * old[b] - p[b])
            gap_primal += (near[r] - p[b]) ** 2
        gap_primal, gap_dual = np.sqrt(gap_primal / max(weight, 1.0)), np.sqrt(gap_dual / max(weight, 1.0))
        residual = max(gap_primal, gap_dual)
        done = residual <= settings.tolerance
        if done or iteration % settings.every == 0 or iteration == settings.max_iter:
            bound = price_bound(space, i, local, live, lam, point, scratch)
            if size > 0:
                for r in range(size):
                    spot[r] = local.share[bits[r]] + more[r]
                bound += argmax(extra, i, spot, work, near)
            point[:] = np.nan
            best = min(best, bound)
            if done or best - primal <= settings.gap * (1.0 + abs(best)):
                return best, iteration, residual, eta
        if iteration % 10 == 0:
            if gap_primal > 4.0 * gap_dual:
                eta *= 1.5
                point[:] = np.nan
            elif gap_dual > 4.0 * gap_primal:
                eta /= 1.5
                point[:] = np.nan
    return best, settings.max_iter, residual, eta

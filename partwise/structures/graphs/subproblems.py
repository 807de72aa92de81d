"""The subproblem of one factor in AD³: its nearest point, and the largest score that its prices allow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.logic import AND_PAIR, logic_best
from partwise.structures.graphs.logic_project import logic_project
from partwise.structures.graphs.quadratic import active_set_table, best_config, pair_closed_form

__all__ = ["FactorScratch", "clauses_bound", "factor_scratch", "load_table", "project_clauses", "solve_table",
           "table_bound"]  # fmt: skip


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
def solve_table(space, i, f, local, eta, point, scratch, copies):
    """copies[e] ← the table's bits nearest to point[e], its scores counted; edges of fixed bits keep theirs."""
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, a = f - space.factor_start[i], space.slot_start[f]
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


@kernel
def table_bound(space, i, f, local, price, scratch):
    """max over the configurations of table f of its scores and price[e] per edge of a free bit."""
    g = f - space.factor_start[i]
    n = load_table(space, i, f, local, price, scratch)
    size, at = local.table_start[g + 1] - local.table_start[g], local.table_start[g]
    table = local.table[at : at + size]
    return best_config(table, size, scratch.sizes, scratch.strides, n, scratch.point, scratch.values)[1]


@kernel
def project_clauses(local, links, which, inverse, lam, aim, scratch, copies, sums):
    """Copies of the bits of some logical factors nearest to aim + λ/η, and their sums; inverse = 1/η."""
    kinds, budgets = local.kind, local.budget
    start, edges, bits, flipped = links.literal_start, links.literal_edge, links.bit, links.flipped
    literals, answers = scratch.literals, scratch.answers
    for g in which:
        first, n = start[g], start[g + 1] - start[g]
        for j in range(n):
            e = edges[first + j]
            x = aim[bits[e]] + inverse * lam[e]
            literals[j] = 1.0 - x if flipped[first + j] != 0 else x
        if kinds[g] == AND_PAIR:
            score = inverse * local.table[local.table_start[g]]
            answers[0], answers[1], _ = pair_closed_form(literals[0], literals[1], score)
        else:
            logic_project(kinds[g], budgets[g], n, literals, answers)
        for j in range(n):
            e = edges[first + j]
            z = 1.0 - answers[j] if flipped[first + j] != 0 else answers[j]
            copies[e] = z
            sums[bits[e]] += z


@kernel
def clauses_bound(local, links, which, lam, scratch):
    """Σ over some logical factors of the largest sum of prices share + λ that the factor allows."""
    kinds, budgets, share = local.kind, local.budget, local.share
    start, edges, bits, flipped = links.literal_start, links.literal_edge, links.bit, links.flipped
    literals, answers = scratch.literals, scratch.answers
    total = 0.0
    for g in which:
        first, n = start[g], start[g + 1] - start[g]
        if n == 0:
            continue
        for j in range(n):
            e = edges[first + j]
            x = share[bits[e]] + lam[e]
            if flipped[first + j] != 0:
                total += x
                x = -x
            literals[j] = x
        if kinds[g] == AND_PAIR:
            u, v = literals[0], literals[1]
            total += max(max(0.0, u), max(v, u + v + local.table[local.table_start[g]]))
        else:
            total += logic_best(kinds[g], budgets[g], n, literals, answers)
    return total

"""What is left of the factors of one instance once constraints are propagated: the subproblems of AD³."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.logic import AND_PAIR, HARD_TABLE, OR_OUTPUT, SATISFIED, TABLE, reduced_kind

__all__ = ["Links", "LocalTables", "fixed_bits", "live_links", "local_tables"]


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
    atom_start, bit_start = space.atom_start, space.bit_start
    for v in range(space.node_start[i], space.node_start[i + 1]):
        first, states = atom_start[v] - atom_base, atom_start[v + 1] - atom_start[v]
        b, left = bit_start[v] - bit_base, 0
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
    edge_start, edge_bit, negated = space.edge_start, space.edge_bit, space.slot_negated
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
        start = edge_start[a]  # an edge per slot
        for k in range(b - a):  # without branches: what is fixed has no pattern
            status = np.int64(fixed[edge_bit[start + k] - bit_base])
            open_bit = np.int64(status < 0)
            free += open_bit
            true += (1 - open_bit) * (status ^ np.int64(negated[a + k]))
        if kind[g] == OR_OUTPUT:
            output = np.int64(fixed[space.edge_bit[space.edge_start[b - 1]] - bit_base])
            if output >= 0:
                output ^= np.int64(space.slot_negated[b - 1])
        kind[g], budget[g] = reduced_kind(kind[g], space.budget[f], true, b - a - true - free, free, output)
        if kind[g] != SATISFIED:
            for k in range(start, start + b - a):
                bit = edge_bit[k] - bit_base
                degree[bit] += np.int64(fixed[bit] < 0)
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


class Links(NamedTuple):
    """The copies of free bits: edges of the factors that still say something, and the free literals of logical ones."""

    bit: NDArray[np.int32]  # (edges,) the bit that an edge copies, −1 where it is fixed or the factor says nothing
    literal_start: NDArray[np.int64]  # (factors + 1,) nothing for tables
    literal_edge: NDArray[np.int32]
    flipped: NDArray[np.uint8]  # whether the literal is the negated bit


@kernel
def live_links(space, i, local):
    """The :class:`Links` of instance i."""
    first, last = space.factor_start[i], space.factor_start[i + 1]
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[first]]
    n_edges = space.edge_start[space.slot_start[last]] - edge_base
    bit, start = np.full(n_edges, -1, np.int32), np.zeros(last - first + 1, np.int64)
    edge, flipped = np.empty(n_edges + 1, np.int32), np.empty(n_edges + 1, np.uint8)
    n = 0
    kinds, fixed, slots, edge_bit, negated = (
        local.kind, local.fixed, space.slot_start, space.edge_bit, space.slot_negated
    )  # fmt: skip
    for f in range(first, last):
        kind = kinds[f - first]
        if kind > HARD_TABLE:
            a, s0 = space.edge_start[slots[f]], slots[f]  # an edge per slot
            for k in range(slots[f + 1] - s0):
                b = edge_bit[a + k] - bit_base
                free = fixed[b] < 0
                bit[a + k - edge_base] = b if free else -1
                edge[n], flipped[n] = a + k - edge_base, negated[s0 + k]
                n += np.int64(free)
        elif kind != SATISFIED:
            for e in range(space.edge_start[space.slot_start[f]], space.edge_start[space.slot_start[f + 1]]):
                b = space.edge_bit[e] - bit_base
                if local.fixed[b] < 0:
                    bit[e - edge_base] = b
        start[f - first + 1] = n
    return Links(bit, start, edge, flipped)

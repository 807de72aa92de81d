"""Domains: which states of variables the hard factors and scores of −inf leave, by propagation (arc consistency)."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.logic import (
    AND_PAIR,
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
from partwise.structures.graphs.pack import atom_count, config_offset, graph_parts, literal_value

__all__ = ["literal_status", "open_states", "propagate", "revise_logic", "table_finite", "table_size"]


@kernel
def literal_status(space, s, base, open_atoms):
    """1 or 0 where the open states decide the literal of slot s, −1 where they do not, −2 where none is open."""
    v = space.slot_node[s]
    yes = no = 0
    for state in range(space.atom_start[v + 1] - space.atom_start[v]):
        if open_atoms[space.atom_start[v] - base + state] != 0:
            if literal_value(space, s, state) == 1:
                yes += 1
            else:
                no += 1
    if yes + no == 0:
        return -2
    if yes == 0:
        return 0
    return 1 if no == 0 else -1


@kernel
def _close(space, s, value, base, open_atoms, reason, f):
    """Makes the literal of slot s have a value: closes the states in which it has the other."""
    v = space.slot_node[s]
    changed = False
    for state in range(space.atom_start[v + 1] - space.atom_start[v]):
        r = space.atom_start[v] - base + state
        if open_atoms[r] != 0 and literal_value(space, s, state) != value:
            open_atoms[r] = 0
            reason[r] = f
            changed = True
    return changed


@kernel
def revise_logic(space, f, base, open_atoms, reason, changed):
    """Closes what a logical factor rules out; changed[slot] ← 1 where it did. False if nothing can satisfy it."""
    kind = space.kind[f]
    a, b = space.slot_start[f], space.slot_start[f + 1]
    true = free = 0
    lone = -1
    inputs = b - 1 if kind == OR_OUTPUT else b
    for s in range(a, inputs):
        status = literal_status(space, s, base, open_atoms)
        if status == 1:
            true += 1
        elif status == -1:
            free += 1
            lone = s
    want = -1  # what the free literals must be
    if kind in (XOR, NODE):
        if true > 1 or true + free == 0:
            return False
        if true == 1:
            want = 0
        elif free == 1:
            want = 1
    elif kind in (AT_MOST_ONE, BUDGET):
        limit = 1 if kind == AT_MOST_ONE else space.budget[f]
        if true > limit:
            return False
        if true == limit:
            want = 0
    elif kind == OR:
        if true + free == 0:
            return False
        if true == 0 and free == 1:
            want = 1
    elif kind == OR_OUTPUT:
        output = literal_status(space, b - 1, base, open_atoms)
        if true > 0:
            if output == 0:
                return False
            if output == -1:
                changed[b - 1 - a] = _close(space, b - 1, 1, base, open_atoms, reason, f)
        elif free == 0:
            if output == 1:
                return False
            if output == -1:
                changed[b - 1 - a] = _close(space, b - 1, 0, base, open_atoms, reason, f)
        elif output == 0:
            want = 0
        elif output == 1 and free == 1:
            want = 1
    elif kind == EQUAL:
        n_false = b - a - true - free
        if true > 0 and n_false > 0:
            return False
        if true > 0:
            want = 1
        elif n_false > 0:
            want = 0
    if want == 1 and kind != EQUAL:
        changed[lone - a] = _close(space, lone, 1, base, open_atoms, reason, f)
    elif want >= 0:
        for s in range(a, inputs):
            if literal_status(space, s, base, open_atoms) == -1:
                changed[s - a] = _close(space, s, want, base, open_atoms, reason, f)
    return True


@kernel
def table_finite(space, i, f, scores, c):
    """Whether configuration c of a table may be: not masked, its score not −inf."""
    if space.kind[f] == HARD_TABLE:
        return space.mask[space.mask_start[f] + c] != 0
    return scores[config_offset(space, i) + space.config_start[f] + c] > -np.inf


@kernel
def table_size(space, f):
    """Number of configurations of a table."""
    if space.kind[f] == HARD_TABLE:
        return space.mask_start[f + 1] - space.mask_start[f]
    return space.config_start[f + 1] - space.config_start[f]


@kernel
def _revise_table(space, i, f, scores, base, open_atoms, reason, changed):
    """Closes the states without a configuration that may be."""
    a, n = space.slot_start[f], space.slot_start[f + 1] - space.slot_start[f]
    widest = 0
    for s in range(a, a + n):
        widest = max(widest, space.atom_start[space.slot_node[s] + 1] - space.atom_start[space.slot_node[s]])
    seen = np.zeros((n, widest), np.uint8)
    for c in range(table_size(space, f)):
        if not table_finite(space, i, f, scores, c):
            continue
        possible = True
        for j in range(n):
            v = space.slot_node[a + j]
            x = (c // space.slot_stride[a + j]) % (space.atom_start[v + 1] - space.atom_start[v])
            if open_atoms[space.atom_start[v] - base + x] == 0:
                possible = False
                break
        if possible:
            for j in range(n):
                v = space.slot_node[a + j]
                seen[j, (c // space.slot_stride[a + j]) % (space.atom_start[v + 1] - space.atom_start[v])] = 1
    for j in range(n):
        v = space.slot_node[a + j]
        left = 0
        for x in range(space.atom_start[v + 1] - space.atom_start[v]):
            r = space.atom_start[v] - base + x
            if open_atoms[r] != 0 and seen[j, x] == 0:
                open_atoms[r] = 0
                reason[r] = f
                changed[j] = 1
            left += open_atoms[r]
        if left == 0:
            return False
    return True


@kernel
def open_states(space, i, scores, open_atoms):
    """open_atoms ← 1 for the atoms that evidence and scores leave; returns whether something is closed or hard."""
    base = space.atom_start[space.node_start[i]]
    tight = False
    for r in range(atom_count(space, i)):
        left = scores[r] > -np.inf and (space.allowed.shape[0] == 0 or space.allowed[base + r] != 0)
        open_atoms[r] = 1 if left else 0
        tight = tight or not left
    for r in range(atom_count(space, i), graph_parts(space, i)):
        tight = tight or scores[r] == -np.inf
    for f in range(space.factor_start[i], space.factor_start[i + 1]):
        tight = tight or not (space.kind[f] == TABLE or space.kind[f] == NODE)
    return tight


@kernel
def untouched(space, i, scores, open_atoms):
    """Whether nothing is closed where the hard factors by themselves close nothing."""
    if space.settled[i] == 0:
        return False
    for r in range(open_atoms.shape[0]):
        if open_atoms[r] == 0:
            return False
    closed = 0
    for r in range(open_atoms.shape[0], graph_parts(space, i)):
        closed += scores[r] == -np.inf
    return closed == 0


@kernel
def propagate(space, i, scores, open_atoms, reason):
    """Closes atoms that some factor rules out, until nothing changes (arc consistency).

    Returns −1, or the factor that cannot be satisfied, or factor_start[i + 1] + v for a variable v without a state.
    reason[r] ← the factor that closed atom r.
    """
    if untouched(space, i, scores, open_atoms):
        return -1
    first, last = space.factor_start[i], space.factor_start[i + 1]
    base = space.atom_start[space.node_start[i]]
    for v in range(space.node_start[i], space.node_start[i + 1]):
        left = 0
        for r in range(space.atom_start[v] - base, space.atom_start[v + 1] - base):
            left += open_atoms[r]
        if left == 0:
            return last + v
    waiting = np.zeros(last - first, np.uint8)
    queue = np.empty(last - first, np.int64)
    head = size = 0
    for f in range(first, last):
        plain = space.kind[f] == TABLE or space.kind[f] == AND_PAIR
        if plain and space.kind[f] == TABLE:
            for c in range(table_size(space, f)):
                if not table_finite(space, i, f, scores, c):
                    plain = False
                    break
        if not plain:
            waiting[f - first] = 1
            queue[size] = f
            size += 1
        else:
            waiting[f - first] = 2  # a table without −inf rules out nothing
    capacity = last - first
    widest = 0
    for f in range(first, last):
        widest = max(widest, space.slot_start[f + 1] - space.slot_start[f])
    changed = np.zeros(widest, np.uint8)
    while size > 0:
        f = queue[head]
        head = (head + 1) % capacity
        size -= 1
        waiting[f - first] = 0
        changed[:] = 0
        if space.kind[f] == TABLE or space.kind[f] == HARD_TABLE:
            fine = _revise_table(space, i, f, scores, base, open_atoms, reason, changed)
        else:
            fine = revise_logic(space, f, base, open_atoms, reason, changed)
        if not fine:
            return f
        for s in range(space.slot_start[f], space.slot_start[f + 1]):
            if changed[s - space.slot_start[f]] == 0:
                continue
            v = space.slot_node[s]
            left = 0
            for r in range(space.atom_start[v] - base, space.atom_start[v + 1] - base):
                left += open_atoms[r]
            if left == 0:
                return last + v
            for bit in range(space.bit_start[v], space.bit_start[v + 1]):
                for k in range(space.bit_edge_start[bit], space.bit_edge_start[bit + 1]):
                    g = space.edge_factor[space.bit_edge[k]]
                    if waiting[g - first] == 0:
                        waiting[g - first] = 1
                        queue[(head + size) % capacity] = g
                        size += 1
    return -1

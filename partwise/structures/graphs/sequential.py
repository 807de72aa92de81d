"""Sequential reweighted max-product: a fast descent of AD³'s bound, from which AD³ starts (Kolmogorov 2015).

A bit's score θ_b is split into what its variable keeps, r_b, and prices φ_e in its factors: r_b + Σ_e φ_e = θ_b.
Variables are visited in order and back. A variable takes from each of its tables the max-marginals m(x), which leaves
the table without a preference, and gives equal shares to the tables that have a later variable (an earlier one on the
way back):

    r ← r + Σ_C m_C,   φ_C ← φ_C − m_C,   then  φ_C ← φ_C + r/w for the n of them ahead,  r ← r(1 − n/w),

where w is the larger of the numbers of tables ahead and behind. A logical factor takes r of its n literals, and gives
each the n-th part of its max-marginal. No step raises Σ_v max r_v + Σ_C max(s_C + φ_C), but it may end above the
minimum.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.logic import AND_PAIR, HARD_TABLE, TABLE, logic_max

__all__ = ["descend_bound"]


@kernel
def node_slots(space, i, local):
    """(start, slots): the slots of tables at every variable of instance i."""
    first, base = space.factor_start[i], space.node_start[i]
    n = space.node_start[i + 1] - base
    start = np.zeros(n + 1, np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] == TABLE or local.kind[f - first] == HARD_TABLE:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                start[space.slot_node[s] - base + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place, slots = start[:n].copy(), np.empty(start[n], np.int64)
    owner = np.empty(start[n], np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] == TABLE or local.kind[f - first] == HARD_TABLE:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                v = space.slot_node[s] - base
                slots[place[v]], owner[place[v]] = s, f
                place[v] += 1
    return start, slots, owner


@kernel
def max_marginals(space, i, f, s, local, phi, field, values, out):
    """out[x] ← max over configurations of table f whose slot s has state x of scores and prices."""
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, a = f - space.factor_start[i], space.slot_start[f]
    n = space.slot_start[f + 1] - a
    table = local.table[local.table_start[g] : local.table_start[g + 1]]
    for t in range(a, a + n):
        v, at = space.slot_node[t], space.edge_start[t]
        states = space.atom_start[v + 1] - space.atom_start[v]
        field[t - a, 0] = 0.0
        if states == 2:
            field[t - a, 1] = phi[at - edge_base]
        else:
            for e in range(at, space.edge_start[t + 1]):
                field[t - a, e - at] = phi[e - edge_base]
    v = space.slot_node[s]
    states = space.atom_start[v + 1] - space.atom_start[v]
    for x in range(states):
        out[x] = -np.inf
    if n == 2:
        rows = space.slot_stride[a]  # states of the second
        count = table.shape[0] // rows
        c = 0
        if s == a:
            for x in range(count):
                best = -np.inf
                for y in range(rows):
                    u = table[c + y] + field[1, y]
                    best = u if u > best else best
                out[x] = best + field[0, x]
                c += rows
        else:
            for x in range(count):
                amount = field[0, x]
                for y in range(rows):
                    u = table[c + y] + amount
                    out[y] = u if u > out[y] else out[y]
                c += rows
            for y in range(rows):
                out[y] += field[1, y]
        return
    size = table.shape[0]
    for c in range(size):
        values[c] = table[c]
    for t in range(a, a + n):
        u, stride = space.slot_node[t], space.slot_stride[t]
        here = space.atom_start[u + 1] - space.atom_start[u]
        c = 0
        while c < size:
            for x in range(here):
                for k in range(c, c + stride):
                    values[k] += field[t - a, x]
                c += stride
    stride = space.slot_stride[s]
    for c in range(size):
        x = (c // stride) % states
        out[x] = max(out[x], values[c])


@kernel
def visit_node(space, i, v, forward, start, slots, owner, shared, local, phi, rest, field, values, out, choice):
    """Gathers max-marginals of v's tables into ``rest`` and hands them on; choice[v] ← the best state on the way."""
    base, bit_base = space.node_start[i], space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    b, bits = space.bit_start[v] - bit_base, space.bit_start[v + 1] - space.bit_start[v]
    ahead = behind = 0
    for k in range(start[v - base], start[v - base + 1]):
        s, f = slots[k], owner[k]
        max_marginals(space, i, f, s, local, phi, field, values, out)
        at = space.edge_start[s]
        if bits == 1:
            if local.fixed[b] < 0:
                amount = out[1] - out[0]
                phi[at - edge_base] -= amount
                rest[b] += amount
        else:
            top = -np.inf
            for x in range(bits):
                top = max(top, out[x])
            for x in range(bits):
                if local.fixed[b + x] < 0:
                    phi[at - edge_base + x] -= out[x] - top
                    rest[b + x] += out[x] - top
        low = high = v
        for t in range(space.slot_start[f], space.slot_start[f + 1]):
            low, high = min(low, space.slot_node[t]), max(high, space.slot_node[t])
        ahead += high > v if forward else low < v
        behind += low < v if forward else high > v
    best = 0
    for x in range(1, bits):
        if local.fixed[b + best] == 0 or (local.fixed[b + x] != 0 and rest[b + x] > rest[b + best]):
            best = x
    choice[v - base] = (1 if rest[b] > 0 else 0) if bits == 1 else best
    weight = max(ahead, behind) + shared[v - base]
    if ahead == 0 or weight == 0:
        return
    for k in range(start[v - base], start[v - base + 1]):
        s, f = slots[k], owner[k]
        far = False
        for t in range(space.slot_start[f], space.slot_start[f + 1]):
            far = far or (space.slot_node[t] > v if forward else space.slot_node[t] < v)
        if far:
            at = space.edge_start[s]
            for x in range(bits):
                if local.fixed[b + x] < 0:
                    phi[at - edge_base + x] += rest[b + x] / weight
    for x in range(bits):
        if local.fixed[b + x] < 0:
            rest[b + x] *= 1.0 - ahead / weight


@kernel
def visit_logic(space, i, f, local, phi, rest, given, out):
    """A logical factor takes ``rest`` of its literals and gives back equal parts of their max-marginals."""
    bit_base = space.bit_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, n = f - space.factor_start[i], 0
    for s in range(space.slot_start[f], space.slot_start[f + 1]):
        e = space.edge_start[s]
        b = space.edge_bit[e] - bit_base
        if local.fixed[b] < 0:
            phi[e - edge_base] += rest[b]
            rest[b] = 0.0
            given[n] = -phi[e - edge_base] if space.slot_negated[s] != 0 else phi[e - edge_base]
            n += 1
    if n == 0:
        return
    if local.kind[g] == AND_PAIR:
        score = local.table[local.table_start[g]]
        out[0] = max(0.0, given[1] + score) - max(0.0, given[1])
        out[1] = max(0.0, given[0] + score) - max(0.0, given[0])
    else:
        logic_max(local.kind[g], local.budget[g], n, given, out)
    n_literals, n = n, 0
    for s in range(space.slot_start[f], space.slot_start[f + 1]):
        e = space.edge_start[s]
        b = space.edge_bit[e] - bit_base
        if local.fixed[b] < 0:
            part = (out[n] + given[n]) / n_literals
            if space.slot_negated[s] != 0:
                part = -part
            phi[e - edge_base] -= part
            rest[b] += part
            n += 1


@kernel
def descend_bound(space, i, local, scratch, sweeps, phi, rest, choice):
    """``sweeps`` forward and backward passes from the prices φ; ``rest`` ← what the variables keep."""
    first, base = space.factor_start[i], space.node_start[i]
    n_nodes = space.node_start[i + 1] - base
    start, slots, owner = node_slots(space, i, local)
    shared = np.zeros(n_nodes, np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] > HARD_TABLE:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                shared[space.slot_node[s] - base] = 1
    out = np.empty(scratch.point.shape[1])
    for _ in range(sweeps):
        for forward in (True, False):
            for k in range(n_nodes):
                v = base + k if forward else base + n_nodes - 1 - k
                if space.bit_start[v + 1] > space.bit_start[v]:
                    visit_node(space, i, v, forward, start, slots, owner, shared, local, phi, rest, scratch.field,
                               scratch.values, out, choice)  # fmt: skip
            for f in range(first, space.factor_start[i + 1]):
                if local.kind[f - first] > HARD_TABLE:
                    visit_logic(space, i, f, local, phi, rest, scratch.literals, scratch.answers)

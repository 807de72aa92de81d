"""Sequential reweighted max-product: a fast descent of AD³'s bound, from which AD³ starts (Kolmogorov 2006, 2015).

A bit's score θ_b is split into what its variable keeps, r_b, and prices φ_e in its factors: r_b + Σ_e φ_e = θ_b.
Variables are visited in order and back. A variable takes from each of its tables the max-marginals m(x), which leaves
the table without a preference, and gives equal shares to the tables that have a later variable (an earlier one on the
way back):

    r ← r + Σ_C m_C,   φ_C ← φ_C − m_C,   then  φ_C ← φ_C + r/w for the n of them ahead,  r ← r(1 − n/w),

where w is the larger of the numbers of tables ahead and behind. A logical factor takes r of its n literals, and gives
each the n-th part of its max-marginal. No step raises Σ_v max r_v + Σ_C max(s_C + φ_C), but such a descent may stop
above the minimum, at a corner. With T log Σ exp(·/T) in place of max (Savchynskyy et al. 2012) the function has no
corners: as T falls, the descent passes by them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.logic import AND_PAIR, HARD_TABLE, TABLE, logic_max

__all__ = ["Visits", "descend_bound", "node_visits", "smooth_tables"]

TINY = 1e-280  # sums of exponentials below this have lost their digits


class Visits(NamedTuple):
    """Where the tables of every variable are, for one instance."""

    start: NDArray[np.int64]  # (variables + 1,)
    slot: NDArray[np.int64]
    owner: NDArray[np.int64]  # the table of the slot
    other: NDArray[np.int64]  # the other slot of a pair, −1 for other tables
    low: NDArray[np.int64]  # the first variable of the table, and the last
    high: NDArray[np.int64]
    shared: NDArray[np.int64]  # (variables,) 1 where a logical factor has the variable
    logical: bool


@kernel
def node_visits(space, i, local):
    """The :class:`Visits` of instance i."""
    first, base = space.factor_start[i], space.node_start[i]
    n = space.node_start[i + 1] - base
    start, shared, logical = np.zeros(n + 1, np.int64), np.zeros(n, np.int64), False
    for f in range(first, space.factor_start[i + 1]):
        kind = local.kind[f - first]
        for s in range(space.slot_start[f], space.slot_start[f + 1]):
            if kind in (TABLE, HARD_TABLE):
                start[space.slot_node[s] - base + 1] += 1
            elif kind > HARD_TABLE:
                shared[space.slot_node[s] - base] = 1
                logical = True
    for v in range(n):
        start[v + 1] += start[v]
    place, size = start[:n].copy(), start[n]
    slot, owner, other = np.empty(size, np.int64), np.empty(size, np.int64), np.full(size, -1, np.int64)
    low, high = np.empty(size, np.int64), np.empty(size, np.int64)
    for f in range(first, space.factor_start[i + 1]):
        if local.kind[f - first] not in (TABLE, HARD_TABLE):
            continue
        a, b = space.slot_start[f], space.slot_start[f + 1]
        least, most = space.slot_node[a], space.slot_node[a]
        for s in range(a, b):
            least, most = min(least, space.slot_node[s]), max(most, space.slot_node[s])
        for s in range(a, b):
            v = space.slot_node[s] - base
            k = place[v]
            slot[k], owner[k], low[k], high[k] = s, f, least, most
            if b - a == 2:
                other[k] = a + b - 1 - s
            place[v] += 1
    return Visits(start, slot, owner, other, low, high, shared, logical)


@kernel
def smooth_tables(local, temperature, smooth):
    """smooth ← exp((s − max s)/T) of every table, for messages that are matrix products."""
    for g in range(local.kind.shape[0]):
        if local.kind[g] not in (TABLE, HARD_TABLE):
            continue
        top = -np.inf
        for c in range(local.table_start[g], local.table_start[g + 1]):
            top = max(top, local.table[c])
        for c in range(local.table_start[g], local.table_start[g + 1]):
            smooth[c] = math.exp((local.table[c] - top) / temperature)


@kernel
def pair_maxima(table, count, rows, leading, field, out):
    """out[x] ← max over the other variable's states of table + field; ``leading``: x is the slow index."""
    if leading:
        for x in range(count):
            best = -np.inf
            for y in range(rows):
                u = table[x * rows + y] + field[y]
                best = u if u > best else best
            out[x] = best
        return
    for y in range(rows):
        out[y] = -np.inf
    for x in range(count):
        for y in range(rows):
            u = table[x * rows + y] + field[x]
            out[y] = u if u > out[y] else out[y]


@kernel
def pair_sums(table, smooth, count, rows, leading, temperature, field, weight, out):
    """The same with T log Σ exp(·/T), up to a constant; by ``pair_maxima`` where sums have lost their digits."""
    inner, states = (rows, count) if leading else (count, rows)
    top = -np.inf
    for y in range(inner):
        top = max(top, field[y])
    for y in range(inner):
        weight[y] = math.exp((field[y] - top) / temperature)
    for x in range(states):
        out[x] = 0.0
    least = np.inf
    if leading:
        for x in range(count):
            for y in range(rows):
                out[x] += smooth[x * rows + y] * weight[y]
            least = min(least, out[x])
    else:
        for x in range(count):
            for y in range(rows):
                out[y] += smooth[x * rows + y] * weight[x]
        for y in range(rows):
            least = min(least, out[y])
    if least < TINY:
        pair_maxima(table, count, rows, leading, field, out)
        return
    for x in range(states):
        out[x] = temperature * math.log(out[x])


@kernel
def wide_maxima(space, i, f, s, local, phi, field, values, out):
    """out[x] ← max over configurations of a table of any arity whose slot s has state x, prices of s not counted."""
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    g, a = f - space.factor_start[i], space.slot_start[f]
    n = space.slot_start[f + 1] - a
    at = local.table_start[g]
    size = local.table_start[g + 1] - at
    for c in range(size):
        values[c] = local.table[at + c]
    for t in range(a, a + n):
        v, e = space.slot_node[t], space.edge_start[t]
        here, stride = space.atom_start[v + 1] - space.atom_start[v], space.slot_stride[t]
        for x in range(here):
            field[x] = 0.0
        if t != s:
            for x in range(space.edge_start[t + 1] - e):
                field[1 if here == 2 else x] = phi[e + x - edge_base]
        c = 0
        while c < size:
            for x in range(here):
                for k in range(c, c + stride):
                    values[k] += field[x]
                c += stride
    v, stride = space.slot_node[s], space.slot_stride[s]
    states = space.atom_start[v + 1] - space.atom_start[v]
    for x in range(states):
        out[x] = -np.inf
    for c in range(size):
        x = (c // stride) % states
        out[x] = max(out[x], values[c])


@kernel
def sweep_nodes(space, i, local, visits, temperature, smooth, forward, everything, phi, rest, choice):
    """One pass over the variables; choice[v] ← the best state on the way. With T = 0 messages are maxima.

    The other end of a pair ahead has not changed since the variable took its max-marginals there: such a pair is
    passed over unless ``everything`` is asked for.
    """
    base, bit_base = space.node_start[i], space.bit_start[space.node_start[i]]
    edge_base, first = space.edge_start[space.slot_start[space.factor_start[i]]], space.factor_start[i]
    slot_node, slot_start, slot_stride, edge_start = (
        space.slot_node, space.slot_start, space.slot_stride, space.edge_start
    )  # fmt: skip
    atom_start, bit_start, fixed = space.atom_start, space.bit_start, local.fixed
    table, table_start = local.table, local.table_start
    n_nodes, widest, largest = space.node_start[i + 1] - base, 2, 1
    for v in range(base, base + n_nodes):
        widest = max(widest, atom_start[v + 1] - atom_start[v])
    for g in range(local.kind.shape[0]):
        largest = max(largest, table_start[g + 1] - table_start[g])
    out, field, weight, values = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(largest)
    for step in range(n_nodes):
        v = base + step if forward else base + n_nodes - 1 - step
        b, bits = bit_start[v] - bit_base, bit_start[v + 1] - bit_start[v]
        if bits == 0:
            continue
        ahead = behind = 0
        for k in range(visits.start[v - base], visits.start[v - base + 1]):
            s, t = visits.slot[k], visits.other[k]
            later, earlier = visits.high[k] > v, visits.low[k] < v
            ahead += later if forward else earlier
            behind += earlier if forward else later
            if t >= 0 and not everything and (later if forward else earlier):
                continue
            at = edge_start[s] - edge_base
            if t < 0:
                wide_maxima(space, i, visits.owner[k], s, local, phi, field, values, out)
            else:
                u, e = slot_node[t], edge_start[t] - edge_base
                states = atom_start[u + 1] - atom_start[u]
                field[0] = 0.0
                if states == 2:
                    field[1] = phi[e]
                elif states > 2:
                    for x in range(states):
                        field[x] = phi[e + x]
                f = visits.owner[k]
                low, high = table_start[f - first], table_start[f - first + 1]
                rows = slot_stride[slot_start[f]]  # states of the second
                if temperature > 0:
                    pair_sums(table[low:high], smooth[low:high], (high - low) // rows, rows, s < t, temperature, field,
                              weight, out)  # fmt: skip
                else:
                    pair_maxima(table[low:high], (high - low) // rows, rows, s < t, field, out)
            if bits == 1:
                if fixed[b] < 0:
                    amount = out[1] - out[0] + phi[at]
                    phi[at] -= amount
                    rest[b] += amount
            else:
                top = -np.inf
                for x in range(bits):
                    out[x] += phi[at + x]
                    top = max(top, out[x])
                for x in range(bits):
                    if fixed[b + x] < 0:
                        phi[at + x] -= out[x] - top
                        rest[b + x] += out[x] - top
        best = 0
        for x in range(1, bits):
            if fixed[b + best] == 0 or (fixed[b + x] != 0 and rest[b + x] > rest[b + best]):
                best = x
        choice[v - base] = (1 if rest[b] > 0 else 0) if bits == 1 else best
        total = max(ahead, behind) + visits.shared[v - base]
        if ahead == 0:
            continue
        for k in range(visits.start[v - base], visits.start[v - base + 1]):
            if visits.high[k] > v if forward else visits.low[k] < v:
                at = edge_start[visits.slot[k]] - edge_base
                for x in range(bits):
                    if fixed[b + x] < 0:
                        phi[at + x] += rest[b + x] / total
        for x in range(bits):
            if fixed[b + x] < 0:
                rest[b + x] *= 1.0 - ahead / total


@kernel
def visit_clauses(local, links, scratch, phi, rest):
    """Every logical factor takes ``rest`` of its literals and gives back equal parts of their max-marginals."""
    given, out = scratch.literals, scratch.answers
    for g in range(local.kind.shape[0]):
        first, n = links.literal_start[g], links.literal_start[g + 1] - links.literal_start[g]
        if n == 0:
            continue
        for j in range(n):
            e = links.literal_edge[first + j]
            phi[e] += rest[links.bit[e]]
            rest[links.bit[e]] = 0.0
            given[j] = -phi[e] if links.flipped[first + j] != 0 else phi[e]
        if local.kind[g] == AND_PAIR:
            score = local.table[local.table_start[g]]
            out[0] = max(0.0, given[1] + score) - max(0.0, given[1])
            out[1] = max(0.0, given[0] + score) - max(0.0, given[0])
        else:
            logic_max(local.kind[g], local.budget[g], n, given, out)
        for j in range(n):
            e = links.literal_edge[first + j]
            part = (out[j] + given[j]) / n
            if links.flipped[first + j] != 0:
                part = -part
            phi[e] -= part
            rest[links.bit[e]] += part


@kernel
def descend_bound(space, i, local, links, visits, scratch, temperature, smooth, sweeps, phi, rest, choice):
    """``sweeps`` forward and backward passes from the prices φ; ``rest`` ← what the variables keep."""
    for k in range(sweeps):
        for forward in (True, False):
            sweep_nodes(space, i, local, visits, temperature, smooth, forward, forward and k == 0, phi, rest, choice)
            if visits.logical:
                visit_clauses(local, links, scratch, phi, rest)

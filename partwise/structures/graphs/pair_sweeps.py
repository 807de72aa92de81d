"""Sequential reweighted messages between variables of at most ``LANES`` states, a state per lane.

What ``sequential`` says, for graphs whose factors are all tables over two variables with finite scores: r_v and φ are
rows of ``LANES`` numbers, and a table lies in memory twice, so that a message is a sum of rows or their maximum,

    out(y) = max_x s(x, y) + φ(x)   or   T log Σ_x exp(s(x, y)/T) exp(φ(x)/T);   r ← r + φ' + out,   φ' ← −out

for the receiver's own prices φ'. Whatever the messages, r_v and its prices still add up to the variable's scores, which
is all that the bound needs; so exponentials and logarithms may be rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._lanes import (
    LANES,
    exp_lanes,
    fill_lanes,
    load_lanes,
    log_lanes,
    max_lanes,
    min_lanes,
    store_lanes,
    top_lanes,
)
from partwise.structures.graphs.logic import HARD_TABLE, SATISFIED, TABLE

__all__ = ["Pairwise", "paired_bound", "paired_multipliers", "pairwise", "smooth_rows", "sweep_pairs"]

TINY = 1e-280  # sums of exponentials below this have lost their digits


class Pairwise(NamedTuple):
    """The tables of one instance, and where every variable meets them: at its ends, earlier variables' tables first."""

    fits: bool  # whether all factors are such tables; the rest is empty otherwise
    row: NDArray[np.float64]  # (rows, LANES) s(x, ·) for every x of the sender
    smooth: NDArray[np.float64]  # the same of exp((s − max s)/T)
    blank: NDArray[np.float64]  # (LANES + 1, LANES) 0 for the first k lanes of row k, −inf for the others
    node: NDArray[np.int64]  # (variables,) states
    start: NDArray[np.int64]  # (variables + 1,) ends of a variable
    ahead: NDArray[np.int64]  # (variables,) the first of its ends whose other variable comes later
    end: NDArray[np.int64]  # (ends, 4) own row of φ, the sender's row of φ, the sender's first row, and states
    edge: NDArray[np.int64]  # (ends,) the first edge of the end whose row of φ this is


@kernel
def pairwise(space, i, local):
    """The :class:`Pairwise` of instance i."""
    first, last, base = space.factor_start[i], space.factor_start[i + 1], space.node_start[i]
    edge_base = space.edge_start[space.slot_start[first]]
    n, fits, tables, rows = space.node_start[i + 1] - base, True, 0, 0
    for f in range(first, last):
        kind, a = local.kind[f - first], space.slot_start[f]
        if kind == SATISFIED:
            continue
        if kind not in (TABLE, HARD_TABLE) or space.slot_start[f + 1] - a != 2:
            fits = False
            break
        tables += 1
        for s in (a, a + 1):
            v = space.slot_node[s]
            states = space.atom_start[v + 1] - space.atom_start[v]
            fits = fits and 2 <= states <= LANES
            rows += states
    for b in range(local.fixed.shape[0]):
        fits = fits and local.fixed[b] < 0
    for c in range(local.table.shape[0]):
        fits = fits and local.table[c] > -np.inf
    if not fits:
        tables = rows = n = 0
    row, blank = np.zeros((rows, LANES)), np.zeros((LANES + 1, LANES))
    for k in range(LANES + 1):
        blank[k, k:] = -np.inf
    node, start, ahead = np.empty(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    end, edge = np.empty((2 * tables, 4), np.int64), np.empty(2 * tables, np.int64)
    pairs = Pairwise(fits, row, np.empty((rows, LANES)), blank, node, start, ahead, end, edge)
    if not fits:
        return pairs
    for v in range(n):
        node[v] = space.atom_start[base + v + 1] - space.atom_start[base + v]
    for f in range(first, last):
        if local.kind[f - first] != SATISFIED:
            for s in (space.slot_start[f], space.slot_start[f] + 1):
                start[space.slot_node[s] - base + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place, behind = start[1:].copy(), start[:-1].copy()  # ahead from the back, behind from the front
    count = rows = 0
    for f in range(first, last):
        if local.kind[f - first] == SATISFIED:
            continue
        a, at = space.slot_start[f], local.table_start[f - first]
        u, v = space.slot_node[a] - base, space.slot_node[a + 1] - base
        top = -np.inf
        for c in range(at, local.table_start[f - first + 1]):
            top = max(top, local.table[c])
        row[rows : rows + node[u] + node[v]] = top  # blank lanes stay so: a harmless number
        for x in range(node[u]):
            for y in range(node[v]):
                row[rows + x, y] = local.table[at]
                row[rows + node[u] + y, x] = local.table[at]
                at += 1
        for s, own, other, sender in ((a, u, v, rows + node[u]), (a + 1, v, u, rows)):
            if other > own:
                place[own] -= 1
                k = place[own]
            else:
                k = behind[own]
                behind[own] += 1
            mine = count + s - a
            end[k, 0], end[k, 1], end[k, 2], end[k, 3] = mine, count + a + 1 - s, sender, node[other]
            edge[mine] = space.edge_start[s] - edge_base
        count += 2
        rows += node[u] + node[v]
    for v in range(n):
        ahead[v] = place[v]
    return pairs


@kernel
def smooth_rows(pairs, temperature):
    """smooth ← exp((s − max s)/T), the maximum that of the rows of one sender."""
    scale = fill_lanes(1.0 / temperature)
    for k in range(pairs.end.shape[0]):
        a, n = pairs.end[k, 2], pairs.end[k, 3]
        top = load_lanes(pairs.row, a)
        for x in range(1, n):
            top = max_lanes(top, load_lanes(pairs.row, a + x))
        top = fill_lanes(top_lanes(top))
        for x in range(n):
            store_lanes(pairs.smooth, a + x, exp_lanes(scale * (load_lanes(pairs.row, a + x) - top)))


@kernel
def sweep_pairs(pairs, temperature, forward, everything, phi, rest, work, choice):
    """One pass over the variables, as ``sequential.sweep_nodes``; choice[v] ← the best state on the way.

    φ (ends, LANES), rest (variables, LANES), work (1, LANES): scratch.
    """
    row, smooth, start, ends, aheads = pairs.row, pairs.smooth, pairs.start, pairs.end, pairs.ahead
    n_nodes = pairs.node.shape[0]
    heat, cold = fill_lanes(temperature), fill_lanes(1.0 / temperature if temperature > 0 else 0.0)
    for step in range(n_nodes):
        v = step if forward else n_nodes - 1 - step
        low, middle, high = start[v], aheads[v], start[v + 1]
        kept = load_lanes(rest, v)
        before, after = (low, middle) if forward else (middle, high)
        next_low, next_high = (middle, high) if forward else (low, middle)
        if everything:
            before, after = low, high
        for k in range(before, after):
            own, other, a, n = ends[k, 0], ends[k, 1], ends[k, 2], ends[k, 3]
            plain = temperature <= 0.0
            out = heat
            if not plain:
                field = load_lanes(phi, other)
                shifted = field - fill_lanes(top_lanes(field + load_lanes(pairs.blank, n)))
                store_lanes(work, 0, exp_lanes(cold * min_lanes(shifted, heat)))
                total = load_lanes(smooth, a) * fill_lanes(work[0, 0])
                for x in range(1, n):
                    total = total + load_lanes(smooth, a + x) * fill_lanes(work[0, x])
                # blank lanes are sums of weights of which one is 1
                if -top_lanes(fill_lanes(0.0) - total) > TINY:
                    out = heat * log_lanes(total)
                else:
                    plain = True
            if plain:
                out = load_lanes(row, a) + fill_lanes(phi[other, 0])
                for x in range(1, n):
                    out = max_lanes(out, load_lanes(row, a + x) + fill_lanes(phi[other, x]))
            kept = kept + load_lanes(phi, own) + out
            store_lanes(phi, own, fill_lanes(0.0) - out)
        store_lanes(rest, v, kept)
        best = 0
        for x in range(1, pairs.node[v]):
            if rest[v, x] > rest[v, best]:
                best = x
        choice[v] = best
        count = next_high - next_low
        if count > 0:
            share = 1.0 / max(middle - low, high - middle)
            part = kept * fill_lanes(share)
            for k in range(next_low, next_high):
                store_lanes(phi, ends[k, 0], load_lanes(phi, ends[k, 0]) + part)
            store_lanes(rest, v, kept * fill_lanes(1.0 - count * share))


@kernel
def paired_bound(pairs, phi, rest, price):
    """Σ_C max over its configurations of s_C + φ + rest/degree: an upper bound; price ← φ + rest/degree.

    A variable in no table adds its own maximum.
    """
    total = 0.0
    for v in range(pairs.node.shape[0]):
        low, high = pairs.start[v], pairs.start[v + 1]
        kept = load_lanes(rest, v)
        if low == high:
            continue
        part = kept * fill_lanes(1.0 / (high - low))
        for k in range(low, high):
            store_lanes(price, pairs.end[k, 0], load_lanes(phi, pairs.end[k, 0]) + part)
    for v in range(pairs.node.shape[0]):
        for k in range(pairs.start[v], pairs.ahead[v]):
            own, other, a, n = pairs.end[k, 0], pairs.end[k, 1], pairs.end[k, 2], pairs.end[k, 3]
            out = load_lanes(pairs.row, a) + fill_lanes(price[other, 0])
            for x in range(1, n):
                out = max_lanes(out, load_lanes(pairs.row, a + x) + fill_lanes(price[other, x]))
            total += top_lanes(out + load_lanes(price, own) + load_lanes(pairs.blank, pairs.node[v]))
    return total


@kernel
def paired_multipliers(pairs, local, links, price, lam):
    """λ = prices less the shares θ/degree, edge by edge; of two states, the price of the second less the first's."""
    for v in range(pairs.node.shape[0]):
        for k in range(pairs.start[v], pairs.start[v + 1]):
            own, states = pairs.end[k, 0], pairs.node[v]
            e = pairs.edge[own]
            if states == 2:
                lam[e] = price[own, 1] - price[own, 0] - local.share[links.bit[e]]
            else:
                for x in range(states):
                    lam[e + x] = price[own, x] - local.share[links.bit[e + x]]

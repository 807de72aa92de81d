"""Graphs of two states and pairs: their linear relaxation is a minimum cut (Hammer et al. 1984; Boros and Hammer 2002).

A factor over two bits is a constant, a score for each bit, and a price for u = 1, v = 0 (or the reverse) of two
literals u, v, since E(x, y) = E₀₀ + (E₁₁ − E₀₁)x + (E₀₁ − E₀₀)y + (E₁₀ + E₀₁ − E₀₀ − E₁₁)·x(1 − y) for E = −score; the
price of an implication u → v is infinite. Where the bits can be negated so that no literal of a price is negated, the
score is minus the value of a cut, and the relaxation has whole outputs. Otherwise there are two nodes for each bit, x
and 1 − x, and half of each price lies between u and v, the other half between 1 − v and 1 − u: the best cut has the
value of the relaxation, and (x + 1 − (1 − x))/2 over its two nodes is 0, ½ or 1 and attains it. The flow is a dual
solution: no output scores more than the capacity from the source less the flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.closure import cut_implications, cut_network
from partwise.structures.graphs.logic import (
    AT_MOST_ONE,
    BUDGET,
    EQUAL,
    HARD_TABLE,
    OR,
    OR_OUTPUT,
    SATISFIED,
    TABLE,
    XOR,
)

__all__ = ["solve_pairs"]


class Pairs(NamedTuple):
    """Prices of pairs of literals."""

    literal: NDArray[np.int64]  # (2 · pairs,) 2·bit, + 1 where it is the negated bit
    price: NDArray[np.float64]  # (2 · pairs,) of u = 1, v = 0, and of u = 0, v = 1


@kernel
def split_table(t00, t01, t10, t11, bit, other, theta, pairs, k):
    """Pair k and scores of the bits from a 2 × 2 table in which every row and column has a finite score; returns t₀₀.

    The second literal is negated where scores of equal states are the smaller ones.
    """
    flipped = t00 == -np.inf or t11 == -np.inf
    if not (flipped or t01 == -np.inf or t10 == -np.inf):
        flipped = t00 + t11 < t01 + t10
    constant = t00
    if flipped:
        constant = t01
        t00, t01, t10, t11 = t01, t00, t11, t10
    pairs.literal[2 * k], pairs.literal[2 * k + 1] = 2 * bit, 2 * other + int(flipped)
    if t10 > -np.inf:  # the price of (0, 1)
        first, second = t10 - t00, t11 - t10
        pairs.price[2 * k], pairs.price[2 * k + 1] = 0.0, t00 + t11 - t10 - t01
    elif t01 > -np.inf:
        first, second = t11 - t01, t01 - t00
        pairs.price[2 * k], pairs.price[2 * k + 1] = np.inf, 0.0
    else:
        first, second = t11 - t00, 0.0
        pairs.price[2 * k], pairs.price[2 * k + 1] = np.inf, np.inf
    theta[bit] += first
    if flipped:
        constant += second
        second = -second
    theta[other] += second
    return constant


@kernel
def find_pairs(space, i, local, theta):
    """(whether every factor is over two bits of variables with two states, the pairs, a constant); θ changes."""
    first, last = space.factor_start[i], space.factor_start[i + 1]
    bit_base = space.bit_start[space.node_start[i]]
    pairs = Pairs(np.empty(2 * (last - first), np.int64), np.empty(2 * (last - first)))
    kinds, starts, nodes, negated = local.kind, space.slot_start, space.slot_node, space.slot_negated
    edge_start, edge_bit, fixed = space.edge_start, space.edge_bit, local.fixed
    place, spot = np.zeros(2, np.int64), np.zeros(2, np.int64)
    count, constant = 0, 0.0
    for f in range(first, last):
        kind = kinds[f - first]
        if kind == SATISFIED:
            continue
        free = 0
        for s in range(starts[f], starts[f + 1]):
            if kind in (TABLE, HARD_TABLE):
                v = nodes[s]
                states = space.atom_start[v + 1] - space.atom_start[v]
                if starts[f + 1] - starts[f] > 2:
                    return False, pairs, 0.0
                if states != 2:
                    for e in range(edge_start[s], edge_start[s + 1]):
                        if fixed[edge_bit[e] - bit_base] < 0:
                            return False, pairs, 0.0
                    continue
            b = edge_bit[edge_start[s]] - bit_base
            if fixed[b] < 0:
                v = nodes[s]
                if free == 2 or space.bit_start[v + 1] - space.bit_start[v] != 1:
                    return False, pairs, 0.0
                place[free], spot[free] = b, s
                free += 1
        if free == 0:
            if kind in (TABLE, HARD_TABLE):
                top = -np.inf
                for c in range(local.table_start[f - first], local.table_start[f - first + 1]):
                    top = max(top, local.table[c])
                constant += top
            continue
        a, b = place[0], place[1]
        if kind in (TABLE, HARD_TABLE):
            at = local.table_start[f - first]
            size = local.table_start[f - first + 1] - at
            if free == 1:
                low = high = -np.inf
                for c in range(size):
                    if (c // space.slot_stride[spot[0]]) % 2 == 0:
                        low = max(low, local.table[at + c])
                    else:
                        high = max(high, local.table[at + c])
                theta[a] += high - low
                constant += low
                continue
            table = local.table
            constant += split_table(table[at], table[at + 1], table[at + 2], table[at + 3], a, b, theta, pairs, count)
            count += 1
            continue
        if free != 2:
            return False, pairs, 0.0
        u, v = 2 * a + negated[spot[0]], 2 * b + negated[spot[1]]
        both = kind in (XOR, EQUAL, OR_OUTPUT)
        if kind == OR:
            u ^= 1
        elif kind in (XOR, AT_MOST_ONE) or (kind == BUDGET and local.budget[f - first] == 1):
            v ^= 1
        elif not both:
            return False, pairs, 0.0
        pairs.literal[2 * count], pairs.literal[2 * count + 1] = u, v
        pairs.price[2 * count], pairs.price[2 * count + 1] = np.inf, np.inf if both else 0.0
        count += 1
    return True, Pairs(pairs.literal[: 2 * count], pairs.price[: 2 * count]), constant


@kernel
def choose_signs(pairs, n_bits):
    """sign[b] = 1 where bit b is to be negated so that both literals of each pair are, or none; [−1] if none do so."""
    up, sign = np.arange(n_bits), np.zeros(n_bits, np.uint8)  # a forest; sign: relative to the parent
    for k in range(pairs.literal.shape[0] // 2):
        u, v = pairs.literal[2 * k], pairs.literal[2 * k + 1]
        a, parity = u >> 1, np.uint8((u ^ v) & 1)
        b = v >> 1
        while up[a] != a:
            sign[a], up[a] = (sign[a] ^ sign[up[a]] if up[up[a]] != up[a] else sign[a]), up[up[a]]
            parity ^= sign[a]
            a = up[a]
        while up[b] != b:
            sign[b], up[b] = (sign[b] ^ sign[up[b]] if up[up[b]] != up[b] else sign[b]), up[up[b]]
            parity ^= sign[b]
            b = up[b]
        if a != b:
            up[max(a, b)] = min(a, b)
            sign[max(a, b)] = parity
        elif parity != 0:
            return False, sign
    total = np.zeros(n_bits, np.uint8)
    for b in range(n_bits):  # parents come first
        total[b] = sign[b] ^ total[up[b]] if up[b] != b else np.uint8(0)
    return True, total


@kernel
def build_network(pairs, theta, local, single, sign):
    """(ends of the arcs, two for each price, their capacities, capacities of the nodes)."""
    n_bits, n_pairs = theta.shape[0], pairs.literal.shape[0] // 2
    copies = 1 if single else 2
    ends = np.empty(2 * copies * n_pairs, np.uint32)
    room, terminal = np.empty(2 * copies * n_pairs), np.zeros(copies * n_bits)
    for b in range(n_bits):
        if local.fixed[b] < 0 and local.degree[b] > 0:
            if single:
                terminal[b] = -theta[b] if sign[b] != 0 else theta[b]
            else:
                terminal[2 * b], terminal[2 * b + 1] = 0.5 * theta[b], -0.5 * theta[b]
    for k in range(n_pairs):
        u, v = pairs.literal[2 * k], pairs.literal[2 * k + 1]
        there, back = pairs.price[2 * k], pairs.price[2 * k + 1]
        if single:
            a, b = u >> 1, v >> 1
            if (u & 1) ^ np.int64(sign[a]) != 0:
                there, back = back, there
            ends[2 * k], ends[2 * k + 1], room[2 * k], room[2 * k + 1] = a, b, there, back
        else:
            e = 4 * k
            ends[e], ends[e + 1], room[e], room[e + 1] = u, v, 0.5 * there, 0.5 * back
            ends[e + 2], ends[e + 3], room[e + 2], room[e + 3] = v ^ 1, u ^ 1, 0.5 * there, 0.5 * back
    return ends, room, terminal


@kernel
def hold_pairs(space, i, local, p):
    """The configurations of every table from its bits: of u + v, as much on equal states as their scores ask for."""
    first, bit_base = space.factor_start[i], space.bit_start[space.node_start[i]]
    for f in range(first, space.factor_start[i + 1]):
        g, a = f - first, space.slot_start[f]
        at, low = local.table_start[g], local.set_start[g]
        size = local.table_start[g + 1] - at
        if local.kind[g] not in (TABLE, HARD_TABLE):
            continue
        if size == 4 and space.slot_start[f + 1] - a == 2 and space.edge_start[a + 1] - space.edge_start[a] == 1:
            u = p[space.edge_bit[space.edge_start[a]] - bit_base]
            v = p[space.edge_bit[space.edge_start[a + 1]] - bit_base]
            t = local.table[at : at + 4]
            together = t[1] == -np.inf or t[2] == -np.inf
            if not (together or t[0] == -np.inf or t[3] == -np.inf):
                together = t[0] + t[3] > t[1] + t[2]
            w = min(u, v) if together else max(0.0, u + v - 1.0)
            local.held[g] = 4
            for c in range(4):
                local.configs[low + c] = c
            local.weights[low], local.weights[low + 1] = 1.0 - u - v + w, v - w
            local.weights[low + 2], local.weights[low + 3] = u - w, w
            continue
        best = 0  # one bit at most is free
        for c in range(1, size):
            if local.table[at + c] > local.table[at + best]:
                best = c
        local.held[g], local.configs[low], local.weights[low] = 1, best, 1.0


@kernel
def solve_pairs(space, i, local, theta, p):
    """(whether every factor is over two bits, the relaxation's value less what is settled); p ← its bits."""
    own = theta.copy()
    possible, pairs, constant = find_pairs(space, i, local, own)
    if not possible:
        return False, np.inf
    single, sign = choose_signs(pairs, own.shape[0])
    ends, room, terminal = build_network(pairs, own, local, single, sign)
    side = np.zeros(terminal.shape[0], np.uint8)
    finite = False
    for a in range(room.shape[0]):
        finite = finite or 0.0 < room[a] < np.inf
    offset = 0.0  # negated bits score θ − θ(1 − x)
    if single:
        for b in range(own.shape[0]):
            if sign[b] != 0 and local.fixed[b] < 0 and local.degree[b] > 0:
                offset += own[b]
    else:
        for b in range(own.shape[0]):
            if local.fixed[b] < 0 and local.degree[b] > 0:
                offset += 0.5 * own[b]
    if finite:
        value = cut_network(ends, room, terminal, side)
    else:
        value = cut_implications(ends, room, terminal, side)
    for b in range(own.shape[0]):
        if local.fixed[b] >= 0:
            p[b] = local.fixed[b]
        elif single:
            p[b] = side[b] ^ sign[b]
        else:
            p[b] = 0.5 * (1.0 + side[2 * b] - side[2 * b + 1])
    hold_pairs(space, i, local, p)
    return True, value + constant + offset

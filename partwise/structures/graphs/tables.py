"""Factors given by a table of configurations: sum- and max-product messages, and their beliefs."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.logic import HARD_TABLE

__all__ = ["fill_values", "table_belief", "table_messages"]

SPREAD = 600.0  # differences of logarithms up to which one common shift keeps every exponential above 0


@kernel
def fill_values(space, f, configs, shift, scale, inc, values):
    """values[c] ← scale·score + Σ_slots inc[slot, state] (−inf: closed); returns (count, largest, smallest finite)."""
    a, n = space.slot_start[f], space.slot_start[f + 1] - space.slot_start[f]
    hard = space.kind[f] == HARD_TABLE
    at = space.mask_start[f] if hard else space.config_start[f] + shift
    size = space.mask_start[f + 1] - space.mask_start[f] if hard else space.config_start[f + 1] - space.config_start[f]
    if hard:
        for c in range(size):
            values[c] = 0.0 if space.mask[at + c] != 0 else -np.inf
    else:
        for c in range(size):
            values[c] = scale * configs[at + c]
    for j in range(n):
        v, stride = space.slot_node[a + j], space.slot_stride[a + j]
        states = space.atom_start[v + 1] - space.atom_start[v]
        c = 0
        while c < size:
            for x in range(states):
                amount = inc[j, x]
                for k in range(c, c + stride):
                    values[k] += amount
                c += stride
    top, low = -np.inf, np.inf
    for c in range(size):
        u = values[c]
        top = u if u > top else top
        u = u if u > -np.inf else np.inf
        low = u if u < low else low
    return size, top, low


@kernel
def table_messages(space, f, configs, shift, scale, inc, out, values, soft):
    """out[slot, x] ← log Σ (or max) over configurations with state x, without inc[slot, x]; returns log Σ (max) of all.

    Closed states, those with inc = −inf, get −inf.
    """
    size, top, low = fill_values(space, f, configs, shift, scale, inc, values)
    a, n = space.slot_start[f], space.slot_start[f + 1] - space.slot_start[f]
    if top == -np.inf:
        for j in range(n):
            for x in range(out.shape[1]):
                out[j, x] = -np.inf
        return top
    total = 0.0
    common = soft and top - low < SPREAD
    if soft:
        for c in range(size):
            w = math.exp(values[c] - top)
            total += w
            if common:
                values[c] = w
    for j in range(n):
        v, stride = space.slot_node[a + j], space.slot_stride[a + j]
        states = space.atom_start[v + 1] - space.atom_start[v]
        for x in range(states):
            out[j, x] = 0.0 if common else -np.inf
        c = 0
        while c < size:
            for x in range(states):
                if common:
                    mass = 0.0
                    for k in range(c, c + stride):
                        mass += values[k]
                    out[j, x] += mass
                else:
                    best = out[j, x]
                    for k in range(c, c + stride):
                        best = max(best, values[k])
                    out[j, x] = best
                c += stride
        if soft and not common:  # every state has a shift of its own
            mass = np.zeros(states)
            c = 0
            while c < size:
                for x in range(states):
                    if out[j, x] > -np.inf:
                        for k in range(c, c + stride):
                            mass[x] += math.exp(values[k] - out[j, x])
                    c += stride
            for x in range(states):
                if out[j, x] > -np.inf:
                    out[j, x] += math.log(mass[x])
        elif soft:
            for x in range(states):
                out[j, x] = math.log(out[j, x]) + top if out[j, x] > 0 else -np.inf
        for x in range(states):
            if inc[j, x] > -np.inf:
                out[j, x] -= inc[j, x]
    return top + math.log(total) if soft else top


@kernel
def table_belief(space, f, configs, shift, scale, inc, values):
    """values[c] ← probability of configuration c; returns log Σ."""
    size, top, _ = fill_values(space, f, configs, shift, scale, inc, values)
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(size):
        values[c] = math.exp(values[c] - top)
        total += values[c]
    for c in range(size):
        values[c] /= total
    return top + math.log(total)

"""The free energy of messages, and the beliefs that go with it (Martins et al., appendix A, eq. 18)."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.domains import literal_status
from partwise.structures.graphs.logic import AND_PAIR, HARD_TABLE, NODE, SATISFIED, TABLE, logic_sum, softplus
from partwise.structures.graphs.messages import factor_incoming, pair_messages, rest_of_node
from partwise.structures.graphs.tables import table_belief

__all__ = ["free_energy", "node_normaliser"]


@kernel
def node_normaliser(space, i, v, open_atoms, belief):
    """log Σ_x exp log b_v(x) over open states; the log-odds of two states count from state 0."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    at, first = space.bit_start[v] - bit_base, space.atom_start[v] - atom_base
    bits = space.bit_start[v + 1] - space.bit_start[v]
    if bits == 0:
        return 0.0
    if bits == 1:
        if open_atoms[first] == 0:
            return belief[at]
        return softplus(belief[at]) if open_atoms[first + 1] != 0 else 0.0
    top = -np.inf
    for b in range(bits):
        top = max(top, belief[at + b])
    total = 0.0
    for b in range(bits):
        total += math.exp(belief[at + b] - top)
    return top + math.log(total)


@kernel
def free_energy(space, i, open_atoms, configs, shift, rho, belief, message, offset, gain, scratch, parts, weight, at):
    """Adds weight·beliefs to ``parts`` (atoms, then configurations from ``at`` on) and returns the free energy.

    gain[f] multiplies the weight of factor f's configurations. With ``parts`` of length 0 only the value is computed.
    """
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    first = space.factor_start[i]
    total = 0.0
    for v in range(space.node_start[i], space.node_start[i + 1]):
        level = node_normaliser(space, i, v, open_atoms, belief)
        total += level
        if parts.shape[0] > 0:
            states, atom = space.atom_start[v + 1] - space.atom_start[v], space.atom_start[v] - atom_base
            b = space.bit_start[v] - bit_base
            for x in range(states):
                if open_atoms[atom + x] != 0:
                    score = 0.0 if states <= 2 and x == 0 else belief[b if states == 2 else b + x]
                    parts[atom + x] += weight * math.exp(score - level)
    for f in range(first, space.factor_start[i + 1]):
        kind, weighted = space.kind[f], rho[f - first]
        if kind == NODE or weighted == 0.0:
            continue
        for s in range(space.slot_start[f], space.slot_start[f + 1]):
            total -= weighted * node_normaliser(space, i, space.slot_node[s], open_atoms, belief)
        left, budget, n = factor_incoming(space, i, f, open_atoms, belief, message, offset, scratch, True)
        if kind in (TABLE, HARD_TABLE):
            total += weighted * table_belief(space, f, configs, shift, 1.0 / weighted, scratch.inc, scratch.values)
            if kind == TABLE and parts.shape[0] > 0:
                for c in range(space.config_start[f + 1] - space.config_start[f]):
                    parts[at + space.config_start[f] + c] += weight * gain[f - first] * scratch.values[c]
            continue
        # a literal is a variable of two classes: its states, and the rest
        level = 0.0
        for s in range(space.slot_start[f], space.slot_start[f + 1]):
            level += literal_base(space, i, s, open_atoms, belief, message, offset)
        if left == AND_PAIR:
            score = configs[space.config_start[f] + shift] / weighted
            u, w = scratch.inc[0, 0], scratch.inc[1, 0]
            value = pair_messages(u, w, score, True)[2]
            level += value
            if parts.shape[0] > 0:
                parts[at + space.config_start[f]] += weight * gain[f - first] * math.exp(u + w + score - value)
        elif left == SATISFIED:
            for j in range(n):
                level += softplus(scratch.inc[j, 0])
        else:
            level += logic_sum(left, budget, n, scratch.inc[:, 0].copy(), np.empty(n))
        total += weighted * level
    return total


@kernel
def literal_base(space, i, s, open_atoms, belief, message, offset):
    """log weight of a literal's variable where the literal is false (free) or at all (known), without its factor."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    v, e = space.slot_node[s], space.edge_start[s]
    status = literal_status(space, s, atom_base, open_atoms)
    bit = space.edge_bit[e]
    own = belief[bit - bit_base] - message[e - edge_base] - offset[e - edge_base]
    rest = rest_of_node(space, v, bit, bit_base, belief, True)
    if status >= 0:  # the bit is on or off
        on = (status == 1) != (space.slot_negated[s] != 0)
        return own if on else rest
    return own if space.slot_negated[s] != 0 else rest

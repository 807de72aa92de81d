"""GraphSpace: factor graphs of a data set as flat arrays.

Inference works on **bits**: a variable of two states has one (state 1), one of K ≥ 3 states has K, one of a single
state has none. A factor meets bits through **edges**: a literal is one edge; a table has an edge for every bit of its
variables. So a message is one number per edge: log-odds for a variable with two states, a log-potential per state for
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from partwise.structures.graphs.model import Graph

__all__ = ["GraphSpace", "pack_graphs"]

Ints = NDArray[np.int64]


class GraphSpace(NamedTuple):
    """Packed graphs. Numbers of variables, atoms, bits, factors, slots and edges run through the whole data set.

    Parts of instance i: its atoms (variable, state), then the configurations of its soft factors, row-major.
    """

    node_start: Ints  # (n + 1,) variables of instance i
    atom_start: Ints  # (V + 1,) atoms of variable v
    bit_start: Ints  # (V + 1,)
    bit_node: Ints  # (B,)
    factor_start: Ints  # (n + 1,)
    kind: Ints  # (F,)
    budget: Ints  # (F,)
    slot_start: Ints  # (F + 1,) slots of factor f: variables of a table, literals of a logical factor
    slot_node: Ints  # (S,)
    slot_state: Ints  # (S,) of a literal
    slot_stride: Ints  # (S,) in the table
    slot_negated: NDArray[np.uint8]  # (S,) of the bit, not of the state
    edge_start: Ints  # (S + 1,) edges of slot s
    edge_bit: Ints  # (E,)
    edge_factor: Ints  # (E,)
    bit_edge_start: Ints  # (B + 1,)
    bit_edge: Ints  # (E,) edges of a bit
    config_start: Ints  # (F + 1,) parts of soft factors
    mask_start: Ints  # (F + 1,)
    mask: NDArray[np.uint8]  # of hard tables
    allowed: NDArray[np.uint8]  # (A,) atoms that evidence leaves, or (0,) for all
    settled: NDArray[np.uint8]  # (n,) 1 where the hard factors by themselves close no state: nothing to propagate


def _bits_of(states: Ints) -> Ints:
    return np.where(states > 2, states, states - 1)


def _exclusive_sum(counts: Ints) -> Ints:
    return np.append(0, np.cumsum(counts)).astype(np.int64)


def _strides(sizes: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """(stride of every slot, size of every table) with the last slot fastest, one vectorised pass per arity."""
    strides, totals = np.ones(len(sizes), np.int64), np.ones(len(starts) - 1, np.int64)
    lengths = np.diff(starts)
    for back in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > back)
        slot = starts[here + 1] - 1 - back
        strides[slot] = totals[here]
        totals[here] *= sizes[slot]
    return strides, totals


def pack_graphs(graphs: Sequence[Graph], allowed: NDArray[np.uint8] | None = None) -> GraphSpace:
    """The graphs one after the other. Factors of an instance: soft ones, hard ones, then NODE factors.

    A variable of three or more states that no table meets gets a NODE factor: only it would tie its bits together.
    """
    states = np.concatenate([np.zeros(0, np.int64), *(g.states for g in graphs)])
    node_start = _exclusive_sum(np.array([len(g.states) for g in graphs], np.int64))
    bit_start = _exclusive_sum(_bits_of(states))
    blocks: dict[str, list[Ints]] = {name: [] for name in ("kind", "budget", "length", "node", "state", "negated")}
    factor_counts, masks, mask_sizes, config_sizes = [], [np.zeros(0, np.uint8)], [], []

    def add(kind: Ints, limit: Ints, length: Ints, node: Ints, state: Ints, flipped: Ints) -> None:
        for name, block in zip(blocks, (kind, limit, length, node, state, flipped), strict=True):
            blocks[name].append(np.asarray(block, np.int64))

    for i, g in enumerate(graphs):
        base, soft = node_start[i], g.n_factors
        tabled = np.zeros(len(g.states), bool)
        tabled[g.scope] = True
        zeros = np.zeros(len(g.scope), np.int64)
        add(np.full(soft, TABLE), np.zeros(soft, np.int64), np.diff(g.scope_start), base + g.scope, zeros, zeros)
        table_sizes = _strides(g.states[g.scope], g.scope_start)[1]
        config_sizes.append(table_sizes)
        for factor in g.hard:
            literals = factor.literals
            variables = np.array([a.variable for a in literals])
            state = np.array([a.state for a in literals])
            flip = np.array([a.negated for a in literals], bool)
            if factor.allowed is None:
                flip ^= (g.states[variables] == 2) & (state == 0)
            else:
                tabled[variables] = True
                masks.append(factor.allowed.ravel())
            add(np.array([factor.kind]), np.array([min(factor.budget, len(literals))]), np.array([len(literals)]),
                base + variables, state, flip)  # fmt: skip
        bare = np.flatnonzero((g.states > 2) & ~tabled)
        spread = np.repeat(bare, g.states[bare])
        which = np.arange(len(spread)) - np.repeat(_exclusive_sum(g.states[bare])[:-1], g.states[bare])
        none, upright = np.zeros(len(bare), np.int64), np.zeros(len(spread), np.int64)
        add(np.full(len(bare), NODE), none, g.states[bare], base + spread, which, upright)
        hard = [0 if factor.allowed is None else factor.allowed.size for factor in g.hard]
        config_sizes.append(np.zeros(len(hard) + len(bare), np.int64))
        mask_sizes.append(np.array([0] * soft + hard + [0] * len(bare), np.int64))
        factor_counts.append(soft + len(hard) + len(bare))
    flat = {name: np.concatenate([np.zeros(0, np.int64), *found]) for name, found in blocks.items()}
    slot_start = _exclusive_sum(flat["length"])
    node, kind = flat["node"], flat["kind"]
    owner = np.repeat(np.arange(len(kind)), flat["length"])
    table = np.isin(kind, (TABLE, HARD_TABLE))[owner]
    strides = np.where(table, _strides(np.where(table, states[node], 1), slot_start)[0], 0)
    bits = np.where(table, _bits_of(states[node]), 1)
    edge_start = _exclusive_sum(bits)
    first = np.where(table, bit_start[node], bit_start[node] + np.where(states[node] > 2, flat["state"], 0))
    edge_bit = np.repeat(first, bits) + np.arange(edge_start[-1]) - np.repeat(edge_start[:-1], bits)
    n_bits = int(bit_start[-1])
    return GraphSpace(
        node_start,
        _exclusive_sum(states),
        bit_start,
        np.repeat(np.arange(len(states)), _bits_of(states)),
        _exclusive_sum(np.array(factor_counts, np.int64)),
        kind,
        flat["budget"],
        slot_start,
        node,
        flat["state"],
        strides,
        flat["negated"].astype(np.uint8),
        edge_start,
        edge_bit,
        np.repeat(owner, bits),
        _exclusive_sum(np.bincount(edge_bit, minlength=n_bits)),
        np.argsort(edge_bit, kind="stable"),
        _exclusive_sum(np.concatenate([np.zeros(0, np.int64), *config_sizes])),
        _exclusive_sum(np.concatenate([np.zeros(0, np.int64), *mask_sizes])),
        np.concatenate(masks),
        np.zeros(0, np.uint8) if allowed is None else allowed,
        np.zeros(len(graphs), np.uint8),
    )


# --------------------------------------------------------------------------------------------------
# Sizes and scores


@kernel
def atom_count(space, i):
    """Number of atoms of instance i."""
    return space.atom_start[space.node_start[i + 1]] - space.atom_start[space.node_start[i]]


@kernel
def graph_parts(space, i):
    """Number of parts: atoms, then configurations of soft factors."""
    configs = space.config_start[space.factor_start[i + 1]] - space.config_start[space.factor_start[i]]
    return atom_count(space, i) + configs


@kernel
def config_offset(space, i):
    """What to add to config_start[f] for the part number of a soft factor's first configuration."""
    return atom_count(space, i) - space.config_start[space.factor_start[i]]


@kernel
def write_output(space, i, y, scores, parts):
    """parts ← χ(y); returns scores·χ(y), soft parts only. y holds the states of the instance's variables."""
    first = space.node_start[i]
    base, shift = space.atom_start[first], config_offset(space, i)
    for r in range(graph_parts(space, i)):
        parts[r] = 0.0
    total = 0.0
    for v in range(first, space.node_start[i + 1]):
        r = space.atom_start[v] - base + y[v - first]
        parts[r] = 1.0
        total += scores[r]
    for f in range(space.factor_start[i], space.factor_start[i + 1]):
        if space.kind[f] == TABLE:
            r = space.config_start[f] + shift
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                r += space.slot_stride[s] * y[space.slot_node[s] - first]
            parts[r] = 1.0
            total += scores[r]
    return total


@kernel
def violated(space, i, y):
    """The first factor of instance i that the output y breaks; −1 where none is."""
    first = space.node_start[i]
    nodes, atoms, states, flipped = space.slot_node, space.atom_start, space.slot_state, space.slot_negated
    for f in range(space.factor_start[i], space.factor_start[i + 1]):
        kind = space.kind[f]
        a, b = space.slot_start[f], space.slot_start[f + 1]
        if kind in (TABLE, NODE, AND_PAIR):
            continue
        if kind == HARD_TABLE:
            r = space.mask_start[f]
            for s in range(a, b):
                r += space.slot_stride[s] * y[space.slot_node[s] - first]
            if space.mask[r] == 0:
                return f
            continue
        true, last = 0, 0
        for s in range(a, b):
            v = nodes[s]
            on = 1 if atoms[v + 1] - atoms[v] == 2 else states[s]
            last = int(y[v - first] == on) ^ int(flipped[s])
            true += last
        n = b - a
        broken = (
            (kind == XOR and true != 1)
            or (kind == AT_MOST_ONE and true > 1)
            or (kind == OR and true == 0)
            or (kind == OR_OUTPUT and (last == 1) != (true - last > 0))
            or (kind == BUDGET and true > space.budget[f])
            or (kind == EQUAL and true != 0 and true != n)
        )
        if broken:
            return f
    return -1


@kernel
def literal_value(space, s, state):
    """1 if the literal of slot s is true where its variable has this state."""
    v = space.slot_node[s]
    if space.atom_start[v + 1] - space.atom_start[v] == 2:
        return int(state == 1) ^ int(space.slot_negated[s])
    return int(state == space.slot_state[s]) ^ int(space.slot_negated[s])

"""Message passing: sum- and max-product, with weights of factors (1: belief propagation; less: tree-reweighted).

With weights ρ_C, messages M_C→v and beliefs log b_v = θ_v + Σ_C ρ_C M_C→v, a factor sends (Wainwright et al. 2005)

    M_C→v(x_v) = log Σ_{x_C: x_v} exp( θ_C(x_C)/ρ_C + Σ_{u ∈ C∖v} [log b_u(x_u) − M_C→u(x_u)] )

and the free energy at a fixed point is log Z = Σ_v (1 − Σ_{C∋v} ρ_C) log z_v + Σ_C ρ_C log z_C, Bethe's for ρ = 1
(Martins et al., appendix A, eq. 18). Messages are numbers per edge; see :mod:`~partwise.structures.graphs.pack`.

One factor may be a whole structure (``extra``: the pack of any compiled structure with ``marginals``, such as the trees
over all arcs of a sentence), whose parts are bits. Where there is none it is ``NoStructure``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.domains import literal_status
from partwise.structures.graphs.logic import (
    AND_PAIR,
    HARD_TABLE,
    NODE,
    OR_OUTPUT,
    SATISFIED,
    TABLE,
    logic_max,
    logic_sum,
    reduced_kind,
    softplus,
)
from partwise.structures.graphs.tables import table_messages
from partwise.structures.oracles import argmax, marginals, part_count, work_size

__all__ = [
    "NoStructure",
    "Schedule",
    "Scratch",
    "factor_incoming",
    "make_scratch",
    "pair_messages",
    "rest_of_node",
    "run_messages",
]


class NoStructure(NamedTuple):
    """No structured factor."""

    nothing: int


@part_count.register(NoStructure)
def _(space, i):
    return 0


@work_size.register(NoStructure)
def _(space, i):
    return 0


@argmax.register(NoStructure)
def _(space, i, scores, work, parts):
    return 0.0


@marginals.register(NoStructure)
def _(space, i, scores, work, parts):
    return 0.0


PATIENCE = 15  # sweeps after which messages that do not settle are damped more


class Schedule(NamedTuple):
    """How messages are passed. A sweep updates the factors whose incoming messages changed most (residuals)."""

    max_sweeps: int
    tolerance: float
    damping: float
    share: float  # a factor is updated if its residual is at least this share of the largest


class Scratch(NamedTuple):
    """Memory for one factor at a time."""

    inc: NDArray[np.float64]  # (slots, states) incoming log-messages
    out: NDArray[np.float64]
    values: NDArray[np.float64]  # (configurations,)
    slots: NDArray[np.int64]  # free literals


@kernel
def make_scratch(space, i):
    """Scratch large enough for every factor of instance i."""
    slots, states, configs = 1, 2, 1
    for f in range(space.factor_start[i], space.factor_start[i + 1]):
        slots = max(slots, space.slot_start[f + 1] - space.slot_start[f])
        configs = max(configs, space.config_start[f + 1] - space.config_start[f])
        configs = max(configs, space.mask_start[f + 1] - space.mask_start[f])
        if space.kind[f] == TABLE or space.kind[f] == HARD_TABLE:
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                v = space.slot_node[s]
                states = max(states, space.atom_start[v + 1] - space.atom_start[v])
    return Scratch(np.empty((slots, states)), np.empty((slots, states)), np.empty(configs), np.empty(slots, np.int64))


@kernel
def rest_of_node(space, v, bit, bit_base, belief, soft):
    """log Σ (or max) of a variable's other states; 0 for a variable of two states, whose belief is log-odds."""
    if space.bit_start[v + 1] - space.bit_start[v] == 1:
        return 0.0
    top = -np.inf
    for b in range(space.bit_start[v], space.bit_start[v + 1]):
        if b != bit:
            top = max(top, belief[b - bit_base])
    if top == -np.inf or not soft:
        return top
    total = 0.0
    for b in range(space.bit_start[v], space.bit_start[v + 1]):
        if b != bit:
            total += math.exp(belief[b - bit_base] - top)
    return top + math.log(total)


@kernel
def table_incoming(space, i, f, open_atoms, belief, message, offset, inc):
    """inc[slot, x] ← log b(x) − M(x) − offset(x); −inf for closed states; (0, log-odds) for two states."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    a = space.slot_start[f]
    for s in range(a, space.slot_start[f + 1]):
        v = space.slot_node[s]
        first = space.atom_start[v]
        states = space.atom_start[v + 1] - first
        for x in range(states):
            inc[s - a, x] = 0.0
        at = space.edge_start[s]
        for e in range(at, space.edge_start[s + 1]):
            x = 1 if states == 2 else e - at
            inc[s - a, x] = belief[space.edge_bit[e] - bit_base] - message[e - edge_base] - offset[e - edge_base]
        for x in range(states):
            if open_atoms[first - atom_base + x] == 0:
                inc[s - a, x] = -np.inf


@kernel
def literal_incoming(space, i, f, open_atoms, belief, message, offset, scratch, soft):
    """(kind, budget, n) of what is left of a logical factor; scratch.inc[0..n, 0] ← log-odds of its free literals."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    a, b = space.slot_start[f], space.slot_start[f + 1]
    n = n_true = 0
    output = -1
    for s in range(a, b):
        status = literal_status(space, s, atom_base, open_atoms)
        if status == -1:
            e = space.edge_start[s]
            bit = space.edge_bit[e]
            odds = belief[bit - bit_base] - message[e - edge_base] - offset[e - edge_base]
            odds -= rest_of_node(space, space.slot_node[s], bit, bit_base, belief, soft)
            scratch.inc[n, 0] = -odds if space.slot_negated[s] != 0 else odds
            scratch.slots[n] = s
            n += 1
        elif status == 1:
            n_true += 1
        if space.kind[f] == OR_OUTPUT and s == b - 1:
            output = status
    kind, budget = reduced_kind(space.kind[f], space.budget[f], n_true, b - a - n_true - n, n, output)
    return kind, budget, n


@kernel
def pair_messages(a, b, score, soft):
    """Messages and log Σ of a pair whose part is on where both literals are: (to a, to b, log Σ)."""
    if soft:
        total = softplus(b) + softplus(a + softplus(b + score) - softplus(b))
        return softplus(b + score) - softplus(b), softplus(a + score) - softplus(a), total
    on, off = max(0.0, b + score), max(0.0, b)
    return on - off, max(0.0, a + score) - max(0.0, a), max(off, a + on)


@kernel
def update_factor(space, i, f, open_atoms, configs, shift, rho, soft, damping, belief, message, offset, scratch):
    """New messages of factor f; beliefs follow. Returns the largest change that the factor asked for.

    ``offset`` is subtracted from the factor's own scores: Σ_v offset(x_v).
    """
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    kind, largest = space.kind[f], 0.0
    a = space.slot_start[f]
    if kind in (TABLE, HARD_TABLE):
        table_incoming(space, i, f, open_atoms, belief, message, offset, scratch.inc)
        table_messages(space, f, configs, shift, 1.0 / rho, scratch.inc, scratch.out, scratch.values, soft)
        for s in range(a, space.slot_start[f + 1]):
            v, at = space.slot_node[s], space.edge_start[s]
            states, first = space.atom_start[v + 1] - space.atom_start[v], space.atom_start[v] - atom_base
            top = 0.0
            if states == 2:
                top = scratch.out[s - a, 0] if open_atoms[first] != 0 else -np.inf
            elif states > 2:
                top = -np.inf
                for x in range(states):
                    if open_atoms[first + x] != 0:
                        top = max(top, scratch.out[s - a, x])
            if top == -np.inf:
                continue
            for e in range(at, space.edge_start[s + 1]):
                x = 1 if states == 2 else e - at
                if open_atoms[first + x] == 0:
                    continue
                wanted = scratch.out[s - a, x] - top - offset[e - edge_base]
                old = message[e - edge_base]
                largest = max(largest, abs(wanted - old))
                new = wanted + damping * (old - wanted)
                message[e - edge_base] = new
                belief[space.edge_bit[e] - bit_base] += rho * (new - old)
        return largest
    kind, budget, n = literal_incoming(space, i, f, open_atoms, belief, message, offset, scratch, soft)
    if kind == SATISFIED or n == 0:
        return 0.0
    inc, out = scratch.inc[:, 0].copy(), np.empty(n)
    if kind == AND_PAIR:
        out[0], out[1], _ = pair_messages(inc[0], inc[1], configs[space.config_start[f] + shift] / rho, soft)
    elif soft:
        logic_sum(kind, budget, n, inc, out)
    else:
        logic_max(kind, budget, n, inc, out)
    for j in range(n):
        s = scratch.slots[j]
        e = space.edge_start[s]
        wanted = (-out[j] if space.slot_negated[s] != 0 else out[j]) - offset[e - edge_base]
        old = message[e - edge_base]
        largest = max(largest, abs(wanted - old))
        new = wanted + damping * (old - wanted)
        message[e - edge_base] = new
        belief[space.edge_bit[e] - bit_base] += rho * (new - old)
    return largest


@kernel
def start_beliefs(space, i, theta, open_atoms, rho, message, belief):
    """belief ← θ + Σ ρ M; −inf for closed states of variables with three or more."""
    bit_base, atom_base = space.bit_start[space.node_start[i]], space.atom_start[space.node_start[i]]
    edge_base = space.edge_start[space.slot_start[space.factor_start[i]]]
    first = space.factor_start[i]
    for v in range(space.node_start[i], space.node_start[i + 1]):
        several = space.bit_start[v + 1] - space.bit_start[v] > 1
        for b in range(space.bit_start[v], space.bit_start[v + 1]):
            total = theta[b - bit_base]
            for k in range(space.bit_edge_start[b], space.bit_edge_start[b + 1]):
                e = space.bit_edge[k]
                total += rho[space.edge_factor[e] - first] * message[e - edge_base]
            if several and open_atoms[space.atom_start[v] - atom_base + b - space.bit_start[v]] == 0:
                total = -np.inf
            belief[b - bit_base] = total


@kernel
def update_structure(extra, i, bits, soft, damping, belief, message, work, scores, parts):
    """Messages of the structured factor: log-odds of its marginals (max: none) without what came in."""
    n = part_count(extra, i)
    largest = 0.0
    for r in range(n):
        scores[r] = belief[bits[r]] - message[r]
    value = marginals(extra, i, scores, work, parts)
    for r in range(n):
        p = min(max(parts[r], 1e-15), 1.0 - 1e-15)
        wanted = math.log(p) - math.log1p(-p) - scores[r]
        old = message[r]
        largest = max(largest, abs(wanted - old))
        message[r] = wanted + damping * (old - wanted)
        belief[bits[r]] += message[r] - old
    return largest, value


@kernel
def run_messages(
    space, i, extra, bits, open_atoms, theta, configs, shift, rho, order, soft, schedule, belief, message, more
):
    """Passes messages until no factor would change one by more than the tolerance. Returns (sweeps, residual).

    ``order`` lists factors in the order of a sweep, every second one backwards. ``more`` are the messages of ``extra``.
    A factor's residual is how far the beliefs of its variables have moved since it looked: no heap is needed. Where
    residuals do not fall in PATIENCE sweeps, damping grows. Messages that do not converge are those of the sweep
    with the least residual.
    """
    node_base = space.node_start[i]
    n_nodes = space.node_start[i + 1] - node_base
    first, n = space.factor_start[i], order.shape[0]
    start_beliefs(space, i, theta, open_atoms, rho, message, belief)
    for r in range(bits.shape[0]):
        belief[bits[r]] += more[r]
    scratch = make_scratch(space, i)
    offset = np.zeros(message.shape[0])
    moved = np.zeros(n_nodes)  # how far beliefs of a variable have moved, in all
    slot_base = space.slot_start[first]
    seen = np.full(space.slot_start[space.factor_start[i + 1]] - slot_base, -np.inf)
    left = np.zeros(space.factor_start[i + 1] - first)  # what damping held back
    size = part_count(extra, i)
    work, scores, parts = np.empty(work_size(extra, i)), np.empty(size), np.empty(size)
    threshold, residual, damping = 0.0, np.inf, schedule.damping
    kept, least, mark = message.copy(), np.inf, np.inf
    for sweep in range(schedule.max_sweeps):
        residual = 0.0
        for t in range(n):
            f = order[t] if sweep % 2 == 0 else order[n - 1 - t]
            if space.kind[f] == NODE or rho[f - first] == 0.0:
                continue
            change = left[f - first]
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                change += moved[space.slot_node[s] - node_base] - seen[s - slot_base]
            if change < threshold or change <= schedule.tolerance:
                residual = max(residual, change)
                continue
            largest = update_factor(space, i, f, open_atoms, configs, shift, rho[f - first], soft, damping,
                                    belief, message, offset, scratch)  # fmt: skip
            left[f - first] = damping * largest
            residual = max(residual, largest)
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                v = space.slot_node[s] - node_base
                moved[v] += (1.0 - damping) * largest * rho[f - first]
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                seen[s - slot_base] = moved[space.slot_node[s] - node_base]
        if size > 0:
            largest, _ = update_structure(extra, i, bits, soft, damping, belief, more, work, scores, parts)
            residual = max(residual, largest)
            for r in range(size):
                moved[space.bit_node[space.bit_start[node_base] + bits[r]] - node_base] += largest
        if residual <= schedule.tolerance:
            return sweep + 1, residual
        threshold = schedule.share * residual
        if residual < least:
            kept[:] = message
            least = residual
        if sweep % PATIENCE == PATIENCE - 1:
            if not residual < 0.9 * mark and damping < 0.9:  # messages swing: they move half as far from now on
                damping = 0.5 + 0.5 * damping
            mark = residual
    message[:] = kept
    start_beliefs(space, i, theta, open_atoms, rho, message, belief)
    for r in range(bits.shape[0]):
        belief[bits[r]] += more[r]
    return schedule.max_sweeps, least


@kernel
def factor_incoming(space, i, f, open_atoms, belief, message, offset, scratch, soft):
    """The incoming messages of a factor in ``scratch.inc``; returns (kind, budget, n) as ``literal_incoming``."""
    if space.kind[f] == TABLE or space.kind[f] == HARD_TABLE:
        table_incoming(space, i, f, open_atoms, belief, message, offset, scratch.inc)
        return space.kind[f], 0, space.slot_start[f + 1] - space.slot_start[f]
    return literal_incoming(space, i, f, open_atoms, belief, message, offset, scratch, soft)

"""What can be settled before AD³ begins, for the relaxation as well: dominated states, and caps of variables.

**Dominated states.** Where a bit's being 0 can never break a factor (it is a literal of ``at_most_one`` or ``budget``,
or a negated one of ``some``) and θ ≤ 0, some optimum has it at 0, and likewise for 1. The factors that it leaves
without a say are gone, which may free further bits.

**Caps.** A literal of ``or_output`` implies the output, x ≤ y, and a cycle of such makes bits equal. If m bits that x
implies, in any number of steps, are literals of a factor that allows k of them, then m·x ≤ Σ ≤ k, so x ≤ k/m, and so
is every bit that implies x. Without caps AD³ would have to bring the price of that one factor to all of those bits,
factor by factor. The strongest cap is found for the largest set of bits that imply one another.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.local import fixed_bits
from partwise.structures.graphs.logic import AT_MOST_ONE, BUDGET, EQUAL, OR, OR_OUTPUT, SATISFIED, XOR

__all__ = ["cap_bits", "close_dominated"]

ROUNDS = 4  # of looking for dominated states
FEW = 0.02  # of all bits: a round that settles no more is the last
CYCLE = 4  # bits that imply one another, at least: fewer are not worth a cap


@kernel
def close_dominated(space, i, theta, open_atoms):
    """Closes the dominated states of variables with two states."""
    first, last = space.factor_start[i], space.factor_start[i + 1]
    monotone = 0
    for f in range(first, last):
        monotone += space.kind[f] in (AT_MOST_ONE, BUDGET, OR)
    if monotone == 0:
        return
    base, bit_base = space.node_start[i], space.bit_start[space.node_start[i]]
    atom_base = space.atom_start[base]
    fixed, tight = fixed_bits(space, i, open_atoms), False
    for b in range(fixed.shape[0]):
        tight = tight or fixed[b] >= 0
    kinds, limits, starts, edge_start, edge_bit = (
        space.kind, space.budget, space.slot_start, space.edge_start, space.edge_bit
    )  # fmt: skip
    negated, hurts = space.slot_negated, np.empty(fixed.shape[0], np.uint8)
    for turn in range(ROUNDS):
        hurts[:] = 0  # 1: being 0 may break a factor; 2: being 1 may
        for f in range(first, last):
            kind = kinds[f]
            a, b = starts[f], starts[f + 1]
            e, stop = edge_start[a], edge_start[b]
            if kind not in (AT_MOST_ONE, BUDGET, OR):
                for k in range(e, stop):
                    hurts[edge_bit[k] - bit_base] = 3
                continue
            true, free = 0, b - a
            if turn > 0 or tight:  # without branches: what is fixed has no pattern
                free = 0
                for k in range(e, stop):
                    status = np.int64(fixed[edge_bit[k] - bit_base])
                    open_bit = np.int64(status < 0)
                    free += open_bit
                    true += (1 - open_bit) * (status ^ np.int64(negated[a + k - e]))
            limit = 1 if kind == AT_MOST_ONE else limits[f]
            idle = true > 0 if kind == OR else limit - true >= free
            if idle:
                continue
            bad = 1 if kind == OR else 2
            for k in range(e, stop):
                hurts[edge_bit[k] - bit_base] |= np.uint8(3 - bad if negated[a + k - e] != 0 else bad)
        changed = 0
        for v in range(base, space.node_start[i + 1]):
            b = space.bit_start[v] - bit_base
            if space.bit_start[v + 1] - space.bit_start[v] != 1 or fixed[b] >= 0:
                continue
            at = space.atom_start[v] - atom_base
            if theta[b] <= 0.0 and hurts[b] & 1 == 0:
                fixed[b], open_atoms[at + 1] = 0, 0
                changed += 1
            elif theta[b] >= 0.0 and hurts[b] & 2 == 0:
                fixed[b], open_atoms[at] = 1, 0
                changed += 1
        if changed <= FEW * fixed.shape[0]:
            break


@kernel
def implications(space, i, local, tail, head, write):
    """tail, head ← the pairs of free bits x ≤ y that some factor demands; returns how many. ``write`` False: counts."""
    first, bit_base = space.factor_start[i], space.bit_start[space.node_start[i]]
    count = 0
    for f in range(first, space.factor_start[i + 1]):
        kind = local.kind[f - first]
        a, b = space.slot_start[f], space.slot_start[f + 1]
        if kind not in (OR_OUTPUT, EQUAL):
            continue
        y = space.edge_bit[space.edge_start[b - 1]] - bit_base
        for s in range(a, b - 1):
            x = space.edge_bit[space.edge_start[s]] - bit_base
            if local.fixed[x] >= 0 or local.fixed[y] >= 0 or space.slot_negated[s] != space.slot_negated[b - 1]:
                continue
            both = kind == EQUAL
            if both or space.slot_negated[s] == 0:
                if write:
                    tail[count], head[count] = x, y
                count += 1
            if both or space.slot_negated[s] != 0:
                if write:
                    tail[count], head[count] = y, x
                count += 1
    return count


@kernel
def outgoing(n, tail, head):
    """(start, target) of the arcs by tail."""
    start, target = np.zeros(n + 1, np.int64), np.empty(tail.shape[0], np.int64)
    for a in range(tail.shape[0]):
        start[tail[a] + 1] += 1
    for j in range(n):
        start[j + 1] += start[j]
    place = start[:n].copy()
    for a in range(tail.shape[0]):
        target[place[tail[a]]] = head[a]
        place[tail[a]] += 1
    return start, target


@kernel
def largest_cycle(start, target):
    """(a node of the largest strongly connected set, its size), by Tarjan's method."""
    n = start.shape[0] - 1
    index, low, place = np.full(n, -1, np.int64), np.zeros(n, np.int64), start[:n].copy()
    stack, path, on_stack = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.uint8)
    count = size = 0
    best, most = -1, 0
    for root in range(n):
        if index[root] >= 0 or start[root] == start[root + 1]:
            continue
        path[0], depth = root, 1
        while depth > 0:
            v = path[depth - 1]
            if index[v] < 0:
                index[v] = low[v] = count
                count += 1
                stack[size] = v
                size += 1
                on_stack[v] = 1
            deeper = False
            while place[v] < start[v + 1]:
                w = target[place[v]]
                place[v] += 1
                if index[w] < 0:
                    path[depth] = w
                    depth += 1
                    deeper = True
                    break
                if on_stack[w] != 0:
                    low[v] = min(low[v], index[w])
            if deeper:
                continue
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[v])
            if low[v] == index[v]:
                members = 0
                while True:
                    size -= 1
                    on_stack[stack[size]] = 0
                    members += 1
                    if stack[size] == v:
                        break
                if members > most:
                    best, most = v, members
    return best, most


@kernel
def reached(start, target, root):
    """1 for the nodes that arcs lead to from ``root``, itself included."""
    seen, stack, size = np.zeros(start.shape[0] - 1, np.uint8), np.empty(start.shape[0] - 1, np.int64), 1
    stack[0] = root
    seen[root] = 1
    while size > 0:
        size -= 1
        v = stack[size]
        for k in range(start[v], start[v + 1]):
            if seen[target[k]] == 0:
                seen[target[k]] = 1
                stack[size] = target[k]
                size += 1
    return seen


@kernel
def cap_bits(space, i, local, theta):
    """(cap of every bit, or nothing where none is below 1; score of the bits that this leaves in no factor).

    Factors that cannot be broken below the caps become SATISFIED in ``local``.
    """
    none, no_arcs = np.empty(0), np.empty(0, np.int64)
    count = implications(space, i, local, no_arcs, no_arcs, False)
    if count < CYCLE:
        return none, 0.0
    n, first, bit_base = theta.shape[0], space.factor_start[i], space.bit_start[space.node_start[i]]
    tail, head = np.empty(count, np.int64), np.empty(count, np.int64)
    implications(space, i, local, tail, head, True)
    start, target = outgoing(n, tail, head)
    root, size = largest_cycle(start, target)
    if size < CYCLE:
        return none, 0.0
    implied, least = reached(start, target, root), 1.0
    for f in range(first, space.factor_start[i + 1]):
        kind = local.kind[f - first]
        if kind in (XOR, AT_MOST_ONE, BUDGET):
            limit, met = 1.0 if kind != BUDGET else float(local.budget[f - first]), 0
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                met += implied[space.edge_bit[space.edge_start[s]] - bit_base] != 0 and space.slot_negated[s] == 0
            if met * least > limit:
                least = limit / met
    if least == 1.0:
        return none, 0.0
    start, target = outgoing(n, head, tail)
    below, cap = reached(start, target, root), np.ones(n)
    for b in range(n):
        if below[b] != 0:
            cap[b] = least
    score = 0.0
    for f in range(first, space.factor_start[i + 1]):
        g = f - first
        if local.kind[g] not in (AT_MOST_ONE, BUDGET):
            continue
        limit, most = 1.0 if local.kind[g] == AT_MOST_ONE else float(local.budget[g]), 0.0
        for s in range(space.slot_start[f], space.slot_start[f + 1]):
            b = space.edge_bit[space.edge_start[s]] - bit_base
            if local.fixed[b] < 0:
                most += cap[b] if space.slot_negated[s] == 0 else 1.0
        if most <= limit:
            local.kind[g] = SATISFIED
            for s in range(space.slot_start[f], space.slot_start[f + 1]):
                b = space.edge_bit[space.edge_start[s]] - bit_base
                if local.fixed[b] < 0:
                    local.degree[b] -= 1.0
                    local.share[b] = theta[b] / local.degree[b] if local.degree[b] > 0 else 0.0
                    if local.degree[b] == 0:
                        score += max(theta[b], 0.0)
    return cap, score

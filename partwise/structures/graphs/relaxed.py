"""The engine on AD³: argmax over the local polytope (outer), with a certificate where the answer is an output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.ad3 import Ad3Settings, price_bound, solve_relaxation
from partwise.structures.graphs.belief import MessageSpace, bit_count, edge_range, prepare, start_messages
from partwise.structures.graphs.local import live_links, local_tables
from partwise.structures.graphs.logic import TABLE
from partwise.structures.graphs.messages import NoStructure
from partwise.structures.graphs.pack import GraphSpace, atom_count, config_offset, graph_parts, violated, write_output
from partwise.structures.graphs.sequential import descend_bound, node_visits, smooth_tables
from partwise.structures.graphs.subproblems import factor_scratch
from partwise.structures.oracles import argmax, bound, marginals, part_count, work_size

__all__ = ["LOGGED", "BoundsSpace", "RelaxedSpace", "relax", "round_bits"]

SWEEPS = 4  # of sequential messages at one temperature
PLAIN = 4  # rounds of maxima before messages are smoothed
COOLINGS = 6  # temperatures, each half of the last
LAST = 4  # rounds of maxima after that, at most


#: What is kept of a call: iterations, residual, status (2 certified best, 1 converged, 0 neither), bound, attained
#: score, sum of the scores.
LOGGED = 6


class RelaxedSpace(NamedTuple):
    """AD³ on every instance."""

    graph: GraphSpace
    settings: Ad3Settings
    memory: NDArray[np.float64]  # (E,) multipliers of the last call, or (0,) to start afresh every time
    log: NDArray[np.float64]  # (n, LOGGED)


class BoundsSpace(NamedTuple):
    """Upper bounds of both kinds: AD³ for the argmax, tree-reweighted sum-product for marginals."""

    search: RelaxedSpace
    sums: MessageSpace


@kernel
def start_bits(graph, i, open_atoms, p):
    """p ← uniform over open states."""
    bit_base, atom_base = graph.bit_start[graph.node_start[i]], graph.atom_start[graph.node_start[i]]
    for v in range(graph.node_start[i], graph.node_start[i + 1]):
        states, first = graph.atom_start[v + 1] - graph.atom_start[v], graph.atom_start[v] - atom_base
        left = 0
        for x in range(states):
            left += open_atoms[first + x]
        b = graph.bit_start[v] - bit_base
        if states == 2:
            p[b] = 0.5 * open_atoms[first + 1] if left == 2 else float(open_atoms[first + 1])
        elif states > 2:
            for x in range(states):
                p[b + x] = open_atoms[first + x] / left


@kernel
def round_bits(graph, i, theta, degree, open_atoms, p, y):
    """y ← the open state of largest weight of every variable; by its score where it is in no factor."""
    bit_base, atom_base = graph.bit_start[graph.node_start[i]], graph.atom_start[graph.node_start[i]]
    first = graph.node_start[i]
    for v in range(first, graph.node_start[i + 1]):
        states, atom, b = (
            graph.atom_start[v + 1] - graph.atom_start[v],
            graph.atom_start[v] - atom_base,
            graph.bit_start[v] - bit_base,
        )
        best, top = 0, -np.inf
        for x in range(states):
            if open_atoms[atom + x] == 0:
                continue
            weight = 0.0
            if states == 2:
                weight = p[b] if x == 1 else 1.0 - p[b]
                if degree[b] == 0:
                    weight = theta[b] if x == 1 else 0.0
            elif states > 2:
                weight = p[b + x]
            if weight > top:
                best, top = x, weight
        y[v - first] = best


@kernel
def score_scale(local, theta):
    """A typical difference of scores, from which η starts."""
    total, count = 0.0, 0
    for b in range(theta.shape[0]):
        if local.fixed[b] < 0 and local.degree[b] > 0:
            total += abs(theta[b])
            count += 1
    for k in range(local.table.shape[0]):
        if local.table[k] > -np.inf:
            total += abs(local.table[k])
            count += 1
    return total / count if total > 0 else 1.0


@kernel
def relax(graph, i, scores, settings, memory, open_atoms, theta, constant, y, parts):
    """Runs AD³; y ← the best output that rounding found, parts ← the relaxed optimum.

    Returns (bound, score of y or −inf, iterations, residual).
    """
    shift = config_offset(graph, i)
    nothing, none = np.empty(0, np.int64), np.empty(0)
    local, known = local_tables(graph, i, open_atoms, theta, scores, shift, nothing)
    links = live_links(graph, i, local)
    first, last = edge_range(graph, i)
    lam, p = start_messages(memory, first, last), np.empty(theta.shape[0])
    start_bits(graph, i, open_atoms, p)
    trial, spare = np.zeros(y.shape[0], np.int64), np.empty(graph_parts(graph, i))
    level, value, done, residual = np.inf, -np.inf, 0, np.inf
    warm = False
    for e in range(lam.shape[0]):
        warm = warm or lam[e] != 0.0
    if warm:
        center_multipliers(graph, i, local, lam)
    elif settings.sweeps > 0 and local.set_start[local.kind.shape[0]] > 0:
        level, value = start_multipliers(
            graph, i, local, links, theta, scores, settings, constant + known, lam, p, y, spare
        )
    unit = score_scale(local, theta)
    eta = 0.5 * unit
    chunk = 5
    while True:
        if level < np.inf and level - value <= settings.gap * (1.0 + abs(level)):
            break
        limit = min(chunk, settings.max_iter - done)
        piece = Ad3Settings(limit, settings.tolerance, settings.gap, settings.every, 0)
        primal = value - constant - known
        low, more, residual, eta = solve_relaxation(
            graph, i, NoStructure(0), nothing, local, links, piece, unit, eta, done, lam, none, p, primal
        )
        level = min(level, low + constant + known)
        done += more
        chunk = min(2 * chunk, 80)
        round_bits(graph, i, theta, local.degree, open_atoms, p, trial)
        if violated(graph, i, trial) < 0:
            score = write_output(graph, i, trial, scores, spare)
            if score > value:
                value = score
                y[:] = trial
        if (
            residual <= settings.tolerance
            or done >= settings.max_iter
            or level - value <= settings.gap * (1.0 + abs(level))
        ):
            break
    if memory.shape[0] > 0:
        memory[first:last] = lam
    write_relaxed(graph, i, local, scores, theta, open_atoms, p, parts)
    return max(level, value), value, done, residual


@kernel
def start_multipliers(graph, i, local, links, theta, scores, settings, offset, lam, p, y, spare):
    """λ and p from sequential messages; returns (bound, score of the output y that they chose, or −inf).

    First maxima; where they do not settle the matter and all factors are tables, smooth messages whose temperature
    falls, and maxima again. The multipliers with the least bound count. ``offset`` is the score of what is settled.
    """
    scratch, visits = factor_scratch(graph, i, local), node_visits(graph, i, local)
    rest, phi, point = np.zeros(theta.shape[0]), np.zeros(lam.shape[0]), np.empty(lam.shape[0])
    trial, prices = np.zeros(y.shape[0], np.int64), np.empty(lam.shape[0])
    smooth = np.empty(local.table.shape[0])
    level, value = np.inf, -np.inf
    for b in range(theta.shape[0]):
        if local.fixed[b] < 0:
            rest[b] = theta[b]
    scale = score_scale(local, theta)
    for stage in range(min(PLAIN + COOLINGS + LAST, settings.sweeps // SWEEPS)):
        temperature = scale * 0.25 * 0.5 ** (stage - PLAIN) if PLAIN <= stage < PLAIN + COOLINGS else 0.0
        if temperature > 0:
            smooth_tables(local, temperature, smooth)
        descend_bound(graph, i, local, links, visits, scratch, temperature, smooth, SWEEPS, phi, rest, trial)
        if temperature > 0:
            continue
        for e in range(lam.shape[0]):
            b = links.bit[e]
            prices[e] = phi[e] + rest[b] / local.degree[b] - local.share[b] if b >= 0 else 0.0
        bound = offset + price_bound(graph, i, local, links, prices, point, scratch)
        slow = level - bound <= 1e-5 * (1.0 + abs(bound))
        if bound < level:
            level = bound
            lam[:] = prices
        settle(graph, i, local, theta, trial)
        if violated(graph, i, trial) < 0:
            score = write_output(graph, i, trial, scores, spare)
            if score > value:
                value = score
                y[:] = trial
        if level - value <= settings.gap * (1.0 + abs(level)):
            break
        if (slow and stage >= PLAIN) or (visits.logical and (slow or stage == PLAIN - 1)):
            break
    first, bit_base = graph.node_start[i], graph.bit_start[graph.node_start[i]]
    for v in range(first, graph.node_start[i + 1]):
        b, bits = graph.bit_start[v] - bit_base, graph.bit_start[v + 1] - graph.bit_start[v]
        if bits == 1:
            p[b] = trial[v - first]
        else:
            for x in range(bits):
                p[b + x] = 1.0 if x == trial[v - first] else 0.0
    return level, value


@kernel
def settle(graph, i, local, theta, y):
    """y ← what is fixed, and the better state of variables in no factor; other states stay."""
    first, bit_base = graph.node_start[i], graph.bit_start[graph.node_start[i]]
    for v in range(first, graph.node_start[i + 1]):
        b = graph.bit_start[v] - bit_base
        if graph.bit_start[v + 1] - graph.bit_start[v] == 1:
            if local.fixed[b] >= 0:
                y[v - first] = local.fixed[b]
            elif local.degree[b] == 0:
                y[v - first] = 1 if theta[b] > 0 else 0


@kernel
def center_multipliers(graph, i, local, lam):
    """Σ_e λ_e = 0 at every bit, as the bound needs; multipliers of an earlier call may belong to other free bits."""
    bit_base = graph.bit_start[graph.node_start[i]]
    first = graph.factor_start[i]
    edge_base = graph.edge_start[graph.slot_start[first]]
    sums = np.zeros(local.fixed.shape[0])
    for e in range(lam.shape[0]):
        b = graph.edge_bit[e + edge_base] - bit_base
        if local.fixed[b] < 0 and local.kind[graph.edge_factor[e + edge_base] - first] != 0:
            sums[b] += lam[e]
        else:
            lam[e] = 0.0
    for e in range(lam.shape[0]):
        b = graph.edge_bit[e + edge_base] - bit_base
        if local.fixed[b] < 0 and local.kind[graph.edge_factor[e + edge_base] - first] != 0:
            lam[e] -= sums[b] / local.degree[b]


@kernel
def write_relaxed(graph, i, local, scores, theta, open_atoms, p, parts):
    """parts ← a point of the local polytope from the bits: weights of states, and of configurations made to agree.

    A table's weights are scaled down until no state has more than its variable gives it; what is missing then, r_j(x)
    of slot j, is filled in by Π_j r_j / mass^(n−1), whose sums are just that.
    """
    bit_base, atom_base = graph.bit_start[graph.node_start[i]], graph.atom_start[graph.node_start[i]]
    for v in range(graph.node_start[i], graph.node_start[i + 1]):
        states, atom, b = (
            graph.atom_start[v + 1] - graph.atom_start[v],
            graph.atom_start[v] - atom_base,
            graph.bit_start[v] - bit_base,
        )
        if states == 1:
            parts[atom] = 1.0
        elif states == 2:
            on = min(max(p[b], 0.0), 1.0)
            if local.fixed[b] < 0 and local.degree[b] == 0:
                on = 1.0 if theta[b] > 0 else 0.0
            parts[atom], parts[atom + 1] = 1.0 - on, on
        else:
            total = 0.0
            for x in range(states):
                parts[atom + x] = max(p[b + x], 0.0) if open_atoms[atom + x] != 0 else 0.0
                total += parts[atom + x]
            for x in range(states):
                parts[atom + x] /= total
    shift, first = config_offset(graph, i), graph.factor_start[i]
    for f in range(first, graph.factor_start[i + 1]):
        if graph.kind[f] != TABLE:
            continue
        g, a, n = f - first, graph.slot_start[f], graph.slot_start[f + 1] - graph.slot_start[f]
        size, at = graph.config_start[f + 1] - graph.config_start[f], graph.config_start[f] + shift
        q = parts[at : at + size]
        q[:] = 0.0
        for r in range(local.set_start[g], local.set_start[g] + local.held[g]):
            q[local.configs[r]] += max(local.weights[r], 0.0)
        if local.held[g] == 0:  # all its variables are fixed: one configuration is left
            q[np.argmax(local.table[local.table_start[g] : local.table_start[g + 1]])] = 1.0
        whole, widest = True, 1
        for c in range(size):
            whole = whole and scores[at + c] > -np.inf
        for j in range(n):
            widest = max(
                widest, graph.atom_start[graph.slot_node[a + j] + 1] - graph.atom_start[graph.slot_node[a + j]]
            )
        sums = np.zeros((n, widest))
        for j in range(n):
            v, stride = graph.slot_node[a + j], graph.slot_stride[a + j]
            states, atom = graph.atom_start[v + 1] - graph.atom_start[v], graph.atom_start[v] - atom_base
            sums[j] = 0.0
            for c in range(size):
                sums[j, (c // stride) % states] += q[c]
            for c in range(size):
                x = (c // stride) % states
                if sums[j, x] > parts[atom + x]:
                    q[c] *= parts[atom + x] / sums[j, x]
        mass = 1.0
        for c in range(size):
            mass -= q[c]
        if mass <= 0 or not whole:
            continue
        for j in range(n):
            v, stride = graph.slot_node[a + j], graph.slot_stride[a + j]
            states, atom = graph.atom_start[v + 1] - graph.atom_start[v], graph.atom_start[v] - atom_base
            for x in range(states):
                sums[j, x] = parts[atom + x]
            for c in range(size):
                sums[j, (c // stride) % states] -= q[c]
        for c in range(size):
            more = mass
            for j in range(n):
                v = graph.slot_node[a + j]
                states = graph.atom_start[v + 1] - graph.atom_start[v]
                more *= max(sums[j, (c // graph.slot_stride[a + j]) % states], 0.0) / mass
            q[c] += more


@part_count.register(RelaxedSpace)
def _(space, i):
    return graph_parts(space.graph, i)


@work_size.register(RelaxedSpace)
def _(space, i):
    return 0


@argmax.register(RelaxedSpace)
def _(space, i, scores, work, parts):
    """scores·parts; parts are the best output where one is known to be it, else a point of the local polytope."""
    graph = space.graph
    parts[: graph_parts(graph, i)] = 0.0
    theta, open_atoms = np.empty(bit_count(graph, i)), np.empty(atom_count(graph, i), np.uint8)
    feasible, constant = prepare(graph, i, scores, theta, open_atoms)
    if not feasible:
        return -np.inf
    y = np.zeros(graph.node_start[i + 1] - graph.node_start[i], np.int64)
    level, value, iterations, residual = relax(
        graph, i, scores, space.settings, space.memory, open_atoms, theta, constant, y, parts
    )
    status = 1.0 if residual <= space.settings.tolerance else 0.0
    if level - value <= space.settings.gap * (1.0 + abs(level)):
        status = 2.0
        attained = write_output(graph, i, y, scores, parts)
    else:
        attained = 0.0
        for r in range(graph_parts(graph, i)):
            if parts[r] > 0:
                attained += scores[r] * parts[r]
    log = space.log[i]
    log[0], log[1], log[2], log[3], log[4], log[5] = iterations, residual, status, level, attained, total_of(scores)
    return attained


@kernel
def total_of(scores):
    """A number that tells scores apart, for ``bound``."""
    total = 0.0
    for r in range(scores.shape[0]):
        if scores[r] > -np.inf:
            total += (r % 7 + 1) * scores[r]
    return total


@bound.register(RelaxedSpace)
def _(space, i, scores, value, work):
    """AD³'s bound. The argmax that attained ``value`` has kept it; for other scores it is found anew."""
    if space.log[i, 4] == value and space.log[i, 5] == total_of(scores):
        return space.log[i, 3]
    if argmax(space, i, scores, work, np.empty(graph_parts(space.graph, i))) == -np.inf:
        return -np.inf
    return space.log[i, 3]


@bound.register(BoundsSpace)
def _(space, i, scores, value, work):
    return bound(space.search, i, scores, value, work)


@part_count.register(BoundsSpace)
def _(space, i):
    return graph_parts(space.search.graph, i)


@work_size.register(BoundsSpace)
def _(space, i):
    return 0


@argmax.register(BoundsSpace)
def _(space, i, scores, work, parts):
    return argmax(space.search, i, scores, work, parts)


@marginals.register(BoundsSpace)
def _(space, i, scores, work, parts):
    return marginals(space.sums, i, scores, work, parts)

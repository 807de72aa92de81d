"""Where AD³ starts: multipliers from sequential messages, or from an earlier call."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._lanes import LANES
from partwise.structures.graphs.ad3 import price_bound
from partwise.structures.graphs.pack import violated, write_output
from partwise.structures.graphs.pair_sweeps import (
    paired_bound,
    paired_multipliers,
    pairwise,
    smooth_rows,
    sweep_pairs,
)
from partwise.structures.graphs.sequential import descend_bound, node_visits, smooth_tables
from partwise.structures.graphs.subproblems import factor_scratch

__all__ = ["center_multipliers", "score_scale", "start_bits", "start_multipliers"]

SWEEPS = 4  # of sequential messages between two looks at the bound
STAGES = 4  # rounds of maxima before messages are smoothed, and after that, at most
HALVINGS = 6  # temperatures, each half of the last
# The same where all factors are tables over two variables of few states, whose sweeps are fast.
PLAIN = 2  # rounds of maxima; twice as many where the output is NEAR the bound
NEAR = 0.01
COOLINGS, HEAT, COOLER = 10, 0.12, 0.7  # temperatures, the first (of the scores' scale), and their ratio


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
def logical_factors(links):
    """The logical factors that still say something."""
    start = links.literal_start
    found = np.empty(start.shape[0] - 1, np.int64)
    count = 0
    for g in range(found.shape[0]):
        if start[g + 1] > start[g]:
            found[count] = g
            count += 1
    return found[:count]


@kernel
def keep_output(graph, i, local, theta, scores, trial, value, y, spare):
    """y ← the output ``trial`` if it is one and scores more than ``value``; returns the larger score."""
    settle(graph, i, local, theta, trial)
    if violated(graph, i, trial) < 0:
        score = write_output(graph, i, trial, scores, spare)
        if score > value:
            value = score
            y[:] = trial
    return value


@kernel
def start_pairs(graph, i, pairs, local, links, theta, scores, settings, offset, lam, trial, y, spare):
    """``start_multipliers`` on tables over two variables of few states; returns (bound, score, sweeps)."""
    n, bit_base = graph.node_start[i + 1] - graph.node_start[i], graph.bit_start[graph.node_start[i]]
    rest, work = np.zeros((n, LANES)), np.empty((1, LANES))
    phi, price = np.zeros((pairs.end.shape[0], LANES)), np.zeros((pairs.end.shape[0], LANES))
    for v in range(n):
        b = graph.bit_start[graph.node_start[i] + v] - bit_base
        if pairs.node[v] == 2:
            rest[v, 1] = theta[b]
        elif pairs.node[v] > 2:
            for x in range(pairs.node[v]):
                rest[v, x] = theta[b + x]
    level, value, used, scale = np.inf, -np.inf, 0, score_scale(local, theta)
    budget = min(settings.sweeps, settings.max_iter)
    each = min(8, max(1, (budget - 4 * SWEEPS) // COOLINGS))
    stage, cooled, last = 0, 0, -1.0
    while used < budget:
        hot = cooled < COOLINGS and (stage >= 2 * PLAIN or (stage >= PLAIN and level - value > NEAR * abs(level)))
        temperature = scale * HEAT * COOLER**cooled if hot else 0.0
        count = min(each if hot else SWEEPS, budget - used)
        if hot:
            smooth_rows(pairs, temperature)
            cooled += 1
        for k in range(count):
            sweep_pairs(pairs, temperature, True, k == 0 and temperature != last, phi, rest, work, trial)
            sweep_pairs(pairs, temperature, False, False, phi, rest, work, trial)
        last, stage, used = temperature, stage + 1, used + count
        bound = offset + paired_bound(pairs, phi, rest, price)
        slow = level - bound <= 1e-5 * (1.0 + abs(bound))
        if bound < level:
            level = bound
            paired_multipliers(pairs, local, links, price, lam)
        value = keep_output(graph, i, local, theta, scores, trial, value, y, spare)
        if level - value <= settings.gap * (1.0 + abs(level)) or (slow and cooled == COOLINGS and not hot):
            break
    return level, value, used


@kernel
def start_tables(graph, i, local, links, theta, scores, settings, offset, lam, trial, y, spare):
    """``start_multipliers`` on any tables, with or without logical factors; returns (bound, score, sweeps)."""
    scratch, visits = factor_scratch(graph, i, local), node_visits(graph, i, local)
    rest, phi, point = np.zeros(theta.shape[0]), np.zeros(lam.shape[0]), np.empty(lam.shape[0])
    prices, smooth, clauses = np.empty(lam.shape[0]), np.empty(local.table.shape[0]), logical_factors(links)
    level, value, used, scale = np.inf, -np.inf, 0, score_scale(local, theta)
    for b in range(theta.shape[0]):
        if local.fixed[b] < 0:
            rest[b] = theta[b]
    budget = min(settings.sweeps, settings.max_iter)
    if visits.logical:  # there AD³ itself is faster
        budget = min(SWEEPS * STAGES, settings.max_iter // 2)
    for stage in range(STAGES + HALVINGS + STAGES):
        count = min(SWEEPS, budget - used)
        if count <= 0:
            break
        temperature = scale * 0.25 * 0.5 ** (stage - STAGES) if STAGES <= stage < STAGES + HALVINGS else 0.0
        if temperature > 0:
            smooth_tables(local, temperature, smooth)
        descend_bound(graph, i, local, links, visits, scratch, temperature, smooth, count, phi, rest, trial)
        used += count
        if temperature > 0:
            continue
        for e in range(lam.shape[0]):
            b = links.bit[e]
            prices[e] = phi[e] + rest[b] / local.degree[b] - local.share[b] if b >= 0 else 0.0
        bound = offset + price_bound(graph, i, local, links, clauses, prices, point, scratch)
        slow = level - bound <= 1e-5 * (1.0 + abs(bound))
        if bound < level:
            level = bound
            lam[:] = prices
        value = keep_output(graph, i, local, theta, scores, trial, value, y, spare)
        if level - value <= settings.gap * (1.0 + abs(level)):
            break
        if slow and (stage >= STAGES or visits.logical):
            break
    return level, value, used


@kernel
def start_multipliers(graph, i, local, links, theta, scores, settings, offset, lam, p, y, spare):
    """λ and p from sequential messages; returns (bound, score of the output y that they chose or −inf, sweeps).

    First maxima; where they do not settle the matter and all factors are tables, smooth messages whose temperature
    falls, and maxima again. The multipliers with the least bound count. ``offset`` is the score of what is settled.
    """
    trial, pairs = np.zeros(y.shape[0], np.int64), pairwise(graph, i, local)
    if pairs.fits:
        level, value, used = start_pairs(
            graph, i, pairs, local, links, theta, scores, settings, offset, lam, trial, y, spare
        )
    else:
        level, value, used = start_tables(graph, i, local, links, theta, scores, settings, offset, lam, trial, y, spare)
    if used == 0:
        return level, value, used
    first, bit_base = graph.node_start[i], graph.bit_start[graph.node_start[i]]
    for v in range(first, graph.node_start[i + 1]):
        b, bits = graph.bit_start[v] - bit_base, graph.bit_start[v + 1] - graph.bit_start[v]
        if bits == 1:
            p[b] = trial[v - first]
        else:
            for x in range(bits):
                p[b + x] = 1.0 if x == trial[v - first] else 0.0
    return level, value, used


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

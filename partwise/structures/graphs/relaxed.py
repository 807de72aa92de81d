"""The engine on AD³: argmax over the local polytope (outer), with a certificate where the answer is an output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.ad3 import Ad3Settings, solve_relaxation
from partwise.structures.graphs.belief import MessageSpace, bit_count, edge_range, prepare, start_messages
from partwise.structures.graphs.lanes import make_lanes
from partwise.structures.graphs.local import live_links, local_tables
from partwise.structures.graphs.logic import AT_MOST_ONE, BUDGET, SATISFIED
from partwise.structures.graphs.messages import NoStructure
from partwise.structures.graphs.pack import GraphSpace, atom_count, config_offset, graph_parts, violated, write_output
from partwise.structures.graphs.presolve import cap_bits, close_dominated
from partwise.structures.graphs.readout import round_bits, write_relaxed
from partwise.structures.graphs.roof import solve_pairs
from partwise.structures.graphs.start import center_multipliers, score_scale, start_bits, start_multipliers
from partwise.structures.oracles import argmax, bound, marginals, part_count, work_size

__all__ = ["LOGGED", "BoundsSpace", "RelaxedSpace", "relax"]

#: What is kept of a call: iterations, residual, status (2 certified best, 1 converged, 0 neither), bound, attained
#: score, sum of the scores.
LOGGED = 6
# η to begin with: where all factors are logical and some demand that literals be true, where bits have caps, otherwise
LOGICAL, CAPPED, TABLED = 1.2, 2.5, 0.5


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
def demanding(local):
    """Whether some factor demands more than that few of its literals be true."""
    kinds, found = local.kind, False
    for g in range(kinds.shape[0]):
        found = found or kinds[g] not in (SATISFIED, AT_MOST_ONE, BUDGET)
    return found


@kernel
def finish(graph, i, scores, local, theta, open_atoms, level, p, y, best, spare, parts):
    """What ``relax`` returns where a cut has found the relaxed optimum; best ← the output that it rounds to, if any."""
    value = -np.inf
    round_bits(graph, i, theta, local.degree, open_atoms, p, y)
    if violated(graph, i, y) < 0:
        value = write_output(graph, i, y, scores, spare)
        best[:] = y
    write_relaxed(graph, i, local, scores, theta, open_atoms, p, parts)
    return max(level, value), value, 0, 0.0


@kernel
def relax(graph, i, scores, settings, memory, open_atoms, theta, constant, y, parts):
    """Runs AD³; y ← the best output that rounding found, parts ← the relaxed optimum.

    Returns (bound, score of y or −inf, iterations, residual).
    """
    shift = config_offset(graph, i)
    nothing, none = np.empty(0, np.int64), np.empty(0)
    close_dominated(graph, i, theta, open_atoms)
    local, known = local_tables(graph, i, open_atoms, theta, scores, shift, nothing)
    p, trial, spare = np.empty(theta.shape[0]), np.zeros(y.shape[0], np.int64), np.empty(graph_parts(graph, i))
    start_bits(graph, i, open_atoms, p)
    paired, level = solve_pairs(graph, i, local, theta, p)
    if paired:
        return finish(graph, i, scores, local, theta, open_atoms, level + constant + known, p, trial, y, spare, parts)
    logical = local.set_start[local.kind.shape[0]] == 0
    cap, more_known = cap_bits(graph, i, local, theta) if logical else (none, 0.0)
    known += more_known
    links = live_links(graph, i, local)
    lanes = make_lanes(local, links)
    first, last = edge_range(graph, i)
    lam = start_messages(memory, first, last)
    value, done, left, residual = -np.inf, 0, settings.max_iter, np.inf
    warm = False
    for e in range(lam.shape[0]):
        warm = warm or lam[e] != 0.0
    if warm:
        center_multipliers(graph, i, local, lam)
    elif settings.sweeps > 0 and not logical:
        level, value, done = start_multipliers(
            graph, i, local, links, theta, scores, settings, constant + known, lam, p, y, spare
        )
        left = settings.max_iter - (settings.sweeps if lanes.kind.shape[0] + lanes.single.shape[0] == 0 else done)
    unit = score_scale(local, theta)
    eta = TABLED * unit
    if logical:
        eta = (CAPPED if cap.shape[0] > 0 else LOGICAL if demanding(local) else TABLED) * unit
    mean = lam.copy() if logical else none
    for b in range(cap.shape[0]):
        p[b] = min(p[b], cap[b])
    chunk, before = 15 if logical else 5, 0  # then the output is looked at
    while left > 0:
        if level < np.inf and level - value <= settings.gap * (1.0 + abs(level)):
            break
        limit = min(chunk, left)
        piece = Ad3Settings(limit, settings.tolerance, settings.gap, settings.every, 0)
        primal = value - constant - known
        low, more, residual, eta = solve_relaxation(
            graph, i, NoStructure(0), nothing, local, links, lanes, piece, unit, eta, before, lam, mean, none, cap, p,
            primal,
        )  # fmt: skip
        level = min(level, low + constant + known)
        done, left, before = done + more, left - more, before + more
        chunk = min(2 * chunk, 80)
        round_bits(graph, i, theta, local.degree, open_atoms, p, trial)
        if violated(graph, i, trial) < 0:
            score = write_output(graph, i, trial, scores, spare)
            if score > value:
                value = score
                y[:] = trial
        if residual <= settings.tolerance or level - value <= settings.gap * (1.0 + abs(level)):
            break
    if memory.shape[0] > 0:
        memory[first:last] = lam
    write_relaxed(graph, i, local, scores, theta, open_atoms, p, parts)
    return max(level, value), value, done, residual


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

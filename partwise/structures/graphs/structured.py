"""A structure with pairs of its parts that score together: BP and AD³ where one factor is the whole structure.

score(z) = Σ_r s_r z_r + Σ_{(r, t)} s_rt z_r z_t over the outputs z of any compiled structure, such as the trees over
the arcs of a sentence with siblings and grandparents (Martins et al., appendix A). The structure is one factor, known
by its ``argmax`` (AD³) and its ``marginals`` (BP); every pair is a factor over two bits with one part, on where both
are. A structure whose kernels are registered needs nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.ad3 import solve_relaxation
from partwise.structures.graphs.free_energy import free_energy, node_normaliser
from partwise.structures.graphs.lanes import make_lanes
from partwise.structures.graphs.local import live_links, local_tables
from partwise.structures.graphs.logic import AND_PAIR
from partwise.structures.graphs.messages import make_scratch, run_messages
from partwise.structures.graphs.pack import GraphSpace
from partwise.structures.oracles import marginals, part_count, work_size

__all__ = ["PairSpace", "pair_graphs", "pair_marginals", "relax_pairs"]

Ints = NDArray[np.int64]


class PairSpace(NamedTuple):
    """A structure's pack and the pairs of its parts, for all instances. Parts: the structure's, then the pairs."""

    structure: Any
    graph: GraphSpace


def pair_graphs(sizes: Sequence[int], pairs: Sequence[Ints]) -> GraphSpace:
    """Instances of ``sizes[i]`` bits with (P_i, 2) pairs of them."""
    bits, counts = np.asarray(sizes, np.int64), np.array([len(table) for table in pairs], np.int64)
    node_start, factor_start = np.append(0, np.cumsum(bits)), np.append(0, np.cumsum(counts))
    n, n_factors = int(node_start[-1]), int(factor_start[-1])
    tables = [np.asarray(table, np.int64).reshape(-1, 2) + node_start[i] for i, table in enumerate(pairs)]
    edge_bit = np.concatenate([np.zeros((0, 2), np.int64), *tables]).ravel()
    slots = np.arange(n_factors + 1) * 2
    zeros = np.zeros(2 * n_factors, np.int64)
    return GraphSpace(
        node_start, 2 * np.arange(n + 1), np.arange(n + 1), np.arange(n), factor_start, np.full(n_factors, AND_PAIR),
        np.zeros(n_factors, np.int64), slots, edge_bit, zeros + 1, zeros, zeros.astype(np.uint8),
        np.arange(2 * n_factors + 1), edge_bit, np.repeat(np.arange(n_factors), 2),
        np.append(0, np.cumsum(np.bincount(edge_bit, minlength=n))).astype(np.int64),
        np.argsort(edge_bit, kind="stable"), np.arange(n_factors + 1), np.zeros(n_factors + 1, np.int64),
        np.zeros(0, np.uint8), np.zeros(0, np.uint8), np.ones(len(bits), np.uint8),
    )  # fmt: skip


@kernel
def relax_pairs(space, i, scores, settings, parts):
    """AD³ with the structure as one factor: parts ← the relaxed optimum; returns (bound, iterations, residual).

    The bound is never below the score of the best output. Pair parts of the relaxed optimum are max(0, z_r + z_t − 1)
    or min(z_r, z_t), whichever scores more.
    """
    graph, extra = space.graph, space.structure
    n = part_count(extra, i)
    bits, open_atoms = np.arange(n), np.ones(2 * n, np.uint8)
    theta = scores[:n].copy()
    first = graph.factor_start[i]
    shift = n - graph.config_start[first]
    local, known = local_tables(graph, i, open_atoms, theta, scores, shift, bits)
    lam, more, p = np.zeros(2 * (graph.factor_start[i + 1] - first)), np.zeros(n), np.full(n, 0.5)
    scale = 0.0
    for r in range(part_count(extra, i) + graph.factor_start[i + 1] - first):
        scale += abs(scores[r]) / (n + graph.factor_start[i + 1] - first)
    unit = max(scale, 1e-12)
    links = live_links(graph, i, local)
    lanes, none = make_lanes(local, links), np.empty(0)
    level, iterations, residual, _ = solve_relaxation(
        graph, i, extra, bits, local, links, lanes, settings, unit, unit, 0, lam, none, more, none, p, -np.inf
    )
    for r in range(n):
        parts[r] = min(max(p[r], 0.0), 1.0)
    for f in range(first, graph.factor_start[i + 1]):
        a = parts[graph.edge_bit[2 * f] - graph.node_start[i]]
        b = parts[graph.edge_bit[2 * f + 1] - graph.node_start[i]]
        parts[graph.config_start[f] + shift] = (
            min(a, b) if scores[graph.config_start[f] + shift] > 0 else max(0.0, a + b - 1.0)
        )
    return level + known, iterations, residual


@kernel
def pair_marginals(space, i, scores, schedule, parts):
    """Belief propagation with the structure as a factor: (Bethe log Z of eq. 19, sweeps, residual)."""
    graph, extra = space.graph, space.structure
    n = part_count(extra, i)
    bits, open_atoms = np.arange(n), np.ones(2 * n, np.uint8)
    theta = scores[:n].copy()
    first = graph.factor_start[i]
    n_factors = graph.factor_start[i + 1] - first
    shift = n - graph.config_start[first]
    message, more, belief = np.zeros(2 * n_factors), np.zeros(n), np.empty(n)
    rho, order = np.ones(n_factors), np.arange(first, first + n_factors)
    sweeps, residual = run_messages(graph, i, extra, bits, open_atoms, theta, scores, shift, rho, order, True, schedule,
                                    belief, message, more)  # fmt: skip
    doubled = np.zeros(2 * n + n_factors)
    value = free_energy(graph, i, open_atoms, scores, shift, rho, belief, message, np.zeros(2 * n_factors), rho,
                        make_scratch(graph, i), doubled, 1.0, 2 * n - graph.config_start[first])  # fmt: skip
    # the structure is one more factor: its log Σ, less that of its variables
    incoming, mean, work = np.empty(n), np.empty(n), np.empty(work_size(extra, i))
    for r in range(n):
        incoming[r] = belief[r] - more[r]
        value -= node_normaliser(graph, i, graph.node_start[i] + r, open_atoms, belief)
    value += marginals(extra, i, incoming, work, mean)
    for r in range(n):
        parts[r] = doubled[2 * r + 1]
    for k in range(n_factors):
        parts[n + k] = doubled[2 * n + k]
    return value, sweeps, residual

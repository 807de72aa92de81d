"""Kernels of grammars that read marginals, and slack rescaling.

Masses of edges with Σ over the edges of a node = Σ over the edges that it is a child of, and 1 at the root, are the
marginals of derivations (Martin, Rardin & Campbell 1990): nonnegative parts and linear equations, nothing else.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.structures._grammar_kernels import cky
from partwise.structures._grammar_space import GrammarSpace
from partwise.structures.base import (
    LEAST_MASS,
    gibbs_scores,
    marginal_entropy,
    part_count,
    slack_argmax,
    support_argmin,
)


@support_argmin.register(GrammarSpace)
def _support_argmin(space, i, scores, mass, work, parts):
    """CKY on the negative scores, −inf where there is no mass."""
    n = part_count(space, i)
    start = 2 * (space.nodes[i + 1] - space.nodes[i])
    negated = work[start : start + n]
    for r in range(n):
        negated[r] = -scores[r] if mass[r] > LEAST_MASS else -np.inf
    return -cky(space, i, negated, work, parts)


@marginal_entropy.register(GrammarSpace)
def _marginal_entropy(space, i, parts, direction):
    """H = −Σ_e μ_e log(μ_e / μ_node(e)): given its node, an edge is drawn independently of all else."""
    value, slope = 0.0, 0.0
    shift = space.atoms[i + 1] - space.atoms[i] - space.edges[i]
    for v in range(space.nodes[i], space.nodes[i + 1]):
        total = 0.0
        for e in range(space.first[v], space.first[v + 1]):
            total += parts[shift + e]
        for e in range(space.first[v], space.first[v + 1]):
            if parts[shift + e] > 0.0:
                size = math.log(parts[shift + e] / total)
                value -= parts[shift + e] * size
                slope -= direction[shift + e] * size
    return value, slope


@gibbs_scores.register(GrammarSpace)
def _gibbs_scores(space, i, mass, scores):
    """log(μ_e / μ_node(e)) for edges, 0 for constituents with mass: p(derivation) = Π p(edge | node), and log Z = 0."""
    n_atoms = space.atoms[i + 1] - space.atoms[i]
    for r in range(n_atoms):
        scores[r] = 0.0 if mass[r] > 0.0 else -np.inf
    shift = n_atoms - space.edges[i]
    for v in range(space.nodes[i], space.nodes[i + 1]):
        total = 0.0
        for e in range(space.first[v], space.first[v + 1]):
            total += mass[shift + e]
        for e in range(space.first[v], space.first[v + 1]):
            scores[shift + e] = math.log(mass[shift + e] / total) if mass[shift + e] > 0.0 else -np.inf


@slack_argmax.register(GrammarSpace)
def _slack_argmax(space, i, scores, costs, constant, offset, work, parts):
    """v(node, c) = the best score of the derivations below a node that cost c; then max_c ℓ_c (offset + v(root, c)).

    Costs are integers, low[u] … high[u] below node u. O(edges·K²) for K levels of cost; the table is an array of its
    own, because its size depends on the costs.
    """
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    low, high = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    place = np.zeros(n_nodes + 1, np.int64)
    for u in range(n_nodes):
        v = space.nodes[i] + u
        for e in range(space.first[v], space.first[v + 1]):
            least = most = 0
            if space.left[e] >= 0:
                least, most = least + low[space.left[e]], most + high[space.left[e]]
            if space.right[e] >= 0:
                least, most = least + low[space.right[e]], most + high[space.right[e]]
            if e == space.first[v] or least < low[u]:
                low[u] = least
            if e == space.first[v] or most > high[u]:
                high[u] = most
        own = round(costs[space.atom[v]]) if space.atom[v] >= 0 else 0
        low[u], high[u] = low[u] + own, high[u] + own
        place[u + 1] = place[u] + high[u] - low[u] + 1
    table = np.full(place[n_nodes], -np.inf)
    edge = np.zeros(place[n_nodes], np.int64)
    share = np.zeros(place[n_nodes], np.int64)  # the level of the first child
    for u in range(n_nodes):
        v = space.nodes[i] + u
        own = round(costs[space.atom[v]]) if space.atom[v] >= 0 else 0
        score = scores[space.atom[v]] if space.atom[v] >= 0 else 0.0
        for e in range(space.first[v], space.first[v + 1]):
            a, b = space.left[e], space.right[e]
            s = score + scores[n_atoms + e - space.edges[i]]
            for x in range(low[a] if a >= 0 else 0, (high[a] if a >= 0 else 0) + 1):
                s_left = s + (table[place[a] + x - low[a]] if a >= 0 else 0.0)
                if s_left == -np.inf:
                    continue
                for y in range(low[b] if b >= 0 else 0, (high[b] if b >= 0 else 0) + 1):
                    total = s_left + (table[place[b] + y - low[b]] if b >= 0 else 0.0)
                    at = place[u] + x + y + own - low[u]
                    if total > table[at]:
                        table[at], edge[at], share[at] = total, e, x
    parts[: part_count(space, i)] = 0.0
    root, best, level = n_nodes - 1, -np.inf, 0
    for c in range(low[root], high[root] + 1):
        x = table[place[root] + c - low[root]]
        if x > -np.inf and (c + constant) * (offset + x) > best:
            best, level = (c + constant) * (offset + x), c
    if best == -np.inf:
        return best
    levels, reached = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_)
    levels[root], reached[root] = level, True
    for u in range(root, -1, -1):
        if not reached[u]:
            continue
        v = space.nodes[i] + u
        at = place[u] + levels[u] - low[u]
        e = edge[at]
        parts[n_atoms + e - space.edges[i]] = 1.0
        rest = levels[u] - share[at]
        if space.atom[v] >= 0:
            parts[space.atom[v]] = 1.0
            rest -= round(costs[space.atom[v]])
        if space.left[e] >= 0:
            levels[space.left[e]], reached[space.left[e]] = share[at], True
        if space.right[e] >= 0:
            levels[space.right[e]], reached[space.right[e]] = rest, True
    return best

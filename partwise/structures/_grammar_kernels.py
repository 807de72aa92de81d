"""Kernels of grammars: CKY, inside–outside, k-best lists and samples, over the nodes of a forest from the bottom up."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform
from partwise.structures._grammar_space import GrammarSpace
from partwise.structures.base import argmax, kbest, marginals, part_count, sample

__all__ = ["inside", "trace"]


@kernel
def edge_value(space, i, e, scores, value):
    """Score of edge e (counted over all instances) and of what lies below it."""
    x = scores[space.atoms[i + 1] - space.atoms[i] + e - space.edges[i]]
    if space.left[e] >= 0:
        x += value[space.left[e]]
    if space.right[e] >= 0:
        x += value[space.right[e]]
    return x


@kernel
def atom_score(space, i, v, scores):
    """Score of the constituent that node v (counted over all instances) is."""
    return scores[space.atom[v]] if space.atom[v] >= 0 else 0.0


@kernel
def trace(space, i, scores, value, chosen, parts):
    """parts ← the derivation that takes the best edge of every node; ``chosen`` is scratch, one number per node."""
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    parts[: part_count(space, i)] = 0.0
    chosen[:n_nodes] = 0.0
    chosen[n_nodes - 1] = 1.0
    for u in range(n_nodes - 1, -1, -1):
        if chosen[u] == 0.0:
            continue
        v = space.nodes[i] + u
        best, top = space.first[v], -np.inf
        for e in range(space.first[v], space.first[v + 1]):
            x = edge_value(space, i, e, scores, value)
            if x > top:
                best, top = e, x
        parts[n_atoms + best - space.edges[i]] = 1.0
        if space.atom[v] >= 0:
            parts[space.atom[v]] = 1.0
        if space.left[best] >= 0:
            chosen[space.left[best]] = 1.0
        if space.right[best] >= 0:
            chosen[space.right[best]] = 1.0


@argmax.register(GrammarSpace)
def cky(space, i, scores, work, parts):
    """v(A, s, e) = s(A, s, e) + max over edges of s(A → B C, s, m, e) + v(B, s, m) + v(C, m, e). O(edges)."""
    n_nodes = space.nodes[i + 1] - space.nodes[i]
    value, chosen = work[:n_nodes], work[n_nodes:]
    for u in range(n_nodes):
        v = space.nodes[i] + u
        top = -np.inf
        for e in range(space.first[v], space.first[v + 1]):
            top = max(top, edge_value(space, i, e, scores, value))
        value[u] = top + atom_score(space, i, v, scores)
    best = value[n_nodes - 1]
    if best > -np.inf:
        trace(space, i, scores, value, chosen, parts)
    return best


# No reordering of sums below: x − max(x) must be exactly 0 at the maximum, however large the scores are.


@kernel(fast=False)
def inside(space, i, scores, value, shares):
    """value ← log Σ over the derivations below each node; shares ← p(edge | its node). Returns log Z."""
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    for u in range(n_nodes):
        v = space.nodes[i] + u
        shift = n_atoms - space.edges[i]
        top, total = -np.inf, 0.0
        for e in range(space.first[v], space.first[v + 1]):
            x = edge_value(space, i, e, scores, value)
            shares[shift + e] = x
            top = max(top, x)
        if top == -np.inf:
            value[u] = top
            for e in range(space.first[v], space.first[v + 1]):
                shares[shift + e] = 0.0
            continue
        for e in range(space.first[v], space.first[v + 1]):
            x = math.exp(shares[shift + e] - top)
            shares[shift + e] = x
            total += x
        for e in range(space.first[v], space.first[v + 1]):
            shares[shift + e] /= total
        value[u] = top + math.log(total) + atom_score(space, i, v, scores)
    return value[n_nodes - 1]


@marginals.register(GrammarSpace)
def inside_outside(space, i, scores, work, parts):
    """log Z and E[z], Bartlett et al. (2004), Example 2: masses from the top down, p(edge) = p(node) p(edge | node).

    Every number is a probability: nothing is subtracted and nothing overflows. One exponential per edge.
    """
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    value, mass = work[:n_nodes], work[n_nodes : 2 * n_nodes]
    log_partition = inside(space, i, scores, value, parts)
    parts[:n_atoms] = 0.0
    if log_partition == -np.inf:
        parts[: part_count(space, i)] = 0.0
        return log_partition
    mass[:] = 0.0
    mass[n_nodes - 1] = 1.0
    for u in range(n_nodes - 1, -1, -1):
        v = space.nodes[i] + u
        if space.atom[v] >= 0:
            parts[space.atom[v]] = mass[u]
        for e in range(space.first[v], space.first[v + 1]):
            share = mass[u] * parts[n_atoms + e - space.edges[i]]
            parts[n_atoms + e - space.edges[i]] = share
            if space.left[e] >= 0:
                mass[space.left[e]] += share
            if space.right[e] >= 0:
                mass[space.right[e]] += share
    return log_partition


@sample.register(GrammarSpace)
def _(space, i, scores, work, seed, draws):
    """An edge of every node that is reached, drawn from p(edge | node), from the top down. Returns log Z."""
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    value, reached, shares = work[:n_nodes], work[n_nodes : 2 * n_nodes], work[2 * n_nodes :]
    log_partition = inside(space, i, scores, value, shares)
    if log_partition == -np.inf:
        return log_partition
    for d in range(draws.shape[0]):
        draws[d, : part_count(space, i)] = 0.0
        reached[:] = 0.0
        reached[n_nodes - 1] = 1.0
        place = stream(seed, i, d)
        for u in range(n_nodes - 1, -1, -1):
            if reached[u] == 0.0:
                continue
            v = space.nodes[i] + u
            left, chosen = uniform(place), space.first[v]
            place += GOLDEN
            for e in range(space.first[v], space.first[v + 1]):
                x = shares[n_atoms + e - space.edges[i]]
                if x > 0.0:
                    chosen = e  # the last possible one, should rounding leave a remainder
                    left -= x
                    if left < 0.0:
                        break
            draws[d, n_atoms + chosen - space.edges[i]] = 1.0
            if space.atom[v] >= 0:
                draws[d, space.atom[v]] = 1.0
            if space.left[chosen] >= 0:
                reached[space.left[chosen]] = 1.0
            if space.right[chosen] >= 0:
                reached[space.right[chosen]] = 1.0
    return log_partition


@kernel
def _insert(best, edge, ranks, u, count, x, e, a, b):
    """Put a derivation into the sorted list of node u; returns the new length of the list."""
    k = best.shape[1]
    if count == k and not x > best[u, k - 1]:
        return count
    r = min(count, k - 1)
    while r > 0 and best[u, r - 1] < x:
        best[u, r], edge[u, r] = best[u, r - 1], edge[u, r - 1]
        ranks[u, r, 0], ranks[u, r, 1] = ranks[u, r - 1, 0], ranks[u, r - 1, 1]
        r -= 1
    best[u, r], edge[u, r], ranks[u, r, 0], ranks[u, r, 1] = x, e, a, b
    return min(count + 1, k)


@kbest.register(GrammarSpace)
def _kbest(space, i, scores, work, parts, values):
    """Exact k-best: every node keeps its k best derivations.

    Of two children's lists only the pairs of ranks with (a + 1)(b + 1) ≤ k can be among the k best of an edge.
    O(edges·k log k) at worst; the lists live in arrays of their own because their size depends on k.
    """
    k = values.shape[0]
    n_nodes, n_atoms = space.nodes[i + 1] - space.nodes[i], space.atoms[i + 1] - space.atoms[i]
    best, edge = np.full((n_nodes, k), -np.inf), np.zeros((n_nodes, k), np.int64)
    ranks, size = np.zeros((n_nodes, k, 2), np.int32), np.zeros(n_nodes, np.int64)
    for u in range(n_nodes):
        v = space.nodes[i] + u
        count = 0
        for e in range(space.first[v], space.first[v + 1]):
            s = scores[n_atoms + e - space.edges[i]]
            if s == -np.inf:
                continue
            many = size[space.left[e]] if space.left[e] >= 0 else 1
            more = size[space.right[e]] if space.right[e] >= 0 else 1
            for a in range(many):
                for b in range(min(more, k // (a + 1))):
                    x = s
                    if space.left[e] >= 0:
                        x += best[space.left[e], a]
                    if space.right[e] >= 0:
                        x += best[space.right[e], b]
                    if count == k and not x > best[u, k - 1]:
                        break
                    count = _insert(best, edge, ranks, u, count, x, e, a, b)
        own = atom_score(space, i, v, scores)
        if own == -np.inf:
            count = 0
        for r in range(count):
            best[u, r] += own
        size[u] = count
    taken = np.empty(n_nodes, np.int64)  # the rank of the derivation that each node contributes, −1 if none
    for r in range(size[n_nodes - 1]):
        values[r] = best[n_nodes - 1, r]
        parts[r, : part_count(space, i)] = 0.0
        taken[:] = -1
        taken[n_nodes - 1] = r
        for u in range(n_nodes - 1, -1, -1):
            if taken[u] < 0:
                continue
            v, e = space.nodes[i] + u, edge[u, taken[u]]
            parts[r, n_atoms + e - space.edges[i]] = 1.0
            if space.atom[v] >= 0:
                parts[r, space.atom[v]] = 1.0
            if space.left[e] >= 0:
                taken[space.left[e]] = ranks[u, taken[u], 0]
            if space.right[e] >= 0:
                taken[space.right[e]] = ranks[u, taken[u], 1]
    return size[n_nodes - 1]

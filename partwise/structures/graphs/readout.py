"""From relaxed bits back to parts: an output by rounding, or a point of the local polytope."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.logic import TABLE
from partwise.structures.graphs.pack import config_offset

__all__ = ["round_bits", "write_relaxed"]


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

"""Junction tree: exact inference by elimination. Argmax, marginals with log Z, k-best and sampling on one tree."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform
from partwise.structures.graphs.junction_tree import CONSTANTS, MESSAGES, SCORES, Tree
from partwise.structures.graphs.pack import GraphSpace, atom_count, graph_parts, write_output
from partwise.structures.oracles import argmax, kbest, marginals, part_count, sample, work_size

__all__ = ["JunctionSpace"]


class JunctionSpace(NamedTuple):
    """Graphs and their trees."""

    graph: GraphSpace
    tree: Tree


@kernel
def add_map(tree, base, b, m, values, shift, table, at):
    """table[at + k] += values[shift + index of k in map m] for every configuration k of bucket b."""
    first, d = tree.scope_start[b], tree.scope_start[b + 1] - tree.scope_start[b]
    strides = tree.stride_start[m]
    inner, step = tree.size[b], tree.stride[strides + d - 1]
    digits = np.zeros(d, np.int64)
    k, stop, index = at, at + tree.extent[b], shift
    while k < stop:
        for x in range(inner):
            table[k + x] += values[index + x * step]
        k += inner
        for t in range(d - 2, -1, -1):
            digits[t] += 1
            index += tree.stride[strides + t]
            if digits[t] < tree.size[base + tree.scope[first + t]]:
                break
            index -= digits[t] * tree.stride[strides + t]
            digits[t] = 0


@kernel
def collect_map(tree, base, b, m, table, at, values, shift):
    """values[shift + index of k in map m] += table[at + k]: the adjoint of ``add_map``."""
    first, d = tree.scope_start[b], tree.scope_start[b + 1] - tree.scope_start[b]
    strides = tree.stride_start[m]
    inner, step = tree.size[b], tree.stride[strides + d - 1]
    digits = np.zeros(d, np.int64)
    k, stop, index = at, at + tree.extent[b], shift
    while k < stop:
        for x in range(inner):
            values[index + x * step] += table[k + x]
        k += inner
        for t in range(d - 2, -1, -1):
            digits[t] += 1
            index += tree.stride[strides + t]
            if digits[t] < tree.size[base + tree.scope[first + t]]:
                break
            index -= digits[t] * tree.stride[strides + t]
            digits[t] = 0


@kernel
def upward(space, i, scores, work, soft):
    """Tables and messages of all buckets, sums (soft) or maxima; returns log Z or the maximum."""
    graph, tree = space.graph, space.tree
    base, total = tree.start[i], 0.0
    n_atoms = atom_count(graph, i)
    given = graph.allowed.shape[0] > 0
    first_atom = graph.atom_start[graph.node_start[i]]
    for b in range(base, tree.start[i + 1]):
        at, to, inner = tree.table[b], tree.message[b], tree.size[b]
        for k in range(at, at + tree.extent[b]):
            work[k] = 0.0
        for m in range(tree.map_start[b], tree.map_start[b + 1]):
            source, offset = tree.map_source[m], tree.map_offset[m]
            if source == SCORES:
                add_map(tree, base, b, m, scores, offset, work, at)
                if given and offset < n_atoms:  # the variable's own scores: evidence
                    for k in range(tree.extent[b]):
                        if graph.allowed[first_atom + offset + k % inner] == 0:
                            work[at + k] = -np.inf
            elif source == CONSTANTS:
                add_map(tree, base, b, m, tree.constants, offset, work, at)
            else:
                add_map(tree, base, b, m, work, tree.message[base + offset], work, at)
        peak = -np.inf
        for j in range(tree.extent[b] // inner):
            top = -np.inf
            for x in range(inner):
                top = max(top, work[at + j * inner + x])
            if soft and top > -np.inf:
                mass = 0.0
                for x in range(inner):
                    mass += math.exp(work[at + j * inner + x] - top)
                top += math.log(mass)
            work[to + j] = top
            peak = max(peak, top)
        if peak == -np.inf:
            return peak
        total += peak
        # counted from its peak, or sums over many buckets would swallow the digits that matter
        for j in range(tree.extent[b] // inner):
            work[to + j] -= peak
        for k in range(at, at + tree.extent[b]):
            work[k] -= peak
    return total


@kernel
def separator_index(tree, base, b, y):
    """Which entry of its message a bucket has for the states y of the buckets above it."""
    index = 0
    for t in range(tree.scope_start[b], tree.scope_start[b + 1] - 1):
        index = index * tree.size[base + tree.scope[t]] + y[tree.scope[t]]
    return index


@kernel
def descend(tree, i, work, y, start):
    """y[b] ← the best state of bucket b given those above it, for buckets start, start − 1, … 0."""
    base = tree.start[i]
    for b in range(base + start, base - 1, -1):
        inner = tree.size[b]
        at = tree.table[b] + separator_index(tree, base, b, y) * inner
        best = 0
        for x in range(1, inner):
            if work[at + x] > work[at + best]:
                best = x
        y[b - base] = best


@kernel
def states_of(tree, i, y, out):
    """out ← states of the variables, from those of the buckets."""
    base = tree.start[i]
    for b in range(base, tree.start[i + 1]):
        if tree.node[b] >= 0:
            out[tree.node[b]] = y[b - base]


@part_count.register(JunctionSpace)
def _(space, i):
    return graph_parts(space.graph, i)


@work_size.register(JunctionSpace)
def _(space, i):
    return space.tree.work[i]


@argmax.register(JunctionSpace)
def _(space, i, scores, work, parts):
    value = upward(space, i, scores, work, False)
    if value == -np.inf:
        for r in range(graph_parts(space.graph, i)):
            parts[r] = 0.0
        return value
    n = space.tree.start[i + 1] - space.tree.start[i]
    y, states = np.empty(n, np.int64), np.empty(n, np.int64)
    descend(space.tree, i, work, y, n - 1)
    states_of(space.tree, i, y, states)
    write_output(space.graph, i, states, scores, parts)
    return value


@marginals.register(JunctionSpace)
def _(space, i, scores, work, parts):
    """Down the tree: p(bucket) = p(separator) · exp(table − message), then sums onto the parts."""
    tree = space.tree
    base = tree.start[i]
    for r in range(graph_parts(space.graph, i)):
        parts[r] = 0.0
    value = upward(space, i, scores, work, True)
    if value == -np.inf:
        return value
    largest = 1
    for b in range(base, tree.start[i + 1]):
        largest = max(largest, tree.extent[b] // tree.size[b])
    mass = np.empty(largest)
    for b in range(tree.start[i + 1] - 1, base - 1, -1):
        at, to, inner = tree.table[b], tree.message[b], tree.size[b]
        rows = tree.extent[b] // inner
        if tree.parent[b] < 0:
            mass[0] = 1.0
        else:
            p = base + tree.parent[b]
            mass[:rows] = 0.0
            for m in range(tree.map_start[p], tree.map_start[p + 1]):
                if tree.map_source[m] == MESSAGES and tree.map_offset[m] == b - base:
                    collect_map(tree, base, p, m, work, tree.table[p], mass, 0)
        for j in range(rows):
            for x in range(inner):
                k = at + j * inner + x
                work[k] = mass[j] * math.exp(work[k] - work[to + j]) if mass[j] > 0 else 0.0
        for m in range(tree.map_start[b], tree.map_start[b + 1]):
            if tree.map_source[m] == SCORES:
                collect_map(tree, base, b, m, work, at, parts, tree.map_offset[m])
    return value


@kernel
def rank_of(work, at, inner, rank):
    """The state of rank ``rank`` (0 the best) among inner entries, ties by number; −1 where that has −inf."""
    for x in range(inner):
        above = 0
        for z in range(inner):
            if work[at + z] > work[at + x] or (work[at + z] == work[at + x] and z < x):
                above += 1
        if above == rank:
            return x if work[at + x] > -np.inf else -1
    return -1


@kernel
def place_candidate(value, source, place, rank, entry, count):
    """Insert (value, source, place, rank) into the candidates kept, the worst of which it may replace; new count."""
    capacity = entry.shape[0]
    at = count
    if count == capacity:
        at = 0
        for c in range(1, capacity):
            if entry[c, 0] < entry[at, 0]:
                at = c
        if entry[at, 0] >= value:
            return count
        count -= 1
    entry[at, 0], entry[at, 1], entry[at, 2], entry[at, 3] = value, source, place, rank
    return count + 1


@kbest.register(JunctionSpace)
def _(space, i, scores, work, parts, values):
    """Deviations: an output that first differs from a better one at bucket t (from the root down) takes the r-th best
    state there and the best ones below, so its score is known before it is built. O(n·K) per output."""
    tree = space.tree
    base, n, k = tree.start[i], tree.start[i + 1] - tree.start[i], values.shape[0]
    best = upward(space, i, scores, work, False)
    if best == -np.inf:
        return 0
    found = np.empty((k, n), np.int64)
    states = np.empty(n, np.int64)
    entry = np.empty((k, 4))  # score, the output it deviates from, the bucket, the rank there
    entry[0, 0], entry[0, 1], entry[0, 2], entry[0, 3] = best, -1.0, n - 1, 0.0
    count = 1
    for r in range(k):
        if count == 0:
            return r
        top = 0
        for c in range(1, count):
            if entry[c, 0] > entry[top, 0]:
                top = c
        value, source, place, rank = entry[top, 0], int(entry[top, 1]), int(entry[top, 2]), int(entry[top, 3])
        count -= 1
        entry[top] = entry[count]
        y = found[r]
        if source < 0:
            descend(tree, i, work, y, n - 1)
        else:
            for b in range(n - 1, place, -1):
                y[b] = found[source, b]
            at = tree.table[base + place] + separator_index(tree, base, base + place, y) * tree.size[base + place]
            y[place] = rank_of(work, at, tree.size[base + place], rank)
            descend(tree, i, work, y, place - 1)
        values[r] = value
        states_of(tree, i, y, states)
        write_output(space.graph, i, states, scores, parts[r])
        for b in range(place, -1, -1):
            inner = tree.size[base + b]
            at = tree.table[base + b] + separator_index(tree, base, base + b, y) * inner
            next_rank = rank + 1 if b == place else 1
            x = rank_of(work, at, inner, next_rank) if next_rank < inner else -1
            if x >= 0:
                changed = value + work[at + x] - work[at + y[b]]
                count = place_candidate(changed, r, b, next_rank, entry, count)
    return k


@sample.register(JunctionSpace)
def _(space, i, scores, work, seed, parts):
    """Down the tree: each bucket is drawn given those above it, one number in [0, 1) per bucket."""
    tree = space.tree
    base, n = tree.start[i], tree.start[i + 1] - tree.start[i]
    value = upward(space, i, scores, work, True)
    if value == -np.inf:
        return value
    y, states = np.empty(n, np.int64), np.empty(n, np.int64)
    for r in range(parts.shape[0]):
        place = stream(seed, i, r)
        for b in range(n - 1, -1, -1):
            inner = tree.size[base + b]
            j = separator_index(tree, base, base + b, y)
            at, top = tree.table[base + b] + j * inner, work[tree.message[base + b] + j]
            left, chosen = uniform(place), -1
            place += GOLDEN
            for x in range(inner):
                mass = math.exp(work[at + x] - top)
                if mass > 0:
                    chosen = x
                    left -= mass
                    if left < 0:
                        break
            y[b] = chosen
        states_of(tree, i, y, states)
        write_output(space.graph, i, states, scores, parts[r])
    return value

"""The tree of a junction tree: buckets of an elimination order, and what is added to the table of each.

A logical factor over many literals would need a table of 2^n entries. It is an automaton instead: a counter that runs
along its literals, one small table per step, with states "how many were true so far" (at most B + 1 of them).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.structures.graphs import logic
from partwise.structures.graphs.elimination import elimination_order
from partwise.structures.graphs.pack import GraphSpace, config_offset

__all__ = ["CONSTANTS", "MESSAGES", "SCORES", "Tree", "build_tree", "too_wide"]

Ints = NDArray[np.int64]
SCORES, CONSTANTS, MESSAGES = 0, 1, 2  # where a table that is added to a bucket comes from
DIRECT = 3  # literals up to which a logical factor is one table


class Tree(NamedTuple):
    """Buckets of all instances in order of elimination; those of instance i are start[i]:start[i + 1]."""

    start: Ints  # (n + 1,)
    node: Ints  # variable within its instance, −1 for a counter
    size: Ints  # states of the bucket's variable
    scope_start: Ints
    scope: Ints  # buckets (within the instance) of the variables, the bucket itself last
    table: Ints  # where its table begins in the work array; the message follows the tables
    message: Ints
    extent: Ints  # entries of the table
    parent: Ints  # −1 for a root
    map_start: Ints  # what is added to a bucket
    map_source: Ints
    map_offset: Ints
    stride_start: Ints
    stride: Ints  # of every variable of the bucket in what is added
    constants: NDArray[np.float64]  # tables of hard factors: 0 or −inf
    work: Ints  # (n,)


def _counter_tables(kind: int, n: int, limit: int) -> tuple[int, list[NDArray[np.uint8]]]:
    """(states of the counter, tables): step j maps (counter before, literal, counter after) to 0 or 1.

    The first step has no counter before it, the last none after it.
    """
    states = {logic.XOR: 2, logic.AT_MOST_ONE: 2, logic.OR: 2, logic.OR_OUTPUT: 2, logic.EQUAL: 2}.get(kind, limit + 1)
    most = states - 1
    tables = []
    for j in range(n):
        table: NDArray[np.uint8] = np.zeros((states, 2, states), np.uint8)
        for before in range(states):
            for value in (0, 1):
                if kind == logic.EQUAL:
                    if j == 0 or before == value:
                        table[before, value, value] = 1
                elif kind in (logic.OR, logic.OR_OUTPUT):
                    table[before, value, max(before, value)] = 1
                elif before + value <= most:
                    table[before, value, before + value] = 1
        if j == n - 1:
            if kind == logic.OR_OUTPUT:  # the last literal is the output
                last = np.zeros((states, 2, 1), np.uint8)
                last[0, 0] = last[1, 1] = 1
            elif kind in (logic.XOR, logic.OR):
                last = table[:, :, 1:2]
            else:
                last = (table.sum(axis=2, keepdims=True) > 0).astype(np.uint8)
            tables.append(last[:1] if j == 0 else last)
        else:
            tables.append(table[:1] if j == 0 else table)
    return states, tables


def _logical_table(kind: int, n: int, limit: int) -> NDArray[np.uint8]:
    """(2,)*n table of what a logical factor allows."""
    table = np.zeros((2,) * n, np.uint8)
    for y in np.ndindex(*table.shape):
        true = sum(y)
        table[y] = {
            logic.XOR: true == 1,
            logic.AT_MOST_ONE: true <= 1,
            logic.OR: true >= 1,
            logic.OR_OUTPUT: (y[-1] == 1) == (true - y[-1] > 0),
            logic.BUDGET: true <= limit,
            logic.EQUAL: true in (0, n),
        }[kind]
    return table


class _Builder:
    """Collects the variables and tables of one instance."""

    def __init__(self, space: GraphSpace, i: int) -> None:
        first, last = space.node_start[i], space.node_start[i + 1]
        atoms = space.atom_start[first : last + 1] - space.atom_start[first]
        self.sizes = np.diff(atoms).tolist()
        self.n_nodes = len(self.sizes)
        soft = np.flatnonzero(space.kind[space.factor_start[i] : space.factor_start[i + 1]] == logic.TABLE)
        soft += space.factor_start[i]
        shift = int(config_offset(space, i))
        # (scope, strides, source, offset), flat
        self.scopes: list[Ints] = [np.arange(self.n_nodes)]
        self.lengths: list[Ints] = [np.ones(self.n_nodes, np.int64)]
        self.strides: list[Ints] = [np.ones(self.n_nodes, np.int64)]
        self.sources: list[Ints] = [np.full(self.n_nodes, SCORES)]
        self.offsets: list[Ints] = [atoms[:-1]]
        if len(soft):
            a, b = space.slot_start[soft[0]], space.slot_start[soft[-1] + 1]
            self.scopes.append(space.slot_node[a:b] - first)
            self.lengths.append(np.diff(space.slot_start)[soft])
            self.strides.append(space.slot_stride[a:b])
            self.sources.append(np.full(len(soft), SCORES))
            self.offsets.append(space.config_start[soft] + shift)
        self.constants: list[NDArray[np.uint8]] = []
        self.n_constants = 0
        for f in range(space.factor_start[i], space.factor_start[i + 1]):
            if space.kind[f] not in (logic.TABLE, logic.NODE):
                self._hard(space, f, first)

    def _add(self, scope: list[int], table: NDArray[np.uint8]) -> None:
        strides = np.cumprod([1, *table.shape[:0:-1]])[::-1]
        self.scopes.append(np.array(scope, np.int64))
        self.lengths.append(np.array([len(scope)]))
        self.strides.append(strides.astype(np.int64))
        self.sources.append(np.array([CONSTANTS]))
        self.offsets.append(np.array([self.n_constants]))
        self.constants.append(table.ravel())
        self.n_constants += table.size

    def _hard(self, space: GraphSpace, f: int, first: int) -> None:
        slots = range(space.slot_start[f], space.slot_start[f + 1])
        nodes = [int(space.slot_node[s] - first) for s in slots]
        if space.kind[f] == logic.HARD_TABLE:
            shape = [self.sizes[v] for v in nodes]
            self._add(nodes, space.mask[space.mask_start[f] : space.mask_start[f + 1]].reshape(shape))
            return
        kind, n, limit = int(space.kind[f]), len(nodes), int(space.budget[f])
        values = [self._truth(space, s, self.sizes[v]) for s, v in zip(slots, nodes, strict=True)]
        if n <= DIRECT and len(set(nodes)) == n:
            table = _logical_table(kind, n, limit)
            for axis, value in enumerate(values):
                table = np.take(table, value, axis=axis)
            self._add(nodes, np.ascontiguousarray(table))
            return
        states, tables = _counter_tables(kind, n, limit)
        before: int | None = None
        for j, (v, value) in enumerate(zip(nodes, values, strict=True)):
            table = np.take(tables[j], value, axis=1)
            scope = [v] if before is None else [before, v]
            if j < n - 1:
                before = len(self.sizes)
                self.sizes.append(states)
                scope.append(before)
            shape = [self.sizes[u] for u in scope]
            self._add(scope, np.ascontiguousarray(table.reshape(shape)))

    @staticmethod
    def _truth(space: GraphSpace, s: int, size: int) -> Ints:
        """Value of the literal for each state of its variable."""
        hit = np.arange(size) == (1 if size == 2 else space.slot_state[s])
        result: Ints = (hit ^ bool(space.slot_negated[s])).astype(np.int64)
        return result


def build_tree(space: GraphSpace, limit: int) -> tuple[Tree | None, str]:
    """The tree of every instance, or (None, why not) where a table would have more than ``limit`` entries."""
    columns: dict[str, list[Ints]] = {name: [] for name in Tree._fields}
    constants: list[NDArray[np.uint8]] = []
    n_constants = 0
    for i in range(len(space.node_start) - 1):
        builder = _Builder(space, i)
        sizes = np.array(builder.sizes, np.int64)
        lengths, scope = np.concatenate(builder.lengths), np.concatenate(builder.scopes)
        starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
        order, bucket_start, bucket, widest = elimination_order(sizes, starts, scope, float(limit))
        if len(order) < len(sizes):
            return None, (
                f"the junction tree of instance {i} needs a table of at least 2^{widest:.1f} entries, more than the "
                f"limit of 2^{math.log2(limit):.1f}"
            )
        offsets = np.concatenate(builder.offsets)
        sources = np.concatenate(builder.sources)
        offsets[sources == CONSTANTS] += n_constants
        parts = assemble(
            sizes, starts, scope, np.concatenate(builder.strides), sources, offsets, order, bucket_start, bucket
        )
        names = ("size", "scope_start", "scope", "table", "message", "extent", "parent", "map_start",
                 "map_source", "map_offset", "stride_start", "stride")  # fmt: skip
        for name, found in zip(names, parts[:-1], strict=True):
            columns[name].append(found)
        columns["node"].append(np.where(order < builder.n_nodes, order, -1))
        columns["work"].append(np.array([parts[-1]]))
        constants += builder.constants
        n_constants += builder.n_constants
    flat: dict[str, Any] = {}
    for name, found in columns.items():
        if name in ("scope_start", "map_start", "stride_start"):  # make offsets run through the data set
            sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(block) for block in found)])
            flat[name] = np.append(0, np.cumsum(sizes)).astype(np.int64)
        elif name not in ("start", "constants"):
            flat[name] = np.concatenate([np.zeros(0, np.int64), *found]).astype(np.int64)
    flat["start"] = np.append(0, np.cumsum([len(found) for found in columns["size"]])).astype(np.int64)
    table = np.concatenate([np.zeros(0, np.uint8), *constants])
    flat["constants"] = np.where(table != 0, 0.0, -np.inf)
    return Tree(**flat), ""


@kernel
def assemble(sizes, starts, scope, strides, sources, offsets, order, bucket_start, bucket):
    """The arrays of :class:`Tree` for one instance."""
    n = order.shape[0]
    position = np.empty(n, np.int64)
    for b in range(n):
        position[order[b]] = b
    size = sizes[order]
    scope_start = np.zeros(n + 1, np.int64)
    for b in range(n):
        scope_start[b + 1] = scope_start[b] + bucket_start[b + 1] - bucket_start[b] + 1
    out_scope = np.empty(scope_start[n], np.int64)
    parent, extent, table, message = (
        np.full(n, -1, np.int64),
        np.ones(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    for b in range(n):
        at = scope_start[b]
        m = bucket_start[b + 1] - bucket_start[b]
        here = np.empty(m, np.int64)
        for t in range(m):
            here[t] = position[bucket[bucket_start[b] + t]]
        here.sort()
        for t in range(m):
            out_scope[at + t] = here[m - 1 - t]
        out_scope[at + m] = b
        if m > 0:
            parent[b] = here[0]
        for t in range(m + 1):
            extent[b] *= size[out_scope[at + t]]
    total = 0
    for b in range(n):
        table[b] = total
        total += extent[b]
    for b in range(n):
        message[b] = total
        total += extent[b] // size[b]
    # the bucket of a factor is that of its first eliminated variable; a message goes to the parent
    n_factors = starts.shape[0] - 1
    home = np.empty(n_factors, np.int64)
    count = np.zeros(n, np.int64)
    for f in range(n_factors):
        least = n
        for s in range(starts[f], starts[f + 1]):
            least = min(least, position[scope[s]])
        home[f] = least
        count[least] += 1
    for b in range(n):
        if parent[b] >= 0:
            count[parent[b]] += 1
    map_start = np.zeros(n + 1, np.int64)
    for b in range(n):
        map_start[b + 1] = map_start[b] + count[b]
    n_maps = map_start[n]
    source, offset, stride_start = (
        np.empty(n_maps, np.int64),
        np.empty(n_maps, np.int64),
        np.zeros(n_maps + 1, np.int64),
    )
    for b in range(n):
        for m in range(map_start[b], map_start[b + 1]):
            stride_start[m + 1] = stride_start[m] + scope_start[b + 1] - scope_start[b]
    stride = np.zeros(stride_start[n_maps], np.int64)
    place = map_start[:n].copy()
    for f in range(n_factors):
        b = home[f]
        m = place[b]
        place[b] += 1
        source[m], offset[m] = sources[f], offsets[f]
        for s in range(starts[f], starts[f + 1]):
            for t in range(scope_start[b], scope_start[b + 1]):
                if out_scope[t] == position[scope[s]]:
                    stride[stride_start[m] + t - scope_start[b]] += strides[s]
    for b in range(n):
        p = parent[b]
        if p < 0:
            continue
        m = place[p]
        place[p] += 1
        source[m], offset[m] = MESSAGES, b
        step = 1
        for t in range(scope_start[b + 1] - 2, scope_start[b] - 1, -1):
            for u in range(scope_start[p], scope_start[p + 1]):
                if out_scope[u] == out_scope[t]:
                    stride[stride_start[m] + u - scope_start[p]] = step
            step *= size[out_scope[t]]
    return (
        size,
        scope_start,
        out_scope,
        table,
        message,
        extent,
        parent,
        map_start,
        source,
        offset,
        stride_start,
        stride,
        total,
    )


def too_wide(reason: str) -> InputError:
    """The error of a graph that elimination cannot handle, with what can."""
    return InputError(
        f"{reason}; inference='ad3' gives the best output's upper bound, 'branch_and_bound' the best output, "
        "'trw' an upper bound on log Z, 'mean_field' a lower one, 'loopy_bp' an estimate"
    )

"""The pack of grammars: the derivations of every sentence as a forest of shared nodes, and how one grows.

A node is a symbol over a span; an edge says how it is made: of two nodes (a binary rule), of one (a unary rule), or of
none (a word). Nodes are numbered from the words up, children before parents, and the edges of a node lie side by side.
A forest without cycles is all that the oracles see.

Unary chains are finite. Over one span a symbol may be *built* of words and binary rules, or head a *chain* over a built
symbol; what lies inside a chain has nodes of its own, one per end of a chain that the grammar lists, so no chain grows
beyond those. A symbol that is both built and heads a chain over the same span gets a *choice* node over the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.base import part_count, work_size

__all__ = ["GrammarRules", "GrammarSpace", "grow", "span_number", "tree_parts"]


class GrammarRules(NamedTuple):
    """Rules over S symbols. States of a span: S built, U ends of chains, S heads of chains, S choices, the root."""

    n_symbols: int
    pairs: NDArray[np.int32]  # (S·S + 1,) the heads of rules with children (B, C) are heads[pairs[B·S + C]:…]
    heads: NDArray[np.int32]
    ends: NDArray[np.int32]  # (U,) the first symbol of each end of a chain, shorter ends first
    after: NDArray[np.int32]  # (U,) the state below it: built, or another end
    chains: NDArray[np.int32]  # (S + 1,) the chains that symbol A heads are below[chains[A]:chains[A + 1]]
    below: NDArray[np.int32]  # the state below their head
    root: NDArray[np.uint8]  # (S,) whether a tree may have this symbol at its top


class GrammarSpace(NamedTuple):
    """Packed forests. The nodes of instance i are nodes[i]:nodes[i + 1], and so on; its parts: atoms, then edges."""

    lengths: NDArray[np.int64]  # (n,) words
    nodes: NDArray[np.int64]  # (n + 1,)
    edges: NDArray[np.int64]  # (n + 1,)
    atoms: NDArray[np.int64]  # (n + 1,)
    state: NDArray[np.int32]  # (nodes,)
    start: NDArray[np.int32]  # (nodes,)
    stop: NDArray[np.int32]  # (nodes,)
    atom: NDArray[np.int32]  # (nodes,) the part of the constituent that this node is, −1 if it is none
    first: NDArray[np.int64]  # (nodes + 1,) the edges of node v are first[v]:first[v + 1]
    left: NDArray[np.int32]  # (edges,) first child, a node of the same instance, −1 if there is none
    right: NDArray[np.int32]  # (edges,) second child
    symbols: NDArray[np.int32]  # (3S + U + 1,) the symbol of each state, −1 for the root
    labels: NDArray[np.int32]  # (S,) the label of each symbol, −1 if it makes no constituent
    n_symbols: int


@part_count.register(GrammarSpace)
def _part_count(space, i):
    return space.atoms[i + 1] - space.atoms[i] + space.edges[i + 1] - space.edges[i]


@work_size.register(GrammarSpace)
def _work_size(space, i):
    # two numbers per node, one per part
    return 2 * (space.nodes[i + 1] - space.nodes[i]) + part_count(space, i)


@kernel
def span_number(start, stop):
    """The number of a span among those of a sentence, by where they stop."""
    return stop * (stop - 1) // 2 + start


@kernel
def _room(array, size):
    """The array, or a copy of twice its length where that is below ``size``."""
    if size <= array.shape[0]:
        return array
    wider = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    wider[: array.shape[0]] = array
    return wider


@kernel
def _grow_all(rules, n, tag_starts, tags, allowed):
    """Nodes and edges from the bottom up, whatever the top needs of them; no nodes where nothing reaches the top.

    O(Σ_{s<m<e} |left cell|·|right cell|): cells hold only symbols that derive their words and that ``allowed`` leaves.
    """
    S, U = rules.n_symbols, rules.ends.shape[0]
    state, start, stop = np.empty(64, np.int32), np.empty(64, np.int32), np.empty(64, np.int32)
    first, left, right = np.empty(65, np.int32), np.empty(256, np.int32), np.empty(256, np.int32)
    first[0] = 0
    n_nodes, n_edges = 0, 0
    # the nodes that a rule may take as children, cell by cell
    symbol_of, node_of, n_listed = np.empty(64, np.int32), np.empty(64, np.int32), 0
    begin, end = np.zeros(n * (n + 1) // 2, np.int64), np.zeros(n * (n + 1) // 2, np.int64)
    head, near, far = np.empty(64, np.int32), np.empty(64, np.int32), np.empty(64, np.int32)  # edges of one cell
    counts, place = np.zeros(S, np.int64), np.zeros(S, np.int64)
    built, chained, inner = np.empty(S, np.int32), np.empty(S, np.int32), np.empty(U, np.int32)
    masked = allowed.shape[0] > 0
    for width in range(1, n + 1):
        for s in range(n - width + 1):
            e = s + width
            span, found, before = span_number(s, e), 0, n_nodes
            counts[:] = 0
            if width == 1:
                for j in range(tag_starts[s], tag_starts[e]):
                    if not masked or allowed[span, tags[j]] != 0:
                        head, near, far = _room(head, found + 1), _room(near, found + 1), _room(far, found + 1)
                        head[found], near[found], far[found] = tags[j], -1, -1
                        counts[tags[j]] += 1
                        found += 1
            for m in range(s + 1, e):
                one, two = span_number(s, m), span_number(m, e)
                if begin[two] == end[two]:
                    continue
                for j in range(begin[one], end[one]):
                    row = symbol_of[j] * S
                    for k in range(begin[two], end[two]):
                        pair = row + symbol_of[k]
                        for r in range(rules.pairs[pair], rules.pairs[pair + 1]):
                            a = rules.heads[r]
                            if not masked or allowed[span, a] != 0:
                                head, near, far = _room(head, found + 1), _room(near, found + 1), _room(far, found + 1)
                                head[found], near[found], far[found] = a, node_of[j], node_of[k]
                                counts[a] += 1
                                found += 1
            begin[span] = end[span] = n_listed
            if found == 0:
                continue
            most = n_nodes + 3 * S + U
            state, start, stop = _room(state, most), _room(start, most), _room(stop, most)
            first = _room(first, most + 1)
            most = n_edges + found + U + rules.below.shape[0] + 2 * S
            left, right = _room(left, most), _room(right, most)
            for a in range(S):
                built[a] = chained[a] = -1
                if counts[a] > 0:
                    built[a], place[a] = n_nodes, n_edges
                    state[n_nodes] = a
                    n_nodes, n_edges = n_nodes + 1, n_edges + counts[a]
                    first[n_nodes] = n_edges
            for j in range(found):
                left[place[head[j]]], right[place[head[j]]] = near[j], far[j]
                place[head[j]] += 1
            for u in range(U):
                inner[u] = -1
                child = built[rules.after[u]] if rules.after[u] < S else inner[rules.after[u] - S]
                if child >= 0 and (not masked or allowed[span, rules.ends[u]] != 0):
                    inner[u] = n_nodes
                    state[n_nodes] = S + u
                    left[n_edges], right[n_edges] = child, -1
                    n_nodes, n_edges = n_nodes + 1, n_edges + 1
                    first[n_nodes] = n_edges
            for a in range(S):
                if masked and allowed[span, a] == 0:
                    continue
                for r in range(rules.chains[a], rules.chains[a + 1]):
                    child = built[rules.below[r]] if rules.below[r] < S else inner[rules.below[r] - S]
                    if child >= 0:
                        chained[a] = n_nodes
                        left[n_edges], right[n_edges] = child, -1
                        n_edges += 1
                if chained[a] >= 0:
                    state[n_nodes] = S + U + a
                    n_nodes += 1
                    first[n_nodes] = n_edges
            symbol_of, node_of = _room(symbol_of, n_listed + S), _room(node_of, n_listed + S)
            for a in range(S):
                if built[a] < 0 and chained[a] < 0:
                    continue
                use = built[a] if chained[a] < 0 else chained[a]
                if built[a] >= 0 and chained[a] >= 0:
                    use = n_nodes
                    state[n_nodes] = 2 * S + U + a
                    left[n_edges], right[n_edges] = built[a], -1
                    left[n_edges + 1], right[n_edges + 1] = chained[a], -1
                    n_nodes, n_edges = n_nodes + 1, n_edges + 2
                    first[n_nodes] = n_edges
                symbol_of[n_listed], node_of[n_listed] = a, use
                n_listed += 1
            end[span] = n_listed
            for v in range(before, n_nodes):
                start[v], stop[v] = s, e
    n_trees = 0
    for j in range(begin[span_number(0, n)], end[span_number(0, n)]):
        if rules.root[symbol_of[j]] != 0:
            left, right = _room(left, n_edges + 1), _room(right, n_edges + 1)
            left[n_edges], right[n_edges] = node_of[j], -1
            n_edges, n_trees = n_edges + 1, n_trees + 1
    if n_trees == 0:
        n_nodes, n_edges = 0, 0
    else:
        state, start, stop = _room(state, n_nodes + 1), _room(start, n_nodes + 1), _room(stop, n_nodes + 1)
        first = _room(first, n_nodes + 2)
        state[n_nodes], start[n_nodes], stop[n_nodes] = 3 * S + U, 0, n
        n_nodes += 1
        first[n_nodes] = n_edges
    return state[:n_nodes], start[:n_nodes], stop[:n_nodes], first[: n_nodes + 1], left[:n_edges], right[:n_edges]


@kernel
def grow(rules, n, tag_starts, tags, allowed):
    """(state, start, stop, edge counts, left, right) of the forest of one sentence; no nodes where there is no tree.

    ``tags[tag_starts[t]:tag_starts[t + 1]]`` are the symbols that may stand over word t; ``allowed[span, symbol]``, if
    it has rows, says what may stand over each span. Nodes that no tree reaches from the top are left out.
    """
    state, start, stop, first, left, right = _grow_all(rules, n, tag_starts, tags, allowed)
    n_nodes = state.shape[0]
    number = np.zeros(n_nodes, np.int32)  # 1: reached; then the new number
    if n_nodes > 0:
        number[n_nodes - 1] = 1
    n_kept, n_edges = 0, 0
    for v in range(n_nodes - 1, -1, -1):
        if number[v] != 0:
            n_kept += 1
            n_edges += first[v + 1] - first[v]
            for e in range(first[v], first[v + 1]):
                if left[e] >= 0:
                    number[left[e]] = 1
                if right[e] >= 0:
                    number[right[e]] = 1
    kept = np.empty((4, n_kept), np.int32)
    children = np.empty((2, n_edges), np.int32)
    n_kept, n_edges = 0, 0
    for v in range(n_nodes):
        if number[v] != 0:
            number[v] = n_kept
            kept[0, n_kept], kept[1, n_kept], kept[2, n_kept] = state[v], start[v], stop[v]
            kept[3, n_kept] = first[v + 1] - first[v]
            n_kept += 1
            for e in range(first[v], first[v + 1]):
                children[0, n_edges] = number[left[e]] if left[e] >= 0 else -1
                children[1, n_edges] = number[right[e]] if right[e] >= 0 else -1
                n_edges += 1
    return kept[0], kept[1], kept[2], kept[3], children[0], children[1]


@kernel
def _find(space, i, start, stop, state):
    """The node of that state over that span, −1 if there is none: nodes lie in order of width, start and state."""
    low, high = space.nodes[i], space.nodes[i + 1]
    width = stop - start
    while low < high:
        v = (low + high) // 2
        wide = space.stop[v] - space.start[v]
        if wide < width or (
            wide == width and (space.start[v] < start or (space.start[v] == start and space.state[v] < state))
        ):
            low = v + 1
        else:
            high = v
    if low < space.nodes[i + 1] and space.start[low] == start and space.stop[low] == stop and space.state[low] == state:
        return low - space.nodes[i]
    return -1


@kernel
def _edge(space, i, node, left, right):
    """The edge of a node with these children, counted within the instance, −1 if there is none."""
    v = space.nodes[i] + node
    for e in range(space.first[v], space.first[v + 1]):
        if space.left[e] == left and space.right[e] == right:
            return e - space.edges[i]
    return -1


@kernel
def _chain_state(rules, symbols, bottom):
    """The state of the end of a chain symbols[0:bottom + 1], whose last symbol is built; −1 if the grammar has none."""
    S = rules.n_symbols
    state = symbols[bottom]
    for j in range(bottom - 1, -1, -1):
        found = -1
        for u in range(rules.ends.shape[0]):
            if rules.ends[u] == symbols[j] and rules.after[u] == state:
                found = S + u
        if found < 0:
            return -1
        state = found
    return state


@kernel
def tree_parts(rules, space, i, rows, numbers):
    """numbers ← the parts of the tree ``rows`` (start, stop, symbol), top down and left to right.

    Returns (how many, −1), or (row, 0) where no node, or (row, 1) where no rule of the forest makes that row.
    Rows from the last to the first: the nodes that have no parent yet are a stack.
    """
    n_atoms = space.atoms[i + 1] - space.atoms[i]
    S, U = rules.n_symbols, rules.ends.shape[0]
    used, depth = 0, 0
    stack = np.empty(rows.shape[0] + 1, np.int64)  # the node that a rule takes
    bottom = rows.shape[0] - 1
    while bottom >= 0:
        s, e = rows[bottom, 0], rows[bottom, 1]
        top = bottom  # the first row of the chain over this span
        while top > 0 and rows[top - 1, 0] == s and rows[top - 1, 1] == e:
            top -= 1
        node = _find(space, i, s, e, rows[bottom, 2])
        if node < 0:
            return bottom, 0
        one = two = np.int64(-1)
        if e - s > 1:
            if depth < 2:
                return bottom, 1
            one, two = stack[depth - 1], stack[depth - 2]
            depth -= 2
        edge = _edge(space, i, node, one, two)
        if edge < 0:
            return bottom, 1
        numbers[used] = n_atoms + edge
        used += 1
        if space.atom[space.nodes[i] + node] >= 0:
            numbers[used] = space.atom[space.nodes[i] + node]
            used += 1
        for j in range(bottom - 1, top - 1, -1):
            a = rows[j, 2]
            if j > top:
                state = _chain_state(rules, rows[j:, 2], bottom - j)
                above = -1 if state < 0 else _find(space, i, s, e, state)
            else:
                above = _find(space, i, s, e, S + U + a)
            if above < 0:
                return j, 0
            edge = _edge(space, i, above, node, -1)
            if edge < 0:
                return j, 1
            numbers[used] = n_atoms + edge
            used += 1
            if space.atom[space.nodes[i] + above] >= 0:
                numbers[used] = space.atom[space.nodes[i] + above]
                used += 1
            node = above
        choice = _find(space, i, s, e, 2 * S + U + rows[top, 2])
        if choice >= 0:
            numbers[used] = n_atoms + _edge(space, i, choice, node, -1)
            used += 1
            node = choice
        stack[depth] = node
        depth += 1
        bottom = top - 1
    if depth != 1:
        return 0, 1
    edge = _edge(space, i, space.nodes[i + 1] - space.nodes[i] - 1, stack[0], -1)
    if edge < 0:
        return 0, 1
    numbers[used] = n_atoms + edge
    return used + 1, -1


@kernel
def tree_rows(space, i, parts, rows):
    """rows ← the tree (start, stop, symbol) of the given parts, top down and left to right; returns how many."""
    n_atoms, S = space.atoms[i + 1] - space.atoms[i], space.n_symbols
    choices = space.symbols.shape[0] - 1 - S  # the first state that is no row of a tree
    stack = np.empty(2 * space.lengths[i] + 2, np.int64)
    stack[0], depth, count = space.nodes[i + 1] - space.nodes[i] - 1, 1, 0
    while depth > 0:
        depth -= 1
        v = space.nodes[i] + stack[depth]
        if space.state[v] < choices:
            rows[count, 0], rows[count, 1] = space.start[v], space.stop[v]
            rows[count, 2] = space.symbols[space.state[v]]
            count += 1
        best, top = space.first[v], -np.inf
        for e in range(space.first[v], space.first[v + 1]):
            if parts[n_atoms + e - space.edges[i]] > top:
                best, top = e, parts[n_atoms + e - space.edges[i]]
        if space.right[best] >= 0:
            stack[depth] = space.right[best]
            depth += 1
        if space.left[best] >= 0:
            stack[depth] = space.left[best]
            depth += 1
    return count

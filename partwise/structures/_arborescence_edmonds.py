"""The maximum spanning arborescence: Chu–Liu/Edmonds in O(n²), after Tarjan (1977).

Follow the best arc into each node back to its head. A path that ends in the root, or in what reached the root before,
is finished. One that returns to itself is a cycle C: contract it to one node c, with

    w(h, c) = max_{m ∈ C} w(h, m) − w(π(m), m),        w(c, m) = max_{h ∈ C} w(h, m),

π(m) being the head of m on the cycle, and continue from c. Every contraction costs O(|C|·n) and takes |C| − 1 nodes
away, so all of them cost O(n²). Unfolding in reverse order breaks every cycle where the arc into it arrives.

If only one word may depend on the root, weights are pairs (−[h = 0], w) in lexicographic order: there is no penalty
that has to be large enough and no precision is lost to one (compare Stanojević & Cohen 2021).
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["edmonds"]


@kernel
def _best_head(w, rank, live, count, node):
    """The head of the best arc into ``node`` among the live nodes and the root; −1 if there is none."""
    best, top, top_rank = -1, -np.inf, -np.inf
    for p in range(count):
        h = live[p]
        value, order = w[h, node], rank[h, node]
        if h != node and value > -np.inf and (order > top_rank or (order == top_rank and value > top)):
            best, top, top_rank = h, value, order
    return best


@kernel
def _contract(w, rank, mouth, tail, pi, live, count, cycle, length, c):
    """Merge ``cycle[:length]`` into its member c. mouth[h, m], tail[h, m]: the arc of the input behind w[h, m]."""
    for p in range(count):
        x = live[p]
        inside = False
        for q in range(length):
            inside |= cycle[q] == x
        if inside:
            continue
        # arcs into the cycle from x
        best, top, top_rank = -1, -np.inf, -np.inf
        for q in range(length):
            m = cycle[q]
            value = w[x, m] - w[pi[m], m]
            order = rank[x, m] - rank[pi[m], m]
            if value > -np.inf and (order > top_rank or (order == top_rank and value > top)):
                best, top, top_rank = m, value, order
        into_head, into_tail = 0, 0
        if best >= 0:
            into_head, into_tail = mouth[x, best], tail[x, best]
        # arcs out of the cycle to x
        source, out, out_rank = c, w[c, x], rank[c, x]
        for q in range(length):
            h = cycle[q]
            better = rank[h, x] > out_rank or (rank[h, x] == out_rank and w[h, x] > out)
            if w[h, x] > -np.inf and (out == -np.inf or better):
                source, out, out_rank = h, w[h, x], rank[h, x]
        w[x, c], rank[x, c] = top, top_rank
        mouth[x, c], tail[x, c] = into_head, into_tail
        w[c, x], rank[c, x], mouth[c, x], tail[c, x] = out, out_rank, mouth[source, x], tail[source, x]


@kernel
def edmonds(arcs, single_root, heads):
    """heads[m] ← the head of word m in the best arborescence of arcs[h, m] from root 0; False if there is none.

    ``arcs`` (n + 1, n + 1) is kept; −inf where there is no arc.
    """
    n = arcs.shape[0] - 1
    w = arcs.copy()
    rank = np.zeros((n + 1, n + 1))
    if single_root:
        rank[0, :] = -1.0
    mouth = np.empty((n + 1, n + 1), np.int32)
    tail = np.empty((n + 1, n + 1), np.int32)
    for h in range(n + 1):
        for m in range(n + 1):
            mouth[h, m], tail[h, m] = h, m
    live = np.arange(n + 1)
    count = n + 1
    pi = np.full(n + 1, -1)
    state = np.zeros(n + 1, np.int8)  # 0 new, 1 on the path, 2 reaches the root
    state[0] = 2
    # The record of every contraction: its members, their arcs on the cycle, the node that stands for them.
    members, arc_head, arc_tail = np.empty((3, 2 * n + 1), np.int64)
    ends, stands = np.zeros(n + 1, np.int64), np.empty(n + 1, np.int64)
    contractions, used = 0, 0
    cycle, path = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    for start in range(1, n + 1):
        if state[start] != 0:
            continue
        depth, node = 0, start
        while True:
            state[node] = 1
            path[depth] = node
            depth += 1
            head = _best_head(w, rank, live, count, node)
            if head < 0:
                return False
            pi[node] = head
            if state[head] == 0:
                node = head
                continue
            if state[head] == 2:
                break
            length = 0
            while True:  # the path back to ``head`` is a cycle
                depth -= 1
                cycle[length] = path[depth]
                length += 1
                if path[depth] == head:
                    break
            c = head
            for q in range(length):
                m = cycle[q]
                members[used], arc_head[used], arc_tail[used] = m, mouth[pi[m], m], tail[pi[m], m]
                used += 1
            _contract(w, rank, mouth, tail, pi, live, count, cycle, length, c)
            stands[contractions] = c
            contractions += 1
            ends[contractions] = used
            kept = 0
            for p in range(count):  # only c stays of the cycle
                gone = False
                for q in range(length):
                    gone |= cycle[q] == live[p] and live[p] != c
                if not gone:
                    live[kept] = live[p]
                    kept += 1
            count = kept
            for q in range(length):
                state[cycle[q]] = 1 if cycle[q] == c else 2
            node = c
        for p in range(depth):
            state[path[p]] = 2
    # Unfold: choice[x] is the arc of the input into node x, which may stand for a cycle.
    choice = np.empty((2, n + 1), np.int64)
    for p in range(count):
        x = live[p]
        if x != 0:
            choice[0, x], choice[1, x] = mouth[pi[x], x], tail[pi[x], x]
    record = members[:used], arc_head[:used], arc_tail[:used], ends[: contractions + 1], stands[:contractions]
    return _unfold(record, choice, single_root, heads)


@kernel
def _unfold(record, choice, single_root, heads):
    """Give every member of a cycle its arc on the cycle, except the one where the arc into the cycle arrives.

    Nodes are the words 0..n and, as n + 1 + k, the k-th contraction; parent[x] is the contraction that swallowed x.
    """
    members, arc_head, arc_tail, ends, stands = record
    n, contractions = heads.shape[0] - 1, stands.shape[0]
    parent = np.full(n + 1 + contractions, -1)
    node = np.arange(n + 1)  # what the numbers of words stood for when a cycle was found
    nodes = np.empty(members.shape[0], np.int64)
    for k in range(contractions):
        for j in range(ends[k], ends[k + 1]):
            nodes[j] = node[members[j]]
            parent[nodes[j]] = n + 1 + k
        node[stands[k]] = n + 1 + k
    into = np.full((2, n + 1 + contractions), -1)  # the arc of the input into a node
    for x in range(1, n + 1):
        if parent[node[x]] < 0:
            into[0, node[x]], into[1, node[x]] = choice[0, x], choice[1, x]
    for k in range(contractions - 1, -1, -1):
        here = n + 1 + k
        broken = into[1, here]
        while parent[broken] != here:
            broken = parent[broken]
        for j in range(ends[k], ends[k + 1]):
            x = nodes[j]
            if x == broken:
                into[0, x], into[1, x] = into[0, here], into[1, here]
            else:
                into[0, x], into[1, x] = arc_head[j], arc_tail[j]
    roots = 0
    for m in range(1, n + 1):
        heads[m] = into[0, m]
        roots += heads[m] == 0
    return roots == 1 or not single_root

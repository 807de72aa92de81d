"""Second-order trees by dual decomposition: a spanning tree against head automata, Koo et al. (2010).

Every candidate arc exists three times: in the tree (z), among the children of its head (y) and as the arc into its
modifier (x). The tree is a maximum spanning arborescence. The automaton of word h chooses the arc into h and its
children left and right by the Viterbi algorithm, with all scores of siblings and grandparents. The dual

    L(λ, μ) = max_z Σ_a (s_a/3 + λ_a + μ_a) z_a + Σ_h max (Σ_a (s_a/3 − λ_a) y_a + Σ_a (s_a/3 − μ_a) x_a + parts of h)

is an upper bound on the best tree's score for any λ, μ, and the score of each z a lower one. Subgradient steps of
Polyak's size, (bound − best score)/‖z − y, z − x‖², bring them together; where the three copies agree the tree is
optimal, and that is the certificate. Only automata whose prices changed are run again.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._arborescence_edmonds import edmonds
from partwise.structures._second_order_space import SecondOrderSpace, child, layout, write_parts
from partwise.structures.oracles import argmax, bound, part_count, work_size

__all__ = ["best_labels", "decompose", "first_infeasible", "tree_score"]

PROVED = 1e-6  # a tree is proved to be the best where the bound is above its score by no more than this share


@part_count.register(SecondOrderSpace)
def _(space, i):
    return space.parts[i + 1] - space.parts[i]


@work_size.register(SecondOrderSpace)
def _(space, i):
    return 1  # what dual decomposition needs is small beside the parts, and allocated


@kernel
def _chain(lay, h, side, gains, scores, best, back):
    """The best set of children of h on a side: its value; the last of them, −1 for none, with links in ``back``.

    best_j = gain_j + max(first_j, max_{i < j} best_i + follows_ij); the value is max(0, max_j best_j + last_j).
    """
    k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
    base = lay.siblings[h, side]
    pairs = base + k
    stops = pairs + k * (k - 1) // 2
    value, last = 0.0, -1
    for j in range(k):
        a = child(lay, h, side, j)
        top, link = scores[base + j], -1
        for r in range(j):
            other = best[r] + scores[pairs + j * (j - 1) // 2 + r]
            if other > top:
                top, link = other, r
        best[j] = top + gains[lay.place[a]]
        back[j] = link
        if best[j] + scores[stops + j] > value:
            value, last = best[j] + scores[stops + j], j
    return value, last


@kernel
def _only_child(lay, gains, scores):
    """The best single child of the root: (value, its place on the right side)."""
    k = lay.out_start[1] - lay.split[0]
    base = lay.siblings[0, 1]
    value, last = -np.inf, -1
    for j in range(k):
        total = gains[lay.place[child(lay, 0, 1, j)]] + scores[base + j] + scores[base + k + k * (k - 1) // 2 + j]
        if total > value:
            value, last = total, j
    return value, last


@kernel
def _mark(lay, h, side, last, back, y):
    while last >= 0:
        y[child(lay, h, side, last)] = True
        last = back[last]


@kernel
def _automaton(lay, h, single_root, scores, out_gain, in_gain, y, x):
    """The best arc into h and children of h; marks them in x and y and returns their value."""
    start, stop = lay.out_start[h], lay.out_start[h + 1]
    width = stop - start
    gains, best = np.empty(width), np.empty(width)
    back, kept = np.empty((2, width), np.int64), np.empty((2, width), np.int64)
    for p in range(start, stop):
        gains[p - start] = out_gain[lay.out[p]]
        y[lay.out[p]] = False
    if h == 0:
        if single_root:
            value, last = _only_child(lay, gains, scores)
            if last >= 0:
                y[child(lay, 0, 1, last)] = True
            return value
        value, last = _chain(lay, 0, 1, gains, scores, best, back[1])
        _mark(lay, 0, 1, last, back[1], y)
        return value
    top, chosen, left, right = -np.inf, -1, -1, -1
    for a in range(lay.into[h], lay.into[h + 1]):
        x[a] = False
        row = lay.grands[h] + (a - lay.into[h]) * width
        for p in range(width):
            b = lay.out[start + p]
            gains[p] = out_gain[b] + scores[row + p] if lay.modifiers[b] != lay.heads[a] else -np.inf
        value_left, last_left = _chain(lay, h, 0, gains, scores, best, back[0])
        value_right, last_right = _chain(lay, h, 1, gains, scores, best, back[1])
        total = in_gain[a] + value_left + value_right
        if total > top:
            top, chosen, left, right = total, a, last_left, last_right
            kept[:, :] = back
    if chosen >= 0:
        x[chosen] = True
        _mark(lay, h, 0, left, kept[0], y)
        _mark(lay, h, 1, right, kept[1], y)
    return top


@kernel
def tree_score(lay, tree, arc_scores, scores):
    """The score of a tree with all its parts; tree[m] is the candidate arc into word m."""
    n = tree.shape[0] - 1
    chosen = np.zeros(lay.heads.shape[0], np.bool_)
    total = 0.0
    for m in range(1, n + 1):
        chosen[tree[m]] = True
        total += arc_scores[tree[m]]
        h = lay.heads[tree[m]]
        if h > 0:
            row = tree[h] - lay.into[h]
            total += scores[lay.grands[h] + row * (lay.out_start[h + 1] - lay.out_start[h]) + lay.place[tree[m]]]
    for h in range(n + 1):
        for side in range(2):
            k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
            base, before = lay.siblings[h, side], -1
            for j in range(k):
                if chosen[child(lay, h, side, j)]:
                    total += scores[base + j if before < 0 else base + k + j * (j - 1) // 2 + before]
                    before = j
            if before >= 0:
                total += scores[base + k + k * (k - 1) // 2 + before]
    return total


@kernel
def _spanning(lay, weights, single_root, dense, heads, tree):
    """tree[m] ← the arc into m in the best arborescence of the candidate arcs; False if there is none."""
    dense[:, :] = -np.inf
    for a in range(weights.shape[0]):
        dense[lay.heads[a], lay.modifiers[a]] = weights[a]
    if not edmonds(dense, single_root, heads):
        return False
    for m in range(1, heads.shape[0]):
        for a in range(lay.into[m], lay.into[m + 1]):
            if lay.heads[a] == heads[m]:
                tree[m] = a
    return True


@kernel
def first_infeasible(space):
    """The first instance whose candidate arcs hold no tree, or −1."""
    for i in range(space.offsets.shape[0] - 1):
        n = space.offsets[i + 1] - space.offsets[i]
        lay = layout(space, i)
        dense, heads = np.empty((n + 1, n + 1)), np.zeros(n + 1, np.int64)
        if not _spanning(lay, np.zeros(lay.heads.shape[0]), space.single_root, dense, heads, np.zeros(n + 1, np.int64)):
            return i
    return -1


@kernel
def decompose(lay, n, arc_scores, scores, single_root, max_iterations, prices, start, floor, best_tree):
    """best_tree ← the best tree found; returns (its score, an upper bound on all trees' scores, iterations).

    ``prices`` (2·arcs,), λ and then μ, are where the search starts and ends. ``start`` is the score of the tree that
    ``best_tree`` holds already, −inf for none. Once no tree can be above ``floor`` the search ends.
    """
    count = arc_scores.shape[0]
    z, y, x = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    out_price, in_price = prices[:count], prices[count:]
    weights, out_gain, in_gain = np.empty(count), arc_scores / 3.0 - out_price, arc_scores / 3.0 - in_price
    values, dirty = np.zeros(n + 1), np.ones(n + 1, np.bool_)
    dense, heads, tree = np.empty((n + 1, n + 1)), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    primal, dual, rate, seen = start, np.inf, 1.0, 0
    for step in range(max_iterations):
        for a in range(count):
            weights[a] = arc_scores[a] / 3.0 + out_price[a] + in_price[a]
            z[a] = False
        if not _spanning(lay, weights, single_root, dense, heads, tree):
            return -np.inf, -np.inf, step
        total = 0.0
        for m in range(1, n + 1):
            z[tree[m]] = True
            total += weights[tree[m]]
        for h in range(n + 1):
            if dirty[h]:
                values[h] = _automaton(lay, h, single_root, scores, out_gain, in_gain, y, x)
                dirty[h] = False
            total += values[h]
        value = tree_score(lay, tree, arc_scores, scores)
        if value > primal:
            primal = value
            best_tree[:] = tree
        if total < dual - 1e-9 * (1.0 + abs(total)):
            dual = total
            seen = 0
        else:
            seen += 1
            if seen >= 5:  # the steps are too long
                rate *= 0.7
                seen = 0
        dual = min(dual, total)
        if dual <= floor:
            return primal, max(primal, dual), step + 1
        norm = 0.0
        for a in range(count):
            norm += 1.0 if z[a] != y[a] else 0.0
            norm += 1.0 if z[a] != x[a] else 0.0
        if norm == 0.0 or dual - primal <= 1e-9 * (1.0 + abs(dual)):
            return primal, max(primal, dual) if norm > 0.0 else primal, step + 1
        size = rate * (total - primal) / norm
        for a in range(count):
            if z[a] != y[a]:
                out_price[a] += -size if z[a] else size
                out_gain[a] = arc_scores[a] / 3.0 - out_price[a]
                dirty[lay.heads[a]] = True
            if z[a] != x[a]:
                in_price[a] += -size if z[a] else size
                in_gain[a] = arc_scores[a] / 3.0 - in_price[a]
                dirty[lay.modifiers[a]] = True
    return primal, dual, max_iterations


@kernel
def best_labels(lay, n_labels, scores, arc_scores, labels):
    """arc_scores[a], labels[a] ← the best label of every candidate arc."""
    for a in range(arc_scores.shape[0]):
        best = a * n_labels
        for r in range(best + 1, (a + 1) * n_labels):
            if scores[r] > scores[best]:
                best = r
        arc_scores[a], labels[a] = scores[best], best - a * n_labels


@argmax.register(SecondOrderSpace)
def _(space, i, scores, work, parts):
    lay = layout(space, i)
    n, count = space.offsets[i + 1] - space.offsets[i], lay.heads.shape[0]
    arc_scores, best = np.empty(count), np.empty(count, np.int64)
    best_labels(lay, space.n_labels, scores, arc_scores, best)
    tree, labels = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    value, upper, steps = decompose(
        lay, n, arc_scores, scores, space.single_root, space.max_iterations, np.zeros(2 * count), -np.inf, -np.inf, tree
    )
    space.log[i, 0] = steps
    space.log[i, 1] = 1.0 if upper == value or upper - value <= PROVED * (1.0 + abs(upper)) else 0.0
    parts[:] = 0.0
    if value > -np.inf:
        for m in range(1, n + 1):
            labels[m] = best[tree[m]]
        write_parts(lay, tree, labels, space.n_labels, parts)
    return value


@bound.register(SecondOrderSpace)
def _(space, i, scores, value, work):
    lay = layout(space, i)
    n, count = space.offsets[i + 1] - space.offsets[i], lay.heads.shape[0]
    arc_scores, best = np.empty(count), np.empty(count, np.int64)
    best_labels(lay, space.n_labels, scores, arc_scores, best)
    tree = np.zeros(n + 1, np.int64)
    _, upper, _ = decompose(
        lay, n, arc_scores, scores, space.single_root, space.max_iterations, np.zeros(2 * count), -np.inf, -np.inf, tree
    )
    return max(value, upper)

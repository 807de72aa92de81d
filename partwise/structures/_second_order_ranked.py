"""The k best second-order trees: branch and bound over the bounds of dual decomposition.

Lawler's (1972) partition. A node is a set of labelled trees: some words have a fixed arc and label, some arcs with
their labels are forbidden. Dual decomposition gives a tree t of the set and an upper bound on all its trees. Without t
the set falls into one part per free word w: the words before w as in t, and not the arc and label of t into w. The node
with the largest bound is split next. Once the k best trees found so far are not below any bound that is left, they are
the k best of all, whether or not the relaxation is tight: that is the guarantee. After k + :data:`MOST_EXTRA` splits,
or as many iterations of dual decomposition as :func:`_budget` grants, the search ends with the k best trees so far, and
the largest remaining bound shows how many of them are proved.

A part starts from the prices of the node it was cut from, and from that node's tree with another label if it has one;
it is dropped as soon as its bound is not above the k-th best score.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._second_order_kernels import best_labels, decompose, tree_score
from partwise.structures._second_order_space import SecondOrderSpace, layout, write_parts
from partwise.structures.oracles import kbest

__all__ = ["MOST_EXTRA", "ranked_trees"]

#: Splits beyond the k that a tight relaxation needs.
MOST_EXTRA = 50


@kernel
def _longer(table):
    """A copy with as many rows again."""
    more = np.empty((2 * table.shape[0], table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@kernel
def _restrict(lay, scores, n_labels, tree, named, parent, turn, node, word, arc_scores, labels):
    """Scores and labels of arcs in the part of ``node`` at ``word``.

    The words of a part are fixed up to the one it was cut at, so cuts never go back: what further splits forbid at
    words before ``word`` is settled by the tree of ``node``, and only those at the same word still matter.
    """
    for m in range(1, word):
        for a in range(lay.into[m], lay.into[m + 1]):
            arc_scores[a] = -np.inf
        a = tree[node, m]
        arc_scores[a], labels[a] = scores[a * n_labels + named[node, m]], named[node, m]
    for a in range(lay.into[word], lay.into[word + 1]):
        top, best = -np.inf, 0
        for label in range(n_labels):
            free, x = scores[a * n_labels + label] > top, node
            while free and x >= 0:
                free = tree[x, word] != a or named[x, word] != label
                x = parent[x, 0] if turn[x, 0] == word else -1
            if free:
                top, best = scores[a * n_labels + label], label
        arc_scores[a], labels[a] = top, best


@kernel
def _insert(tree, named, value, trees, names, values, found):
    """A tree into the k best; how many there are."""
    k = values.shape[0]
    if found == k and value <= values[k - 1]:
        return found
    at = found if found < k else k - 1
    while at > 0 and values[at - 1] < value:
        trees[at], names[at], values[at] = trees[at - 1], names[at - 1], values[at - 1]
        at -= 1
    trees[at], names[at], values[at] = tree, named, value
    return min(found + 1, k)


@kernel
def _budget(k, n, max_iterations):
    """Iterations in all: those of k + MOST_EXTRA sentences, and fewer where one of them takes long."""
    return int((k + MOST_EXTRA) * max_iterations * min(1.0, 40.0 / n))


@kernel
def _floor(values, found):
    """What a bound must exceed to matter: the k-th best score so far, and rounding."""
    k = values.shape[0]
    return values[k - 1] + 1e-9 * (1.0 + abs(values[k - 1])) if found == k else -np.inf


@kernel
def ranked_trees(lay, n, n_labels, scores, single_root, max_iterations, trees, names, values):
    """The best trees found: trees[r, m], names[r, m] the candidate arc into word m and its label; best first.

    Returns (how many there are, an upper bound on the scores of all other trees).
    """
    k, count = values.shape[0], lay.heads.shape[0]
    base, base_labels = np.empty(count), np.empty(count, np.int64)
    best_labels(lay, n_labels, scores, base, base_labels)
    size, room = 0, 16
    tree, named = np.zeros((room, n + 1), np.int64), np.zeros((room, n + 1), np.int64)
    prices, bounds = np.zeros((room, 2 * count)), np.empty((room, 1))
    parent, turn = np.empty((room, 1), np.int64), np.empty((room, 1), np.int64)
    arc_scores, labels = base.copy(), base_labels.copy()
    value, bounds[0, 0], spent = decompose(
        lay, n, arc_scores, scores, single_root, max_iterations, prices[0], -np.inf, -np.inf, tree[0]
    )
    if value == -np.inf:
        return 0, -np.inf
    for m in range(1, n + 1):
        named[0, m] = labels[tree[0, m]]
    parent[0, 0], turn[0, 0], size = -1, 0, 1
    found = _insert(tree[0], named[0], value, trees, names, values, 0)
    rest = -np.inf
    for step in range(k + MOST_EXTRA + 1):
        node, rest = -1, -np.inf
        for x in range(size):
            if bounds[x, 0] > rest:
                node, rest = x, bounds[x, 0]
        tired = step == k + MOST_EXTRA or (found == k and spent > _budget(k, n, max_iterations))
        if node < 0 or tired or rest <= _floor(values, found):
            break
        limit, bounds[node, 0] = rest, -np.inf  # its parts stand for it
        for word in range(max(turn[node, 0], 1), n + 1):
            if found == k and spent > _budget(k, n, max_iterations):
                bounds[node, 0] = limit  # for the parts that are not looked at
                break
            if size == room:
                tree, named, prices = _longer(tree), _longer(named), _longer(prices)
                bounds, parent, turn = _longer(bounds), _longer(parent), _longer(turn)
                room *= 2
            arc_scores[:], labels[:] = base, base_labels
            _restrict(lay, scores, n_labels, tree, named, parent, turn, node, word, arc_scores, labels)
            tree[size], prices[size] = tree[node], prices[node]
            start = tree_score(lay, tree[size], arc_scores, scores)
            value, upper, steps = decompose(
                lay, n, arc_scores, scores, single_root, max_iterations, prices[size], start,
                _floor(values, found), tree[size],
            )  # fmt: skip
            spent += steps
            if value == -np.inf:
                continue
            for m in range(1, n + 1):
                named[size, m] = labels[tree[size, m]]
            found = _insert(tree[size], named[size], value, trees, names, values, found)
            if upper > _floor(values, found):
                bounds[size, 0] = min(upper, limit)
                parent[size, 0], turn[size, 0] = node, word
                size += 1
    return found, max(rest, values[k - 1]) if found == k else rest


@kbest.register(SecondOrderSpace)
def _(space, i, scores, work, parts, values):
    lay, k = layout(space, i), values.shape[0]
    n = space.offsets[i + 1] - space.offsets[i]
    trees, names = np.zeros((k, n + 1), np.int64), np.zeros((k, n + 1), np.int64)
    found, _ = ranked_trees(
        lay, n, space.n_labels, scores, space.single_root, space.max_iterations, trees, names, values
    )
    for r in range(found):
        parts[r] = 0.0
        write_parts(lay, trees[r], names[r], space.n_labels, parts[r])
    return found

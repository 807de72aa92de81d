"""The oracles of arborescences on labelled scores: what does not depend on the algorithm that finds a tree."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._arborescence_edmonds import edmonds
from partwise.structures._arborescence_eisner import (
    eisner,
    projective_draw,
    projective_inside,
    projective_marginals,
)
from partwise.structures._arborescence_laplacian import tree_gradient, tree_marginals
from partwise.structures._arborescence_ranked import ranked_projective
from partwise.structures._arborescence_space import (
    ArborescenceSpace,
    arc_number,
    best_labels,
    soft_labels,
    spread_labels,
    write_tree,
)
from partwise.structures.base import argmax, kbest, marginals, part_count, work_size

__all__ = ["best_tree", "first_infeasible", "sample"]


@part_count.register(ArborescenceSpace)
def _(space, i):
    n = space.offsets[i + 1] - space.offsets[i]
    return n * n * space.n_labels


@work_size.register(ArborescenceSpace)
def _(space, i):
    n = space.offsets[i + 1] - space.offsets[i]
    return 2 * (n + 1) * (n + 1)  # scores of arcs, and their masses


@kernel
def _arc_matrix(space, i, work):
    n = space.offsets[i + 1] - space.offsets[i]
    return work[: (n + 1) * (n + 1)].reshape(n + 1, n + 1)


@kernel
def best_tree(space, arcs, heads):
    """heads ← the best tree of arcs[h, m], projective or not; False if there is none."""
    if space.projective:
        return eisner(arcs, space.single_root, heads)
    return edmonds(arcs, space.single_root, heads)


@argmax.register(ArborescenceSpace)
def _(space, i, scores, work, parts):
    arcs = _arc_matrix(space, i, work)
    best_labels(space, i, scores, arcs)
    heads = np.zeros(arcs.shape[0], np.int64)
    if not best_tree(space, arcs, heads):
        parts[:] = 0.0
        return -np.inf
    return write_tree(space, i, scores, heads, parts)


@marginals.register(ArborescenceSpace)
def _(space, i, scores, work, parts):
    arcs = _arc_matrix(space, i, work)
    n = arcs.shape[0] - 1
    mass = work[(n + 1) * (n + 1) : 2 * (n + 1) * (n + 1)].reshape(n + 1, n + 1)
    soft_labels(space, i, scores, arcs, parts)
    if space.projective:
        value = projective_marginals(arcs, space.single_root, mass)
    else:
        value = tree_marginals(arcs, space.single_root, mass)
    spread_labels(n, space.n_labels, mass, parts)
    return value


@kernel
def first_infeasible(space):
    """The first instance whose constraints allow no tree, or −1."""
    for i in range(space.offsets.shape[0] - 1):
        n = space.offsets[i + 1] - space.offsets[i]
        arcs = np.empty((n + 1, n + 1))
        best_labels(space, i, np.zeros(n * n * space.n_labels), arcs)
        if not best_tree(space, arcs, np.zeros(n + 1, np.int64)):
            return i
    return -1


# --------------------------------------------------------------------------------------------------
# k-best trees where arcs may cross: Lawler's partition (1972). A node of it holds the best tree among those that agree
# with a tree found before on the words below ``turn`` and differ from some of them at ``turn``.


@kernel
def _restrict(space, i, scores, arcs, word, tree, labels, link, turn, node):
    """Forbid at ``word`` the labelled arcs of the trees that ``node`` must differ from."""
    n, L = arcs.shape[0] - 1, space.n_labels
    pin = space.pinned[space.offsets[i] + word - 1] if space.pinned.shape[0] > 0 else -1
    first = link[node]
    other = first
    while other >= 0:
        head = tree[other, word]
        top = -np.inf  # the best label of this arc that none of those trees has
        for b in range(L):
            taken = pin >= 0 and b != pin
            x = first
            while x >= 0:
                taken |= tree[x, word] == head and labels[x, word] == b
                x = link[x] if turn[x] == word else -1
            if not taken:
                top = max(top, scores[arc_number(n, head, word) * L + b])
        arcs[head, word] = top
        other = link[other] if turn[other] == word else -1


@kernel
def _label_of(space, i, scores, arc, word, tree, labels, link, turn, node):
    """The best label of the arc into ``word`` that ``node`` may have."""
    n, L = space.offsets[i + 1] - space.offsets[i], space.n_labels
    pin = space.pinned[space.offsets[i] + word - 1] if space.pinned.shape[0] > 0 else -1
    best, top = -1, -np.inf
    for b in range(L):
        taken = pin >= 0 and b != pin
        if word == turn[node]:
            x = link[node]
            while x >= 0:
                taken |= arc_number(n, tree[x, word], word) == arc and labels[x, word] == b
                x = link[x] if turn[x] == word else -1
        if not taken and (best < 0 or scores[arc * L + b] > top):
            best, top = b, scores[arc * L + b]
    return best


@kbest.register(ArborescenceSpace)
def _(space, i, scores, work, parts, values):
    arcs = _arc_matrix(space, i, work)
    n, L, k = arcs.shape[0] - 1, space.n_labels, values.shape[0]
    if space.projective:
        pins = np.full(n + 1, -1)
        if space.pinned.shape[0] > 0:
            pins[1:] = space.pinned[space.offsets[i] : space.offsets[i + 1]]
        best_labels(space, i, scores, arcs)
        return ranked_projective(scores, arcs, L, pins, space.single_root, parts, values)
    size = 1 + (k - 1) * n
    tree, labels = np.zeros((size, n + 1), np.int64), np.zeros((size, n + 1), np.int64)
    value, turn, link = np.full(size, -np.inf), np.zeros(size, np.int64), np.full(size, -1)
    base = np.empty((n + 1, n + 1))
    best_labels(space, i, scores, base)
    arcs[:, :] = base
    count, parent, found = 0, -1, 0
    while True:
        first = turn[parent] if parent >= 0 else 1
        for word in range(first, n + 1):
            node = count
            if parent >= 0:
                turn[node] = word
                link[node] = parent
                arcs[:, :] = base
                for m in range(1, word):
                    arcs[:, m] = -np.inf
                    arcs[tree[parent, m], m] = 0.0
                _restrict(space, i, scores, arcs, word, tree, labels, link, turn, node)
            if best_tree(space, arcs, tree[node]):
                total = 0.0
                for m in range(1, n + 1):
                    arc = arc_number(n, tree[node, m], m)
                    if parent >= 0 and m < word:
                        labels[node, m] = labels[parent, m]
                    else:
                        labels[node, m] = _label_of(space, i, scores, arc, m, tree, labels, link, turn, node)
                    total += scores[arc * L + labels[node, m]]
                value[node] = total
            if parent < 0:
                turn[node] = 1
            count += 1
            if parent < 0:
                break
        parent = -1
        for node in range(count):
            if value[node] > -np.inf and (parent < 0 or value[node] > value[parent]):
                parent = node
        if parent < 0:
            return found
        parts[found] = 0.0
        for m in range(1, n + 1):
            parts[found, arc_number(n, tree[parent, m], m) * L + labels[parent, m]] = 1.0
        values[found] = value[parent]
        value[parent] = -np.inf  # taken
        found += 1
        if found == k:
            return found


# --------------------------------------------------------------------------------------------------
# Draws


@kernel
def _uniform(state):
    """The next number in [0, 1) of the generator SplitMix64 (Steele, Lea & Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def _pick(weights, state):
    """An index in proportion to the weights."""
    goal, seen, last = _uniform(state) * weights.sum(), 0.0, 0
    for j in range(weights.shape[0]):
        if weights[j] > 0.0:
            last = j
            seen += weights[j]
            if goal < seen:
                return j
    return last


@kernel
def _wilson(w, state, heads):
    """Wilson (1996): walk from every word to what is connected already, forgetting loops."""
    n = w.shape[0] - 1
    inside = np.zeros(n + 1, np.bool_)
    inside[0] = True
    for start in range(1, n + 1):
        node = start
        while not inside[node]:
            heads[node] = _pick(w[:, node], state)
            node = heads[node]
        node = start
        while not inside[node]:
            inside[node] = True
            node = heads[node]


@kernel
def _word_by_word(arcs, state, heads):
    """Draw the head of each word given those drawn before, as Colbourn et al. (1996): for any scores."""
    n = arcs.shape[0] - 1
    left, mass = arcs.copy(), np.empty((n + 1, n + 1))
    for m in range(1, n + 1):
        tree_marginals(left, False, mass)
        heads[m] = _pick(mass[:, m], state)
        left[:, m] = -np.inf
        left[heads[m], m] = 0.0


@kernel
def _draw_tree(arcs, state, heads):
    """A draw with several roots: by random walks, unless they are expected to be long."""
    n = arcs.shape[0] - 1
    w, g = np.empty((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    _, log = tree_gradient(arcs, False, w, g)
    steps = np.inf
    if not log:  # word m is visited (L^-1)_mm S_m times, and (L^-1)_mm is the gradient of its arc from the root
        steps = 0.0
        for m in range(1, n + 1):
            steps += g[0, m] * w[:, m].sum()
    if steps < 100.0 * n:
        _wilson(w, state, heads)
    else:
        _word_by_word(arcs, state, heads)


@kernel
def _one_root(arcs, mass, state):
    """Draw the only word under the root, and leave only its arc from there."""
    r = _pick(mass[0], state)
    arcs[0, :] = -np.inf
    arcs[:, r] = -np.inf
    arcs[0, r] = 0.0


@kernel
def sample(space, i, scores, seeds, draws):
    """draws[d] ← the parts of a tree drawn with p ∝ exp(scores·z), by the generator of seeds[d]. Returns log Z."""
    n, L = space.offsets[i + 1] - space.offsets[i], space.n_labels
    arcs, mass, soft = np.empty((n + 1, n + 1)), np.zeros((n + 1, n + 1)), np.empty(n * n * L)
    soft_labels(space, i, scores, arcs, soft)
    heads, state = np.zeros(n + 1, np.int64), np.empty(1, np.uint64)
    chart, uniform = np.empty((2, 2, n + 1, n + 1)), np.empty(4 * n + 4)
    if space.projective:
        value = projective_inside(arcs, space.single_root, True, chart)
    else:
        value = tree_marginals(arcs, space.single_root, mass)
    if value == -np.inf:
        return value
    for d in range(draws.shape[0]):
        state[0] = seeds[d]
        if space.projective:
            for j in range(uniform.shape[0]):
                uniform[j] = _uniform(state)
            projective_draw(arcs, space.single_root, True, chart, uniform, heads)
        elif space.single_root:
            left = arcs.copy()
            _one_root(left, mass, state)
            _draw_tree(left, state, heads)
        else:
            _draw_tree(arcs, state, heads)
        draws[d] = 0.0
        for m in range(1, n + 1):
            start = arc_number(n, heads[m], m) * L
            draws[d, start + _pick(soft[start : start + L], state)] = 1.0
    return value

"""Features of constituents and anchored rules, hashed into a table of weights inside the kernel.

A constituent or rule has borders: where its span starts and stops, and where a rule splits it. A view of a border is
what stands to its left and right (words, parts of speech, endings). A template joins one view per border, and perhaps
lengths, with the symbol or the rule:

    s(A, i, j) = Σ_k θ[start_k(i) + stop_k(j) + A]
    s(A → B C, i, m, j) = Σ_k θ[start_k(i) + stop_k(j) + split_k(m) + (A → B C)]

The features of a constituent are computed once, however many rules make it: they belong to its atom where it is one,
else to each of its rules. Two numbers are added, salted by the template, and multiplied by an odd number whose high
bits are the place in the table, as for the arcs of dependency trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear
from partwise.parsing._arc_kernels import touch
from partwise.parsing._word_views import MULTIPLIER, SPREAD, mix
from partwise.structures._grammar_space import GrammarSpace
from partwise.structures.base import part_count

__all__ = ["EDGE_TEMPLATES", "NODE_TEMPLATES", "VIEWS", "WORD_TEMPLATES", "PhrasePack", "node_places"]

#: What is known of a word: hashes of these, in this order. The part of speech is the coarse pass's.
FORM, TAG, SUFFIX, SHAPE = range(4)
N_ATTRIBUTES = 4

N_VIEWS = 13
NOTHING, WL, WR, TL, TR, TT, WT, TW, TTL, TTR, SL, SR, CC = range(N_VIEWS)
VIEWS = (
    "", "word before", "word after", "tag before", "tag after", "tags around", "word before tag after",
    "tag before word after", "two tags before", "two tags after", "ending before", "ending after", "shapes around",
)  # fmt: skip

NO_LENGTH, LENGTH, HALVES = range(3)
#: Templates of constituents: (view at the start, view at the stop, length or not).
NODE_TEMPLATES = np.array([
    (NOTHING, NOTHING, NO_LENGTH), (NOTHING, NOTHING, LENGTH), (WL, NOTHING, NO_LENGTH), (WR, NOTHING, NO_LENGTH),
    (NOTHING, WL, NO_LENGTH), (NOTHING, WR, NO_LENGTH), (TT, NOTHING, NO_LENGTH), (NOTHING, TT, NO_LENGTH),
    (TT, TT, NO_LENGTH), (TR, TL, NO_LENGTH), (TL, TR, NO_LENGTH), (TR, NOTHING, LENGTH), (NOTHING, TL, LENGTH),
    (NOTHING, TR, LENGTH), (TL, NOTHING, LENGTH), (WT, NOTHING, NO_LENGTH), (TW, NOTHING, NO_LENGTH),
    (NOTHING, WT, NO_LENGTH), (NOTHING, TW, NO_LENGTH), (WR, WL, NO_LENGTH), (WL, WR, NO_LENGTH),
    (TTR, NOTHING, NO_LENGTH), (NOTHING, TTL, NO_LENGTH), (WR, TR, NO_LENGTH), (TL, WL, NO_LENGTH),
    (TTR, TR, NO_LENGTH), (SR, NOTHING, NO_LENGTH), (NOTHING, SL, NO_LENGTH), (CC, NOTHING, NO_LENGTH),
    (NOTHING, CC, NO_LENGTH), (WL, TL, NO_LENGTH), (TTL, TTR, NO_LENGTH),
])  # fmt: skip

FINE, COARSE, HEAD = range(3)
#: Templates of rules: (view at the start, at the stop, at the split, lengths, rule: exact, coarse, or its head only).
EDGE_TEMPLATES = np.array([
    (NOTHING, NOTHING, NOTHING, NO_LENGTH, FINE), (NOTHING, NOTHING, NOTHING, LENGTH, FINE),
    (NOTHING, NOTHING, NOTHING, HALVES, FINE), (NOTHING, NOTHING, WL, NO_LENGTH, FINE),
    (NOTHING, NOTHING, WR, NO_LENGTH, FINE), (NOTHING, NOTHING, TT, NO_LENGTH, FINE),
    (TR, NOTHING, NOTHING, NO_LENGTH, FINE), (NOTHING, TL, NOTHING, NO_LENGTH, FINE),
    (TL, NOTHING, NOTHING, NO_LENGTH, FINE), (NOTHING, TR, NOTHING, NO_LENGTH, FINE),
    (WR, NOTHING, NOTHING, NO_LENGTH, COARSE), (NOTHING, WL, NOTHING, NO_LENGTH, COARSE),
    (WL, NOTHING, NOTHING, NO_LENGTH, COARSE), (NOTHING, WR, NOTHING, NO_LENGTH, COARSE),
    (NOTHING, NOTHING, WT, NO_LENGTH, COARSE), (NOTHING, NOTHING, TW, NO_LENGTH, COARSE),
    (TR, NOTHING, TR, NO_LENGTH, COARSE), (NOTHING, TR, TL, NO_LENGTH, COARSE), (WR, NOTHING, WR, NO_LENGTH, HEAD),
    (NOTHING, NOTHING, TTR, NO_LENGTH, HEAD), (NOTHING, NOTHING, TTL, NO_LENGTH, HEAD),
])  # fmt: skip

#: Templates of a part of speech over a word: (view of the border before it, view of the border after it).
WORD_TEMPLATES = np.array([
    (NOTHING, NOTHING), (WR, NOTHING), (SR, NOTHING), (WL, NOTHING), (NOTHING, WR), (TR, NOTHING), (TT, NOTHING),
    (NOTHING, TT), (CC, NOTHING), (TL, TR), (WL, WL), (NOTHING, TW), (WT, NOTHING), (SL, SL), (NOTHING, SR),
])  # fmt: skip

LEFT = np.uint64(0xD6E8FEB86659FD93)
RIGHT = np.uint64(0xA0761D6478BD642F)
LONGEST = 5  # spans of up to this many words have a feature of all their parts of speech


class PhrasePack(NamedTuple):
    """Forests, the words of their sentences (of instance i: offsets[i]:offsets[i + 1]) and hashes of symbols."""

    space: GrammarSpace
    offsets: NDArray[np.int64]
    words: NDArray[np.uint64]  # (words, attributes)
    fine: NDArray[np.uint64]  # (S,)
    coarse: NDArray[np.uint64]  # (S,)
    node_templates: NDArray[np.int64]
    edge_templates: NDArray[np.int64]
    word_templates: NDArray[np.int64]
    bits: int


@kernel
def border_views(pack, i, views):
    """views[b] ← the views of border b = 0..n of a sentence, (n + 1, N_VIEWS)."""
    start = pack.offsets[i]
    n = pack.offsets[i + 1] - start
    edge = np.full(N_ATTRIBUTES, np.uint64(11))
    for b in range(n + 1):
        left = pack.words[start + b - 1] if b > 0 else edge
        right = pack.words[start + b] if b < n else edge
        before = pack.words[start + b - 2, TAG] if b > 1 else np.uint64(12)
        after = pack.words[start + b + 1, TAG] if b + 1 < n else np.uint64(13)
        v = views[b]
        v[NOTHING] = np.uint64(1)
        v[WL], v[WR], v[TL], v[TR] = left[FORM], right[FORM], left[TAG], right[TAG]
        v[SL], v[SR] = left[SUFFIX], right[SUFFIX]
        v[TT], v[WT], v[TW] = mix(left[TAG], right[TAG]), mix(left[FORM], right[TAG]), mix(left[TAG], right[FORM])
        v[TTL], v[TTR] = mix(before, left[TAG]), mix(right[TAG], after)
        v[CC] = mix(left[SHAPE], right[SHAPE])


@kernel
def _salted(views, kinds, salt, out):
    """out[b, k] ← view kinds[k] of border b, told apart by template and side; 0 where the template looks elsewhere."""
    for b in range(views.shape[0]):
        for k in range(kinds.shape[0]):
            if kinds[k] == NOTHING:
                out[b, k] = np.uint64(k) * SPREAD
            else:
                out[b, k] = mix(views[b, kinds[k]], np.uint64(1000 * salt + k))


@kernel
def length_bin(n):
    """Lengths 1, 2, 3, 4, 5, 6–7, 8–10, 11–15, 16–20, 21–30, more."""
    if n <= 5:
        return n
    if n <= 7:
        return 6
    if n <= 10:
        return 7
    if n <= 15:
        return 8
    if n <= 20:
        return 9
    return 10 if n <= 30 else 11


@kernel
def prepare(pack, i):
    """Salted views of all borders: of constituents (start, stop), rules (start, stop, split) and words (both sides)."""
    n = pack.offsets[i + 1] - pack.offsets[i]
    views = np.empty((n + 1, N_VIEWS), np.uint64)
    border_views(pack, i, views)
    n_node, n_edge, n_word = pack.node_templates.shape[0], pack.edge_templates.shape[0], pack.word_templates.shape[0]
    node, edge = np.empty((2, n + 1, n_node), np.uint64), np.empty((3, n + 1, n_edge), np.uint64)
    word = np.empty((2, n + 1, n_word), np.uint64)
    for side in range(2):
        _salted(views, pack.node_templates[:, side], 1 + side, node[side])
        _salted(views, pack.word_templates[:, side], 3 + side, word[side])
    for side in range(3):
        _salted(views, pack.edge_templates[:, side], 5 + side, edge[side])
    return node, edge, word


@kernel
def node_places(pack, i, node, symbol, s, e, shift, out):
    """out ← the places of the weights of a symbol over words s..e − 1; returns how many."""
    own = pack.coarse[symbol]
    length = np.uint64(2 * length_bin(e - s) + 1) * LEFT
    k = np.uintp(0)
    for t in range(np.uintp(pack.node_templates.shape[0])):
        x = node[0, s, t] + node[1, e, t] + own
        if pack.node_templates[t, 2] != NO_LENGTH:
            x += length
        out[k] = np.intp((x * MULTIPLIER) >> shift)
        k += np.uintp(1)
    x = pack.fine[symbol] * RIGHT
    out[k] = np.intp((x * MULTIPLIER) >> shift)
    k += np.uintp(1)
    if e - s <= LONGEST:
        x = own
        for t in range(pack.offsets[i] + s, pack.offsets[i] + e):
            x = mix(x, pack.words[t, TAG])
        out[k] = np.intp((x * MULTIPLIER) >> shift)
        k += np.uintp(1)
    return np.intp(k)


@kernel
def _rule_places(pack, edge, a, b, c, s, m, e, shift, out):
    """out ← the places of the weights of the rule a → b c over s, m, e; of a unary rule where c < 0, and then m = e."""
    fine = mix(pack.fine[a], pack.fine[b] * LEFT)
    coarse = mix(pack.coarse[a], pack.coarse[b] * LEFT)
    if c >= 0:
        fine, coarse = fine + pack.fine[c] * RIGHT, coarse + pack.coarse[c] * RIGHT
    length = np.uint64(2 * length_bin(e - s) + 1) * LEFT
    halves = np.uint64(2 * (12 * length_bin(m - s) + length_bin(e - m) if c >= 0 else 0) + 1) * RIGHT
    head = pack.coarse[a] + RIGHT
    k = np.uintp(0)
    for t in range(np.uintp(pack.edge_templates.shape[0])):
        if c < 0 and pack.edge_templates[t, 2] != NOTHING:
            continue
        which = pack.edge_templates[t, 4]
        x = (
            edge[0, s, t]
            + edge[1, e, t]
            + edge[2, m, t]
            + (fine if which == FINE else coarse if which == COARSE else head)
        )
        if pack.edge_templates[t, 3] == LENGTH:
            x += length
        elif pack.edge_templates[t, 3] == HALVES:
            x += halves
        out[k] = np.intp((x * MULTIPLIER) >> shift)
        k += np.uintp(1)
    return np.intp(k)


@kernel
def _word_places(pack, word, tag, t, shift, out):
    """out ← the places of the weights of a part of speech over word t."""
    for k in range(np.uintp(pack.word_templates.shape[0])):
        out[k] = np.intp(((word[0, t, k] + word[1, t + 1, k] + pack.fine[tag]) * MULTIPLIER) >> shift)
    return pack.word_templates.shape[0]


@kernel
def _edge_places(pack, i, v, e, edge, word, shift, out):
    """out ← the places of the weights of edge e of node v, both counted over all instances; returns how many."""
    space = pack.space
    first = space.nodes[i]
    symbol, s, stop = space.symbols[space.state[v]], space.start[v], space.stop[v]
    if space.left[e] < 0:
        return _word_places(pack, word, symbol, s, shift, out)
    left = first + space.left[e]
    b = space.symbols[space.state[left]]
    if symbol < 0:  # the root
        out[0] = np.intp((((pack.fine[b] ^ LEFT) * RIGHT) * MULTIPLIER) >> shift)
        return 1
    c = space.symbols[space.state[first + space.right[e]]] if space.right[e] >= 0 else -1
    return _rule_places(pack, edge, symbol, b, c, s, space.stop[left], stop, shift, out)


@feature_parts.register(PhrasePack)
def _(features, i):
    return part_count(features.space, i)


@feature_scores.register(PhrasePack)
def _(features, i, theta, scores, at):
    space, shift = features.space, np.uint64(64 - features.bits)
    node, edge, word = prepare(features, i)
    n_atoms = space.atoms[i + 1] - space.atoms[i]
    choices = space.symbols.shape[0] - 1 - space.n_symbols  # the first state that is a choice; the last is the root
    places = np.empty(node.shape[2] + edge.shape[2] + word.shape[2] + 4, np.int64)
    for v in range(space.nodes[i], space.nodes[i + 1]):
        own = 0.0
        state = space.state[v]
        choice = choices <= state < space.symbols.shape[0] - 1
        if state < choices and space.left[space.first[v]] >= 0:
            count = node_places(features, i, node, space.symbols[state], space.start[v], space.stop[v], shift, places)
            for j in range(np.uintp(count)):
                own += theta[places[j]]
        if space.atom[v] >= 0:
            scores[at + space.atom[v]] = own
            own = 0.0
        for e in range(space.first[v], space.first[v + 1]):
            total = own
            if not choice:
                count = _edge_places(features, i, v, e, edge, word, shift, places)
                for j in range(np.uintp(count)):
                    total += theta[places[j]]
            scores[at + n_atoms + e - space.edges[i]] = total


@kernel
def _scatter(features, i, parts, at, step, theta, clear):
    """θ ← θ + step·F_i parts; or, to ``clear``, returns the squared norm of the weights that this touches."""
    space, shift = features.space, np.uint64(64 - features.bits)
    node, edge, word = prepare(features, i)
    n_atoms = space.atoms[i + 1] - space.atoms[i]
    choices = space.symbols.shape[0] - 1 - space.n_symbols
    places = np.empty(node.shape[2] + edge.shape[2] + word.shape[2] + 4, np.int64)
    norm = 0.0
    for v in range(space.nodes[i], space.nodes[i + 1]):
        state = space.state[v]
        choice = choices <= state < space.symbols.shape[0] - 1
        own, touched = 0.0, False
        for e in range(space.first[v], space.first[v + 1]):
            amount = parts[at + n_atoms + e - space.edges[i]]
            if amount != 0.0:
                own, touched = own + amount, True
                if not choice:
                    count = _edge_places(features, i, v, e, edge, word, shift, places)
                    norm += touch(theta, places, count, step * amount, clear)
        if space.atom[v] >= 0:
            own = parts[at + space.atom[v]]
            touched = own != 0.0
        if touched and state < choices and space.left[space.first[v]] >= 0:
            count = node_places(features, i, node, space.symbols[state], space.start[v], space.stop[v], shift, places)
            norm += touch(theta, places, count, step * own, clear)
    return norm


@accumulate.register(PhrasePack)
def _(features, i, parts, at, step, theta):
    _scatter(features, i, parts, at, step, theta, False)


@norm_and_clear.register(PhrasePack)
def _(features, i, parts, at, scratch):
    return _scatter(features, i, parts, at, 1.0, scratch, True)

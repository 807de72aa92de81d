"""Features of arcs, hashed into a table of weights inside the kernel: a treebank's arcs are never stored.

The score of arc (h, m) with label l is

    s(h, m, l) = Σ_t θ[arc_t(h, m)] + Σ_t R[head_t(h, d), l] + Σ_t R[modifier_t(m, d), l] + Σ_t R[pair_t(h, m, d), l]

with d the direction. Arc features (McDonald et al. 2005; Martins et al. 2009) join a view of the head with one of the
modifier, once with the direction and once with the binned distance; then one for every part of speech between them.
Label features are rows of L weights. Those of one word are summed once per sentence, so a labelled arc costs a few row
additions and not L times the features of an arc.

A view is a 64-bit number made of a word's attributes; two views are added, salted by the template, and
multiplied by an odd number, whose high bits are the place in the table: hashing as in Vowpal Wabbit (Weinberger et al.
2009), at the cost of an addition, a multiplication and a shift per feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear
from partwise.parsing._word_views import MULTIPLIER, N_VIEWS, SPREAD, P, X, mix, salted_views, word_views

__all__ = ["ArcPack", "arc_features", "label_features", "prepare"]


class ArcPack(NamedTuple):
    """Packed words: those of instance i are offsets[i]:offsets[i + 1]."""

    offsets: NDArray[np.int64]
    words: NDArray[np.uint64]  # (words, attributes)
    bits: NDArray[np.uint8]  # (words,) the number of a word's part of speech among the 64 for "between"
    arc_templates: NDArray[np.int64]  # (T, 2)
    word_templates: NDArray[np.int64]  # (U,)
    pair_templates: NDArray[np.int64]  # (V, 3)
    n_labels: int
    arc_bits: int  # arc weights are θ[:2^arc_bits]
    row_bits: int  # rows of label weights θ[2^arc_bits + r·L:], r < 2^row_bits


@kernel
def distance_bin(distance):
    """Distances 1, 2, 3, 4, 5–6, 7–10, 11–20, more."""
    if distance <= 4:
        return distance
    if distance <= 6:
        return 5
    if distance <= 10:
        return 6
    return 7 if distance <= 20 else 8


@kernel
def beside(place, key):
    """A place for ``key`` among the 16 weights around another: one line of the processor's cache holds both."""
    return (place & ~np.intp(15)) | np.intp((key * MULTIPLIER) >> np.uint64(60))


@kernel
def arc_features(heads, modifiers, h, m, between, between_views, shift, out):
    """out ← places of the weights of arc (h, m): each template with direction and with distance, then between.

    Returns how many there are. ``between`` is the set of the parts of speech between, as 64 bits.
    """
    right = h < m
    way = np.uint64(0x2545F4914F6CDD1D) if right else np.uint64(0x6C62272E07BB0142)
    length = way * np.uint64(2 * distance_bin(m - h if right else h - m) + 1)
    k = np.uintp(0)
    for t in range(np.uintp(heads.shape[1])):
        pair = heads[h, t] + modifiers[m, t]
        out[k] = np.intp(((pair + way) * MULTIPLIER) >> shift)
        out[k + np.uintp(1)] = beside(out[k], pair + length)
        k += np.uintp(2)
    pair = between_views[h, 0] + between_views[m, 1] + way
    fine = between_views[h, 2] + between_views[m, 3] + way
    bit = np.uint64(1)
    while between != np.uint64(0):
        if between & np.uint64(1):
            out[k] = np.intp(((pair + bit * SPREAD) * MULTIPLIER) >> shift)
            out[k + np.uintp(1)] = np.intp(((fine + bit * SPREAD) * MULTIPLIER) >> shift)
            k += np.uintp(2)
        between >>= np.uint64(1)
        bit += np.uint64(1)
    return np.intp(k)


@kernel
def label_features(heads, modifiers, kinds, h, m, between, shift, out):
    """out ← rows of the label weights of the pair (h, m); kinds[t] is what template t joins the two words with."""
    right = h < m
    way = np.uint64(0x2545F4914F6CDD1D) if right else np.uint64(0x6C62272E07BB0142)
    length = way * np.uint64(2 * distance_bin(m - h if right else h - m) + 1)
    inside = way + mix(between, way)
    for t in range(heads.shape[1]):
        joined = way if kinds[t] == 0 else (length if kinds[t] == 1 else inside)
        out[t] = np.intp(((heads[h, t] + modifiers[m, t] + joined) * MULTIPLIER) >> shift)


@kernel
def _word_rows(salted, shift, rows):
    """rows[t, d, k] ← the row of label weights of template k at word t in direction d."""
    for t in range(salted.shape[0]):
        for k in range(salted.shape[1]):
            left, right = salted[t, k] + np.uint64(0x6C62272E07BB0142), salted[t, k] + np.uint64(0x2545F4914F6CDD1D)
            rows[t, 0, k] = np.intp((left * MULTIPLIER) >> shift)
            rows[t, 1, k] = np.intp((right * MULTIPLIER) >> shift)


@kernel
def prepare(pack, i):
    """All that the words of a sentence bring to its arcs: salted views and rows of label weights."""
    n = pack.offsets[i + 1] - pack.offsets[i]
    views = np.empty((n + 1, N_VIEWS), np.uint64)
    word_views(pack, i, views)
    n_arcs, n_pairs, n_words = pack.arc_templates.shape[0], pack.pair_templates.shape[0], pack.word_templates.shape[0]
    heads, modifiers = np.empty((n + 1, n_arcs), np.uint64), np.empty((n + 1, n_arcs), np.uint64)
    salted_views(views, pack.arc_templates[:, 0], 1, heads)
    salted_views(views, pack.arc_templates[:, 1], 2, modifiers)
    pair_heads, pair_modifiers = np.empty((n + 1, n_pairs), np.uint64), np.empty((n + 1, n_pairs), np.uint64)
    salted_views(views, pack.pair_templates[:, 0], 3, pair_heads)
    salted_views(views, pack.pair_templates[:, 1], 4, pair_modifiers)
    between = np.empty((n + 1, 4), np.uint64)
    for t in range(n + 1):
        between[t, 2], between[t, 3] = mix(views[t, X], np.uint64(5003)), mix(views[t, X], np.uint64(5004))
        between[t, 0], between[t, 1] = mix(views[t, P], np.uint64(5001)), mix(views[t, P], np.uint64(5002))
    salted = np.empty((n + 1, n_words), np.uint64)
    shift = np.uint64(64 - pack.row_bits)
    head_rows, modifier_rows = np.empty((n + 1, 2, n_words), np.int64), np.empty((n + 1, 2, n_words), np.int64)
    salted_views(views, pack.word_templates, 6, salted)
    _word_rows(salted, shift, head_rows)
    salted_views(views, pack.word_templates, 7, salted)
    _word_rows(salted, shift, modifier_rows)
    return heads, modifiers, pair_heads, pair_modifiers, between, head_rows, modifier_rows


@kernel
def gather_rows(theta, base, n_labels, rows, out):
    """out[t, d] ← Σ_k row rows[t, d, k] of the label weights."""
    for t in range(rows.shape[0]):
        for d in range(2):
            for b in range(n_labels):
                out[t, d, b] = 0.0
            for k in range(rows.shape[2]):
                o = np.uintp(base + rows[t, d, k] * n_labels)
                for b in range(np.uintp(n_labels)):
                    out[t, d, b] += theta[o + b]


@kernel
def sum_rows(theta, base, rows, out):
    """out ← Σ_k row rows[k] of the label weights, in their own precision: most of the time of parsing goes here."""
    width = np.uintp(out.shape[0])
    o = np.uintp(base + rows[0] * out.shape[0])
    for b in range(width):
        out[b] = theta[o + b]
    for k in range(1, rows.shape[0]):
        o = np.uintp(base + rows[k] * out.shape[0])
        for b in range(width):
            out[b] += theta[o + b]


@feature_parts.register(ArcPack)
def _(features, i):
    n = features.offsets[i + 1] - features.offsets[i]
    return n * n * features.n_labels


@feature_scores.register(ArcPack)
def _(features, i, theta, scores, at):
    start = features.offsets[i]
    n, L = features.offsets[i + 1] - start, features.n_labels
    heads, modifiers, pair_heads, pair_modifiers, between, head_rows, modifier_rows = prepare(features, i)
    base = 1 << features.arc_bits
    of_head, of_modifier, of_pair = np.empty((n + 1, 2, L)), np.empty((n + 1, 2, L)), np.empty(L, theta.dtype)
    if L > 1:
        gather_rows(theta, base, L, head_rows, of_head)
        gather_rows(theta, base, L, modifier_rows, of_modifier)
    places = np.empty(2 * heads.shape[1] + 128, np.int64)
    rows, kinds = np.empty(pair_heads.shape[1], np.int64), features.pair_templates[:, 2]
    arc_shift, row_shift = np.uint64(64 - features.arc_bits), np.uint64(64 - features.row_bits)
    for m in range(1, n + 1):
        for side in range(2):
            inside = np.uint64(0)
            h = m - 1 if side == 0 else m + 1
            while h >= 0 and h <= n:
                arc = (m - 1) * n + h - (1 if h > m else 0)
                count = arc_features(heads, modifiers, h, m, inside, between, arc_shift, places)
                total = 0.0
                for j in range(np.uintp(count)):
                    total += theta[places[j]]
                o = np.uintp(at + arc * L)
                if L == 1:
                    scores[o] = total
                else:
                    d = 1 if h < m else 0
                    label_features(pair_heads, pair_modifiers, kinds, h, m, inside, row_shift, rows)
                    sum_rows(theta, base, rows, of_pair)
                    for b in range(np.uintp(L)):
                        scores[o + b] = total + of_head[h, d, b] + of_modifier[m, d, b] + of_pair[b]
                if h > 0:
                    inside |= np.uint64(1) << np.uint64(features.bits[start + h - 1])
                h += -1 if side == 0 else 1


@kernel
def touch(theta, places, count, amount, clear):
    """θ[places] += amount; or, to ``clear``, returns Σ θ[places]² and leaves zeros."""
    total = 0.0
    for j in range(np.uintp(count)):
        if clear:
            total += theta[places[j]] * theta[places[j]]
            theta[places[j]] = 0.0
        else:
            theta[places[j]] += amount
    return total


@kernel
def touch_row(theta, row, amounts, at, n_labels, step, clear):
    """The same for the L weights of a row, which get step·amounts[at:at + L]."""
    o, q, total = np.uintp(row), np.uintp(at), 0.0
    if clear:
        for b in range(np.uintp(n_labels)):
            total += theta[o + b] * theta[o + b]
            theta[o + b] = 0.0
    else:
        for b in range(np.uintp(n_labels)):
            theta[o + b] += step * amounts[q + b]
    return total


@kernel
def _scatter(features, i, parts, at, step, theta, clear):
    """θ ← θ + step·F_i parts; or, to ``clear``, returns the squared norm of the weights that this touches.

    Clearing leaves zeros in their place. Arcs without mass cost nothing but a look.
    """
    start = features.offsets[i]
    n, L = features.offsets[i + 1] - start, features.n_labels
    heads, modifiers, pair_heads, pair_modifiers, between, head_rows, modifier_rows = prepare(features, i)
    base = 1 << features.arc_bits
    of_head, of_modifier = np.zeros((n + 1, 2, L)), np.zeros((n + 1, 2, L))
    places = np.empty(2 * heads.shape[1] + 128, np.int64)
    rows, kinds = np.empty(pair_heads.shape[1], np.int64), features.pair_templates[:, 2]
    arc_shift, row_shift = np.uint64(64 - features.arc_bits), np.uint64(64 - features.row_bits)
    norm = 0.0
    for m in range(1, n + 1):
        for side in range(2):
            inside = np.uint64(0)
            h = m - 1 if side == 0 else m + 1
            while h >= 0 and h <= n:
                o = np.uintp(at + ((m - 1) * n + h - (1 if h > m else 0)) * L)
                total, size = 0.0, 0.0
                for b in range(np.uintp(L)):
                    total += parts[o + b]
                    size += abs(parts[o + b])
                if size > 0.0:
                    if total != 0.0:
                        count = arc_features(heads, modifiers, h, m, inside, between, arc_shift, places)
                        norm += touch(theta, places, count, step * total, clear)
                    if L > 1:
                        d = 1 if h < m else 0
                        for b in range(np.uintp(L)):
                            of_head[h, d, b] += parts[o + b]
                            of_modifier[m, d, b] += parts[o + b]
                        label_features(pair_heads, pair_modifiers, kinds, h, m, inside, row_shift, rows)
                        for k in range(rows.shape[0]):
                            norm += touch_row(theta, base + rows[k] * L, parts, o, L, step, clear)
                if h > 0:
                    inside |= np.uint64(1) << np.uint64(features.bits[start + h - 1])
                h += -1 if side == 0 else 1
    if L > 1:
        norm += scatter_rows(of_head, head_rows, base, step, theta, clear)
        norm += scatter_rows(of_modifier, modifier_rows, base, step, theta, clear)
    return norm


@kernel
def scatter_rows(amounts, rows, base, step, theta, clear):
    """The label features of single words, from sums over their arcs."""
    L, norm = amounts.shape[2], 0.0
    for t in range(rows.shape[0]):
        for d in range(2):
            size = 0.0
            for b in range(L):
                size += abs(amounts[t, d, b])
            if size > 0.0:
                for k in range(rows.shape[2]):
                    norm += touch_row(theta, base + rows[t, d, k] * L, amounts[t, d], 0, L, step, clear)
    return norm


@accumulate.register(ArcPack)
def _(features, i, parts, at, step, theta):
    _scatter(features, i, parts, at, step, theta, False)


@norm_and_clear.register(ArcPack)
def _(features, i, parts, at, scratch):
    return _scatter(features, i, parts, at, 1.0, scratch, True)

"""Features of second-order parts, hashed in the kernel into the same table as those of arcs.

Siblings (h, c, c') and grandparents (g, h, m) join views of three words; "no child" and "no further child" are words of
their own kind. Arcs have the features of :mod:`partwise.parsing._arc_kernels`, so the weights of a first-order model
are a place to start from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear
from partwise.parsing._arc_kernels import (
    ArcPack,
    arc_features,
    beside,
    distance_bin,
    gather_rows,
    label_features,
    prepare,
    scatter_rows,
    sum_rows,
    touch,
    touch_row,
)
from partwise.parsing._word_views import (
    FX,
    L_,
    L_P,
    LP,
    MULTIPLIER,
    N_VIEWS,
    NOTHING,
    PG,
    PK,
    PL_,
    PV,
    X_X,
    X_XX_,
    XX_,
    F,
    P,
    W,
    X,
    salted_views,
    word_views,
)  # fmt: skip
from partwise.structures._second_order_space import SecondOrderSpace, child, layout

__all__ = ["SecondOrderPack"]

#: Views of the head, of the sibling before and of the child.
SIBLING_TEMPLATES = np.array([
    (X, X, X), (P, P, P), (NOTHING, X, X), (NOTHING, P, P), (LP, P, P), (P, LP, P), (P, P, LP), (NOTHING, LP, P),
    (NOTHING, P, LP), (NOTHING, LP, LP), (NOTHING, L_, L_), (X, LP, X), (X, X, LP), (LP, X, X), (FX, FX, P),
    (FX, P, FX), (LP, LP, P), (LP, P, LP), (NOTHING, FX, FX), (NOTHING, W, W), (X, X_X, X), (X, XX_, X), (X, X, X_X),
    (X, X, XX_), (X_XX_, P, P), (PV, PK, PK), (P, PK, PK), (NOTHING, PK, PK), (LP, PK, PK), (P, LP, LP), (LP, LP, LP),
    (X, X_X, X_X), (X, XX_, XX_), (NOTHING, X_XX_, X_XX_), (PV, P, P), (PV, LP, P), (PV, P, LP),
])  # fmt: skip
#: Views of the grandparent, of the head and of the child.
GRAND_TEMPLATES = np.array([
    (X, X, X), (P, P, P), (X, NOTHING, X), (P, NOTHING, P), (LP, P, P), (P, LP, P), (P, P, LP), (LP, NOTHING, P),
    (P, NOTHING, LP), (LP, NOTHING, LP), (L_, NOTHING, L_), (P, LP, LP), (LP, P, LP), (LP, LP, P), (X, LP, X),
    (X, X, LP), (LP, X, X), (FX, FX, P), (P, FX, FX), (F, NOTHING, F), (X, X, X_X), (X, X, XX_), (P, X_XX_, P),
    (X_XX_, P, P), (PV, PV, PK), (PK, PK, PK), (PG, PG, PG), (LP, LP, LP), (X, X_X, X), (X, XX_, X), (X_X, X, X),
    (XX_, X, X), (P, L_P, P), (P, PL_, P), (PV, P, LP), (P, P, L_P), (P, P, PL_),
])  # fmt: skip

SCORE, ADD, CLEAR = 0, 1, 2


class SecondOrderPack(NamedTuple):
    """Words and candidate arcs of all sentences."""

    words: ArcPack
    space: SecondOrderSpace
    siblings: NDArray[np.int64]  # (T, 3)
    grands: NDArray[np.int64]  # (T, 3)


@kernel
def _triples(views, templates, salt):
    """(3, n + 2, T) salted views of the three words of a part; row n + 1 is for no word."""
    out = np.empty((3, views.shape[0], templates.shape[0]), np.uint64)
    for side in range(3):
        salted_views(views, templates[:, side], salt + side, out[side])
    return out


@kernel
def _triple_places(triples, a, b, c, way, apart, shift, places):
    """places ← where the weights of a part of words a, b, c are, each template with their order and with distances.

    ``way`` is the order that the words stand in, ``apart`` a number for how far from each other.
    """
    far = way * np.uint64(2 * apart + 3)
    for t in range(np.uintp(triples.shape[2])):
        key = triples[0, a, t] + triples[1, b, t] + triples[2, c, t]
        places[2 * t] = np.intp(((key + way) * MULTIPLIER) >> shift)
        places[2 * t + 1] = beside(places[2 * t], key + far)


@kernel
def _use(theta, places, count, values, at, step, mode):
    """What a part does with its weights: add them up, add to them, or sum their squares and clear them."""
    if mode == SCORE:
        total = 0.0
        for j in range(np.uintp(count)):
            total += theta[places[j]]
        values[at] = total
        return 0.0
    if values[at] == 0.0:
        return 0.0
    return touch(theta, places, count, step * values[at], mode == CLEAR)


@kernel
def _higher(features, i, lay, theta, values, at, step, mode):
    """Siblings and grandparents."""
    pack = features.words
    n = pack.offsets[i + 1] - pack.offsets[i]
    views = np.empty((n + 2, N_VIEWS), np.uint64)
    word_views(pack, i, views[: n + 1])
    views[n + 1, :] = np.uint64(99)
    siblings, grands = _triples(views, features.siblings, 11), _triples(views, features.grands, 15)
    places = np.empty(2 * max(siblings.shape[2], grands.shape[2]), np.int64)
    shift, count, norm, none = np.uint64(64 - pack.arc_bits), 2 * siblings.shape[2], 0.0, n + 1
    for h in range(n + 1):
        for side in range(2):
            k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
            base, way = at + lay.siblings[h, side], np.uint64(0x51ED270B35AE6A31) * np.uint64(side + 1)
            for j in range(k):
                m = lay.modifiers[child(lay, h, side, j)]
                _triple_places(siblings, h, none, m, way, distance_bin(abs(h - m)), shift, places)
                norm += _use(theta, places, count, values, base + j, step, mode)
                for r in range(j):
                    if mode != SCORE and values[base + k + j * (j - 1) // 2 + r] == 0.0:
                        continue
                    s = lay.modifiers[child(lay, h, side, r)]
                    _triple_places(siblings, h, s, m, way, distance_bin(abs(s - m)), shift, places)
                    norm += _use(theta, places, count, values, base + k + j * (j - 1) // 2 + r, step, mode)
                _triple_places(siblings, h, m, none, way, distance_bin(abs(h - m)), shift, places)
                norm += _use(theta, places, count, values, base + k + k * (k - 1) // 2 + j, step, mode)
    count = 2 * grands.shape[2]
    for h in range(1, n + 1):
        part = at + lay.grands[h]
        for a in range(lay.into[h], lay.into[h + 1]):
            g = lay.heads[a]
            for p in range(lay.out_start[h], lay.out_start[h + 1]):
                if mode == SCORE or values[part] != 0.0:
                    m = lay.modifiers[lay.out[p]]
                    order = (1 if g < h else 0) + (2 if h < m else 0) + (4 if g < m else 0)
                    way = np.uint64(0x51ED270B35AE6A31) * np.uint64(order + 5)
                    apart = 9 * distance_bin(abs(g - h)) + distance_bin(abs(h - m))
                    _triple_places(grands, g, h, m, way, apart, shift, places)
                    norm += _use(theta, places, count, values, part, step, mode)
                part += 1
    return norm


@kernel
def _between(pack, i):
    """(n + 1, n + 1) sets of parts of speech between two words, as 64 bits."""
    start = pack.offsets[i]
    n = pack.offsets[i + 1] - start
    inside = np.zeros((n + 1, n + 1), np.uint64)
    for m in range(n + 1):
        for h in range(m + 2, n + 1):
            inside[m, h] = inside[m, h - 1] | (np.uint64(1) << np.uint64(pack.bits[start + h - 2]))
            inside[h, m] = inside[m, h]
    return inside


@kernel
def _arcs(features, i, lay, theta, values, at, step, mode):
    """Labelled candidate arcs."""
    pack = features.words
    n, L = pack.offsets[i + 1] - pack.offsets[i], pack.n_labels
    heads, modifiers, pair_heads, pair_modifiers, between, head_rows, modifier_rows = prepare(pack, i)
    inside = _between(pack, i)
    base = 1 << pack.arc_bits
    of_head, of_modifier, of_pair = np.zeros((n + 1, 2, L)), np.zeros((n + 1, 2, L)), np.empty(L, theta.dtype)
    if mode == SCORE and L > 1:
        gather_rows(theta, base, L, head_rows, of_head)
        gather_rows(theta, base, L, modifier_rows, of_modifier)
    places, rows = np.empty(2 * heads.shape[1] + 128, np.int64), np.empty(pair_heads.shape[1], np.int64)
    arc_shift, row_shift = np.uint64(64 - pack.arc_bits), np.uint64(64 - pack.row_bits)
    norm = 0.0
    for a in range(lay.heads.shape[0]):
        h, m, o = lay.heads[a], lay.modifiers[a], np.uintp(at + a * L)
        d = 1 if h < m else 0
        total, size = 0.0, 0.0
        if mode != SCORE:
            for b in range(np.uintp(L)):
                total += values[o + b]
                size += abs(values[o + b])
            if size == 0.0:
                continue
        if mode == SCORE or total != 0.0:
            count = arc_features(heads, modifiers, h, m, inside[h, m], between, arc_shift, places)
            if mode == SCORE:
                for j in range(np.uintp(count)):
                    total += theta[places[j]]
            else:
                norm += touch(theta, places, count, step * total, mode == CLEAR)
        if L == 1:
            if mode == SCORE:
                values[o] = total
            continue
        label_features(pair_heads, pair_modifiers, pack.pair_templates[:, 2], h, m, inside[h, m], row_shift, rows)
        if mode == SCORE:
            sum_rows(theta, base, rows, of_pair)
            for b in range(np.uintp(L)):
                values[o + b] = total + of_head[h, d, b] + of_modifier[m, d, b] + of_pair[b]
        else:
            for b in range(np.uintp(L)):
                of_head[h, d, b] += values[o + b]
                of_modifier[m, d, b] += values[o + b]
            for k in range(rows.shape[0]):
                norm += touch_row(theta, base + rows[k] * L, values, o, L, step, mode == CLEAR)
    if mode != SCORE and L > 1:
        norm += scatter_rows(of_head, head_rows, base, step, theta, mode == CLEAR)
        norm += scatter_rows(of_modifier, modifier_rows, base, step, theta, mode == CLEAR)
    return norm


@kernel
def _all_parts(features, i, theta, values, at, step, mode):
    lay = layout(features.space, i)
    norm = _arcs(features, i, lay, theta, values, at, step, mode)
    return norm + _higher(features, i, lay, theta, values, at, step, mode)


@feature_parts.register(SecondOrderPack)
def _(features, i):
    return features.space.parts[i + 1] - features.space.parts[i]


@feature_scores.register(SecondOrderPack)
def _(features, i, theta, scores, at):
    _all_parts(features, i, theta, scores, at, 0.0, SCORE)


@accumulate.register(SecondOrderPack)
def _(features, i, parts, at, step, theta):
    _all_parts(features, i, theta, parts, at, step, ADD)


@norm_and_clear.register(SecondOrderPack)
def _(features, i, parts, at, scratch):
    return _all_parts(features, i, scratch, parts, at, 1.0, CLEAR)

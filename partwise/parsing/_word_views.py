"""What is known of a word, as 64-bit numbers: attributes, views that join them, and templates that join views.

A view is made of the attributes of a word and its neighbours; a template of a view of each word that it looks at.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["ARC_TEMPLATES", "ATTRIBUTES", "N_VIEWS", "PAIR_TEMPLATES", "VIEWS", "WORD_TEMPLATES", "mix", "word_views"]

#: What is known of a word, in this order: hashes of strings.
ATTRIBUTES = ("form", "lemma", "upos", "xpos", "feats", "suffix", "shape", "case", "agreement", "verb form")
FORM, LEMMA, UPOS, XPOS, FEATS, SUFFIX, SHAPE, CASE, AGREEMENT, VERB = range(10)

VIEWS = (
    "", "upos", "xpos", "form", "lemma", "form xpos", "lemma upos", "feats", "xpos-1 xpos", "xpos xpos+1",
    "xpos-1 xpos xpos+1", "upos-1 upos", "upos upos+1", "upos-1 upos upos+1", "feats xpos", "suffix upos",
    "upos-1 upos+1", "lemma feats", "shape", "lemma-1 upos", "upos lemma+1", "xpos xpos+1 xpos+2", "xpos-2 xpos-1 xpos",
    "upos case", "upos agreement", "upos verb form", "lemma-2 upos", "upos lemma+2", "xpos-1 lemma", "lemma xpos+1",
    "lemma-1 lemma", "lemma lemma+1", "upos-2 upos-1 upos", "upos upos+1 upos+2",
)  # fmt: skip
N_VIEWS = 34
(
    NOTHING, P, X, W, L_, WX, LP, F, X_X, XX_, X_XX_, P_P, PP_, P_PP_, FX, S, PP, LF, C, L_P, PL_, XX2, X2X,
    PK, PG, PV, L2P, PL2, X_L, LX_, L_L, LL_, P2P, PP2,
) = range(N_VIEWS)  # fmt: skip

#: Arc templates: (view of the head, view of the modifier).
ARC_TEMPLATES = np.array([
    (P, P), (X, X), (W, NOTHING), (L_, NOTHING), (X, NOTHING), (WX, NOTHING), (NOTHING, W), (NOTHING, L_), (NOTHING, X),
    (NOTHING, WX), (W, X), (X, W), (L_, X), (X, L_), (LP, P), (P, LP), (L_, L_), (LP, LP), (WX, X), (X, WX), (WX, WX),
    (F, F), (FX, X), (X, FX), (FX, FX), (LP, F), (F, LP), (X_X, X), (XX_, X), (X, X_X), (X, XX_), (XX_, X_X),
    (X_X, X_X), (XX_, XX_), (X_X, XX_), (X_XX_, X_XX_), (P_P, P_P), (PP_, P_P), (PP_, PP_), (P_P, PP_), (P_PP_, P_PP_),
    (S, S), (S, X), (X, S), (P_PP_, P), (P, P_PP_), (NOTHING, X_XX_), (X_XX_, NOTHING),
    (L_P, P), (PL_, P), (P, L_P), (P, PL_), (LP, L_P), (XX2, X_X), (XX_, X2X), (X_XX_, LP), (LP, X_XX_), (FX, LP),
    (LP, FX), (PK, PK), (PG, PG), (PV, PK), (PV, P), (P, PK), (PV, PV), (LP, PK), (PV, LP), (P, L2P), (P, PL2),
    (PV, L_P), (PV, PL_), (P, X_L), (P, LX_),
])  # fmt: skip

#: Label templates of one word, each with the direction.
WORD_TEMPLATES = np.array([
    P, X, W, L_, F, FX, X_X, XX_, X_XX_, S, C, LF, L_P, PL_, XX2, X2X, WX, LP, P_P, PP_, P_PP_, PP, PK, PG, PV, L2P,
    PL2, X_L, LX_, L_L, LL_, P2P, PP2,
])  # fmt: skip
#: Label templates of the two words: views of head and modifier, and what they are joined with: the direction (0), the
#: distance (1), the set of parts of speech between (2).
PAIR_TEMPLATES = np.array([
    (P, P, 0), (X, X, 0), (L_, P, 0), (P, L_, 0), (L_, L_, 0), (FX, P, 0), (P, FX, 0), (FX, FX, 0), (P, L_P, 0),
    (L_, L_P, 0), (P, X_XX_, 0), (P, PL_, 0), (P, P, 1), (P, P, 2), (X, X, 1), (LP, P, 1), (P, LP, 1), (LP, PK, 0),
    (PV, PK, 0), (PG, PG, 0), (W, W, 0), (X_X, X_X, 0), (XX_, XX_, 0), (LP, X_X, 0),
])  # fmt: skip

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SPREAD = np.uint64(0xBF58476D1CE4E5B9)


@kernel
def mix(a, b):
    """A number for the pair (a, b)."""
    x = (a ^ (b * MULTIPLIER)) + (b >> np.uint64(31)) + np.uint64(0x632BE59BD9B4E019)
    x = (x ^ (x >> np.uint64(30))) * SPREAD
    return x ^ (x >> np.uint64(27))


@kernel
def _bordered(pack, i, attribute, border):
    """An attribute of the words with two borders on each side and the root: word t is at t + 2, the root at 2."""
    start = pack.offsets[i]
    n = pack.offsets[i + 1] - start
    out = np.empty(n + 5, np.uint64)
    for k in range(3):
        out[k], out[n + 2 + k] = np.uint64(border + k), np.uint64(border + 5 + k)
    out[2] = np.uint64(border + 2)
    for t in range(n):
        out[t + 3] = pack.words[start + t, attribute]
    return out


@kernel
def word_views(pack, i, views):
    """views[t] ← the views of word t, t = 0 being the root; (n + 1, N_VIEWS)."""
    start = pack.offsets[i]
    x, p, lemmas = _bordered(pack, i, XPOS, 10), _bordered(pack, i, UPOS, 20), _bordered(pack, i, LEMMA, 30)
    two, three, four = np.uint64(2), np.uint64(3), np.uint64(4)
    for t in range(views.shape[0]):
        w = f = suffix = shape = case = agreement = verb = np.uint64(7)
        if t > 0:
            row = pack.words[start + t - 1]
            w, f, suffix, shape = row[FORM], row[FEATS], row[SUFFIX], row[SHAPE]
            case, agreement, verb = row[CASE], row[AGREEMENT], row[VERB]
        k = t + 2
        b, r, lemma = x[k], p[k], lemmas[k]
        v = views[t]
        v[NOTHING] = np.uint64(1)
        v[P], v[X], v[W], v[L_], v[F], v[C] = r, b, w, lemma, f, shape
        v[WX], v[LP], v[FX], v[S], v[LF] = mix(w, b), mix(lemma, r), mix(f, b), mix(suffix, r), mix(lemma, f)
        v[PK], v[PG], v[PV] = mix(r, case), mix(r, agreement), mix(r, verb)
        v[X_X], v[XX_] = mix(x[k - 1], b), mix(mix(b, x[k + 1]), two)
        v[P_P], v[PP_], v[PP] = mix(p[k - 1], r), mix(mix(r, p[k + 1]), two), mix(mix(p[k - 1], p[k + 1]), three)
        v[X_XX_], v[P_PP_] = mix(v[X_X], x[k + 1]), mix(v[P_P], p[k + 1])
        v[XX2], v[X2X] = mix(v[XX_], x[k + 2]), mix(mix(v[X_X], four), x[k - 2])
        v[PP2], v[P2P] = mix(v[PP_], p[k + 2]), mix(mix(v[P_P], four), p[k - 2])
        v[L_P], v[PL_] = mix(lemmas[k - 1], r), mix(mix(r, two), lemmas[k + 1])
        v[L2P], v[PL2] = mix(mix(lemmas[k - 2], three), r), mix(mix(r, four), lemmas[k + 2])
        v[X_L], v[LX_] = mix(x[k - 1], lemma), mix(mix(lemma, x[k + 1]), two)
        v[L_L], v[LL_] = mix(lemmas[k - 1], lemma), mix(mix(lemma, lemmas[k + 1]), two)


@kernel
def salted_views(views, kinds, salt, out):
    """out[t, k] ← view kinds[k] of word t, told apart by template and side."""
    for t in range(views.shape[0]):
        for k in range(kinds.shape[0]):
            out[t, k] = mix(views[t, kinds[k]], np.uint64(1000 * salt + k))

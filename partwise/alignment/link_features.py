"""f(x_jk): features of a link from its two words, their positions and the models (Lacoste-Julien 2009, §3.4.1.1).

A *source* is a function of sentence pairs that returns named (J, K) matrices, one per pair: posteriors of a generative
model, association scores, or anything you compute. Every matrix v gives the columns

    v_jk,   v_jk − best other in its row,   v_jk − best other in its column,   v at the diagonal neighbours,

and where two matrices are called "x forward" and "x backward", their product joins them as "x both": the soft
intersection. Places, spelling and frequencies are columns of their own, and so are counts of
gold links, which are ours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from partwise._compile import kernel
from partwise.alignment.gold_lexicon import LEXICAL, lexical_columns
from partwise.alignment.known_words import KnownWords
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, Floats, Ints, SentencePair
from partwise.alignment.orthography import ORTHOGRAPHY, compare_words, first_alike
from partwise.exceptions import InputError

__all__ = ["LinkFeatures", "LinkSource", "source_values"]

LinkSource = Callable[[Sequence[SentencePair]], Mapping[str, Sequence[Floats]]]

#: Steps at which a value in [0, 1] gets an indicator, so that a linear model can bend.
STEPS = (0.02, 0.1, 0.3, 0.5, 0.8, 0.95)

PLACES = (
    "distance of relative places",
    "distance of relative places, squared",
    "distance of relative places, root",
    "both first",
    "both last",
)


def source_values(pairs: Any, edges: Edges, sources: Sequence[Callable[[Any], Any]]) -> dict[str, Floats]:
    """(E,) values of every matrix that the sources give for these pairs, and of the products of both directions."""
    values: dict[str, Floats] = {}
    for source in sources:
        for name, matrices in source(pairs).items():
            if name in values:
                raise InputError(f"two sources call a matrix {name!r}")
            found = edges.flat(matrices, name)
            if not np.isfinite(found).all():
                raise InputError(f"{name} of pair {edges.pair[int(np.argmax(~np.isfinite(found)))]} is not finite")
            values[name] = found
    for name in [name for name in values if name.endswith(" forward")]:
        kind = name.removesuffix(" forward")
        if f"{kind} backward" in values:
            values[f"{kind} both"] = values[name] * values[f"{kind} backward"]
    return values


@kernel
def value_columns(v, offsets, lengths, steps, beside, out, c):
    """out[e, c:] ← v_e, v_e − best other in its row, − best other in its column, neighbours, [v_e > step].

    The neighbours are the two on the diagonal and, with ``beside``, the four with one word in common.

    A best other is 0 where there is none, and so is a neighbour outside the sentences.
    """
    for i in range(lengths.shape[0]):
        n_rows, n_cols, base = lengths[i, 0], lengths[i, 1], offsets[i]
        for side in range(2):
            groups, members = (n_rows, n_cols) if side == 0 else (n_cols, n_rows)
            stride, jump = (n_cols, 1) if side == 0 else (1, n_cols)
            for g in range(groups):
                top, second, holder = -np.inf, -np.inf, -1
                for member in range(members):
                    x = v[base + g * stride + member * jump]
                    if x > top:
                        top, second, holder = x, top, member
                    elif x > second:
                        second = x
                for member in range(members):
                    best = second if member == holder else top
                    e = base + g * stride + member * jump
                    out[e, c + 1 + side] = v[e] - best if best > -np.inf else v[e]
        for j in range(n_rows):
            for k in range(n_cols):
                e = base + j * n_cols + k
                out[e, c] = v[e]
                out[e, c + 3] = v[e - n_cols - 1] if j > 0 and k > 0 else 0.0
                out[e, c + 4] = v[e + n_cols + 1] if j + 1 < n_rows and k + 1 < n_cols else 0.0
                for s in range(steps.shape[0]):
                    out[e, c + 5 + s] = 1.0 if v[e] > steps[s] else 0.0
                if beside:
                    more = c + 5 + steps.shape[0]
                    out[e, more] = v[e - n_cols] if j > 0 else 0.0
                    out[e, more + 1] = v[e + n_cols] if j + 1 < n_rows else 0.0
                    out[e, more + 2] = v[e - 1] if k > 0 else 0.0
                    out[e, more + 3] = v[e + 1] if k + 1 < n_cols else 0.0


class LinkRows(NamedTuple):
    """What the features of the links of some pairs are made of, for the kernels."""

    offsets: Ints  # (n + 1,)
    lengths: Ints  # (n, 2)
    values: Floats  # (matrices, E)
    steps: Floats
    beside: bool  # whether values of links with one word in common are features
    source: Ints  # (E,) numbers of words
    target: Ints
    ranks: tuple[Floats, Floats]
    frequent: tuple[Ints, Ints]
    n_frequent: tuple[int, int]
    spelled: Floats  # (distinct pairs of words, 10)
    alike: Ints  # (E,) the row of an edge in it
    counts: tuple[Floats, Floats, Floats]  # (E, 2) of gold links, or without rows
    shares: tuple[float, float]


@kernel
def link_rows(block, i, out):
    """out ← the features of the links of pair i, row by row."""
    start, stop = block.offsets[i], block.offsets[i + 1]
    n_rows, n_cols = block.lengths[i, 0], block.lengths[i, 1]
    whole, c = np.zeros(1, np.int64), 1
    for n in range(block.values.shape[0]):
        own = block.values[n, start:stop]
        value_columns(own, whole, block.lengths[i : i + 1], block.steps, block.beside, out, c)
        c += 5 + block.steps.shape[0] + (4 if block.beside else 0)
    for j in range(n_rows):
        for k in range(n_cols):
            r = j * n_cols + k
            e = start + r
            apart = abs((j + 0.5) / n_rows - (k + 0.5) / n_cols)
            out[r, 0] = 1.0
            out[r, c] = apart
            out[r, c + 1] = apart * apart
            out[r, c + 2] = math.sqrt(apart)
            out[r, c + 3] = 1.0 if j == 0 and k == 0 else 0.0
            out[r, c + 4] = 1.0 if j == n_rows - 1 and k == n_cols - 1 else 0.0
            for d in range(block.spelled.shape[1]):
                out[r, c + 5 + d] = block.spelled[block.alike[e], d]
            at = c + 5 + block.spelled.shape[1]
            a, b = block.frequent[0][block.source[e]], block.frequent[1][block.target[e]]
            out[r, at] = abs(block.ranks[0][block.source[e]] - block.ranks[1][block.target[e]])
            out[r, at + 1] = 1.0 if (a >= 0) != (b >= 0) else 0.0
            for d in range(block.n_frequent[0] * block.n_frequent[1]):
                out[r, at + 2 + d] = 0.0
            if a >= 0 and b >= 0:
                out[r, at + 2 + a * block.n_frequent[1] + b] = 1.0
    c += 7 + block.spelled.shape[1] + block.n_frequent[0] * block.n_frequent[1]
    if block.counts[0].shape[0] > 0:
        both, first, second = block.counts
        lexical_columns(both[start:stop], first[start:stop], second[start:stop], block.shares, out, c)


@kernel
def all_link_rows(block, out):
    for i in range(block.lengths.shape[0]):
        link_rows(block, i, out[block.offsets[i] : block.offsets[i + 1]])


@kernel
def all_link_scores(block, theta, rows, out):
    """out ← s_jk = w·f(x_jk) of all links; ``rows`` is scratch memory for the pair with the most."""
    for i in range(block.lengths.shape[0]):
        link_rows(block, i, rows)
        start = block.offsets[i]
        for r in range(block.offsets[i + 1] - start):
            total = 0.0
            for d in range(np.uintp(rows.shape[1])):
                total += rows[r, d] * theta[d]
            out[start + r] = total


@lru_cache(maxsize=64)
def _names(
    values: tuple[str, ...], frequent: tuple[tuple[str, ...], tuple[str, ...]], counted: bool
) -> tuple[str, ...]:
    """The names of the columns in the order of :func:`link_rows`."""
    about = [
        "{}", "{} above the rest of its row", "{} above the rest of its column",
        "{} of the neighbour before", "{} of the neighbour after", *(f"{{}} > {step:g}" for step in STEPS),
    ]  # fmt: skip
    if counted:
        about += [f"{{}} of the {side} word {place}" for side in ("source", "target") for place in ("before", "after")]
    pairs = [f"{name} – {other}" for name in frequent[0] for other in frequent[1]]
    names = (
        "link", *(text.format(name) for name in values for text in about), *PLACES, *ORTHOGRAPHY,
        "difference of log ranks", "one frequent, the other not", *pairs, *(LEXICAL if counted else ()),
    )  # fmt: skip
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"two features of links are called {name!r}; rename the matrix of the source")
    return names


@dataclass(frozen=True)
class LinkFeatures:
    """f(x_jk) of every link of some pairs: rows for training, or scores at once, without rows in memory.

    Parameters
    ----------
    edges : of the pairs
    values : (E,) of every matrix
    words : the distinct words of the edges
    own : the gold links of these pairs, if the lexicon has counted them; as in :meth:`GoldLexicon.counts_of`
    """

    edges: Edges
    values: Mapping[str, Floats]
    words: KnownWords
    own: Sequence[GoldLinks] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns. With a lexicon, values of links with one word in common are among them."""
        top = self.words.frequent
        return list(_names(tuple(self.values), (tuple(top[0]), tuple(top[1])), self.words.lexicon is not None))

    def _block(self) -> LinkRows:
        """What the kernels take."""
        edges, words, lexicon = self.edges, self.words, self.words.lexicon
        first, alike = np.empty((2, len(edges)), np.int64)
        distinct = first_alike(edges.source, edges.target, first, alike)
        spelled = np.empty((distinct, len(ORTHOGRAPHY)))
        compare_words(edges.source, edges.target, first, words.source.spelling, words.target.spelling, spelled)
        none = np.zeros((0, 2))
        counts, shares = (none, none, none), (1.0, 1.0)
        if lexicon is not None:
            counts = lexicon.counts_of(edges, (words.source.gold, words.target.gold), self.own)
            shares = lexicon.share
        return LinkRows(
            edges.offsets, edges.lengths, np.stack(list(self.values.values())) if self.values else np.zeros((0, 0)),
            np.array(STEPS), lexicon is not None, edges.source, edges.target,
            (words.source.log_ranks, words.target.log_ranks), (words.source.frequent, words.target.frequent),
            (len(words.frequent[0]), len(words.frequent[1])), spelled, alike, counts, shares,
        )  # fmt: skip

    def rows(self) -> Floats:
        """(E, D)."""
        out = np.empty((len(self.edges), len(self.names)))
        all_link_rows(self._block(), out)
        return out

    def scores(self, theta: Floats) -> Floats:
        """(E,): rows()·θ, θ of the links alone."""
        out = np.empty(len(self.edges))
        most = int(np.diff(self.edges.offsets).max(initial=0))
        all_link_scores(self._block(), theta, np.empty((most, len(self.names))), out)
        return out

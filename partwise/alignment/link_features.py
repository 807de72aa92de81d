"""f(x_jk): features of a link from its two words, their positions and the models (Lacoste-Julien 2009, §3.4.1.1).

A *source* is a function of sentence pairs that returns named (J, K) matrices, one per pair: posteriors of a generative
model, association scores, or anything you compute. Every matrix v gives the columns

    v_jk,   v_jk − best other in its row,   v_jk − best other in its column,   v at the diagonal neighbours,

and where two matrices are called "x forward" and "x backward", their product joins them as "x both": the soft
intersection. Places, spelling and frequencies are columns of their own, and so are counts of
gold links, which are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from partwise._compile import kernel
from partwise.alignment.gold_lexicon import LEXICAL, GoldLexicon
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, Floats, SentencePair
from partwise.alignment.orthography import ORTHOGRAPHY, orthographic_features
from partwise.alignment.word_counts import WordCounts
from partwise.exceptions import InputError

__all__ = ["LinkSource", "link_features", "source_values"]

LinkSource = Callable[[Sequence[SentencePair]], Mapping[str, Sequence[Floats]]]

#: Steps at which a value in [0, 1] gets an indicator, so that a linear model can bend.
STEPS = (0.02, 0.1, 0.3, 0.5, 0.8, 0.95)


def source_values(pairs: Sequence[SentencePair], edges: Edges, sources: Sequence[LinkSource]) -> dict[str, Floats]:
    """(E,) values of every matrix that the sources give, and of the products of both directions."""
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


def _of_values(edges: Edges, values: Mapping[str, Floats], beside: bool) -> tuple[list[str], Floats]:
    about = [
        "{}", "{} above the rest of its row", "{} above the rest of its column",
        "{} of the neighbour before", "{} of the neighbour after", *(f"{{}} > {step:g}" for step in STEPS),
    ]  # fmt: skip
    if beside:
        about += [f"{{}} of the {side} word {place}" for side in ("source", "target") for place in ("before", "after")]
    block = np.empty((len(edges), len(about) * len(values)))
    for n, v in enumerate(values.values()):
        value_columns(v, edges.offsets, edges.lengths, np.array(STEPS), beside, block, n * len(about))
    return [text.format(name) for name in values for text in about], block


def _of_places(edges: Edges) -> tuple[list[str], Floats]:
    lengths = edges.lengths[edges.pair]
    apart = np.abs((edges.j + 0.5) / lengths[:, 0] - (edges.k + 0.5) / lengths[:, 1])
    columns = {
        "distance of relative places": apart,
        "distance of relative places, squared": apart**2,
        "distance of relative places, root": np.sqrt(apart),
        "both first": (edges.j == 0) & (edges.k == 0),
        "both last": (edges.j == lengths[:, 0] - 1) & (edges.k == lengths[:, 1] - 1),
    }
    return list(columns), np.column_stack([column.astype(float) for column in columns.values()])


def _of_spelling(edges: Edges) -> tuple[list[str], Floats]:
    """Computed once for distinct pairs of words."""
    codes = edges.source * max(len(edges.target_words), 1) + edges.target
    distinct, back = np.unique(codes, return_inverse=True)
    a, b = np.divmod(distinct, max(len(edges.target_words), 1))
    return list(ORTHOGRAPHY), orthographic_features(edges.source_words, edges.target_words, a, b)[back]


def _of_frequencies(
    edges: Edges, counts: tuple[Mapping[str, int], Mapping[str, int]], frequent: int
) -> tuple[list[str], Floats]:
    """Difference of the logarithms of the ranks, and which of the most frequent words of each side are linked.

    ``counts`` are of words in lower case.
    """
    logs, tops = [], []
    sides = ((edges.source_words, edges.source), (edges.target_words, edges.target))
    for (words, numbers), side in zip(sides, counts, strict=True):
        table = WordCounts.of(side)
        log = np.log([table.ranks.get(word.lower(), len(table) + 1) for word in words])
        logs.append(log[numbers] / max(np.log(len(table) + 1), 1.0))
        known = {word: place for place, word in enumerate(table.ordered[:frequent])}
        tops.append((list(known), np.array([known.get(word.lower(), -1) for word in words], np.int64)[numbers]))
    (names, top), (other_names, other) = tops
    block = np.zeros((len(edges), 2 + len(names) * len(other_names)))
    block[:, 0] = np.abs(logs[0] - logs[1])
    block[:, 1] = (top >= 0) != (other >= 0)
    both = np.flatnonzero((top >= 0) & (other >= 0))
    block[both, 2 + top[both] * len(other_names) + other[both]] = 1.0
    pairs = [f"{name} – {other_name}" for name in names for other_name in other_names]
    return ["difference of log ranks", "one frequent, the other not", *pairs], block


def link_features(
    edges: Edges,
    values: Mapping[str, Floats],
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    frequent: int = 5,
    lexicon: GoldLexicon | None = None,
    own: Sequence[GoldLinks] | None = None,
) -> tuple[list[str], Floats]:
    """(names, (E, D) matrix) of the features of every edge.

    With a ``lexicon``, counts of gold links and the values of links with one word in common are among them; ``own``: as
    :meth:`GoldLexicon.features`.
    """
    groups = [
        (["link"], np.ones((len(edges), 1))), _of_values(edges, values, lexicon is not None), _of_places(edges),
        _of_spelling(edges), _of_frequencies(edges, counts, frequent),
    ]  # fmt: skip
    if lexicon is not None:
        groups.append((list(LEXICAL), lexicon.features(edges, own)))
    names = [name for group, _ in groups for name in group]
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"two features of links are called {name!r}; rename the matrix of the source")
    return names, np.concatenate([block for _, block in groups], axis=1)

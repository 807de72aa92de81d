"""f(x_jk): what a pair of words, their places and the models say of a link (Lacoste-Julien 2009, §3.4.1.1).

A *source* is a function of sentence pairs that returns named (J, K) matrices, one a pair: posteriors of a generative
model, association scores, or anything of the user's. Every matrix v gives the columns

    v_jk,   v_jk − best other in its row,   v_jk − best other in its column,   v at the diagonal neighbours,

and where two matrices are called "x forward" and "x backward", their product joins them as "x both": the soft
intersection. Places, spelling and frequencies are columns of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from partwise.alignment.beliefs import WordCounts
from partwise.alignment.links import Edges, Floats, SentencePair
from partwise.alignment.orthography import ORTHOGRAPHY, orthographic_features
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


def _best_other(groups: np.ndarray, values: Floats) -> Floats:
    """The largest value of the same group except the edge's own; 0 where it is alone."""
    n = int(groups.max(initial=-1)) + 1
    top = np.full(n, -np.inf)
    np.maximum.at(top, groups, values)
    first = np.zeros(n, np.int64)
    holders = np.flatnonzero(values == top[groups])[::-1]
    first[groups[holders]] = holders  # the first holder of the maximum
    second = np.full(n, -np.inf)
    rest = np.ones(len(values), bool)
    rest[first[groups]] = False
    np.maximum.at(second, groups[rest], values[rest])
    best = np.where(np.arange(len(values)) == first[groups], second[groups], top[groups])
    return np.where(np.isneginf(best), 0.0, best)


def _of_values(edges: Edges, values: Mapping[str, Floats]) -> dict[str, Floats]:
    rows, columns = edges.rows(), edges.columns()
    out: dict[str, Floats] = {}
    for name, v in values.items():
        out[name] = v
        out[f"{name} above the rest of its row"] = v - _best_other(rows, v)
        out[f"{name} above the rest of its column"] = v - _best_other(columns, v)
        out[f"{name} of the neighbour before"] = edges.shifted(v, -1, -1)
        out[f"{name} of the neighbour after"] = edges.shifted(v, 1, 1)
        for step in STEPS:
            out[f"{name} > {step:g}"] = (v > step).astype(float)
    return out


def _of_places(edges: Edges) -> dict[str, Floats]:
    lengths = edges.lengths[edges.pair]
    apart = np.abs((edges.j + 0.5) / lengths[:, 0] - (edges.k + 0.5) / lengths[:, 1])
    first = (edges.j == 0) & (edges.k == 0)
    last = (edges.j == lengths[:, 0] - 1) & (edges.k == lengths[:, 1] - 1)
    return {
        "distance of relative places": apart,
        "distance of relative places, squared": apart**2,
        "distance of relative places, root": np.sqrt(apart),
        "both first": first.astype(float),
        "both last": last.astype(float),
    }


def _of_spelling(edges: Edges) -> dict[str, Floats]:
    """Computed once for distinct pairs of words."""
    codes = edges.source * max(len(edges.target_words), 1) + edges.target
    distinct, back = np.unique(codes, return_inverse=True)
    a, b = np.divmod(distinct, max(len(edges.target_words), 1))
    found = orthographic_features(edges.source_words, edges.target_words, a, b)[back]
    return {name: found[:, c] for c, name in enumerate(ORTHOGRAPHY)}


def _of_frequencies(
    edges: Edges, counts: tuple[Mapping[str, int], Mapping[str, int]], frequent: int
) -> dict[str, Floats]:
    """Difference of the logarithms of the ranks, and which of the most frequent words of each side are linked.

    ``counts`` are of words in lower case.
    """
    out: dict[str, Floats] = {}
    logs, tops = [], []
    sides = ((edges.source_words, edges.source), (edges.target_words, edges.target))
    for (words, numbers), side in zip(sides, counts, strict=True):
        table = WordCounts.of(side)
        log = np.log([table.ranks.get(word.lower(), len(table) + 1) for word in words])
        logs.append(log[numbers] / max(np.log(len(table) + 1), 1.0))
        known = {word: place for place, word in enumerate(table.ordered[:frequent])}
        tops.append((list(known), np.array([known.get(word.lower(), -1) for word in words], np.int64)[numbers]))
    out["difference of log ranks"] = np.abs(logs[0] - logs[1])
    (names, top), (other_names, other) = tops
    out["one frequent, the other not"] = ((top >= 0) != (other >= 0)).astype(float)
    for a, name in enumerate(names):
        for b, other_name in enumerate(other_names):
            out[f"{name} – {other_name}"] = ((top == a) & (other == b)).astype(float)
    return out


def link_features(
    edges: Edges,
    values: Mapping[str, Floats],
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    frequent: int = 5,
) -> tuple[list[str], Floats]:
    """(names, (E, D) matrix) of the features of every edge."""
    columns: dict[str, Floats] = {"link": np.ones(len(edges))}
    groups = (_of_places(edges), _of_spelling(edges), _of_frequencies(edges, counts, frequent))
    for group in (_of_values(edges, values), *groups):
        for name, column in group.items():
            if name in columns:
                raise InputError(f"two features of links are called {name!r}; rename the matrix of the source")
            columns[name] = column
    return list(columns), np.column_stack(list(columns.values()))

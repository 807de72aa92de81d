"""Features of single words and of pairs of links: fertility and first-order interactions (§3.4.1.2 and §3.4.1.3).

Both have signs. A word's second link costs something, and neighbouring links support each other:

    penalty of fertility d of word j   w·f_dj ≥ 0 and not falling with d,        bonus of a pair   w·f_jklm ≥ 0.

So the numbers here are ≥ 0, those of fertility d include those of d − 1, the weights are learned ≥ 0
(``Problem(nonnegative=…)``), and penalties enter the map with a minus.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from partwise._compile import kernel
from partwise.alignment.known_words import KnownWords
from partwise.alignment.links import Edges, Floats, Ints

__all__ = ["PATTERNS", "fertility_features", "pair_features", "with_fertility_scores"]

#: Patterns of two neighbouring links, by the steps (l − j, m − k).
PATTERNS = {"monotone": (1, 1), "inverted": (1, -1), "two target words": (0, 1), "two source words": (1, 0)}

FREQUENCIES = (1e-5, 1e-4, 1e-3, 1e-2)  # borders between the classes of words


def _expected_fertility(edges: Edges, values: Mapping[str, Floats]) -> tuple[list[str], Floats, Floats]:
    """(names, sums over source words, over target words) of every directed posterior.

    Σ over a word's row (or column): how many links a model expects it to have; one row per word, one column per name.
    """
    names = [name for name in values if name.endswith((" forward", " backward", " both"))]
    first, second = (np.zeros((int(n), len(names))) for n in edges.lengths.sum(axis=0))
    for c, name in enumerate(names):
        _sums(values[name], edges.lengths, first[:, c], second[:, c])
    return names, first, second


@kernel
def _sums(v, lengths, rows, columns):
    """rows, columns ← Σ of the rows and of the columns of the matrices of all pairs."""
    e, first, second = 0, 0, 0
    for i in range(lengths.shape[0]):
        for j in range(lengths[i, 0]):
            for k in range(lengths[i, 1]):
                rows[first + j] += v[e]
                columns[second + k] += v[e]
                e += 1
        first += lengths[i, 0]
        second += lengths[i, 1]


@kernel
def _side_scores(places, shares, fertile, borders, expected, n_fertile, levels, theta, out):
    """out[p, d − 2] ← −w·f_dp of every place of one side; see :func:`fertility_features`."""
    soft = 2 + borders.shape[0]
    own = soft + expected.shape[1]
    more = own + n_fertile
    for p in range(places.shape[0]):
        word, group = places[p], 0
        while group < borders.shape[0] and shares[word] >= borders[group]:
            group += 1
        base = theta[0] + theta[1 + group]
        if fertile[word] >= 0:
            base += theta[own + fertile[word]]
        for level in range(levels):
            total = base
            for c in range(expected.shape[1]):
                total += max(level + 2 - expected[p, c], 0.0) * theta[soft + c]
            for further in range(level):
                total += theta[more + further]
            out[p, level] = -total


@kernel
def _joined_scores(links, lengths, first, second, out):
    """out ← of each pair the scores of its links, of its source words, and of its target words."""
    e, p, q, at = 0, 0, 0, 0
    for i in range(lengths.shape[0]):
        for _ in range(lengths[i, 0] * lengths[i, 1]):
            out[at] = links[e]
            e, at = e + 1, at + 1
        for _ in range(lengths[i, 0]):
            for level in range(first.shape[1]):
                out[at] = first[p, level]
                at += 1
            p += 1
        for _ in range(lengths[i, 1]):
            for level in range(second.shape[1]):
                out[at] = second[q, level]
                at += 1
            q += 1


def with_fertility_scores(
    links: Floats, edges: Edges, values: Mapping[str, Floats], words: KnownWords, max_fertility: int, theta: Floats
) -> Floats:
    """Scores of the links, and of each pair's fertilities after its links, as the rows below would give them with θ."""
    names, *expected = _expected_fertility(edges, values)
    scores, begin = [], 0
    for side, facts in enumerate((words.source, words.target)):
        places = edges.target[edges.j == 0] if side else edges.source[edges.k == 0]
        own = len(words.fertile[side])
        width = 2 + len(FREQUENCIES) + len(names) + own + max_fertility - 2
        out = np.empty((len(places), max_fertility - 1))
        _side_scores(
            places, facts.shares, facts.fertile, np.array(FREQUENCIES), expected[side], own, max_fertility - 1,
            theta[begin : begin + width], out,
        )  # fmt: skip
        scores.append(out)
        begin += width
    joined = np.empty(len(links) + scores[0].size + scores[1].size)
    _joined_scores(links, edges.lengths, scores[0], scores[1], joined)
    return joined


def fertility_features(
    edges: Edges, values: Mapping[str, Floats], words: KnownWords, max_fertility: int
) -> tuple[list[str], Ints, Floats]:
    """(names, offsets, −f): rows of pair i are the source words' d = 2..D, then the target words'.

    ``words`` are the distinct words of the edges; those that are ``fertile`` have penalties of their own.
    """
    blocks, names = [], []
    directed, *sums = _expected_fertility(edges, values)
    for side in (0, 1):
        places = edges.target[edges.j == 0] if side else edges.source[edges.k == 0]
        facts = words.target if side else words.source
        share, here = facts.shares[places], facts.fertile[places]
        expected = dict(zip(directed, sums[side].T, strict=True))
        columns = ["more than one link"]
        limits = (0.0, *FREQUENCIES, 2.0)
        columns += [f"… of a word with frequency {low:g} to {high:g}" for low, high in itertools.pairwise(limits)]
        soft = len(columns)
        columns += [f"… where {name} expects d links not" for name in expected]
        own = len(columns)
        columns += [f"… of {word!r}" for word in words.fertile[side]]
        columns += [f"more than {d} links" for d in range(2, max_fertility)]
        block = np.zeros((len(places), max_fertility - 1, len(columns)))
        block[:, :, 0] = 1.0
        block[np.arange(len(places)), :, 1 + np.searchsorted(FREQUENCIES, share, side="right")] = 1.0
        listed = np.flatnonzero(here >= 0)
        block[listed, :, own + here[listed]] = 1.0
        for d in range(2, max_fertility + 1):
            for c, many in enumerate(expected.values()):
                block[:, d - 2, soft + c] = np.clip(d - many, 0.0, None)  # short of d links
            # every further link costs at least as much as the one before
            block[:, d - 2, len(columns) - (max_fertility - 2) : len(columns) - (max_fertility - d)] = 1.0
        blocks.append(block.reshape(-1, len(columns)))
        names += [f"{('source', 'target')[side]}: {name}" for name in columns]
    return (names, *_interleave(edges, blocks, max_fertility - 1))


def _interleave(edges: Edges, blocks: list[Floats], levels: int) -> tuple[Ints, Floats]:
    """The rows of the source words and of the target words of each pair one after the other, in columns apart."""
    sizes = edges.lengths * levels
    offsets = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))]).astype(np.int64)
    out = np.zeros((int(offsets[-1]), blocks[0].shape[1] + blocks[1].shape[1]))
    first = 0
    for side, block in enumerate(blocks):
        shift = offsets[:-1] + (sizes[:, 0] if side else 0)
        within = np.arange(len(block)) - np.repeat(np.cumsum(sizes[:, side]) - sizes[:, side], sizes[:, side])
        out[np.repeat(shift, sizes[:, side]) + within, first : first + block.shape[1]] = -block
        first += block.shape[1]
    return offsets, out


def pair_features(
    edges: Edges, values: Mapping[str, Floats], first: Ints, second: Ints, pattern: Ints
) -> tuple[list[str], Floats]:
    """(names, f): a bonus for each pattern, which grows with the probability of both links under each model.

    ``first`` and ``second`` are numbers of edges, ``pattern`` numbers of ``PATTERNS``.
    """
    columns: dict[str, Floats] = {}
    for number, name in enumerate(PATTERNS):
        here = pattern == number
        columns[name] = here.astype(float)
        for model, strength in values.items():
            v = np.sqrt(np.clip(strength, 0.0, 1.0))
            columns[f"{name}, both by {model}"] = here * np.minimum(v[first], v[second])
            columns[f"{name}, either by {model}"] = here * np.maximum(v[first], v[second])
    return list(columns), np.column_stack(list(columns.values()))

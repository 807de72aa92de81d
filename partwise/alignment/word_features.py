"""Features of single words and of pairs of links: fertility and first-order interactions (§3.4.1.2 and §3.4.1.3).

Both have signs. A word's second link costs something, and neighbouring links support each other:

    penalty of fertility d of word j   w·f_dj ≥ 0 and not falling with d,        bonus of a pair   w·f_jklm ≥ 0.

So the numbers here are ≥ 0, those of fertility d include those of d − 1, the weights are learned ≥ 0
(``Problem(nonnegative=…)``), and penalties enter the map with a minus.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from partwise.alignment.links import Edges, Floats, Ints
from partwise.alignment.word_counts import WordCounts

__all__ = ["PATTERNS", "fertility_features", "pair_features"]

#: Patterns of two neighbouring links, by the steps (l − j, m − k).
PATTERNS = {"monotone": (1, 1), "inverted": (1, -1), "two target words": (0, 1), "two source words": (1, 0)}

FREQUENCIES = (1e-5, 1e-4, 1e-3, 1e-2)  # borders between the classes of words


def _expected_fertility(edges: Edges, values: Mapping[str, Floats], side: int, n_words: int) -> dict[str, Floats]:
    """Σ over a word's row (or column) of every directed posterior: how many links a model expects it to have."""
    groups = edges.columns() if side else edges.rows()
    names = [name for name in values if name.endswith((" forward", " backward", " both"))]
    return {name: np.bincount(groups, values[name], n_words).astype(float) for name in names}


def fertility_features(
    edges: Edges,
    values: Mapping[str, Floats],
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    lexicon: tuple[Sequence[str], Sequence[str]],
    max_fertility: int,
) -> tuple[list[str], Ints, Floats]:
    """(names, offsets, −f): rows of pair i are the source words' d = 2..D, then the target words'.

    ``lexicon`` lists, for each side, words that are common enough to have penalties of their own.
    """
    blocks, names = [], []
    for side in (0, 1):
        words = edges.target_words if side else edges.source_words  # each once: looked up once
        places = edges.target[edges.j == 0] if side else edges.source[edges.k == 0]
        lowered, table = [word.lower() for word in words], WordCounts.of(counts[side])
        known = {word: n for n, word in enumerate(lexicon[side])}
        share = np.array([table.get(word, 0) for word in lowered])[places] / max(table.total, 1)
        here = np.array([known.get(word, -1) for word in lowered], np.int64)[places]
        expected = _expected_fertility(edges, values, side, len(places))
        columns = ["more than one link"]
        limits = (0.0, *FREQUENCIES, 2.0)
        columns += [f"… of a word with frequency {low:g} to {high:g}" for low, high in itertools.pairwise(limits)]
        soft = len(columns)
        columns += [f"… where {name} expects d links not" for name in expected]
        own = len(columns)
        columns += [f"… of {word!r}" for word in lexicon[side]]
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

"""What gold links say of words and pairs of words: how often they stood together, and how often they were linked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, Floats, Ints, SentencePair
from partwise.storage import pack_strings, unpack_strings

__all__ = ["LEXICAL", "GoldLexicon", "gold_marks", "lexical_columns"]

LEXICAL = (
    "gold links per pair of these words",
    "gold links per pair of these words, cautiously",
    "these words never linked in gold pairs",
    "number of gold links of these words",
    "gold links with this word per source word",
    "gold links with this word per target word",
    "share of the source word linked in gold pairs",
    "share of the target word linked in gold pairs",
)

PRIOR = 2.0  # places with the average share of links that every word is given
ENOUGH = 5.0  # pairs of two words after which more of them do not matter
LINKS = 3.0
NONE = np.zeros((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class GoldLexicon:
    """n(e, f) pairs of places and l(e, f) links of two words, n(e) places and l(e) linked ones of a word, lower case.

    Pairs of words that stood together once and were not linked are not kept: they are as good as unseen. Those of a
    source word e are ``columns[rows[e] : rows[e + 1]]``, with their counts (n, l).

    Examples
    --------
    >>> pairs = [("the cat".split(), "le chat".split()), ("the dog".split(), "le chien".split())]
    >>> lexicon = GoldLexicon.of(pairs, [GoldLinks.of([(0, 0), (1, 1)]), GoldLinks.of([(0, 0)])])
    >>> lexicon.pairs["the", "le"], ("dog", "le") in lexicon.pairs, lexicon.source["dog"], lexicon.share
    ((2, 2), False, (1, 0), (0.75, 0.75))
    """

    words: tuple[list[str], list[str]] = ([], [])
    word_counts: tuple[Ints, Ints] = (NONE, NONE)  # (V, 2) of each side
    rows: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    columns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(default_factory=lambda: NONE)

    @classmethod
    def of(cls, pairs: Sequence[SentencePair], gold: Sequence[GoldLinks]) -> Self:
        """Of gold pairs; links that are only possible count neither way."""
        edges = Edges.of(pairs)
        sure, possible = gold_marks(edges, gold)
        (e, first), (f, second) = (_folded(words) for words in (edges.source_words, edges.target_words))
        sides = e[edges.source], f[edges.target]
        width = max(len(second), 1)
        distinct, back = np.unique(sides[0] * width + sides[1], return_inverse=True)
        together, links = np.bincount(back, ~possible), np.bincount(back, sure)
        kept = (together > 1) | (links > 0)
        a, b = np.divmod(distinct[kept], width)
        word_counts = []
        for side, vocabulary in enumerate((first, second)):
            places = edges.columns() if side else edges.rows()
            owner = sides[side][np.unique(places, return_index=True)[1]]  # by one edge of every place
            linked = np.bincount(places, sure) > 0
            both = [np.bincount(owner, minlength=len(vocabulary)), np.bincount(owner, linked, len(vocabulary))]
            word_counts.append(np.column_stack(both).astype(np.int64))
        counts = np.column_stack([together[kept], links[kept]]).astype(np.int64)
        rows = np.searchsorted(a, np.arange(len(first) + 1))
        return cls((first, second), (word_counts[0], word_counts[1]), rows, b, counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GoldLexicon):
            return NotImplemented
        return (self.pairs, self.source, self.target) == (other.pairs, other.source, other.target)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        """The number of every word."""
        first, second = ({word: n for n, word in enumerate(words)} for words in self.words)
        return first, second

    @property
    def pairs(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(n, l) of two words."""
        owners = np.repeat(np.arange(len(self.words[0])), np.diff(self.rows)).tolist()
        cells = zip(owners, self.columns.tolist(), self.counts.tolist(), strict=True)
        return {(self.words[0][e], self.words[1][f]): (n, links) for e, f, (n, links) in cells}

    @property
    def source(self) -> dict[str, tuple[int, int]]:
        """(n, l) of a source word."""
        return {word: (n, k) for word, (n, k) in zip(self.words[0], self.word_counts[0].tolist(), strict=True)}

    @property
    def target(self) -> dict[str, tuple[int, int]]:
        """(n, l) of a target word."""
        return {word: (n, k) for word, (n, k) in zip(self.words[1], self.word_counts[1].tolist(), strict=True)}

    @cached_property
    def share(self) -> tuple[float, float]:
        """Linked places among all, of each side; 1 where there are none."""
        first, second = (
            float(counts[:, 1].sum() / max(counts[:, 0].sum(), 1)) if len(counts) else 1.0
            for counts in self.word_counts
        )
        return first, second

    def counts_of(
        self, edges: Edges, numbers: tuple[Ints, Ints], own: Sequence[GoldLinks] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """(E, 2) n and l of both words, of the source word and of the target word of every edge.

        With ``own``, the links of these very pairs, each pair is left out of the counts; that is what makes weights
        learned on gold pairs hold for others. ``numbers``: of the distinct words of the edges, −1 for unknown ones.
        """
        both, first, second = np.zeros((3, len(edges), 2))
        _find(
            self.rows, self.columns, self.counts, *self.word_counts, edges.source, edges.target, *numbers,
            both, first, second,
        )  # fmt: skip
        if own is not None:
            marks = gold_marks(edges, own)
            source, target = numbers[0][edges.source], numbers[1][edges.target]
            both -= _own_pairs(edges, source * max(len(self.words[1]), 1) + target, marks)
            first -= _own_words(edges, 0, source, marks[0])
            second -= _own_words(edges, 1, target, marks[0])
            both = np.maximum(both, 0.0)
            both[(both[:, 0] < 2) & (both[:, 1] == 0)] = 0.0  # as one that is not kept
        return both, first, second

    def to_state(self) -> dict[str, NDArray[Any]]:
        """Arrays for a file."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, words, counts in zip(("source", "target"), self.words, self.word_counts, strict=True):
            arrays[f"{name}_bytes"], arrays[f"{name}_offsets"] = pack_strings(words)
            arrays[f"{name}_counts"] = counts.astype(np.int32)
        owners = np.repeat(np.arange(len(self.words[0])), np.diff(self.rows))
        arrays["pairs"] = np.column_stack([owners, self.columns, self.counts]).astype(np.int32)
        return arrays

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """What :meth:`to_state` gave, with pairs in any order."""
        sides = [unpack_strings(arrays[f"{name}_bytes"], arrays[f"{name}_offsets"]) for name in ("source", "target")]
        counts = [arrays[f"{name}_counts"].astype(np.int64) for name in ("source", "target")]
        pairs = arrays["pairs"].astype(np.int64)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        rows = np.searchsorted(pairs[:, 0], np.arange(len(sides[0]) + 1))
        columns, both = np.ascontiguousarray(pairs[:, 1]), np.ascontiguousarray(pairs[:, 2:])
        return cls((sides[0], sides[1]), (counts[0], counts[1]), rows, columns, both)


@kernel
def _find(
    rows, columns, counts, word_counts, other_counts, source, target, numbers, other_numbers, both, first, second
):
    """both[e], first[e], second[e] ← counts of the words of every edge; 0 stays where there are none."""
    for e in range(source.shape[0]):
        a, b = numbers[source[e]], other_numbers[target[e]]
        if a >= 0:
            first[e, 0], first[e, 1] = word_counts[a, 0], word_counts[a, 1]
        if b >= 0:
            second[e, 0], second[e, 1] = other_counts[b, 0], other_counts[b, 1]
        if a >= 0 and b >= 0:
            low, high, end = rows[a], rows[a + 1], rows[a + 1]
            while low < high:
                middle = (low + high) >> 1
                if columns[middle] < b:
                    low = middle + 1
                else:
                    high = middle
            if low < end and columns[low] == b:
                both[e, 0], both[e, 1] = counts[low, 0], counts[low, 1]


@kernel
def lexical_columns(both, first, second, shares, out, c):
    """out[e, c:] ← the columns ``LEXICAL`` from the counts of pairs of words and of words."""
    for e in range(both.shape[0]):
        n, links = both[e, 0], both[e, 1]
        out[e, c] = links / (n + 1.0)
        out[e, c + 1] = links / (n + ENOUGH)
        out[e, c + 2] = min(n, ENOUGH) / ENOUGH if links == 0 else 0.0
        out[e, c + 3] = min(links, LINKS) / LINKS
        out[e, c + 4] = links / (first[e, 0] + 1.0)
        out[e, c + 5] = links / (second[e, 0] + 1.0)
        out[e, c + 6] = (first[e, 1] + PRIOR * shares[0]) / (first[e, 0] + PRIOR)
        out[e, c + 7] = (second[e, 1] + PRIOR * shares[1]) / (second[e, 0] + PRIOR)


def _folded(words: Sequence[str]) -> tuple[Ints, list[str]]:
    """The number of each word among the distinct ones in lower case, and these."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(word.lower(), len(numbers)) for word in words]
    return np.array(found, np.int64), list(numbers)


def _own_pairs(edges: Edges, codes: Ints, marks: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> Floats:
    """(E, 2): of how many cells and links of its own pair the two words of an edge are."""
    keys = edges.pair * (int(codes.max(initial=0)) + 1) + codes
    _, back = np.unique(keys, return_inverse=True)
    sure, possible = marks
    return np.column_stack([np.bincount(back, ~possible)[back], np.bincount(back, sure)[back]])


def _own_words(edges: Edges, side: int, words: Ints, marked: NDArray[np.bool_]) -> Floats:
    """(E, 2): how often the word of an edge stands in its own pair, and how often linked."""
    places = edges.columns() if side else edges.rows()
    first = np.unique(places, return_index=True)[1]  # one edge of every place
    sure = np.bincount(places, marked) > 0
    _, back = np.unique(edges.pair * (int(words.max(initial=0)) + 1) + words, return_inverse=True)
    own_word = back[first]
    size = int(back.max(initial=-1)) + 1
    return np.column_stack([np.bincount(own_word, minlength=size)[back], np.bincount(own_word, sure, size)[back]])


def gold_marks(edges: Edges, own: Sequence[GoldLinks]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(E,) whether an edge is a sure link, and whether it is only possible."""
    sure, possible = np.zeros(len(edges), bool), np.zeros(len(edges), bool)
    for links, start, width in zip(own, edges.offsets, edges.lengths[:, 1], strict=False):
        for marks, some in ((sure, links.sure), (possible, links.possible)):
            marks[[start + j * width + k for j, k in some]] = True
    return sure, possible & ~sure

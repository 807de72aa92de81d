"""What gold links say of words and pairs of words: how often they stood together, and how often they were linked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, Floats, SentencePair
from partwise.storage import pack_strings, unpack_strings

__all__ = ["LEXICAL", "GoldLexicon", "gold_marks"]

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


@dataclass(frozen=True)
class GoldLexicon:
    """n(e, f) pairs of places and l(e, f) links of two words, n(e) places and l(e) linked ones of a word, lower case.

    Pairs of words that stood together once and were not linked are not kept: they are as good as unseen.

    Examples
    --------
    >>> pairs = [("the cat".split(), "le chat".split()), ("the dog".split(), "le chien".split())]
    >>> lexicon = GoldLexicon.of(pairs, [GoldLinks.of([(0, 0), (1, 1)]), GoldLinks.of([(0, 0)])])
    >>> lexicon.pairs["the", "le"], ("dog", "le") in lexicon.pairs, lexicon.source["dog"], lexicon.share
    ((2, 2), False, (1, 0), (0.75, 0.75))
    """

    pairs: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    source: dict[str, tuple[int, int]] = field(default_factory=dict)
    target: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Sequence[SentencePair], gold: Sequence[GoldLinks]) -> Self:
        """Of gold pairs; links that are only possible count neither way."""
        together: Counter[tuple[str, str]] = Counter()
        links: Counter[tuple[str, str]] = Counter()
        places: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        linked: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        for pair, marked in zip(pairs, gold, strict=True):
            source, target = ([word.lower() for word in words] for words in pair)
            together.update((e, f) for e in source for f in target)
            for side, words in enumerate((source, target)):
                places[side].update(words)
                linked[side].update(words[place] for place in {link[side] for link in marked.sure})
            links.update((source[j], target[k]) for j, k in marked.sure)
            together.subtract((source[j], target[k]) for j, k in marked.possible - marked.sure)
        kept = {key: (n, links[key]) for key, n in together.items() if n > 1 or links[key]}
        return cls(kept, *({word: (n, linked[side][word]) for word, n in places[side].items()} for side in (0, 1)))

    @cached_property
    def share(self) -> tuple[float, float]:
        """Linked places among all, of each side; 1 where there are none."""
        first, second = (
            sum(linked for _, linked in side.values()) / max(sum(n for n, _ in side.values()), 1) if side else 1.0
            for side in (self.source, self.target)
        )
        return first, second

    def features(self, edges: Edges, own: Sequence[GoldLinks] | None = None) -> Floats:
        """(E, 8) columns ``LEXICAL``; with ``own``, the links of these very pairs, each pair is left out of the counts.

        Leaving out is what makes weights learned on gold pairs hold for others.
        """
        e, f = ([word.lower() for word in words] for words in (edges.source_words, edges.target_words))
        a, b = _distinct(e), _distinct(f)
        source, target = a[edges.source], b[edges.target]
        n_source, n_target = (
            np.array([side.get(w, (0, 0)) for w in dict.fromkeys(words)], float).reshape(-1, 2)
            for words, side in ((e, self.source), (f, self.target))
        )
        width = max(len(n_target), 1)
        codes = source * width + target
        distinct, back = np.unique(codes, return_inverse=True)
        first, second = list(dict.fromkeys(e)), list(dict.fromkeys(f))
        found = [self.pairs.get((first[code // width], second[code % width]), (0, 0)) for code in distinct.tolist()]
        both = np.array(found, float).reshape(-1, 2)[back]
        word = [n_source[source], n_target[target]]
        if own is not None:
            both -= _own_pairs(edges, codes, own)
            word = [word[side] - _own_words(edges, side, (source, target)[side], own) for side in (0, 1)]
            both = np.maximum(both, 0.0)
            both[(both[:, 0] < 2) & (both[:, 1] == 0)] = 0.0  # as one that is not kept
        n, links = both.T
        shares = [
            (counts[:, 1] + PRIOR * share) / (counts[:, 0] + PRIOR)
            for counts, share in zip(word, self.share, strict=True)
        ]
        return np.column_stack([
            links / (n + 1.0), links / (n + ENOUGH), (links == 0) * np.minimum(n, ENOUGH) / ENOUGH,
            np.minimum(links, LINKS) / LINKS, links / (word[0][:, 0] + 1.0), links / (word[1][:, 0] + 1.0), *shares,
        ])  # fmt: skip

    def to_state(self) -> dict[str, NDArray[Any]]:
        """Arrays for a file."""
        numbers = [{word: n for n, word in enumerate(side)} for side in (self.source, self.target)]
        arrays: dict[str, NDArray[Any]] = {}
        for name, side in (("source", self.source), ("target", self.target)):
            arrays[f"{name}_bytes"], arrays[f"{name}_offsets"] = pack_strings(list(side))
            arrays[f"{name}_counts"] = np.array(list(side.values()), np.int32).reshape(-1, 2)
        rows = [(numbers[0][e], numbers[1][f], *counts) for (e, f), counts in self.pairs.items()]
        arrays["pairs"] = np.array(rows, np.int32).reshape(-1, 4)
        return arrays

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """What :meth:`to_state` gave."""
        sides = [unpack_strings(arrays[f"{name}_bytes"], arrays[f"{name}_offsets"]) for name in ("source", "target")]
        counts = [map(tuple, arrays[f"{name}_counts"].tolist()) for name in ("source", "target")]
        pairs = {(sides[0][e], sides[1][f]): (n, links) for e, f, n, links in arrays["pairs"].tolist()}
        return cls(pairs, *(dict(zip(*both, strict=True)) for both in zip(sides, counts, strict=True)))


def _distinct(words: Sequence[str]) -> NDArray[np.int64]:
    """The number of each word among the distinct ones, in the order of ``dict.fromkeys``."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)


def _own_pairs(edges: Edges, codes: NDArray[np.int64], own: Sequence[GoldLinks]) -> Floats:
    """(E, 2): of how many cells and links of its own pair the two words of an edge are."""
    keys = edges.pair * (int(codes.max(initial=0)) + 1) + codes
    _, back = np.unique(keys, return_inverse=True)
    sure, open_ = gold_marks(edges, own)
    return np.column_stack([np.bincount(back, ~open_)[back], np.bincount(back, sure)[back]])


def _own_words(edges: Edges, side: int, words: NDArray[np.int64], own: Sequence[GoldLinks]) -> Floats:
    """(E, 2): how often the word of an edge stands in its own pair, and how often linked."""
    places = edges.columns() if side else edges.rows()
    first = np.unique(places, return_index=True)[1]  # one edge of every place
    sure = np.bincount(places, gold_marks(edges, own)[0]) > 0
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

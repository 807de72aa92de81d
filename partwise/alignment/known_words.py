"""What the features say of single words: looked up once for every distinct word of a text, not for every link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from partwise.alignment.gold_lexicon import GoldLexicon
from partwise.alignment.links import Floats, Ints
from partwise.alignment.orthography import Spelling, spelling
from partwise.alignment.word_counts import WordCounts

__all__ = ["KnownWords", "WordFacts"]


class WordFacts(NamedTuple):
    """Of each of V distinct words of one side."""

    log_ranks: Floats  # (V,) logarithm of the rank by frequency, divided by that of the vocabulary's size
    frequent: Ints  # (V,) place among the most frequent words, −1 for others
    shares: Floats  # (V,) relative frequency
    fertile: Ints  # (V,) number among the words with fertility penalties of their own, −1 for others
    gold: Ints  # (V,) number in the counts of gold links, −1 for others
    spelling: Spelling


class KnownWords(NamedTuple):
    """The words of both sides, with the names of those that have features of their own."""

    source: WordFacts
    target: WordFacts
    frequent: tuple[list[str], list[str]]
    fertile: tuple[list[str], list[str]]
    lexicon: GoldLexicon | None

    @classmethod
    def of(
        cls,
        words: tuple[Sequence[str], Sequence[str]],
        counts: tuple[Mapping[str, int], Mapping[str, int]],
        frequent: int = 5,
        fertile: tuple[Sequence[str], Sequence[str]] = ((), ()),
        lexicon: GoldLexicon | None = None,
    ) -> Self:
        """Of distinct source and target words; ``counts``, ``fertile`` and ``lexicon`` are of words in lower case.

        Examples
        --------
        >>> known = KnownWords.of((["The", "house"], ["la"]), ({"the": 9, "house": 2}, {"la": 4}), frequent=1)
        >>> known.source.frequent.tolist(), known.frequent
        ([0, -1], (['the'], ['la']))
        """
        facts, tops = [], []
        for side in (0, 1):
            lower = [word.lower() for word in words[side]]
            table = WordCounts.of(counts[side])
            last, ranks = len(table) + 1, table.ranks
            log = np.log(np.array([ranks.get(word, last) for word in lower], float))
            tops.append(table.ordered[:frequent])
            numbers = {} if lexicon is None else lexicon.numbers[side]
            facts.append(
                WordFacts(
                    log / max(np.log(last), 1.0),
                    _places(tops[side], lower),
                    np.array([table.get(word, 0) for word in lower], float) / max(table.total, 1),
                    _places(fertile[side], lower),
                    np.array([numbers.get(word, -1) for word in lower], np.int64),
                    spelling(words[side]),
                )
            )
        return cls(facts[0], facts[1], (tops[0], tops[1]), (list(fertile[0]), list(fertile[1])), lexicon)


def _places(listed: Sequence[str], words: Sequence[str]) -> Ints:
    """The place of each word in a list, −1 where it is not there."""
    place = {word: n for n, word in enumerate(listed)}
    return np.array([place.get(word, -1) for word in words], np.int64)

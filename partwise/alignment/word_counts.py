"""Frequencies of words in raw text, as features see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from partwise.alignment.links import SentencePair

__all__ = ["WordCounts", "common_words", "word_counts"]


class WordCounts(Mapping[str, int]):
    """Frequencies of words with what is derived from them, computed once.

    Examples
    --------
    >>> counts = WordCounts({"of": 3, "the": 9, "house": 3})
    >>> counts.ordered, counts.ranks["of"], counts.total, counts.get("cat", 0)
    (['the', 'house', 'of'], 3, 15, 0)
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> WordCounts:
        """The counts themselves where they are of this class already."""
        return counts if isinstance(counts, WordCounts) else cls(counts)

    def __getitem__(self, word: str) -> int:
        return self._counts[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @cached_property
    def ordered(self) -> list[str]:
        """The words, the most frequent first; those of one frequency by name."""
        return sorted(self._counts, key=lambda word: (-self._counts[word], word))

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The place of every word in that order, from 1."""
        return {word: place for place, word in enumerate(self.ordered, start=1)}

    @cached_property
    def total(self) -> int:
        """Σ of the counts."""
        return sum(self._counts.values())


def word_counts(generative: Any) -> tuple[WordCounts, WordCounts]:
    """The number of sentence pairs of the raw text in which each source and each target word occurs, in lower case."""
    sides = []
    for counts in generative.word_counts():
        merged: Counter[str] = Counter()
        for word, n in counts.items():
            merged[word.lower()] += n
        sides.append(WordCounts(merged))
    return sides[0], sides[1]


def common_words(pairs: Sequence[SentencePair], least: int) -> tuple[list[str], list[str]]:
    """The source and the target words, in lower case, that occur in these pairs at least this often."""
    sides = [Counter(word.lower() for pair in pairs for word in pair[side]) for side in (0, 1)]
    first, second = (sorted(word for word, n in side.items() if n >= least) for side in sides)
    return first, second

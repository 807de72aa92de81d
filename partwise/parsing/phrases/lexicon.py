"""The parts of speech a word may have: those seen with it; for rare and unknown words, those its form suggests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError

__all__ = ["Lexicon", "word_classes"]

#: Words seen at most this often stand for unknown words.
RARE = 2
#: Words seen at least this often have no other tags than those that they were seen with.
FREQUENT = 20
#: How many observations the coarser estimate is worth.
TRUST = 3.0


def word_classes(word: str, first: bool) -> tuple[str, ...]:
    """Classes of a word from coarse to fine: letter case, digits and hyphens, then with its last one to three letters.

    Examples
    --------
    >>> word_classes("Trading-based", False)
    ('Xx-', 'Xx-:d', 'Xx-:ed', 'Xx-:sed')
    """
    shape = "X" if word[:1].isupper() else ""
    shape += "1st" if first and shape else ""
    shape += "X" if word[1:].isupper() and len(word) > 2 else ""
    shape += "x" if any(c.islower() for c in word) else ""
    shape += "d" if any(c.isdigit() for c in word) else ""
    shape += "-" if "-" in word[1:] else ""
    shape += "." if "." in word else ""
    low = word.lower()
    return (shape, *(f"{shape}:{low[-k:]}" for k in (1, 2, 3)))


class Lexicon:
    """p(tag | word)/p(tag), which is p(word | tag) but for a factor that all tags share.

    p(tag | word) is the share of the word's occurrences, drawn towards p(tag | class) where they are few. That comes
    from rare words, each class drawn towards the next coarser one.

    Parameters
    ----------
    n_tags : int

    Examples
    --------
    >>> lexicon = Lexicon(2).fit([(["cats", "sleep"], [0, 1]), (["dogs", "run"], [0, 1])])
    >>> [bool(p[0] > p[1]) for p in (lexicon.probabilities("mats", False), lexicon.probabilities("sleep", False))]
    [True, False]
    """

    def __init__(self, n_tags: int) -> None:
        self.n_tags = n_tags
        self.words: dict[str, dict[int, int]] = {}
        self.classes: dict[str, NDArray[np.float64]] = {}
        self.tag_counts = np.zeros(n_tags)
        self._cache: dict[tuple[str, bool], NDArray[np.float64]] = {}

    def fit(self, sentences: Iterable[tuple[Sequence[str], Sequence[int]]]) -> Lexicon:
        """Count words with their tags."""
        listed = list(sentences)
        if not listed:
            raise InputError("there are no sentences to build a lexicon from")
        counts: dict[str, Counter[int]] = {}
        for words, tags in listed:
            for word, tag in zip(words, tags, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
                self.tag_counts[tag] += 1
        self.words = {word: dict(found) for word, found in counts.items()}
        for words, tags in listed:
            for t, (word, tag) in enumerate(zip(words, tags, strict=True)):
                if sum(self.words[word].values()) <= RARE:
                    for name in ("", *word_classes(word, t == 0)):
                        self.classes.setdefault(name, np.zeros(self.n_tags))[tag] += 1
        self._cache = {}
        return self

    def probabilities(self, word: str, first: bool) -> NDArray[np.float64]:
        """p(tag | word), shape (n_tags,)."""
        key = (word, first)
        if key not in self._cache:
            self._cache[key] = self._estimate(word, first)
        return self._cache[key]

    def _estimate(self, word: str, first: bool) -> NDArray[np.float64]:
        p = self.tag_counts / self.tag_counts.sum()
        for name in ("", *word_classes(word, first)):
            counts = self.classes.get(name)
            if counts is not None:
                p = (counts + TRUST * p) / (counts.sum() + TRUST)
        seen = self.words.get(word, {})
        if first and word not in self.words:
            seen = self.words.get(word[:1].lower() + word[1:], {})  # a known word at the head of a sentence
        if seen:
            counts = np.zeros(self.n_tags)
            counts[list(seen)] = list(seen.values())
            p = counts / counts.sum() if counts.sum() >= FREQUENT else (counts + TRUST * p) / (counts.sum() + TRUST)
        result: NDArray[np.float64] = p
        return result

    def weights(self, word: str, first: bool, least: float = 1e-4) -> tuple[list[int], list[float]]:
        """(tags, p(tag | word)/p(tag)) of the tags with at least that share of the most probable one."""
        p = self.probabilities(word, first)
        used = np.flatnonzero((p >= least * p.max()) & (self.tag_counts > 0))
        ratio = p[used] / (self.tag_counts[used] / self.tag_counts.sum())
        return used.tolist(), (ratio / ratio.max()).tolist()

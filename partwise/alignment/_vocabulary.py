"""Words of the two sides as numbers: lower case if asked for, frequent words first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, new_lookup

__all__ = ["WordIndex"]


class WordIndex:
    """Numbers of words, ordered by frequency: what is used together then lies together in the tables.

    Examples
    --------
    >>> side = CodedColumn(np.array([0, 1, 2, 1], np.int32), ["The", "cat", "the"], np.array([0, 4]))
    >>> index, codes = WordIndex.learn(side, lowercase=True)
    >>> index.words, codes.codes.tolist()
    (['the', 'cat'], [0, 1, 0, 1])
    """

    def __init__(self, words: Sequence[str], lowercase: bool) -> None:
        self.words, self.lowercase = list(words), lowercase
        self._number = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def learn(cls, side: CodedColumn, lowercase: bool) -> tuple[WordIndex, CodedColumn]:
        """The index of a side's words, and the side in its numbers."""
        lookup = new_lookup()
        fold = np.fromiter((lookup[w.lower() if lowercase else w] for w in side.vocab), np.int64, len(side.vocab))
        counts = np.bincount(fold[side.codes], minlength=len(lookup))
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] > 0]
        rank = np.full(len(lookup), -1, np.int32)
        rank[order] = np.arange(len(order))
        words = list(lookup)
        index = cls([words[k] for k in order], lowercase)
        return index, CodedColumn(rank[fold][side.codes], index.words, side.offsets)

    def __len__(self) -> int:
        return len(self.words)

    def number(self, word: str) -> int:
        """The number of a word, −1 where it is unknown."""
        return self._number.get(word.lower() if self.lowercase else word, -1)

    def recode(self, side: CodedColumn) -> CodedColumn:
        """A side in the numbers of this index; unknown words are −1."""
        numbers: NDArray[np.int32] = np.fromiter(map(self.number, side.vocab), np.int32, len(side.vocab))
        return CodedColumn(numbers[side.codes] if len(numbers) else side.codes, self.words, side.offsets)

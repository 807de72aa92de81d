"""A tag dictionary: the tags of each word, the most usual one, and those of endings for unknown words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn
from partwise.exceptions import StorageError

__all__ = ["TagDictionary"]

#: A tag that a word has more rarely is left out of the word's class.
SHARE = 0.05


class TagDictionary:
    """Counts of tags per word, and of tags per ending of rare words.

    Parameters
    ----------
    counts : {word: {tag: how often}}
    frequent : int
        Words seen less often are rare: endings are learned from them, as they are most like unknown words.
    """

    def __init__(self, counts: dict[str, dict[int, int]], frequent: int) -> None:
        self.counts, self.frequent = counts, frequent
        rare: Counter[int] = Counter()
        endings: dict[str, Counter[int]] = defaultdict(Counter)
        for word, own in counts.items():
            if sum(own.values()) < frequent:
                rare.update(own)
                endings[ending(word)].update(own)
        self.rare = sorted(rare)
        self.endings = {end: _first(own) for end, own in endings.items()}

    @classmethod
    def learn(cls, words: CodedColumn, tags: NDArray[np.int64], frequent: int, rows: Any = slice(None)) -> Self:
        """The dictionary of these words (all, or some ``rows``) with these tags."""
        n_tags = int(tags.max(initial=0)) + 1
        pairs, times = np.unique(words.codes[rows].astype(np.int64) * n_tags + tags[rows], return_counts=True)
        counts: dict[str, dict[int, int]] = {}
        for pair, number in zip(pairs.tolist(), times.tolist(), strict=True):
            counts.setdefault(words.vocab[pair // n_tags], {})[pair % n_tags] = number
        return cls(counts, frequent)

    def known(self) -> list[str]:
        """The frequent words, sorted."""
        return sorted(word for word, own in self.counts.items() if sum(own.values()) >= self.frequent)

    def usual(self, word: str) -> int:
        """The most usual tag of a word, or of its ending if it is unknown; −1 if that is unknown too."""
        own = self.counts.get(word)
        return self.endings.get(ending(word), -1) if own is None else _first(own)

    def tag_class(self, word: str, names: list[str]) -> str:
        """The tags of a word, commonest first, with ``~`` if it is rare; ``?`` if it is unknown."""
        own = self.counts.get(word)
        if own is None:
            return "?"
        total = sum(own.values())
        kept = sorted((tag for tag, count in own.items() if count >= SHARE * total), key=lambda tag: (-own[tag], tag))
        return "|".join(names[tag] for tag in kept) + ("~" if total < self.frequent else "")

    # storage

    def to_state(self) -> dict[str, Any]:
        """A header: parallel lists of words, tags and counts."""
        return {"words": list(self.counts), "tags": [list(own) for own in self.counts.values()],
                "counts": [list(own.values()) for own in self.counts.values()]}  # fmt: skip

    @classmethod
    def from_state(cls, header: dict[str, Any], frequent: int, n_tags: int) -> Self:
        columns = [header[name] for name in ("words", "tags", "counts")]
        if len({len(column) for column in columns}) != 1:
            raise StorageError("the dictionary's words, tags and counts are not equally many")
        counts: dict[str, dict[int, int]] = {}
        for word, tags, times in zip(*columns, strict=True):
            if not tags or len(tags) != len(times) or any(not 0 <= tag < n_tags for tag in tags) or min(times) < 1:
                raise StorageError(f"the word {word!r} has tags that the model does not know")
            counts[str(word)] = dict(zip(map(int, tags), map(int, times), strict=True))
        return cls(counts, frequent)


def ending(word: str) -> str:
    """What stands for a rare word: its last three letters and whether it is capitalised or has digits."""
    kind = "d" if any(map(str.isdigit, word)) else "A" if word[:1].isupper() else "a"
    return kind + word[-3:].lower()


def folds(offsets: NDArray[np.int64], n: int) -> Iterable[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """(tokens of a fold, tokens of the others) for n folds of neighbouring sentences."""
    sentences = len(offsets) - 1
    edges = offsets[np.linspace(0, sentences, min(n, sentences) + 1).astype(np.int64)]
    for start, stop in pairwise(edges.tolist()):
        inside = np.zeros(int(offsets[-1]), np.bool_)
        inside[start:stop] = True
        yield inside, ~inside


def _first(own: dict[int, int]) -> int:
    return max(own, key=lambda tag: (own[tag], -tag))

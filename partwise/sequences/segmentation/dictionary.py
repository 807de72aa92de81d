"""A tag dictionary: the tags of each word, the most usual one, and those of endings for unknown words."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from itertools import permutations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn
from partwise.exceptions import StorageError

__all__ = ["TagDictionary"]

#: A tag that a word has more rarely is left out of the word's class.
SHARE = 0.05
#: If this share of the words with a tag have another one as well, a word with the first may have the second.
NEAR = 0.01
#: Endings of at most this many letters are taken off a word, or added to it, in search of a word that is known.
LONGEST = 4
#: What is left of a word has at least this many letters.
SHORTEST = 3


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
        self.longer: dict[str, set[int]] = defaultdict(set)
        for word, own in counts.items():
            for n in range(1, min(LONGEST, len(word) - SHORTEST) + 1):
                self.longer[word[:-n]].add(_first(own))

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

    def allowed(self, word: str, closed: int) -> list[int]:
        """The tags that a word may have: of one seen ``closed`` times those that it had, of one seen less often those
        that words with one of its tags had as well, of a rare one those that rare words had."""
        own = self.counts.get(word, {})
        total = sum(own.values())
        if total < self.frequent:
            return self.rare
        return sorted(own) if total >= closed else sorted(set(own).union(*(self.near[tag] for tag in own)))

    @cached_property
    def near(self) -> dict[int, set[int]]:
        """Tags that the frequent words with a tag have as well, a share of NEAR of them at least."""
        single: Counter[int] = Counter()
        pairs: Counter[tuple[int, int]] = Counter()
        for own in self.counts.values():
            if sum(own.values()) >= self.frequent:
                single.update(own)
                pairs.update(permutations(own, 2))
        found: dict[int, set[int]] = {tag: set() for own in self.counts.values() for tag in own}
        for (a, b), times in pairs.items():
            if times >= NEAR * single[a]:
                found[a].add(b)
        return found

    def stem(self, word: str, names: list[str]) -> str:
        """The usual tag of the longest known word that is left when an ending is taken off, with the ending.

        An e may have been lost before the ending. Of words with a hyphen, the tag of what follows the last hyphen; of
        others without such a stem, that of what follows the shortest beginning that leaves a known word. Else ``-``.
        """
        head, hyphen, tail = word.rpartition("-")
        if hyphen and head and tail:
            own = self.counts.get(tail)
            return "-" + (names[_first(own)] if own else "?")
        low = word.lower()
        for n in range(1, min(LONGEST, len(word) - SHORTEST) + 1):
            for stem in (word[:-n], low[:-n], low[:-n] + "e"):
                own = self.counts.get(stem)
                if own is not None and stem != low:
                    return f"{names[_first(own)]}+{low[-n:]}"
        for n in range(2, min(LONGEST, len(word) - SHORTEST) + 1):
            own = self.counts.get(low[n:])
            if own is not None:
                return f"{low[:n]}+{names[_first(own)]}"
        return "-"

    def forms(self, word: str, names: list[str]) -> str:
        """The usual tags of the known words that are this one with an ending, sorted; ``-`` if there are none."""
        found = self.longer.get(word) or self.longer.get(word.lower())
        return "|".join(names[tag] for tag in sorted(found)) if found else "-"

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


def fold_of(sentences: int, n: int) -> NDArray[np.int64]:
    """The fold of every sentence: n folds of neighbours, or one sentence each if there are fewer."""
    edges = np.linspace(0, sentences, min(n, sentences) + 1).astype(np.int64)
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))


def _first(own: dict[int, int]) -> int:
    return max(own, key=lambda tag: (own[tag], -tag))

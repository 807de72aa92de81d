"""Functions of the running text: lists, and what the rest of the sentence or the document reveals about a word.

All of them work on integer codes of whole columns; -1 is a token without a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.data.columns import Columns
from partwise.templates._functions import titled

__all__ = ["PhraseIndex", "Text", "all_caps", "in_document", "majority_elsewhere", "majority_table"]

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Text:
    """Where each token is: ``before`` and ``after`` count the tokens of its sentence on either side.

    Where nothing says where documents begin, every sentence is a document of its own: what is said of a sentence
    must not depend on which others happen to come with it.
    """

    offsets: NDArray[np.int64]
    documents: NDArray[np.int64]
    before: NDArray[np.int32]
    after: NDArray[np.int32]

    @classmethod
    def of(cls, columns: Columns) -> Text:
        offsets = columns.offsets
        lengths = np.diff(offsets)
        tokens = np.arange(offsets[-1])
        before = (tokens - np.repeat(offsets[:-1], lengths)).astype(np.int32)
        after = (np.repeat(offsets[1:], lengths) - 1 - tokens).astype(np.int32)
        documents = columns.documents if columns.has_documents else np.arange(len(lengths))
        return cls(offsets, documents, before, after)

    @cached_property
    def document(self) -> NDArray[np.int64]:
        """Document of each token."""
        return np.repeat(self.documents, np.diff(self.offsets))


ROOM = 8  # a table of so many entries a token is quicker than sorting the tokens


def flags(there: NDArray[np.bool_]) -> Codes:
    """Code 0 where it is there, else none."""
    return np.where(there, np.int32(0), np.int32(-1))


def all_caps(text: Text, codes: Codes, vocab: list[str]) -> Codes:
    """Tokens of the sentences with some capitals and no small letters."""
    small = np.array([word != word.upper() for word in vocab] + [False])[codes]
    large = np.array([word != word.lower() for word in vocab] + [False])[codes]
    lengths = np.diff(text.offsets)
    # Differences of running sums, since a sentence may be empty.
    sums = [np.append(0, np.cumsum(there))[text.offsets] for there in (small, large)]
    capitals = (np.diff(sums[0]) == 0) & (np.diff(sums[1]) > 0)
    return flags(np.repeat(capitals, lengths))


def in_document(text: Text, codes: Codes, vocab: list[str], title: bool) -> Codes:
    """Tokens whose word, case aside, is elsewhere in the document titled (not first) or in lower case."""
    lowered: dict[str, int] = {}
    keys = np.array([lowered.setdefault(word.lower(), len(lowered)) for word in vocab] + [-1])[codes]
    test: Callable[[str], bool] = titled if title else str.islower
    seen = np.array([test(word) for word in vocab] + [False])[codes]
    if title:
        seen &= text.before > 0
    groups, n_groups = _groups(text.document, keys)
    counts = np.bincount(groups[seen], minlength=n_groups)
    return flags((codes >= 0) & (counts[groups] - seen > 0))


def majority_elsewhere(text: Text, codes: Codes, labels: Codes, label_vocab: list[str], whole: bool) -> Codes:
    """The most frequent label of the other tokens with the same word, in the document or the whole text.

    Ties go to the label that is first in alphabetical order, which no order of the data can change.
    """
    rank = np.empty(len(label_vocab) + 1, np.int64)
    order = np.array(sorted(range(len(label_vocab)), key=label_vocab.__getitem__), np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    own = rank[labels]
    groups, n_groups = _groups(np.zeros_like(text.document) if whole else text.document, codes)
    counted = (own >= 0) & (codes >= 0)
    size = len(label_vocab) + 1
    pairs, counts = _counted(groups[counted] * size + own[counted], n_groups * size)
    pair_group, pair_rank = pairs // size, pairs % size
    best = np.lexsort((pair_rank, -counts, pair_group))
    # The label of a token only takes from its own count, so the two best of a word are enough.
    winner = np.full((n_groups, 2), -1)
    votes = np.zeros((n_groups, 2), np.int64)
    starts = np.searchsorted(pair_group[best], np.arange(n_groups + 1))
    for place in range(2):
        there = np.flatnonzero(starts[:-1] + place < starts[1:])
        chosen = best[starts[there] + place]
        winner[there, place], votes[there, place] = pair_rank[chosen], counts[chosen]
    first, second = winner[groups].T
    first_votes, second_votes = votes[groups].T
    left = first_votes - ((own == first) & counted)
    falls_back = (left < second_votes) | ((left == second_votes) & (second >= 0) & (second < first))
    chosen = np.where(falls_back, second, first)
    chosen[(codes < 0) | (np.maximum(left, second_votes) == 0)] = -1
    result: Codes = np.append(order, -1)[chosen].astype(np.int32)
    return result


def majority_table(codes: Codes, labels: Codes, vocab: list[str], label_vocab: list[str]) -> dict[str, str]:
    """For every word, the most frequent label of all of its tokens; ties go to the first in alphabetical order."""
    counted = (codes >= 0) & (labels >= 0)
    pairs, counts = np.unique(codes[counted].astype(np.int64) * len(label_vocab) + labels[counted], return_counts=True)
    best: dict[int, tuple[int, str]] = {}
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        word, label = pair // len(label_vocab), label_vocab[pair % len(label_vocab)]
        votes, winner = best.get(word, (0, ""))
        if count > votes or (count == votes and label < winner):
            best[word] = (count, label)
    return {vocab[word]: label for word, (_, label) in best.items()}


def _groups(major: NDArray[np.int64], minor: NDArray[np.int64] | Codes) -> tuple[NDArray[np.int64], int]:
    """Number the distinct pairs, -1 in ``minor`` being a value like others."""
    minor = minor.astype(np.int64) + 1
    width = int(minor.max(initial=0)) + 1
    lowest = int(major.min(initial=0))
    numbers, bound = (major - lowest) * width + minor, (int(major.max(initial=0)) - lowest + 1) * width
    if bound <= ROOM * len(numbers):
        return numbers, bound  # some numbers stand for no pair, which does no harm
    found, groups = np.unique(numbers, return_inverse=True)
    return groups, len(found)


def _counted(numbers: NDArray[np.int64], bound: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers below a bound, sorted, and how often each occurs."""
    if bound > ROOM * len(numbers):
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers, minlength=bound)
    found = np.flatnonzero(counts)
    return found, counts[found]


class PhraseIndex:
    """The entries of a list as a trie over the codes of their tokens: finds all longest matches at once."""

    def __init__(self, entries: list[list[str]]) -> None:
        self.tokens: dict[str, int] = {}
        edges: dict[tuple[int, int], int] = {}
        ends: set[int] = set()
        for entry in entries:
            node = 0
            for token in entry:
                edge = (node, self.tokens.setdefault(token, len(self.tokens)))
                node = edges.setdefault(edge, len(edges) + 1)
            ends.add(node)
        width = max(len(self.tokens), 1)
        keys = np.array([node * width + code for node, code in edges], np.int64)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._ends = np.zeros(len(edges) + 1, bool)
        self._ends[list(ends)] = True
        self._width = width

    def match(self, text: Text, codes: Codes, vocab: list[str]) -> Codes:
        """0 where an entry begins, 1 where it goes on; the longest from the left, within sentences."""
        find = self.tokens.get
        known = np.array([find(word, -1) for word in vocab] + [-1])[codes]
        longest = np.zeros(len(codes), np.int32)
        starts = np.flatnonzero(known >= 0)
        nodes = np.zeros(len(starts), np.int64)
        length = 0
        # All starts walk the trie together, a token a round.
        while len(starts):
            keys = nodes * self._width + known[starts + length]
            at = np.searchsorted(self._keys, keys)
            at[at == len(self._keys)] = 0
            found = self._keys[at] == keys
            starts, nodes = starts[found], self._order[at[found]] + 1
            length += 1
            longest[starts[self._ends[nodes]]] = length
            room = text.after[starts] >= length
            starts, nodes = starts[room], nodes[room]
            going = known[starts + length] >= 0
            starts, nodes = starts[going], nodes[going]
        matches = np.full(len(codes), -1, np.int32)
        _mark(longest, matches)
        return matches


@kernel
def _mark(longest, matches):
    """Take matches from the left; what one covers is not the start of another."""
    t = 0
    while t < longest.size:
        if longest[t] == 0:
            t += 1
            continue
        matches[t] = 0
        for j in range(t + 1, t + longest[t]):
            matches[j] = 1
        t += longest[t]

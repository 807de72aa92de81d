"""A parallel corpus in memory: two sides of integer codes with their vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, new_lookup
from partwise.exceptions import InputError

__all__ = ["Bitext", "Pair"]

Pair = tuple[list[str], list[str]]


@dataclass(frozen=True, eq=False, repr=False)
class Bitext(Sequence[Pair]):
    """Sentence pairs (e_1 … e_I, f_1 … f_J), packed: word t of sentence s is ``vocab[codes[offsets[s] + t]]``.

    A sequence of pairs of lists of strings, stored as two :class:`partwise.data.CodedColumn`: eight bytes per pair
    and four per word.

    Attributes
    ----------
    source, target : CodedColumn
        ``codes`` int32 [tokens], ``vocab`` list of str, ``offsets`` int64 [pairs + 1].

    Examples
    --------
    >>> bitext = Bitext.from_pairs([(["the", "dog"], ["le", "chien"]), (["a", "dog"], ["un", "chien"])])
    >>> bitext
    Bitext(2 pairs, 4 and 4 tokens)
    >>> bitext[1], bitext.source.vocab
    ((['a', 'dog'], ['un', 'chien']), ['the', 'dog', 'a'])
    """

    source: CodedColumn
    target: CodedColumn

    def __post_init__(self) -> None:
        sizes = [len(side.offsets) - 1 for side in (self.source, self.target)]
        if sizes[0] != sizes[1]:
            raise InputError(f"the source has {sizes[0]} sentences, the target {sizes[1]}; they must be parallel")
        for name, side in (("source", self.source), ("target", self.target)):
            lengths = np.diff(side.offsets)
            if lengths.size and lengths.min() < 1:
                raise InputError(f"pair {int(np.argmin(lengths))}: the {name} sentence is empty")

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Bitext:
        """Pack pairs of sentences, each a list of words."""
        if isinstance(pairs, Bitext):
            return pairs
        lookups = (new_lookup(), new_lookup())
        codes: tuple[list[int], list[int]] = ([], [])
        offsets: tuple[list[int], list[int]] = ([0], [0])
        for number, pair in enumerate(pairs):
            if isinstance(pair, str) or len(pair) != 2:
                raise InputError(f"pair {number}: expected (source words, target words), got {pair!r:.80}")
            for side, words in enumerate(pair):
                if isinstance(words, str) or not _all_strings(words):
                    raise InputError(f"pair {number}: expected lists of words, got {words!r:.80}")
                codes[side].extend(map(lookups[side].__getitem__, words))
                offsets[side].append(len(codes[side]))
        source, target = (
            CodedColumn(np.array(codes[side], np.int32), list(lookups[side]), np.array(offsets[side], np.int64))
            for side in (0, 1)
        )
        return cls(source, target)

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> Bitext: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return Bitext(_run(self.source, start, stop), _run(self.target, start, stop))
            return self.subset(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        return self._words(self.source, index % len(self)), self._words(self.target, index % len(self))

    @staticmethod
    def _words(side: CodedColumn, index: int) -> list[str]:
        return [side.vocab[code] for code in side.codes[side.offsets[index] : side.offsets[index + 1]].tolist()]

    def __iter__(self) -> Iterator[Pair]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Bitext({len(self)} pairs, {len(self.source.codes)} and {len(self.target.codes)} tokens)"

    def subset(self, indices: Any) -> Bitext:
        """The pairs at ``indices`` (or where a mask holds), with the same vocabularies."""
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        return Bitext(_gather(self.source, chosen), _gather(self.target, chosen))

    def swapped(self) -> Bitext:
        """Source and target exchanged."""
        return Bitext(self.target, self.source)

    def __add__(self, other: Bitext) -> Bitext:
        """All pairs of both; words keep their codes of ``self``."""
        return Bitext(_joined(self.source, other.source), _joined(self.target, other.target))


def _all_strings(words: Sequence[Any]) -> bool:
    return not set(map(type, words)) - {str} or all(isinstance(word, str) for word in words)


def _run(side: CodedColumn, start: int, stop: int) -> CodedColumn:
    """Sentences that follow one another, without a copy of their codes."""
    bounds = side.offsets[start : max(start, stop) + 1]
    return CodedColumn(side.codes[bounds[0] : bounds[-1]], side.vocab, bounds - bounds[0])


def _gather(side: CodedColumn, chosen: NDArray[np.int64]) -> CodedColumn:
    starts, lengths = side.offsets[:-1][chosen], np.diff(side.offsets)[chosen]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return CodedColumn(side.codes[at], side.vocab, offsets)


def _joined(a: CodedColumn, b: CodedColumn) -> CodedColumn:
    lookup = new_lookup()
    for word in a.vocab:
        lookup[word]
    recode = np.fromiter((lookup[word] for word in b.vocab), np.int32, len(b.vocab))
    codes = np.concatenate([a.codes, recode[b.codes] if len(recode) else b.codes])
    return CodedColumn(codes, list(lookup), np.concatenate([a.offsets, b.offsets[1:] + a.offsets[-1]]))

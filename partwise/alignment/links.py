"""Every possible link of a list of sentence pairs, packed: what features of links are computed on.

Edge (j, k) of a pair of J and K words has number j·K + k within the pair; the pairs follow one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.matrices import LinkMatrices
from partwise.exceptions import InputError

__all__ = ["Edges", "SentencePair", "check_pairs", "pair_blocks"]

SentencePair = tuple[Sequence[str], Sequence[str]]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def check_pairs(pairs: Sequence[SentencePair]) -> None:
    """Raise :class:`InputError` unless every pair is two non-empty sequences of words."""
    for i, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2:
            raise InputError(f"pair {i} must be (source words, target words); got {pair!r}")
        for side, words in zip(("source", "target"), pair, strict=True):
            if isinstance(words, str):
                raise InputError(f"the {side} side of pair {i} is a string; expected a sequence of words")
            if len(words) == 0:
                raise InputError(f"the {side} sentence of pair {i} is empty")


def pair_blocks(pairs: Sequence[SentencePair], size: int) -> list[tuple[int, int]]:
    """(start, stop) of runs of pairs with about ``size`` possible links each.

    Examples
    --------
    >>> pair_blocks([(["a"], ["b"])] * 5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    edges = np.cumsum([len(source) * len(target) for source, target in pairs], dtype=np.int64)
    ends = np.searchsorted(edges, np.arange(size, edges[-1] if len(edges) else 0, size)) + 1
    return list(itertools.pairwise(np.unique(np.concatenate([[0], ends, [len(edges)]])).tolist()))


@dataclass(frozen=True)
class Edges:
    """All edges of all pairs side by side: of which pair, from which word to which.

    Examples
    --------
    >>> edges = Edges.of([(["a", "b"], ["c"]), (["b"], ["c", "d"])])
    >>> edges.pair.tolist(), edges.j.tolist(), edges.k.tolist(), edges.source.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1])
    """

    lengths: Ints  # (n, 2) numbers of words J, K
    offsets: Ints  # (n + 1,) first edge of every pair
    pair: Ints  # (E,) the pair an edge belongs to
    j: Ints
    k: Ints
    source_words: list[str]  # distinct words
    target_words: list[str]
    source: Ints  # (E,) numbers of the words an edge would link
    target: Ints

    @classmethod
    def of(cls, pairs: Sequence[SentencePair]) -> Edges:
        """The edges of these pairs."""
        check_pairs(pairs)
        lengths = np.array([(len(e), len(f)) for e, f in pairs], np.int64).reshape(-1, 2)
        sizes = lengths[:, 0] * lengths[:, 1]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        pair = np.repeat(np.arange(len(pairs)), sizes)
        place = np.arange(offsets[-1]) - offsets[pair]
        j, k = place // lengths[pair, 1], place % lengths[pair, 1]
        sides = [_number([pair[side] for pair in pairs]) for side in (0, 1)]
        (source_words, source, source_start), (target_words, target, target_start) = sides
        return cls(
            lengths, offsets, pair, j, k, source_words, target_words,
            source[source_start[pair] + j], target[target_start[pair] + k],
        )  # fmt: skip

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def flat(self, matrices: Sequence[Floats], name: str) -> Floats:
        """(E,) values of one (J, K) matrix per pair."""
        if len(matrices) != len(self.lengths):
            raise InputError(f"{name} has {len(matrices)} matrices for {len(self.lengths)} pairs")
        if isinstance(matrices, LinkMatrices):  # packed already
            if not (np.array_equal(matrices.offsets, self.offsets) and (matrices.columns == self.lengths[:, 1]).all()):
                raise InputError(f"{name} holds matrices whose sizes do not match the pairs")
            return matrices.values.astype(float)
        for i, (matrix, shape) in enumerate(zip(matrices, self.lengths, strict=True)):
            if np.shape(matrix) != tuple(shape):
                raise InputError(f"{name} of pair {i} has shape {np.shape(matrix)}; expected {tuple(shape.tolist())}")
        return np.concatenate([np.asarray(m, float).ravel() for m in matrices]) if len(self) else np.zeros(0)

    def rows(self) -> Ints:
        """(E,) number of the source word's place among all source words of all pairs."""
        return self._places(0)[self.pair] + self.j

    def columns(self) -> Ints:
        """(E,) number of the target word's place among all target words of all pairs."""
        return self._places(1)[self.pair] + self.k

    def _places(self, side: int) -> Ints:
        return np.concatenate([[0], np.cumsum(self.lengths[:, side])]).astype(np.int64)


def _number(sentences: Sequence[Sequence[str]]) -> tuple[list[str], Ints, Ints]:
    """(distinct words, number of every word, where each sentence begins)."""
    numbers: dict[str, int] = {}
    flat = [numbers.setdefault(word, len(numbers)) for words in sentences for word in words]
    starts = np.concatenate([[0], np.cumsum([len(words) for words in sentences])])
    return list(numbers), np.array(flat, np.int64), starts.astype(np.int64)

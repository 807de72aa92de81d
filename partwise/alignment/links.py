"""Every possible link of a list of sentence pairs, packed: what features of links are computed on.

Edge (j, k) of a pair of J and K words has number j·K + k within the pair; the pairs follow one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.alignment.bitext import Bitext
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
    source_words: list[str]  # distinct words; there may be some that are in none of these pairs
    target_words: list[str]
    source: Ints  # (E,) numbers of the words an edge would link
    target: Ints

    @classmethod
    def of(cls, pairs: Sequence[SentencePair]) -> Edges:
        """The edges of these pairs."""
        if not isinstance(pairs, Bitext):
            check_pairs(pairs)
        text = Bitext.from_pairs(pairs)
        first, second = text.source, text.target
        lengths = np.column_stack([np.diff(first.offsets), np.diff(second.offsets)])
        offsets = np.concatenate([[0], np.cumsum(lengths[:, 0] * lengths[:, 1])]).astype(np.int64)
        pair, j, k, source, target = np.empty((5, int(offsets[-1])), np.int64)
        _lay_out(first.codes, first.offsets, second.codes, second.offsets, pair, j, k, source, target)
        return cls(lengths, offsets, pair, j, k, first.vocab, second.vocab, source, target)

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


@kernel
def _lay_out(source_codes, source_offsets, target_codes, target_offsets, pair, j, k, source, target):
    """Pair, places and words of every edge."""
    e = 0
    for i in range(source_offsets.shape[0] - 1):
        for p in range(source_offsets[i], source_offsets[i + 1]):
            for t in range(target_offsets[i], target_offsets[i + 1]):
                pair[e], j[e], k[e] = i, p - source_offsets[i], t - target_offsets[i]
                source[e], target[e] = source_codes[p], target_codes[t]
                e += 1

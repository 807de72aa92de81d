"""Similarity of spelling: cognates, names, numbers and punctuation align by their letters.

Measured on distinct words, compiled: words are packed as code points with offsets, lower-cased, in two forms, as
written and with accents removed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel

__all__ = ["ORTHOGRAPHY", "orthographic_features"]

#: The columns of :func:`orthographic_features`.
ORTHOGRAPHY = (
    "same word",
    "same letters without accents",
    "same consonants",
    "common prefix / longer word",
    "longest common subsequence / longer word",
    "shorter / longer word",
    "one is punctuation, the other not",
    "both are punctuation but not the same",
    "one has a digit, the other not",
    "both are numbers but not the same",
)

_VOWELS = frozenset("aeiouy")


def _bare(word: str) -> str:
    """Without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def _kind(word: str) -> int:
    """0 a word, 1 punctuation, 2 with a digit."""
    if any(c.isdigit() for c in word):
        return 2
    return 0 if any(c.isalpha() for c in word) else 1


@lru_cache(maxsize=1 << 16)
def _forms(word: str) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], int]:
    """Code points in lower case, without accents, without vowels as well; and the kind."""
    lower = word.lower()
    bare = _bare(lower)
    letters = "".join(c for c in bare if c not in _VOWELS)
    first, second, third = (np.array([ord(c) for c in form], np.int32) for form in (lower, bare, letters))
    return first, second, third, _kind(word)


class _Words:
    """Distinct words, packed."""

    def __init__(self, words: Sequence[str]) -> None:
        forms = [_forms(word) for word in words]
        self.kinds = np.array([form[3] for form in forms], np.int8)
        self.lower = self._pack([form[0] for form in forms])
        self.bare = self._pack([form[1] for form in forms])
        self.letters = self._pack([form[2] for form in forms])

    @staticmethod
    def _pack(words: list[NDArray[np.int32]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        offsets = np.concatenate([[0], np.cumsum([len(w) for w in words], dtype=np.int64)]).astype(np.int64)
        return offsets, np.concatenate([np.zeros(0, np.int32), *words])


@kernel
def _same(first, a, second, b):
    """Whether word a of the first pack is word b of the second, and not empty."""
    start, other = first[0][a], second[0][b]
    n = first[0][a + 1] - start
    if n == 0 or second[0][b + 1] - other != n:
        return False
    alike = 0
    while alike < n and first[1][start + alike] == second[1][other + alike]:
        alike += 1
    return alike == n


@kernel
def _common_subsequence(x, y, row):
    """Length of the longest common subsequence: c(i, j) = c(i−1, j−1) + 1 where letters agree, else the larger side."""
    row[: y.shape[0] + 1] = 0
    for i in range(x.shape[0]):
        corner = 0
        for j in range(y.shape[0]):
            above = row[j + 1]
            row[j + 1] = corner + 1 if x[i] == y[j] else max(above, row[j])
            corner = above
    return row[y.shape[0]]


@kernel
def _compare(a, b, lower, other_lower, bare, other_bare, letters, other_letters, kinds, other_kinds, out):
    """out[e] ← the features of words a[e] and b[e]."""
    longest = 0
    for w in range(other_bare[0].shape[0] - 1):
        longest = max(longest, other_bare[0][w + 1] - other_bare[0][w])
    row = np.zeros(longest + 1, np.int64)
    for e in range(a.shape[0]):
        x = bare[1][bare[0][a[e]] : bare[0][a[e] + 1]]
        y = other_bare[1][other_bare[0][b[e]] : other_bare[0][b[e] + 1]]
        short, long = min(x.shape[0], y.shape[0]), max(x.shape[0], y.shape[0])
        same = _same(lower, a[e], other_lower, b[e])
        kind, other = kinds[a[e]], other_kinds[b[e]]
        out[e, 0] = 1.0 if same else 0.0
        out[e, 1] = 1.0 if _same(bare, a[e], other_bare, b[e]) else 0.0
        out[e, 2] = 1.0 if _same(letters, a[e], other_letters, b[e]) else 0.0
        if kind == 0 and other == 0 and long > 0:
            prefix = 0
            while prefix < short and x[prefix] == y[prefix]:
                prefix += 1
            out[e, 3] = prefix / long
            out[e, 4] = _common_subsequence(x, y, row) / long
            out[e, 5] = short / long
        out[e, 6] = 1.0 if (kind == 1) != (other == 1) else 0.0
        out[e, 7] = 1.0 if kind == 1 and other == 1 and not same else 0.0
        out[e, 8] = 1.0 if (kind == 2) != (other == 2) else 0.0
        out[e, 9] = 1.0 if kind == 2 and other == 2 and not same else 0.0


def orthographic_features(
    source: Sequence[str], target: Sequence[str], a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(n, 10) features of the word pairs (source[a[e]], target[b[e]]); see ``ORTHOGRAPHY``.

    Examples
    --------
    >>> found = orthographic_features(["Quebec", "house"], ["Québec", "maison"], np.array([0, 1]), np.array([0, 1]))
    >>> found[0, :5].tolist(), found[1, :3].tolist()
    ([0.0, 1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    """
    first, second = _Words(source), _Words(target)
    out = np.zeros((len(a), len(ORTHOGRAPHY)))
    _compare(
        np.asarray(a, np.int64), np.asarray(b, np.int64), first.lower, second.lower, first.bare, second.bare,
        first.letters, second.letters, first.kinds, second.kinds, out,
    )  # fmt: skip
    return out

"""Similarity of spelling: cognates, names, numbers and punctuation align by their letters.

Words are packed as code points with offsets, in lower case and in three forms: as written, with accents removed,
and without vowels as well. Pairs of words are compared once each, compiled.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel

__all__ = ["ORTHOGRAPHY", "Spelling", "compare_words", "first_alike", "orthographic_features", "spelling"]

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

_WITHOUT_VOWELS = str.maketrans("", "", "aeiouy")

Packed = tuple[NDArray[np.int64], NDArray[np.int32]]  # offsets, code points


class Spelling(NamedTuple):
    """Distinct words in their forms, and whether each is a word (0), punctuation (1) or has a digit (2)."""

    lower: Packed
    bare: Packed
    letters: Packed
    kinds: NDArray[np.int8]


def _bare(word: str) -> str:
    """Without accents."""
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def _kind(word: str) -> int:
    if word.isalpha() and not any(map(str.isdigit, word)):
        return 0
    if any(map(str.isdigit, word)):
        return 2
    return 0 if any(map(str.isalpha, word)) else 1


def _pack(words: Sequence[str]) -> Packed:
    offsets = np.concatenate([[0], np.cumsum(list(map(len, words)), dtype=np.int64)]).astype(np.int64)
    return offsets, np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.int32)


def spelling(words: Sequence[str]) -> Spelling:
    """What of words is compared."""
    lower = [word.lower() for word in words]
    bare = list(map(_bare, lower))
    letters = [word.translate(_WITHOUT_VOWELS) for word in bare]
    return Spelling(_pack(lower), _pack(bare), _pack(letters), np.array(list(map(_kind, words)), np.int8))


@kernel
def first_alike(a, b, first, number):
    """first[n] ← the edge where the n-th distinct pair of words a, b stands first; number[e] ← n. Returns how many."""
    slots = 2
    while slots < 2 * a.shape[0]:
        slots *= 2
    met = np.full(slots, -1, np.int64)
    n = 0
    for e in range(a.shape[0]):
        slot = ((a[e] * 2654435761 + b[e]) * 40503 >> 8) & (slots - 1)
        while met[slot] >= 0 and (a[first[met[slot]]] != a[e] or b[first[met[slot]]] != b[e]):
            slot = (slot + 1) & (slots - 1)
        if met[slot] < 0:
            met[slot], first[n] = n, e
            n += 1
        number[e] = met[slot]
    return n


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
def compare_words(a, b, edges, first, second, out):
    """out[n] ← the features of the words of edge edges[n]."""
    longest = 0
    for w in range(second.bare[0].shape[0] - 1):
        longest = max(longest, second.bare[0][w + 1] - second.bare[0][w])
    row = np.zeros(longest + 1, np.int64)
    for n in range(out.shape[0]):
        p, q = a[edges[n]], b[edges[n]]
        x = first.bare[1][first.bare[0][p] : first.bare[0][p + 1]]
        y = second.bare[1][second.bare[0][q] : second.bare[0][q + 1]]
        short, long = min(x.shape[0], y.shape[0]), max(x.shape[0], y.shape[0])
        same = _same(first.lower, p, second.lower, q)
        kind, other = first.kinds[p], second.kinds[q]
        out[n, 0] = 1.0 if same else 0.0
        out[n, 1] = 1.0 if _same(first.bare, p, second.bare, q) else 0.0
        out[n, 2] = 1.0 if _same(first.letters, p, second.letters, q) else 0.0
        out[n, 3:6] = 0.0
        if kind == 0 and other == 0 and long > 0:
            prefix = 0
            while prefix < short and x[prefix] == y[prefix]:
                prefix += 1
            out[n, 3] = prefix / long
            out[n, 4] = _common_subsequence(x, y, row) / long
            out[n, 5] = short / long
        out[n, 6] = 1.0 if (kind == 1) != (other == 1) else 0.0
        out[n, 7] = 1.0 if kind == 1 and other == 1 and not same else 0.0
        out[n, 8] = 1.0 if (kind == 2) != (other == 2) else 0.0
        out[n, 9] = 1.0 if kind == 2 and other == 2 and not same else 0.0


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
    out = np.empty((len(a), len(ORTHOGRAPHY)))
    words = np.asarray(a, np.int64), np.asarray(b, np.int64)
    compare_words(*words, np.arange(len(a)), spelling(source), spelling(target), out)
    return out

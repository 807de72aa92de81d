"""Text to counts: a tokeniser, a stop list, and a vocabulary with pruning.

Any other way to a D × V matrix of counts is as good (scikit-learn's ``CountVectorizer``, say): the topic
models take the matrix.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from partwise.exceptions import InputError, ParameterError

from ._state import StateMixin
from .stopwords import STOP_WORDS

__all__ = ["CountText", "tokenize"]

_LATIN = re.compile(r"[a-z]+")


@functools.cache
def _letters() -> re.Pattern[str]:
    """A run of letters, each with its marks, as Unicode classifies them.

    Python's ``\\w`` leaves out marks, such as the vowel signs of many scripts, and counts digits and fractions. A
    joiner or non-joiner inside a word belongs to it, as in Unicode's annex 29.
    """
    ranges: list[list[int]] = []
    for code in range(0x40000):  # no letter lies beyond
        if unicodedata.category(chr(code))[0] in "LM":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    letters = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"[{letters}]+(?:[\u200c\u200d]+[{letters}]+)*")


def tokenize(text: str, min_length: int = 2) -> list[str]:
    """The words of the lower-cased text: maximal runs of letters in any script, those of at least ``min_length``.

    Digits and punctuation separate words: "don't" gives "don", "In <1993Apr2.1@x>" gives "in", "apr". The text is
    brought to Unicode's form NFC first, so that é is one letter however it was typed. Scripts without spaces between
    words (Chinese, Japanese, Thai) need a tokeniser of their own: ``CountText(tokenizer=...)``.

    Examples
    --------
    >>> tokenize("The SCSI-2 drive doesn't work!")
    ['the', 'scsi', 'drive', 'doesn', 'work']
    >>> tokenize("Zürich, Владивосток, हिन्दी")
    ['zürich', 'владивосток', 'हिन्दी']
    """
    if text.isascii():
        words = _LATIN.findall(text.lower())
    else:
        words = _letters().findall(unicodedata.normalize("NFC", text.lower()))
    return [word for word in words if len(word) >= min_length]


class CountText(StateMixin, TransformerMixin, BaseEstimator):
    """Count the words of documents: texts in, a D × V CSR matrix of counts out.

    Parameters
    ----------
    stop_words : "english", iterable of str or None
        Words to leave out; "english" is ``partwise.topics.stopwords.STOP_WORDS``, function words mostly.
    min_documents, min_count : int
        Keep words that occur in at least this many documents, and at least this many times.
    max_documents : float
        Leave out words found in more than this share of the documents.
    max_words : int or None
        Keep only the most frequent words.
    tokenizer : callable or None
        str → list of str; ``None`` is ``partwise.topics.tokenize``.

    Notes
    -----
    Words outside the vocabulary are not counted by ``transform``.

    Attributes
    ----------
    vocabulary_ : (V,) array of str, sorted; column v of the counts is word vocabulary_[v].

    Examples
    --------
    >>> counter = CountText()
    >>> counter.fit_transform(["the cat and the dog", "a dog, a dog"]).toarray()
    array([[1, 1],
           [0, 2]])
    >>> counter.vocabulary_.tolist()
    ['cat', 'dog']
    """

    kind = "count-text"
    _arrays = ("vocabulary_",)

    def __init__(
        self,
        *,
        stop_words: str | Iterable[str] | None = "english",
        min_documents: int = 1,
        min_count: int = 1,
        max_documents: float = 1.0,
        max_words: int | None = None,
        tokenizer: Callable[[str], list[str]] | None = None,
    ) -> None:
        self.stop_words = stop_words
        self.min_documents = min_documents
        self.min_count = min_count
        self.max_documents = max_documents
        self.max_words = max_words
        self.tokenizer = tokenizer

    def fit(self, texts: Sequence[str], y: Any = None) -> Self:
        """Collect and prune the vocabulary."""
        self._learn(self._tokens(texts))
        return self

    def fit_transform(self, texts: Sequence[str], y: Any = None, **unused: Any) -> sparse.csr_matrix:
        """``fit(texts).transform(texts)``, tokenising once."""
        tokens = self._tokens(texts)
        self._learn(tokens)
        return self._count(tokens)

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Counts of the known words, (D, V) CSR of int64."""
        check_is_fitted(self, "vocabulary_")
        return self._count(self._tokens(texts))

    def _check_state(self) -> None:
        self._check_shapes({"vocabulary_": (None,)})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self, "vocabulary_")
        return self.vocabulary_

    def _tokens(self, texts: Sequence[str]) -> list[list[str]]:
        if isinstance(texts, str):
            raise InputError("expected a sequence of texts, got one string: wrap it in a list")
        split = tokenize if self.tokenizer is None else self.tokenizer
        return [split(text) for text in texts]

    def _learn(self, tokens: list[list[str]]) -> None:
        if not 0.0 < self.max_documents <= 1.0:
            raise ParameterError("max_documents", "CountText", "a share in (0, 1]", self.max_documents)
        times: Counter[str] = Counter()
        spread: Counter[str] = Counter()
        for document in tokens:
            times.update(document)
            spread.update(set(document))
        if isinstance(self.stop_words, str):
            if self.stop_words != "english":
                raise ParameterError("stop_words", "CountText", "'english', words or None", self.stop_words)
            left_out = STOP_WORDS
        else:
            left_out = frozenset(self.stop_words or ())
        most = self.max_documents * len(tokens)
        kept = [
            word
            for word, count in times.items()
            if word not in left_out and count >= self.min_count and self.min_documents <= spread[word] <= most
        ]
        if self.max_words is not None and len(kept) > self.max_words:
            kept = sorted(kept, key=lambda word: (-times[word], word))[: self.max_words]
        if not kept:
            raise InputError(f"none of {len(times)} words is left: loosen min_documents, min_count or max_documents")
        self.vocabulary_ = np.array(sorted(kept))

    def _count(self, tokens: list[list[str]]) -> sparse.csr_matrix:
        columns = {word: v for v, word in enumerate(self.vocabulary_.tolist())}
        indptr, indices, data = [0], [], []
        for document in tokens:
            counts = Counter(columns[word] for word in document if word in columns)
            for column in sorted(counts):
                indices.append(column)
                data.append(counts[column])
            indptr.append(len(indices))
        arrays = (np.array(data, np.int64), np.array(indices, np.int32), np.array(indptr, np.int64))
        return sparse.csr_matrix(arrays, shape=(len(tokens), len(columns)))

"""From counts to packed tokens: the place where the input of topic models is checked.

A corpus is a D × V matrix of counts (CSR, any scipy sparse format, or dense). Samplers want tokens: word
ids repeated by their counts, document after document, with offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from partwise.exceptions import InputError

__all__ = ["MISSING", "Corpus", "encode_labels", "pack"]

MISSING = -1  # the code of a document without a label


class Corpus(NamedTuple):
    """Packed tokens of D documents over V words, N tokens in all.

    offsets: (D + 1,) int64; words: (N,) int32, tokens of document d at offsets[d]:offsets[d + 1], equal
    words adjacent; n_words: V.
    """

    offsets: np.ndarray
    words: np.ndarray
    n_words: int

    @property
    def n_documents(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def n_tokens(self) -> int:
        return int(self.words.size)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def take(self, documents: np.ndarray) -> Corpus:
        """The corpus of the named documents, in that order."""
        lengths = self.lengths[documents]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(self.offsets[documents] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Corpus(offsets, self.words[places], self.n_words)


def _bad_entry(matrix: Any, wrong: np.ndarray, what: str) -> InputError:
    entry = int(np.flatnonzero(wrong)[0])
    document = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    word, value = int(matrix.indices[entry]), matrix.data[entry]
    return InputError(
        f"document {document}, word {word}: counts must be {what}, got {value.item()!r}; "
        "topic models need raw counts, not tf-idf or other weights"
    )


def pack(X: Any, n_words: int | None = None, allow_empty: bool = False) -> Corpus:
    """Check a D × V matrix of counts and unpack it to tokens; O(number of tokens).

    ``n_words`` is the fitted vocabulary size; ``allow_empty`` lets documents without tokens through
    (prediction uses the prior for them; training raises an error).

    Examples
    --------
    >>> pack([[2, 0, 1], [0, 1, 0]]).words
    array([0, 0, 2, 1], dtype=int32)
    >>> pack([[2, 0], [0, 0]])
    Traceback (most recent call last):
        ...
    partwise.exceptions.InputError: document 1 is empty (1 of 2 are): it says nothing about topics; drop it
    """
    if not sparse.issparse(X):
        try:
            X = np.asarray(X)
            got = f"an array of shape {X.shape} and type {X.dtype}"
        except ValueError:
            X, got = np.zeros(0), "rows of different lengths"
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise InputError(
                f"expected a documents × words matrix of counts, got {got}; turn text into counts with CountText or a "
                "scikit-learn vectoriser"
            )
    matrix = sparse.csr_matrix(X)
    if matrix is X:
        matrix = matrix.copy()  # sum_duplicates works in place
    matrix.sum_duplicates()
    if n_words is not None and matrix.shape[1] != n_words:
        raise InputError(
            f"the counts have {matrix.shape[1]} words but the model was fitted on {n_words}: words outside "
            "the vocabulary must be dropped, and the columns kept in the order of training"
        )
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InputError(f"expected at least one document and one word, got a matrix of shape {matrix.shape}")
    data = matrix.data
    if not np.isfinite(data).all():
        raise _bad_entry(matrix, ~np.isfinite(data), "finite")
    if (data < 0).any():
        raise _bad_entry(matrix, data < 0, "non-negative")
    if (data != np.floor(data)).any():
        raise _bad_entry(matrix, data != np.floor(data), "whole numbers")
    repeats = data.astype(np.int64)
    words = np.repeat(matrix.indices.astype(np.int32), repeats)
    row_sums = np.add.reduceat(np.append(repeats, 0), matrix.indptr[:-1]) * (np.diff(matrix.indptr) > 0)
    offsets = np.concatenate([[0], np.cumsum(row_sums)]).astype(np.int64)
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if empty.size and not allow_empty:
        raise InputError(
            f"document {empty[0]} is empty ({empty.size} of {offsets.size - 1} are): "
            "it says nothing about topics; drop it"
        )
    return Corpus(offsets, words, int(matrix.shape[1]))


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and np.isnan(label))


def encode_labels(
    y: Sequence[Any] | np.ndarray, n_documents: int, allow_missing: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Classes (sorted) and codes (D,) int64 of labels; ``None`` and NaN are missing and get ``MISSING``.

    Examples
    --------
    >>> encode_labels(["b", None, "a"], 3)
    (array(['a', 'b'], dtype='<U1'), array([ 1, -1,  0]))
    """
    if y is None:
        raise InputError("DiscLDA needs labels: pass y, with None if a document has no label")
    labels = list(y)
    if len(labels) != n_documents:
        raise InputError(f"got {len(labels)} labels for {n_documents} documents")
    missing = np.array([_is_missing(label) for label in labels])
    if missing.all():
        raise InputError("no document has a label: DiscLDA needs labels; use LDA for unlabelled documents")
    if missing.any() and not allow_missing:
        raise InputError(
            f"document {int(np.flatnonzero(missing)[0])} has no label ({int(missing.sum())} have none), "
            "and labels are needed here"
        )
    known = np.array([label for label, gone in zip(labels, missing, strict=True) if not gone])
    classes, inverse = np.unique(known, return_inverse=True)
    if classes.size < 2:
        raise InputError(f"need documents of at least two classes, got only class {str(classes[0])!r}")
    codes = np.full(n_documents, MISSING, dtype=np.int64)
    codes[~missing] = inverse
    return classes, codes

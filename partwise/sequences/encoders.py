"""Encoders: each turns one input format into packed rows, in the same way in training and prediction.

``fit`` sees the training input once and remembers a vocabulary; ``transform`` maps any input with it. An encoder is
stored in the model as a small header and arrays.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import Columns
from partwise.exceptions import InputError, StorageError
from partwise.features.inputs import RowMatrix, Vocabulary, dense_rows, input_kind
from partwise.features.layout import DenseLayout, RowLayout
from partwise.storage import pack_strings, unpack_strings
from partwise.templates._sentences import SentenceCoder
from partwise.templates.template_list import PRESETS, TemplateIndex, Templates

__all__ = ["ENCODERS", "Encoder", "Rows", "make_encoder", "restore_encoder", "sequences_of"]

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class Rows:
    """Encoded input: rows of attributes or of numbers, and the offsets of the sequences."""

    def __init__(self, matrix: RowMatrix | None = None, dense: tuple[NDArray[Any], NDArray[Any]] | None = None):
        self.matrix, self.dense = matrix, dense
        self.offsets: NDArray[np.int64] = matrix.offsets if matrix is not None else self.numbers[0]

    @property
    def attributes(self) -> RowMatrix:
        """Rows of attributes, if they are such."""
        assert self.matrix is not None, "these rows hold numbers"
        return self.matrix

    @property
    def numbers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(offsets, rows of numbers), if they are such."""
        assert self.dense is not None, "these rows hold attributes"
        return self.dense

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def layout(self, labels: NDArray[np.int64], n_labels: int, every: bool) -> RowLayout | DenseLayout:
        """Where the weights of these rows' attributes go; ``labels`` (rows,) < 0 where unknown."""
        if self.matrix is None:
            return DenseLayout(self.numbers[1].shape[1], n_labels)
        return RowLayout.observed(self.matrix, labels, n_labels, every=every)

    def pack(self, layout: RowLayout | DenseLayout) -> Any:
        """Rows for the kernels."""
        if isinstance(layout, DenseLayout):
            return layout.pack(*self.numbers)
        return layout.pack(self.attributes)

    def index(self, layout: RowLayout | DenseLayout) -> Any:
        """Rows for kernels that only score them, once."""
        return self.pack(layout) if isinstance(layout, DenseLayout) else layout.index(self.attributes)

    def arrays(self) -> list[NDArray[Any]]:
        """All that the rows are made of."""
        if self.matrix is None:
            return list(self.dense or ())
        return [self.matrix.indptr, self.matrix.attributes, self.matrix.values]

    def entries(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(attributes, values) of one row."""
        if self.matrix is None:
            x = self.numbers[1][row]
            used = np.flatnonzero(x)
            return used, x[used]
        here = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
        numbers = self.matrix.attributes[here].astype(np.int64)
        return numbers, self.matrix.values[here] if len(self.matrix.values) else np.ones(len(numbers))


def sequences_of(X: Any) -> Any:
    """pandas' Series as a list of sequences, a DataFrame as :class:`Columns` (a cell holds a sequence); else X.

    Rows are taken in their order, whatever the index.
    """
    if not hasattr(X, "iloc"):
        return X
    if not hasattr(X, "columns"):
        return X.tolist()
    for name in X.columns:
        if len(X) and isinstance(X[name].iloc[0], str):
            raise InputError(
                f"column {str(name)!r} of the DataFrame holds strings; expected one row per sequence, whose cells are "
                "lists of strings. If there is one row per token, group them: "
                "df.groupby('sentence', sort=False)[['word', 'tag']].agg(list)"
            )
    return Columns.from_sentences({str(name): X[name].tolist() for name in X.columns})


class Encoder(ABC):
    """Input of one format → :class:`Rows`."""

    kind: ClassVar[str]

    @property
    def context(self) -> str:
        """How much text the attributes of a token depend on; see ``Templates.context``."""
        return "sentence"

    @abstractmethod
    def fit_transform(self, X: Any) -> Rows: ...

    @abstractmethod
    def transform(self, X: Any) -> Rows: ...

    def read_one(self, X: Any, i: int) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """(indptr, attributes) of sequence i by itself, quickly; None where only ``transform`` can tell."""
        return None

    @abstractmethod
    def is_single(self, X: Any) -> bool:
        """Whether X is one sequence, not a collection of sequences as ``transform`` takes it."""

    @abstractmethod
    def names(self) -> list[str]:
        """What each attribute is called."""

    @abstractmethod
    def to_state(self) -> State: ...

    @classmethod
    @abstractmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Encoder: ...


class StringEncoder(Encoder):
    """Lists of strings or dicts per token: a :class:`Vocabulary`."""

    kind = "strings"

    def __init__(self, min_count: int = 1, vocabulary: Vocabulary | None = None) -> None:
        self.min_count, self.vocabulary = min_count, vocabulary or Vocabulary()

    def fit_transform(self, X: Any) -> Rows:
        self.vocabulary = Vocabulary()
        matrix = self.vocabulary.read(X, grow=True)
        if self.min_count > 1:
            counts = np.bincount(matrix.attributes, minlength=matrix.n_attributes)
            kept = counts >= self.min_count
            self.vocabulary = Vocabulary(n for n, keep in zip(self.vocabulary.names, kept, strict=True) if keep)
            matrix = self.vocabulary.read(X, grow=False)
        return Rows(matrix)

    def transform(self, X: Any) -> Rows:
        return Rows(self.vocabulary.read(X, grow=False))

    def read_one(self, X: Any, i: int) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        return self.vocabulary.read_one(X[i])

    def is_single(self, X: Any) -> bool:
        """A token is a dict or a collection of strings; a sequence is a list of tokens."""
        first = next(iter(X), None)
        return isinstance(first, Mapping) or isinstance(next(iter(first or ()), None), str)

    def names(self) -> list[str]:
        return self.vocabulary.names

    def to_state(self) -> State:
        data, offsets = pack_strings(self.vocabulary.names)
        return {"min_count": self.min_count}, {"names": data, "name_offsets": offsets}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> StringEncoder:
        names = unpack_strings(arrays["names"], arrays["name_offsets"])
        return cls(int(header["min_count"]), Vocabulary(names))


class CSREncoder(Encoder):
    """One CSR matrix per sequence; attributes are its columns."""

    kind = "csr"

    def __init__(self, n_columns: int = 0) -> None:
        self.n_columns = n_columns

    def fit_transform(self, X: Any) -> Rows:
        rows = Rows(RowMatrix.from_csr(X))
        self.n_columns = rows.attributes.n_attributes
        return rows

    def transform(self, X: Any) -> Rows:
        for i, x in enumerate(X):
            if x.shape[1] != self.n_columns:
                raise InputError(f"matrix of sequence {i} has {x.shape[1]} columns; expected {self.n_columns}")
        return Rows(RowMatrix.from_csr(X))

    def is_single(self, X: Any) -> bool:
        return getattr(X, "ndim", 0) == 2

    def names(self) -> list[str]:
        return [f"column {j}" for j in range(self.n_columns)]

    def to_state(self) -> State:
        return {"n_columns": self.n_columns}, {}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CSREncoder:
        return cls(int(header["n_columns"]))


class DenseEncoder(CSREncoder):
    """One (T, D) array per sequence."""

    kind = "dense"

    def fit_transform(self, X: Any) -> Rows:
        rows = Rows(dense=dense_rows(X))
        self.n_columns = rows.numbers[1].shape[1]
        return rows

    def transform(self, X: Any) -> Rows:
        offsets, rows = dense_rows(X)
        if rows.shape[1] != self.n_columns:
            raise InputError(f"arrays have {rows.shape[1]} columns; expected {self.n_columns}")
        return Rows(dense=(offsets, rows))


class TemplateEncoder(Encoder):
    """Token columns read by templates."""

    kind = "templates"

    def __init__(
        self,
        templates: Templates,
        columns: Sequence[str] | None = None,
        min_count: int = 1,
        hashing: int | None = None,
        index: TemplateIndex | None = None,
    ) -> None:
        self.templates, self.columns = templates, None if columns is None else tuple(columns)
        self.min_count, self.hashing, self.index = min_count, hashing, index
        self.warns = True  # about documents that are not there, once
        self._coder: tuple[SentenceCoder | None] | None = None  # made when a single sentence comes

    def as_columns(self, X: Any) -> Columns:
        """Columns as they are; sentences of rows, or of plain words, as columns."""
        X = sequences_of(X)
        if isinstance(X, Columns):
            return X
        if len(X) == 0:
            raise InputError("no sequences were given")
        for i, sentence in enumerate(X):
            if len(sentence) == 0:
                raise InputError(f"sequence {i} is empty; expected at least one position")
        if isinstance(X[0][0], str):
            return Columns.from_sentences({"word": X})
        X = [x.tolist() if isinstance(x, np.ndarray) else x for x in X]
        for i, sentence in enumerate(X):
            for t, token in enumerate(sentence):
                if not isinstance(token, Sequence):
                    expected = "a word, or the strings of its columns"
                    raise InputError(f"sequence {i}, position {t}: expected {expected}, got {token!r}")
        width = len(X[0][0])
        names = self.columns or ("word", "pos", "chunk")[:width]
        if len(names) != width:
            raise InputError(f"tokens have {width} columns; name them with columns=(…), got {names}")
        return Columns.from_sentences(X, names=names)

    @property
    def context(self) -> str:
        return self.templates.context if self.index is None else self.index.context

    def fit_transform(self, X: Any) -> Rows:
        columns, self._coder = self.as_columns(X), None
        self.index, tokens = self.templates.fit_transform(columns, min_count=self.min_count, hashing=self.hashing)
        self._check_context(columns)
        return self._rows(columns, tokens)

    def transform(self, X: Any) -> Rows:
        columns = self.as_columns(X)
        assert self.index is not None
        self._check_context(columns)
        return self._rows(columns, self.index.transform(columns))

    def _check_context(self, columns: Columns) -> None:
        """Say once that templates which look at documents have none to look at."""
        if not columns.has_documents and self.warns and self.index is not None:
            self.warns = False
            if self.index.context == "document":
                warnings.warn(
                    "the model's templates look at documents (doc_title, doc_label, …), but the input has no document "
                    "boundaries: each sentence counts as a document. Read files with -DOCSTART- lines, or train with a "
                    "preset for sentences such as 'ner'",
                    UserWarning,
                    stacklevel=4,
                )

    def read_one(self, X: Any, i: int) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        if self._coder is None and self.index is not None:
            self._coder = (SentenceCoder.of(self.index),)
        coder = self._coder[0] if self._coder is not None else None
        sentence = None if coder is None else self._by_column(X, i, coder.columns)
        return None if coder is None or sentence is None else coder(sentence)

    def is_single(self, X: Any) -> bool:
        """A token is a word or a row of columns; [["a", "b"]] is a sentence of words, unless a row has two columns."""
        if isinstance(X, Columns) or len(X) == 0 or isinstance(X[0], str):
            return not isinstance(X, Columns) and len(X) > 0
        if len(X[0]) == 0 or not isinstance(X[0][0], str):
            return False
        return isinstance(X[0], tuple) or not self.reads_words_only

    @property
    def reads_words_only(self) -> bool:
        """Whether a sentence may be a plain list of words."""
        return set(self.index.columns if self.index is not None else self.templates.columns) <= {"word"}

    def _by_column(self, X: Any, i: int, wanted: Sequence[str]) -> list[list[str]] | None:
        """The strings of one sentence in these columns; None for input that has to be checked more closely."""
        if isinstance(X, Columns):
            if not set(wanted) <= set(X.names):
                return None
            begin, end = X.offsets[i], X.offsets[i + 1]
            places = [X.position(name) for name in wanted]
            return [[X.vocab[c][code] for code in X.codes[c][begin:end].tolist()] for c in places]
        sentence = X[i]
        if isinstance(sentence, str) or not len(sentence):
            return None
        if all(type(word) is str for word in sentence):
            return [list(sentence)] if list(wanted) == ["word"] else None
        if not all(isinstance(row, tuple | list) for row in sentence):
            return None
        width = len(sentence[0])
        names = self.columns or ("word", "pos", "chunk")[:width]
        if len(names) != width or not set(wanted) <= set(names) or any(len(row) != width for row in sentence):
            return None
        columns = list(zip(*sentence, strict=True))
        found = [columns[names.index(name)] for name in wanted]
        return [list(words) for words in found] if all(type(w) is str for words in found for w in words) else None

    def _rows(self, columns: Columns, tokens: Any) -> Rows:
        n = tokens.n_attributes
        return Rows(RowMatrix(columns.offsets, tokens.indptr, tokens.attributes, tokens.values, n))

    def names(self) -> list[str]:
        assert self.index is not None
        return self.index.names()

    def to_state(self) -> State:
        assert self.index is not None
        header, arrays = self.index.to_state()
        return {
            "index": header,
            "templates": self.templates.text,
            "columns": self.columns,
            "min_count": self.min_count,
            "hashing": self.hashing,
        }, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TemplateEncoder:
        index = TemplateIndex.from_state(header["index"], arrays)
        templates = Templates.parse(header["templates"])
        return cls(templates, header["columns"], header["min_count"], header["hashing"], index)


ENCODERS: dict[str, type[Encoder]] = {
    kind.kind: kind for kind in (StringEncoder, CSREncoder, DenseEncoder, TemplateEncoder)
}


def make_encoder(X: Any, templates: Any, columns: Sequence[str] | None, min_count: int, hashing: int | None) -> Encoder:
    """The encoder for this input: templates where they are given, else by what X is."""
    if templates is not None:
        if not isinstance(templates, Templates):
            ready = isinstance(templates, str) and templates in PRESETS
            templates = Templates.preset(templates) if ready else Templates.parse(templates)
        return TemplateEncoder(templates, columns, min_count, hashing)
    if isinstance(X, Columns):
        raise InputError("token columns need templates: SequenceLabeler(templates='chunking'), for example")
    kind = input_kind(X)
    if kind == "strings":
        return StringEncoder(min_count)
    return DenseEncoder() if kind == "dense" else CSREncoder()


def restore_encoder(kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Encoder:
    """An encoder from a stored state."""
    if kind not in ENCODERS:
        raise StorageError(f"the model reads input of kind {kind!r}; this version knows {', '.join(ENCODERS)}")
    return ENCODERS[kind].from_state(header, arrays)

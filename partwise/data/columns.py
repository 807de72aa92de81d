"""Sentences in columns: one string per token and column (word, tag, ...), held as integer codes.

``Columns`` is a data set with named columns, ``CodedColumn`` one column of it. Files of columns are read and
written by ``partwise.data.column_files``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, ParameterError, unknown_name

__all__ = ["CodedColumn", "Columns", "Sentence", "column_names", "encode", "is_coded", "new_lookup"]


class CodedColumn(NamedTuple):
    """Token t of sentence i is ``vocab[codes[offsets[i] + t]]``: one column as integers."""

    codes: NDArray[np.int32]
    vocab: list[str]
    offsets: NDArray[np.int64]

    def to_lists(self) -> list[list[str]]:
        """One list of strings per sentence.

        Examples
        --------
        >>> encode([["a", "b"], ["a"]]).to_lists()
        [['a', 'b'], ['a']]
        """
        values = list(map(self.vocab.__getitem__, self.codes.tolist()))
        return [values[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    @property
    def shape(self) -> tuple[int]:
        """(sentences,): scikit-learn's splitters count and select sentences."""
        return (len(self.offsets) - 1,)

    def __getitem__(self, key: Any) -> Any:
        """``column[indices, ...]``, as scikit-learn writes it: the column of these sentences."""
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            _, tokens, offsets = _selected(self.offsets, key[0])
            return CodedColumn(self.codes[tokens], self.vocab, offsets)
        return tuple.__getitem__(self, key)

    def place(self, token: int) -> str:
        """Where the token at an index into ``codes`` is, for an error message: ``sentence 2, token 4``."""
        sentence = int(np.searchsorted(self.offsets, token, side="right")) - 1
        return f"sentence {sentence}, token {token - self.offsets[sentence]}"


def is_coded(sentences: object) -> TypeGuard[CodedColumn]:
    """Whether these are a ``CodedColumn``, or a plain tuple of its three parts."""
    return isinstance(sentences, tuple) and len(sentences) == 3 and isinstance(sentences[0], np.ndarray)


def encode(sentences: Sequence[Sequence[str]] | CodedColumn, what: str = "sentences") -> CodedColumn:
    """Code the distinct strings of all sentences 0, 1, ... in order of appearance.

    What is coded already is checked and passed through.

    Examples
    --------
    >>> codes, vocab, offsets = encode([["a", "b"], ["a"]])
    >>> codes.tolist(), vocab, offsets.tolist()
    ([0, 1, 0], ['a', 'b'], [0, 2, 3])
    """
    if is_coded(sentences):
        column = CodedColumn(*sentences)
        _check_coded(column, what)
        return column
    sentences = cast(Sequence[Sequence[str]], sentences)
    if isinstance(sentences, str) or any(isinstance(sentence, str) for sentence in sentences):
        expected = "expected a list of sentences, each a list of strings, not of characters"
        raise InputError(f"{what}: {expected}; a single sentence goes into a list of its own: [sentence]")
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=offsets[1:])
    lookup = new_lookup()
    values = map(lookup.__getitem__, chain.from_iterable(sentences))
    codes = np.fromiter(values, np.int32, count=int(offsets[-1]))
    column = CodedColumn(codes, list(lookup), offsets)
    for value, code in lookup.items():
        if not isinstance(value, str):
            place = column.place(int(np.argmax(codes == code)))
            raise InputError(f"{what}: {place}: expected a string, got {value!r}")
    return column


def _check_coded(column: CodedColumn, what: str) -> None:
    codes, vocab, offsets = column
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise InputError(f"{what}: codes must be a vector of integers, got {codes.dtype} {codes.shape}")
    if codes.size and not (codes.min() >= 0 and codes.max() < len(vocab)):
        raise InputError(f"{what}: codes must be in 0..{len(vocab) - 1}, got {codes.min()}..{codes.max()}")
    ends_meet = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(codes)
    if not ends_meet or (np.diff(offsets) < 0).any():
        raise InputError(f"{what}: offsets must rise from 0 to the {len(codes)} tokens")


class Sentence(list[tuple[str, ...]]):
    """The rows of one sentence, with the line it begins on and the document it is in.

    ``docstart`` holds the fields of the file's ``-DOCSTART-`` line, or None if there was none so far.
    """

    __slots__ = ("docstart", "document", "line")

    def __init__(
        self,
        rows: Iterable[tuple[str, ...]],
        line: int = 0,
        document: int = 0,
        docstart: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(rows)
        self.line, self.document, self.docstart = line, document, docstart


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Token t of sentence i in column c is ``vocab[c][codes[c][offsets[i] + t]]``.

    Attributes
    ----------
    names : tuple of str
        Column names; "0", "1", ... where none were given.
    codes : list of int32 arrays [tokens]
    vocab : list of list of str
        The distinct strings of each column.
    offsets : int64 array [sentences + 1]
    documents : int64 array [sentences]
        Index of each sentence's document; all 0 in a file without ``-DOCSTART-`` lines.
    lines : int64 array [sentences]
        Line of each sentence's first token, from 1; 0 where the data is not from a file.
    path : str or None
    docstart : tuple of str or None
        The fields of the first ``-DOCSTART-`` line.

    Examples
    --------
    >>> rows = [[("the", "DT"), ("dog", "NN")], [("run", "VB")]]
    >>> data = Columns.from_sentences(rows, names=("word", "pos"))
    >>> data
    Columns(2 sentences, 3 tokens, names=('word', 'pos'))
    >>> data.column("pos")
    [['DT', 'NN'], ['VB']]
    """

    names: tuple[str, ...]
    codes: list[NDArray[np.int32]]
    vocab: list[list[str]]
    offsets: NDArray[np.int64]
    documents: NDArray[np.int64]
    lines: NDArray[np.int64]
    path: str | None = None
    docstart: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Columns({len(self)} sentences, {self.tokens} tokens, names={self.names})"

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.offsets[-1])

    @property
    def has_documents(self) -> bool:
        """Whether anything says where documents begin: ``-DOCSTART-`` lines, or ``documents`` that are not all 0."""
        return self.docstart is not None or bool(self.documents.any())

    @property
    def groups(self) -> NDArray[np.int64]:
        """The document of each sentence, for splitters that keep groups whole; each its own where there are none.

        Examples
        --------
        >>> from sklearn.model_selection import GroupKFold
        >>> from partwise.data import load_sample
        >>> data = load_sample("news", split="train")
        >>> train, test = next(GroupKFold(2).split(data, groups=data.groups))
        >>> set(data[train].documents) & set(data[test].documents)
        set()
        """
        return self.documents if self.has_documents else np.arange(len(self))

    @property
    def shape(self) -> tuple[int]:
        """(sentences,): scikit-learn's splitters count and select sentences, so that columns stay columns."""
        return (len(self),)

    def __getitem__(self, key: Any) -> Any:
        """A number: the rows of that sentence. Indices, a mask or a slice: :meth:`subset`.

        Examples
        --------
        >>> data = Columns.from_sentences({"word": [["a", "b"], ["c"], ["d"]]})
        >>> data[0], data[1:]
        ([('a',), ('b',)], Columns(2 sentences, 2 tokens, names=('word',)))
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # scikit-learn's way
            key = key[0]
        if isinstance(key, int | np.integer):
            return next(self.subset([range(len(self))[key]]).sentences())
        return self.subset(key)

    def position(self, column: str | int) -> int:
        """Index of a column given by name, or by number (from the end where negative)."""
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        if isinstance(column, int) and -len(self.names) <= column < len(self.names):
            return column % len(self.names)
        raise unknown_name("column", column, self.names)

    def coded(self, column: str | int) -> CodedColumn:
        """The integer form of one column: codes, vocabulary, sentence offsets (no copy)."""
        c = self.position(column)
        return CodedColumn(self.codes[c], self.vocab[c], self.offsets)

    def column(self, column: str | int) -> list[list[str]]:
        """One column as a list of strings per sentence."""
        return self.coded(column).to_lists()

    def sentence(self, index: int, column: str | int) -> list[str]:
        """One column of one sentence."""
        index = range(len(self))[index]
        codes, vocab, offsets = self.coded(column)
        return [vocab[code] for code in codes[offsets[index] : offsets[index + 1]].tolist()]

    def without(self, column: str | None) -> Columns:
        """The data without a column, so that templates cannot see what is to be predicted."""
        kept = [c for c, name in enumerate(self.names) if name != column]
        return replace(
            self,
            names=tuple(self.names[c] for c in kept),
            codes=[self.codes[c] for c in kept],
            vocab=[self.vocab[c] for c in kept],
        )

    def sentences(self) -> Iterator[Sentence]:
        """Each sentence as a list of rows."""
        bounds = self.offsets.tolist()
        for i in range(len(self)):
            begin, end = bounds[i], bounds[i + 1]
            fields = (
                [vocab[code] for code in codes[begin:end].tolist()]
                for codes, vocab in zip(self.codes, self.vocab, strict=True)
            )
            rows = zip(*fields, strict=True)
            yield Sentence(rows, int(self.lines[i]), int(self.documents[i]), self.docstart)

    def place(self, sentence: int, token: int = 0) -> str:
        """Where a token is, for an error message: ``train.txt:17``, or ``sentence 2, token 4``."""
        if self.lines[sentence] == 0:
            return f"sentence {sentence}, token {token}"
        return f"{self.path}:{self.lines[sentence] + token}"

    def subset(self, indices: Sequence[int] | NDArray[Any] | slice) -> Columns:
        """The sentences at these indices (integers, a mask or a slice); vocabularies are shared, not cut.

        Examples
        --------
        >>> data = Columns.from_sentences({"word": [["a", "b"], ["c"], ["d"]]})
        >>> data.subset([2, 0]).column("word")
        [['d'], ['a', 'b']]
        """
        chosen, tokens, offsets = _selected(self.offsets, indices)
        return Columns(
            self.names,
            [codes[tokens] for codes in self.codes],
            self.vocab,
            offsets,
            self.documents[chosen],
            self.lines[chosen],
            self.path,
            self.docstart,
        )

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """The sentences of all parts, one part after another; vocabularies in order of appearance.

        Examples
        --------
        >>> parts = [Columns.from_sentences({"word": [["b", "a"]]}), Columns.from_sentences({"word": [["a"], ["c"]]})]
        >>> Columns.joined(parts).column("word"), Columns.joined(parts).vocab
        ([['b', 'a'], ['a'], ['c']], [['b', 'a', 'c']])
        """
        first = parts[0]
        for part in parts:
            if part.names != first.names:
                raise InputError(f"the columns {part.names} of {part.path} differ from the earlier ones, {first.names}")
        if len(parts) == 1:
            return first
        codes, vocab = [], []
        for c in range(len(first.names)):
            lookup = new_lookup()
            pieces = [np.array([lookup[word] for word in part.vocab[c]], np.int32)[part.codes[c]] for part in parts]
            codes.append(np.concatenate(pieces))
            vocab.append(list(lookup))
        starts = np.cumsum([0, *(part.tokens for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            first.names,
            codes,
            vocab,
            np.concatenate([np.zeros(1, np.int64), *offsets]),
            np.concatenate([part.documents for part in parts]),
            np.concatenate([part.lines for part in parts]),
            first.path,
            next((part.docstart for part in parts if part.docstart is not None), None),
        )

    @classmethod
    def from_sentences(
        cls,
        sentences: Sequence[Sequence[Sequence[str]]] | Mapping[str, Sequence[Sequence[str]]],
        names: Sequence[str] | None = None,
    ) -> Columns:
        """From a list of sentences, each a list of rows, or from a dict ``{name: list of sentences}``."""
        if isinstance(sentences, Mapping):
            if names is not None:
                raise ParameterError("names", "from_sentences", "left out where a dict names the columns", names)
            names = tuple(sentences)
            columns = [encode(values, f"column {name!r}") for name, values in sentences.items()]
        else:
            columns = [encode(values) for values in _transpose(sentences)]
        if not columns or len(columns[0].offsets) == 1:
            raise InputError("no sentences: the columns cannot be inferred")
        offsets = columns[0].offsets
        for c, column in enumerate(columns):
            if len(column.offsets) != len(offsets):
                raise InputError(f"column {c} has {len(column.offsets) - 1} sentences, column 0 {len(offsets) - 1}")
            if (wrong := np.flatnonzero(column.offsets != offsets)).size:
                raise InputError(f"sentence {wrong[0] - 1}: column {c} and column 0 differ in length")
        if (empty := np.flatnonzero(np.diff(offsets) == 0)).size:
            raise InputError(f"sentence {empty[0]} has no tokens; a column file cannot hold it")
        zeros = np.zeros(len(offsets) - 1, np.int64)
        names = column_names(names, len(columns), "from_sentences")
        return cls(names, [c.codes for c in columns], [c.vocab for c in columns], offsets, zeros, zeros)


def _selected(
    offsets: NDArray[np.int64], indices: Sequence[int] | NDArray[Any] | slice
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(sentences, their tokens, their offsets) at these indices (integers, a mask or a slice)."""
    chosen = np.arange(len(offsets) - 1)[indices if isinstance(indices, slice | np.ndarray) else list(indices)]
    lengths = np.diff(offsets)[chosen]
    own = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return chosen, np.arange(own[-1]) + np.repeat(offsets[chosen] - own[:-1], lengths), own


def new_lookup() -> dict[Any, int]:
    """A dict that gives each new key the next integer."""
    lookup: defaultdict[Any, int] = defaultdict()
    lookup.default_factory = lookup.__len__
    return lookup


def column_names(names: Sequence[str] | None, width: int, owner: str) -> tuple[str, ...]:
    """The names, "0", "1", ... where there are none; ParameterError if they do not fit."""
    if names is None:
        return tuple(map(str, range(width)))
    if isinstance(names, str) or len(names) != width or len(set(names)) != width:
        raise ParameterError("columns", owner, f"{width} different names", names)
    return tuple(names)


def _transpose(sentences: Sequence[Sequence[Sequence[str]]]) -> list[list[list[str]]]:
    """Rows to columns; every row as wide as the first."""
    width = len(sentences[0][0]) if len(sentences) and len(sentences[0]) else 0
    for i, rows in enumerate(sentences):
        for t, row in enumerate(rows):
            if isinstance(row, str) or len(row) != width:
                got = "a string" if isinstance(row, str) else f"{len(row)} columns"
                raise InputError(f"sentence {i}, token {t}: expected a row of {width} columns, got {got}")
    return [[[row[c] for row in rows] for rows in sentences] for c in range(width)]

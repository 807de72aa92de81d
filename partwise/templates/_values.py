"""Values of a template set on data: each computed once for every distinct string, or once for a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import Columns, new_lookup
from partwise.exceptions import FormatError, StorageError
from partwise.templates._files import FILE_KINDS, Embedding, TemplateFile
from partwise.templates._functions import FUNCTIONS, numbers_in
from partwise.templates._parse import Line, Value
from partwise.templates._tokens import (
    PhraseIndex,
    Text,
    all_caps,
    flags,
    in_document,
    majority_elsewhere,
    majority_table,
)

__all__ = ["BOUNDARIES", "Coded", "Files", "Real", "Statistics", "Values"]

# What pad(...) puts before and after a sentence: the first two codes of a padded value.
BOUNDARIES = ["<s>", "</s>"]

Array = np.ndarray[Any, Any]


class Coded(NamedTuple):
    """A value of text: that of token t is ``vocab[table[sources[source][t]]]``, nothing where it is -1."""

    source: int
    table: NDArray[np.int32]
    vocab: list[str]


class Real(NamedTuple):
    """A value of numbers: those of token t are ``vectors[table[sources[source][t]]]``."""

    source: int
    table: NDArray[np.int32]
    vectors: NDArray[np.float64]


#: Of a corpus_label: what each string of its first value most often goes with in the training corpus.
Statistics = dict[Value, dict[str, str]]


class Files:
    """The contents of all files that a template set names, by function and path."""

    def __init__(self, contents: Mapping[tuple[str, str], TemplateFile]) -> None:
        self.contents = dict(contents)
        self._phrases: dict[Value, PhraseIndex] = {}

    @classmethod
    def read(cls, lines: Iterable[Line]) -> Files:
        """Read each file once; errors name the line of the template."""
        contents: dict[tuple[str, str], TemplateFile] = {}
        for line in lines:
            for key in named_files([line]):
                if key in contents:
                    continue
                try:
                    contents[key] = FILE_KINDS[key[0]].read(key[1])
                except FormatError as error:
                    line.fail(f"{key[0]} cannot read its file: {error}", key[1])
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or error
                    line.fail(f"{key[0]} cannot read the file {key[1]!r}: {reason}", key[1])
        return cls(contents)

    def to_arrays(self) -> dict[str, Array]:
        arrays = {}
        for i, content in enumerate(self.contents.values()):
            arrays.update({f"file{i}_{name}": array for name, array in content.to_arrays().items()})
        return arrays

    @classmethod
    def from_arrays(cls, lines: Iterable[Line], arrays: Mapping[str, Array]) -> Files:
        contents: dict[tuple[str, str], TemplateFile] = {}
        for i, key in enumerate(named_files(lines)):
            own = {name.removeprefix(f"file{i}_"): arrays[name] for name in arrays if name.startswith(f"file{i}_")}
            contents[key] = FILE_KINDS[key[0]].from_arrays(own)
            if key[0] == "cluster" and len(contents[key].strings) % 2:
                raise StorageError("clusters: a word without its cluster")
        return cls(contents)

    def phrases(self, value: Value) -> PhraseIndex:
        """The index of a ``list(...)``; its entries go through the functions that its words go through."""
        if value not in self._phrases:
            content = self.contents[value.function, str(value.options[0])]
            entries = [entry.split(" ") for entry in content.strings]
            distinct = list(dict.fromkeys(token for entry in entries for token in entry))
            became = dict(zip(distinct, self.through(value.inner[0], distinct), strict=True))
            found = [[became[token] for token in entry] for entry in entries]
            whole = [[token for token in entry if token is not None] for entry in found if None not in entry]
            self._phrases[value] = PhraseIndex(whole)
        return self._phrases[value]

    def through(self, value: Value, words: list[str]) -> list[str | None]:
        """What these strings become in the functions of a value, all of them functions of words."""
        if not value.function:
            return list(words)
        before = self.through(value.inner[0], words)
        there = [word for word in before if word is not None]
        after = iter(self.apply(value, there))
        return [None if word is None else next(after) for word in before]

    def apply(self, value: Value, words: list[str]) -> list[str | None]:
        """A function of words on a vocabulary; what a flag holds for becomes an empty string."""
        function = FUNCTIONS[value.function]
        assert function.apply is not None
        options: list[object] = list(value.options)
        if "path" in function.arguments:
            options[0] = self.contents[value.function, str(options[0])]
        results = function.apply(words, *options)
        if function.result == "flag":
            return ["" if there else None for there in results]
        return list(results)  # type: ignore[arg-type]

    def dimensions(self, value: Value) -> int:
        """How many numbers a value of numbers has."""
        if value.function == "number":
            return 1
        return int(self.embedding(value).vectors.shape[1])

    def embedding(self, value: Value) -> Embedding:
        content = self.contents[value.function, str(value.options[0])]
        assert isinstance(content, Embedding)
        return content


def named_files(lines: Iterable[Line]) -> list[tuple[str, str]]:
    """(function, path) of each file, in order of first use."""
    values = (value for line in lines for piece in line.pieces() for value in piece.value.walk())
    found = ((value.function, str(value.options[0])) for value in values if value.function in FILE_KINDS)
    return list(dict.fromkeys(found))


class Values:
    """All values on one text. ``sources`` are the integer columns that ``Coded`` and ``Real`` point into."""

    def __init__(self, columns: Columns, files: Files, statistics: Statistics | None = None) -> None:
        self.columns, self.files = columns, files
        self.statistics = {} if statistics is None else statistics  # of the training corpus, where it was seen before
        self.text = Text.of(columns)
        self.sources: list[NDArray[np.int32]] = []
        self._coded: dict[Value, Coded] = {}

    def coded(self, value: Value) -> Coded:
        """A value of text or a flag."""
        if value not in self._coded:
            self._coded[value] = self._compute(value)
        return self._coded[value]

    def real(self, value: Value) -> Real:
        """A value of numbers."""
        source, table, vocab = self.coded(value.inner[0])
        if value.function == "number":
            vectors = np.array(numbers_in(vocab), np.float64)[:, None]
            there = ~np.isnan(vectors[:, 0])
        else:
            embedding = self.files.embedding(value)
            rows = np.array([embedding.rows.get(word, -1) for word in vocab], np.int64)
            there = rows >= 0
            vectors = embedding.vectors[np.maximum(rows, 0)].astype(np.float64)
        kept = np.append(np.where(there, np.arange(len(vocab)), -1), -1).astype(np.int32)
        return Real(source, kept[table], vectors)

    def _compute(self, value: Value) -> Coded:
        if not value.function:
            return self._column(str(value.options[0]))
        level = FUNCTIONS[value.function].level
        if level == "token":
            codes, vocab = self._token_codes(value)
            return self._add(codes, np.arange(len(vocab), dtype=np.int32), vocab)
        inner = self.coded(value.inner[0])
        if level == "pad":
            shifted = np.where(inner.table >= 0, inner.table + len(BOUNDARIES), -1).astype(np.int32)
            return Coded(inner.source, shifted, BOUNDARIES + inner.vocab)
        codes, vocab = _encode(self.files.apply(value, inner.vocab))
        return Coded(inner.source, np.append(codes, np.int32(-1))[inner.table], vocab)

    def _column(self, name: str) -> Coded:
        position = self.columns.position(name)
        codes, vocab = self.columns.codes[position], self.columns.vocab[position]
        # Only what occurs: the vocabulary of a subset is that of the whole.
        there = np.zeros(len(vocab), bool)
        there[codes] = True
        used = np.flatnonzero(there)
        found, strings = _encode(map(vocab.__getitem__, used.tolist()))
        table = np.full(len(vocab), -1, np.int32)
        table[used] = found
        return self._add(np.asarray(codes, np.int32), table, strings)

    def _add(self, codes: NDArray[np.int32], table: NDArray[np.int32], vocab: list[str]) -> Coded:
        self.sources.append(codes)
        return Coded(len(self.sources) - 1, table, vocab)

    def _token_codes(self, value: Value) -> tuple[NDArray[np.int32], list[str]]:
        """The codes of a function of the running text, and what they stand for."""
        name, text = value.function, self.text
        if name in ("bias", "first", "last"):
            side = {"bias": text.before * 0, "first": text.before, "last": text.after}[name]
            return flags(side == 0), [""]
        inner = [self.coded(argument) for argument in value.inner]
        columns = [np.append(c.table, np.int32(-1))[self.sources[c.source]] for c in inner]
        vocab = inner[0].vocab
        if name == "all_caps":
            return all_caps(text, columns[0], vocab), [""]
        if name in ("doc_title", "doc_lower"):
            return in_document(text, columns[0], vocab, title=name == "doc_title"), [""]
        if name == "list":
            return self.files.phrases(value).match(text, columns[0], vocab), ["B", "I"]
        if name == "corpus_label" and value in self.statistics:
            known = self.statistics[value]
            codes, labels = _encode(map(known.get, vocab))
            return np.append(codes, np.int32(-1))[columns[0]], labels
        if name == "corpus_label":  # the training corpus itself: each token is told of the others
            self.statistics[value] = majority_table(columns[0], columns[1], vocab, inner[1].vocab)
        found = majority_elsewhere(text, columns[0], columns[1], inner[1].vocab, whole=name == "corpus_label")
        return found, inner[1].vocab


def _encode(strings: Iterable[str | None]) -> tuple[NDArray[np.int32], list[str]]:
    """Number the distinct strings in order of appearance; -1 is None."""
    lookup = new_lookup()
    lookup[None] = 0
    codes = np.array(list(map(lookup.__getitem__, strings)), np.int32) - np.int32(1)
    return codes, list(lookup)[1:]

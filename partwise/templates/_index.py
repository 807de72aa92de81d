"""The fitted form of templates: which attributes there are, and which of them each token has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import Columns
from partwise.exceptions import InputError, StorageError
from partwise.storage import pack_strings, unpack_strings
from partwise.templates._kernels import compact
from partwise.templates._parse import Line, Template, Value, parse_lines
from partwise.templates._tables import (
    KEY_LIMIT,
    Bound,
    Hashed,
    Keyed,
    Known,
    Numbers,
    Table,
    Writer,
    distinct_values,
    fit_table,
    table_names,
    vector_names,
)
from partwise.templates._values import Files, Statistics, Values

if TYPE_CHECKING:
    from partwise.templates.template_list import Templates

__all__ = ["MAX_BITS", "TemplateIndex", "TokenMatrix", "check_columns", "distinct_templates"]

BLOCK = 4096  # tokens: what all templates write for a block stays in cache
MAX_BITS = 30

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class TokenMatrix:
    """Attributes of all tokens: those of token t are ``attributes[indptr[t]:indptr[t + 1]]``.

    Attributes
    ----------
    indptr : int64 array [tokens + 1]
    attributes : int32 array [entries]
    values : float64 array [entries], or [0] where all values are 1
    n_attributes : int
        All ids are below it.
    """

    indptr: NDArray[np.int64]
    attributes: NDArray[np.int32]
    values: NDArray[np.float64]
    n_attributes: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        entries = f"{len(self.attributes)} entries"
        return f"TokenMatrix({len(self)} tokens, {self.n_attributes} attributes, {entries})"


class TemplateIndex:
    """What ``Templates.fit`` returns: numbers the attributes of the training data and finds them in any.

    Attributes are numbered template by template, and within one in the order in which they appear.

    Attributes
    ----------
    n_attributes : int
    min_count : int
    hashing : int or None
        Bits of the hashed ids.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        files: Files,
        vocab: Mapping[Value, list[str]],
        tables: Mapping[Template, Table],
        min_count: int,
        hashing: int | None,
        statistics: Statistics | None = None,
    ) -> None:
        self._lines, self._files, self._vocab, self._tables = tuple(lines), files, vocab, tables
        self._statistics: Statistics = statistics or {}
        self.min_count, self.hashing = min_count, hashing
        self._templates = distinct_templates(lines)
        self._lookups: dict[Value, dict[str, int]] | None = None
        self._names: list[str] | None = None
        sizes = [
            files.dimensions(t.pieces[0].value) if t.is_real else len(tables[t].keys) if t in tables else 0
            for t in self._templates
        ]
        self._bases = np.cumsum([0, *sizes]).tolist()
        if self._bases[-1] >= 1 << 31:
            raise InputError(f"{self._bases[-1]} attributes are too many; use min_count or hashing")
        self.n_attributes = int(self._bases[-1]) if hashing is None else 1 << hashing

    @classmethod
    def fit(
        cls, lines: Sequence[Line], values: Values, min_count: int, hashing: int | None
    ) -> tuple[TemplateIndex, dict[Template, NDArray[np.int32]]]:
        """Collect the attributes of a text; also which of its template's attributes each token has, or -1."""
        if hashing is not None:
            for value in _corpus_values(lines):
                values.coded(value)
            return cls(lines, values.files, {}, {}, min_count, hashing, values.statistics), {}
        templates = [template for template in distinct_templates(lines) if not template.is_real]
        bound = Bound(values, distinct_values(templates))
        fitted = {template: fit_table(bound, template, min_count) for template in templates}
        tables = {template: table for template, (table, _) in fitted.items()}
        index = cls(lines, values.files, bound.vocab, tables, min_count, hashing, values.statistics)
        return index, {template: ids for template, (_, ids) in fitted.items()}

    def __repr__(self) -> str:
        return f"TemplateIndex({len(self._templates)} templates, {self.n_attributes} attributes)"

    @property
    def text(self) -> str:
        """The templates in canonical form, without the optional lines whose columns were not there."""
        return "\n".join(line.text.removeprefix("? ") for line in self._lines)

    @property
    def templates(self) -> Templates:
        """The templates, as fitted."""
        from partwise.templates.template_list import Templates  # which imports this module

        return Templates.parse(self.text.split("\n"))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that ``transform`` reads."""
        return list(dict.fromkeys(name for line in self._lines for name in line.columns()))

    @property
    def context(self) -> str:
        """How much text the templates look at: the "sentence", or its "document"."""
        return self.templates.context

    def transform(self, columns: Columns) -> TokenMatrix:
        """The attributes of each token; those that the training data did not have are left out."""
        check_columns(self._lines, columns)
        return self.transform_values(Values(columns, self._files, self._statistics))

    def transform_values(
        self, values: Values, found: Mapping[Template, NDArray[np.int32]] | None = None
    ) -> TokenMatrix:
        """As ``transform``, where the values are known already, or even, from ``fit``, what they stand for."""
        writers = self._writers(values, found or {})
        any_real = any(template.is_real for template in self._templates)
        width = sum(writer.width for writer in writers)
        bases = np.repeat([writer.base for writer in writers], [writer.width for writer in writers]).astype(np.int32)
        tokens = values.columns.tokens
        block = np.empty((min(BLOCK, tokens), width), np.int32)
        numbers = np.ones(block.shape if any_real else (0, 0))
        indptr = np.zeros(tokens + 1, np.int64)
        # Memory that is never written to is never taken, so this upper bound costs nothing.
        attributes = np.empty(tokens * width, np.int32)
        entries = np.empty(tokens * width if any_real else 0)
        for begin in range(0, tokens, BLOCK):
            end = min(begin + BLOCK, tokens)
            column = 0
            for writer in writers:
                writer.fill(begin, end, block, numbers, column)
                column += writer.width
            compact(block, bases, numbers, end - begin, begin, indptr, attributes, entries)
        n = int(indptr[-1])
        attributes.resize(n, refcheck=False)
        if any_real:
            entries.resize(n, refcheck=False)
        return TokenMatrix(indptr, attributes, entries, self.n_attributes)

    def names(self) -> list[str]:
        """The name of each attribute, such as ``word[-1]|word[0]=of|the``; ``#17`` where they are hashed."""
        if self._names is None:
            if self.hashing is not None:
                self._names = [f"#{i}" for i in range(self.n_attributes)]
            else:
                self._names = [name for template in self._templates for name in self._names_of(template)]
        return self._names

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything as a JSON-able header and arrays, with the contents of files that templates name."""
        chains = [table.chain() for table in self._tables.values()]
        keys = [table.keys for chain in chains for table in chain]
        words, offsets = pack_strings(word for vocab in self._vocab.values() for word in vocab)
        header = {
            "templates": self.text,
            "min_count": self.min_count,
            "hashing": self.hashing,
            "splits": [[len(table.pieces) for table in chain] for chain in chains],
        }
        arrays = {
            "keys": np.concatenate([np.empty(0, np.int64), *keys]),
            "key_counts": np.array([len(part) for part in keys], np.int64),
            "vocab_bytes": words,
            "vocab_offsets": offsets,
            "vocab_counts": np.array([len(vocab) for vocab in self._vocab.values()], np.int64),
        }
        for number, known in enumerate(self._statistics.values()):
            for name, strings in (("keys", known.keys()), ("labels", known.values())):
                arrays[f"corpus{number}_{name}"], arrays[f"corpus{number}_{name}_offsets"] = pack_strings(strings)
        header["corpus"] = [str(value) for value in self._statistics]
        return header, arrays | self._files.to_arrays()

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> TemplateIndex:
        """What ``to_state`` gave; a StorageError or a FormatError if it is something else."""
        text, splits = header.get("templates"), header.get("splits")
        min_count, hashing = header.get("min_count"), header.get("hashing")
        if not isinstance(text, str) or type(min_count) is not int or not isinstance(splits, list):
            raise StorageError("templates: the header does not have the fields of an index")
        if hashing is not None and not (type(hashing) is int and 1 <= hashing <= MAX_BITS):
            raise StorageError(f"templates: impossible hashing: {hashing!r:.40}")
        lines = parse_lines(text, "templates")
        files = Files.from_arrays(lines, arrays)
        templates = [t for t in distinct_templates(lines) if not t.is_real and hashing is None]
        used = distinct_values(templates)
        strings = unpack_strings(_vector(arrays, "vocab_bytes"), _vector(arrays, "vocab_offsets"))
        parts = _cut(strings, _vector(arrays, "vocab_counts"), len(used))
        vocab = {value: list(part) for value, part in zip(used, parts, strict=True)}
        for value, words in vocab.items():
            if len(set(words)) < len(words):
                raise StorageError(f"templates: a string occurs twice in the vocabulary of {value}")
        if len(splits) != len(templates) or not all(map(_is_split, splits, templates)):
            raise StorageError("templates: the tables do not fit the templates")
        keys = _cut(_vector(arrays, "keys"), _vector(arrays, "key_counts"), sum(map(len, splits)))
        tables = {t: _table(t, split, keys, vocab) for t, split in zip(templates, splits, strict=True)}
        return cls(lines, files, vocab, tables, min_count, hashing, _stored_statistics(lines, header, arrays))

    def _writers(self, values: Values, found: Mapping[Template, NDArray[np.int32]]) -> list[Writer]:
        texts = [template for template in self._templates if not template.is_real and template not in found]
        if self._lookups is None and texts:
            self._lookups = {v: dict(zip(words, range(len(words)))) for v, words in self._vocab.items()}
        bound = Bound(values, distinct_values(texts), self._lookups if self.hashing is None else None)
        hashes: dict[Value, Array] = {}
        writers: list[Writer] = []
        for template, base in zip(self._templates, self._bases, strict=False):
            if template.is_real:
                writers.append(Numbers(values, template, base, self.hashing))
            elif template in found:
                writers.append(Known(found[template], base))
            elif self.hashing is None:
                writers.append(Keyed(bound, self._tables[template], self._vocab, base))
            else:
                writers.append(Hashed(bound, template, self.hashing, hashes))
        return writers

    def _names_of(self, template: Template) -> list[str]:
        if template.is_real:
            return vector_names(template, self._files.dimensions(template.pieces[0].value))
        return table_names(self._tables[template], template, self._vocab)


def distinct_templates(lines: Sequence[Line]) -> list[Template]:
    """What lines expand to; a template on two lines counts once."""
    return list(dict.fromkeys(template for line in lines for template in line.templates))


def _corpus_values(lines: Sequence[Line]) -> list[Value]:
    """The values that are statistics of the training corpus."""
    values = (value for line in lines for piece in line.pieces() for value in piece.value.walk())
    return [value for value in dict.fromkeys(values) if value.function == "corpus_label"]


def _stored_statistics(lines: Sequence[Line], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Statistics:
    by_name = {str(value): value for value in _corpus_values(lines)}
    names = header.get("corpus", [])
    if not isinstance(names, list) or set(names) != set(by_name):
        raise StorageError("templates: the statistics of the training corpus do not fit the templates")
    statistics: Statistics = {}
    for number, name in enumerate(names):
        keys, labels = (
            unpack_strings(arrays[f"corpus{number}_{part}"], arrays[f"corpus{number}_{part}_offsets"])
            for part in ("keys", "labels")
        )
        if len(keys) != len(labels):
            raise StorageError(f"templates: the statistics of {name} do not add up")
        statistics[by_name[name]] = dict(zip(keys, labels, strict=True))
    return statistics


def check_columns(lines: Sequence[Line], columns: Columns | Sequence[str]) -> None:
    """Raise where a line reads a column that is not there."""
    names = columns.names if isinstance(columns, Columns) else tuple(columns)
    for line in lines:
        for name in line.columns():
            if name not in names:
                line.fail(f"there is no column {name!r}; the columns are {', '.join(names)}", name)


def _vector(arrays: Mapping[str, Array], name: str) -> Array:
    array = arrays.get(name)
    if array is None or array.ndim != 1 or (array.dtype != np.int64 and name != "vocab_bytes"):
        raise StorageError(f"templates: the array {name!r} is missing or has the wrong type")
    return array


def _cut(items: Any, counts: Array, n: int) -> Iterator[Any]:
    """The n consecutive parts with these lengths."""
    if len(counts) != n or (n and (counts.min() < 0 or counts.max() > len(items))) or counts.sum() != len(items):
        raise StorageError("templates: the lengths of tables or vocabularies do not add up")
    return (items[begin:end] for begin, end in pairwise([0, *np.cumsum(counts).tolist()]))


def _is_split(split: object, template: Template) -> bool:
    """Whether these are numbers of pieces that make up the template."""
    if not isinstance(split, list) or not all(type(size) is int and size > 0 for size in split):
        return False
    return sum(split) == len(template.pieces)


def _table(template: Template, split: Sequence[int], keys: Iterator[Array], vocab: Mapping[Value, list[str]]) -> Table:
    """The table of a template, with the tables of its first pieces, all checked."""
    table: Table | None = None
    for begin, end in pairwise(np.cumsum([0, *split]).tolist()):
        table = Table(template.pieces[begin:end], next(keys), table)
        bound = 1
        for radix in table.radices(vocab):
            bound *= radix
        if bound > KEY_LIMIT or (len(table.keys) and not 0 <= table.keys.min() <= table.keys.max() < bound):
            raise StorageError(f"templates: impossible attributes of {template}")
        table.slots(vocab)  # finds keys that are there twice
    assert table is not None
    return table

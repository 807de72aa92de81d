"""From the values of a text to attribute ids: key tables, hashes and vectors, by blocks of tokens."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError
from partwise.templates._kernels import collect_keys, fill_hashed, fill_ids, fill_real, make_slots
from partwise.templates._parse import Piece, Template, Value
from partwise.templates._values import Values

__all__ = ["Bound", "Hashed", "Keyed", "Known", "Numbers", "Table", "Vocabulary", "fit_table", "table_names"]

KEY_LIMIT = 1 << 62
DIRECT = 1 << 18  # keys up to here are looked up in a plain table, however few there are

Array = np.ndarray[Any, Any]
Block = NDArray[np.int32]
Vocabulary = Mapping[Value, Sequence[str]]


@dataclass(eq=False)
class Table:
    """Keys with the ids 0, 1, ...; where all pieces exceed a key, ``prefix`` numbers the first of them."""

    pieces: tuple[Piece, ...]
    keys: NDArray[np.int64]
    prefix: Table | None = None
    _slots: tuple[Array, Array] | None = field(default=None, repr=False)

    def radices(self, vocab: Vocabulary) -> list[int]:
        """How many codes the prefix and the pieces may have."""
        sizes = [len(vocab[piece.value]) for piece in self.pieces]
        return sizes if self.prefix is None else [len(self.prefix.keys), *sizes]

    def slots(self, vocab: Vocabulary) -> tuple[Array, Array]:
        """(keys, ids) of a hash table, or (nothing, ids by key) where keys are small."""
        if self._slots is not None:
            return self._slots
        n, bound = len(self.keys), math.prod(self.radices(vocab))
        if bound <= max(DIRECT, 4 * n):
            ids = np.full(max(bound, 1), -1, np.int32)
            ids[self.keys] = np.arange(n, dtype=np.int32)
            slots = np.empty(0, np.int64), ids
            different = int((ids >= 0).sum())
        else:
            log_size = max(4, (2 * n).bit_length())
            slots = np.full(1 << log_size, -1, np.int64), np.full(1 << log_size, -1, np.int32)
            # A copy, because compiled code takes an array that is read-only for another type.
            different = make_slots(np.array(self.keys), log_size, *slots)
        if different < n:
            raise StorageError("templates: an attribute occurs twice")
        self._slots = slots
        return slots

    def chain(self) -> list[Table]:
        """This table after its prefixes."""
        return [*(self.prefix.chain() if self.prefix else ()), self]


class Bound:
    """The values of one text, in the codes of a vocabulary (without one in their own), for the kernels."""

    def __init__(
        self, values: Values, used: Iterable[Value], lookups: Mapping[Value, Mapping[str, int]] | None = None
    ) -> None:
        self.text, self.tokens = values.text, values.columns.tokens
        self.vocab: dict[Value, list[str]] = {}
        self.starts: dict[Value, int] = {}
        self._source_of: dict[Value, int] = {}
        parts = [np.empty(0, np.int32)]
        for value in used:
            source, table, vocab = values.coded(value)
            self.vocab[value], self._source_of[value] = vocab, source
            self.starts[value] = sum(map(len, parts))
            if lookups is not None:
                find = lookups[value].get
                table = np.array([find(word, -1) for word in vocab] + [-1], np.int32)[table]
            parts.append(table)
        self.tables = np.concatenate(parts)
        self.sources = np.stack(values.sources) if values.sources else np.empty((0, self.tokens), np.int32)

    def pieces(self, pieces: Sequence[Piece], radices: Sequence[int]) -> NDArray[np.int64]:
        """The rows that describe pieces to the kernels; the last number is left to hashing."""
        rows = [
            (self._source_of[value], offset, self.starts[value], radix, value.function == "pad", 0)
            for (value, offset), radix in zip(pieces, radices, strict=True)
        ]
        return np.array(rows, np.int64).reshape(-1, 6)

    def rows(self, table: Table, vocab: Vocabulary) -> NDArray[np.int64]:
        """The rows of a table's pieces; the ids of its prefix become one more source of codes."""
        radices = table.radices(vocab)
        if table.prefix is None:
            return self.pieces(table.pieces, radices)
        ids = np.empty((self.tokens, 1), np.int32)
        Keyed(self, table.prefix, vocab, 0).fill(0, self.tokens, ids, np.empty((0, 0)), 0)
        first = np.array([(len(self.sources), 0, len(self.tables), radices[0], 0, 0)], np.int64)
        self.sources = np.vstack([self.sources, ids.T])
        self.tables = np.append(self.tables, np.arange(radices[0], dtype=np.int32))
        return np.vstack([first, self.pieces(table.pieces, radices[1:])])


class Writer(Protocol):
    """Writes the attributes of one template, less ``base``, into ``width`` columns of a block."""

    width: int
    base: int

    def fill(self, begin: int, end: int, out: Block, numbers: NDArray[np.float64], column: int) -> None:
        """Tokens begin:end into the rows of ``out``; -1 where there is none."""


class Keyed:
    """Ids from the table of a template."""

    width = 1

    def __init__(self, bound: Bound, table: Table, vocab: Vocabulary, base: int) -> None:
        self.bound, self.base = bound, base
        self.rows, self.slots = bound.rows(table, vocab), table.slots(vocab)

    def fill(self, begin: int, end: int, out: Block, numbers: NDArray[np.float64], column: int) -> None:
        bound, text = self.bound, self.bound.text
        where = (text.before, text.after, begin, end)
        fill_ids(bound.sources, bound.tables, self.rows, *where, *self.slots, out, column)


class Known:
    """Ids that were found when the table was made."""

    width = 1

    def __init__(self, ids: NDArray[np.int32], base: int) -> None:
        self.ids, self.base = ids, base

    def fill(self, begin: int, end: int, out: Block, numbers: NDArray[np.float64], column: int) -> None:
        out[: end - begin, column] = self.ids[begin:end]


class Hashed:
    """Ids from a hash of the template's name and its strings: the same for every text and machine."""

    width, base = 1, 0

    def __init__(self, bound: Bound, template: Template, bits: int, known: dict[Value, Array]) -> None:
        self.bound, self.bits, self.seed = bound, bits, _hash(str(template))
        values = [piece.value for piece in template.pieces]
        for value in values:
            if value not in known:
                known[value] = np.array([_hash(word) for word in bound.vocab[value]], np.uint64)
        hashes = {value: known[value] for value in values}
        self.rows = bound.pieces(template.pieces, [1] * len(values))
        starts = dict(zip(hashes, np.cumsum([0, *map(len, hashes.values())]), strict=False))
        self.rows[:, 5] = [starts[value] for value in values]
        self.hashes = np.concatenate(list(hashes.values()))

    def fill(self, begin: int, end: int, out: Block, numbers: NDArray[np.float64], column: int) -> None:
        bound, text = self.bound, self.bound.text
        where = (text.before, text.after, begin, end)
        tables = (bound.tables, self.hashes, self.rows)
        fill_hashed(bound.sources, *tables, *where, self.seed, self.bits, out, column)


class Numbers:
    """The numbers of a vector; with ``bits`` their names are hashed."""

    def __init__(self, values: Values, template: Template, base: int, bits: int | None) -> None:
        piece = template.pieces[0]
        source, self.table, self.vectors = values.real(piece.value)
        self.codes, self.text = np.stack([values.sources[source]]), values.text
        self.row = np.array([(0, piece.offset, 0, 0, 0, 0)], np.int64)
        self.width = values.files.dimensions(piece.value)
        self.base = base if bits is None else 0
        if bits is None:
            ids = list(range(self.width))
        else:
            ids = [int(_hash(name)) >> (64 - bits) for name in vector_names(template, self.width)]
        self.ids = np.array(ids, np.int32)

    def fill(self, begin: int, end: int, out: Block, numbers: NDArray[np.float64], column: int) -> None:
        where = (self.text.before, self.text.after, begin, end)
        arrays = (self.vectors, self.ids, out, numbers)
        fill_real(self.codes, self.table, self.row, *where, *arrays, column)


def _hash(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def fit_table(bound: Bound, template: Template, min_count: int) -> tuple[Table, NDArray[np.int32]]:
    """The attributes of a template that occur often enough, and which of them each token has, or -1."""
    vocab = bound.vocab
    empty = np.empty(0, np.int64)
    ids = np.empty(bound.tokens, np.int32)
    table = Table((), empty)
    rest = template.pieces
    while rest:
        size = 0 if table.prefix is None else len(table.prefix.keys)
        product, taken = max(size, 1), 0
        for piece in rest:
            product *= max(len(vocab[piece.value]), 1)
            # One piece more than the prefix always fits: both have fewer than 2**31 codes.
            if product > KEY_LIMIT and taken:
                break
            taken += 1
        table.pieces, rest = rest[:taken], rest[taken:]
        radices = table.radices(vocab)
        direct = math.prod(radices)
        direct = direct if direct <= max(DIRECT, 2 * bound.tokens) else 0
        text = bound.text
        rows = bound.rows(table, vocab)
        keys = collect_keys(bound.sources, bound.tables, rows, text.before, text.after, direct, ids)
        table.keys = keys
        if rest:
            table = Table((), empty, table)
    if min_count > 1:
        kept = np.bincount(ids + 1, minlength=len(keys) + 1)[1:] >= min_count
        table.keys = keys[kept]
        ids = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)[ids]
    return table, ids


def table_codes(table: Table, vocab: Vocabulary) -> list[NDArray[np.int64]]:
    """For each piece, the code that every attribute of the table has there."""
    codes: list[NDArray[np.int64]] = []
    keys, at = table.keys, np.arange(len(table.keys))
    for part in reversed(table.chain()):
        keys = part.keys[at]
        for radix in reversed(part.radices(vocab)):
            codes.insert(0, keys % radix)
            keys = keys // radix
        if part.prefix is not None:
            at = codes.pop(0)
    return codes


def table_names(table: Table, template: Template, vocab: Vocabulary) -> list[str]:
    """Names such as ``word[-1]|word[0]=of|the`` of all attributes of a table; flags have no text."""
    codes = table_codes(table, vocab)
    shown = [
        list(map(vocab[piece.value].__getitem__, code.tolist()))
        for piece, code in zip(template.pieces, codes, strict=True)
        if piece.value.result != "flag" or piece.value.function == "pad"
    ]
    label = str(template)
    if not shown:
        return [label] * len(table.keys)
    texts = shown[0] if len(shown) == 1 else map("|".join, zip(*shown, strict=True))
    return [f"{label}={text}" for text in texts]


def vector_names(template: Template, dimensions: int) -> list[str]:
    """Names of the numbers of a vector, such as ``embed(word,"vectors.txt")[0]#3``."""
    return [f"{template}#{d}" for d in range(dimensions)] if dimensions > 1 else [str(template)]


def distinct_values(templates: Iterable[Template]) -> list[Value]:
    """The values of templates, in order of first use."""
    pieces = chain.from_iterable(template.pieces for template in templates)
    return list(dict.fromkeys(piece.value for piece in pieces))

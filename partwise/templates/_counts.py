"""Counts of attributes that can be added up: what one pass over all data finds, from several passes over shards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.templates._index import TemplateIndex
from partwise.templates._parse import Line, Template, Value
from partwise.templates._tables import KEY_LIMIT, Table, Vocabulary, table_codes
from partwise.templates._values import Files, Values

if TYPE_CHECKING:
    from partwise.data.columns import Columns

__all__ = ["TemplateCounts"]

Codes = NDArray[np.int64]  # (attributes, pieces): the code of every piece


class TemplateCounts:
    """Every attribute of some data with the number of tokens that have it; counts of shards can be merged.

    ``Templates.count(part)`` makes one for each shard of a corpus, ``merged`` joins them in their order, ``index``
    leaves out the rare ones and numbers the rest: the very index that ``Templates.fit`` makes of all the data at once.
    Shards must not cut a document in two, and templates that look at all documents together cannot be counted so.

    Examples
    --------
    >>> from partwise.data import load_sample
    >>> from partwise.templates import Templates
    >>> data, templates = load_sample(split="train"), Templates.parse(["word[0]", "word[-1] word[0]"])
    >>> halves = [data.subset(range(0, 40)), data.subset(range(40, len(data)))]
    >>> merged = TemplateCounts.merged([templates.count(part) for part in halves])
    >>> merged.index(min_count=2).names() == templates.fit(data, min_count=2).names()
    True
    """

    def __init__(
        self,
        lines: Sequence[Line],
        files: Files,
        vocab: dict[Value, list[str]],
        tables: dict[Template, Table],
        counts: dict[Template, NDArray[np.int64]],
    ) -> None:
        self._lines, self._files, self._vocab, self._tables, self._counts = tuple(lines), files, vocab, tables, counts

    @classmethod
    def of(cls, lines: Sequence[Line], columns: Columns) -> TemplateCounts:
        """The counts of one shard."""
        for line in lines:
            if any(value.function == "corpus_label" for piece in line.pieces() for value in piece.value.walk()):
                line.fail(
                    "corpus_label looks at all documents together and cannot be counted shard by shard", line.text
                )
        index, found = TemplateIndex.fit(lines, Values(columns, Files.read(lines)), 1, None)
        counts = {
            template: np.bincount(ids + 1, minlength=len(index._tables[template].keys) + 1)[1:]
            for template, ids in found.items()
        }
        return cls(lines, index._files, dict(index._vocab), dict(index._tables), counts)

    @classmethod
    def merged(cls, shards: Sequence[TemplateCounts]) -> TemplateCounts:
        """The counts of all shards together, as if their data stood one after another."""
        if not shards:
            raise InputError("no counts were given")
        first = shards[0]
        texts = {"\n".join(line.text for line in shard._lines) for shard in shards}
        if len(texts) > 1:
            raise InputError("the shards were counted with different templates, or have different columns")
        vocab = {
            value: list(dict.fromkeys(word for shard in shards for word in shard._vocab[value]))
            for value in first._vocab
        }
        tables, counts = {}, {}
        renumbered = [shard._renumbering(vocab) for shard in shards]
        for template in first._tables:
            codes = [shard._codes(template, new) for shard, new in zip(shards, renumbered, strict=True)]
            weights = np.concatenate([shard._counts[template] for shard in shards])
            tables[template], ids = _table_of(template, np.concatenate(codes), vocab)
            counts[template] = np.bincount(ids, weights, len(tables[template].keys)).astype(np.int64)
        return cls(first._lines, first._files, vocab, tables, counts)

    def index(self, min_count: int = 1) -> TemplateIndex:
        """The attributes of at least ``min_count`` tokens, numbered as ``Templates.fit`` numbers them."""
        if isinstance(min_count, bool) or not isinstance(min_count, int) or min_count < 1:
            raise ParameterError("min_count", "TemplateCounts.index", "a positive integer", min_count)
        tables = {
            template: Table(table.pieces, table.keys[self._counts[template] >= min_count], table.prefix)
            for template, table in self._tables.items()
        }
        return TemplateIndex(self._lines, self._files, self._vocab, tables, min_count, None)

    def _renumbering(self, vocab: Vocabulary) -> dict[Value, NDArray[np.int64]]:
        """For each value, the new code of every old one."""
        numbers = {value: {word: j for j, word in enumerate(words)} for value, words in vocab.items()}
        return {
            value: np.array([numbers[value][word] for word in words], np.int64) for value, words in self._vocab.items()
        }

    def _codes(self, template: Template, new: dict[Value, NDArray[np.int64]]) -> Codes:
        old = table_codes(self._tables[template], self._vocab)
        columns = [new[piece.value][code] for piece, code in zip(template.pieces, old, strict=True)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self._tables[template].keys), 0), np.int64)


def _table_of(template: Template, codes: Codes, vocab: Vocabulary) -> tuple[Table, NDArray[np.int64]]:
    """The table of distinct rows of codes in order of appearance, as ``fit_table`` has it, and the id of every row."""
    splits, product = [0], 1
    for place, piece in enumerate(template.pieces):
        product *= max(len(vocab[piece.value]), 1)
        if product > KEY_LIMIT and place > splits[-1]:
            distinct = len(np.unique(codes[:, :place], axis=0))
            splits.append(place)
            product = max(distinct, 1) * max(len(vocab[piece.value]), 1)
    splits.append(len(template.pieces))
    table: Table | None = None
    ids = np.zeros(len(codes), np.int64)
    for begin, end in pairwise(splits):
        keys = ids.copy() if table is not None else np.zeros(len(codes), np.int64)
        for place in range(begin, end):
            keys = keys * max(len(vocab[template.pieces[place].value]), 1) + codes[:, place]
        distinct_keys, ids = _in_order(keys)
        table = Table(template.pieces[begin:end], distinct_keys, table)
    assert table is not None
    return table, ids


def _in_order(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(distinct keys in order of first appearance, the place of every key among them)."""
    values, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[inverse.ravel()]

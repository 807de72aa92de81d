"""The attributes of one sentence at a time: every word is looked at once, then remembered.

``TemplateIndex.transform`` works on whole columns, which costs a millisecond before the first token. Here the codes of
all values of a word are kept in one row of numbers, so a sentence of known words is one lookup per word and one
compiled call. Templates that need more than the sentence (documents, lists, numbers) go the usual way.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.templates._functions import FUNCTIONS
from partwise.templates._kernels import _find
from partwise.templates._parse import Value
from partwise.templates._values import BOUNDARIES

if TYPE_CHECKING:
    from partwise.templates._index import TemplateIndex

__all__ = ["SentenceCoder"]

#: Words remembered per column; when there are more, memory starts afresh.
REMEMBERED = 200_000

_FLAGS = {"bias": 0, "first": 1, "last": 2}


class Plan(NamedTuple):
    """All templates of an index in flat arrays. A piece is (column or −1, place in its row, offset, radix, padded)."""

    pieces: NDArray[np.int64]  # (all pieces, 5)
    piece_start: NDArray[np.int64]  # (templates + 1,)
    slot_keys: NDArray[np.int64]
    key_start: NDArray[np.int64]  # (templates + 1,) empty where ids are looked up by the key itself
    slot_ids: NDArray[np.int32]
    id_start: NDArray[np.int64]  # (templates + 1,)
    bases: NDArray[np.int32]  # (templates,)
    capitals: NDArray[np.int64]  # (all_caps values, 2): column, place of its two bits in a row


@kernel
def fill_sentence(plan, rows, codes, indptr, attributes):
    """attributes of token t ← those of every template in order; rows[c, t] is where the codes of its word begin."""
    length = rows.shape[1]
    n_caps = plan.capitals.shape[0]
    caps = np.zeros(n_caps, np.bool_)
    for k in range(n_caps):  # a sentence with some capitals and no small letters
        small, large = False, False
        for t in range(length):
            at = rows[plan.capitals[k, 0], t] + plan.capitals[k, 1]
            small |= codes[at] != 0
            large |= codes[at + 1] != 0
        caps[k] = large and not small
    size = 0
    for t in range(length):
        for k in range(plan.bases.shape[0]):
            key = np.int64(0)
            for p in range(plan.piece_start[k], plan.piece_start[k + 1]):
                column, place, offset = plan.pieces[p, 0], plan.pieces[p, 1], plan.pieces[p, 2]
                padded, there = plan.pieces[p, 4], t + offset
                if there < 0 or there >= length:
                    code = -1 if padded == 0 else (0 if there < 0 else 1)
                elif column >= 0:
                    code = codes[rows[column, there] + place]
                elif place == 0:
                    code = 0
                elif place == 1:
                    code = 0 if there == 0 else -1
                elif place == 2:
                    code = 0 if there == length - 1 else -1
                else:
                    code = 0 if caps[place - 3] else -1
                if code < 0:
                    key = np.int64(-1)
                    break
                key = key * plan.pieces[p, 3] + code
            if key < 0:
                continue
            first, last = plan.key_start[k], plan.key_start[k + 1]
            slot = key
            if last > first:
                shift, width = np.uint64(64), last - first
                while width > 1:
                    width >>= 1
                    shift -= np.uint64(1)
                slot = _find(plan.slot_keys[first:last], shift, key)
            found = plan.slot_ids[plan.id_start[k] + slot]
            if found >= 0:
                attributes[size] = plan.bases[k] + found
                size += 1
        indptr[t + 1] = size
    return size


class SentenceCoder:
    """Attributes of single sentences, the same as ``TemplateIndex.transform`` gives; safe to call from several threads.

    ``of`` returns None for an index whose templates look beyond the sentence, hash, or give numbers.
    """

    def __init__(self, index: TemplateIndex, plan: Plan, columns: list[str], values: list[list[Value]]) -> None:
        self._index, self._plan, self.columns, self._values = index, plan, columns, values
        self._forget()
        self._lock = threading.Lock()

    def _forget(self) -> None:
        self._known: list[dict[str, int]] = [{} for _ in self.columns]
        self._codes = np.zeros(1 << 12, np.int32)
        self._used = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @classmethod
    def of(cls, index: TemplateIndex) -> SentenceCoder | None:
        """A coder for a fitted index, or None where its templates need the usual way."""
        if index.hashing is not None or any(table.prefix is not None for table in index._tables.values()):
            return None
        columns = index.columns
        values: list[list[Value]] = [[] for _ in columns]
        capitals: list[Value] = []
        places: dict[Value, tuple[int, int]] = {}
        for template in index._templates:
            if template.is_real:
                return None
            for piece in template.pieces:
                found = _place(piece.value, columns, values, capitals)
                if found is None:
                    return None
                places[piece.value] = found
        widths = [len(own) for own in values]
        bits = []
        for value in capitals:
            column = _column_of(value, columns)
            bits.append((column, widths[column]))
            widths[column] += 2
            values[column].append(Value("all_caps", (value,)))
        plan = _plan(index, places, np.array(bits, np.int64).reshape(-1, 2))
        return cls(index, plan, columns, values)

    def __call__(self, sentence: Sequence[Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """(indptr, attributes) of one sentence, given as one list of strings per column of ``columns``."""
        rows = []
        for column, words in enumerate(sentence):
            known = self._known[column]
            try:
                rows.append([known[word] for word in words])
            except KeyError:
                rows.append(self._learn(column, words))
        starts = np.array(rows, np.int64)
        indptr = np.zeros(starts.shape[1] + 1, np.int64)
        attributes = np.empty(starts.shape[1] * len(self._plan.bases), np.int32)
        size = fill_sentence(self._plan, starts, self._codes, indptr, attributes)
        return indptr, attributes[:size]

    def _learn(self, column: int, words: Sequence[str]) -> list[int]:
        """Where the codes of these words begin, after adding those of new ones."""
        with self._lock:
            known = self._known[column]
            new = [word for word in dict.fromkeys(words) if word not in known]
            width = self._width(column)
            if self._used + width * len(new) > len(self._codes):
                larger = np.zeros(2 * (self._used + width * len(new)), np.int32)
                larger[: self._used] = self._codes[: self._used]
                self._codes = larger  # others keep reading the old array, which stays as it is
            for word, row in zip(new, self._rows(column, new), strict=True):
                self._codes[self._used : self._used + width] = row
                known[word] = self._used
                self._used += width
            starts = [known[word] for word in words]
            if len(known) > REMEMBERED:
                self._known[column] = {}
        return starts

    def _width(self, column: int) -> int:
        return sum(2 if value.function == "all_caps" else 1 for value in self._values[column])

    def _rows(self, column: int, words: list[str]) -> NDArray[np.int32]:
        index, made = self._index, []
        if index._lookups is None:
            index._lookups = {v: dict(zip(known, range(len(known)))) for v, known in index._vocab.items()}
        for value in self._values[column]:
            if value.function == "all_caps":
                inner = index._files.through(value.inner[0], words)
                made.append([int(w is not None and w != w.upper()) for w in inner])
                made.append([int(w is not None and w != w.lower()) for w in inner])
                continue
            find = index._lookups[value].get
            plain = value.inner[0] if value.function == "pad" else value
            made.append([-1 if w is None else find(w, -1) for w in self._through(plain, words)])
        return np.array(made, np.int32).T

    def _through(self, value: Value, words: list[str]) -> list[str | None]:
        if value.function != "corpus_label":
            return self._index._files.through(value, words)
        known = self._index._statistics[value]
        return [None if w is None else known.get(w) for w in self._index._files.through(value.inner[0], words)]


def _column_of(value: Value, columns: list[str]) -> int:
    while value.function:
        value = value.inner[0]
    return columns.index(str(value.options[0]))


def _place(
    value: Value, columns: list[str], values: list[list[Value]], capitals: list[Value]
) -> tuple[int, int] | None:
    """(column, place in its rows) of a value, or (−1, number of a flag); None if a sentence does not tell it."""
    if value.function in _FLAGS:
        return -1, _FLAGS[value.function]
    if value.function == "all_caps" and _of_words(value.inner[0]):
        if value.inner[0] not in capitals:
            capitals.append(value.inner[0])
        return -1, 3 + capitals.index(value.inner[0])
    if not _of_words(value.inner[0] if value.function == "pad" else value):
        return None
    column = _column_of(value, columns)
    if value not in values[column]:
        values[column].append(value)
    return column, values[column].index(value)


def _of_words(value: Value) -> bool:
    """Whether a value is a column, or functions of its words alone: statistics of the training corpus are one."""
    if not value.function:
        return True
    corpus = value.function == "corpus_label"
    return (corpus or FUNCTIONS[value.function].level == "word") and _of_words(value.inner[0])


def _plan(index: TemplateIndex, places: dict[Value, tuple[int, int]], capitals: NDArray[np.int64]) -> Plan:
    pieces, piece_start = [], [0]
    keys, key_start = [np.zeros(0, np.int64)], [0]
    ids, id_start = [np.zeros(0, np.int32)], [0]
    for template in index._templates:
        table = index._tables[template]
        for piece, radix in zip(template.pieces, table.radices(index._vocab), strict=True):
            pieces.append((*places[piece.value], piece.offset, radix, piece.value.function == "pad"))
        piece_start.append(len(pieces))
        slot_keys, slot_ids = table.slots(index._vocab)
        keys.append(slot_keys)
        ids.append(slot_ids)
        key_start.append(key_start[-1] + len(slot_keys))
        id_start.append(id_start[-1] + len(slot_ids))
    return Plan(
        np.array(pieces, np.int64).reshape(-1, 5), np.array(piece_start), np.concatenate(keys), np.array(key_start),
        np.concatenate(ids), np.array(id_start), np.array(index._bases[: len(index._templates)], np.int32), capitals,
    )  # fmt: skip


assert len(BOUNDARIES) == 2  # what the codes 0 and 1 of a padded value stand for

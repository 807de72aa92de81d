"""Attribute matrices: the accepted inputs (lists of strings, dicts, CSR, arrays) as packed rows.

Every input format becomes a :class:`RowMatrix`: rows (tokens) in one CSR over attribute numbers, with the offsets of
the sequences; dense arrays become one (rows, D) array. Vocabularies map attribute strings to numbers.
"""

from __future__ import annotations

import itertools
import numbers
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.features.base import LARGEST

__all__ = ["RowMatrix", "Vocabulary", "dense_rows", "input_kind"]


@dataclass(frozen=True)
class RowMatrix:
    """CSR over attribute numbers: row r has attributes[indptr[r]:indptr[r + 1]].

    ``values`` is empty where every entry is 1. Sequence i owns the rows offsets[i]:offsets[i + 1].
    """

    offsets: NDArray[np.int64]
    indptr: NDArray[np.int64]
    attributes: NDArray[np.int32]
    values: NDArray[np.float64]
    n_attributes: int

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_csr(cls, sequences: Sequence[Any] | Any, offsets: NDArray[np.int64] | None = None) -> RowMatrix:
        """One CSR matrix per instance, or one for all with ``offsets``."""
        import scipy.sparse  # not before it is needed: a tenth of a second, and memory

        if offsets is None:
            sequences = [scipy.sparse.csr_array(matrix) for matrix in sequences]
            for i, matrix in enumerate(sequences):
                if matrix.shape[1] != sequences[0].shape[1]:
                    raise InputError(
                        f"matrix of sequence {i} has {matrix.shape[1]} columns; expected {sequences[0].shape[1]}"
                    )
            offsets = lengths_to_offsets([matrix.shape[0] for matrix in sequences])
            matrix = scipy.sparse.vstack(sequences, format="csr") if len(sequences) else None
        else:
            matrix = scipy.sparse.csr_array(sequences)
        if matrix is None:
            raise InputError("no sequences were given")
        matrix.sum_duplicates()
        values = np.asarray(matrix.data, float)
        check_finite(values, matrix.indptr, offsets)
        return cls(
            offsets,
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32),
            np.zeros(0) if (values == 1.0).all() else values,
            matrix.shape[1],
        )


@kernel
def fill_table(hashes, slots, ids):
    """Number j ← where hash j belongs, by linear probing; False if two hashes are equal."""
    mask = slots.shape[0] - 1
    for j in range(hashes.shape[0]):
        slot = hashes[j] & mask
        while ids[slot] >= 0:
            if slots[slot] == hashes[j]:
                return False
            slot = (slot + 1) & mask
        slots[slot], ids[slot] = hashes[j], j
    return True


@kernel
def look_up(slots, ids, hashes, found):
    """found[e] ← the number of hash e, or −1."""
    mask = slots.shape[0] - 1
    for e in range(hashes.shape[0]):
        slot = hashes[e] & mask
        while ids[slot] >= 0 and slots[slot] != hashes[e]:
            slot = (slot + 1) & mask
        found[e] = ids[slot]


def _not_a_string(name: object, i: int, t: int) -> InputError:
    return InputError(f"sequence {i}, position {t}: feature names must be strings, got {name!r}")


class Vocabulary:
    """Attribute strings ↔ numbers, in the order in which they were first seen.

    Examples
    --------
    >>> vocabulary = Vocabulary()
    >>> rows = vocabulary.read([[["w=a", "w=b"], {"w=b": 2.0, "pos": "NN"}]], grow=True)
    >>> rows.attributes.tolist(), rows.values.tolist()
    ([0, 1, 1, 2], [1.0, 1.0, 2.0, 1.0])
    >>> vocabulary.names
    ['w=a', 'w=b', 'pos=NN']
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.numbers: dict[str, int] = {name: j for j, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def merged(cls, shards: Sequence[Vocabulary]) -> Vocabulary:
        """The vocabulary of all shards in their order: what one pass over all of their data would have numbered.

        Examples
        --------
        >>> Vocabulary.merged([Vocabulary(["a", "b"]), Vocabulary(["c", "a"])]).names
        ['a', 'b', 'c']
        """
        return cls(dict.fromkeys(name for shard in shards for name in shard.numbers))

    def numbers_in(self, other: Vocabulary) -> NDArray[np.int64]:
        """The number that each attribute has in another vocabulary, −1 where it has none."""
        return np.array([other.numbers.get(name, -1) for name in self.numbers], np.int64)

    @property
    def names(self) -> list[str]:
        return list(self.numbers)

    def read(self, sequences: Sequence[Sequence[Any]], *, grow: bool) -> RowMatrix:
        """Rows of strings (CRFsuite style) or of dicts {name: number, bool or string}.

        A string value makes the attribute ``name=value``, as scikit-learn's DictVectorizer does. With ``grow`` new
        attributes are numbered; without, they are dropped.
        """
        known = None if grow else self._read_known(sequences)
        if known is not None:
            return known
        numbers, first_new = self.numbers, len(self.numbers)
        next_number = first_new
        entries, values, ends = array("i"), array("d"), array("q")  # a tenth of the memory of lists
        lengths: list[int] = []
        binary = True
        for i, sequence in enumerate(sequences):
            lengths.append(len(sequence))
            for t, row in enumerate(sequence):
                if isinstance(row, Mapping):
                    if binary:
                        values.extend([1.0] * len(entries))
                        binary = False
                    items: Iterable[tuple[str, float]] = self._dict_items(row, i, t)
                elif isinstance(row, str):
                    raise InputError(
                        f"position {t} of sequence {i} is a string; expected a list of strings or a dict of features. "
                        "Plain words need templates that make features of them: templates='pos', 'chunking', 'ner' or "
                        "your own"
                    )
                elif binary:
                    for name in row:
                        number = numbers.get(name)
                        if number is None and grow:
                            number = numbers[name] = next_number
                            next_number += 1
                        if number is not None:
                            entries.append(number)
                        elif not isinstance(name, str):
                            raise _not_a_string(name, i, t)
                    ends.append(len(entries))
                    continue
                else:
                    items = ((name, 1.0) for name in row)
                for name, value in items:
                    number = numbers.get(name)
                    if number is None and grow:
                        number = numbers[name] = next_number
                        next_number += 1
                    if number is not None:
                        entries.append(number)
                        values.append(value)
                    elif not isinstance(name, str):
                        raise _not_a_string(name, i, t)
                ends.append(len(entries))
        if next_number > first_new:  # a walk over the whole vocabulary, so only where something is new
            for name in itertools.islice(numbers, first_new, None):
                if not isinstance(name, str):
                    places = ((i, t) for i, rows in enumerate(sequences) for t, row in enumerate(rows) if name in row)
                    raise _not_a_string(name, *next(places))
        indptr = np.concatenate([np.zeros(1, np.int64), np.frombuffer(ends, np.int64)])
        data = np.array(values)
        offsets = lengths_to_offsets(lengths)
        check_finite(data, indptr, offsets)
        if not binary and (data == 1.0).all():
            data = np.zeros(0)
        return RowMatrix(offsets, indptr, np.frombuffer(entries, np.int32), data, len(numbers))

    def _read_known(self, sequences: Sequence[Sequence[Any]]) -> RowMatrix | None:
        """Rows of strings in a vocabulary that does not grow, by their hashes; None if there are other rows."""
        ends, entries = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
        for sequence in sequences:
            found = self.read_one(sequence)
            if found is None:
                return None
            ends.append(found[0][1:] + ends[-1][-1] if len(found[0]) > 1 else ends[-1][-1:])
            entries.append(found[1])
        offsets = lengths_to_offsets([len(sequence) for sequence in sequences])
        attributes = np.concatenate(entries)
        there = attributes >= 0
        indptr = np.append(0, np.cumsum(there))[np.concatenate(ends)]
        return RowMatrix(offsets, indptr, attributes[there], np.zeros(0), len(self.numbers))

    def read_one(self, sequence: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """(indptr, attributes) of one sequence of rows of strings, quickly; None if it has other rows.

        An unknown attribute is −1. Attributes are distinguished by Python's own 64-bit hash of their strings: a dict
        would wait for memory three times per string, this table once. That two of 10⁶ attributes share a hash has
        a probability of 3·10⁻⁸; then there is no table.
        """
        for row in sequence:
            if type(row) is not list and type(row) is not tuple:
                return None
        table = self._hash_table()
        if table is None:
            return None
        indptr = np.zeros(len(sequence) + 1, np.int64)
        np.cumsum(list(map(len, sequence)), out=indptr[1:])
        try:
            hashes = np.fromiter(map(str.__hash__, itertools.chain.from_iterable(sequence)), np.int64, int(indptr[-1]))
        except TypeError:  # not strings: the usual way says what they are
            return None
        attributes = np.empty(len(hashes), np.int32)
        look_up(*table, hashes, attributes)
        return indptr, attributes

    def _hash_table(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """(hashes, numbers) with open addressing, a power of two of slots, at most half of them full."""
        made = self.__dict__.get("_table")
        if made is None or made[0] != len(self.numbers):
            size = 1 << max(4, (2 * len(self.numbers)).bit_length())
            slots, ids = np.zeros(size, np.int64), np.full(size, -1, np.int32)
            hashes = np.fromiter(map(hash, self.numbers), np.int64, len(self.numbers))
            made = self._table = (len(self.numbers), (slots, ids) if fill_table(hashes, slots, ids) else None)
        return made[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"numbers": self.numbers}  # hashes of strings differ from process to process

    @staticmethod
    def _dict_items(row: Mapping[str, Any], i: int, t: int) -> Iterable[tuple[str, float]]:
        for name, value in row.items():
            if isinstance(value, str):
                yield f"{name}={value}", 1.0
            elif isinstance(value, (bool, int, float, np.number, np.bool_)):
                if value:
                    yield name, float(value)
            else:
                raise InputError(
                    f"feature {name!r} at position {t} of sequence {i} is {value!r}; "
                    "expected a number, a bool or a string"
                )


def lengths_to_offsets(lengths: Sequence[int]) -> NDArray[np.int64]:
    """[0, l_0, l_0 + l_1, …]; an empty sequence is an error that names it."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    offsets[1:] = np.cumsum(lengths)
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if len(empty):
        raise InputError(f"sequence {int(empty[0])} is empty; expected at least one position")
    return offsets


def check_finite(values: NDArray[Any], indptr: NDArray[Any], offsets: NDArray[np.int64]) -> None:
    """Feature values that are not finite, or whose squares are not, are an error that names sequence and position."""
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(bad):
        row = int(np.searchsorted(indptr, bad[0], side="right")) - 1
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        raise InputError(
            f"feature value {values[bad[0]]} at position {row - offsets[i]} of sequence {i}; expected finite, "
            f"and at most {LARGEST:g}: larger ones overflow when they are squared"
        )


def dense_rows(sequences: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(offsets, rows) of one (T, D) array per instance."""
    arrays = [np.asarray(x, float) for x in sequences]
    for i, x in enumerate(arrays):
        if x.ndim != 2 or x.shape[1] != arrays[0].shape[1]:
            raise InputError(f"array of sequence {i} has shape {x.shape}; expected (length, {arrays[0].shape[-1]})")
    offsets = lengths_to_offsets([len(x) for x in arrays])
    rows = np.ascontiguousarray(np.concatenate(arrays))
    width = rows.shape[1]
    check_finite(rows.ravel(), np.arange(len(rows) + 1) * width, offsets)
    return offsets, rows


def input_kind(sequences: Sequence[Any]) -> str:
    """'strings' (also dicts), 'csr' or 'dense', from the first sequence."""
    if len(sequences) == 0:
        raise InputError("no sequences were given")
    first = sequences[0]
    scipy_sparse = sys.modules.get("scipy.sparse")  # whoever has a sparse matrix has imported it
    if scipy_sparse is not None and scipy_sparse.issparse(first):
        return "csr"
    if isinstance(first, np.ndarray) and first.dtype.kind in "fiub":
        if first.ndim != 2:
            raise InputError(f"array of sequence 0 has shape {first.shape}; expected (length, number of features)")
        return "dense"
    if isinstance(first, Sequence) and len(first) and isinstance(first[0], numbers.Number):
        expected = "a list of strings or a dict of features; vectors of numbers go into one array per sequence"
        raise InputError(f"position 0 of sequence 0 is the number {first[0]!r}; expected {expected}")
    return "strings"

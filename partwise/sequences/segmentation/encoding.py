"""From token columns and chunks to packed features of segments, the same way at training and later."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn
from partwise.exceptions import InputError, StorageError
from partwise.features.inputs import RowMatrix
from partwise.features.layout import RowLayout
from partwise.sequences.encoders import Encoder, Rows, make_encoder, restore_encoder
from partwise.sequences.segmentation._keys import KINDS, KeyTable, gold_keys, site_entries
from partwise.sequences.segmentation.features import SegmentFeatures
from partwise.sequences.tags import span_table
from partwise.sequences.weights import layout_arrays, restore_layout
from partwise.structures.segments import Segments

__all__ = ["OUTSIDE", "SegmentEncoder", "gold_segments", "segment_tags"]

#: The label of tokens outside all chunks, in segments of one token.
OUTSIDE = "O"

#: Base features of whole segments: tags, words in lower case, case patterns.
BASES = ("pos[0]", "lower(word)[0]", "short_shape(word)[0]")


class Gold:
    """Gold segments of all inputs: rows (start, stop, label), those of input i at first[i]:first[i + 1]."""

    def __init__(self, first: NDArray[np.int64], segments: NDArray[np.int64]) -> None:
        self.first, self.segments = first, segments

    def outputs(self) -> list[NDArray[np.int64]]:
        return np.split(self.segments, self.first[1:-1])

    def limits(self, n_labels: int) -> NDArray[np.int64]:
        """The longest segment of each label, at least 1."""
        longest = np.ones(n_labels, np.int64)
        np.maximum.at(longest, self.segments[:, 2], self.segments[:, 1] - self.segments[:, 0])
        return longest


def gold_segments(tags: Any, scheme: str, labels: list[str] | None = None) -> tuple[Gold, list[str]]:
    """(segments, labels) of tagged sentences: chunks, and one segment for every token outside them.

    Examples
    --------
    >>> gold, labels = gold_segments([["B-NP", "I-NP", "O"]], "IOB2")
    >>> gold.segments.tolist(), labels
    ([[0, 2, 1], [2, 3, 0]], ['O', 'NP'])
    """
    table = span_table(tags, scheme)
    if isinstance(tags, CodedColumn) or (isinstance(tags, tuple) and len(tags) == 3):
        lengths = np.diff(tags[2])
    else:
        lengths = np.array([len(row) for row in tags], np.int64)
    used = sorted({table.types[k] for k in np.unique(table.type)} - {OUTSIDE})
    if labels is None:
        labels = [OUTSIDE, *used]
    unknown = [name for name in used if name not in labels]
    if unknown:
        raise InputError(f"chunks of type {unknown[0]!r} were not in training; known: {', '.join(labels)}")
    number = np.array([labels.index(name) if name in labels else 0 for name in table.types], np.int64)
    offsets = np.append(0, np.cumsum(lengths))
    start, stop = offsets[table.sentence] + table.start, offsets[table.sentence] + table.end
    inside = np.zeros(offsets[-1] + 1, np.int64)
    np.add.at(inside, start, 1)
    np.add.at(inside, stop, -1)
    free = np.flatnonzero(np.cumsum(inside)[:-1] == 0)
    rows = np.concatenate(
        [np.stack([start, stop, number[table.type]], axis=1), np.stack([free, free + 1, np.zeros_like(free)], axis=1)]
    )
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    sentence = np.searchsorted(offsets, rows[:, 0], side="right") - 1
    rows[:, :2] -= offsets[sentence][:, None]
    first = np.append(0, np.cumsum(np.bincount(sentence, minlength=len(lengths))))
    return Gold(first.astype(np.int64), rows), labels


def segment_tags(
    segments: NDArray[np.int64], first: NDArray[np.int64], labels: list[str], offsets: NDArray[np.int64]
) -> CodedColumn:
    """IOB2 tags of the segments of all inputs."""
    vocab = ["O", *(f"{letter}-{label}" for label in labels[1:] for letter in "BI")]
    start, stop, label = segments.T
    sentence = np.repeat(np.arange(len(first) - 1), np.diff(first))
    size = stop - start
    codes = np.repeat(np.where(label > 0, 2 * label, 0), size).astype(np.int32)
    begin = offsets[sentence] + start
    codes[begin] -= (label > 0).astype(np.int32)
    return CodedColumn(codes, vocab, offsets)


def _check_lengths(lengths: NDArray[np.int64], gold: Gold) -> None:
    """An error where tokens and tags are not equally many."""
    if len(lengths) != len(gold.first) - 1:
        raise InputError(f"X has {len(lengths)} sequences but y has {len(gold.first) - 1}")
    tagged = gold.segments[gold.first[1:] - 1, 1]
    wrong = np.flatnonzero(tagged != lengths)
    if len(wrong):
        i = int(wrong[0])
        raise InputError(f"sequence {i} has {lengths[i]} tokens but {tagged[i]} tags")


def _sparse(rows: Rows) -> RowMatrix:
    if rows.matrix is None:
        raise InputError("segments are described by templates or lists of attributes, not by arrays of numbers")
    return rows.matrix


class SegmentEncoder:
    """Token columns → :class:`SegmentFeatures`, with a vocabulary that is fixed by the training data.

    Parameters
    ----------
    templates : of the tokens of a segment, in their roles: first, rest and last
    bases : templates, one per base feature of whole segments
    kinds : which features of whole segments each base makes
    """

    def __init__(
        self,
        templates: Any = "chunking",
        bases: tuple[str, ...] = BASES,
        kinds: tuple[str, ...] = KINDS,
        columns: tuple[str, ...] | None = None,
        min_count: int = 1,
    ) -> None:
        self.templates, self.bases, self.kinds = templates, tuple(bases), tuple(kinds)
        self.columns, self.min_count = columns, min_count

    def fit(self, X: Any, gold: Gold, labels: list[str], limits: NDArray[np.int64]) -> Self:
        """Fix attributes, keys and the layout of θ."""
        self.labels, self.limits = list(labels), limits
        n_labels = len(labels)
        self.tokens: Encoder = make_encoder(X, self.templates, self.columns, self.min_count, None)
        rows = self.tokens.fit_transform(X)
        _check_lengths(np.diff(rows.offsets), gold)
        X = self.tokens.as_columns(X) if hasattr(self.tokens, "as_columns") else X
        self.codes = [make_encoder(X, base, self.columns, 1, None) for base in self.bases]
        codes = self._codes([encoder.fit_transform(X) for encoder in self.codes], int(rows.offsets[-1]))
        first_rest, last = self._roles(rows, gold, n_labels)
        self.token_layout = RowLayout.observed(_sparse(rows), first_rest, 2 * n_labels)
        self.last_layout = RowLayout.observed(_sparse(rows), last, n_labels)
        self.last_layout.base = self.token_layout.dim
        keys = np.zeros((len(gold.segments), len(self.bases) * len(KINDS)), np.uint64)
        if len(self.bases):
            gold_keys(codes, rows.offsets, gold.first, gold.segments, self._used(), keys)
        self.keys = KeyTable.observed(keys, gold.segments[:, 2], n_labels, self.min_count)
        return self

    def _roles(self, rows: Rows, gold: Gold, n_labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sentence = np.repeat(np.arange(len(gold.first) - 1), np.diff(gold.first))
        start, stop, label = gold.segments.T
        first_rest = np.repeat(label, stop - start) + n_labels
        first_rest[rows.offsets[sentence] + start] -= n_labels
        last = np.full(len(first_rest), -1)
        last[rows.offsets[sentence] + stop - 1] = label
        return first_rest, last

    def _used(self) -> NDArray[np.bool_]:
        return np.tile([kind in self.kinds for kind in KINDS], len(self.bases))

    def _codes(self, coded: list[Rows], n: int) -> NDArray[np.int32]:
        """(bases, tokens): the attribute of each base, −1 where it is unknown."""
        codes = np.full((len(coded), n), -1, np.int32)
        for row, rows in zip(codes, coded, strict=True):
            matrix = _sparse(rows)
            counts = np.diff(matrix.indptr)
            if (counts > 1).any():
                raise InputError("a base template of segments must give one attribute per token")
            row[counts == 1] = matrix.attributes
        return codes

    def transform(self, X: Any, transitions: Any = None, allowed: Any = None) -> tuple[Segments, SegmentFeatures]:
        """The output spaces of the inputs and the features of their parts."""
        rows = self.tokens.transform(X)
        X = self.tokens.as_columns(X) if hasattr(self.tokens, "as_columns") else X
        lengths = np.diff(rows.offsets)
        space = Segments(lengths, len(self.labels), max_length=self.limits, transitions=transitions, allowed=allowed)
        codes = self._codes([encoder.transform(X) for encoder in self.codes], int(rows.offsets[-1]))
        starts = np.zeros(len(lengths) + 1, np.int64)
        atoms, weights = np.zeros(0, np.int32), np.zeros(0, np.int32)
        if len(self.bases) and len(self.keys):
            table = (self.keys.marks, self.keys.table, self.keys.places, self.keys.first, self.keys.labels)
            atoms, weights = site_entries(space.pack, codes, rows.offsets, self._used(), *table, starts)
        base = self.token_layout.dim + self.last_layout.dim
        packed = self.token_layout.pack(_sparse(rows)), self.last_layout.pack(_sparse(rows))
        return space, SegmentFeatures(space.pack, *packed, base, (starts, atoms, weights), len(self.keys), codes)

    # what explanations need

    def entries(self, rows: Any, layout: RowLayout, token: int) -> tuple[NDArray[np.int64], Any]:
        """(attributes, values) of one token of packed rows: dense ones by rank, rare ones by the weights they have."""
        attribute = np.empty(layout.n_attributes, np.int64)
        attribute[layout.rank] = np.arange(layout.n_attributes)
        dense = slice(rows.indptr[token], rows.indptr[token + 1])
        pairs = slice(rows.pair_indptr[token], rows.pair_indptr[token + 1])
        first = layout.base + layout.n_dense * layout.n_outputs
        rare = np.searchsorted(layout.pair_start, rows.weights[pairs] - first, side="right") - 1
        ranks = np.unique(np.concatenate([rows.attributes[dense], rare + layout.n_dense]))
        return attribute[ranks], np.ones(len(ranks))

    def segment_keys(self, X: Any, start: int, stop: int) -> NDArray[np.uint64]:
        """(bases · kinds,): the keys of a segment of the only sequence in X."""
        X = [X] if isinstance(X, list) else X
        coded = [encoder.transform(X) for encoder in self.codes]
        keys = np.zeros((1, len(self.bases) * len(KINDS)), np.uint64)
        if coded:
            offsets = coded[0].offsets
            codes = self._codes(coded, int(offsets[-1]))
            row = np.array([[start, stop, 0]])
            gold_keys(codes, offsets, np.array([0, 1]), row, self._used(), keys)
        result: NDArray[np.uint64] = keys[0]
        return result

    # storage

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(header, arrays) of a fitted encoder."""
        arrays: dict[str, NDArray[Any]] = {"limits": self.limits}
        parts = []
        for number, encoder in enumerate([self.tokens, *self.codes]):
            header, own = encoder.to_state()
            parts.append({"kind": encoder.kind, **header})
            arrays |= {f"encoder{number}/{name}": array for name, array in own.items()}
        layouts = []
        for number, layout in enumerate((self.token_layout, self.last_layout)):
            layouts.append({"n_attributes": layout.n_attributes, "n_dense": layout.n_dense})
            arrays |= {f"layout{number}/{name}": array for name, array in layout_arrays(layout).items()}
        arrays |= {f"keys/{name}": getattr(self.keys, name) for name in ("keys", "first", "labels")}
        return {"labels": self.labels, "bases": self.bases, "kinds": self.kinds, "encoders": parts,
                "layouts": layouts}, arrays  # fmt: skip

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], dim: int) -> Self:
        """The encoder of a stored state, checked so far that kernels can rely on it."""
        self = cls(bases=tuple(header["bases"]), kinds=tuple(header["kinds"]))
        self.labels, self.limits = [str(label) for label in header["labels"]], np.asarray(arrays["limits"], np.int64)
        n = len(self.labels)
        if self.limits.shape != (n,) or (self.limits < 1).any() or self.limits.max(initial=1) > 1 << 20:
            raise StorageError("the longest segments are not one length for each label")
        encoders = []
        for number, own in enumerate(header["encoders"]):
            named = _under(arrays, f"encoder{number}/")
            encoders.append(restore_encoder(own["kind"], own, named))
        self.tokens, self.codes = encoders[0], encoders[1:]
        if len(self.codes) != len(self.bases):
            raise StorageError(f"there are {len(self.codes)} encoders of segments; expected {len(self.bases)}")
        outputs = 2 * n, n
        layouts = [
            restore_layout(own, {f"layout/{k}": v for k, v in _under(arrays, f"layout{j}/").items()}, outputs[j])
            for j, own in enumerate(header["layouts"])
        ]
        self.token_layout, self.last_layout = layouts
        self.last_layout.base = self.token_layout.dim
        keys, first, labels = (np.asarray(arrays[f"keys/{name}"]) for name in ("keys", "first", "labels"))
        sound = (
            keys.dtype == np.uint64 and keys.ndim == 1 and bool((keys[1:] > keys[:-1]).all())
            and first.dtype == np.int64 and first.shape == (len(keys) + 1,) and first[0] == 0
            and bool((np.diff(first) > 0).all()) and first[-1] == len(labels) and labels.dtype == np.int32
            and (len(labels) == 0 or (labels.min() >= 0 and labels.max() < n)) and not (keys == 0).any()
        )  # fmt: skip
        if not sound:
            raise StorageError("the features of whole segments are inconsistent")
        self.keys = KeyTable(keys, first, labels)
        within = int(self.limits.sum()) + n * n
        expected = self.token_layout.dim + self.last_layout.dim + within + len(labels)
        if dim != expected:
            raise StorageError(f"theta has {dim} weights; expected {expected}")
        return self


def _under(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}

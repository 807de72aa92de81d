"""Where the weights of (attribute, output) pairs live in θ, and row matrices packed for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import transition_blocks
from partwise.exceptions import InputError
from partwise.features.base import Features, Stack
from partwise.features.inputs import RowMatrix
from partwise.features.rows import DenseRows, IndexedRows, SparseRows
from partwise.features.transitions import RepeatedTransitions, TiedTransitions, repeated_parts

__all__ = ["ChainFeatures", "DenseLayout", "ObservedPairs", "RowFeatures", "RowLayout", "output_type"]

#: An attribute seen with at least this share of the outputs gets a dense row of weights.
DENSE_SHARE = 0.25


def output_type(n_outputs: int) -> Any:
    return np.uint8 if n_outputs <= 1 << 8 else np.uint16 if n_outputs <= 1 << 16 else np.int32


class ObservedPairs(NamedTuple):
    """Which (attribute, output) pairs occur and how often each attribute does; those of shards can be merged."""

    frequency: NDArray[np.int64]  # (n_attributes,)
    indptr: NDArray[np.int64]  # attribute a occurs with outputs[indptr[a]:indptr[a + 1]], distinct and sorted
    outputs: NDArray[Any]
    n_outputs: int

    @classmethod
    def of(cls, matrix: RowMatrix, outputs: NDArray[np.int64], n_outputs: int) -> ObservedPairs:
        """The pairs of some rows; ``outputs[r]`` < 0 where row r has none."""
        frequency = np.bincount(matrix.attributes, minlength=matrix.n_attributes)
        starts = np.concatenate([[0], np.cumsum(frequency)])
        found = np.empty(len(matrix.attributes), output_type(n_outputs))
        counts = _observed_pairs(matrix.indptr, matrix.attributes, outputs, n_outputs, starts, found)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return cls(frequency, indptr, found[: indptr[-1]], n_outputs)

    @classmethod
    def merged(
        cls, shards: Sequence[ObservedPairs], attributes: Sequence[NDArray[np.int64]], n_attributes: int
    ) -> ObservedPairs:
        """The pairs of all shards, whose attributes are renumbered: ``attributes[k][a]`` is number a of shard k.

        Examples
        --------
        >>> first = ObservedPairs(np.array([2]), np.array([0, 1]), np.array([1], np.uint8), 2)
        >>> second = ObservedPairs(np.array([1, 1]), np.array([0, 1, 2]), np.array([0, 0], np.uint8), 2)
        >>> both = ObservedPairs.merged([first, second], [np.array([0]), np.array([1, 0])], 2)
        >>> both.frequency.tolist(), both.indptr.tolist(), both.outputs.tolist()
        ([3, 1], [0, 2, 3], [0, 1, 0])
        """
        n_outputs = shards[0].n_outputs
        frequency, cells = np.zeros(n_attributes, np.int64), [np.zeros(0, np.int64)]
        for shard, new in zip(shards, attributes, strict=True):
            np.add.at(frequency, new, shard.frequency)
            cells.append(np.repeat(new, np.diff(shard.indptr)) * n_outputs + shard.outputs)
        pairs = np.unique(np.concatenate(cells))
        indptr = np.searchsorted(pairs, np.arange(n_attributes + 1) * n_outputs)
        return cls(frequency, indptr, (pairs % n_outputs).astype(output_type(n_outputs)), n_outputs)


class RowLayout:
    """θ of a sparse row map: dense rows for the attributes seen with many outputs, then single weights.

    Parameters
    ----------
    n_attributes, n_outputs : int
    pairs : (indptr, outputs), optional
        Pairs that get a weight: attribute a with outputs[indptr[a]:indptr[a + 1]], distinct and sorted; all if absent.
    frequency : (n_attributes,), optional
        How often each attribute occurs; the frequent ones are laid side by side.

    Examples
    --------
    >>> matrix = RowMatrix(np.array([0, 2]), np.array([0, 1, 3]), np.array([0, 0, 1], np.int32), np.zeros(0), 2)
    >>> layout = RowLayout.observed(matrix, np.array([1, 0]), n_outputs=2)
    >>> layout.dim, sorted(zip(*[x.tolist() for x in layout.pairs()]))
    (4, [(0, 0), (0, 1), (1, 0)])
    """

    def __init__(
        self,
        n_attributes: int,
        n_outputs: int,
        pairs: tuple[NDArray[Any], NDArray[Any]] | None = None,
        frequency: NDArray[Any] | None = None,
        base: int = 0,
    ) -> None:
        self.n_attributes, self.n_outputs, self.base = int(n_attributes), int(n_outputs), int(base)
        if frequency is None:
            frequency = np.zeros(n_attributes)
        if pairs is None:
            counts = np.full(n_attributes, n_outputs)
        else:
            counts = np.diff(pairs[0])
        dense = counts >= max(DENSE_SHARE * n_outputs, 1)
        order = np.lexsort((-frequency, ~dense))  # dense first, frequent first, then by number
        self.rank = np.empty(n_attributes, np.int32)
        self.rank[order] = np.arange(n_attributes, dtype=np.int32)
        self.n_dense = int(dense.sum())
        self.mask = np.zeros(0, np.uint8)
        self.pair_start = np.zeros(n_attributes - self.n_dense + 1, np.int64)
        self.pair_output: NDArray[Any] = np.zeros(0, output_type(n_outputs))
        if pairs is not None:
            ends = np.concatenate([[0], np.cumsum(counts[order])])
            outputs = pairs[1][np.repeat(pairs[0][order] - ends[:-1], counts[order]) + np.arange(ends[-1])]
            cut = int(ends[self.n_dense])
            if cut < self.n_dense * n_outputs:
                self.mask = np.zeros(self.n_dense * n_outputs, np.uint8)
                rows = np.repeat(np.arange(self.n_dense), np.diff(ends[: self.n_dense + 1]))
                self.mask[rows * n_outputs + outputs[:cut]] = 1
            self.pair_start[:] = ends[self.n_dense :] - cut
            self.pair_output = outputs[cut:].astype(self.pair_output.dtype)
        if self.dim > np.iinfo(np.int32).max:
            raise InputError(f"{self.dim} weights are more than 2^31; raise min_count or use observed pairs only")

    @classmethod
    def observed(
        cls, matrix: RowMatrix, outputs: NDArray[np.int64], n_outputs: int, *, every: bool = False
    ) -> RowLayout:
        """Weights for the (attribute, output) pairs that occur; ``outputs[r]`` < 0 where row r has none."""
        if every:
            frequency = np.bincount(matrix.attributes, minlength=matrix.n_attributes)
            return cls(matrix.n_attributes, n_outputs, frequency=frequency)
        return cls.of_pairs(ObservedPairs.of(matrix, outputs, n_outputs))

    @classmethod
    def of_pairs(cls, pairs: ObservedPairs) -> RowLayout:
        """Weights for these pairs, those of several shards for example."""
        return cls(len(pairs.frequency), pairs.n_outputs, (pairs.indptr, pairs.outputs), pairs.frequency)

    @property
    def dim(self) -> int:
        return self.n_dense * self.n_outputs + len(self.pair_output)

    def index(self, matrix: RowMatrix) -> IndexedRows:
        """The rows as they are, for prediction: their weights are looked up when they are scored."""
        self._check(matrix)
        return IndexedRows(
            matrix.offsets, self.n_outputs, self.base, matrix.indptr, matrix.attributes, matrix.values, self.rank,
            self.n_dense, self.pair_start, self.pair_output,
        )  # fmt: skip

    def _check(self, matrix: RowMatrix) -> None:
        if matrix.n_attributes > self.n_attributes:
            raise InputError(f"rows have {matrix.n_attributes} attributes; expected at most {self.n_attributes}")

    def pack(self, matrix: RowMatrix) -> SparseRows:
        """The rows with attributes replaced by where their weights are."""
        self._check(matrix)
        indptr, pair_indptr = np.zeros(matrix.n_rows + 1, np.int64), np.zeros(matrix.n_rows + 1, np.int64)
        args = (matrix.indptr, matrix.attributes, self.rank, self.n_dense, self.pair_start)
        _count_entries(*args, indptr, pair_indptr)
        n_dense, n_pairs = int(indptr[-1]), int(pair_indptr[-1])
        real = len(matrix.values) > 0
        attributes, values = np.empty(n_dense, np.int32), np.empty(n_dense if real else 0)
        weights, outputs = np.empty(n_pairs, np.int32), np.empty(n_pairs, self.pair_output.dtype)
        pair_values = np.empty(n_pairs if real else 0)
        first = self.base + self.n_dense * self.n_outputs
        _fill_entries(*args, matrix.values, self.pair_output, first, attributes, values, weights, outputs, pair_values)
        return SparseRows(
            matrix.offsets, self.n_outputs, self.base, indptr, attributes, values, self.mask,
            pair_indptr, weights, outputs, pair_values,
        )  # fmt: skip

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(attribute, output) of every weight that exists, in the order of :meth:`positions`."""
        attribute = np.empty(self.n_attributes, np.int64)
        attribute[self.rank] = np.arange(self.n_attributes)
        cells = np.arange(self.n_dense * self.n_outputs)
        cells = cells[self.mask != 0] if len(self.mask) else cells
        rare = np.repeat(attribute[self.n_dense :], np.diff(self.pair_start))
        return (
            np.concatenate([attribute[cells // self.n_outputs], rare]),
            np.concatenate([cells % self.n_outputs, self.pair_output.astype(np.int64)]),
        )

    def positions(self) -> NDArray[np.int64]:
        """Where in θ every weight that exists is."""
        n_cells = self.n_dense * self.n_outputs
        cells = np.flatnonzero(self.mask) if len(self.mask) else np.arange(n_cells)
        return self.base + np.concatenate([cells, np.arange(n_cells, self.dim)])


class DenseLayout:
    """θ of a dense row map: a (D, L) matrix of weights from ``base`` on."""

    def __init__(self, n_columns: int, n_outputs: int, base: int = 0) -> None:
        self.n_attributes, self.n_outputs, self.base = int(n_columns), int(n_outputs), int(base)

    @property
    def dim(self) -> int:
        return self.n_attributes * self.n_outputs

    def pack(self, offsets: NDArray[np.int64], rows: NDArray[np.float64]) -> DenseRows:
        if rows.shape[1] != self.n_attributes:
            raise InputError(f"rows have {rows.shape[1]} columns; expected {self.n_attributes}")
        return DenseRows(offsets, np.ascontiguousarray(rows), self.n_outputs, self.base)

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(attribute, output) of every weight."""
        cells = np.arange(self.dim)
        return cells // self.n_outputs, cells % self.n_outputs

    def positions(self) -> NDArray[np.int64]:
        """Where in θ every weight is."""
        return self.base + np.arange(self.dim)


class RowFeatures(Features):
    """Rows alone: the features of a Multiclass, or of any structure whose parts are rows × outputs."""

    def __init__(self, rows: Any, dim: int) -> None:
        self.rows, self._dim = rows, dim

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def pack(self) -> Any:
        return self._around(self.rows)

    @property
    def batch_pack(self) -> Any:
        if self.live is None:
            return self.pack
        return self._around(self.rows._replace(mask=np.zeros(0, np.uint8)))

    @property
    def live(self) -> NDArray[np.uint8] | None:
        mask = getattr(self.rows, "mask", np.zeros(0, np.uint8))
        if len(mask) == 0:
            return None
        live = np.ones(self.dim, np.uint8)
        live[self.rows.base : self.rows.base + len(mask)] = mask
        return live

    def _around(self, rows: Any) -> Any:
        """The whole pack around the pack of the rows."""
        return rows

    def instance_sizes(self, n: int) -> NDArray[np.int64]:
        return _row_parts(self.rows)


class ChainFeatures(RowFeatures):
    """Rows for the labels, and transition weights after them, or rows of edge attributes of their own.

    ``tied`` says which kind of chain they are for; θ has the same layout for both.
    """

    def __init__(
        self, rows: Any, row_dim: int, n_labels: int, order: int = 1, edges: Any = None, *, tied: bool = True
    ) -> None:
        self.row_dim, self.n_labels, self.order = row_dim, n_labels, order
        blocks = transition_blocks(n_labels, order)
        if edges is None:
            repeated = RepeatedTransitions(rows.offsets, blocks, row_dim)
            edges = TiedTransitions(n_labels, blocks, row_dim) if tied else repeated
            dim = row_dim + int(blocks[-1])
        else:  # rows of edge attributes with L² outputs, whose weights follow those of the labels
            edges, edge_dim = edges
            dim = row_dim + edge_dim
        self.edges = edges
        super().__init__(rows, dim)

    def _around(self, rows: Any) -> Any:
        return Stack(rows, self.edges)

    def instance_sizes(self, n: int) -> NDArray[np.int64]:
        edges = self.edges
        if isinstance(edges, RepeatedTransitions):
            return _row_parts(self.rows) + repeated_parts(edges)
        return _row_parts(self.rows) + (edges.blocks[-1] if isinstance(edges, TiedTransitions) else _row_parts(edges))


def _row_parts(rows: Any) -> NDArray[np.int64]:
    """Parts of every instance of a row map, as ``feature_parts`` counts them; nothing to compile."""
    result: NDArray[np.int64] = np.diff(rows.offsets) * rows.n_outputs
    return result


@kernel
def _observed_pairs(indptr, attributes, outputs, n_outputs, starts, found):
    """found ← the distinct outputs of attribute 0, of attribute 1, …, each sorted; returns how many each has."""
    n = starts.shape[0] - 1
    place = starts[:-1].copy()
    for r in range(indptr.shape[0] - 1):  # the outputs of every attribute, side by side
        if outputs[r] >= 0:
            for e in range(indptr[r], indptr[r + 1]):
                found[place[attributes[e]]] = outputs[r]
                place[attributes[e]] += 1
    counts, seen = np.zeros(n, np.int64), np.full(n_outputs, -1)
    size = 0
    for a in range(n):
        stop = place[a]
        for j in range(starts[a], stop):
            seen[found[j]] = a
        if stop > starts[a]:
            for b in range(n_outputs):
                if seen[b] == a:
                    found[size] = b  # never overtakes what is still to be read: there are no more than were counted
                    size += 1
                    counts[a] += 1
    return counts


@kernel
def _count_entries(indptr, attributes, rank, n_dense, pair_start, dense_indptr, pair_indptr):
    for r in range(indptr.shape[0] - 1):
        dense, pairs = 0, 0
        for e in range(indptr[r], indptr[r + 1]):
            a = rank[attributes[e]]
            if a < n_dense:
                dense += 1
            else:
                pairs += pair_start[a - n_dense + 1] - pair_start[a - n_dense]
        dense_indptr[r + 1] = dense_indptr[r] + dense
        pair_indptr[r + 1] = pair_indptr[r] + pairs


@kernel
def _fill_entries(
    indptr, attributes, rank, n_dense, pair_start, values, pair_output, first,
    dense_attributes, dense_values, weights, outputs, pair_values,
):  # fmt: skip
    real = values.shape[0] > 0
    dense, pairs = 0, 0
    for e in range(attributes.shape[0]):
        a = rank[attributes[e]]
        if a < n_dense:
            dense_attributes[dense] = a
            if real:
                dense_values[dense] = values[e]
            dense += 1
        else:
            for j in range(pair_start[a - n_dense], pair_start[a - n_dense + 1]):
                weights[pairs] = first + j
                outputs[pairs] = pair_output[j]
                if real:
                    pair_values[pairs] = values[e]
                pairs += 1

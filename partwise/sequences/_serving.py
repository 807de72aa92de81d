"""One sentence per call: from its attributes to its labels in one compiled call, with nothing built in Python.

The rows are laid out, scored and decoded by the very kernels that large data goes through, so a sentence gets the same
labels alone and among others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import Stack, feature_scores
from partwise.features.layout import RowLayout, _count_entries, _fill_entries
from partwise.features.rows import SparseRows
from partwise.features.transitions import TiedTransitions
from partwise.structures._chain_kernels import ChainSpace
from partwise.structures.base import argmax, part_count, work_size
from partwise.structures.chain import Chain

__all__ = ["Tagger", "decode_sentence"]


class Tagger(NamedTuple):
    """A fitted chain over sparse rows, as one compiled call wants it."""

    theta: NDArray[np.float64]
    rank: NDArray[np.int32]
    n_dense: int
    mask: NDArray[np.uint8]
    pair_start: NDArray[np.int64]
    pair_output: NDArray[Any]
    row_dim: int
    n_labels: int
    order: int
    powers: NDArray[np.int64]
    blocks: NDArray[np.int64]
    transitions: NDArray[np.uint8]
    start: NDArray[np.uint8]  # (L,), or (0,) where any label may be first
    stop: NDArray[np.uint8]

    @classmethod
    def of(cls, theta: NDArray[np.float64], layout: RowLayout, space: Chain) -> Tagger:
        """From the weights, where they lie, and a space of one position with the rules of the tags."""
        pack = space.pack
        limits = space.edge_limits
        return cls(
            theta, layout.rank, layout.n_dense, layout.mask, layout.pair_start, layout.pair_output, layout.dim,
            space.n_labels, space.order, pack.powers, pack.blocks, pack.transitions, *limits,
        )  # fmt: skip


@kernel
def decode_sentence(model, ends, entries, values, labels):
    """labels[t] ← the label of position t of the best sequence; returns its score, −inf where there is none.

    ``ends`` and ``entries`` are the rows of attributes; −1 is an attribute that the model does not know.
    """
    length, n_labels = ends.shape[0] - 1, model.n_labels
    indptr, attributes, known = np.zeros(length + 1, np.int64), np.empty_like(entries), 0
    for t in range(length):
        for e in range(ends[t], ends[t + 1]):
            if entries[e] >= 0:
                attributes[known] = entries[e]
                known += 1
        indptr[t + 1] = known
    attributes = attributes[:known]
    dense_indptr, pair_indptr = np.zeros(length + 1, np.int64), np.zeros(length + 1, np.int64)
    _count_entries(indptr, attributes, model.rank, model.n_dense, model.pair_start, dense_indptr, pair_indptr)
    n_dense, n_pairs = dense_indptr[length], pair_indptr[length]
    real = values.shape[0] > 0
    dense, dense_values = np.empty(n_dense, np.int32), np.empty(n_dense if real else 0)
    weights, outputs = np.empty(n_pairs, np.int32), np.empty(n_pairs, model.pair_output.dtype)
    pair_values = np.empty(n_pairs if real else 0)
    first = model.n_dense * n_labels
    _fill_entries(
        indptr, attributes, model.rank, model.n_dense, model.pair_start, values, model.pair_output, first,
        dense, dense_values, weights, outputs, pair_values,
    )  # fmt: skip
    offsets = np.zeros(2, np.int64)
    offsets[1] = length
    rows = SparseRows(
        offsets, n_labels, 0, dense_indptr, dense, dense_values, model.mask, pair_indptr, weights, outputs, pair_values
    )
    features = Stack(rows, TiedTransitions(n_labels, model.blocks, model.row_dim))
    allowed = np.ones((length if model.start.shape[0] > 0 else 0, n_labels), np.uint8)
    if model.start.shape[0] > 0:
        for b in range(n_labels):
            allowed[0, b] &= model.start[b]
            allowed[length - 1, b] &= model.stop[b]
    space = ChainSpace(offsets, n_labels, model.order, model.powers, model.blocks, 0, allowed, model.transitions)
    n = part_count(space, 0)
    scores, parts, work = np.empty(n), np.empty(n), np.empty(work_size(space, 0))
    feature_scores(features, 0, model.theta, scores, 0)
    best = argmax(space, 0, scores, work, parts)
    for t in range(length):
        label = 0
        if best > -np.inf:
            while parts[t * n_labels + label] == 0.0:
                label += 1
        labels[t] = label
    return best

"""One sentence per call: from its attributes to its labels in one compiled call, with nothing built in Python.

The rows are laid out, scored and decoded by the very kernels that large data goes through, so a sentence gets the same
labels alone and among others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.exceptions import InputError
from partwise.features.base import Stack, feature_scores
from partwise.features.layout import RowLayout
from partwise.features.rows import IndexedRows
from partwise.features.transitions import TiedTransitions
from partwise.structures._chain_kernels import ChainSpace
from partwise.structures.base import argmax, part_count, work_size
from partwise.structures.chain import Chain

__all__ = ["OneByOne", "Tagger", "decode_sentence"]


class Tagger(NamedTuple):
    """A fitted chain over sparse rows, as one compiled call wants it."""

    theta: NDArray[np.float64]
    rank: NDArray[np.int32]
    n_dense: int
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
            theta, layout.rank, layout.n_dense, layout.pair_start, layout.pair_output, layout.dim,
            space.n_labels, space.order, pack.powers, pack.blocks, pack.transitions, *limits,
        )  # fmt: skip


@kernel
def decode_sentence(model, ends, entries, labels):
    """labels[t] ← the label of position t of the best sequence; returns its score, −inf where there is none.

    ``ends`` and ``entries`` are the rows of attributes, all of the value 1; −1 is one that the model does not know.
    """
    length, n_labels = ends.shape[0] - 1, model.n_labels
    indptr, attributes, known = np.zeros(length + 1, np.int64), np.empty_like(entries), 0
    for t in range(length):
        for e in range(ends[t], ends[t + 1]):
            if entries[e] >= 0:
                attributes[known] = entries[e]
                known += 1
        indptr[t + 1] = known
    offsets = np.zeros(2, np.int64)
    offsets[1] = length
    rows = IndexedRows(
        offsets, n_labels, 0, indptr, attributes[:known], np.empty(0), model.rank, model.n_dense, model.pair_start,
        model.pair_output,
    )  # fmt: skip
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


class OneByOne:
    """What a chain labeller needs to decode a few sequences at once: a tagger that is made for its weights and kept."""

    theta_: NDArray[np.float64]
    layout_: Any
    encoder_: Any
    classes_: list[Any]
    scheme: str | None

    def _space(self, offsets: NDArray[np.int64], scheme: str | None) -> Chain:
        raise NotImplementedError

    def _predict_few(self, X: Any) -> list[list[Any]] | None:
        """Labels of a few sequences, one compiled call each; None for input that has to go the usual way."""
        if not isinstance(self.layout_, RowLayout):
            return None
        found, classes = [], self.classes_
        for i in range(len(X)):
            rows = self.encoder_.read_one(X, i)
            if rows is None or len(rows[0]) < 2:
                return None
            labels = np.empty(len(rows[0]) - 1, np.int32)
            if decode_sentence(self._tagger, *rows, labels) == -np.inf:
                raise InputError(f"no label sequence of sequence {i} has a finite score")
            found.append([classes[b] for b in labels.tolist()])
        return found

    @property
    def _tagger(self) -> Tagger:
        """What a single sentence is decoded with; made once for these weights and rules."""
        made = self.__dict__.get("_made_tagger")
        if made is None or made[0] is not self.theta_ or made[1] != self.scheme:
            assert isinstance(self.layout_, RowLayout)
            made = (self.theta_, self.scheme, Tagger.of(self.theta_, self.layout_, self._rules()))
            self.__dict__["_made_tagger"] = made
        return made[2]

    def _rules(self) -> Chain:
        """A space that knows the rules of the tags; how long it is does not matter."""
        return self._space(np.array([0, 2 if len(self.classes_) > 1 else 1]), self.scheme)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(cast(dict[str, Any], super().__getstate__()))
        state.pop("_made_tagger", None)
        return state

"""Chain: label sequences with label and transition parts, of any order, under hard constraints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._math import transition_blocks
from partwise.exceptions import InputError, ParameterError
from partwise.structures import (
    _chain_entropy,  # noqa: F401  (registers the oracle)
    _chain_polytope,  # noqa: F401  (registers the oracles)
    _chain_slack,  # noqa: F401  (registers the oracle)
)
from partwise.structures import _chain_ranked as ranked
from partwise.structures._chain_kernels import ChainSpace, block_start, mask_scores
from partwise.structures.atoms import LabelAtoms
from partwise.structures.base import CompiledStructure, Floats, Polytope
from partwise.structures.registry import register_structure

__all__ = ["Chain"]


class Chain(CompiledStructure):
    """y ∈ {0..L−1}^T with score Σ_t s_t(y_t) + Σ_{t≥1} s_t(y_{t−j..t−1}, y_t), j = min(t, order).

    Parts of an instance of length T, in this order: T·L **atoms** (position t, label b) at t·L + b; then the
    transition blocks. With ``tied=True`` (the usual case: one transition score for all positions) there is
    one block of L^{j+1} parts for each history length j = 1..order, and parts are counts; with ``tied=False``
    each position t ≥ 1 has a block of its own, L^{min(t, order)+1} indicators.

    Scores for the first or last label are scores of the atoms of the first or last position.

    Parameters
    ----------
    lengths : sequence of int, (n,)
        Number of positions of each instance, ≥ 1.
    n_labels : int
    order : int
        How many previous labels a transition sees.
    tied : bool
        Whether all positions share one block of transition scores.
    allowed : (sum of lengths, n_labels) bool, optional
        Labels that each position may take: pinned labels, partial labels, dictionaries.
    transitions : (n_labels, n_labels) bool, optional
        transitions[a, b]: may b follow a? BIO legality and the like.
    start, stop : (n_labels,) bool, optional
        Labels that may come first and labels that may come last.

    Notes
    -----
    Complexity: O(T·L^{order+1}) time for argmax and marginals; times the number of values that the cost can
    take for slack rescaling, T + 1 with a Hamming cost. Costs must be integers there.

    Examples
    --------
    >>> chain = Chain([3], n_labels=2)
    >>> scores = np.array([0.0, 1.0,  0.5, 0.0,  0.0, 1.0,   0.0, 0.0, -2.0, 0.0])
    >>> chain.decode(0, chain.argmax(0, scores)).tolist()
    [1, 1, 1]
    >>> log_partition, mean = chain.marginals(0, scores)
    >>> mean[:6].reshape(3, 2).round(2).tolist()
    [[0.47, 0.53], [0.44, 0.56], [0.15, 0.85]]
    """

    #: What needs the pair marginals of every position: a tied chain has only their sums.
    untied_oracles: ClassVar[frozenset[str]] = frozenset({"marginal_entropy", "support", "gibbs"})

    @property
    def oracles(self) -> frozenset[str]:
        return super().oracles - (self.untied_oracles if self.tied else frozenset())

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[Any],
        n_labels: int,
        *,
        order: int = 1,
        tied: bool = True,
        allowed: ArrayLike | None = None,
        transitions: ArrayLike | None = None,
        start: ArrayLike | None = None,
        stop: ArrayLike | None = None,
    ) -> None:
        if n_labels < 1:
            raise ParameterError("n_labels", "Chain", "at least 1", n_labels)
        if order < 1:
            raise ParameterError("order", "Chain", "at least 1", order)
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or (sizes.size > 0 and sizes.dtype.kind not in "iu"):
            raise ParameterError("lengths", "Chain", "a sequence of integers", lengths)
        sizes = sizes.astype(np.int64)
        if (sizes < 1).any():
            raise InputError(f"instance {int(np.argmin(sizes))} is an empty sequence; expected at least one position")
        self.lengths, self.n_labels, self.order, self.tied = sizes, int(n_labels), int(order), bool(tied)
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        blocks = transition_blocks(self.n_labels, self.order)
        self._pack = ChainSpace(
            offsets,
            self.n_labels,
            self.order,
            self.n_labels ** np.arange(self.order + 1),
            blocks,
            0 if tied else self.n_labels ** (self.order + 1),
            self._allowed_rows(offsets, allowed, start, stop),
            self._transition_parts(blocks, transitions),
        )
        free = np.ones(self.n_labels if start is not None or stop is not None else 0, np.uint8)
        self._edges = (
            free if start is None else self._label_mask("start", start),
            free if stop is None else self._label_mask("stop", stop),
        )
        self._check_feasible()

    def _allowed_rows(self, offsets: NDArray[np.int64], allowed: Any, start: Any, stop: Any) -> NDArray[np.uint8]:
        if allowed is None and start is None and stop is None:
            return np.zeros((0, self.n_labels), np.uint8)
        shape = (int(offsets[-1]), self.n_labels)
        rows = np.ones(shape, np.uint8) if allowed is None else np.array(allowed, bool).astype(np.uint8)
        if rows.shape != shape:
            raise ParameterError("allowed", "Chain", f"an array of shape {shape}", rows.shape)
        if start is not None:
            rows[offsets[:-1]] &= self._label_mask("start", start)
        if stop is not None:
            rows[offsets[1:] - 1] &= self._label_mask("stop", stop)
        empty = np.flatnonzero(~rows.any(axis=1))
        if len(empty):
            i = int(np.searchsorted(offsets, empty[0], side="right")) - 1
            raise InputError(f"the constraints allow no label at position {empty[0] - offsets[i]} of instance {i}")
        return rows

    @property
    def edge_limits(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """(labels that may stand first, last) as given, each of length 0 where any may."""
        return self._edges

    def _label_mask(self, name: str, mask: ArrayLike) -> NDArray[np.uint8]:
        row = np.asarray(mask, bool).astype(np.uint8)
        if row.shape != (self.n_labels,):
            raise ParameterError(name, "Chain", f"an array of shape ({self.n_labels},)", row.shape)
        return row

    def _transition_parts(self, blocks: NDArray[np.int64], transitions: Any) -> NDArray[np.uint8]:
        if transitions is None:
            return np.zeros(0, np.uint8)
        n = self.n_labels
        pairs = np.asarray(transitions, bool).astype(np.uint8)
        if pairs.shape != (n, n):
            raise ParameterError("transitions", "Chain", f"an array of shape ({n}, {n})", pairs.shape)
        # a block of history length j is L^{j−1} copies of the pair matrix: only the last label matters
        return np.concatenate([np.tile(pairs.ravel(), n ** (j - 1)) for j in range(1, self.order + 1)])

    def _check_feasible(self) -> None:
        if len(self._pack.transitions) == 0:
            return  # every position has an allowed label, and any label may follow any other
        blocked = ranked.first_infeasible(self._pack)
        if blocked >= 0:
            raise InputError(f"the constraints allow no label sequence for instance {blocked}")

    @property
    def pack(self) -> ChainSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self.lengths)

    def n_atoms(self, i: int) -> int:
        return int(self.lengths[i]) * self.n_labels

    def atoms(self, i: int) -> LabelAtoms:
        """(position, label) of every atom."""
        return LabelAtoms.grid(int(self.lengths[i]), self.n_labels)

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As ``part_count`` and ``work_size`` have it, in closed form: nothing to compile."""
        pack, last = self._pack, np.full(len(self), self.order)
        if not self.tied:
            last = np.minimum(self.lengths - 1, self.order)
        more = np.maximum(self.lengths - 1 - self.order, 0) * pack.stride
        parts = self.lengths * self.n_labels + pack.blocks[last + 1] + more
        return parts, 2 * parts + (2 * self.lengths + 1) * pack.powers[-1]

    def encode(self, i: int, y: ArrayLike) -> Floats:
        parts = np.zeros(self.n_parts(i))
        _, numbers, values = self._encode(np.array([0, self.lengths[i]]), self._checked(i, y))
        np.add.at(parts, numbers, values)
        return parts

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        result: NDArray[np.int64] = np.argmax(parts[: self.n_atoms(i)].reshape(-1, self.n_labels), axis=1)
        return result

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        offsets, numbers, coming = self._pack.offsets, [np.zeros(0, np.int32)], enumerate(outputs)
        for first in range(0, len(self), 1000):  # so that what is needed on the way stays small
            here = offsets[first : first + 1001] - offsets[first]
            labels = [self._checked(i, y) for i, y in islice(coming, len(here) - 1)]
            numbers.append(self._encode(here, np.concatenate(labels))[1])
        found = np.concatenate(numbers)
        return self._sparse_offsets(offsets), found, np.ones(len(found))

    def _checked(self, i: int, y: ArrayLike) -> NDArray[np.int64]:
        labels = np.asarray(y)
        if labels.shape != (self.lengths[i],):
            raise InputError(f"instance {i} has {self.lengths[i]} positions but {labels.size} labels")
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= self.n_labels:
            raise InputError(f"labels of instance {i} must be integers in 0..{self.n_labels - 1}")
        return labels.astype(np.int64)

    def _encode(
        self, offsets: NDArray[np.int64], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Two parts per position (label, transition), one at the first; vectorised over the data set."""
        n, k = self.n_labels, self.order
        lengths = np.diff(offsets)
        position = np.arange(len(labels)) - np.repeat(offsets[:-1], lengths)
        history = np.zeros(len(labels), np.int64)
        for j in range(1, k + 1):  # history = Σ_j y_{t−j} L^{j−1}
            seen = position >= j
            history[seen] += labels[np.flatnonzero(seen) - j] * n ** (j - 1)
        depth = np.minimum(position, k)
        block = self._pack.blocks[depth] + np.maximum(position - k, 0) * self._pack.stride
        transition = np.repeat(lengths * n, lengths) + block + history * n + labels
        pairs = np.stack([position * n + labels, transition], axis=1)
        keep = np.stack([np.ones(len(labels), bool), position > 0], axis=1)
        numbers = pairs[keep].astype(np.int32)
        return self._sparse_offsets(offsets), numbers, np.ones(len(numbers))

    @staticmethod
    def _sparse_offsets(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        sparse = np.zeros(len(offsets), np.int64)
        np.cumsum(2 * np.diff(offsets) - 1, out=sparse[1:])
        return sparse

    @property
    def constrained(self) -> bool:
        return len(self._pack.allowed) > 0 or len(self._pack.transitions) > 0

    def allows(self, i: int, parts: Floats) -> bool:
        return not self._forbidden(i, parts).any()

    def _forbidden(self, i: int, parts: Floats) -> NDArray[np.bool_]:
        scores = np.zeros(self.n_parts(i))
        mask_scores(self._pack, i, np.zeros_like(scores), scores)
        result: NDArray[np.bool_] = (parts != 0) & (scores == -np.inf)
        return result

    def forbidden_part(self, i: int, parts: Floats) -> str:
        number = int(np.flatnonzero(self._forbidden(i, parts))[0])
        if number < self.n_atoms(i):
            t, b = divmod(number, self.n_labels)
            return f"label {b} at position {t} is forbidden by the constraints"
        y = self.decode(i, parts)
        for t in range(1, len(y)):
            start = block_start(self._pack, int(self.lengths[i]), t)
            history = sum(int(y[t - j]) * self.n_labels ** (j - 1) for j in range(1, min(t, self.order) + 1))
            if start + history * self.n_labels + y[t] == number:
                return f"label {y[t]} after label {y[t - 1]} at position {t} is forbidden by the constraints"
        return f"transition part {number} is forbidden by the constraints"

    def slack_obstacle(self, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats) -> str | None:
        odd = np.flatnonzero(values != np.rint(values))
        if not len(odd):
            return None
        i = int(np.searchsorted(offsets, odd[0], side="right")) - 1
        return (
            f"part {numbers[odd[0]]} of instance {i} costs {values[odd[0]]:g}; slack rescaling on a Chain adds up "
            "integer costs: multiply them by a number that makes them whole and divide gamma by it"
        )

    def polytope(self, i: int) -> Polytope:
        """Marginals of neighbouring transitions agree, and the labels of a position sum to 1.

        Lacoste-Julien (2009), eqs. (2.2) and (2.3).
        """
        from partwise.structures._chain_constraints import chain_polytope  # it needs scipy, which predicting does not

        forbidden = self._forbidden(i, np.ones(self.n_parts(i)))
        return chain_polytope(int(self.lengths[i]), self.n_labels, self.order, self.tied, forbidden)


register_structure("Chain", lambda: Chain([2], 2))
register_structure("Chain(tied=False)", lambda: Chain([2], 2, tied=False))

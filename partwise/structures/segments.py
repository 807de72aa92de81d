"""Segments: semi-Markov segmentations, sequences cut into labelled segments, under hard constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures import _segments_ranked as ranked
from partwise.structures._segments_kernels import SegmentSpace, mask_scores
from partwise.structures.base import CompiledStructure, Floats
from partwise.structures.registry import register_structure

__all__ = ["SegmentTable", "Segments"]


class SegmentTable(NamedTuple):
    """Where the atoms lie: atom r is the segment of tokens start[r] … stop[r] − 1 with label[r]."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    label: NDArray[np.int64]


class Segments(CompiledStructure):
    """y = (segments (t_j, t_{j+1}, b_j) that cover 0 … T), score Σ_j s(t_j, t_{j+1}, b_j) + Σ_{j≥1} s(b_{j−1}, b_j).

    The output space of the semi-Markov CRF (Sarawagi & Cohen 2004) and of chunking in Daumé & Marcu 2005, §4.1.
    Parts of an instance of T tokens, in this order: the **atoms**, segments (start, stop, label) by start, then label,
    then length, none longer than its label may be; then L·L transitions between the labels of neighbouring segments,
    which all places share, so that their parts are counts. :meth:`atoms` is the table.

    Parameters
    ----------
    lengths : sequence of int, (n,)
        Number of tokens of each instance, ≥ 1.
    n_labels : int
    max_length : int or (n_labels,) ints
        The longest segment, of all labels or of each. A label of tokens outside all segments has 1.
    allowed : one bool array per instance, (n_atoms(i),), optional
        Segments that an instance may use: pinned or partly known ones.
    transitions : (n_labels, n_labels) bool, optional
        transitions[a, b]: may a segment of label b follow one of label a?

    Notes
    -----
    Complexity: O(T(Σ_b max_length_b + L²)) time for argmax and marginals; times k for the k best; times the number of
    values that the cost can take for slack rescaling, whose costs must be integers.

    Examples
    --------
    Three tokens, labels 0 (single tokens) and 1 (up to two tokens):

    >>> space = Segments([3], n_labels=2, max_length=[1, 2])
    >>> table = space.atoms(0)
    >>> list(zip(table.start.tolist(), table.stop.tolist(), table.label.tolist()))
    [(0, 1, 0), (0, 1, 1), (0, 2, 1), (1, 2, 0), (1, 2, 1), (1, 3, 1), (2, 3, 0), (2, 3, 1)]
    >>> scores = np.zeros(space.n_parts(0))
    >>> scores[2] = 1.0
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [[0, 2, 1], [2, 3, 0]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[Any],
        n_labels: int,
        *,
        max_length: int | ArrayLike,
        allowed: Sequence[ArrayLike] | None = None,
        transitions: ArrayLike | None = None,
    ) -> None:
        if n_labels < 1:
            raise ParameterError("n_labels", "Segments", "at least 1", n_labels)
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or (sizes.size > 0 and sizes.dtype.kind not in "iu"):
            raise ParameterError("lengths", "Segments", "a sequence of integers", lengths)
        sizes = sizes.astype(np.int64)
        if (sizes < 1).any():
            raise InputError(f"instance {int(np.argmin(sizes))} is an empty sequence; expected at least one token")
        given = np.asarray(max_length)
        if given.dtype.kind not in "iu" or given.shape not in ((), (n_labels,)) or (given < 1).any():
            expected = f"a length ≥ 1, or one for each of {n_labels} labels"
            raise ParameterError("max_length", "Segments", expected, max_length)
        self.lengths, self.n_labels = sizes, int(n_labels)
        self.max_length: NDArray[np.int64] = np.broadcast_to(given, (n_labels,)).astype(np.int64)
        left = np.arange(int(self.max_length.max()) + 1)
        within = np.zeros((len(left), n_labels + 1), np.int64)  # tokens left × labels
        np.cumsum(np.minimum(self.max_length, left[:, None]), axis=1, out=within[:, 1:])
        below = np.cumsum(within[:, -1])
        pairs = self._transition_parts(transitions)
        self._pack = SegmentSpace(sizes, self.max_length, within, below, np.zeros(1, np.int64), _none(), pairs)
        starts = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum([self.n_atoms(i) for i in range(len(sizes))], out=starts[1:])
        self._pack = self._pack._replace(starts=starts, allowed=self._allowed_atoms(starts, allowed))
        if self.constrained:
            blocked = ranked.first_infeasible(self._pack)
            if blocked >= 0:
                raise InputError(f"the constraints allow no segmentation of instance {blocked}")

    def _transition_parts(self, transitions: Any) -> NDArray[np.uint8]:
        if transitions is None:
            return _none()
        pairs = np.asarray(transitions, bool).astype(np.uint8)
        if pairs.shape != (self.n_labels, self.n_labels):
            shape = f"({self.n_labels}, {self.n_labels})"
            raise ParameterError("transitions", "Segments", f"an array of shape {shape}", pairs.shape)
        return pairs.ravel()

    def _allowed_atoms(self, starts: NDArray[np.int64], allowed: Any) -> NDArray[np.uint8]:
        if allowed is None:
            return _none()
        if len(allowed) != len(self):
            raise InputError(f"'allowed' has {len(allowed)} entries for {len(self)} instances")
        rows = [np.asarray(row, bool) for row in allowed]
        for i, row in enumerate(rows):
            if row.shape != (starts[i + 1] - starts[i],):
                expected = f"({starts[i + 1] - starts[i]},)"
                raise InputError(f"allowed segments of instance {i} have shape {row.shape}; expected {expected}")
        return np.concatenate([np.zeros(0, bool), *rows]).astype(np.uint8)

    @property
    def pack(self) -> SegmentSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self.lengths)

    def n_atoms(self, i: int) -> int:
        return int(self._block_starts(i)[-1])

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As ``part_count`` and ``work_size`` have it, in closed form: nothing to compile."""
        parts = np.diff(self._pack.starts) + self.n_labels**2
        return parts, parts + 4 * (self.lengths + 1) * self.n_labels

    def _block_starts(self, i: int) -> NDArray[np.int64]:
        """(T + 1,): the number of the first atom that begins at each token, and of the first part that is none."""
        widest = len(self._pack.below) - 1
        left = np.arange(int(self.lengths[i]), 0, -1)
        return np.append(0, np.cumsum(self._pack.within[np.minimum(left, widest), -1]))

    def atoms(self, i: int) -> SegmentTable:
        """The segments of instance i in the order of their parts."""
        length = int(self.lengths[i])
        limits = np.minimum(self.max_length, np.arange(length, 0, -1)[:, None]).ravel()  # (start, label)
        start = np.repeat(np.repeat(np.arange(length), self.n_labels), limits)
        label = np.repeat(np.tile(np.arange(self.n_labels), length), limits)
        first = np.repeat(np.cumsum(limits) - limits, limits)
        return SegmentTable(start, start + np.arange(len(start)) - first + 1, label)

    def encode(self, i: int, y: ArrayLike) -> Floats:
        segments = self._checked(i, y)
        reason = self._too_long([segments])
        if reason is not None:
            raise InputError(reason)
        parts = np.zeros(self.n_parts(i))
        np.add.at(parts, self._numbers(i, segments), 1.0)
        return parts

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        """The segments of an output, one row (start, stop, label) each, from left to right."""
        used = np.flatnonzero(parts[: self.n_atoms(i)])
        table = self.atoms(i)
        return np.stack([table.start[used], table.stop[used], table.label[used]], axis=1)

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        checked = [self._checked(i, y) for i, y in enumerate(outputs)]
        reason = self._too_long(checked)
        if reason is not None:
            raise InputError(reason)
        numbers = [self._numbers(i, segments) for i, segments in enumerate(checked)]
        offsets = np.append(0, np.cumsum([len(row) for row in numbers])).astype(np.int64)
        flat = np.concatenate([np.zeros(0, np.int32), *numbers]).astype(np.int32)
        return offsets, flat, np.ones(len(flat))

    def _checked(self, i: int, y: ArrayLike) -> NDArray[np.int64]:
        segments = np.asarray(y)
        if segments.ndim != 2 or segments.shape[1] != 3 or segments.dtype.kind not in "iu":
            raise InputError(f"the segmentation of instance {i} must be rows (start, stop, label) of integers")
        segments = segments.astype(np.int64)
        start, stop, label = segments.T
        if (label < 0).any() or (label >= self.n_labels).any():
            raise InputError(f"labels of instance {i} must be integers in 0..{self.n_labels - 1}")
        borders = np.append(0, stop)
        if (borders[:-1] != start).any() or borders[-1] != self.lengths[i] or (stop <= start).any():
            raise InputError(
                f"the segments of instance {i} must cover tokens 0..{self.lengths[i] - 1} one after the other, "
                "without gap or overlap"
            )
        return segments

    def _too_long(self, outputs: Sequence[NDArray[np.int64]]) -> str | None:
        """Words for an error where segments exceed the maximal length: how many, and the length needed."""
        flat = np.concatenate([np.zeros((0, 3), np.int64), *outputs])
        size, label = flat[:, 1] - flat[:, 0], flat[:, 2]
        over = size > self.max_length[label]
        if not over.any():
            return None
        needed = {int(b): int(size[over & (label == b)].max()) for b in np.unique(label[over])}
        words = ", ".join(f"{length} for label {b}" for b, length in needed.items())
        return f"{int(over.sum())} of {len(flat)} segments are longer than max_length allows; needed: {words}"

    def _numbers(self, i: int, segments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Part numbers of checked segments and of the transitions between them."""
        start, stop, label = segments.T
        left = np.minimum(self.lengths[i] - start, len(self._pack.below) - 1)
        blocks = self._block_starts(i)
        atoms = blocks[start] + self._pack.within[left, label] + stop - start - 1
        return np.concatenate([atoms, blocks[-1] + label[:-1] * self.n_labels + label[1:]])

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
        atoms = self.n_atoms(i)
        if number < atoms:
            table = self.atoms(i)
            place = f"segment {table.start[number]}..{table.stop[number] - 1}"
            return f"{place} with label {table.label[number]} is forbidden by the constraints"
        a, b = divmod(number - atoms, self.n_labels)
        return f"label {b} after label {a} is forbidden by the constraints"

    def slack_obstacle(self, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats) -> str | None:
        odd = np.flatnonzero(values != np.rint(values))
        if not len(odd):
            return None
        i = int(np.searchsorted(offsets, odd[0], side="right")) - 1
        return (
            f"part {numbers[odd[0]]} of instance {i} costs {values[odd[0]]:g}; slack rescaling on Segments adds up "
            "integer costs: multiply them by a number that makes them whole and divide gamma by it"
        )

    def sample(self, i: int, scores: ArrayLike, size: int, rng: np.random.Generator) -> Floats:
        values, work, _ = self._buffers(i, scores)
        uniform = rng.random((size, 2 * int(self.lengths[i])))
        draws = np.zeros((size, self.n_parts(i)))
        if ranked.sample(self._pack, i, values, work, uniform, draws) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return draws


def _none() -> NDArray[np.uint8]:
    """No constraint."""
    return np.zeros(0, np.uint8)


register_structure("Segments", lambda: Segments([2], 2, max_length=2))

"""Arborescence: trees over the words of a sentence, one head and one label per word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures import _arborescence_kernels as kernels
from partwise.structures._arborescence_space import ArborescenceSpace
from partwise.structures.base import CompiledStructure, Floats
from partwise.structures.registry import register_structure

__all__ = ["Arborescence", "ArcTable"]


class ArcTable(NamedTuple):
    """One row per part: arc (head, modifier) with its label. Words count from 1; head 0 is the root."""

    head: NDArray[np.int64]
    modifier: NDArray[np.int64]
    label: NDArray[np.int64]


class Arborescence(CompiledStructure):
    """y = a tree rooted at 0 over words 1..n with score Σ_m s(h_m, m, l_m): arc-factored dependency trees.

    Section 3.2 and appendix A of Martins et al. (2010): a hard TREE factor over the arcs. Parts are the n² arcs (h, m),
    h ∈ {0..n} \\ {m}, times L labels, all of them atoms: label l of arc (h, m) is part ((m − 1)n + h − [h > m])L + l.

    An output is an array of heads (n,), or (n, 2) of heads and labels where ``n_labels`` is given.

    Parameters
    ----------
    lengths : sequence of int
        Numbers of words.
    n_labels : int, optional
        L; trees are unlabelled if absent.
    single_root : bool
        Whether exactly one word has head 0, or at least one.
    projective : bool
        Only trees without crossing arcs.
    allowed : sequence of (n + 1, n) bool arrays, optional
        allowed[i][h, m − 1]: may h be the head of word m in instance i? For pruned arcs and pinned heads.
    labels : sequence of (n,) int arrays, optional
        The only label that the arc into each word may have; −1 for any.

    Notes
    -----
    Complexity: argmax O(n²(L + 1)) by Chu–Liu/Edmonds, marginals O(n²L + n³) by the matrix–tree theorem; projective
    O(n²L + n³) by Eisner's algorithm; k-best k·n times an argmax, projective O(n³ + kn²).

    Missing oracles: ``slack`` (the best tree with a given number of gold arcs is not a matroid intersection),
    ``support`` and ``marginal_entropy`` (cuts and entropies of trees are not sums over arcs).

    Examples
    --------
    >>> space = Arborescence([2])
    >>> scores = np.array([1.0, 4.0,   0.0, 5.0])  # (0, 1), (2, 1), (0, 2), (1, 2)
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [0, 1]
    >>> log_partition, mean = space.marginals(0, scores)
    >>> mean.round(2).tolist()
    [0.88, 0.12, 0.12, 0.88]
    """

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[Any],
        n_labels: int | None = None,
        *,
        single_root: bool = False,
        projective: bool = False,
        allowed: Sequence[ArrayLike] | None = None,
        labels: Sequence[ArrayLike] | None = None,
    ) -> None:
        if n_labels is not None and n_labels < 1:
            raise ParameterError("n_labels", "Arborescence", "at least 1, or absent", n_labels)
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or (sizes.size > 0 and sizes.dtype.kind not in "iu"):
            raise ParameterError("lengths", "Arborescence", "a sequence of integers", lengths)
        sizes = sizes.astype(np.int64)
        if (sizes < 1).any():
            raise InputError(f"instance {int(np.argmin(sizes))} is an empty sentence; expected at least one word")
        self.lengths, self.labelled, self.n_labels = sizes, n_labels is not None, int(n_labels or 1)
        self.single_root, self.projective = bool(single_root), bool(projective)
        self._pack = ArborescenceSpace(
            np.append(0, np.cumsum(sizes)),
            np.append(0, np.cumsum(sizes * sizes)),
            self.n_labels,
            int(single_root),
            int(projective),
            self._allowed_arcs(allowed),
            self._pinned_labels(labels),
        )
        if len(self._pack.allowed):
            blocked = kernels.first_infeasible(self._pack)
            if blocked >= 0:
                raise InputError(f"the constraints allow no tree for instance {blocked}")

    def _allowed_arcs(self, allowed: Sequence[ArrayLike] | None) -> NDArray[np.uint8]:
        if allowed is None:
            return np.zeros(0, np.uint8)
        if len(allowed) != len(self):
            raise InputError(f"'allowed' has {len(allowed)} entries for {len(self)} instances")
        rows = []
        for i, given in enumerate(allowed):
            n, table = int(self.lengths[i]), np.asarray(given, bool)
            if table.shape != (n + 1, n):
                raise InputError(f"'allowed' of instance {i} has shape {table.shape}; expected {(n + 1, n)}")
            rows.append(table.T[~np.eye(n, n + 1, 1, bool)])
        return np.concatenate([np.zeros(0, bool), *rows]).astype(np.uint8)

    def _pinned_labels(self, labels: Sequence[ArrayLike] | None) -> NDArray[np.int32]:
        if labels is None:
            return np.zeros(0, np.int32)
        if not self.labelled or len(labels) != len(self):
            expected = f"one array per instance ({len(self)})" if self.labelled else "absent where n_labels is"
            raise ParameterError("labels", "Arborescence", expected, len(labels))
        rows = [np.asarray(row) for row in labels]
        for i, row in enumerate(rows):
            if row.shape != (self.lengths[i],) or row.dtype.kind not in "iu":
                raise InputError(f"'labels' of instance {i} must be {self.lengths[i]} integers")
            if row.min() < -1 or row.max() >= self.n_labels:
                raise InputError(f"'labels' of instance {i} must be in -1..{self.n_labels - 1}")
        return np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.int32)

    @property
    def pack(self) -> ArborescenceSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self.lengths)

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.lengths**2 * self.n_labels, 2 * (self.lengths + 1) ** 2

    def n_parts(self, i: int) -> int:
        return int(self.lengths[i] ** 2 * self.n_labels)

    def atoms(self, i: int) -> ArcTable:
        """Head, modifier and label of every part."""
        n = int(self.lengths[i])
        arc, label = np.divmod(np.arange(n * n * self.n_labels), self.n_labels)
        modifier, head = arc // n + 1, arc % n
        return ArcTable(head + (head >= modifier), modifier, label)

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of heads (n,), or of heads and labels (n, 2), which must be a tree."""
        parts = np.zeros(self.n_parts(i))
        parts[self._numbers(i, y)] = 1.0
        return parts

    def _numbers(self, i: int, y: Any) -> NDArray[np.int64]:
        """The parts of y, one per word."""
        n = int(self.lengths[i])
        table = np.asarray(y)
        shape = (n, 2) if self.labelled else (n,)
        if table.shape != shape or table.dtype.kind not in "iu":
            what = "heads and labels" if self.labelled else "heads"
            raise InputError(f"a tree of instance {i} is an integer array {shape} of {what}; got shape {table.shape}")
        heads, labels = (table[:, 0], table[:, 1]) if self.labelled else (table, np.zeros(n, np.int64))
        words = np.arange(1, n + 1)
        wrong = (heads < 0) | (heads > n) | (heads == words)
        if wrong.any():
            m = int(np.argmax(wrong))
            problem = "is its own head" if heads[m] == m + 1 else f"has head {heads[m]}; expected 0..{n}"
            raise InputError(f"word {m + 1} of instance {i} {problem}")
        if labels.min() < 0 or labels.max() >= self.n_labels:
            raise InputError(f"labels of instance {i} must be in 0..{self.n_labels - 1}")
        fault = tree_fault(heads, single_root=self.single_root, projective=self.projective)
        if fault is not None:
            raise InputError(f"instance {i} is not a tree: {fault}")
        result: NDArray[np.int64] = ((words - 1) * n + heads - (heads > words)) * self.n_labels + labels
        return result

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        """Heads (n,), or heads and labels (n, 2): for each word the part with the largest value."""
        n = int(self.lengths[i])
        best = np.argmax(np.asarray(parts).reshape(n, n * self.n_labels), axis=1)
        head, label = np.divmod(best, self.n_labels)
        heads = head + (head >= np.arange(1, n + 1))
        return np.stack([heads, label], axis=1) if self.labelled else heads

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        numbers = [np.zeros(0, np.int64), *(self._numbers(i, y) for i, y in enumerate(outputs))]
        flat = np.concatenate(numbers).astype(np.int32)
        return self._pack.offsets.copy(), flat, np.ones(len(flat))

    @property
    def constrained(self) -> bool:
        return len(self._pack.allowed) > 0 or len(self._pack.pinned) > 0

    def allows(self, i: int, parts: Floats) -> bool:
        return self._misfit(i, parts) is None

    def forbidden_part(self, i: int, parts: Floats) -> str:
        return self._misfit(i, parts) or "nothing is forbidden"

    def _misfit(self, i: int, parts: Floats) -> str | None:
        """Which of the given constraints the tree breaks, in words."""
        y = self.decode(i, parts)
        heads, labels = (y[:, 0], y[:, 1]) if self.labelled else (y, np.zeros(len(y), np.int64))
        pack, words = self._pack, np.arange(1, len(heads) + 1)
        if len(pack.allowed):
            arcs = (words - 1) * len(heads) + heads - (heads > words)
            barred = pack.allowed[pack.arcs[i] + arcs] == 0
            if barred.any():
                m = int(np.argmax(barred))
                return f"arc ({heads[m]}, {m + 1}) is forbidden by the constraints"
        if len(pack.pinned):
            pinned = pack.pinned[pack.offsets[i] : pack.offsets[i + 1]]
            wrong = (pinned >= 0) & (pinned != labels)
            if wrong.any():
                m = int(np.argmax(wrong))
                return f"label {labels[m]} of word {m + 1} is forbidden by the constraints"
        return None

    def sample(self, i: int, scores: ArrayLike, size: int, rng: np.random.Generator) -> Floats:
        values, _, _ = self._buffers(i, scores)
        draws = np.zeros((size, self.n_parts(i)))
        seeds = rng.integers(0, 2**64, size=size, dtype=np.uint64)
        if kernels.sample(self._pack, i, values, seeds, draws) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return draws


def tree_fault(heads: NDArray[Any], *, single_root: bool = False, projective: bool = False) -> str | None:
    """Why these heads are no tree (a cycle, several roots, crossing arcs), or None.

    Examples
    --------
    >>> tree_fault(np.array([2, 1, 0]))
    'words 1, 2 form a cycle'
    >>> tree_fault(np.array([0, 0]), single_root=True)
    'words 1, 2 depend on the root, but only one may'
    >>> tree_fault(np.array([3, 0, 2, 1]), projective=True)
    'the arcs (3, 1) and (0, 2) cross'
    """
    n = len(heads)
    reached = np.zeros(n + 1, np.int8)  # 1 on this path, 2 reaches the root
    reached[0] = 2
    for start in range(1, n + 1):
        path, node = [], start
        while reached[node] == 0:
            reached[node] = 1
            path.append(node)
            node = int(heads[node - 1])
        if reached[node] == 1:
            circle = sorted(path[path.index(node) :])
            return f"words {', '.join(map(str, circle))} form a cycle"
        reached[path] = 2
    roots = np.flatnonzero(heads == 0) + 1
    if single_root and len(roots) > 1:
        return f"words {', '.join(map(str, roots))} depend on the root, but only one may"
    if projective:
        words = np.arange(1, n + 1)
        low, high = np.minimum(heads, words), np.maximum(heads, words)
        crossing = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
        if crossing.any():
            a, b = np.argwhere(crossing | crossing.T)[0]
            return f"the arcs ({heads[a]}, {a + 1}) and ({heads[b]}, {b + 1}) cross"
    return None


register_structure("Arborescence", lambda: Arborescence([2]))

"""SecondOrderTree: dependency trees whose scores see neighbouring children and grandparents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.structures import _second_order_beliefs as messages
from partwise.structures import _second_order_kernels as kernels
from partwise.structures import _second_order_ranked  # noqa: F401 - registers kbest
from partwise.structures._second_order_projective import best_projective
from partwise.structures._second_order_space import Layout, SecondOrderSpace, layout, write_parts
from partwise.structures.arborescence import ArcTable, tree_fault
from partwise.structures.base import CompiledStructure
from partwise.structures.oracles import Floats
from partwise.structures.registry import register_structure

__all__ = ["Beliefs", "SecondOrderTree"]


class Beliefs(NamedTuple):
    """The result of belief propagation: the Bethe log-partition, the beliefs of all parts, and the number of rounds."""

    log_partition: float
    parts: Floats
    rounds: int
    converged: bool


class SecondOrderTree(CompiledStructure):
    """y = a tree over candidate arcs with score Σ arcs + Σ neighbouring siblings + Σ grandparents.

    Section 3.2 of Martins et al. (2010) beside its TREE factor: consecutive siblings with the first and the last
    child of each side, and grandparent–head–modifier chains. ``argmax`` is the best tree that dual decomposition finds:
    an attained output ("inner"), with an upper bound by ``bound``. Where both agree, :meth:`solve` calls it optimal.

    ``marginals`` are the beliefs of loopy belief propagation with the Bethe log-partition of eqs. (18)–(19), which is
    neither an upper nor a lower bound ("none"); exact where only arcs have scores. :meth:`beliefs` says whether a fixed
    point was reached.

    A score of −inf forbids an arc; those of siblings and grandparents must be finite.

    Parameters
    ----------
    candidates : sequence of (n + 1, n) bool arrays
        candidates[i][h, m − 1]: may h be the head of word m? What a first-order model leaves after pruning.
    n_labels : int, optional
        L; trees are unlabelled if absent.
    single_root : bool
    max_iterations : int
        Of dual decomposition, after which the best tree found so far is the answer.

    Examples
    --------
    >>> space = SecondOrderTree([np.ones((3, 2))])
    >>> scores = np.zeros(space.n_parts(0))
    >>> scores[:4] = [1.0, 4.0, 0.0, 5.0]  # arcs (0, 1), (2, 1), (0, 2), (1, 2)
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [0, 1]
    """

    def __init__(
        self,
        candidates: Sequence[Any],
        n_labels: int | None = None,
        *,
        single_root: bool = False,
        max_iterations: int = 200,
    ) -> None:
        if n_labels is not None and n_labels < 1:
            raise ParameterError("n_labels", "SecondOrderTree", "at least 1, or absent", n_labels)
        if max_iterations < 1:
            raise ParameterError("max_iterations", "SecondOrderTree", "at least 1", max_iterations)
        self.labelled, self.n_labels = n_labels is not None, int(n_labels or 1)
        self.single_root, self.max_iterations = bool(single_root), int(max_iterations)
        lengths, heads, modifiers = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        arcs, parts = [0], [0]
        for i, given in enumerate(candidates):
            table = np.array(given, bool)
            if table.ndim != 2 or table.shape[0] != table.shape[1] + 1 or table.shape[1] < 1:
                raise InputError(f"candidates of instance {i} have shape {table.shape}; expected (n + 1, n), n ≥ 1")
            n = table.shape[1]
            table[np.arange(1, n + 1), np.arange(n)] = False
            modifier, head = np.nonzero(table.T)
            lengths.append(n)
            heads.append(head)
            modifiers.append(modifier + 1)
            arcs.append(arcs[-1] + len(head))
            parts.append(parts[-1] + self._count(n, head, modifier + 1))
        self.lengths = np.array(lengths, np.int64)
        self._pack = SecondOrderSpace(
            np.append(0, np.cumsum(self.lengths)).astype(np.int64),
            np.array(arcs, np.int64),
            np.concatenate(heads).astype(np.int32),
            np.concatenate(modifiers).astype(np.int32),
            np.array(parts, np.int64),
            self.n_labels,
            int(self.single_root),
            self.max_iterations,
            np.full((len(lengths), 4), np.nan),
        )
        blocked = kernels.first_infeasible(self._pack)
        if blocked >= 0:
            raise InputError(f"the candidate arcs of instance {blocked} hold no tree")

    def _count(self, n: int, heads: NDArray[np.int64], modifiers: NDArray[np.int64]) -> int:
        """The number of parts: labelled arcs, siblings, grandparents."""
        left = np.bincount(heads[modifiers < heads], minlength=n + 1)
        right = np.bincount(heads[modifiers > heads], minlength=n + 1)
        siblings = sum(int((2 * k + k * (k - 1) // 2).sum()) for k in (left, right))
        into = np.bincount(modifiers, minlength=n + 1)
        return len(heads) * self.n_labels + siblings + int((into * (left + right))[1:].sum())

    @property
    def pack(self) -> SecondOrderSpace:
        return self._pack

    def guarantee(self, oracle: str) -> str:
        return {"argmax": "inner", "kbest": "inner", "marginals": "none"}.get(oracle, "exact")

    def __len__(self) -> int:
        return len(self.lengths)

    def convergence(self, oracle: str) -> Floats:
        """What the last call of an oracle did for each instance, (n, 2), NaN where there was none.

        ``argmax``: iterations of dual decomposition, and 1 where the tree is proved to be the best. ``marginals``:
        rounds of belief propagation, and 1 where it converged.
        """
        return self._pack.log[:, 2:].copy() if oracle == "marginals" else self._pack.log[:, :2].copy()

    def unconverged(self, oracle: str) -> int | None:
        return int((self.convergence(oracle)[:, 1] == 0.0).sum())

    def n_parts(self, i: int) -> int:
        return int(self._pack.parts[i + 1] - self._pack.parts[i])

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.diff(self._pack.parts), np.ones(len(self), np.int64)

    def n_atoms(self, i: int) -> int:
        return int(self._pack.arcs[i + 1] - self._pack.arcs[i]) * self.n_labels

    def _arcs(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        span = slice(self._pack.arcs[i], self._pack.arcs[i + 1])
        return self._pack.heads[span].astype(np.int64), self._pack.modifiers[span].astype(np.int64)

    def argmax(self, i: int, scores: Any) -> Floats:
        self._check_higher(i, scores)
        return super().argmax(i, scores)

    def marginals(self, i: int, scores: Any) -> tuple[float, Floats]:
        self._check_higher(i, scores)
        return super().marginals(i, scores)

    def beliefs(self, i: int, scores: Any, *, max_rounds: int = messages.MOST_ROUNDS, damping: float = 0.3) -> Beliefs:
        """Belief propagation in detail: the marginals, and whether a fixed point was reached."""
        if not 0.0 <= damping < 1.0:
            raise ParameterError("damping", "SecondOrderTree.beliefs", "in [0, 1)", damping)
        self._check_higher(i, scores)
        values, _, parts = self._buffers(i, scores)
        arcs = self.n_atoms(i) // self.n_labels
        arc_scores, mass = np.empty(arcs), np.zeros(arcs)
        messages.soft_arcs(self.n_labels, values, arc_scores, parts)
        n, one = int(self.lengths[i]), int(self.single_root)
        value, rounds, done = messages.propagate(
            self.layout(i), n, arc_scores, values, one, max_rounds, float(damping), mass, parts
        )
        parts[: self.n_atoms(i)] *= np.repeat(mass, self.n_labels)
        return Beliefs(float(value), parts, int(rounds), bool(done))

    def bound(self, i: int, scores: Any) -> float:
        self._check_higher(i, scores)
        return super().bound(i, scores)

    def best_projective(self, i: int, scores: Any) -> tuple[float, Floats]:
        """(score, parts) of the best tree without crossing arcs, exactly, in O(n⁴) time and O(n³) memory.

        Of all trees it is the best wherever :meth:`solve` finds a projective one optimal.
        """
        self._check_higher(i, scores)
        values, _, parts = self._buffers(i, scores)
        n, lay, arcs = int(self.lengths[i]), self.layout(i), self.n_atoms(i) // self.n_labels
        arc_scores, best, tree = np.empty(arcs), np.empty(arcs, np.int64), np.zeros(n + 1, np.int64)
        kernels.best_labels(lay, self.n_labels, values, arc_scores, best)
        value = best_projective(lay, n, arc_scores, values, int(self.single_root), tree)
        if value == -np.inf:
            raise InputError(f"no projective tree of instance {i} has a finite score")
        parts[:] = 0.0
        write_parts(lay, tree, np.append(0, best[tree[1:]]), self.n_labels, parts)
        return float(value), parts

    def _check_higher(self, i: int, scores: Any) -> None:
        higher = np.asarray(scores, float)[self.n_atoms(i) :]
        if np.isneginf(higher).any() and np.isfinite(np.asarray(scores)[: self.n_atoms(i)]).any():
            part = self.n_atoms(i) + int(np.argmax(np.isneginf(higher)))
            raise InputError(
                f"part {part} of instance {i}, a sibling or grandparent, has score -inf; expected a number"
            )

    def layout(self, i: int) -> Layout:
        """Where the parts of instance i are."""
        found: Layout = layout(self._pack, i)
        return found

    def atoms(self, i: int) -> ArcTable:
        """Head, modifier and label of every labelled candidate arc."""
        heads, modifiers = (np.repeat(side, self.n_labels) for side in self._arcs(i))
        return ArcTable(heads, modifiers, np.tile(np.arange(self.n_labels), len(heads) // self.n_labels))

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of heads (n,), or of heads and labels (n, 2), which must be a tree of candidate arcs."""
        n, table = int(self.lengths[i]), np.asarray(y)
        shape = (n, 2) if self.labelled else (n,)
        if table.shape != shape or table.dtype.kind not in "iu":
            raise InputError(f"a tree of instance {i} is an integer array {shape}; got shape {table.shape}")
        heads, labels = (table[:, 0], table[:, 1]) if self.labelled else (table, np.zeros(n, np.int64))
        if labels.min() < 0 or labels.max() >= self.n_labels:
            raise InputError(f"labels of instance {i} must be in 0..{self.n_labels - 1}")
        arc_heads, modifiers = self._arcs(i)
        number = {(h, m): a for a, (h, m) in enumerate(zip(arc_heads.tolist(), modifiers.tolist(), strict=True))}
        tree = np.zeros(n + 1, np.int64)
        for m, h in enumerate(heads.tolist(), 1):
            if (h, m) not in number:
                raise InputError(f"arc ({h}, {m}) of instance {i} is not a candidate")
            tree[m] = number[h, m]
        fault = tree_fault(heads, single_root=self.single_root)
        if fault is not None:
            raise InputError(f"instance {i} is not a tree: {fault}")
        parts = np.zeros(self.n_parts(i))
        write_parts(self.layout(i), tree, np.append(0, labels).astype(np.int64), self.n_labels, parts)
        return parts

    def holds(self, i: int, y: Any) -> bool:
        """Whether all arcs of heads (n,), or of heads and labels (n, 2), are candidates."""
        table = np.asarray(y)
        wanted = table[:, 0] if self.labelled else table
        arcs = set(zip(*(side.tolist() for side in self._arcs(i)), strict=True))
        return all((h, m) in arcs for m, h in enumerate(wanted.tolist(), 1))

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        """Heads (n,), or heads and labels (n, 2): for each word the labelled arc with the largest value."""
        table, n = self.atoms(i), int(self.lengths[i])
        values = np.asarray(parts)[: self.n_atoms(i)]
        order = np.lexsort((-values, table.modifier))
        best = order[np.searchsorted(table.modifier[order], np.arange(1, n + 1))]
        return np.stack([table.head[best], table.label[best]], axis=1) if self.labelled else table.head[best]


register_structure("SecondOrderTree", lambda: SecondOrderTree([np.ones((3, 2))]))

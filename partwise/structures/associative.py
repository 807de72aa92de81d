"""AssociativeGraph: nodes with any number of labels whose edges favour agreement; α-expansion with a factor-2
bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._compile import kernel
from partwise.exceptions import InputError, ParameterError
from partwise.structures._cut_kernels import named_edge, refuse_edge
from partwise.structures._graph_input import NodeAtoms, checked_labels, checked_states, edges_of, pack_graphs
from partwise.structures._maxflow import SOURCE, TREE, maximum_flow
from partwise.structures.base import CompiledStructure, Floats, argmax, bound, part_count, work_size
from partwise.structures.registry import register_structure

__all__ = ["AssociativeGraph"]


class AssociativeSpace(NamedTuple):
    """Packed graphs as in :class:`partwise.structures._cut_kernels.CutSpace`, with L labels per node."""

    node_offsets: NDArray[np.int64]
    edge_offsets: NDArray[np.int64]
    ends: NDArray[np.uint32]
    start: NDArray[np.uint32]
    neighbor: NDArray[np.uint32]
    arc: NDArray[np.uint32]
    order: NDArray[np.uint32]
    allowed: NDArray[np.uint8]  # (L · nodes,), or (0,) where all labels are
    n_labels: int
    fault: NDArray[np.int64]


@part_count.register(AssociativeSpace)
def _(space, i):
    n_nodes = space.node_offsets[i + 1] - space.node_offsets[i]
    return space.n_labels * n_nodes + space.edge_offsets[i + 1] - space.edge_offsets[i]


@work_size.register(AssociativeSpace)
def _(space, i):
    n_nodes = space.node_offsets[i + 1] - space.node_offsets[i]
    return n_nodes + 2 * (space.edge_offsets[i + 1] - space.edge_offsets[i])


@kernel
def node_score(space, i, scores, j, label):
    """Score of a label of node j, −inf where it is not allowed."""
    L = space.n_labels
    if space.allowed.shape[0] > 0 and space.allowed[L * (space.node_offsets[i] + j) + label] == 0:
        return -np.inf
    return scores[L * j + label]


@kernel
def favourites(space, i, scores, labels):
    """labels ← the best label of every node by itself; returns the sum of their scores."""
    total = 0.0
    for j in range(labels.shape[0]):
        best = 0
        for b in range(1, space.n_labels):
            if node_score(space, i, scores, j, b) > node_score(space, i, scores, j, best):
                best = b
        labels[j] = best
        total += node_score(space, i, scores, j, best)
    return total


@kernel
def value_of(space, i, scores, ends, order, labels):
    """Score of a labelling."""
    n, total = labels.shape[0], 0.0
    for j in range(n):
        total += node_score(space, i, scores, j, labels[j])
    for e in range(ends.shape[0] // 2):
        if labels[ends[2 * e]] != labels[ends[2 * e + 1]]:
            total += scores[space.n_labels * n + order[e]]
    return total


@kernel
def expand(space, i, scores, ends, order, alpha, labels, terminal, room):
    """Capacities of the best move in which any nodes change to ``alpha``: the source side changes.

    With price c of disagreement, an edge between nodes of one label costs c if one of them changes. Between nodes of
    different labels it costs c unless both change: c/2 for each that stays and c/2 if just one of them changes.
    """
    n = labels.shape[0]
    for j in range(n):
        if labels[j] == alpha:
            terminal[j] = 0.0
        else:
            terminal[j] = node_score(space, i, scores, j, alpha) - node_score(space, i, scores, j, labels[j])
    for e in range(ends.shape[0] // 2):
        j, k = ends[2 * e], ends[2 * e + 1]
        price = -scores[space.n_labels * n + order[e]]
        both = 0.0
        if labels[j] == alpha:
            if labels[k] != alpha:
                terminal[k] += price
        elif labels[k] == alpha:
            terminal[j] += price
        elif labels[j] == labels[k]:
            both = price
        else:
            both = 0.5 * price
            terminal[j] += both
            terminal[k] += both
        room[2 * e], room[2 * e + 1] = both, both


@argmax.register(AssociativeSpace)
def _(space, i, scores, work, parts):
    """Expansions of every label in turn until none of them helps (Boykov, Veksler and Zabih 2001)."""
    first, last = space.node_offsets[i], space.node_offsets[i + 1]
    a, b = 2 * space.edge_offsets[i], 2 * space.edge_offsets[i + 1]
    n, n_arcs, L = last - first, b - a, space.n_labels
    start, neighbor, arc, ends = (
        space.start[first + i : last + i + 1],
        space.neighbor[a:b],
        space.arc[a:b],
        space.ends[a:b],
    )
    order = space.order[space.edge_offsets[i] : space.edge_offsets[i + 1]]
    terminal, room = work[:n], work[n : n + n_arcs]
    labels, trial = np.empty(n, np.int64), np.empty(n, np.int64)
    if favourites(space, i, scores, labels) == -np.inf:
        return -np.inf
    for e in range(n_arcs // 2):
        if scores[L * n + e] > 0.0:
            refuse_edge(space.fault, i, e)
        if scores[L * n + e] == -np.inf:
            raise InputError("the score of an edge whose ends differ is −inf; α-expansion needs finite scores")
    value = value_of(space, i, scores, ends, order, labels)
    idle, alpha = 0, 0
    while idle < L:
        expand(space, i, scores, ends, order, alpha, labels, terminal, room)
        _, forest = maximum_flow(start, neighbor, arc, ends, terminal, room)
        for j in range(n):
            trial[j] = alpha if forest.nodes[j, TREE] == SOURCE else labels[j]
        found = value_of(space, i, scores, ends, order, trial)
        idle += 1
        if found > value + 1e-12 * (1.0 + abs(value)):
            labels[:] = trial
            value, idle = found, 0
        alpha = alpha + 1 if alpha + 1 < L else 0
    for r in range(parts.shape[0]):
        parts[r] = 0.0
    for j in range(n):
        parts[L * j + labels[j]] = 1.0
    for e in range(n_arcs // 2):
        parts[L * n + order[e]] = 1.0 if labels[ends[2 * e]] != labels[ends[2 * e + 1]] else 0.0
    return value


@bound.register(AssociativeSpace)
def _(space, i, scores, value, work):
    """Σ_j max_b s_j(b) less half of what the answer is below it: twice the best energy is at least that of the
    answer."""
    labels = np.empty(space.node_offsets[i + 1] - space.node_offsets[i], np.int64)
    top = favourites(space, i, scores, labels)
    return top - 0.5 * (top - value) * (1.0 - 1e-9) if top > -np.inf else -np.inf


class AssociativeGraph(CompiledStructure):
    """y ∈ {0, …, L − 1}^N with score Σ_j s_j(y_j) + Σ_{e = jk} s_e [y_j ≠ y_k], s_e ≤ 0: the Potts model.

    Parts: the L labels of each node, which are the atoms, then one per edge, which is on where its ends differ. With
    L > 2 the best output is NP-hard to find. ``argmax`` is α-expansion (Boykov, Veksler and Zabih 2001): a sequence
    of minimum cuts whose answer is *inner*, an output that is perhaps not the best. Measured down from the sum of the
    best node scores it costs at most twice what the best output does; ``bound`` is the upper bound that follows. With
    two labels :class:`Cut` is exact.

    Parameters
    ----------
    sizes : n ints
        Numbers of nodes.
    edges : n arrays of shape (E, 2)
        Nodes of each edge; no loops, no edge twice.
    n_labels : int
    allowed : n (N, L) bool arrays or None, optional
        Labels that each node may have.
    parallel_edges : bool
        Whether two nodes may be joined more than once.

    Examples
    --------
    >>> space = AssociativeGraph([3], [[(0, 1), (1, 2)]], n_labels=3)
    >>> scores = np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 2.0, 0.0, -1.0, -0.5])
    >>> space.decode(0, space.argmax(0, scores)).tolist(), space.guarantee("argmax")
    ([0, 0, 1], 'inner')
    """

    def __init__(
        self,
        sizes: Sequence[int] | ArrayLike,
        edges: Sequence[Any],
        n_labels: int,
        *,
        allowed: Sequence[ArrayLike | None] | None = None,
        parallel_edges: bool = False,
    ) -> None:
        if isinstance(n_labels, bool) or not isinstance(n_labels, int | np.integer) or n_labels < 1:
            raise ParameterError("n_labels", "AssociativeGraph", "an integer of at least 1", n_labels)
        graphs = pack_graphs(sizes, edges, "AssociativeGraph", parallel_edges)
        flags = checked_states(allowed, np.diff(graphs.node_offsets), int(n_labels), "AssociativeGraph")
        self.n_labels = int(n_labels)
        self._pack = AssociativeSpace(*graphs, flags, self.n_labels, np.full(2, -1))

    @property
    def pack(self) -> AssociativeSpace:
        return self._pack

    def guarantee(self, oracle: str) -> str:
        return "inner" if oracle == "argmax" else "exact"

    def __len__(self) -> int:
        return len(self._pack.node_offsets) - 1

    def n_nodes(self, i: int) -> int:
        """N of instance i."""
        return int(self._pack.node_offsets[i + 1] - self._pack.node_offsets[i])

    def edges(self, i: int) -> NDArray[np.uint32]:
        """(E, 2) nodes of every edge of instance i."""
        return edges_of(self._pack, i)

    def n_atoms(self, i: int) -> int:
        return self.n_labels * self.n_nodes(i)

    def atoms(self, i: int) -> NodeAtoms:
        """Node and state of every atom of instance i."""
        n = self.n_nodes(i)
        return NodeAtoms(np.repeat(np.arange(n), self.n_labels), np.tile(np.arange(self.n_labels), n))

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of (N,) labels."""
        labels = checked_labels(i, y, self.n_nodes(i), self.n_labels)
        ends = labels[self.edges(i)]
        return np.concatenate([np.eye(self.n_labels)[labels].ravel(), (ends[:, 0] != ends[:, 1]).astype(float)])

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        """(N,) labels: the largest part of every node."""
        result: NDArray[np.int64] = np.argmax(np.asarray(parts)[: self.n_atoms(i)].reshape(-1, self.n_labels), axis=1)
        return result

    @property
    def constrained(self) -> bool:
        return len(self._pack.allowed) > 0

    def _allowed(self, i: int) -> NDArray[np.uint8]:
        first, last = self._pack.node_offsets[i : i + 2] * self.n_labels
        flags = self._pack.allowed[first:last]
        return flags if len(flags) else np.ones(self.n_atoms(i), np.uint8)

    def allows(self, i: int, parts: Floats) -> bool:
        return not (np.asarray(parts)[: self.n_atoms(i)][self._allowed(i) == 0] > 0).any()

    def forbidden_part(self, i: int, parts: Floats) -> str:
        used = (np.asarray(parts)[: self.n_atoms(i)] > 0) & (self._allowed(i) == 0)
        j, label = divmod(int(np.argmax(used)), self.n_labels)
        return f"label {label} of node {j} is forbidden by the constraints" if used.any() else "nothing is forbidden"

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        edge_scores = np.asarray(scores, float)[self.n_atoms(i) :]
        wrong = ~((edge_scores <= 0) & (edge_scores > -np.inf))
        if wrong.any() and self._possible(i, scores):
            e = int(np.argmax(wrong))
            j, k = self.edges(i)[e].tolist()
            where = f"edge {e} of instance {i}, between nodes {j} and {k}, scores {edge_scores[e]:g} where they differ"
            raise InputError(f"{where}; it must be ≤ 0 and finite")
        return super().argmax(i, scores)

    def explain(self, error: InputError) -> InputError:
        return named_edge(self._pack.fault, self, error)

    def _possible(self, i: int, scores: ArrayLike) -> bool:
        """Whether every node has a label with a finite score."""
        atoms = np.where(self._allowed(i) == 0, -np.inf, np.asarray(scores, float)[: self.n_atoms(i)])
        return bool((atoms.reshape(-1, self.n_labels) > -np.inf).any(axis=1).all())


register_structure("AssociativeGraph", lambda: AssociativeGraph([2], [[(0, 1)]], 3))

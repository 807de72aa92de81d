"""Cut: labels 0 and 1 for the nodes of a graph whose edges can only favour agreement; exact, by a minimum cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError
from partwise.structures import _cut_project  # noqa: F401, registers the projection
from partwise.structures._cut_kernels import CutSpace, named_edge, node_margins
from partwise.structures._graph_input import NodeAtoms, checked_labels, checked_states, edges_of, pack_graphs
from partwise.structures.base import CompiledStructure, Floats, Polytope
from partwise.structures.registry import register_structure

__all__ = ["Cut"]


class Cut(CompiledStructure):
    """y ∈ {0, 1}^N with score Σ_j s_j(y_j) + Σ_{e = jk} s_e [y_j ≠ y_k], s_e ≤ 0: Lacoste-Julien eqs. (2.4), (2.5).

    Parts: (j, 0) and (j, 1) for each node j, which are the atoms, then one per edge, which is on where its ends
    differ. An edge score above 0 (repulsion) makes the model non-submodular, and that is an error that names the
    edge; −inf forces the two ends to agree, and −inf at (j, b) forbids label b.

    Four scores per edge are submodular if s(0,0) + s(1,1) ≥ s(0,1) + s(1,0), and then equal such a model up to scores
    of the nodes: :meth:`from_tables` does the sums. Learning keeps the condition by a cone of weights: write the
    features of an edge as minus numbers ≥ 0 and learn with weights ≥ 0 (``Problem(nonnegative=…)``). If the two
    kinds of agreement should score differently, add the features of a node's edges to those of the node.

    ``project`` is onto the polytope of the linear program (2.5), {z_j0 + z_j1 = 1, |z_j1 − z_k1| ≤ z_e ≤ 1, z ≥ 0}.
    It has more corners than there are outputs, in which an edge part is on although the ends agree; for scores ≤ 0
    none of them is better than an output.

    Parameters
    ----------
    sizes : n ints
        Numbers of nodes.
    edges : n arrays of shape (E, 2)
        Nodes of each edge; no loops, no edge twice. Graphs need not be connected.
    allowed : n (N, 2) bool arrays or None, optional
        Labels that each node may have.
    parallel_edges : bool
        Whether two nodes may be joined more than once, by edges of different kinds; else that is an error.

    Notes
    -----
    Complexity: an argmax is close to linear in nodes + edges on grids and surface graphs. Memory: 4 bytes per node
    and 28 per edge, and during a cut about 45 and 16 more beside the scores.

    Examples
    --------
    Three nodes in a row; the middle one is pulled along by its neighbours:

    >>> space = Cut([3], [[(0, 1), (1, 2)]])
    >>> scores = np.array([0.0, 2.0, 0.5, 0.0, 0.0, 1.0, -1.0, -1.0])
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [1, 1, 1]
    >>> space.max_marginals(0, scores).tolist()
    [[0.5, 3.0], [1.5, 3.0], [1.5, 3.0]]
    >>> space.project(0, np.array([0.0, 1.0, 1.0, 0.0, 0.5, 0.5, 0.0, 0.5])).round(3).tolist()
    [0.25, 0.75, 0.75, 0.25, 0.5, 0.5, 0.5, 0.5]
    """

    n_labels: ClassVar[int] = 2

    def __init__(
        self,
        sizes: Sequence[int] | ArrayLike,
        edges: Sequence[Any],
        *,
        allowed: Sequence[ArrayLike | None] | None = None,
        parallel_edges: bool = False,
    ) -> None:
        graphs = pack_graphs(sizes, edges, "Cut", parallel_edges)
        flags = checked_states(allowed, np.diff(graphs.node_offsets), 2, "Cut")
        self._pack = CutSpace(*graphs, flags, np.full(2, -1))

    @property
    def pack(self) -> CutSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self._pack.node_offsets) - 1

    def n_nodes(self, i: int) -> int:
        """N of instance i."""
        return int(self._pack.node_offsets[i + 1] - self._pack.node_offsets[i])

    def edges(self, i: int) -> NDArray[np.uint32]:
        """(E, 2) nodes of every edge of instance i."""
        return edges_of(self._pack, i)

    def n_atoms(self, i: int) -> int:
        return 2 * self.n_nodes(i)

    def atoms(self, i: int) -> NodeAtoms:
        """Node and state of every atom of instance i."""
        n = self.n_nodes(i)
        return NodeAtoms(np.repeat(np.arange(n), 2), np.tile(np.arange(2), n))

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of (N,) labels 0 and 1."""
        labels = checked_labels(i, y, self.n_nodes(i), 2)
        ends = labels[self.edges(i)]
        return np.concatenate([np.eye(2)[labels].ravel(), (ends[:, 0] != ends[:, 1]).astype(float)])

    def decode(self, i: int, parts: Floats) -> NDArray[np.int64]:
        """(N,) labels; of a point inside the polytope 1 where it has more than one half."""
        return (np.asarray(parts)[1 : self.n_atoms(i) : 2] > 0.5).astype(np.int64)

    @property
    def constrained(self) -> bool:
        return len(self._pack.allowed) > 0

    def _allowed(self, i: int) -> NDArray[np.uint8]:
        flags = self._pack.allowed[2 * self._pack.node_offsets[i] : 2 * self._pack.node_offsets[i + 1]]
        return flags if len(flags) else np.ones(self.n_atoms(i), np.uint8)

    def allows(self, i: int, parts: Floats) -> bool:
        return not (np.asarray(parts)[: self.n_atoms(i)][self._allowed(i) == 0] > 0).any()

    def forbidden_part(self, i: int, parts: Floats) -> str:
        used = (np.asarray(parts)[: self.n_atoms(i)] > 0) & (self._allowed(i) == 0)
        j, label = divmod(int(np.argmax(used)), 2)
        return f"label {label} of node {j} is forbidden by the constraints" if used.any() else "nothing is forbidden"

    def from_tables(self, i: int, nodes: ArrayLike, tables: ArrayLike) -> tuple[Floats, float]:
        """(part scores, constant) of a model with scores (N, 2) of node labels and (E, 2, 2) of label pairs, eq. (2.4).

        Examples
        --------
        >>> space = Cut([2], [[(0, 1)]])
        >>> scores, constant = space.from_tables(0, np.zeros((2, 2)), [[[1.0, -2.0], [0.0, 3.0]]])
        >>> [float(scores @ space.encode(0, y) + constant) for y in ([0, 0], [0, 1], [1, 0], [1, 1])]
        [1.0, -2.0, 0.0, 3.0]
        """
        unary, pairs, ends = np.array(nodes, float), np.asarray(tables, float), self.edges(i)
        if unary.shape != (self.n_nodes(i), 2) or pairs.shape != (len(ends), 2, 2):
            expected = f"({self.n_nodes(i)}, 2) and ({len(ends)}, 2, 2)"
            raise InputError(f"tables of instance {i} have shapes {unary.shape} and {pairs.shape}; expected {expected}")
        bend = 0.5 * (pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0])
        self._refuse(i, -bend)
        # s(1,0) + bend − s(0,0) for label 1 of the first node, s(0,1) + bend − s(0,0) of the second
        np.add.at(unary[:, 1], ends[:, 0], pairs[:, 1, 0] + bend - pairs[:, 0, 0])
        np.add.at(unary[:, 1], ends[:, 1], pairs[:, 0, 1] + bend - pairs[:, 0, 0])
        return np.concatenate([unary.ravel(), -bend]), float(pairs[:, 0, 0].sum())

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        self._refuse(i, np.asarray(scores, float)[self.n_atoms(i) :])
        return super().argmax(i, scores)

    def max_marginals(self, i: int, scores: ArrayLike) -> Floats:
        """(N, 2) best score of an output with y_j = b, for every node and label; −inf where there is none.

        Exact. The min-marginals of the energy −s·z; their differences say how sure each label is, in units of score.
        """
        self._refuse(i, np.asarray(scores, float)[self.n_atoms(i) :])
        values, _, _ = self._buffers(i, scores)
        margins = np.zeros(self.n_nodes(i))
        best = node_margins(self._pack, i, values, margins)
        if best == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        result: Floats = best + np.stack([np.minimum(-margins, 0.0), np.minimum(margins, 0.0)], axis=1)
        return result

    def polytope(self, i: int) -> Polytope:
        """z_j0 + z_j1 = 1, z_j1 − z_k1 ≤ z_e, z_k1 − z_j1 ≤ z_e, z_e ≤ 1, forbidden labels 0: eq. (2.5)."""
        import scipy.sparse  # here, because predicting does not need it

        n, ends = self.n_nodes(i), self.edges(i).astype(np.int64)
        n_edges, width = len(ends), 2 * n + len(ends)
        node, edge = np.arange(n), np.arange(n_edges)
        rows, columns = np.tile(node, 2), np.concatenate([2 * node, 2 * node + 1])
        equal = scipy.sparse.csr_array((np.ones(2 * n), (rows, columns)), shape=(n, width))
        first, second = 2 * ends[:, 0] + 1, 2 * ends[:, 1] + 1
        one = np.ones(n_edges)
        rows = np.concatenate([np.tile(edge, 3), n_edges + np.tile(edge, 3), 2 * n_edges + edge])
        columns = np.concatenate([first, second, 2 * n + edge, second, first, 2 * n + edge, 2 * n + edge])
        signs = np.concatenate([one, -one, -one, one, -one, -one, one])
        below = scipy.sparse.csr_array((signs, (rows, columns)), shape=(3 * n_edges, width))
        limit = np.concatenate([np.zeros(2 * n_edges), one])
        barred = np.flatnonzero(self._allowed(i) == 0)
        if len(barred):
            fixed = scipy.sparse.csr_array(
                (np.ones(len(barred)), (np.arange(len(barred)), barred)), shape=(len(barred), width)
            )
            equal = scipy.sparse.vstack([equal, fixed], format="csr")
        return Polytope(equal, np.concatenate([np.ones(n), np.zeros(len(barred))]), below, limit)

    def explain(self, error: InputError) -> InputError:
        return named_edge(self._pack.fault, self, error)

    def _refuse(self, i: int, edge_scores: Floats) -> None:
        """Name the edge that is not submodular, before the kernel rejects it."""
        wrong = edge_scores > 0
        if wrong.any():
            e = int(np.argmax(wrong))
            j, k = self.edges(i)[e].tolist()
            raise InputError(
                f"edge {e} of instance {i}, between nodes {j} and {k}, scores {edge_scores[e]:g} where they "
                "differ; it must be ≤ 0: s(0,0) + s(1,1) ≥ s(0,1) + s(1,0), eq. (2.4)"
            )


register_structure("Cut", lambda: Cut([2], [[(0, 1)]]))

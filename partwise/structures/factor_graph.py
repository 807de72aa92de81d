"""FactorGraph: discrete variables with soft factors of any arity and hard factors; several inference engines."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, SolverError
from partwise.structures._graph_input import NodeAtoms
from partwise.structures.base import CompiledStructure, Floats, Polytope, Solution, score_of
from partwise.structures.graphs import domains
from partwise.structures.graphs.branch import branch_and_bound
from partwise.structures.graphs.contradiction import contradiction, evidence_row, nearest_output
from partwise.structures.graphs.engines import ENGINES, check_settings, make_pack
from partwise.structures.graphs.forests import Forests, spanning_forests
from partwise.structures.graphs.junction_tree import Tree, build_tree, too_wide
from partwise.structures.graphs.model import Graph
from partwise.structures.graphs.pack import pack_graphs, violated
from partwise.structures.graphs.search import run_gibbs, whole_output
from partwise.structures.registry import register_structure

__all__ = ["ENGINES", "FactorGraph"]

Ints = NDArray[np.int64]


class FactorGraph(CompiledStructure):
    """p(y) ∝ Π_C Ψ_C(y_C): soft factors exp(s_C(y_C)) and hard factors that forbid, Martins et al. §2.2, eqs. (4), (5).

    An output is the array of the states of an instance's variables. Parts: the atoms (variable, state), variable by
    variable; then the configurations of the soft factors, each table row-major. Hard factors have no parts.
    A part with score −inf is forbidden.

    Parameters
    ----------
    graphs : sequence of Graph
        One per instance, of any shapes.
    inference : str
        An engine, or ``"auto"``: the junction tree where every instance fits it, else ``"trw"``.

        ====================  =============================================  ==================================
        engine                argmax                                         marginals, log Z
        ====================  =============================================  ==================================
        ``junction_tree``     exact (also k-best and samples)                exact
        ``trw``               outer: AD³                                     outer: an upper bound
        ``ad3``               outer: value ≥ the best score, fractional      none
        ``branch_and_bound``  exact, or an error after ``time_limit``        none
        ``mean_field``        inner: no single change improves it            inner: a lower bound
        ``loopy_bp``          none: max-product; exact on trees              none: Bethe; exact on trees
        ====================  =============================================  ==================================
    max_table : int
        Largest table of a junction tree, in entries of eight bytes.
    max_iter : int, optional
        Sweeps of messages (200 unless given), iterations of AD³ (1000), of which the first 100 at most are sweeps of
        messages where all factors are tables. :meth:`convergence` says what did not converge.
    tolerance : float
        Residual at which message passing and AD³ stop.
    gap : float
        AD³ also stops when an output is within gap·(1 + |bound|) of the bound.
    damping : float
        Share of the old message in a new one.
    n_trees : int
        Minimum number of spanning forests of ``trw``, if there are cycles.
    warm_start : bool
        Start from the messages or multipliers of the last call for the same instance. Results then depend on earlier
        calls, within the tolerance.
    time_limit : float, optional
        Time limit in seconds for one search of ``branch_and_bound``; :meth:`solve` returns the best output found in
        time.
    allowed : sequence of (n_atoms,) bool arrays, optional
        States compatible with the evidence; see :meth:`given`.

    Examples
    --------
    Three binary variables in a triangle that prefer to differ, of which at most one may be on:

    >>> from partwise.structures.graphs.model import Graph, at_most_one
    >>> graph = Graph([2, 2, 2], factors=[(0, 1), (1, 2), (0, 2)], hard=[at_most_one([0, 1, 2])])
    >>> space = FactorGraph([graph])
    >>> scores = np.array([0.0, 0.5, 0.0, 1.0, 0.0, 0.4] + [0.0, 1.0, 1.0, 0.0] * 3)
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [0, 1, 0]
    >>> log_z, marginals = space.marginals(0, scores)
    >>> marginals[:6].round(3).tolist()
    [0.725, 0.275, 0.547, 0.453, 0.751, 0.249]
    >>> space.given(0, {1: 0}).decode(0, space.given(0, {1: 0}).argmax(0, scores)).tolist()
    [1, 0, 0]
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        *,
        inference: str = "auto",
        max_table: int = 2**22,
        max_iter: int | None = None,
        tolerance: float = 1e-6,
        gap: float = 1e-9,
        damping: float = 0.0,
        n_trees: int = 4,
        warm_start: bool = False,
        time_limit: float | None = None,
        allowed: Sequence[ArrayLike] | None = None,
    ) -> None:
        if isinstance(graphs, Graph):
            raise InputError("graphs is one Graph; expected a list of them, one per instance: FactorGraph([graph])")
        self.graphs = list(graphs)
        for i, graph in enumerate(self.graphs):
            if not isinstance(graph, Graph):
                raise InputError(f"instance {i} is a {type(graph).__name__}; expected a Graph")
        limit = np.inf if time_limit is None else time_limit
        numbers = {"tolerance": tolerance, "gap": gap, "damping": damping, "n_trees": n_trees, "time_limit": limit}
        check_settings(inference, max_table, max_iter, numbers)
        self.time_limit = time_limit
        self.max_table, self.n_trees, self.warm_start = int(max_table), int(n_trees), bool(warm_start)
        self.max_iter, self.tolerance, self.gap, self.damping = max_iter, float(tolerance), float(gap), float(damping)
        self.graph = pack_graphs(self.graphs, self._allowed(allowed))
        self._check_feasible()
        self.inference = self._choose(inference)
        self._pack = self._make_pack()

    def _make_pack(self) -> Any:
        return make_pack(
            self.graph, self.inference, self._tree, self._forests, max_iter=self.max_iter, tolerance=self.tolerance,
            gap=self.gap, damping=self.damping, warm_start=self.warm_start,
        )  # fmt: skip

    def _allowed(self, allowed: Sequence[ArrayLike] | None) -> NDArray[np.uint8] | None:
        if allowed is None:
            return None
        if len(allowed) != len(self.graphs):
            raise InputError(f"evidence has {len(allowed)} entries for {len(self.graphs)} instances")
        rows = [np.asarray(row, bool).astype(np.uint8) for row in allowed]
        for i, (row, graph) in enumerate(zip(rows, self.graphs, strict=True)):
            if row.shape != (graph.states.sum(),):
                raise InputError(f"evidence of instance {i} has shape {row.shape}; expected ({graph.states.sum()},)")
        return np.concatenate([np.zeros(0, np.uint8), *rows])

    def _check_feasible(self) -> None:
        """Propagate the hard factors; an error names those that contradict one another."""
        for i, graph in enumerate(self.graphs):
            if not graph.hard and not len(self.graph.allowed):
                continue
            words = contradiction(self.graph, graph, i)
            if words is not None:
                raise InputError(f"the hard factors of instance {i} contradict one another: {words}")

    def _choose(self, inference: str) -> str:
        """The engine, with what it prepares once."""
        self._tree: Tree | None = None
        self._forests: Forests | None = None
        if inference in ("auto", "junction_tree"):
            self._tree, reason = build_tree(self.graph, self.max_table)
            if self._tree is not None:
                return "junction_tree"
            if inference == "junction_tree":
                raise too_wide(reason)
            inference = "trw"
        if inference in ("loopy_bp", "trw"):
            self._forests = spanning_forests(self.graph, 1 if inference == "loopy_bp" else self.n_trees)
        return inference

    @property
    def pack(self) -> Any:
        """The arrays of the engine; branch and bound is a search in Python, so its pack is the structure."""
        return self if self.inference == "branch_and_bound" else self._pack

    def __len__(self) -> int:
        return len(self.graphs)

    def instance_sizes(self) -> tuple[Ints, Ints]:
        """As ``part_count`` and ``work_size`` have it, in closed form: nothing to compile."""
        space = self.graph
        parts = np.diff(space.atom_start[space.node_start]) + np.diff(space.config_start[space.factor_start])
        return parts, np.zeros(len(self), np.int64) if self._tree is None else self._tree.work

    def n_parts(self, i: int) -> int:
        a, b = self.graph.factor_start[i], self.graph.factor_start[i + 1]
        return self.n_atoms(i) + int(self.graph.config_start[b] - self.graph.config_start[a])

    def n_atoms(self, i: int) -> int:
        a, b = self.graph.node_start[i], self.graph.node_start[i + 1]
        return int(self.graph.atom_start[b] - self.graph.atom_start[a])

    def atoms(self, i: int) -> NodeAtoms:
        """The atoms of instance i in order."""
        states = self.graphs[i].states
        node = np.repeat(np.arange(len(states)), states)
        return NodeAtoms(node, np.arange(len(node)) - np.repeat(np.cumsum(states) - states, states))

    def guarantee(self, oracle: str) -> str:
        """How good an oracle's answer is: ``exact``, ``outer``, ``inner`` or ``none``."""
        return ENGINES[self.inference].guarantees.get(oracle, "exact")

    def certifies(self, oracle: str) -> str:
        """AD³'s parts are a point of the local polytope, its bound holds: a certificate of the relaxation.

        Not so with hard factors, which hold within the tolerance only, nor for messages that have not converged.
        """
        claimed = self.guarantee(oracle)
        return "none" if claimed == "outer" and (oracle != "argmax" or self.constrained) else claimed

    def given(self, i: int, evidence: Mapping[int, Any]) -> FactorGraph:
        """The same instances, given states of variables of instance i: {variable: state or allowed states}."""
        return self.restrict([evidence if j == i else {} for j in range(len(self))])

    def restrict(self, evidence: Sequence[Mapping[int, Any]]) -> FactorGraph:
        """The same parts, fewer outputs: the gold of a :class:`~partwise.problem.Problem` with unknown variables.

        ``evidence`` has a dict {variable: state or states} for every instance.
        """
        return self._with([evidence_row(self.graph, i, known) for i, known in enumerate(evidence)])

    def _with(self, rows: Sequence[NDArray[np.bool_]]) -> FactorGraph:
        """This structure with other evidence; what was prepared for its engine is kept."""
        flat = np.concatenate([np.zeros(0, bool), *rows]).astype(np.uint8)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.graph = self.graph._replace(allowed=flat, settled=self.graph.settled.copy())
        other._check_feasible()
        other._pack = other._make_pack()
        return other

    # ----------------------------------------------------------------------------------------------
    # Outputs and parts

    def _checked(self, i: int, y: ArrayLike) -> Ints:
        labels, states = np.asarray(y), self.graphs[i].states
        if labels.shape != states.shape:
            raise InputError(f"instance {i} has {len(states)} variables but {labels.size} states")
        if labels.dtype.kind not in "iu":
            raise InputError(f"states of instance {i} must be integers")
        wrong = np.flatnonzero((labels < 0) | (labels >= states))
        if len(wrong):
            v = int(wrong[0])
            raise InputError(f"variable {v} of instance {i} has state {labels[v]}; expected 0..{states[v] - 1}")
        return labels.astype(np.int64)

    def _numbers(self, i: int, y: ArrayLike) -> Ints:
        """The parts that are on: one per variable, one per soft factor."""
        labels, graph, space = self._checked(i, y), self.graphs[i], self.graph
        atoms = np.cumsum(graph.states) - graph.states + labels
        f = space.factor_start[i]
        at = space.slot_start[f]
        offsets = labels[graph.scope] * space.slot_stride[at : at + len(graph.scope)]
        sums = np.add.reduceat(offsets, graph.scope_start[:-1]) if graph.n_factors else np.zeros(0, np.int64)
        starts = space.config_start[f : f + graph.n_factors] - space.config_start[f]
        return np.concatenate([atoms, self.n_atoms(i) + starts + sums])

    def encode(self, i: int, y: ArrayLike) -> Floats:
        """χ(y) of the states y of the variables."""
        parts = np.zeros(self.n_parts(i))
        parts[self._numbers(i, y)] = 1.0
        return parts

    def encode_all(self, outputs: Sequence[Any]) -> tuple[Ints, NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        numbers = [self._numbers(i, y).astype(np.int32) for i, y in enumerate(outputs)]
        offsets = np.append(0, np.cumsum([len(found) for found in numbers])).astype(np.int64)
        flat = np.concatenate([np.zeros(0, np.int32), *numbers])
        return offsets, flat, np.ones(len(flat))

    def decode(self, i: int, parts: Floats) -> Ints:
        """The state of largest weight of every variable; where hard factors forbid those, states near to them.

        Fractional parts of a relaxation may round to no output: then variables are settled one by one, the surest
        first, and what follows from them by the hard factors is settled with them.
        """
        y = self._largest(i, parts)
        if self.guarantee("argmax") != "outer" or not self.constrained or self._fault(i, y) is None:
            return y
        weights = np.ascontiguousarray(parts[: self.n_atoms(i)], float)
        zeros = np.zeros(self.n_parts(i))
        open_atoms, reason = np.ones(len(weights), np.uint8), np.full(len(weights), -1, np.int64)
        domains.open_states(self.graph, i, zeros, open_atoms)
        domains.propagate(self.graph, i, zeros, open_atoms, reason)
        return nearest_output(self.graph, i, weights, open_atoms, self.time_limit)

    def _largest(self, i: int, parts: Floats) -> Ints:
        states = self.graphs[i].states
        atoms = np.asarray(parts, float)[: self.n_atoms(i)]
        if (states == states[0]).all():
            result: Ints = np.argmax(atoms.reshape(len(states), -1), axis=1)
            return result
        starts = np.cumsum(states) - states
        top = np.repeat(np.maximum.reduceat(atoms, starts), states)
        hit = np.flatnonzero(atoms == top)
        first = np.searchsorted(hit, starts)
        return hit[first] - starts

    @property
    def constrained(self) -> bool:
        return len(self.graph.allowed) > 0 or any(graph.hard for graph in self.graphs)

    def allows(self, i: int, parts: Floats) -> bool:
        return self._fault(i, self._largest(i, parts)) is None

    def forbidden_part(self, i: int, parts: Floats) -> str:
        return self._fault(i, self._largest(i, parts)) or "nothing is forbidden"

    def _fault(self, i: int, y: Ints) -> str | None:
        if len(self.graph.allowed):
            first = self.graph.atom_start[self.graph.node_start[i]]
            starts = np.cumsum(self.graphs[i].states) - self.graphs[i].states
            closed = np.flatnonzero(self.graph.allowed[first + starts + y] == 0)
            if len(closed):
                return f"state {y[closed[0]]} of variable {closed[0]} is forbidden by the constraints (evidence)"
        f = int(violated(self.graph, i, y))
        if f < 0:
            return None
        factor = self.graphs[i].hard[f - self.graph.factor_start[i] - self.graphs[i].n_factors]
        return f"the states are forbidden by the constraints: {factor}"

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        """The parts of the best output, or what the engine has for it; see the table of engines."""
        if self.inference != "branch_and_bound":
            return super().argmax(i, scores)
        found = self.solve(i, scores)
        if found.status != "optimal":
            raise SolverError(
                f"the search for the best output of instance {i} reached its time limit of {self.time_limit:g} s; the "
                f"output found has score {found.value:g}, the best may have {found.bound:g}; solve() returns it"
            )
        return found.parts

    def solve(self, i: int, scores: ArrayLike) -> Solution:
        """An output with a high score and a bound on all others; with ``branch_and_bound``, the best output."""
        values = self._checked_scores(i, scores)
        if self.inference == "branch_and_bound":
            found = branch_and_bound(self.graph, i, values, self._pack.settings, self.time_limit)
            if found.states is None:
                if found.bound == -np.inf:
                    raise InputError(f"no output of instance {i} has a finite score")
                raise SolverError(f"no output of instance {i} was found within {self.time_limit:g} s")
            status = "optimal" if found.bound <= found.value else "time limit"
            return Solution(self.encode(i, found.states), found.value, found.bound, status)
        if self.guarantee("argmax") != "outer":
            return super().solve(i, values)
        ceiling, parts = self.bound(i, values), super().argmax(i, values)
        output = self.encode(i, self.decode(i, parts))
        attained = score_of(values, output)
        return Solution(output, attained, ceiling, "optimal" if np.array_equal(output, parts) else "rounded")

    def _checked_scores(self, i: int, scores: ArrayLike) -> Floats:
        values = np.ascontiguousarray(scores, float)
        if values.shape != (self.n_parts(i),):
            raise InputError(f"scores of instance {i} have shape {values.shape}; expected ({self.n_parts(i)},)")
        if np.isnan(values).any() or np.isposinf(values).any():
            raise InputError(f"scores of instance {i} hold NaN or +inf at part {int(np.argmax(~(values < np.inf)))}")
        return values

    def gibbs_chain(
        self, i: int, scores: ArrayLike, size: int, rng: np.random.Generator, *, burn_in: int = 100, thin: int = 1
    ) -> Floats:
        """``size`` samples of a Gibbs chain that changes one variable at a time, for checking other engines.

        It needs only finite scores, but hard factors may prevent it from reaching every output.
        """
        values = self._checked_scores(i, scores)
        open_atoms, reason = np.ones(self.n_atoms(i), np.uint8), np.full(self.n_atoms(i), -1, np.int64)
        y = np.zeros(len(self.graphs[i].states), np.int64)
        tight = domains.open_states(self.graph, i, values, open_atoms)
        blocked = tight and domains.propagate(self.graph, i, values, open_atoms, reason) >= 0
        if blocked or not whole_output(self.graph, i, values, open_atoms, y):
            raise InputError(f"no initial output of instance {i} was found")
        draws = np.zeros((size, self.n_parts(i)))
        run_gibbs(self.graph, i, values, y, rng.integers(2**64, dtype=np.uint64), burn_in, thin, draws)
        return draws

    def convergence(self, oracle: str) -> Floats:
        """Statistics of the last oracle call for each instance, (n, 4): iterations, residual, status, value.

        Status 0: not converged; 1: converged; 2: the output is certified as the best. Exact engines need no iterations.
        """
        pack = self._pack
        if self.inference in ("junction_tree", "branch_and_bound"):
            return np.tile([0.0, 0.0, 2.0, np.nan], (len(self), 1))
        if self.inference == "trw":
            pack = pack.search if oracle == "argmax" else pack.sums
        return np.array(pack.log[:, :4])

    def unconverged(self, oracle: str) -> int | None:
        if self.inference in ("junction_tree", "branch_and_bound"):
            return None
        return int((self.convergence(oracle)[:, 2] == 0).sum())

    def relaxation(self, i: int) -> Polytope:
        """The local polytope, over which AD³ optimises: every factor's own hull, agreeing on states of variables."""
        from partwise.structures.graphs.polytope import local_polytope  # it needs scipy, which predicting does not

        return local_polytope(self.graph, i)


def _example(inference: str) -> FactorGraph:
    return FactorGraph([Graph([2, 2, 2], [(0, 1), (1, 2), (0, 2)])], inference=inference)


for _name in ENGINES:
    register_structure(f"FactorGraph({_name})", functools.partial(_example, _name))

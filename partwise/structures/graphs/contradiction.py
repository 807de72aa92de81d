"""Evidence, and hard factors that cannot all hold with it, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, SolverError
from partwise.structures.graphs.ad3 import Ad3Settings
from partwise.structures.graphs.branch import branch_and_bound
from partwise.structures.graphs.domains import open_states, propagate
from partwise.structures.graphs.model import Graph, Hard
from partwise.structures.graphs.pack import GraphSpace, atom_count, graph_parts, pack_graphs
from partwise.structures.graphs.search import dive

__all__ = ["contradiction", "evidence_row", "nearest_output"]

SMALL = 20_000  # atoms × hard factors up to which a search looks for contradictions that propagation does not see
PATIENCE = 10.0  # seconds for the search of an output near a relaxed one, where no other limit is given
SEARCH = Ad3Settings(1000, 1e-6, 1e-9, 5, 100)


def evidence_row(space: GraphSpace, i: int, known: Mapping[int, Any]) -> NDArray[np.bool_]:
    """The atoms of instance i that are left once {variable: state, or those it may have} is known."""
    nodes = slice(int(space.node_start[i]), int(space.node_start[i + 1]) + 1)
    start = space.atom_start[nodes] - space.atom_start[nodes.start]
    row = np.ones(start[-1], bool)
    if len(space.allowed):
        first = space.atom_start[nodes.start]
        row = space.allowed[first : first + start[-1]] != 0
    for v, states in known.items():
        if not 0 <= v < len(start) - 1:
            raise InputError(f"evidence on variable {v} of instance {i}, which has only {len(start) - 1} variables")
        keep = np.zeros(start[v + 1] - start[v], bool)
        wanted = np.atleast_1d(np.asarray(states))
        if wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() >= len(keep):
            raise InputError(f"evidence on variable {v} of instance {i}: {states} is not one of its {len(keep)} states")
        keep[wanted] = True
        row[start[v] : start[v + 1]] &= keep
    return row


def contradiction(space: GraphSpace, graph: Graph, i: int) -> str | None:
    """The hard factors and the evidence that are at odds; None if none are found.

    From the variable that lost its last state by propagation back: the factors by which it lost them, the variables of
    those factors that had lost some, and so on. Propagation does not see every contradiction. On small graphs a search
    finds the others; on large ones an engine meets them as "no output".
    """
    scores = np.zeros(int(graph_parts(space, i)))
    n_atoms = int(atom_count(space, i))
    open_atoms, reason = np.ones(n_atoms, np.uint8), np.full(n_atoms, -1, np.int64)
    open_states(space, i, scores, open_atoms)
    fault = int(propagate(space, i, scores, open_atoms, reason))
    if fault < 0:
        space.settled[i] = open_atoms.all()
        if n_atoms * len(graph.hard) > SMALL or dive(space, i, scores, np.zeros(n_atoms), open_atoms, _states(graph)):
            return None
        return _least_contradiction(space, graph, i)
    first, last, base = int(space.factor_start[i]), int(space.factor_start[i + 1]), int(space.node_start[i])

    def scope(f: int) -> list[int]:
        return [int(v) for v in space.slot_node[space.slot_start[f] : space.slot_start[f + 1]]]

    waiting = [fault - last] if fault >= last else scope(fault)
    factors = set() if fault >= last else {fault}
    nodes, evident = set(waiting), set()
    while waiting:
        v = waiting.pop()
        for atom in range(
            space.atom_start[v] - space.atom_start[base], space.atom_start[v + 1] - space.atom_start[base]
        ):
            f = int(reason[atom])
            if open_atoms[atom] == 0 and f < 0:
                evident.add(v - base)
            elif open_atoms[atom] == 0 and f not in factors:
                factors.add(f)
                waiting += [u for u in scope(f) if u not in nodes]
                nodes |= set(scope(f))
    hard = [f - first - graph.n_factors for f in sorted(factors)]
    words = [str(graph.hard[h]) for h in hard if 0 <= h < len(graph.hard)]
    return "; ".join(words + ([f"evidence on variables {sorted(evident)}"] if evident else []))


def _states(graph: Graph) -> NDArray[np.int64]:
    return np.zeros(len(graph.states), np.int64)


def _least_contradiction(space: GraphSpace, graph: Graph, i: int) -> str | None:
    """Hard factors of which none can be left out, after a search over all outputs; None where there is an output."""
    first = int(space.atom_start[space.node_start[i]])
    left = space.allowed[first : first + int(atom_count(space, i))] if len(space.allowed) else None

    def possible(factors: list[Hard], known: NDArray[np.uint8] | None) -> bool:
        alone = pack_graphs([Graph(graph.states, (), factors)], known)
        scores = np.zeros(int(graph_parts(alone, 0)))
        open_atoms, reason = np.ones(len(scores), np.uint8), np.full(len(scores), -1, np.int64)
        open_states(alone, 0, scores, open_atoms)
        if propagate(alone, 0, scores, open_atoms, reason) >= 0:
            return False
        if dive(alone, 0, scores, scores, open_atoms, _states(graph)):
            return True
        found = branch_and_bound(alone, 0, scores, SEARCH, PATIENCE)
        return found.states is not None or found.bound > -np.inf

    kept = list(graph.hard)
    if possible(kept, left):
        return None
    for factor in graph.hard:
        fewer = [other for other in kept if other is not factor]
        if not possible(fewer, left):
            kept = fewer
    words = [str(factor) for factor in kept]
    return "; ".join(words + (["the evidence"] if left is not None and possible(kept, None) else []))


def nearest_output(
    space: GraphSpace, i: int, weights: NDArray[np.float64], open_atoms: NDArray[np.uint8], time_limit: float | None
) -> NDArray[np.int64]:
    """States that satisfy the hard factors, of large weight: by diving, and where that fails by branch and bound."""
    scores = np.zeros(int(graph_parts(space, i)))
    found = np.zeros(int(space.node_start[i + 1] - space.node_start[i]), np.int64)
    if dive(space, i, scores, weights, open_atoms, found):
        return found
    limit = PATIENCE if time_limit is None else time_limit
    scores[: len(weights)] = weights
    search = branch_and_bound(space, i, scores, SEARCH, limit)
    if search.states is not None:
        return search.states
    if search.bound == -np.inf:
        raise InputError(f"no output of instance {i} satisfies all its hard factors and the evidence")
    raise SolverError(f"no output of instance {i} that satisfies its hard factors was found within {limit:g} s")

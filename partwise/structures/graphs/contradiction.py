"""Evidence, and hard factors that cannot all hold with it, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures.graphs.domains import open_states, propagate
from partwise.structures.graphs.model import Graph
from partwise.structures.graphs.pack import GraphSpace, atom_count, graph_parts

__all__ = ["contradiction", "evidence_row"]


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
            raise InputError(f"evidence on variable {v} of instance {i}, which has {len(start) - 1} variables")
        keep = np.zeros(start[v + 1] - start[v], bool)
        wanted = np.atleast_1d(np.asarray(states))
        if wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() >= len(keep):
            raise InputError(f"evidence on variable {v} of instance {i}: {states} is no state of {len(keep)}")
        keep[wanted] = True
        row[start[v] : start[v + 1]] &= keep
    return row


def contradiction(space: GraphSpace, graph: Graph, i: int) -> str | None:
    """The hard factors and the evidence that propagation finds at odds; None if it finds none.

    From the variable that lost its last state back: the factors by which it lost them, the variables of those factors
    that had lost some, and so on. Propagation does not see every contradiction; an engine meets the others as "no
    output".
    """
    scores = np.zeros(int(graph_parts(space, i)))
    n_atoms = int(atom_count(space, i))
    open_atoms, reason = np.ones(n_atoms, np.uint8), np.full(n_atoms, -1, np.int64)
    open_states(space, i, scores, open_atoms)
    fault = int(propagate(space, i, scores, open_atoms, reason))
    if fault < 0:
        space.settled[i] = open_atoms.all()
        return None
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

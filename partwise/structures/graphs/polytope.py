"""The local polytope of a factor graph as linear constraints, for solvers of linear and quadratic programs."""

from __future__ import annotations

import numpy as np

from partwise.structures.base import Polytope
from partwise.structures.graphs import logic
from partwise.structures.graphs.pack import GraphSpace, config_offset, graph_parts

__all__ = ["local_polytope"]


def local_polytope(space: GraphSpace, i: int) -> Polytope:
    """States of a variable sum to 1; sums of a table agree with its variables; each logical factor has its hull.

    Hard tables bring variables of their own, their configurations, which ``lift`` leaves out of the parts.
    """
    import scipy.sparse

    n_parts, shift = int(graph_parts(space, i)), int(config_offset(space, i))
    first, atom_base = int(space.node_start[i]), int(space.atom_start[space.node_start[i]])
    rows: dict[str, list[tuple[list[int], list[float], float]]] = {"equal": [], "below": []}
    width = n_parts
    for v in range(first, int(space.node_start[i + 1])):
        atoms = list(range(int(space.atom_start[v]) - atom_base, int(space.atom_start[v + 1]) - atom_base))
        rows["equal"].append((atoms, [1.0] * len(atoms), 1.0))
        if len(space.allowed):
            closed = [r for r in atoms if space.allowed[r + atom_base] == 0]
            rows["equal"] += [([r], [1.0], 0.0) for r in closed]

    def term(s: int) -> tuple[int, float, float]:
        """(part, sign, constant) of a literal."""
        v = int(space.slot_node[s])
        states = int(space.atom_start[v + 1] - space.atom_start[v])
        part = int(space.atom_start[v]) - atom_base + (1 if states == 2 else int(space.slot_state[s]))
        return (part, -1.0, 1.0) if space.slot_negated[s] else (part, 1.0, 0.0)

    def add(kind: str, terms: list[tuple[int, float, float]], signs: list[float], limit: float) -> None:
        parts = [part for part, _, _ in terms]
        values = [sign * outer for (_, sign, _), outer in zip(terms, signs, strict=True)]
        limit -= sum(constant * outer for (_, _, constant), outer in zip(terms, signs, strict=True))
        rows[kind].append((parts, values, limit))

    for f in range(int(space.factor_start[i]), int(space.factor_start[i + 1])):
        kind = int(space.kind[f])
        slots = list(range(int(space.slot_start[f]), int(space.slot_start[f + 1])))
        if kind in (logic.TABLE, logic.HARD_TABLE):
            hard = kind == logic.HARD_TABLE
            size = int(space.mask_start[f + 1] - space.mask_start[f]) if hard else int(np.diff(space.config_start)[f])
            start = width if hard else int(space.config_start[f]) + shift
            columns = np.arange(size)
            if hard:
                width += size
                barred = np.flatnonzero(space.mask[space.mask_start[f] : space.mask_start[f + 1]] == 0)
                rows["equal"] += [([start + int(c)], [1.0], 0.0) for c in barred]
            for s in slots:
                v = int(space.slot_node[s])
                states = int(space.atom_start[v + 1] - space.atom_start[v])
                digit = (columns // space.slot_stride[s]) % states
                for x in range(states):
                    members = (start + np.flatnonzero(digit == x)).tolist()
                    atom = int(space.atom_start[v]) - atom_base + x
                    rows["equal"].append(([*members, atom], [1.0] * len(members) + [-1.0], 0.0))
            continue
        terms, n = [term(s) for s in slots], len(slots)
        if kind == logic.XOR:
            add("equal", terms, [1.0] * n, 1.0)
        elif kind in (logic.AT_MOST_ONE, logic.BUDGET):
            add("below", terms, [1.0] * n, 1.0 if kind == logic.AT_MOST_ONE else float(space.budget[f]))
        elif kind == logic.OR:
            add("below", terms, [-1.0] * n, -1.0)
        elif kind == logic.OR_OUTPUT:
            for j in range(n - 1):
                add("below", [terms[j], terms[-1]], [1.0, -1.0], 0.0)
            add("below", terms, [-1.0] * (n - 1) + [1.0], 0.0)
        elif kind == logic.EQUAL:
            for j in range(1, n):
                add("equal", [terms[0], terms[j]], [1.0, -1.0], 0.0)

    def matrix(kind: str) -> tuple[scipy.sparse.csr_array, np.ndarray]:
        found = rows[kind]
        row = np.repeat(np.arange(len(found)), [len(parts) for parts, _, _ in found])
        column = np.array([p for parts, _, _ in found for p in parts], np.int64)
        value = np.array([v for _, values, _ in found for v in values], float)
        limits = np.array([limit for _, _, limit in found], float)
        return scipy.sparse.csr_array((value, (row, column)), shape=(len(found), width)), limits

    lift = None
    if width > n_parts:
        lift = scipy.sparse.csr_array(scipy.sparse.eye_array(n_parts, width))
    return Polytope(*matrix("equal"), *matrix("below"), lift)

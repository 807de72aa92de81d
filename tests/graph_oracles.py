"""Random small factor graphs, and their outputs by plain enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.structures.graphs import model
from partwise.structures.graphs.model import Graph, Hard, Literal
from partwise.testing import Enumeration, part_table

Floats = NDArray[np.float64]

#: The condition of every hard factor, on the truth values of its literals.
CONDITIONS = {
    "exactly_one": lambda y, limit: sum(y) == 1,
    "at_most_one": lambda y, limit: sum(y) <= 1,
    "some": lambda y, limit: any(y),
    "implies": lambda y, limit: any(y),
    "or_output": lambda y, limit: y[-1] == any(y[:-1]),
    "budget": lambda y, limit: sum(y) <= limit,
    "all_equal": lambda y, limit: all(y) or not any(y),
}


def holds(factor: Hard, states: tuple[int, ...]) -> bool:
    if factor.allowed is not None:
        return bool(factor.allowed[tuple(states[a.variable] for a in factor.literals)])
    truth = [(states[a.variable] == a.state) != a.negated for a in factor.literals]
    return bool(CONDITIONS[factor.name](truth, factor.budget))


def enumerate_graph(graph: Graph, allowed: NDArray[np.bool_] | None = None) -> Enumeration:
    """All outputs by filtering the product of the states."""
    scopes = [graph.scope[a:b].tolist() for a, b in zip(graph.scope_start[:-1], graph.scope_start[1:], strict=True)]
    sizes = graph.states.tolist()
    names: list[Any] = [(v, s) for v, size in enumerate(sizes) for s in range(size)]
    open_atoms = {name for j, name in enumerate(names) if allowed is None or allowed[j]}
    for f, scope in enumerate(scopes):
        names += [(f, "factor", *run) for run in product(*(range(sizes[v]) for v in scope))]
    every = list(product(*map(range, sizes)))
    good = [
        y for y in every if all(holds(h, y) for h in graph.hard) and all((v, s) in open_atoms for v, s in enumerate(y))
    ]

    def used(y: tuple[int, ...]) -> list[Any]:
        return [*enumerate(y), *((f, "factor", *(y[v] for v in scope)) for f, scope in enumerate(scopes))]

    return Enumeration(
        [list(y) for y in good], part_table(good, names, used), [list(y) for y in set(every) - set(good)]
    )


def random_literals(rng: np.random.Generator, sizes: list[int], count: int) -> list[Literal]:
    able = [v for v, size in enumerate(sizes) if size > 1]
    chosen = rng.permutation(able)[:count]
    return [Literal(int(v), int(rng.integers(sizes[v])), bool(rng.random() < 0.3)) for v in chosen]


def random_hard(rng: np.random.Generator, sizes: list[int]) -> Hard | None:
    name = str(rng.choice([*CONDITIONS, "allowed_table"]))
    if name == "allowed_table":
        scope = [int(v) for v in rng.permutation(len(sizes))[: rng.integers(1, 4)]]
        table = rng.random([sizes[v] for v in scope]) < 0.7
        return model.allowed_table(scope, table) if table.any() else None
    literals = random_literals(rng, sizes, int(rng.integers(2, 6)))
    if len(literals) < 2:
        return None
    if name == "implies":
        return model.implies(literals[:-1], literals[-1])
    if name == "or_output":
        return model.or_output(literals[:-1], literals[-1])
    if name == "budget":
        return model.budget(literals, int(rng.integers(0, len(literals) + 1)))
    return getattr(model, name)(literals)


def random_graph(
    rng: np.random.Generator, n_hard: int = 0, *, tree: bool = False, binary: bool = False, n: int | None = None,
    arity: int = 3, density: float = 1.2,
) -> Graph:  # fmt: skip
    """A graph with some output: hard factors that would leave none are left out."""
    n = int(rng.integers(1, 6)) if n is None else n
    sizes = [2] * n if binary else [int(s) for s in rng.choice([1, 2, 2, 3], size=n)]
    if tree:
        scopes = [(int(rng.integers(v)), v) for v in range(1, n) if rng.random() < 0.9]
    else:
        count = int(rng.integers(0, int(density * n) + 2))
        scopes = [tuple(int(v) for v in rng.permutation(n)[: rng.integers(1, min(arity, n) + 1)]) for _ in range(count)]
    hard: list[Hard] = []
    for _ in range(n_hard):
        more = random_hard(rng, sizes)
        if more is not None and enumerate_graph(Graph(sizes, scopes, [*hard, more])).outputs:
            hard.append(more)
    return Graph(sizes, scopes, hard)

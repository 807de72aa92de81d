"""Branch and bound on AD³: the best output itself, or the best found in a time limit with a bound of the rest."""

from __future__ import annotations

import heapq
import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures.graphs.ad3 import Ad3Settings
from partwise.structures.graphs.domains import open_states, propagate
from partwise.structures.graphs.pack import GraphSpace, violated, write_output
from partwise.structures.graphs.relaxed import LOGGED, RelaxedSpace
from partwise.structures.graphs.search import dive
from partwise.structures.oracles import argmax

__all__ = ["Found", "branch_and_bound"]

Floats = NDArray[np.float64]


class Found(NamedTuple):
    """The states of the best output found, its score, a bound of every output's score, and the nodes of the search."""

    states: NDArray[np.int64] | None
    value: float
    bound: float
    nodes: int


@kernel
def domains_of(graph, i, scores, closed):
    """closed ← 1 for atoms that scores, evidence and hard factors leave no chance; False: no output is left."""
    open_atoms, reason = np.empty(closed.shape[0], np.uint8), np.empty(closed.shape[0], np.int64)
    masked = scores.copy()
    for r in range(closed.shape[0]):
        if closed[r] != 0:
            masked[r] = -np.inf
    tight = open_states(graph, i, masked, open_atoms)
    if tight and propagate(graph, i, masked, open_atoms, reason) >= 0:
        return False
    for r in range(closed.shape[0]):
        closed[r] = 1 - open_atoms[r]
    return True


def _round(graph: GraphSpace, i: int, masked: Floats, parts: Floats, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """States of largest weight; where hard factors forbid them, those that a dive by the weights finds."""
    y = np.array([int(np.argmax(parts[a:b])) for a, b in pairwise(starts)])
    if violated(graph, i, y) < 0:
        return y
    open_atoms, found = (masked[: starts[-1]] > -np.inf).astype(np.uint8), np.zeros_like(y)
    return found if dive(graph, i, masked, parts[: starts[-1]].copy(), open_atoms, found) else y


def branch_and_bound(
    graph: GraphSpace, i: int, scores: Floats, settings: Ad3Settings, time_limit: float | None
) -> Found:
    """Best bound first. A node closes atoms; it splits at the state whose weight is nearest one half.

    Every node starts from the multipliers of its parent.
    """
    first, last = int(graph.node_start[i]), int(graph.node_start[i + 1])
    starts = graph.atom_start[first : last + 1] - graph.atom_start[first]
    a, b = int(graph.factor_start[i]), int(graph.factor_start[i + 1])
    edges = slice(int(graph.edge_start[graph.slot_start[a]]), int(graph.edge_start[graph.slot_start[b]]))
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    memory = np.zeros(len(graph.edge_bit))
    space = RelaxedSpace(graph, settings, memory, np.zeros((len(graph.node_start) - 1, LOGGED)))
    parts, work, spare = np.empty(len(scores)), np.empty(0), np.empty(len(scores))
    best: NDArray[np.int64] | None = None
    value, nodes = -np.inf, 0
    queue: list[tuple[float, int, NDArray[np.uint8], Floats]] = []

    def visit(closed: NDArray[np.uint8], multipliers: Floats) -> None:
        nonlocal best, value, nodes
        nodes += 1
        if not domains_of(graph, i, scores, closed):
            return
        memory[edges] = multipliers
        masked = scores.copy()
        masked[: starts[-1]][closed != 0] = -np.inf
        if argmax(space, i, masked, work, parts) == -np.inf:
            return
        level = space.log[i, 3]
        y = _round(graph, i, masked, parts, starts)
        attained = write_output(graph, i, y, masked, spare) if violated(graph, i, y) < 0 else -np.inf
        if attained > value:
            value, best = float(attained), y
        if level > value + slack():
            heapq.heappush(queue, (-float(level), nodes, closed, np.concatenate([parts[: starts[-1]], memory[edges]])))

    def slack() -> float:
        return settings.gap * (1.0 + abs(value)) if np.isfinite(value) else 0.0

    visit(np.zeros(int(starts[-1]), np.uint8), np.zeros(edges.stop - edges.start))
    while queue and -queue[0][0] > value + slack():
        if time.monotonic() > deadline:
            return Found(best, value, -queue[0][0], nodes)
        _, _, closed, kept = heapq.heappop(queue)
        weights, multipliers = kept[: starts[-1]], kept[starts[-1] :]
        free = np.repeat(np.add.reduceat((closed == 0).astype(np.int64), starts[:-1]) > 1, np.diff(starts)) & (
            closed == 0
        )
        if not free.any():  # one output: its score is exact, whatever the bound
            states = np.array([np.flatnonzero(closed[s:t] == 0)[0] for s, t in pairwise(starts)])
            if violated(graph, i, states) < 0:
                attained = float(write_output(graph, i, states, scores, spare))
                if attained > value:
                    value, best = attained, states
            continue
        pick = int(np.argmin(np.where(free, np.abs(weights - 0.5), np.inf)))
        v = int(np.searchsorted(starts, pick, side="right")) - 1
        with_it, without = closed.copy(), closed.copy()
        with_it[starts[v] : starts[v + 1]] = 1
        with_it[pick] = 0
        without[pick] = 1
        for child in (with_it, without):
            visit(child, multipliers)
    return Found(best, value, value, nodes)

"""Minimum cuts against PyMaxflow (Boykov and Kolmogorov's own code, GPL: for this race only), in one process.

    python benchmarks/cut_race.py

Both sides start from the same arrays of edges and capacities and end with a label for every node. ``cut`` is the time
of a cut on a graph that is there: PyMaxflow consumes its graph, so its graph is filled anew and only ``maxflow``
counts; ours sets the capacities and cuts. ``all`` counts building the graph from its list of edges as well. CPU
seconds, the best of several runs taken in turns.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import maxflow
import numpy as np
from _timing import Row, machine, print_table

from partwise import Cut
from partwise.graphs import grid_edges, neighbor_edges


def problems(seed: int) -> dict[str, tuple[int, Any, Any, Any]]:
    """Name → (nodes, edges, capacity from the source less that to the sink, capacity of edges)."""
    rng = np.random.default_rng(seed)
    side = 512
    n, edges = side * side, grid_edges(side, side)
    y, x = np.mgrid[:side, :side]
    disc = np.where((y - side / 2) ** 2 + (x - side / 2) ** 2 < (0.3 * side) ** 2, 1.0, -1.0).ravel()
    points = rng.random((37_000, 2))
    surface = np.c_[points, 0.1 * np.sin(8 * points[:, 0])]
    near = neighbor_edges(surface, 4)
    near = near[np.sort(rng.permutation(len(near))[:88_000])]
    figure = np.where(((points - 0.5) ** 2).sum(axis=1) < 0.09, 1.0, -1.0)
    return {
        "512 × 512, disc with noise": (n, edges, disc + rng.normal(0, 1, n), np.full(len(edges), 1.0)),
        "512 × 512, random capacities": (n, edges, rng.normal(0, 1, n), rng.random(len(edges))),
        "512 × 512, strong random edges": (n, edges, rng.normal(0, 1, n), 2 * rng.random(len(edges))),
        f"points, {len(near)} edges, disc": (37_000, near, figure + rng.normal(0, 1, 37_000), np.full(len(near), 0.7)),
        f"points, {len(near)} edges, random": (37_000, near, rng.normal(0, 1, 37_000), rng.random(len(near))),
    }


def theirs(n: int, edges: Any, source: Any, room: Any) -> tuple[float, float, float]:
    """(seconds to build, seconds to cut and read the labels, value of the flow)."""
    begin = time.process_time()
    graph = maxflow.GraphFloat(n, len(edges))
    graph.add_nodes(n)
    graph.add_edges(edges[:, 0], edges[:, 1], room, room)
    nodes = np.arange(n)
    graph.add_grid_tedges(nodes, np.maximum(source, 0), np.maximum(-source, 0))
    built = time.process_time()
    flow = graph.maxflow()
    graph.get_grid_segments(nodes)
    return built - begin, time.process_time() - built, float(flow)


def ours(n: int, edges: Any, source: Any, room: Any) -> tuple[float, float, float]:
    begin = time.process_time()
    space = Cut([n], [edges])
    scores = np.zeros(2 * n + len(edges))
    scores[1 : 2 * n : 2] = source
    scores[2 * n :] = -room
    built = time.process_time()
    parts = space.argmax(0, scores)
    labels = space.decode(0, parts)
    seconds = time.process_time() - built
    assert len(labels) == n
    return built - begin, seconds, float(np.maximum(source, 0).sum() - scores @ parts)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    print(machine())
    rows = []
    for name, problem in problems(0).items():
        ours(*problem)  # compiles
        runs = [(theirs(*problem), ours(*problem)) for _ in range(repeats)]
        assert abs(runs[0][0][2] - runs[0][1][2]) <= 1e-6 * abs(runs[0][0][2]), "the two flows differ"
        cut = [min(run[side][1] for run in runs) for side in (0, 1)]
        whole = [min(run[side][0] + run[side][1] for run in runs) for side in (0, 1)]
        rows.append(Row(f"{name}: cut, s", *cut, cut[0] / cut[1], "≥ 1", "{:.4f}"))
        rows.append(Row("  all, s", *whole, whole[0] / whole[1], "≥ 1", "{:.4f}"))
    print_table("Minimum cuts, CPU seconds", rows, peer="PyMaxflow")


if __name__ == "__main__":
    main()

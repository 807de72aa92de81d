"""A million nodes: seconds and memory of a cut, of loopy belief propagation and of mean field on one 1000 × 1000 grid.

    python benchmarks/graph_scale.py

Every engine runs in a process of its own, so that the peak of its memory is its own. ``build`` makes the graph from its
list of edges; ``answer`` is one call on it, kernels compiled before on a small grid. Two states per node.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from partwise import Cut
from partwise.graphs import grid_edges
from partwise.structures import FactorGraph, Graph

ENGINES = ("cut", "loopy_bp", "mean_field")


def model(engine: str, side: int, sweeps: int) -> tuple[Cut | FactorGraph, np.ndarray]:
    """(space, scores): random evidence, and neighbours that prefer to agree."""
    rng, n, edges = np.random.default_rng(0), side * side, grid_edges(side, side)
    if engine == "cut":
        return Cut([n], [edges]), np.concatenate([rng.normal(size=2 * n), np.full(len(edges), -0.5)])
    graph = Graph(np.full(n, 2), edges)
    pairs = np.tile([0.25, -0.25, -0.25, 0.25], len(edges))
    return FactorGraph([graph], inference=engine, max_iter=sweeps), np.concatenate([rng.normal(size=2 * n), pairs])


def answer(engine: str, space: Cut | FactorGraph, scores: np.ndarray) -> str:
    if engine == "cut":
        return f"{space.decode(0, space.argmax(0, scores)).mean():.3f} of the nodes have label 1"
    value, _ = space.marginals(0, scores)
    sweeps, residual = space.convergence("marginals")[0, :2]  # type: ignore[union-attr]
    return f"log Z {value:.1f} after {sweeps:.0f} sweeps, residual {residual:.1e}"


def measure(engine: str, side: int, sweeps: int) -> None:
    answer(engine, *model(engine, 8, sweeps))  # compiles
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin, cpu = time.perf_counter(), time.process_time()
    space, scores = model(engine, side, sweeps)
    built, built_cpu = time.perf_counter(), time.process_time()
    words = answer(engine, space, scores)
    done, done_cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{engine:11} build {built_cpu - cpu:6.2f} CPU s ({built - begin:.2f} s), answer {done_cpu - built_cpu:6.2f} "
        f"CPU s ({done - built:.2f} s), {peak - empty:6.0f} MB above the {empty:.0f} MB before; {words}",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--side", type=int, default=1000)
    options.add_argument("--sweeps", type=int, default=200)
    options.add_argument("--engine", choices=ENGINES)
    args = options.parse_args()
    if args.engine is not None:
        measure(args.engine, args.side, args.sweeps)
        return
    for engine in ENGINES:
        words = ["--side", str(args.side), "--sweeps", str(args.sweeps), "--engine", engine]
        subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()

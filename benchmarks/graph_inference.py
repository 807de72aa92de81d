"""AD³ against HiGHS on the same linear relaxations: seconds to a bound within 1e-3 of the optimum.

``python benchmarks/graph_inference.py``. CPU seconds, one thread each, the fastest of three for both (HiGHS once where
it takes more than a second). HiGHS (scipy.optimize.linprog) is given the matrices of the local polytope, which are made
outside its time, and solves to its own tolerance: by the method it chooses, the simplex method, and by its
interior-point method. AD³ is given the packed graph and the scores, and all that it prepares counts. With
``--gap 1e-3`` it ends early where an output proves its bound to be that near. Its bound after few iterations is
compared with HiGHS's value; the first setting whose bound is within 1e-3 (relative) counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.optimize

from partwise.structures import FactorGraph, Graph
from partwise.structures.graphs import model

STEPS = (
    1, 2, 3, 5, 7, 10, 12, 15, 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100, 110, 120, 140, 160, 180,
    200, 220, 240, 260, 280, 300, 320, 360, 400, 440, 480, 560, 640, 800, 960, 1280,
)  # fmt: skip


def grid(side: int, states: int) -> Graph:
    node = np.arange(side * side).reshape(side, side)
    across, down = np.stack([node[:, :-1], node[:, 1:]], -1), np.stack([node[:-1], node[1:]], -1)
    return Graph(np.full(side * side, states), np.concatenate([across.reshape(-1, 2), down.reshape(-1, 2)]))


def potts(rng: np.random.Generator, graph: Graph, states: int) -> np.ndarray:
    """Unary scores, and a reward for equal labels of a strength of its own per edge."""
    strength = rng.uniform(0.0, 1.0, graph.n_factors)
    pairs = np.tile(np.eye(states).ravel(), graph.n_factors) * np.repeat(strength, states * states)
    return np.concatenate([rng.normal(size=graph.states.sum()), pairs])


def logical(rng: np.random.Generator, n: int) -> Graph:
    """n binary variables in hard factors of four to eight literals; zeros satisfy all but the implications' heads."""
    hard = []
    for k in range(0, n - 8, 3):
        names = rng.choice(np.arange(k, min(k + 24, n)), size=int(rng.integers(4, 9)), replace=False).tolist()
        kind = k % 4
        if kind == 0:
            hard.append(model.at_most_one(names))
        elif kind == 1:
            hard.append(model.budget(names, 2))
        elif kind == 2:
            hard.append(model.or_output(names[:-1], names[-1]))
        else:
            hard.append(model.implies(names[:2], names[-1]))
    return Graph(np.full(n, 2), [], hard)


def scattered(rng: np.random.Generator, n: int) -> Graph:
    """n binary variables in n hard factors of six literals drawn from all of them: nothing is local."""
    hard = []
    for k in range(n):
        names = rng.choice(n, size=6, replace=False).tolist()
        kinds = [model.at_most_one(names), model.budget(names, 2), model.or_output(names[:-1], names[-1])]
        hard.append(kinds[k % 3])
    return Graph(np.full(n, 2), [], hard)


def chains(rng: np.random.Generator, n: int) -> Graph:
    """Implications x_j → x_{j+1} in chains of fifty, and one from every tenth variable to any other."""
    hard = [model.implies([j], j + 1) for j in range(n - 1) if (j + 1) % 50]
    for j in range(0, n, 10):
        k = int(rng.integers(0, n - 1))
        hard.append(model.implies([j], k if k < j else k + 1))
    return Graph(np.full(n, 2), [], hard)


def budgets(rng: np.random.Generator, n: int) -> Graph:
    """At most three of ten neighbours, windows two apart, and n/20 budgets of a fifth of 25 variables from anywhere."""
    hard = [model.budget(list(range(j, j + 10)), 3) for j in range(0, n - 9, 2)]
    hard += [model.budget(rng.choice(n, 25, replace=False).tolist(), 5) for _ in range(n // 20)]
    return Graph(np.full(n, 2), [], hard)


def xor_grid(side: int) -> Graph:
    """One of every row and of every column of a grid: an assignment."""
    cell = np.arange(side * side).reshape(side, side)
    return Graph(np.full(side * side, 2), [], [model.exactly_one(line.tolist()) for line in [*cell, *cell.T]])


def highs(space: FactorGraph, scores: np.ndarray, method: str) -> tuple[float, float]:
    """(optimum, seconds)."""
    polytope = space.relaxation(0)
    below = (polytope.below, polytope.limit) if polytope.below.shape[0] else (None, None)
    clocks: list[float] = []
    while len(clocks) < 3 and sum(clocks) < 1.0:
        start = time.process_time()
        found = scipy.optimize.linprog(-scores, *below, polytope.equal, polytope.equal_to, method=method)
        clocks.append(time.process_time() - start)
    return float(-found.fun), min(clocks)


def ad3(graph: Graph, scores: np.ndarray, target: float, gap: float) -> tuple[float, float, int]:
    """(seconds, relative distance of the bound, iterations) of the first setting within 1e-3."""
    for steps in STEPS:
        space = FactorGraph([graph], inference="ad3", max_iter=steps, gap=gap)
        clocks = []
        for _ in range(3):
            start = time.process_time()
            space.argmax(0, scores)
            clocks.append(time.process_time() - start)
        distance = (space.convergence("argmax")[0, 3] - target) / abs(target)
        if distance <= 1e-3:
            break
    return min(clocks), distance, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=30)
    parser.add_argument("--variables", type=int, default=6000)
    parser.add_argument("--scattered", type=int, nargs="*", default=[6000, 12_000])
    parser.add_argument("--shapes", action="store_true", help="also implication chains, budgets and grids of XOR")
    parser.add_argument("--gap", type=float, default=1e-9, help="how near a proof of the output must come (1e-9)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    picture, rules = grid(args.side, 5), logical(rng, args.variables)
    cases = {
        f"grid {args.side}×{args.side}, 5 labels, Potts": (picture, potts(rng, picture, 5)),
        f"grid {args.side}×{args.side}, 5 labels, random tables": (
            picture,
            rng.normal(size=picture.states.sum() + 25 * picture.n_factors),
        ),
        f"logic, {args.variables} variables, {len(rules.hard)} local factors": (
            rules,
            rng.normal(size=rules.states.sum()),
        ),
    }
    for size in args.scattered:
        wild = scattered(rng, size)
        cases[f"logic, {size} variables, {size} scattered factors"] = (wild, rng.normal(size=2 * size))
    if args.shapes:
        for name, graph in (
            ("implication chains, 6000 variables", chains(rng, 6000)),
            ("budgets, 3000 variables", budgets(rng, 3000)),
            ("XOR grid, 60 × 60", xor_grid(60)),
        ):
            cases[f"{name}, {len(graph.hard)} factors"] = (graph, rng.normal(size=2 * len(graph.states)))
    FactorGraph([grid(2, 3)], inference="ad3").argmax(0, np.zeros(12 + 36))  # compile
    print(f"{'case':48} {'HiGHS s':>9} {'interior':>9} {'AD³ s':>9} {'ratio':>7} {'off by':>9} {'iterations':>11}")
    for name, (graph, scores) in cases.items():
        space = FactorGraph([graph], inference="ad3")
        value, slow = highs(space, scores, "highs")
        _, interior = highs(space, scores, "highs-ipm")
        quick, distance, steps = ad3(graph, scores, value, args.gap)
        print(
            f"{name:48} {slow:9.3f} {interior:9.3f} {quick:9.4f} {slow / quick:7.1f} {distance:9.1e} {steps:11d}",
            flush=True,
        )


if __name__ == "__main__":
    main()

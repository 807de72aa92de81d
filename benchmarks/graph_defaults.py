"""GraphLabeler with its default settings beside a logistic regression on the nodes alone, on made-up graphs.

    python benchmarks/graph_defaults.py --seed 1

Sets of different character: stars, cliques, pairs whose second label follows from the first, trees with 30 labels,
bipartite graphs whose neighbours differ, disconnected pieces with isolated nodes, edges that say nothing, one large
network per instance, grids with two and four labels, and 200 × 200 pixels. Training and held-out graphs are drawn
anew for each seed, and so are the centres of the labels' features. CPU seconds of ``fit`` and of ``predict``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.linear_model import LogisticRegression

from partwise import GraphLabeler
from partwise.graphs import AttributedGraph, grid_edges

Rng = np.random.Generator
Example = tuple[Any, Any, Any]  # labels, edges, edge features or None


def star(rng: Rng) -> Example:
    """A hub, and three to eleven leaves of which three quarters have its label."""
    leaves, hub = int(rng.integers(3, 12)), int(rng.integers(3))
    y = np.r_[hub, np.where(rng.random(leaves) < 0.75, hub, rng.integers(0, 3, leaves))]
    return y, [(0, j) for j in range(1, leaves + 1)], None


def clique(rng: Rng) -> Example:
    """Two to six nodes, most of one label."""
    size, (a, b) = int(rng.integers(2, 7)), rng.integers(0, 4, 2)
    return np.where(rng.random(size) < 0.7, a, b), [(i, j) for i in range(size) for j in range(i)], None


def pair(rng: Rng) -> Example:
    """Two nodes; the second has the next label in four of five."""
    first = int(rng.integers(3))
    return np.array([first, (first + int(rng.choice([1, 2, 0], p=[0.8, 0.1, 0.1]))) % 3]), [(0, 1)], None


def tree(rng: Rng, steps: Any) -> Example:
    """Ten to forty nodes with 30 labels, each label with a few likely followers."""
    size = int(rng.integers(10, 40))
    parents = [int(rng.integers(max(0, j - 5), j)) for j in range(1, size)]
    y = [int(rng.integers(30))]
    for parent in parents:
        y.append(int(rng.choice(30, p=steps[y[parent]])))
    return np.array(y), [(parent, j + 1) for j, parent in enumerate(parents)], None


def two_sides(rng: Rng) -> Example:
    """Two sides with mostly opposite labels, and edges only between them."""
    p, q = rng.integers(4, 10, 2)
    y = np.r_[np.full(p, side := int(rng.integers(2))), np.full(q, 1 - side)]
    edges = [(i, p + j) for i in range(p) for j in range(q) if rng.random() < 0.35]
    return np.where(rng.random(p + q) < 0.1, 1 - y, y), edges, None


def pieces(rng: Rng) -> Example:
    """Three to seven components of one to seven nodes; a feature says how far an edge can be trusted."""
    y: list[int] = []
    edges, trust = [], []
    for _ in range(int(rng.integers(3, 8))):
        base = len(y)
        y.append(int(rng.integers(3)))
        for j in range(1, int(rng.integers(1, 8))):
            i, sure = base + int(rng.integers(0, j)), rng.random()
            y.append(y[i] if rng.random() < sure else int(rng.integers(3)))
            edges.append((i, base + j))
            trust.append([sure, 1.0])
    return np.array(y), edges, np.reshape(trust, (-1, 2))


def unrelated(rng: Rng) -> Example:
    """Edges drawn without regard to the labels."""
    y = rng.integers(0, 3, 20)
    return y, [(i, j) for i in range(20) for j in range(i) if rng.random() < 0.15], None


def network(rng: Rng) -> Example:
    """300 nodes with five labels, 500 links of which four of five join equal labels."""
    y, links = rng.integers(0, 5, 300), set()
    while len(links) < 500:
        i = int(rng.integers(300))
        j = int(rng.choice(np.flatnonzero(y == y[i]))) if rng.random() < 0.8 else int(rng.integers(300))
        if i != j:
            links.add((min(i, j), max(i, j)))
    return y, sorted(links), None


def picture(rng: Rng, side: int, n_labels: int) -> Example:
    """Smooth regions of pixels."""
    fields = [gaussian_filter(rng.normal(size=(side, side)), side / 14) for _ in range(n_labels)]
    return np.argmax(fields, axis=0).ravel(), grid_edges(side, side), None


Make = Callable[[Rng], Example]


def sets(rng: Rng) -> dict[str, tuple[Make, int, int, float, int]]:
    """Name → (what draws a graph, labels, features, noise of the features, training graphs)."""
    steps = rng.dirichlet(np.full(30, 0.08), 30)
    return {
        "stars": (star, 3, 4, 1.3, 150),
        "few stars": (star, 3, 4, 1.3, 15),
        "cliques": (clique, 4, 5, 1.5, 200),
        "pairs": (pair, 3, 3, 1.2, 300),
        "trees, 30 labels": (lambda r: tree(r, steps), 30, 12, 1.4, 60),
        "bipartite": (two_sides, 2, 3, 2.0, 100),
        "pieces": (pieces, 3, 6, 1.8, 100),
        "edges of no use": (unrelated, 3, 5, 1.3, 60),
        "networks": (network, 5, 8, 2.0, 3),
        "grids 8 × 8": (lambda r: picture(r, 8, 2), 2, 3, 1.8, 20),
        "grids 40 × 40": (lambda r: picture(r, 40, 2), 2, 3, 1.5, 6),
        "grids 40 × 40, 4 labels": (lambda r: picture(r, 40, 4), 4, 3, 1.5, 6),
        "grids 200 × 200": (lambda r: picture(r, 200, 2), 2, 3, 2.0, 2),
    }


def drawn(rng: Rng, make: Make, centres: Any, noise: float, count: int) -> tuple[list[AttributedGraph], list[Any]]:
    graphs, labels = [], []
    for _ in range(count):
        y, edges, features = make(rng)
        seen = centres[y] + rng.normal(0, noise, (len(y), centres.shape[1]))
        graphs.append(AttributedGraph(seen, np.reshape(edges, (-1, 2)).astype(int), features))
        labels.append(y)
    return graphs, labels


def node_only(train: Any, test: Any) -> float:
    rows = [np.concatenate([graph.nodes["node"] for graph in part[0]]) for part in (train, test)]
    model = LogisticRegression(max_iter=1000).fit(rows[0], np.concatenate(train[1]))
    return float(model.score(rows[1], np.concatenate(test[1])))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="*", metavar="SET")
    options.add_argument("--interaction", default="auto")
    args = options.parse_args()
    warnings.simplefilter("ignore")  # the table says what did not converge
    print(
        "| graphs | nodes alone, % | default, % | edges | inference | status | passes | fit, CPU s | predict, CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    kinds = sets(np.random.default_rng(args.seed))
    for number, (name, (make, n_labels, dim, noise, count)) in enumerate(kinds.items()):
        if args.only and name not in args.only:
            continue
        rng = np.random.default_rng([args.seed, number])
        centres = rng.normal(size=(n_labels, dim))
        train, test = (
            drawn(rng, make, centres, noise, size) for size in (count, max(count, 40) if count > 6 else count)
        )
        begin = time.process_time()
        model = GraphLabeler(interaction=args.interaction).fit(*train)
        fitted = time.process_time()
        accuracy = model.score(*test)
        print(
            f"| {name} | {100 * node_only(train, test):.2f} | {100 * accuracy:.2f} | {model.interaction_} | "
            f"{model.inference_} | {model.result_.status} | {len(model.result_.trace)} | {fitted - begin:.2f} | "
            f"{time.process_time() - fitted:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""``crf-grids``: conditional random fields on grids, trained by L-BFGS on exact, tree-reweighted and Bethe log Z.

Labels are drawn from a Potts model by Gibbs sampling, features are noisy indicators of them. All models are judged on
the same held-out grids: accuracy of the best labelling, and the log-likelihood per node, exact by a junction tree and
between the bounds that tree-reweighting (log Z from above) and mean field (from below) give. Loopy belief propagation
has no bound, and may not converge: every pass counts the grids on which it did not.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise import GraphLabeler
from partwise.experiment import Cell, Context, markdown_table, register
from partwise.graphs import AttributedGraph, grid_edges
from partwise.structures import FactorGraph, Graph

__all__ = ["cells", "run", "table"]

LABELS = 3
ENGINES = ("junction_tree", "trw", "loopy_bp")
#: How strongly neighbours attract in the model that made the data: pairs far apart hardly depend, or do.
STRENGTHS = (0.6, 1.1)
NOISE = 1.2


def cells(context: Context) -> list[dict[str, Any]]:
    return [{"strength": strength, "inference": engine} for strength in STRENGTHS for engine in ENGINES]


@cache
def grids(side: int, count: int, strength: float, seed: int) -> tuple[list[AttributedGraph], list[NDArray[np.int64]]]:
    """``count`` grids: labels of a Gibbs chain, a new chain for each, and two noisy features per node."""
    rng, edges = np.random.default_rng(seed), grid_edges(side, side)
    space = FactorGraph([Graph(np.full(side * side, LABELS), edges)], inference="loopy_bp")
    scores = np.zeros(space.n_parts(0))
    scores[LABELS * side * side :] = np.tile(strength * np.eye(LABELS).ravel(), len(edges))
    corners = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
    graphs, labels = [], []
    for _ in range(count):
        y = space.decode(0, space.gibbs_chain(0, scores, 1, rng, burn_in=200)[0])
        labels.append(y)
        graphs.append(AttributedGraph(corners[y] + rng.normal(0, NOISE, (len(y), 2)), edges))
    return graphs, labels


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train on one engine; judge by all."""
    side, count = (5, 6) if context.quick else (8, 20)
    train, test = (grids(side, count, settings["strength"], seed) for seed in (0, 1))
    model = GraphLabeler(
        interaction="full", inference=settings["inference"], scale=False, learner="lbfgs", loss="crf", C=1.0,
        max_passes=15 if context.quick else 60,
    )  # fmt: skip
    begin = time.process_time()
    model.fit(*train)
    seconds = time.process_time() - begin
    nodes = sum(len(y) for y in test[1])
    likelihood = {}
    for engine in ("junction_tree", "trw", "mean_field"):
        judge = GraphLabeler(interaction="full", inference=engine, scale=False, loss="crf")
        likelihood[engine] = -float(judge.problem(*test).losses(model.theta_).sum()) / nodes
    return {
        "likelihood": likelihood["junction_tree"],
        "lower": likelihood["trw"],
        "upper": likelihood["mean_field"],
        "accuracy": model.score(*test),
        "passes": len(model.result_.trace),
        "status": model.result_.status,
        "unconverged": [line.extra.get("unconverged") for line in model.result_.trace],
        "cpu_seconds": seconds,
    }


def table(cells: list[Cell], context: Context) -> str:
    rows = []
    for cell in cells:
        r = cell.result
        left = [n for n in r["unconverged"] if n is not None]
        rows.append(
            [cell.settings["strength"], cell.settings["inference"], f"{r['likelihood']:.4f}", f"{r['lower']:.4f}",
             f"{r['upper']:.4f}", f"{100 * r['accuracy']:.2f}", r["passes"], f"{r['cpu_seconds']:.1f}",
             " ".join(map(str, left)) if left else "exact"]
        )  # fmt: skip
    head = ["attraction", "trained with", "held-out log p per node", "lower bound (TRW)", "upper bound (mean field)",
            "accuracy, %", "passes", "CPU s", "grids not converged, pass by pass"]  # fmt: skip
    return markdown_table(head, rows)


register(
    "crf-grids",
    run,
    description="Conditional random fields on grids by L-BFGS: exact, tree-reweighted and loopy belief propagation",
    paper="Tree-reweighting: Wainwright, Jaakkola and Willsky (2005); Martins et al. (2010), footnote 17.",
    cells=cells,
    table=table,
)

"""``daume2005-theorem4``: corrections of LaSO-A against the bound of Theorem 4, on the first 1,000 training sentences.

The theorem bounds the corrections by 2/γ² (2/α − 1)² + 8/α − 4 with B = √8/α and C = √2. The margin γ of §3.4 is the
most by which all y-good nodes can be down-weighted without an error of the search; it is found by bisection, with the
weights at convergence scaled to length 1, which is what the paper calls the empirical margin.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _chunks import NEEDS
from _joint import prepared, train

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.learners.laso._learning import ALMA, ERRORS, GENERATION, LASO, SCALE, Rule, learn_pass

__all__ = ["cells", "draw", "run", "table"]


def cells(context: Context) -> list[dict[str, Any]]:
    alpha = 0.9
    passes, sentences = (6, 40) if context.quick else (60, 1000)
    scale = math.sqrt(8.0) / alpha
    return [{"update": "alma", "beam": 5, "alpha": alpha, "margin_scale": scale, "passes": passes, "average": False,
             "sentences": sentences}]  # fmt: skip


def errors(data: Any, theta: Any, beam: int, down: float) -> float:
    """How many errors the search makes with these weights where y-good nodes are down-weighted; nothing is learned."""
    numbers = np.zeros(8)
    numbers[[GENERATION, SCALE]] = 1.0
    still = Rule(ALMA, LASO, beam, 0.5, 2.0 * down, 1e-200)  # (1 − α)B k^{−1/2} = down, and steps too small to count
    state = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
    wrong = 0.0
    for i in range(data.m):
        learn_pass(data.pack, np.array([i]), still, numbers, *state)
        wrong += numbers[ERRORS]
        numbers[[GENERATION, ERRORS]] = 1.0, 0.0
        if wrong:
            break
    return wrong


def empirical_margin(data: Any, theta: Any, beam: int) -> float:
    """The largest down-weighting without an error, by bisection; 0 where there is an error without any."""
    unit = theta / max(float(np.linalg.norm(theta)), 1e-300)
    if errors(data, unit, beam, 1e-12):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if errors(data, unit, beam, middle) else (middle, high)
    return low


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    result, seconds = train(settings, context, settings["sentences"])
    alpha = settings["alpha"]
    corrections = result.trace[-1].extra["corrections"]
    margin = empirical_margin(prepared(context, settings["sentences"])[1], result.theta, settings["beam"])
    bound = None if margin == 0.0 else 2.0 / margin**2 * (2.0 / alpha - 1.0) ** 2 + 8.0 / alpha - 4.0
    curve = [record.extra["corrections"] for record in result.trace]
    return {"corrections": corrections, "margin": margin, "bound": bound, "converged": result.status == "converged",
            "curve": curve, "training": seconds}  # fmt: skip


def table(cells: list[Cell], context: Context) -> str:
    rows = [
        [cell.settings["sentences"], f"{r['corrections']:.0f}", f"{r['margin']:.2e}",
         "none" if r["bound"] is None else f"{r['bound']:.0f}",
         "yes" if r["converged"] else "no", "15932 of at most 17724, margin 1.299e-2"]
        for cell in cells for r in [cell.result]
    ]  # fmt: skip
    note = "Quick variant: the embedded sample.\n\n" if context.quick else ""
    return note + markdown_table(["sentences", "corrections", "margin", "bound", "converged", "paper"], rows)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    for cell in cells:
        axes.plot(range(1, len(cell.result["curve"]) + 1), cell.result["curve"], label="corrections")
        if cell.result["bound"] is not None:
            axes.axhline(cell.result["bound"], linestyle=":", label="bound of Theorem 4")
    axes.set_xlabel("pass")
    axes.legend()


register(
    "daume2005-theorem4",
    run,
    description="Corrections of LaSO-A against the bound of Theorem 4, 1,000 sentences",
    paper="Daumé & Marcu (2005), Theorem 4 and §4.2.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
)

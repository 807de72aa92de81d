"""``maxmargin-race``: objective and duality gap against time, all learners of structural SVMs and CRFs in one picture.

A first-order chain on the pixels of the words of fold 0 (OCR letters), one value of C for all. Compiling is not
counted. The distance of an objective is measured from the best lower bound that any of the learners proved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _letters import learners_of, load, trained

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.sequences.letters import ORIGIN

__all__ = ["cells", "draw", "run", "table"]

C = 0.1


def cells(context: Context) -> list[dict[str, Any]]:
    return [{"loss": loss, "learner": name} for loss in ("svm", "crf") for name in learners_of(loss, context)]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """The trace of one learner."""
    letters = load(context.data, context.quick)
    words, _ = letters.split("one")
    loss, learner = settings["loss"], settings["learner"]
    trained(letters, words[:5], loss, learner, C, 0.0)  # compiles
    result = trained(letters, words, loss, learner, C, 3.0 if context.quick else 120.0).result_
    trace = [record for record in result.trace if record.objective is not None]
    duals = [-np.inf if record.dual is None else record.dual for record in trace]
    best = np.maximum.accumulate(duals) if duals else np.zeros(0)
    return {
        "seconds": [record.seconds for record in trace],
        "objective": [record.objective for record in trace],
        "dual": [None if np.isinf(value) else float(value) for value in best],
        "status": result.status,
    }


def bounds(cells: list[Cell]) -> dict[str, float]:
    """The best proven lower bound on every loss; where none is proven, the best objective."""
    found: dict[str, float] = {}
    for loss in {cell.settings["loss"] for cell in cells}:
        own = [cell.result for cell in cells if cell.settings["loss"] == loss]
        duals = [value for r in own for value in r["dual"] if value is not None]
        found[loss] = max(duals) if duals else min(value for r in own for value in r["objective"])
    return found


def first_time(result: dict[str, Any], values: list[float], level: float) -> str | None:
    """When the values fell to a level."""
    for seconds, value in zip(result["seconds"], values, strict=True):
        if value <= level:
            return f"{seconds:.2f}"
    return None


def table(cells: list[Cell], context: Context) -> str:
    lower, rows = bounds(cells), []
    for cell in cells:
        r, bound = cell.result, lower[cell.settings["loss"]]
        if not r["objective"]:
            continue
        gaps = [np.inf if d is None else (p - d) / p for p, d in zip(r["objective"], r["dual"], strict=True)]
        far = [(p - bound) / bound for p in r["objective"]]
        rows.append(
            [cell.settings["loss"], cell.settings["learner"], f"{min(r['objective']):.5f}",
             None if np.isinf(min(gaps)) else f"{min(gaps):.1e}", f"{min(far):.1e}",
             first_time(r, gaps, 1e-2), first_time(r, gaps, 1e-3), first_time(r, far, 1e-2), first_time(r, far, 1e-3)]
        )  # fmt: skip
    head = ["loss", "learner", "objective", "relative gap", "above the best bound", "gap 1% after, s",
            "gap 0.1%, s", "1% above the bound, s", "0.1% above, s"]  # fmt: skip
    shown = markdown_table(head, rows)
    return "Quick variant: synthetic letters.\n\n" + shown if context.quick else f"C = {C:g}\n\n{shown}"


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    lower = bounds(cells)
    losses = sorted(lower, reverse=True)
    figure.set_size_inches(11, 4.5 * len(losses))
    axes = figure.subplots(len(losses), 2, squeeze=False)
    for row, loss in zip(axes, losses, strict=True):
        for cell in cells:
            r = cell.result
            if cell.settings["loss"] != loss or not r["objective"]:
                continue
            far = [max((p - lower[loss]) / lower[loss], 1e-9) for p in r["objective"]]
            row[0].loglog(r["seconds"], far, label=cell.settings["learner"])
            pairs = zip(r["objective"], r["dual"], strict=True)
            gaps = [np.nan if d is None else max((p - d) / p, 1e-9) for p, d in pairs]
            row[1].loglog(r["seconds"], gaps)
        row[0].set_ylabel(f"{loss}: objective above the best bound, relative")
        row[1].set_ylabel("relative duality gap")
        for axis in row:
            axis.set_xlabel("seconds")
            axis.axhline(1e-3, color="grey", linewidth=0.5)
        row[0].legend(fontsize=7)


register(
    "maxmargin-race",
    run,
    description="Objective and duality gap against time, all learners of structural SVMs and CRFs, OCR letters",
    paper="Data of Taskar, Guestrin and Koller (2003), fold 0.",
    cells=cells,
    needs=[Needs("letters/letters.npz", ORIGIN)],
    table=table,
    draw=draw,
)

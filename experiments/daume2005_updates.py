"""``daume2005-updates``: §5 of Daumé & Marcu (2005), LaSO against early, standard and max-violation updates.

Joint tagging and chunking with a beam of 10 and perceptron updates, the same number of passes for all.
Intervals are from a bootstrap over the test sentences.
"""

from __future__ import annotations

from typing import Any

from _chunks import NEEDS, read
from _joint import decoder, part, scores, train

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.sequences.resampling import bootstrap

__all__ = ["cells", "draw", "run", "table"]

# Chunk F1 that §5 gives; those of LaSO are with the large-margin update.
PAPER = {"laso": 94.4, "early": 93.1, "standard": 92.5}


def cells(context: Context) -> list[dict[str, Any]]:
    passes = 2 if context.quick else 10
    modes = ("laso", "early", "standard", "max_violation")
    return [{"update": "perceptron", "mode": mode, "beam": 10, "passes": passes} for mode in modes]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    result, seconds = train(settings, context)
    updates = sum(record.extra["updates"] for record in result.trace)
    test = read(context, "test")
    _, chunks = decoder(context)(result.theta, settings["beam"])
    interval = bootstrap(test.coded("chunk"), chunks)
    return {**scores(result.theta, settings["beam"], context), "training": seconds, "updates": updates,
            "low": interval.low, "high": interval.high}  # fmt: skip


def table(cells: list[Cell], context: Context) -> str:
    rows = [
        [cell.settings["mode"], f"{cell.result['updates']:.0f}", f"{cell.result['training']:.0f}",
         f"{100 * cell.result['tag']:.2f}", f"{100 * cell.result['f1']:.2f}",
         f"{100 * cell.result['low']:.2f} to {100 * cell.result['high']:.2f}",
         None if context.quick else PAPER.get(cell.settings["mode"])]
        for cell in cells
    ]  # fmt: skip
    shown = markdown_table(["update", "updates", "training, s", "tags", "F1", "95% interval", "paper"], rows)
    return part(context) + shown


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    names = [cell.settings["mode"] for cell in cells]
    axes.barh(names, [100 * cell.result["f1"] for cell in cells])
    axes.invert_yaxis()
    axes.set_xlabel("chunk F1 on the test data")


register(
    "daume2005-updates",
    run,
    description="§5: LaSO against early, standard and max-violation updates",
    paper="Daumé & Marcu (2005), §5.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
    parts=True,
)

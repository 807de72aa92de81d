"""``daume2005-joint``: Table 2 of Daumé & Marcu (2005), tags and chunks of CoNLL-2000 at once, from the words alone.

The paper used lists of names, places and abbreviations; here nothing but the training sentences is used: dictionaries
made from them, and two chains, trained on them by cross-validation, that guess tags and chunk tags for the search to
read. Features and settings were chosen with beam 5 on the first 4,000 training sentences, tested on the others. Updates
subtract the nodes that are ahead of the y-good one. Times are CPU seconds of one core, of the chains too.
"""

from __future__ import annotations

from typing import Any

from _chunks import NEEDS
from _joint import part, scores, train

from partwise.experiment import Cell, Context, markdown_table, register

__all__ = ["cells", "draw", "run", "table"]

BEAMS = (1, 5, 10, 25, 50)
# Tag accuracy and chunk F1 of the paper's Table 2.
PAPER = {
    "perceptron": {1: (98.9, 93.1), 5: (98.9, 93.5), 10: (98.9, 93.5), 25: (98.9, 93.7), 50: (98.9, 93.4)},
    "alma": {1: (99.0, 93.9), 5: (99.0, 94.2), 10: (99.1, 94.4), 25: (99.1, 94.3), 50: (99.1, 94.4)},
}


def cells(context: Context) -> list[dict[str, Any]]:
    rest = {"rivals": "ahead", "margin_scale": 10.0, "passes": 2 if context.quick else 15}
    pairs = [(10, "alma")] + [(beam, u) for u in PAPER for beam in BEAMS if (beam, u) != (10, "alma")]
    return [{"update": update, "beam": beam, **rest} for beam, update in pairs]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    result, seconds = train(settings, context)
    return {**scores(result.theta, settings["beam"], context), "training": seconds, "passes": len(result.trace)}


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in sorted(cells, key=lambda cell: (cell.settings["update"], cell.settings["beam"]), reverse=False):
        s, r = cell.settings, cell.result
        paper = PAPER[s["update"]][s["beam"]]
        name = f"LaSO-{s['update'][0].upper()} {s['beam']}"
        rows.append([
            name, r["passes"], f"{r['training']:.0f}", f"{r['testing']:.1f}",
            *(f"{100 * r[key]:.2f}" for key in ("tag", "chunk", "joint", "f1")),
            None if context.quick else f"{paper[0]}, {paper[1]}",
        ])  # fmt: skip
    head = ["model", "passes", "training, s", "test, s", "tags", "chunk tags", "both", "F1", "paper: tags, F1"]
    return part(context) + markdown_table(head, rows)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    for update in PAPER:
        here = sorted((c.settings["beam"], 100 * c.result["f1"]) for c in cells if c.settings["update"] == update)
        axes.plot([beam for beam, _ in here], [f1 for _, f1 in here], "o-", label=f"{update}, here")
        if not context.quick:
            axes.plot(BEAMS, [PAPER[update][beam][1] for beam in BEAMS], "x:", label=f"{update}, paper")
    axes.set_xscale("log")
    axes.set_xticks(BEAMS, [str(beam) for beam in BEAMS])
    axes.set_xlabel("beam")
    axes.set_ylabel("chunk F1 on the test data")
    axes.legend()


register(
    "daume2005-joint",
    run,
    description="Table 2: joint tagging and chunking from words alone, two updates, five beams",
    paper="Daumé & Marcu (2005), Table 2.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
    parts=True,
)

"""``daume2005-beams``: Table 3 of Daumé & Marcu (2005), the beam of training against the beam of decoding.

Chunk F1 of joint tagging and chunking; one training per row, decoded with every beam. How far the best beam of a row is
ahead of the beam of training is given with a 95% interval, by a paired bootstrap over the test sentences: where that
contains 0, the diagonal is the heaviest within noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _chunks import NEEDS, read
from _joint import decoder, part, train

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.resampling import paired_bootstrap

__all__ = ["cells", "draw", "run", "table"]

BEAMS = (1, 5, 10, 25, 50)
# Rows are training beams, columns decoding beams. The text of the paper reads it the other way round than its caption.
PAPER = [
    [93.9, 92.8, 91.9, 91.3, 90.9],
    [90.5, 94.3, 94.4, 94.1, 94.1],
    [89.6, 94.3, 94.4, 94.2, 94.2],
    [88.7, 94.2, 94.5, 94.3, 94.3],
    [88.4, 94.2, 94.4, 94.2, 94.4],
]


def cells(context: Context) -> list[dict[str, Any]]:
    beams = (1, 5) if context.quick else BEAMS
    return [{"update": "alma", "beam": beam, "passes": 2 if context.quick else 14} for beam in beams]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    result, seconds = train(settings, context)
    gold, decode = read(context, "test").coded("chunk"), decoder(context)
    chunks = {beam: decode(result.theta, beam)[1] for beam in BEAMS}
    f1 = {beam: chunk_scores(gold, found).f1 for beam, found in chunks.items()}
    best = max(BEAMS, key=lambda beam: f1[beam])
    lead = paired_bootstrap(gold, chunks[best], chunks[settings["beam"]])
    return {"f1": {str(beam): value for beam, value in f1.items()}, "training": seconds, "best": best,
            "lead": [lead.difference, lead.low, lead.high]}  # fmt: skip


def table(cells: list[Cell], context: Context) -> str:
    rows = []
    for cell in sorted(cells, key=lambda cell: cell.settings["beam"]):
        beam = cell.settings["beam"]
        ours = [f"{100 * cell.result['f1'][str(b)]:.2f}" for b in BEAMS]
        paper = None if context.quick else ", ".join(map(str, PAPER[BEAMS.index(beam)]))
        lead, low, high = (100 * value for value in cell.result["lead"])
        best = cell.result["best"]
        rows.append([beam, *ours, best, "" if best == beam else f"{lead:.2f} ({low:.2f} to {high:.2f})", paper])
    head = ["training beam", *(f"decoding {beam}" for beam in BEAMS), "best", "its lead over the diagonal", "paper"]
    return part(context) + markdown_table(head, rows)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    ordered = sorted(cells, key=lambda cell: cell.settings["beam"])
    values = np.array([[100 * cell.result["f1"][str(beam)] for beam in BEAMS] for cell in ordered])
    picture = axes.imshow(values, cmap="viridis")
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color="white")
    axes.set_xticks(range(len(BEAMS)), [str(beam) for beam in BEAMS])
    axes.set_yticks(range(len(ordered)), [str(cell.settings["beam"]) for cell in ordered])
    axes.set_xlabel("decoding beam")
    axes.set_ylabel("training beam")
    figure.colorbar(picture, label="chunk F1 on the test data")


register(
    "daume2005-beams",
    run,
    description="Table 3: training beam against decoding beam, joint tagging and chunking",
    paper="Daumé & Marcu (2005), Table 3.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
    parts=True,
)

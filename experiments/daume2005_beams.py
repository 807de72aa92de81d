"""``daume2005-beams``: Table 3 of Daumé & Marcu (2005), the beam of training against the beam of decoding.

Chunk F1 of joint tagging and chunking with the model of Table 2 (``daume2005-joint``), each training decoded with every
beam. A training is repeated with other orders of the sentences, and the table has means over them. How far the best
beam of a row is ahead of the beam of training is given with a 95% interval, lead ± 1.96 √(v + s²/n): v is the variance
over resampled test sentences (paired: all decodings have the same sentences), s² that between the n orders. Where the
interval contains 0, the diagonal is the heaviest of its row within noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _chunks import NEEDS, read
from _joint import LASO_A, decoder, part, train

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.metrics.resampling import ratio, resample
from partwise.sequences.chunks import chunk_scores

__all__ = ["cells", "draw", "run", "table"]

BEAMS = (1, 5, 10, 25, 50)
ORDERS = (0, 1, 2)  # seeds
# Rows are training beams, columns decoding beams. The text of the paper reads it the other way round than its caption.
PAPER = [
    [93.9, 92.8, 91.9, 91.3, 90.9],
    [90.5, 94.3, 94.4, 94.1, 94.1],
    [89.6, 94.3, 94.4, 94.2, 94.2],
    [88.7, 94.2, 94.5, 94.3, 94.3],
    [88.4, 94.2, 94.4, 94.2, 94.4],
]


def cells(context: Context) -> list[dict[str, Any]]:
    if context.quick:
        return [{**LASO_A, "beam": beam, "passes": 2, "random_state": seed} for seed in (0, 1) for beam in (1, 5)]
    return [{**LASO_A, "beam": beam, "random_state": seed} for seed in ORDERS for beam in BEAMS]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    result, seconds = train(settings, context)
    gold, decode = read(context, "test").coded("chunk"), decoder(context)
    counts = {}
    for beam in BEAMS:
        correct, true, found = chunk_scores(gold, decode(result.theta, beam)[1]).per_sentence.T[:3]
        counts[str(beam)] = [(2 * correct).tolist(), (true + found).tolist()]  # F1 is the ratio of their sums
    return {"counts": counts, "training": seconds}


def row(cells: list[Cell]) -> tuple[Any, int, float, float]:
    """(F1 by order and decoding beam, the best decoding beam, its lead over that of training, half the interval)."""
    terms = np.array([[cell.result["counts"][str(beam)] for beam in BEAMS] for cell in cells])  # (…, 2, sentences)
    f1 = ratio(terms.sum(axis=3))
    own, best = BEAMS.index(cells[0].settings["beam"]), int(f1.mean(axis=0).argmax())
    leads = f1[:, best] - f1[:, own]
    flat = terms[:, [best, own]].reshape(-1, terms.shape[3]).T
    drawn = ratio(resample(flat, 1000, 0).reshape(1000, len(cells), 2, 2))
    sentences = float((drawn[:, :, 0] - drawn[:, :, 1]).mean(axis=1).var())
    orders = float(leads.var(ddof=1)) / len(cells) if len(cells) > 1 else 0.0
    return f1, BEAMS[best], float(leads.mean()), 1.96 * math.sqrt(sentences + orders)


def rows(cells: list[Cell]) -> dict[int, tuple[Any, int, float, float]]:
    """Of every training beam."""
    beams = sorted({cell.settings["beam"] for cell in cells})
    return {beam: row([cell for cell in cells if cell.settings["beam"] == beam]) for beam in beams}


def table(cells: list[Cell], context: Context) -> str:
    shown: list[list[Any]] = []
    for beam, (f1, best, lead, half) in rows(cells).items():
        paper = None if context.quick else ", ".join(map(str, PAPER[BEAMS.index(beam)]))
        ours = [f"{value:.2f}" for value in 100 * f1.mean(axis=0)]
        over = f"{100 * lead:.2f} ({100 * (lead - half):.2f} to {100 * (lead + half):.2f})"
        spread = f"{100 * f1.std(axis=0, ddof=1).mean():.2f}" if len(f1) > 1 else None
        shown.append([beam, *ours, spread, best, "" if best == beam else over, paper])
    head = ["training beam", *(f"decoding {beam}" for beam in BEAMS), "deviation between orders", "best",
            "its lead over the diagonal, 95%", "paper"]  # fmt: skip
    return part(context) + markdown_table(head, shown)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    found = rows(cells)
    values = 100 * np.array([f1.mean(axis=0) for f1, *_ in found.values()])
    picture = axes.imshow(values, cmap="viridis")
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color="white")
    axes.set_xticks(range(len(BEAMS)), [str(beam) for beam in BEAMS])
    axes.set_yticks(range(len(found)), [str(beam) for beam in found])
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

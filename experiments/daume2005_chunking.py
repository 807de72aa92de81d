"""``daume2005-chunking``: Table 1 of Daumé & Marcu (2005), chunking of CoNLL-2000 by whole labelled chunks.

All models have the same features, but that searches also see two labels back and the labels together with the tokens
at the border. C was chosen on the last tenth of the training data, trained on the rest; what searches do (histories,
the nodes that an update is made against, the margin B = 10) on the last 1,500 training sentences, trained on the first
4,000. Times are CPU seconds of one core: of training, reading and encoding apart, and of decoding the test data.
"""

from __future__ import annotations

import time
from typing import Any

from _chunks import NEEDS, encoded, read, tokens

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.resampling import bootstrap
from partwise.sequences.segmentation.labeler import SegmentLabeler
from partwise.sequences.segmentation.search_labeler import SearchLabeler

__all__ = ["cells", "draw", "run", "table"]

# Test F1 of the paper's Table 1.
PAPER = {
    "semi-CRF": 92.2, "perceptron": 93.4, "LaSO-P 1": 92.4, "LaSO-P 5": 93.1, "LaSO-P 25": 94.1, "LaSO-A 1": 93.0,
    "LaSO-A 5": 94.3, "LaSO-A 25": 94.4,
}  # fmt: skip
PASSES = {"alma": {1: 10, 5: 10, 25: 10}, "perceptron": {1: 10, 5: 10, 25: 10}}


def cells(context: Context) -> list[dict[str, Any]]:
    def search(update: str, beam: int) -> dict[str, Any]:
        passes = 2 if context.quick else PASSES[update][beam]
        return {"model": "search", "update": update, "beam": beam, "passes": passes}

    crf = {"model": "exact", "C": 0.5, "passes": 2 if context.quick else 15, "loss": "crf", "learner": "dca"}
    exact = {"model": "exact", "loss": "perceptron", "learner": "perceptron", "C": 1.0}
    return [
        search("alma", 5), search("alma", 25), search("perceptron", 25), crf, search("alma", 1),
        search("perceptron", 5), search("perceptron", 1), {**exact, "passes": 2 if context.quick else 10},
    ]  # fmt: skip


def name_of(settings: dict[str, Any]) -> str:
    if settings["model"] == "exact":
        return "semi-CRF" if settings["loss"] == "crf" else "perceptron"
    return f"LaSO-{settings['update'][0].upper()} {settings['beam']}"


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train one model on the training data and score it on the test data."""
    encoder, space, features, gold = encoded(context)
    model: Any
    if settings["model"] == "search":
        model = SearchLabeler(beam=settings["beam"], update=settings["update"], max_passes=settings["passes"])
        problem: Any = model._training(space, features, gold)
        learner: Any = model._settings()[0]
    else:
        model = SegmentLabeler(loss=settings["loss"], learner=settings["learner"], C=settings["C"],
                               max_passes=settings["passes"])  # fmt: skip
        problem = Problem(space, features, gold.outputs(), Loss.named(settings["loss"]))
        learner = model._settings()[0]
    begin = time.process_time()
    result = learner.fit(problem)
    training = time.process_time() - begin
    model.encoder_, model.result_, model.theta_ = encoder, result, result.theta
    test = read(context, "test")
    model.predict_coded(test.subset(slice(0, 5)))  # kernels are loaded
    begin = time.process_time()
    predicted = model.predict_coded(test)
    testing = time.process_time() - begin
    scores = chunk_scores(test.coded("chunk"), predicted)
    interval = bootstrap(test.coded("chunk"), predicted)
    return {
        "precision": scores.precision, "recall": scores.recall, "f1": scores.f1, "low": interval.low,
        "high": interval.high, "training": training, "testing": testing, "passes": len(result.trace),
        "speed": tokens(context, "test") / testing, "weights": len(result.theta),
    }  # fmt: skip


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in sorted(cells, key=lambda cell: list(PAPER).index(name_of(cell.settings))):
        r, name = cell.result, name_of(cell.settings)
        rows.append([
            name, r["passes"], f"{r['training']:.0f}", f"{r['testing']:.1f}", f"{r['speed']:.0f}",
            f"{100 * r['precision']:.2f}", f"{100 * r['recall']:.2f}", f"{100 * r['f1']:.2f}",
            f"{100 * r['low']:.2f} to {100 * r['high']:.2f}", None if context.quick else PAPER[name],
        ])  # fmt: skip
    head = [
        "model",
        "passes",
        "training, s",
        "test, s",
        "tokens/s",
        "precision",
        "recall",
        "F1",
        "95% interval",
        "paper",
    ]
    shown = markdown_table(head, rows)
    return "Quick variant: the embedded sample.\n\n" + shown if context.quick else shown


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    ordered = sorted(cells, key=lambda cell: list(PAPER).index(name_of(cell.settings)))
    names = [name_of(cell.settings) for cell in ordered]
    axes.plot([100 * cell.result["f1"] for cell in ordered], range(len(names)), "o", label="here")
    if not context.quick:
        axes.plot([PAPER[name] for name in names], range(len(names)), "x", label="paper")
        axes.legend()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("F1 on the test data")


register(
    "daume2005-chunking",
    run,
    description="Table 1: chunking by whole chunks, LaSO with three beams against the semi-CRF and the perceptron",
    paper="Daumé & Marcu (2005), Table 1.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
)

"""``conll2000-crf``: chunking of the CoNLL-2000 shared task, with CRFsuite's templates and with our own.

The task has no development set: settings were chosen on the last tenth of the training data, trained on the rest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from partwise.data import load_sample, read_columns
from partwise.data.columns import Columns
from partwise.estimators import SequenceLabeler
from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.metrics import bootstrap, chunk_scores
from partwise.sequences.tags import convert_all

__all__ = ["cells", "draw", "run", "table"]

ORIGIN = "the CoNLL-2000 shared task on chunking (Tjong Kim Sang and Buchholz 2000)"

# Test F1 of others over all types of phrases, with the same data.
OTHERS = {
    "Kudoh and Matsumoto 2000, best of the shared task": 93.48,
    "Kudo and Matsumoto 2001, eight SVMs": 93.91,
}


def cells(context: Context) -> list[dict[str, Any]]:
    passes = 3 if context.quick else 18
    crf = {"templates": "crfsuite-chunking", "scheme": "IOB2", "beta": 1.0, "gamma": 0.0, "learner": "lbfgs"}
    own = {"templates": "chunking", "scheme": "IOBES", "learner": "dca", "C": 0.5, "passes": passes}
    return [
        {**crf, "C": 0.5, "passes": 4 if context.quick else 100},
        {**own, "beta": 1.0, "gamma": 0.0},
        {**own, "beta": 1.0, "gamma": 1.0},
        {**own, "beta": 1.0, "gamma": 3.0},
    ]


@cache
def read(data: Any, quick: bool, part: str) -> Columns:
    if quick:
        return load_sample("news", split=part)
    return read_columns(data / f"conll2000/{part}.txt", columns=("word", "pos", "chunk"))


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train one model on the training data and score it on the test data."""
    train, test = (read(context.data, context.quick, part) for part in ("train", "test"))
    scheme = settings["scheme"]
    model = SequenceLabeler(
        settings["templates"],
        loss=(settings["beta"], settings["gamma"]),
        learner=settings["learner"],
        C=settings["C"],
        max_passes=settings["passes"],
        scheme=scheme,
    )
    model.fit(train, convert_all(train.coded("chunk"), "IOB2", scheme))
    predicted = convert_all(model.predict_coded(test), scheme, "IOB2")
    scores = chunk_scores(test.coded("chunk"), predicted)
    interval = bootstrap(test.coded("chunk"), predicted)
    return {
        "f1": scores.f1,
        "precision": scores.precision,
        "recall": scores.recall,
        "low": interval.low,
        "high": interval.high,
        "types": {name: counts.f1 for name, counts in scores.types.items()},
        "weights": len(model.theta_),
        "seconds": model.result_.trace[-1].seconds,
        "passes": len(model.result_.trace),
    }


def name_of(cell: Cell) -> str:
    s = cell.settings
    return f"{s['templates']}, {s['scheme']}, {s['learner']}, β = {s['beta']:g}, γ = {s['gamma']:g}, C = {s['C']:g}"


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in cells:
        r = cell.result
        interval = f"{100 * r['low']:.2f} to {100 * r['high']:.2f}"
        seconds = f"{r['seconds']:.0f}"
        rows.append([name_of(cell), f"{100 * r['f1']:.2f}", interval, r["weights"], r["passes"], seconds])
    rows += [[name, f"{f1:.2f}", None, None, None, None] for name, f1 in OTHERS.items()]
    shown = markdown_table(["model", "test F1", "95% interval", "weights", "passes", "training, s"], rows)
    if context.quick:
        return "Quick variant: the embedded sample; the figures of others are of other data.\n\n" + shown
    return shown


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    f1 = [100 * cell.result["f1"] for cell in cells]
    below = [100 * (cell.result["f1"] - cell.result["low"]) for cell in cells]
    above = [100 * (cell.result["high"] - cell.result["f1"]) for cell in cells]
    axes.errorbar(f1, range(len(cells)), xerr=[below, above], fmt="o", capsize=4)
    axes.set_yticks(range(len(cells)), [name_of(cell).replace(", β", "\nβ") for cell in cells])
    axes.invert_yaxis()
    axes.set_xlabel("F1 on the test data, with 95% bootstrap intervals")


register(
    "conll2000-crf",
    run,
    description="Chunking of CoNLL-2000: F1 of CRFs and softmax-margin chains, with intervals",
    paper="Data of Tjong Kim Sang and Buchholz (2000); losses of Martins et al. (2010), eq. (3).",
    cells=cells,
    needs=[Needs(f"conll2000/{part}.txt", ORIGIN) for part in ("train", "test")],
    table=table,
    draw=draw,
)

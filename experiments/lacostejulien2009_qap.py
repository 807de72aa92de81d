"""``lacostejulien2009-qap``: Table 3.1 of Lacoste-Julien (2009), word alignment with fertility and pairs of links.

Training by cutting planes on the first 100 or 200 of the 447 gold pairs, C and the pass to stop at chosen on the 37
trial pairs, test on the last 247. Generative rows and features come from our own models, trained on
all raw pairs; nothing of an outside aligner is used.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _hansards import NEEDS, generative, gold_split

from partwise.alignment.aligner import WordAligner
from partwise.experiment import Cell, Context, markdown_table, register
from partwise.metrics import alignment_bootstrap, alignment_scores

__all__ = ["cells", "draw", "run", "table"]

# AER in Table 3.1: with features of IBM Model 2 and less; with IBM Model 4 and Liang et al. (2006) too.
PAPER = {
    ("M", 100): 8.5, ("M+F", 100): 8.1, ("M+Q", 100): 6.7, ("M+F+Q", 100): 6.2,
    ("M", 200): 8.2, ("M+F", 200): 8.0, ("M+Q", 200): 6.8, ("M+F+Q", 200): 6.1,
}  # fmt: skip
PAPER_BEST = 3.8
MODELS = ("M", "M+F", "M+Q", "M+F+Q")
POSTERIORS = {"model2": ("model1", "model2"), "hmm": ("model1", "model2", "hmm")}
GRID = [(0.1, 3.0), (0.3, 3.0)]  # (C, c⁻)


def cells(context: Context) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"kind": "generative", "model": model} for model in POSTERIORS["hmm"]]
    sizes, passes = ((60,), 10) if context.quick else ((100, 200), 60)
    for posteriors in POSTERIORS:
        for n in sizes:
            for model in MODELS[:2] if context.quick else MODELS:
                pairs = 25 if model.endswith("Q") else passes
                found.append({"kind": "learned", "model": model, "n": n, "posteriors": posteriors, "passes": pairs})
    return found


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    first_test = 60 if context.quick else 200
    base = generative(context.data, context.quick)
    X, y, dev_X, dev_y, test_X, test_y = gold_split(context, settings.get("n", 0), first_test)
    if settings["kind"] == "generative":
        return _scores(test_y, base.predict(test_X, settings["model"]))
    best, chosen, begin = None, (0.0, 0.0), time.perf_counter()
    for C, missed in GRID[:1] if context.quick else GRID:
        aligner = WordAligner(
            base, model=settings["model"], posteriors=POSTERIORS[settings["posteriors"]], false_negative=missed, C=C,
            learner="n_slack", infeasible="nearest", candidates=0.02, max_passes=settings["passes"], exact=False,
            gold_counts=False,
        ).fit(X, y, dev=(dev_X, dev_y))  # fmt: skip
        reached = aligner.result_.trace[aligner.result_.best_step - 1].score
        if best is None or reached > best[0]:
            best, chosen = (reached, aligner), (C, missed)
    assert best is not None
    seconds = time.perf_counter() - begin
    aligner = best[1].set_params(exact=True)
    begin = time.perf_counter()
    predicted = aligner.predict(test_X)
    known = {"C": chosen[0], "missed": chosen[1], "dev_aer": 1 - best[0], "seconds": seconds}
    known["predict_seconds"] = time.perf_counter() - begin
    if settings["model"].endswith("Q"):
        begin = time.perf_counter()
        relaxed = aligner.set_params(exact=False).predict(test_X)
        known |= {"relaxed_aer": alignment_scores(test_y, relaxed).aer, "relaxed_seconds": time.perf_counter() - begin}
    return known | _scores(test_y, predicted)


def _scores(gold: Any, predicted: Any) -> dict[str, Any]:
    found, interval = alignment_scores(gold, predicted), alignment_bootstrap(gold, predicted)
    known = {name: getattr(found, name) for name in ("aer", "precision", "recall")}
    return known | {"low": interval.low, "high": interval.high}


def name_of(cell: Cell) -> str:
    s = cell.settings
    if s["kind"] == "generative":
        return f"{s['model']}, both directions"
    return f"{s['model']}, {s['n']} pairs, " + (
        "features of Model 2" if s["posteriors"] == "model2" else "and of the HMM"
    )


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in cells:
        s, r = cell.settings, cell.result
        paper = PAPER.get((s["model"], s.get("n", 0))) if s.get("posteriors") == "model2" else None
        chosen = f"{r['C']:g}, {r['missed']:g}" if "C" in r else None
        interval = f"{100 * r['low']:.2f} to {100 * r['high']:.2f}"
        scores = [f"{100 * r[name]:.2f}" for name in ("precision", "recall", "aer")]
        relaxed = f"{100 * r['relaxed_aer']:.2f}" if "relaxed_aer" in r else None
        rows.append([name_of(cell), *scores, interval, paper, relaxed, chosen])
    head = ["model", "precision", "recall", "AER", "95% interval", "thesis", "AER by LP", "C, c⁻"]
    note = f"The thesis's best, with IBM Model 4 and the aligner of Liang et al. as features, is {PAPER_BEST}.\n\n"
    if context.quick:
        note = "Quick variant: the embedded sample; the thesis's figures are of other data.\n\n"
    return note + markdown_table(head, rows)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    aer = np.array([100 * cell.result["aer"] for cell in cells])
    below = aer - [100 * cell.result["low"] for cell in cells]
    above = [100 * cell.result["high"] for cell in cells] - aer
    axes.errorbar(aer, range(len(cells)), xerr=[below, above], fmt="o", capsize=3)
    axes.set_yticks(range(len(cells)), [name_of(cell) for cell in cells])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("alignment error rate, with 95% bootstrap intervals")


register(
    "lacostejulien2009-qap",
    run,
    description="Word alignment: matching, fertility, quadratic assignment; 100 and 200 gold pairs",
    paper="Lacoste-Julien (2009), Table 3.1.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
)

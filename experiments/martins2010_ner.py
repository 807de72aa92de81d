"""``martins2010-ner``: named entities of CoNLL-2003, Figure 3 and the first row of Table 1 of Martins et al. (2010).

Three kinds of cells: learning curves of DCA, SGD and L-BFGS for the CRF on the development data (Figure 3); F1 on
both, with bootstrap intervals and the calibration of the marginals, for points (β, γ) between the CRF and the SVM
(Table 1); and two stages, which the paper does not have. Everything is chosen on testa; testb is only scored.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from partwise.data import load_sample, read_columns
from partwise.data.columns import CodedColumn, Columns
from partwise.estimators import SequenceLabeler
from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.metrics import bootstrap, calibration, chunk_scores
from partwise.sequences.stacked import StackedLabeler
from partwise.sequences.tags import convert_all, repair_report

__all__ = ["cells", "draw", "run", "table"]

ORIGIN = "the CoNLL-2003 shared task, English (Tjong Kim Sang and De Meulder 2003); the text is Reuters', for research"

# (β, γ): test F1 and best C in Table 1; the paper leaves two cells empty.
PAPER: dict[tuple[float, float], tuple[float | None, float]] = {
    (1, 0): (85.48, 1),
    (1, 1): (85.54, 10),
    (1, 3): (85.65, 1),
    (1, 5): (85.72, 1),
    (3, 1): (None, 10),
    (5, 1): (None, 10),
    (math.inf, 1): (85.41, 1),
}
GRID = (0.1, 1.0, 10.0)  # values of C for Table 1 and Figure 3; the best on testa counts
COLOURS = {"dca": "tab:blue", "sgd": "tab:orange", "lbfgs": "tab:green"}
STYLES = ("-", "--", ":")
SCHEME = "IOBES"


def cells(context: Context) -> list[dict[str, Any]]:
    quick = context.quick
    passes, folds = (2, 2) if quick else (10, 5)
    found: list[dict[str, Any]] = [{"kind": "stacked", "C": 0.1, "passes": passes, "folds": folds}]
    grid = GRID[1:2] if quick else GRID
    for C in grid:
        for beta, gamma in PAPER:
            passes = 2 if quick else 12
            found.append({"kind": "loss", "beta": str(beta), "gamma": gamma, "C": C, "passes": passes})
    for learner, limit in {"dca": 12, "sgd": 12, "lbfgs": 50}.items():
        for C in grid:
            found.append({"kind": "curve", "learner": learner, "C": C, "passes": 3 if quick else limit})
    return found


@cache
def read(data: Any, quick: bool, part: str) -> tuple[Columns, CodedColumn]:
    """Sentences and tags of train, testa or testb; two needless B- tags of the training data are repaired."""
    if quick:
        columns = load_sample("news", split="train" if part == "train" else "test")
        return columns, convert_all(columns.coded("ner"), "IOB2", SCHEME)
    columns = read_columns(data / f"conll2003/eng.{part}", columns=("word", "pos", "chunk", "ner"))
    return columns, convert_all(repair_report(columns.coded("ner"), "IOB1").repaired, "IOB1", SCHEME)


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """One model: its scores on testa and testb, or its learning curve on testa."""
    train, dev, test = (read(context.data, context.quick, part) for part in ("train", "testa", "testb"))
    if settings["kind"] == "curve":
        model = labeler("ner", (1.0, 0.0), settings["C"], settings["passes"], settings["learner"])
        model.fit(*train, dev=dev)
        curve = [(record.step, record.seconds, record.score) for record in model.result_.trace]
        return {"curve": curve, "status": model.result_.status, "weights": len(model.theta_)}
    if settings["kind"] == "stacked":
        first = labeler("ner", (1.0, 1.0), settings["C"], settings["passes"])
        second = labeler("ner-second", (1.0, 3.0), settings["C"], settings["passes"])
        stacked = StackedLabeler(first, second, folds=settings["folds"]).fit(*train)
        stages = [("testa_first", stacked.first_, dev), ("testb_first", stacked.first_, test)]
        found = {name: scored(stage, data) for name, stage, data in stages}
        return {**found, "testa": scored(stacked, dev), "testb": scored(stacked, test)}
    loss = (float(settings["beta"]), float(settings["gamma"]))
    model = labeler("ner", loss, settings["C"], settings["passes"]).fit(*train)
    return {"testa": scored(model, dev), "testb": scored(model, test), "weights": len(model.theta_)}


def labeler(templates: str, loss: tuple[float, float], C: float, passes: int, learner: str = "dca") -> SequenceLabeler:
    return SequenceLabeler(templates, loss=loss, learner=learner, C=C, max_passes=passes, scheme=SCHEME)


def scored(model: Any, data: tuple[Columns, CodedColumn]) -> dict[str, Any]:
    """Chunk F1 with its interval and, over tokens, the calibration of the most probable label's probability."""
    columns, gold = data
    predicted = model.predict_coded(columns)
    scores, interval = chunk_scores(gold, predicted), bootstrap(gold, predicted)
    marginals = np.concatenate(model.predict_marginals(columns))
    chosen = np.array(model.classes_, dtype=object)[marginals.argmax(axis=1)]
    right = chosen == np.array(gold.vocab, dtype=object)[gold.codes]
    inside = np.array([tag != "O" for tag in gold.vocab])[gold.codes] | (chosen != "O")
    confidence = np.minimum(marginals.max(axis=1), 1.0)
    return {
        "f1": scores.f1,
        "low": interval.low,
        "high": interval.high,
        "types": {name: counts.f1 for name, counts in scores.types.items()},
        "ece": calibration(confidence, right).error,
        "ece_entities": calibration(confidence[inside], right[inside]).error,
    }


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def interval_of(score: dict[str, Any]) -> str:
    return f"{percent(score['low'])} to {percent(score['high'])}"


def best_by_loss(cells: list[Cell]) -> dict[tuple[float, float], Cell]:
    """For each (β, γ) the cell whose C is best on testa."""
    best: dict[tuple[float, float], Cell] = {}
    for cell in cells:
        if cell.settings["kind"] == "loss":
            point = (float(cell.settings["beta"]), float(cell.settings["gamma"]))
            if point not in best or cell.result["testa"]["f1"] > best[point].result["testa"]["f1"]:
                best[point] = cell
    return best


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for (beta, gamma), cell in best_by_loss(cells).items():
        paper, paper_c = PAPER[beta, gamma]
        dev, test = cell.result["testa"], cell.result["testb"]
        rows.append(
            ["∞" if math.isinf(beta) else f"{beta:g}", f"{gamma:g}", f"{cell.settings['C']:g}", percent(dev["f1"]),
             percent(test["f1"]), interval_of(test), f"{test['ece']:.4f}", f"{test['ece_entities']:.4f}", paper,
             f"{paper_c:g}"]
        )  # fmt: skip
    head = [
        "β",
        "γ",
        "C",
        "testa F1",
        "testb F1",
        "95% interval",
        "ECE",
        "ECE, entities",
        "paper F1",
        "paper C",
    ]
    parts = [
        "## Table 1, NER: between CRF and SVM, by DCA",
        markdown_table(head, rows),
        "ECE: expected calibration error of the most probable label's probability on testb, over all tokens and "
        "over those that are in an entity or said to be. A loss with β = ∞ has no probabilities of its own; β = 1 "
        "is used.",
    ]
    for cell in cells:
        if cell.settings["kind"] == "stacked":
            shown = [("first stage", "testa_first", "testb_first"), ("second stage", "testa", "testb")]
            lines = [
                [name, percent(cell.result[a]["f1"]), percent(cell.result[b]["f1"]), interval_of(cell.result[b]),
                 f"{cell.result[b]['ece']:.4f}"]
                for name, a, b in shown
            ]  # fmt: skip
            parts += [
                "## Two stages",
                markdown_table(["stage", "testa F1", "testb F1", "95% interval", "ECE"], lines),
            ]
    curves = [cell for cell in cells if cell.settings["kind"] == "curve"]
    lines = []
    for cell in curves:
        scores = [score for _, _, score in cell.result["curve"]]
        at = int(np.argmax(scores))
        first = cell.result["curve"][0]
        lines.append(
            [cell.settings["learner"], f"{cell.settings['C']:g}", percent(first[2]), percent(scores[at]), at + 1,
             percent(scores[-1]), len(scores), f"{cell.result['curve'][-1][1]:.0f}"]
        )  # fmt: skip
    head = ["learner", "C", "after 1 pass", "best", "at pass", "at the end", "passes", "seconds"]
    parts += [
        "## Figure 3: F1 on testa (paper: L-BFGS ends at 90.53 after 121 iterations)",
        markdown_table(head, lines),
    ]
    if context.quick:
        parts.insert(
            0,
            "Quick variant: a few passes on the embedded sample, whose test part stands for testa and testb alike. "
            "The paper's figures are of other data.",
        )
    return "\n\n".join(parts)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    curves = [cell for cell in cells if cell.settings["kind"] == "curve"]
    values = sorted({cell.settings["C"] for cell in curves})
    for cell in curves:
        learner, C = cell.settings["learner"], cell.settings["C"]
        steps, _, scores = zip(*cell.result["curve"], strict=True)
        style = {"color": COLOURS[learner], "linestyle": STYLES[values.index(C) % len(STYLES)]}
        left.plot(steps, [100 * score for score in scores], label=f"{learner}, C = {C:g}", **style)
    left.set(xlabel="passes over the training data", ylabel="F1 on testa")
    if not context.quick:  # the first passes of L-BFGS would press all the rest together
        highest = max(100 * score for cell in curves for _, _, score in cell.result["curve"])
        left.set_ylim(highest - 8, highest + 0.5)
    left.legend(fontsize="small")
    best = best_by_loss(cells)
    names = [f"{'∞' if math.isinf(beta) else f'{beta:g}'}, {gamma:g}" for beta, gamma in best]
    scores = [cell.result["testb"] for cell in best.values()]
    middle = [100 * score["f1"] for score in scores]
    below = [m - 100 * score["low"] for m, score in zip(middle, scores, strict=True)]
    above = [100 * score["high"] - m for m, score in zip(middle, scores, strict=True)]
    right.errorbar(range(len(best)), middle, yerr=[below, above], fmt="o", capsize=3, label="here")
    paper = [PAPER[point][0] for point in best]
    if not context.quick:
        there = [i for i, value in enumerate(paper) if value is not None]
        right.plot(there, [paper[i] for i in there], "x", color="tab:red", label="paper, with gazetteers")
    right.set_xticks(range(len(best)), names, rotation=45)
    right.set(xlabel="β, γ", ylabel="F1 on testb")
    right.legend(fontsize="small")


register(
    "martins2010-ner",
    run,
    description="Named entities of CoNLL-2003: DCA, SGD and L-BFGS by passes, losses between CRF and SVM, two stages",
    paper="Martins et al. (2010), Learning Structured Classifiers with Dual Coordinate Descent: Figure 3, Table 1.",
    cells=cells,
    needs=[Needs(f"conll2003/eng.{part}", ORIGIN) for part in ("train", "testa", "testb")],
    table=table,
    draw=draw,
)

"""``bartlett2004-wcfg``: weighted context-free grammars, Example 2 of Bartlett et al. (2004), on the Penn sample.

The paper gives the algorithm for grammars and no experiment. Here a grammar with features of anchored rules is learned
by exponentiated gradient (the paper's), dual coordinate ascent and the averaged perceptron, from the first 3,500 trees
of the free sample of the Penn Treebank, and tested on the last 414, once on sentences of up to 15 words and once on
those of up to 40. Beside them stand probabilistic grammars of the same trees: the treebank's rules as they are, and
with parent annotation and markovised rules. All read words alone; parts of speech are found by the parsers. Brackets by
EVALB's rules. Grammar, C and passes were chosen by training on 900 of the first 3,150 trees and scoring 150 of the next
350; the test trees were not looked at.
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from typing import Any

import numpy as np

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.parsing import PhraseParser, PhraseTree, TreebankParser, bracket_scores, load_sample_phrases, read_trees
from partwise.parsing.phrases.metrics import BracketScores

__all__ = ["cells", "draw", "run", "table"]

ORIGIN = "the free 5% sample of the Penn Treebank (Marcus et al. 1993), as in NLTK's collection; for research"
FILE = "ptb_sample/wsj_combined.mrg"
TRAIN, TEST = 3500, 414
LIMITS = (15, 40)
PCFGS = {"treebank PCFG": (1, 99), "PCFG, parents, markovised": (2, 1)}
#: η of EG begins at 1/C² and doubles while the dual rises, from near the gold trees: what four passes need.
EAGER = {"first_eta": 1e4, "growth": 2.0, "head_start": 3.0}
#: Name → (learner, loss, C, passes, options).
LEARNERS: dict[str, tuple[str, Any, float, int, dict[str, float]]] = {
    "DCA, hinge": ("dca", "svm", 0.01, 6, {}),
    "perceptron": ("perceptron", None, 1.0, 6, {}),
    "EG, hinge": ("online_eg", "svm", 0.01, 4, EAGER),
}
#: One more row for the longer sentences: what the shorter training trees alone teach, at a fraction of the time.
SHORT = 25
QUICK_BITS = 14
RESAMPLES = 2000


def cells(context: Context) -> list[dict[str, Any]]:
    limits = LIMITS[:1] if context.quick else LIMITS
    found: list[dict[str, Any]] = []
    for limit in limits:
        found += [{"model": name, "limit": limit} for name in PCFGS]
        for name, (learner, loss, C, passes, options) in LEARNERS.items():
            chosen = {"learner": learner, "loss": loss, "C": C, "passes": 2 if context.quick else passes}
            chosen["options"] = options
            if learner == "dca" and limit > SHORT:
                short = f"{name}, trained on up to {SHORT} words"
                found.append({"model": short, "limit": limit, **chosen, "train_limit": SHORT})
            found.append({"model": name, "limit": limit, **chosen})
    return found


@cache
def trees(data: Any, quick: bool) -> tuple[list[PhraseTree], list[PhraseTree]]:
    if quick:
        return load_sample_phrases("train"), load_sample_phrases("test")
    everything = read_trees(data / FILE)
    return everything[:TRAIN], everything[-TEST:]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Scores on the test sentences, sentence by sentence, and what training took."""
    limits = (settings.get("train_limit", settings["limit"]), settings["limit"])
    train, test = (
        [tree for tree in part if len(tree) <= limit]
        for part, limit in zip(trees(context.data, context.quick), limits, strict=True)
    )
    begin, cpu = time.perf_counter(), time.process_time()
    model: Any
    if settings["model"] in PCFGS:
        vertical, horizontal = PCFGS[settings["model"]]
        model = TreebankParser(vertical=vertical, horizontal=horizontal, threshold=1e-4).fit(train)
    else:
        model = PhraseParser(
            learner=settings["learner"], loss=settings["loss"], C=settings["C"], max_passes=settings["passes"],
            learner_options=settings["options"], bits=QUICK_BITS if context.quick else 24,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a few passes are not the optimum is no surprise
            model.fit(train)
    trained, trained_cpu = time.perf_counter() - begin, time.process_time() - cpu
    result: dict[str, Any] = {
        "train": len(train), "test": len(test), "seconds": trained, "cpu": trained_cpu, **scored(model, test),
        "symbols": len(model.model_.fine.symbols), "rules": len(model.model_.fine.binary),
        "fallbacks": model.fallbacks_,
    }  # fmt: skip
    if isinstance(model, PhraseParser):
        result |= {
            "pruning": model.recall_.share,
            "dual": [record.dual for record in model.result_.trace],
            "weights": int(np.count_nonzero(model.theta_)),
        }
    return result


def scored(model: Any, test: list[PhraseTree]) -> dict[str, Any]:
    """Totals, and the counts of every sentence for intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sentences without a parse are in ``fallbacks``
        predicted = model.predict(test)
    scores: BracketScores = bracket_scores(test, predicted)
    single = [bracket_scores([a], [b]) for a, b in zip(test, predicted, strict=True)]
    return {
        "f1": scores.f1, "precision": scores.precision, "recall": scores.recall, "complete": scores.exact,
        "tagging": scores.tagging, "counts": [[s.matched, s.gold, s.predicted] for s in single],
    }  # fmt: skip


def lead(ours: Cell, theirs: Cell) -> tuple[float, float, float]:
    """(difference of F1, its 95% interval) by resampling test sentences, the same for both."""
    a, b = (np.array(cell.result["counts"], float) for cell in (ours, theirs))
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(a), np.full(len(a), 1 / len(a)), size=RESAMPLES).astype(float)
    f1 = [200 * (weights @ c[:, 0]) / (weights @ (c[:, 1] + c[:, 2])) for c in (a, b)]
    low, high = np.quantile(f1[0] - f1[1], [0.025, 0.975])
    return ours.result["f1"] - theirs.result["f1"], float(low), float(high)


def table(cells: list[Cell], context: Context) -> str:
    parts = []
    for limit in dict.fromkeys(cell.settings["limit"] for cell in cells):
        here = [cell for cell in cells if cell.settings["limit"] == limit]
        base = here[0]
        rows = []
        for cell in here:
            r = cell.result
            difference, low, high = lead(cell, base)
            rows.append([
                cell.settings["model"], r["train"], f"{r['f1']:.2f}",
                "" if cell is base else f"{difference:+.2f} ({low:+.2f} to {high:+.2f})",
                f"{r['precision']:.2f}", f"{r['recall']:.2f}",
                f"{r['complete']:.1f}", f"{r['tagging']:.2f}", r["fallbacks"],
                f"{100 * r['pruning']:.2f}" if "pruning" in r else "", cell.settings.get("C", ""),
                cell.settings.get("passes", ""), f"{r['cpu']:.0f}",
            ])  # fmt: skip
        head = [
            "model", "trees", "F1", "against the first row (95%)", "precision", "recall", "whole trees",
            "tags", "no parse", "pruning keeps, %", "C", "passes", "training, CPU s",
        ]  # fmt: skip
        size = base.result
        parts += [
            f"## Sentences of up to {limit} words",
            f"{size['test']} sentences for testing; parts of speech are the parsers' own.",
            markdown_table(head, rows),
        ]
    if context.quick:
        parts.insert(0, "Quick variant: the embedded sample and two passes; the numbers mean nothing.")
    return "\n\n".join(parts)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    limits = list(dict.fromkeys(cell.settings["limit"] for cell in cells))
    axes = np.atleast_1d(figure.subplots(1, len(limits), sharey=True))
    for axis, limit in zip(axes, limits, strict=True):
        here = [cell for cell in cells if cell.settings["limit"] == limit]
        names = [cell.settings["model"] for cell in here]
        axis.barh(names[::-1], [cell.result["f1"] for cell in here][::-1])
        low = min(cell.result["f1"] for cell in here)
        axis.set(title=f"up to {limit} words", xlabel="labelled F1 on test", xlim=(max(0.0, low - 10), 100))


register(
    "bartlett2004-wcfg",
    run,
    description="Weighted context-free grammars by EG, DCA and perceptron on the Penn sample, against PCFGs",
    paper="Bartlett, Collins, Taskar and McAllester (2004), Exponentiated Gradient Algorithms for Large-margin "
    "Structured Classification: Example 2.",
    cells=cells,
    needs=[Needs(FILE, ORIGIN)],
    table=table,
    draw=draw,
)

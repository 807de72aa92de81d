"""``lacostejulien2009-alignment``: Figure 2.8 of Lacoste-Julien (2009), learners of the matching model.

Gold: 100 training pairs, 347 test pairs, the 37 trial pairs for stopping. Scaling: 500, 1,000 and 5,000 raw pairs whose
links our own HMM gave, its two directions intersected. No regulariser (§2.6): the trial pairs stop each learner.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from _hansards import NEEDS, generative, gold_split, raw

from partwise.alignment.aligner import WordAligner
from partwise.experiment import Cell, Context, markdown_table, register
from partwise.metrics import alignment_scores

__all__ = ["cells", "draw", "run", "table"]

# Test AER at the best point on the validation pairs, gold training set.
PAPER = {"extragradient": 5.6, "projected_gradient": 5.8, "perceptron": 6.1}
LEARNERS: dict[str, dict[str, Any]] = {
    "extragradient": {"learner_options": {"radius": float("inf")}},
    "projected_gradient": {"learner_options": {"radius": 100.0}},
    "perceptron": {"loss": "perceptron"},
}
POSTERIORS = {"model2": ("model1", "model2"), "hmm": ("model1", "model2", "hmm")}


def cells(context: Context) -> list[dict[str, Any]]:
    passes = 20 if context.quick else 500
    found: list[dict[str, Any]] = []
    for posteriors in POSTERIORS:
        for learner in LEARNERS:
            limit = min(passes, 30) if learner == "perceptron" else passes
            found.append({"kind": "gold", "learner": learner, "posteriors": posteriors, "n": 100, "passes": limit})
    for n in () if context.quick else (500, 1000, 5000):
        found.append({"kind": "raw", "learner": "extragradient", "posteriors": "model2", "n": n, "passes": 60})
    return found


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    base = generative(context.data, context.quick)
    n = 60 if context.quick else 100
    X, y, dev_X, dev_y, test_X, test_y = gold_split(context, n, n)
    if settings["kind"] == "raw":
        X = list(raw(context.data, settings["n"]))
        y = _intersected(base, X)
    given = LEARNERS[settings["learner"]]
    aligner = WordAligner(
        base, posteriors=POSTERIORS[settings["posteriors"]], learner=settings["learner"], C=1.0,
        max_passes=settings["passes"], infeasible="nearest", gold_counts=False, **given,
    )  # fmt: skip
    test_parts: list[Any] = []
    curve: list[dict[str, float]] = []

    def watch(record: Any, theta: Any) -> None:
        if not test_parts:
            test_parts.append(aligner.map_(test_X))
        if record.step <= 10 or record.step % 10 == 0:
            found = aligner._decode(test_parts[0], theta)
            error = alignment_scores(test_y, found).aer
            values = {"step": record.step, "norm": float(np.linalg.norm(theta)), "test_aer": error}
            curve.append(values | {"dev_aer": 1 - record.score, "hinge": record.objective or float("nan")})

    begin, cpu = time.perf_counter(), time.process_time()
    aligner.fit(X, y, dev=(dev_X, dev_y), callbacks=[watch])
    result = aligner.result_
    return {
        "aer": alignment_scores(test_y, aligner.predict(test_X)).aer,
        "dev_aer": 1 - result.trace[result.best_step - 1].score,
        "best_pass": result.best_step,
        "passes": len(result.trace),
        "norm": float(np.linalg.norm(result.theta)),
        "edges": int(sum(len(e) * len(f) for e, f in X)),
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - begin,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "curve": curve,
    }


def _intersected(base: Any, X: Any) -> list[list[tuple[int, int]]]:
    """Links that both directions of the HMM find probable."""
    found = base.posteriors(X, "hmm")
    both = zip(found.forward, found.backward, strict=True)
    return [[(int(j), int(k)) for j, k in np.argwhere((a > 0.5) & (b > 0.5))] for a, b in both]


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in cells:
        s, r = cell.settings, cell.result
        data = f"{s['n']} {'gold' if s['kind'] == 'gold' else 'machine-labelled'} pairs, {s['posteriors']} features"
        paper = PAPER[s["learner"]] if s["kind"] == "gold" and s["posteriors"] == "model2" else None
        scores = [f"{100 * r['aer']:.2f}", paper, f"{100 * r['dev_aer']:.2f}"]
        speed = f"{r['cpu_seconds'] / r['passes'] / r['edges'] * 1e6:.2f}"
        rows.append([s["learner"], data, *scores, r["best_pass"], r["edges"], speed])
    head = ["learner", "training data", "test AER", "thesis", "trial AER", "pass", "edges", "CPU µs per edge and pass"]
    note = "Quick variant: the embedded sample; the thesis's figures are of other data.\n\n" if context.quick else ""
    return note + markdown_table(head, rows)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    left, right = figure.subplots(1, 2)
    for cell in cells:
        curve = cell.result["curve"]
        label = f"{cell.settings['learner']}, {cell.settings['n']}, {cell.settings['posteriors']}"
        left.plot([c["norm"] for c in curve], [100 * c["test_aer"] for c in curve], label=label)
        right.plot([c["step"] for c in curve], [100 * c["test_aer"] for c in curve], label=label)
    left.set_xlabel("‖θ‖")
    right.set_xlabel("pass")
    left.set_ylabel("test AER")
    for axes in (left, right):
        axes.set_xscale("log")
    right.legend(fontsize=6)


register(
    "lacostejulien2009-alignment",
    run,
    description="Word alignment by dual extragradient, projected gradient and perceptron; scaling to 5,000 pairs",
    paper="Lacoste-Julien (2009), Figure 2.8 and §2.6.2.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
)

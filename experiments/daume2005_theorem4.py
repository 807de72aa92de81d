"""``daume2005-theorem4``: corrections against the bounds of Daumé & Marcu (2005), on the first 1,000 training inputs.

Joint tagging and chunking with a beam of 5, until a pass brings no correction. Theorem 4 (LaSO-A, B = √8/α, C = √2) and
Theorem 1 (LaSO-P) hold for every u of length 1 that has a margin γ > 0 over the corrections that were made. So every
such u gives a bound, and the one of the widest margin the tightest. There are two here: the weights at convergence, and
those of the widest margin, a support vector machine without errors. Corollary 5 needs no convergence: its row stops
after five passes, and u is the weights found by then. Updates subtract the nodes ahead of the y-good one; with all
nodes of the queue the proofs do not go through (see ``partwise.learners.laso.bounds``). The last column is what the
paper seems to give: the bound with the margin of §3.4, by which the y-good nodes of a search with the weights at
convergence can be down-weighted without an error. The proof does not cover it, for it is not a margin of ℘(Δ).
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from _chunks import NEEDS
from _joint import prepared

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.learners.laso._learning import ALMA, ERRORS, GENERATION, LASO, SCALE, Rule, learn_pass, new_log
from partwise.learners.laso.bounds import (
    RecordedSearch,
    corollary_5,
    projected,
    theorem_1,
    theorem_4,
    widest_margin,
)
from partwise.learners.laso.learner import LaSO

__all__ = ["cells", "draw", "run", "table"]

ALPHA = 0.9


def cells(context: Context) -> list[dict[str, Any]]:
    passes, sentences = (40, 30) if context.quick else (200, 1000)
    slope = (1.0 - ALPHA) / ALPHA  # of C² + 2(1 − α)BC = 1 with B = 1/α
    return [
        {"bound": "Theorem 4", "update": "alma", "margin_scale": math.sqrt(8.0) / ALPHA, "step_scale": math.sqrt(2.0),
         "passes": passes, "sentences": sentences},
        {"bound": "Theorem 1", "update": "perceptron", "passes": passes, "sentences": sentences},
        {"bound": "Corollary 5", "update": "alma", "margin_scale": 1.0 / ALPHA,
         "step_scale": math.sqrt(slope**2 + 1.0) - slope, "passes": 5, "sentences": sentences},
    ]  # fmt: skip


def errors(data: Any, theta: Any, beam: int, down: float) -> float:
    """How many errors the search makes with these weights where y-good nodes are down-weighted; nothing is learned."""
    numbers = np.zeros(8)
    numbers[[GENERATION, SCALE]] = 1.0
    still = Rule(ALMA, LASO, beam, 0.5, 2.0 * down, 1e-200)  # (1 − α)B k^{−1/2} = down, and steps too small to count
    state = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
    wrong, log = 0.0, new_log()
    for i in range(data.m):
        learn_pass(data.pack, np.array([i]), still, numbers, *state, log)
        wrong += numbers[ERRORS]
        numbers[[GENERATION, ERRORS]] = 1.0, 0.0
        if wrong:
            break
    return wrong


def search_margin(data: Any, theta: Any, beam: int) -> float:
    """The largest down-weighting without an error, by bisection; 0 where there is an error without any."""
    unit = theta / max(float(np.linalg.norm(theta)), 1e-300)
    if errors(data, unit, beam, 1e-12):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if errors(data, unit, beam, middle) else (middle, high)
    return low


def least_corollary_5(scores: Any, step_scale: float) -> tuple[float, float]:
    """(the least of eq. (4) over γ, that γ) for one u, from uᵀx of all corrections."""
    found = [
        (corollary_5(margin, float(np.maximum(0.0, margin - scores).sum()), step_scale), float(margin))
        for margin in np.geomspace(1e-4, 1.0, 200)
    ]
    return min(found)


def least_progress(rows: Any, unit: Any, step_scale: float) -> float:
    """min_k uᵀw_k over the run, replayed from its corrections: the proof of Corollary 5 needs it not to be negative."""
    columns = np.unique(rows.indices)
    rows, unit, weights, least = rows[:, columns], unit[columns], np.zeros(len(columns)), 0.0
    for k in range(rows.shape[0]):
        place, value = (array[rows.indptr[k] : rows.indptr[k + 1]] for array in (rows.indices, rows.data))
        weights[place] += step_scale / math.sqrt(k + 1.0) * value
        weights /= max(1.0, float(np.sqrt(weights @ weights)))
        least = min(least, float(unit @ weights))
    return least


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    data = prepared(context, settings["sentences"])[1]
    recorded, beam = RecordedSearch(data), 5
    wanted = {key: settings[key] for key in ("update", "margin_scale", "step_scale") if key in settings}
    learner = LaSO(max_passes=settings["passes"], beam=beam, alpha=ALPHA, rivals="ahead", average=False, **wanted)
    begin = time.process_time()
    result = learner.fit(recorded)
    answer: dict[str, Any] = {
        "training": time.process_time() - begin,
        "converged": result.status == "converged",
        "curve": [record.extra["corrections"] for record in result.trace],
    }
    answer["corrections"] = answer["curve"][-1]
    unit = result.theta / max(float(np.linalg.norm(result.theta)), 1e-300)
    rows = recorded.corrections
    if settings["update"] == "alma":
        rows = projected(rows)
    scores = rows @ unit
    if settings["bound"] == "Corollary 5":
        answer["bound"], answer["margin"] = least_corollary_5(scores, settings["step_scale"])
        answer["progress"] = least_progress(rows, unit, settings["step_scale"])
        return answer
    widest = widest_margin(rows)
    radius = math.sqrt(float(rows.multiply(rows).sum(axis=1).max()))
    margins = {"final": float(scores.min()), "widest": widest.margin}
    one = settings["bound"] == "Theorem 1"
    if not one:
        margins["search"] = search_margin(data, unit, beam)
    bounds = {key: theorem_1(radius, value) if one else theorem_4(value, ALPHA) for key, value in margins.items()}
    answer |= {f"{key}_margin": value for key, value in margins.items()}
    answer |= {f"{key}_bound": value if math.isfinite(value) else None for key, value in bounds.items()}
    return answer | {"radius": radius, "limit": widest.limit, "bound": answer["widest_bound"]}


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for cell in cells:
        r = cell.result
        base = [cell.settings["bound"], len(r["curve"]), "yes" if r["converged"] else "no", f"{r['corrections']:.0f}"]
        if "margin" in r:
            rows.append([*base, f"γ = {r['margin']:.2e}: {r['bound']:.0f}", None, None])
            continue
        shown = [
            f"γ = {r[f'{key}_margin']:.2e}: " + ("none" if r[f"{key}_bound"] is None else f"{r[f'{key}_bound']:.0f}")
            for key in ("final", "widest", "search")
            if f"{key}_margin" in r
        ]
        rows.append([*base, *shown, *[None] * (3 - len(shown))])
    head = ["bound", "passes", "converged", "corrections", "at most, weights at the end", "at most, widest margin",
            "with the margin of the search"]  # fmt: skip
    note = "Quick variant: the embedded sample.\n\n" if context.quick else ""
    paper = "\n\nThe paper: 15932 corrections of at most 17724, with a margin of 1.299e-2 at convergence.\n"
    return note + markdown_table(head, rows) + ("" if context.quick else paper)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    for k, cell in enumerate(cells):
        curve, name = cell.result["curve"], cell.settings["bound"]
        axes.plot(range(1, len(curve) + 1), curve, color=f"C{k}", label=f"corrections, LaSO as in {name}")
        if cell.result["bound"] is not None:
            axes.axhline(cell.result["bound"], color=f"C{k}", linestyle=":", label=f"{name}: at most")
    axes.set_yscale("log")
    axes.set_xlabel("pass")
    axes.legend()


register(
    "daume2005-theorem4",
    run,
    description="Corrections against the bounds of Theorems 1 and 4 and Corollary 5, 1,000 sentences",
    paper="Daumé & Marcu (2005), Theorems 1 and 4, Corollary 5, §4.2.",
    cells=cells,
    needs=NEEDS,
    table=table,
    draw=draw,
)

"""How a model was trained, for any report: the facts of the run, its settings, its learning curves.

``training`` is what :func:`trace` makes of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from partwise.report import charts
from partwise.report.markup import Html, breakable, count, number, percent, tag
from partwise.report.page import Page, details, figure, paragraph, side_by_side, switch

__all__ = ["STATUS", "learning_curves", "setting_facts", "trace", "training_facts"]

STATUS = {
    "converged": "converged",
    "stalled": "stalled: no further step lowered the objective",
    "max_passes": "stopped at the maximum number of passes",
    "stopped": "stopped by a callback",
    "early_stopping": "stopped early: the held-out score no longer rose",
    "interrupted": "interrupted",
}
#: What a trace counts where inference is approximate.
INFERENCE = {
    "unconverged": "inference not converged in the last pass, instances",
    "negative_losses": "steps left out in the last pass, loss below 0",
}


def trace(model: Any) -> dict[str, Any]:
    """The learner's trace, with the best lower bound so far and the gap to it."""
    result = model.result_
    records, bound = [], None
    for record in result.trace:
        if record.dual is not None:
            bound = record.dual if bound is None else max(bound, record.dual)
        line = asdict(record)
        line["bound"] = bound
        line["gap"] = None if record.objective is None or bound is None else record.objective - bound
        records.append(line)
    certificate = result.certificate
    return {
        "records": records,
        "status": result.status,
        "best_step": result.best_step,
        "certificate": None
        if certificate is None
        else {
            "primal": certificate.primal,
            "dual": certificate.dual,
            "gap": certificate.gap,
            "relative_gap": certificate.relative_gap,
        },
    }


def training_facts(run: dict[str, Any], info: Mapping[str, Any]) -> list[tuple[object, object]]:
    """Facts about a training run: first ``info``, then the passes, the objective and the certificate."""
    records = run["records"]
    made: list[tuple[object, object]] = [
        (str(name).replace("_", " "), breakable(_value(name, value))) for name, value in info.items()
    ]
    made += [
        ("passes", count(len(records))),
        ("how it ended", STATUS.get(run["status"], run["status"])),
    ]
    if records:
        made.append(("time of the learner", f"{number(records[-1]['seconds'])} s"))
        best = records[run["best_step"] - 1] if run["best_step"] else None
        if best is not None and best["score"] is not None:
            made.append(("best pass on held-out data", f"{run['best_step']} (score {percent(best['score'])})"))
        if best is not None and best["objective"] is not None:
            made.append(("objective", number(best["objective"], 6)))
        for name, said in INFERENCE.items():
            if name in records[-1]["extra"]:
                made.append((said, count(int(records[-1]["extra"][name]))))
    certificate = run["certificate"]
    if certificate is None:
        made.append(("certificate", "none: this learner gives no lower bound"))
    else:
        gap, share = number(certificate["gap"], 3), certificate["relative_gap"]
        gap += f" ({number(100 * share, 2)}% of the objective)" if share < 1 else ""
        made += [("lower bound on the optimum", number(certificate["dual"], 6)), ("gap at most", gap)]
    return made


def _value(name: object, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    shown = count(value) if isinstance(value, int) else number(value)
    return f"{shown} s" if str(name).endswith(("seconds", "time")) else shown


def setting_facts(settings: Mapping[str, Any]) -> list[tuple[object, object]]:
    """The settings that differ from the defaults; long values can be unfolded."""
    made: list[tuple[object, object]] = []
    for name, value in settings.items():
        if value is None or (name == "verbose"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} = {item}" for key, item in value.items())
        elif isinstance(value, list):
            value = "\n".join(map(str, value)) if name == "templates" else ", ".join(map(str, value))
        text = str(value)
        lines = text.count("\n") + 1
        long = lines > 1 or len(text) > 60
        title = f"{lines} lines" if lines > 1 else f"{text[:40]}…"
        made.append((tag("code", name), details(title, tag("pre", text)) if long else breakable(text)))
    return made


def learning_curves(page: Page, training: dict[str, Any]) -> None:
    """A section with the curves of a trace: objective, bound, gap, held-out score."""
    records = training["records"]
    section = page.section("training", "Learning curves")
    if not records:
        section.add("The model holds no trace of its training.")
        return
    views = [
        (f"by {name}", _curve_charts(records, training["best_step"], key, axis))
        for name, key, axis in (("pass", "step", "pass"), ("time", "seconds", "seconds"))
    ]
    section.add(switch("curves", "Show", views))
    section.add(
        tag(
            "p",
            "The gap is the objective minus the best lower bound on the optimum known by then: no weights "
            "can be better by more than that."
            if any(record["gap"] is not None for record in records)
            else "This learner gives no lower bound on the optimum, so there is no gap to show.",
            class_="note",
        )
    )


def _curve_charts(records: list[dict[str, Any]], best: int, key: str, axis: str) -> Html:
    x = [record[key] for record in records]
    mark = (x[best - 1], f"kept: pass {best}") if 0 < best < len(records) else None

    def curve(name: str, values: list[float | None]) -> charts.Series:
        return charts.Series(name, x, values)

    def has(values: list[float | None]) -> bool:
        return any(value is not None for value in values)

    made = []
    objective = [record["objective"] for record in records]
    if has(objective):
        real = [value for value in objective if value is not None]
        floor = min(real) - 0.5 * (max(real) - min(real))
        bound = [None if r["bound"] is None or r["bound"] < floor else r["bound"] for r in records]
        series = [curve("objective", objective)] + ([curve("lower bound", bound)] if has(bound) else [])
        made.append(("Objective", series, None if len(series) == 1 else False))
    else:
        loss = [record["extra"].get("online_loss") for record in records]
        if has(loss):
            made.append(("Loss during the pass", [curve("loss", loss)], None))
    gap = [record["gap"] if record["gap"] is not None and record["gap"] > 0 else None for record in records]
    if has(gap):
        made.append(("Gap to the optimum, at most", [curve("gap", gap)], None))
    score = [None if record["score"] is None else 100 * record["score"] for record in records]
    if has(score):
        made.append(("Score on held-out data, in percent", [curve("score", score)], False))
    norm = [record["extra"].get("gradient_norm") for record in records]
    if has(norm):
        made.append(("Norm of the gradient", [curve("norm", norm)], None))
    curves = [
        figure(charts.line_chart(s, title=f"{name} by {axis}", x_label=axis, y_label=name, log=log, mark=mark))
        for name, s, log in made
    ]
    return side_by_side(*curves) if curves else paragraph("The trace holds no numbers.")

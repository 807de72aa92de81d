"""The report on a sequence labeller: how good it is, how it was trained, what it learned, where it errs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from partwise._version import __version__
from partwise.estimators.base import params_to_json
from partwise.report import charts
from partwise.report import sequence_pictures as pictures
from partwise.report.evaluation import LEVEL, Evaluation, top_features, trace
from partwise.report.markup import Html, count, join, number, percent, plain, tag
from partwise.report.mistakes import mistakes
from partwise.report.page import (
    Page,
    cards,
    details,
    facts,
    figure,
    paragraph,
    side_by_side,
    switch,
)
from partwise.storage import check_writable

__all__ = ["sequence_report"]

STATUS = {
    "converged": "converged",
    "stalled": "stalled: no step lowered the objective any more",
    "max_passes": "stopped at the largest number of passes",
    "stopped": "stopped by a callback",
    "early_stopping": "stopped early: the held-out score no longer rose",
    "interrupted": "interrupted",
}


def sequence_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str = "Sequence labelling",
    train_info: Mapping[str, Any] | None = None,
    max_errors: int | None = 200,
    words: Any = None,
) -> None:
    """Write one HTML page on a fitted :class:`SequenceLabeler` and how it labels X.

    The page holds everything it needs and opens offline. Its numbers are also in it as JSON, in the element
    ``report-data``.

    Parameters
    ----------
    path
        File to write; an existing one is replaced only when the new one is complete.
    model : SequenceLabeler, fitted
    X, y
        Sequences that it was not trained on, and their labels.
    train_info : mapping, optional
        More to tell about the training, such as {"sentences": 8936, "tokens": 211727, "seconds": 9.5}.
    max_errors : int or None
        At most so many of the sentences with a wrong label are listed, spread evenly over the data; None
        for all.
    words : one sequence of strings each, optional
        What to show as the tokens where X does not hold words.
    """
    check_writable(path)
    found = Evaluation.of(model, X, y)
    known = [label for label in found.gold_labels() if label in set(found.classes)]
    known += [label for label in found.classes if label not in set(known)]
    data: dict[str, Any] = {
        "partwise": __version__,
        "title": title,
        "settings": params_to_json(model.get_params(deep=False)),
        "train_info": dict(train_info or {}),
        "chunks": found.tags,
        "counts": found.counts(),
        "level": LEVEL,
        "scores": found.scores(),
        "overall": found.overall(),
        "types": found.types(),
        "confusion": found.confusion(),
        "transitions": {"labels": found.classes, "weights": model.transition_weights()},
        "features": top_features(model, known[: pictures.MOST_LABELS]),
        "calibration": found.reliability(),
        "training": trace(model),
        "errors": mistakes(model, X, found, max_errors, words),
    }
    data["counts"]["weights"] = len(model.theta_)
    data["counts"]["attributes"] = int(model.layout_.n_attributes)
    data = plain(data)
    build(data, known).write(path)


def build(data: dict[str, Any], frequent: list[str]) -> Page:
    """The page of these numbers; ``frequent`` are the model's labels, the frequent ones first."""
    counts = data["counts"]
    subtitle = f"{count(counts['sentences'])} sentences, {count(counts['tokens'])} tokens, {counts['labels']} labels"
    page = Page(data["title"], subtitle)
    _summary(page, data)
    _curves(page, data["training"])
    pictures.types(page, data)
    pictures.confusion(page, data["confusion"])
    pictures.transitions(page, data["transitions"], frequent)
    pictures.features(page, data["features"], counts["labels"])
    pictures.reliability(page, data["calibration"])
    _errors(page, data)
    page.embed("report-data", data)
    page.script("sequence.js")
    return page


def _interval(score: Mapping[str, float], level: float) -> str:
    return f"{percent(score['low'])} – {percent(score['high'])} ({level:.0%})"


def _summary(page: Page, data: dict[str, Any]) -> None:
    counts, scores, level = data["counts"], data["scores"], data["level"]
    names = {"f1": "Chunk F1", "precision": "Precision", "recall": "Recall", "accuracy": "Token accuracy"}
    right = counts["sentences"] - counts["wrong_sentences"]
    items: list[tuple[object, object, object]] = [
        (names[metric], percent(score["estimate"]), _interval(score, level)) for metric, score in scores.items()
    ]
    share = percent(right / counts["sentences"], 1)
    items.append(("Sentences all right", f"{share} %", f"{count(right)} of {count(counts['sentences'])}"))
    error = data["calibration"]["error"]
    items.append(("Calibration error", percent(error), "percentage points, expected"))
    lead = f"Intervals are {level:.0%} percentile bootstraps over sentences. All scores are in percent."
    section = page.section("summary", "Summary", lead)
    tested: list[tuple[object, object]] = [
        ("sentences", count(counts["sentences"])),
        ("tokens", count(counts["tokens"])),
        ("wrong labels", count(counts["wrong_tokens"])),
    ]
    if data["chunks"]:
        overall = data["overall"]
        tested += [(f"chunks {key}", count(overall[key])) for key in ("gold", "predicted", "correct")]
    if counts["unknown_labels"]:
        tested.append(("gold labels never seen in training", count(counts["unknown_labels"])))
    section.add(
        cards(items),
        side_by_side(
            facts(tested, heading="Test data"),
            facts(_training(data), heading="Training"),
            facts(_settings(data["settings"]), heading="Settings"),
            class_="three",
        ),
    )


def _training(data: dict[str, Any]) -> list[tuple[object, object]]:
    run, records = data["training"], data["training"]["records"]
    made: list[tuple[object, object]] = [
        (str(name).replace("_", " "), _value(name, value)) for name, value in data["train_info"].items()
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
    certificate = run["certificate"]
    if certificate is None:
        made.append(("certificate", "none: this learner gives no lower bound"))
    else:
        gap, share = number(certificate["gap"], 3), certificate["relative_gap"]
        gap += f" ({number(100 * share, 2)} % of the objective)" if share < 1 else ""
        made += [("lower bound of the optimum", number(certificate["dual"], 6)), ("gap at most", gap)]
    made += [
        ("attributes", count(data["counts"]["attributes"])),
        ("weights", count(data["counts"]["weights"])),
    ]
    return made


def _value(name: object, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    shown = count(value) if isinstance(value, int) else number(value)
    return f"{shown} s" if str(name).endswith(("seconds", "time")) else shown


def _settings(settings: dict[str, Any]) -> list[tuple[object, object]]:
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
        made.append((tag("code", name), details(title, tag("pre", text)) if long else text))
    return made


def _curves(page: Page, training: dict[str, Any]) -> None:
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
            "The gap is the objective minus the best lower bound of the optimum known by then: no weights "
            "can be better by more than that."
            if any(record["gap"] is not None for record in records)
            else "This learner gives no lower bound of the optimum, so there is no gap to show.",
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


def _errors(page: Page, data: dict[str, Any]) -> None:
    counts, errors = data["counts"], data["errors"]
    section = page.section("errors", "Errors")
    if not counts["wrong_sentences"]:
        section.add("Every label is right.")
        return
    shown = len(errors["sentences"])
    lead = (
        f"{count(counts['wrong_sentences'])} of {count(counts['sentences'])} sentences have at least one "
        f"wrong label, {count(counts['wrong_tokens'])} labels are wrong."
    )
    if shown < counts["wrong_sentences"]:
        lead += (
            f" Here are {count(shown)} of these sentences, spread evenly over the data, with "
            f"{count(errors['wrong_tokens'])} wrong labels."
        )
    keys = [
        tag("span", "unsure", class_="key unsure"),
        " right, the deeper the less probable; ",
        tag("span", "wrong", class_="key wrong"),
        " wrong, the deeper the surer the model was, with ",
        join(tag("b", "gold", class_="gold"), " above ", tag("b", "predicted", class_="bad")),
        ". Choose a wrong word to see what decided.",
    ]
    section.add(lead, tag("p", *keys, class_="note"))
    section.add(tag("noscript", "The list of errors needs JavaScript."), tag("div", id="error-list"))

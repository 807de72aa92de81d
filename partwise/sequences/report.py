"""The report on a sequence labeller: its scores, its training, its weights and its errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from partwise._version import __version__
from partwise.estimation.base import params_to_json
from partwise.report.markup import count, join, percent, plain, tag
from partwise.report.page import Page, cards, facts, side_by_side
from partwise.report.training import learning_curves, setting_facts, trace, training_facts
from partwise.sequences import report_pictures as pictures
from partwise.sequences.evaluation import LEVEL, Evaluation, top_features
from partwise.sequences.mistakes import mistakes
from partwise.sequences.tags import legal_transitions
from partwise.storage import check_writable

__all__ = ["sequence_report"]


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
        More facts about the training, such as {"sentences": 8936, "tokens": 211727, "seconds": 9.5}.
    max_errors : int or None
        Maximum number of sentences with a wrong label to list, spread evenly over the data; None
        for all.
    words : one sequence of strings each, optional
        What to show as the tokens if X does not hold words.
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
        "transitions": transitions(model, found.classes),
        "features": top_features(model, known[: pictures.MOST_LABELS]),
        "calibration": found.reliability(),
        "training": trace(model),
        "errors": mistakes(model, X, found, max_errors, words),
    }
    data["counts"]["weights"] = len(model.theta_)
    data["counts"]["attributes"] = int(model.layout_.n_attributes)
    data = plain(data)
    build(data, known).write(path)


def transitions(model: Any, labels: list[str]) -> dict[str, Any]:
    """The weights of label pairs, and which of them the tag scheme allows; None if there is no scheme."""
    scheme = getattr(model, "scheme", None)
    allowed = None if scheme is None else legal_transitions(labels, scheme).allowed
    return {"labels": labels, "weights": model.transition_weights(), "allowed": allowed}


def build(data: dict[str, Any], frequent: list[str]) -> Page:
    """The page of these numbers; ``frequent`` are the model's labels, the frequent ones first."""
    counts = data["counts"]
    subtitle = f"{count(counts['sentences'])} sentences, {count(counts['tokens'])} tokens, {counts['labels']} labels"
    page = Page(data["title"], subtitle)
    _summary(page, data)
    learning_curves(page, data["training"])
    pictures.types(page, data)
    pictures.confusion(page, data["confusion"])
    pictures.transitions(page, data["transitions"], frequent)
    pictures.features(page, data["features"], counts["labels"])
    pictures.reliability(page, data["calibration"])
    _errors(page, data)
    page.embed("report-data", data)
    page.script("report.js", "partwise.sequences")
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
    items.append(("Sentences fully correct", f"{share}%", f"{count(right)} of {count(counts['sentences'])}"))
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
    sizes: list[tuple[object, object]] = [(name, count(counts[name])) for name in ("attributes", "weights")]
    section.add(
        cards(items),
        side_by_side(
            facts(tested, heading="Test data"),
            facts([*training_facts(data["training"], data["train_info"]), *sizes], heading="Training"),
            facts(setting_facts(data["settings"]), heading="Settings"),
            class_="three",
        ),
    )


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
        " correct (darker: less probable); ",
        tag("span", "wrong", class_="key wrong"),
        " wrong (darker: more confident), with ",
        join(tag("b", "gold", class_="gold"), " above ", tag("b", "predicted", class_="bad")),
        ". Click a wrong word to see why.",
    ]
    section.add(lead, tag("p", *keys, class_="note"))
    section.add(tag("noscript", "The list of errors needs JavaScript."), tag("div", id="error-list"))

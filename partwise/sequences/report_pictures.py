"""The pictures and tables of a sequence report: scores, confusion, transitions, features, reliability.

Each function adds one section to a page, from the numbers that the page also holds as JSON.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import numpy as np

from partwise.report import charts
from partwise.report.markup import Html, count, number, percent, tag
from partwise.report.page import Page, details, figure, side_by_side, table

__all__ = ["confusion", "features", "reliability", "transitions", "types"]

MOST_LABELS = 48  # in a heat map, and with lists of features


def types(page: Page, data: dict[str, Any]) -> None:
    """Precision, recall and F1 of each type of chunk, or of each label."""
    what = "Chunk type" if data["chunks"] else "Label"
    heading = "Scores by type" if data["chunks"] else "Scores by label"
    lead = "A chunk is right if its start, its end and its type all are." if data["chunks"] else ""
    section = page.section("types", heading, lead)

    def row(line: dict[str, Any]) -> list[object]:
        rates = [percent(line[key]) for key in ("precision", "recall", "f1")]
        return [line["name"], *rates, *(count(line[key]) for key in ("gold", "predicted", "correct"))]

    header = [what, "precision", "recall", "F1", "gold", "predicted", "correct"]
    largest = sorted(data["types"], key=lambda line: -line["gold"])[:30]
    tips = [
        ", ".join(
            [f"{line['name']}: F1 {percent(line['f1'])}"]
            + [f"{key} {percent(line[key])}" for key in ("precision", "recall")]
        )
        for line in largest
    ]
    f1 = [line["f1"] for line in largest]
    bars = charts.bar_chart(
        [line["name"] or "(no type)" for line in largest], f1, title="F1 by type", tips=tips, top=1.0,
        texts=[percent(value) for value in f1], width=460,
    )  # fmt: skip
    caption = "F1, the most frequent first." if len(largest) == len(data["types"]) else "F1 of the 30 most frequent."
    rows = [row(line) for line in sorted(data["types"], key=lambda line: -line["gold"])]
    section.add(side_by_side(table(header, rows, total=row(data["overall"])), figure(bars, caption), class_="wide"))


def confusion(page: Page, data: dict[str, Any]) -> None:
    """What was mistaken for what."""
    labels, matrix = data["labels"], np.array(data["matrix"])
    section = page.section("confusion", "Confusion of labels", "What the tokens of each gold label were labelled as.")
    off = matrix - np.diag(np.diag(matrix))
    weight = off.sum(axis=0) + off.sum(axis=1)
    shown = np.sort(np.argsort(-weight, kind="stable")[:MOST_LABELS])
    part, names = matrix[np.ix_(shown, shown)], [labels[k] for k in shown]
    total = matrix.sum(axis=1)[shown]
    share = part / np.maximum(total, 1)[:, None]
    shades = np.where(np.eye(len(shown), dtype=bool), 0.55 * share, -np.sqrt(share))

    def tip(i: int, j: int) -> str:
        return (
            f"gold {names[i]}, predicted {names[j]}: {count(int(part[i, j]))} of {count(int(total[i]))} "
            f"({percent(share[i, j], 1)}%)"
        )

    picture = charts.heat_map(
        shades, names, names, title="Confusion matrix of labels", row_title="gold", column_title="predicted",
        text=lambda i, j: _compact(int(part[i, j])) if part[i, j] else "", tip=tip,
        link=lambda i, j: _filter(names[i], names[j]) if i != j and part[i, j] else None,
    )  # fmt: skip
    caption = "Red: mistakes (darker: a larger share of the row). Each red cell links to its sentences."
    if len(shown) < len(labels):
        caption += f" The {len(shown)} of {len(labels)} labels with the most mistakes."
    pairs = sorted(np.argwhere(off), key=lambda ij: -off[ij[0], ij[1]])[:15]
    rows = [
        [
            labels[i],
            labels[j],
            tag("a", count(int(off[i, j])), href=_filter(labels[i], labels[j])),
            percent(off[i, j] / matrix[i].sum(), 1),
        ]
        for i, j in pairs
    ]
    if not rows:
        section.add(figure(picture, caption), "No label was mistaken for another.")
        return
    most = table(
        ["gold", "predicted", "tokens", "% of gold"],
        rows,
        align="llrr",
        caption="The most frequent confusions",
    )
    section.add(side_by_side(figure(picture, caption), most, class_="picture"))


def _filter(gold: str, predicted: str) -> str:
    """The fragment that makes the list of errors show these confusions."""
    sides = [quote(label, safe="", errors="replace") for label in (gold, predicted)]
    return f"#gold={sides[0]}&predicted={sides[1]}"


def _signed(value: float, sign: str, digits: int) -> str:
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def _compact(n: int) -> str:
    return str(n) if n < 10_000 else f"{n / 1000:.0f}k"


def transitions(page: Page, data: dict[str, Any], frequent: list[str]) -> None:
    """The weights of label pairs."""
    labels, weights = data["labels"], np.array(data["weights"], float)
    lead = "The weight of each label (column) after each other (row)."
    section = page.section("transitions", "Transitions", lead)
    chosen = set(frequent[:MOST_LABELS])
    shown = [k for k, label in enumerate(labels) if label in chosen]
    part, names = weights[np.ix_(shown, shown)], [labels[k] for k in shown]
    forbidden = np.zeros(weights.shape, bool) if data["allowed"] is None else ~np.array(data["allowed"], bool)
    barred = forbidden[np.ix_(shown, shown)]
    largest = float(np.abs(part).max(initial=0.0))
    digits = 1 if largest >= 1 else 2
    picture = charts.heat_map(
        part / (largest or 1.0), names, names, title="Weights of the transitions", row_title="label",
        column_title="next label",
        text=lambda i, j: _signed(part[i, j], "", digits) if abs(part[i, j]) >= 0.5 * 10.0**-digits else "",
        tip=lambda i, j: f"{names[i]} → {names[j]}: {'never' if barred[i, j] else number(float(part[i, j]))}",
        barred=lambda i, j: bool(barred[i, j]),
    )  # fmt: skip
    caption = f"Blue transitions are favoured, red ones avoided; the deepest shade is ±{number(largest, 3)}."
    if forbidden.any():
        caption += f" Crossed out: {count(int(forbidden.sum()))} transitions that the tag scheme forbids."
    if len(shown) < len(labels):
        caption += f" The {len(shown)} most frequent of {len(labels)} labels."
    order = np.argsort(weights, axis=None, kind="stable")
    ends = (
        [k for k in order[::-1] if weights.flat[k] > 0 and not forbidden.flat[k]][:10],
        [k for k in order if weights.flat[k] < 0 and not forbidden.flat[k]][:10],
    )
    lists = []
    for title, chosen_ones in zip(("Most favoured", "Most avoided"), ends, strict=True):
        rows = [
            [
                f"{labels[k // len(labels)]} → {labels[k % len(labels)]}",
                _signed(weights.flat[k], "+", 3),
            ]
            for k in chosen_ones
        ]
        if rows:
            lists.append(table(["transition", "weight"], rows, caption=title, sortable=False))
    section.add(side_by_side(figure(picture, caption), side_by_side(*lists, class_="two"), class_="picture"))


def features(page: Page, data: list[dict[str, Any]], n_labels: int) -> None:
    """The attributes that favour each label and those that count against it."""
    lead = "The attributes with the largest and the smallest weights for each label; frequent labels first."
    if len(data) < n_labels:
        lead += f" The {len(data)} most frequent of {n_labels} labels."
    section = page.section("features", "Top features", lead)
    made = [_feature_card(one) for one in data]
    section.add(tag("div", *made[:6], class_="features"))
    if len(made) > 6:
        section.add(details(f"{len(made) - 6} more labels", tag("div", *made[6:], class_="features")))


def _feature_card(one: dict[str, Any]) -> Html:
    largest = max((abs(weight) for _, weight in one["for"] + one["against"]), default=1.0)
    rows = []
    for kind in ("for", "against"):
        for name, weight in one[kind]:
            width = f"--w:{100 * abs(weight) / largest:.1f}%"
            cells = (
                tag("td", _attribute(name), class_="feature"),
                tag("td", _signed(weight, "+", 2), class_="r"),
            )
            rows.append(tag("tr", *cells, class_=kind, style=width))
    summary = f"{count(one['weights'])} weights"
    heading = tag("h3", tag("span", one["label"], class_="label"), " ", tag("small", summary))
    return tag("div", heading, tag("table", tag("tbody", *rows)), class_="weights")


def _attribute(name: str) -> Html:
    """Where there is no room for both, the template is cut short, not the value."""
    template, equals, value = name.partition("=")
    return tag("div", tag("span", template), tag("span", equals + value, class_="given"), title=name)


def reliability(page: Page, data: dict[str, Any]) -> None:
    """Whether the probabilities are calibrated."""
    lead = (
        "When the model gives a label a probability of 80%, is it right 80% of the time? Points on the "
        f"diagonal say yes. Expected calibration error: {percent(data['error'])} percentage points."
    )
    section = page.section("reliability", "Reliability of the probabilities", lead)
    picture = charts.reliability_diagram(
        data["edges"], data["counts"], data["confidence"], data["accuracy"],
        title="Reliability diagram",
    )  # fmt: skip
    caption = (
        "Each token's likeliest label by its marginal probability; bars are 95% intervals. Above the "
        "diagonal the model is too modest, below it too sure."
    )
    edges = data["edges"]
    columns = zip(data["counts"], data["confidence"], data["accuracy"], strict=True)
    rows: list[list[object]] = []
    for k, (n, p, right) in enumerate(columns):
        if n:
            gap = _signed(100 * (right - p), "+", 2)
            rows.append([f"{edges[k]:.3f} – {edges[k + 1]:.3f}", count(n), percent(p), percent(right), gap])
    bins = table(["probability", "tokens", "mean %", "right %", "difference"], rows, caption="The bins")
    section.add(side_by_side(figure(picture, caption), bins, class_="picture"))

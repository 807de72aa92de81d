"""The pictures and tables of a topic report; each function adds one section to a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.report import charts
from partwise.report import maps as chart_maps
from partwise.report.markup import Html, count, join, number, percent, tag
from partwise.report.page import Page, details, figure, side_by_side, table

__all__ = ["confusion", "curves", "errors", "maps", "strong", "words"]

MOST_CLASSES = 48


def curves(page: Page, data: dict[str, Any]) -> None:
    """Log-likelihood by sweep; validation error and loss by round of learning T."""
    made = []
    if data["trace"]:
        x = [entry["iteration"] for entry in data["trace"]]
        y = [entry["log_likelihood"] for entry in data["trace"]]
        name = "log-likelihood per token"
        made.append(
            charts.line_chart([charts.Series(name, x, y)], title=name, x_label="sweep", y_label=name, log=False)
        )
    for key, name in (("error", "validation error"), ("loss", "validation loss, −log p(y|w)")):
        series = [
            charts.Series(
                f"η = {number(tried['step_size'])}",
                [entry["round"] for entry in tried["history"]],
                [entry[key] for entry in tried["history"]],
            )
            for tried in data["history"]
        ]
        if series:
            made.append(charts.line_chart(series, title=name, x_label="round", y_label=name, log=False))
    section = page.section("training", "Learning curves")
    if not made:
        section.add("Mean field without learning of T leaves no curve.")
        return
    section.add(side_by_side(*map(figure, made)))
    if data["history"]:
        section.add("T is learned by ascent with each step size η; the round with the lowest validation error is kept.")


def _scored(words: list[list[Any]]) -> Html:
    return join(*(join(word, " ", tag("small", number(score, 2))) for word, score in words), between=", ")


def words(page: Page, data: dict[str, Any]) -> None:
    """Top words of the groups, and of each topic."""
    lead = (
        "The number after each word says how many times likelier than uniform it is in the group: V/|G| · Σ Φ over the "
        "topics of the group."
    )
    section = page.section("words", "Words", lead)
    rows = [[g["name"], len(g["topics"]), _scored(g["words"])] for g in data["groups"]]
    ranked = sorted(data["topics"], key=lambda topic: -topic["share"])
    each = [[t["topic"], percent(t["share"], 1), _scored(t["words"])] for t in ranked]
    if data["classes"]:
        section.add(table(["group", "topics", "words"], rows, align="lrl"))
        section.add(details("Each topic by itself", table(["topic", "share, %", "words"], each, align="lrl")))
    else:
        section.add(table(["topic", "share, %", "words"], each, align="lrl"))


def strong(page: Page, data: dict[str, Any]) -> None:
    """s_k^y = Σ_l T_kl, strong topics by it, and where each topic is found."""
    found, classes = data["strong"], data["classes"][:MOST_CLASSES]
    lead = (
        "A topic is strong for a class if its row of T sums to at least 0.9 there and to at most 0.4 for all others; "
        "it is shared if that is at least 0.9 for all."
    )
    section = page.section("strong", "Strong topics", lead)
    rows = [
        [name, len(ks), ", ".join(map(str, ks[:30])) + (" …" if len(ks) > 30 else "")]
        for name, ks in [*found["classes"].items(), ("shared", found["shared"])]
    ]
    section.add(table(["strong for", "how many", "topics"], rows, align="lrl"))
    shares = [[0.0 if value is None else value for value in row] for row in found["shares"][:MOST_CLASSES]]
    if not any(map(any, shares)):
        return
    matrix = np.array(shares)
    order = np.argsort(-matrix.max(axis=0), kind="stable")[:60].tolist()
    part = matrix[:, sorted(order)]
    names = [str(k) for k in sorted(order)]
    top = max(float(part.max()), 1e-9)
    picture = charts.heat_map(
        np.sqrt(part / top), classes, names, title="Shares of the topics by class", row_title="class",
        column_title="topic", text=lambda i, j: "",
        tip=lambda i, j: f"{classes[i]}, topic {names[j]}: {percent(part[i, j], 1)}%",
    )  # fmt: skip
    caption = "Mean share of each topic in the documents of each class" + (
        " (the largest 60)." if len(order) == 60 else "."
    )
    section.add(figure(picture, caption))


def confusion(page: Page, data: dict[str, Any]) -> None:
    """What was taken for what."""
    labels, matrix = data["confusion"]["labels"], np.array(data["confusion"]["matrix"])
    section = page.section("confusion", "Confusion of classes", "What the documents of each class were taken for.")
    off = matrix - np.diag(np.diag(matrix))
    shown = np.sort(np.argsort(-(off.sum(axis=0) + off.sum(axis=1)), kind="stable")[:MOST_CLASSES])
    part, names = matrix[np.ix_(shown, shown)], [labels[k] for k in shown]
    total = matrix.sum(axis=1)[shown]
    share = part / np.maximum(total, 1)[:, None]
    shades = np.where(np.eye(len(shown), dtype=bool), 0.55 * share, -np.sqrt(share))
    picture = charts.heat_map(
        shades, names, names, title="Confusion matrix of classes", row_title="label", column_title="predicted",
        text=lambda i, j: str(part[i, j]) if part[i, j] else "",
        tip=lambda i, j: f"{names[i]} taken for {names[j]}: {count(int(part[i, j]))} of {count(int(total[i]))}",
    )  # fmt: skip
    pairs = sorted(np.argwhere(off).tolist(), key=lambda ij: -off[ij[0], ij[1]])[:15]
    rows = [[labels[i], labels[j], count(int(off[i, j])), percent(off[i, j] / matrix[i].sum(), 1)] for i, j in pairs]
    if not rows:
        section.add(figure(picture), "No document was taken for one of another class.")
        return
    header = ["label", "predicted", "documents", "% of label"]
    most = table(header, rows, align="llrr", caption="The most frequent confusions")
    section.add(side_by_side(figure(picture, "Red: mistakes."), most, class_="picture"))


def maps(page: Page, data: dict[str, Any]) -> None:
    """The documents in the plane, by the model's representation and by LDA's."""
    found = data["maps"]
    section = page.section("map", "Map of the documents", "t-SNE of the topic proportions; a point is a document.")
    if not found:
        section.add("Too few documents for a map.")
        return
    figures = [
        figure(
            chart_maps.scatter(
                view["points"], found["groups"], len(found["names"]), found["tips"], title=f"Map by {view['name']}"
            ),
            view["name"],
        )
        for view in found["views"]
    ]
    section.add(side_by_side(*figures))
    if found["names"]:
        section.add(figure(chart_maps.legend(found["names"])))


def errors(page: Page, mistakes: list[dict[str, Any]]) -> None:
    """The mistakes that the model was surest of."""
    section = page.section("errors", "Surest mistakes")
    if not mistakes:
        section.add("Every document is in its class.")
        return
    rows = [[e["label"], e["predicted"], percent(e["probability"], 1), e["text"]] for e in mistakes]
    section.add(table(["label", "predicted", "probability, %", "text"], rows, align="llrl"))

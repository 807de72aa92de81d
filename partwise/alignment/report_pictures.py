"""The pictures and tables of an alignment report: curves against ‖w‖, weights, lengths, grids.

Each function adds one section to a page, from the numbers that the page also holds as JSON.
"""

from __future__ import annotations

from typing import Any

from partwise.alignment.report_grid import alignment_grid
from partwise.report import charts
from partwise.report.markup import Html, count, number, percent, tag
from partwise.report.page import Page, details, figure, side_by_side, switch, table

__all__ = ["lengths", "likelihoods", "pairs", "path_of_weights", "top_weights"]

MOST_WEIGHTS = 20
OPEN = 3  # grids that are unfolded at first


def path_of_weights(page: Page, records: list[dict[str, Any]]) -> None:
    """AER and hinge loss against the norm of the weights and the pass, as in Figure 2.8."""
    known = [record for record in records if record["extra"].get("norm", 0.0) > 0]  # without weights nothing is linked
    if not known:
        return
    lead = (
        "The mean hinge loss on the training pairs and, with held-out pairs, their error rate, as the weights changed."
    )
    section = page.section("path", "Loss and error along the way", lead)
    curves = (
        ("Hinge loss", [record.get("hinge") for record in known]),
        ("AER on held-out pairs, in percent", [None if r["score"] is None else 100 * (1 - r["score"]) for r in known]),
    )
    views = []
    norms, steps = [r["extra"]["norm"] for r in known], [r["step"] for r in known]
    axes = [("‖w‖", norms), ("pass", steps)]
    if norms != sorted(norms):  # cutting planes jump: there the way by passes is the easier one to read
        axes.reverse()
    for axis, xs in axes:
        made = [
            figure(
                charts.line_chart(
                    [charts.Series(name, xs, ys)], title=f"{name} by {axis}", x_label=axis, y_label=name, log=False
                )
            )
            for name, ys in curves
            if any(y is not None for y in ys)
        ]
        views.append((f"by {axis}", side_by_side(*made)))
    section.add(switch("path", "Show", views))


def top_weights(page: Page, weights: list[dict[str, Any]]) -> None:
    """The strongest weights for and against a link."""
    lead = "The features with the largest and the smallest weights. Penalties of fertility enter with negative values."
    section = page.section("weights", "Top features", lead)
    if not weights:
        section.add("Every weight is zero.")
        return
    charts_made = []
    for title, sign in (("For a link", 1), ("Against it", -1)):
        chosen = [w for w in weights if sign * w["weight"] > 0][:MOST_WEIGHTS]
        if chosen:
            names, values = [w["name"] for w in chosen], [w["weight"] for w in chosen]
            tips = [f"{w['name']}: {number(w['weight'])}" for w in chosen]
            charts_made.append(figure(charts.bar_chart(names, values, title=title, tips=tips), title))
    rows = [[w["name"], number(w["weight"])] for w in weights]
    section.add(
        side_by_side(*charts_made), details(f"All {count(len(rows))} weights", table(["feature", "weight"], rows))
    )


def likelihoods(page: Page, trace: list[dict[str, Any]]) -> None:
    """How the likelihood of raw text rose, model by model."""
    section = page.section("training", "Learning curves", "Log-likelihood per word before each iteration of EM.")
    keys = [key for key in (trace[0] if trace else {}) if key not in ("model", "iteration", "seconds")]
    made = []
    for model in dict.fromkeys(line["model"] for line in trace):
        lines = [line for line in trace if line["model"] == model]
        xs = [line["iteration"] for line in lines]
        series = [charts.Series(key.replace("_", " "), xs, [line[key] for line in lines]) for key in keys]
        title = f"{model}: log-likelihood per word"
        made.append(figure(charts.line_chart(series, title=title, x_label="iteration", y_label=title, log=False)))
    section.add(side_by_side(*made) if made else "The model holds no trace of its training.")


def lengths(page: Page, rows: list[dict[str, Any]]) -> None:
    """The scores by sentence length."""
    section = page.section("lengths", "Scores by length", "A pair is as long as the longer of its sentences.")
    header = ["words", "pairs", "AER", "precision", "recall", "predicted", "sure"]
    cells = [
        [
            row["words"],
            count(row["pairs"]),
            *(percent(row[key]) for key in ("aer", "precision", "recall")),
            *(count(row[key]) for key in ("predicted", "sure")),
        ]
        for row in rows
    ]
    bars = charts.bar_chart(
        [row["words"] for row in rows], [row["aer"] for row in rows], title="AER by length",
        texts=[percent(row["aer"]) for row in rows], width=460,
    )  # fmt: skip
    section.add(side_by_side(table(header, cells), figure(bars, "AER, in percent."), class_="wide"))


def pairs(page: Page, shown: list[dict[str, Any]], n_pairs: int) -> None:
    """The grids: the worst pairs and some random ones."""
    worst = sum(not pair["random"] for pair in shown)
    lead = (
        f"{count(worst)} of {count(n_pairs)} pairs with the most errors, {count(len(shown) - worst)} others at random. "
        "Square outlines are sure links, round ones possible; filled squares are predicted, green where right, red and "
        "crossed out where wrong; a dashed outline is a sure link that was missed."
    )
    section = page.section("pairs", "Sentence pairs", lead)
    section.add(
        tag("div", *(_pair(pair, k < OPEN and not pair["random"]) for k, pair in enumerate(shown)), id="pair-list")
    )


def _pair(pair: dict[str, Any], opened: bool) -> Html:
    name = f"Pair {pair['number']}"
    errors = f"{pair['wrong']} wrong, {pair['missed']} missed" if pair["wrong"] + pair["missed"] else "all right"
    words = " ".join(pair["source"]) + " ||| " + " ".join(pair["target"])
    grid = alignment_grid(
        pair["source"], pair["target"], _links(pair["predicted"]), _links(pair["sure"]), _links(pair["possible"]),
        title=f"{name}: source words down, target words across",
    )  # fmt: skip
    summary = f"{name}{', at random' if pair['random'] else ''}: AER {percent(pair['aer'])}, {errors}"
    return tag(
        "details",
        tag("summary", summary),
        tag("p", words, class_="note"),
        figure(grid),
        open=opened,
        data_words=words,
        data_wrong=pair["wrong"],
        data_missed=pair["missed"],
        data_place=pair["place"],
    )


def _links(pairs_: list[list[int]]) -> list[tuple[int, int]]:
    return [(j, k) for j, k in pairs_]

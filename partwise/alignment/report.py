"""The report on a word aligner: its scores, its training, its weights and its errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise._version import __version__
from partwise.alignment import report_pictures as pictures
from partwise.alignment.gold import gold_links
from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.scores import AlignmentScores, alignment_bootstrap, alignment_scores
from partwise.estimation.base import params_to_json
from partwise.exceptions import InputError
from partwise.metrics.resampling import resample
from partwise.report.markup import count, percent, plain
from partwise.report.page import Page, cards, facts, side_by_side
from partwise.report.training import learning_curves, setting_facts, trace, training_facts
from partwise.storage import check_writable

__all__ = ["alignment_report"]

LEVEL = 0.95
RESAMPLES = 1000
LENGTHS = (5, 10, 15, 20, 30, 40)  # upper ends of the groups of sentence lengths


def alignment_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Sequence[tuple[Sequence[str], Sequence[str]]],
    y: Sequence[Any],
    *,
    title: str = "Word alignment",
    train_info: Mapping[str, Any] | None = None,
    numbers: Sequence[int] | None = None,
    worst: int = 20,
    others: int = 10,
    random_state: int = 0,
) -> None:
    """Write one HTML page on a fitted aligner and how it aligns the pairs X.

    The page holds everything it needs and opens offline. Its numbers are also in it as JSON, in the element
    ``report-data``.

    Parameters
    ----------
    path
        File to write; an existing one is replaced only when the new one is complete.
    model : WordAligner or GenerativeAligner, fitted
    X, y
        Sentence pairs that it was not trained on, and their gold links: GoldLinks, links, or (sure, possible).
    train_info : mapping, optional
        More facts about the training, such as {"pairs": 100, "seconds": 9.5}.
    numbers : one int per pair, optional
        What to call the pairs; by default 1, 2, …
    worst, others : int
        How many pairs with the most errors, and how many others at random, to draw as grids.
    """
    check_writable(path)
    gold = gold_links(X, y)
    if not gold:
        raise InputError("there are no sentence pairs to report on")
    called = list(range(1, len(gold) + 1)) if numbers is None else list(numbers)
    if len(called) != len(gold):
        raise InputError(f"{len(gold)} pairs but {len(called)} numbers")
    predicted = [[(int(j), int(k)) for j, k in links] for links in model.predict(X)]
    scores = alignment_scores(gold, predicted)
    data: dict[str, Any] = {
        "partwise": __version__,
        "title": title,
        "settings": settings(model),
        "train_info": dict(train_info or {}),
        "level": LEVEL,
        "counts": counts(X, gold, scores),
        "scores": intervals(gold, predicted, scores),
        "lengths": by_length(X, scores),
        "training": training(model),
        "likelihood": None if hasattr(model, "result_") else model.trace_,
        "weights": weights(model),
        "pairs": grids(X, gold, predicted, scores, called, worst, others, random_state),
    }
    build(plain(data)).write(path)


def settings(model: Any) -> dict[str, Any]:
    """The settings that differ from the defaults; those without a JSON form as text."""
    params = params_to_json(model.get_params(deep=False))
    said = {
        name: value["repr"] if isinstance(value, dict) and "repr" in value else value for name, value in params.items()
    }
    return {name: value for name, value in said.items() if value not in ([], None)}


def counts(X: Any, gold: Sequence[GoldLinks], scores: AlignmentScores) -> dict[str, int]:
    """Sizes of the data, and how much of it is correct."""
    linked, sure, both, possible = scores.counts.sum(axis=0).tolist()
    return {
        "pairs": len(gold),
        "source_words": sum(len(source) for source, _ in X),
        "target_words": sum(len(target) for _, target in X),
        "sure": sure,
        "possible": sum(len(links.possible) for links in gold) - sure,
        "predicted": linked,
        "wrong": linked - possible,
        "missed": sure - both,
    }


def intervals(
    gold: Sequence[GoldLinks], predicted: Sequence[Sequence[Link]], scores: AlignmentScores
) -> dict[str, dict[str, float]]:
    """AER, precision, recall and F with percentile intervals over resampled pairs."""
    found = {}
    for metric in ("aer", "precision", "recall"):
        interval = alignment_bootstrap(gold, predicted, metric, RESAMPLES, LEVEL)
        found[metric] = {"estimate": interval.estimate, "low": interval.low, "high": interval.high}
    linked, sure, both, possible = resample(scores.counts, RESAMPLES, 0).T
    precision, recall = possible / np.maximum(linked, 1), both / np.maximum(sure, 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    low, high = np.quantile(f1, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    found["f1"] = {"estimate": scores.f1, "low": float(low), "high": float(high)}
    return found


def by_length(X: Any, scores: AlignmentScores) -> list[dict[str, Any]]:
    """The scores of pairs of similar lengths; a pair's length is that of its longer sentence."""
    length = np.array([max(len(source), len(target)) for source, target in X])
    rows = []
    for low, high in zip((0, *LENGTHS), (*LENGTHS, np.inf), strict=True):
        here = (length > low) & (length <= high)
        if here.any():
            linked, sure, both, possible = scores.counts[here].sum(axis=0).tolist()
            rows.append(
                {
                    "words": f"{low + 1} – {int(high)}" if np.isfinite(high) else f"more than {low}",
                    "pairs": int(here.sum()),
                    "predicted": linked,
                    "sure": sure,
                    "aer": 1.0 - (both + possible) / max(linked + sure, 1),
                    "precision": possible / max(linked, 1),
                    "recall": both / max(sure, 1),
                }
            )
    return rows


def training(model: Any) -> dict[str, Any] | None:
    """The trace of a trained aligner; if it minimised the hinge loss, with its mean where the norm is known."""
    if not hasattr(model, "result_"):
        return None
    found = trace(model)
    learner, loss = model._settings()
    if loss.smooth:
        return found
    regularised = getattr(learner, "radius", None) is None
    for record in found["records"]:
        norm = record["extra"].get("norm")
        if norm is not None and record["objective"] is not None:
            penalty = norm**2 / (2 * learner.C * model.n_pairs_) if regularised else 0.0
            record["hinge"] = record["objective"] - penalty
    return found


def weights(model: Any) -> list[dict[str, Any]] | None:
    """Every weight that is not zero, the largest in size first."""
    if not hasattr(model, "theta_"):
        return None
    order = np.argsort(-np.abs(model.theta_), kind="stable")
    return [{"name": model.feature_names_[d], "weight": float(model.theta_[d])} for d in order if model.theta_[d]]


def grids(
    X: Any,
    gold: Sequence[GoldLinks],
    predicted: Sequence[Sequence[Link]],
    scores: AlignmentScores,
    numbers: Sequence[int],
    worst: int,
    others: int,
    random_state: int,
) -> list[dict[str, Any]]:
    """The pairs to show: those with the most errors, then some others at random."""
    linked, sure, both, possible = scores.counts.T
    errors = (linked - possible) + (sure - both)
    ranked = np.argsort(-errors, kind="stable")
    first = [int(i) for i in ranked[:worst] if errors[i] > 0]
    rest = np.setdiff1d(np.arange(len(gold)), first)
    chosen = np.random.default_rng(random_state).permutation(rest)[:others]
    made = []
    for i in [*first, *sorted(int(i) for i in chosen)]:
        source, target = X[i]
        made.append(
            {
                "number": numbers[i],
                "place": i,
                "random": i not in first,
                "source": list(source),
                "target": list(target),
                "predicted": sorted(predicted[i]),
                "sure": sorted(gold[i].sure),
                "possible": sorted(gold[i].possible - gold[i].sure),
                "wrong": int(linked[i] - possible[i]),
                "missed": int(sure[i] - both[i]),
                "aer": 1.0 - float(both[i] + possible[i]) / max(int(linked[i] + sure[i]), 1),
            }
        )
    return made


def build(data: dict[str, Any]) -> Page:
    """The page of these numbers."""
    many = data["counts"]
    words = f"{count(many['source_words'])} source and {count(many['target_words'])} target words"
    page = Page(data["title"], f"{count(many['pairs'])} sentence pairs, {words}")
    _summary(page, data)
    if data["training"] is not None:
        learning_curves(page, data["training"])
        pictures.path_of_weights(page, data["training"]["records"])
        pictures.top_weights(page, data["weights"])
    else:
        pictures.likelihoods(page, data["likelihood"])
    pictures.lengths(page, data["lengths"])
    pictures.pairs(page, data["pairs"], many["pairs"])
    page.embed("report-data", data)
    page.script("report.js", "partwise.alignment")
    return page


def _summary(page: Page, data: dict[str, Any]) -> None:
    many, level = data["counts"], data["level"]
    names = {"aer": "Alignment error rate", "precision": "Precision", "recall": "Recall", "f1": "F"}
    items: list[tuple[object, object, object]] = []
    for metric, name in names.items():
        score = data["scores"][metric]
        items.append(
            (name, percent(score["estimate"]), f"{percent(score['low'])} – {percent(score['high'])} ({level:.0%})")
        )
    lead = (
        f"Intervals are {level:.0%} percentile bootstraps over sentence pairs. All scores are in percent. "
        "AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), precision |A ∩ P| / |A|, recall |A ∩ S| / |S|."
    )
    section = page.section("summary", "Summary", lead)
    tested: list[tuple[object, object]] = [
        ("sentence pairs", count(many["pairs"])),
        ("sure links", count(many["sure"])),
        ("links that are only possible", count(many["possible"])),
        ("predicted links", count(many["predicted"])),
        ("wrong ones", count(many["wrong"])),
        ("sure links missed", count(many["missed"])),
    ]
    blocks = [facts(tested, heading="Test data")]
    if data["training"] is not None:
        run = [
            *training_facts(data["training"], data["train_info"]),
            ("weights, not zero", count(len(data["weights"]))),
        ]
        blocks.append(facts(run, heading="Training"))
    blocks.append(facts(setting_facts(data["settings"]), heading="Settings"))
    section.add(cards(items), side_by_side(*blocks, class_="three"))

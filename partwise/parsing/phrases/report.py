"""The report on a phrase parser: its scores, its calibration, the phrases it misses, and pictures of its errors."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise._version import __version__
from partwise.estimation.base import params_to_json
from partwise.exceptions import InputError
from partwise.metrics.probabilities import calibration
from partwise.parsing.phrases.metrics import bracket_scores
from partwise.parsing.phrases.pictures import phrase_svg
from partwise.parsing.phrases.trees import PhraseTree
from partwise.report import charts
from partwise.report.markup import count, percent, plain
from partwise.report.page import Page, cards, details, facts, figure, side_by_side, table
from partwise.report.training import learning_curves, setting_facts, trace, training_facts
from partwise.storage import check_writable

__all__ = ["phrase_report"]


def phrase_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Sequence[PhraseTree],
    *,
    title: str = "Phrase parsing",
    train_info: Mapping[str, Any] | None = None,
    pictures: int = 12,
) -> None:
    """Write one HTML page on a fitted parser and how it parses the words of the gold trees X.

    The page holds everything it needs and opens offline; its numbers are also in it as JSON, in ``report-data``.

    Parameters
    ----------
    path
        File to write; an existing one is replaced only when the new one is complete.
    model : PhraseParser, fitted
    X : sequence of PhraseTree
    train_info : mapping, optional
        More facts about the training.
    pictures : int
        How many sentences to draw: those with the most wrong phrases.
    """
    check_writable(path)
    gold = list(X)
    if not gold:
        raise InputError("there are no trees to report on")
    found = model.predict(gold)
    fallbacks, mass = model.fallbacks_, model.predict_marginals(gold, min_probability=0.0)
    scores, run = bracket_scores(gold, found), trace(model)
    recall = model.model_.recall(gold)
    page = Page(title, f"{count(len(gold))} sentences, {count(sum(map(len, gold)))} words")
    headline = [
        ("Labelled F1", f"{scores.f1:.2f}", f"precision {scores.precision:.2f}, recall {scores.recall:.2f}"),
        ("Whole trees", f"{scores.exact:.1f}", "percent of sentences"),
        ("Parts of speech", f"{scores.tagging:.2f}", "percent right"),
        ("No parse", count(fallbacks), "sentences with a flat tree instead"),
        ("Pruning", f"{100 * recall.share:.2f}", "percent of the gold nodes kept by the coarse pass"),
    ]
    section = page.section("scores", "Scores").add(cards(headline))
    settings = params_to_json(model.get_params(deep=False))
    section.add(
        side_by_side(
            facts(training_facts(run, dict(train_info or {})), heading="Training"),
            facts(setting_facts(settings), heading="Settings"),
        )
    )
    learning_curves(page, run)
    error = _probabilities(page, gold, found, mass)
    section = page.section("labels", "Labels", "Recall and precision per label.")
    section.add(table(["label", "gold", "recall", "found", "precision"], _by_label(gold, found), align="lrrrr"))
    _draw(page, gold, found, mass, pictures)
    page.embed(
        "report-data",
        plain({
            "partwise": __version__, "f1": scores.f1, "precision": scores.precision, "recall": scores.recall,
            "complete": scores.exact, "tagging": scores.tagging, "fallbacks": fallbacks, "sentences": scores.sentences,
            "pruning_recall": recall.share, "calibration_error": error, "training": run,
        }),
    )  # fmt: skip
    page.write(path)


def _probabilities(page: Page, gold: Sequence[PhraseTree], found: Sequence[PhraseTree], mass: Sequence[Any]) -> float:
    chosen, right = [], []
    for ours, theirs, known in zip(gold, found, mass, strict=True):
        probability = {tuple(c[:3]): c.probability for c in known}
        true = set(ours.constituents())
        for constituent in theirs.constituents():
            if constituent in probability:
                chosen.append(min(probability[constituent], 1.0))
                right.append(constituent in true)
    reliability = calibration(np.array(chosen), np.array(right, bool))
    lead = "Are phrases correct as often as their probabilities say? Expected calibration error "
    page.section("calibration", "Probabilities", f"{lead}{percent(reliability.error)} percentage points.").add(
        figure(
            charts.reliability_diagram(
                reliability.edges.tolist(), reliability.counts.tolist(), plain(reliability.confidence),
                plain(reliability.accuracy), title="Right phrases against their probabilities", of="the phrase",
            )
        )
    )  # fmt: skip
    return float(reliability.error)


def _by_label(gold: Sequence[PhraseTree], found: Sequence[PhraseTree]) -> list[list[str]]:
    wanted: Counter[str] = Counter()
    made: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for ours, theirs in zip(gold, found, strict=True):
        a, b = Counter(ours.constituents()), Counter(theirs.constituents())
        for counter, part in ((wanted, a), (made, b), (both, a & b)):
            for (_, _, label), n in part.items():
                counter[label] += n
    rows = []
    for label in sorted({*wanted, *made}, key=lambda name: (-wanted[name], name)):
        share = [f"{100 * both[label] / total[label]:.1f}" if total[label] else "–" for total in (wanted, made)]
        rows.append([label, count(wanted[label]), share[0], count(made[label]), share[1]])
    return rows


def _draw(page: Page, gold: Sequence[PhraseTree], found: Sequence[PhraseTree], mass: Sequence[Any], most: int) -> None:
    pairs = [(Counter(a.constituents()), Counter(b.constituents())) for a, b in zip(gold, found, strict=True)]
    errors = [(a - b).total() + (b - a).total() for a, b in pairs]
    worst = [i for i in np.argsort([-e for e in errors], kind="stable").tolist() if errors[i] > 0][:most]
    lead = "Wrong phrases are red, missing ones are listed; darker labels are more probable."
    section = page.section("trees", "Trees with the most errors", lead)
    if not worst:
        section.add("Every tree is right.")
    for place, i in enumerate(worst):
        picture = phrase_svg(found[i], marginals=mass[i], gold=gold[i])
        name = f"{gold[i].source or f'sentence {i + 1}'}: {errors[i]} phrases wrong or missing"
        section.add(details(name, figure(picture), open_=place < 3))

"""The report on a dependency parser: its scores, its calibration, its confusions, and pictures of its errors."""

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
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.metrics import attachment_scores
from partwise.parsing.pictures import dependency_svg
from partwise.report import charts
from partwise.report.markup import count, percent, plain
from partwise.report.page import Page, cards, details, facts, figure, side_by_side, table
from partwise.report.training import learning_curves, setting_facts, trace, training_facts
from partwise.storage import check_writable

__all__ = ["parsing_report"]

LENGTHS = (1, 2, 3, 6, 10, 20)  # upper ends of the groups of arc lengths


def parsing_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Sequence[DependencySentence],
    *,
    title: str = "Dependency parsing",
    train_info: Mapping[str, Any] | None = None,
    pictures: int = 12,
) -> None:
    """Write one HTML page on a fitted parser and how it parses the sentences X, which have gold trees.

    The page holds everything it needs and opens offline; its numbers are also in it as JSON, in ``report-data``.

    Parameters
    ----------
    path
        File to write; an existing one is replaced only when the new one is complete.
    model : DependencyParser, SecondOrderParser or TransitionParser, fitted
        What has no probabilities is left out for the last.
    X : sequence of DependencySentence
    train_info : mapping, optional
        More facts about the training.
    pictures : int
        How many sentences to draw: those with the most wrong heads.
    """
    check_writable(path)
    gold = list(X)
    if not gold:
        raise InputError("there are no sentences to report on")
    found = model.predict(gold)
    mass, account = None, None
    if hasattr(model, "predict_beliefs"):
        mass, account = model.predict_beliefs(gold)
    elif hasattr(model, "predict_marginals"):
        mass = model.predict_marginals(gold)
    scores, bare = (attachment_scores(gold, found, punctuation=p) for p in (True, False))
    run = trace(model)
    page = Page(title, f"{count(len(gold))} sentences, {count(scores.words)} words")
    headline = [
        ("UAS", f"{scores.uas:.2f}", f"{bare.uas:.2f} without punctuation"),
        ("LAS", f"{scores.las:.2f}", f"{bare.las:.2f} without punctuation"),
        ("CLAS", f"{scores.clas:.2f}", "content words, universal relations"),
        ("Whole trees", f"{scores.complete:.1f}", "percent of sentences"),
    ]
    section = page.section("scores", "Scores").add(cards(headline))
    settings = params_to_json(model.get_params(deep=False))
    section.add(
        side_by_side(
            facts(training_facts(run, dict(train_info or {})), heading="Training"),
            facts(setting_facts(settings), heading="Settings"),
        )
    )
    certified = model.certificates(gold) if hasattr(model, "certificates") else None
    if certified is not None:
        share = 100 * float(certified.optimal.mean())
        section.add(f"{share:.1f}% of the trees are proved to be the best over the arcs that pruning left.")
    if account is not None:
        section.add(
            f"Belief propagation did not converge on {count(int((~account.converged).sum()))} of {count(len(gold))} "
            f"sentences ({account.rounds.mean():.1f} rounds on average); where it did not, probabilities are those of "
            "the last round."
        )
    learning_curves(page, run)
    error = None if mass is None else _reliability(page, gold, found, mass)
    relations = _by_relation(gold, found)
    section = page.section(
        "relations",
        "Relations",
        "Per gold relation: correct heads and labels, and the most frequent mistake.",
    )
    section.add(table(["relation", "words", "UAS", "LAS", "most frequent mistake"], relations, align="lrrrl"))
    section.add(table(["arc length", "words", "UAS"], _by_length(gold, found)))
    _draw(page, gold, found, mass, pictures)
    page.embed(
        "report-data",
        plain({
            "partwise": __version__, "uas": scores.uas, "las": scores.las, "clas": scores.clas,
            "uas_without_punctuation": bare.uas, "las_without_punctuation": bare.las, "words": scores.words,
            "sentences": scores.sentences, "calibration_error": error, "training": run,
            "proved_optimal": None if certified is None else float(certified.optimal.mean()),
            "propagation_not_converged": None if account is None else int((~account.converged).sum()),
        }),
    )  # fmt: skip
    page.write(path)


def _reliability(page: Page, gold: Sequence[Any], found: Sequence[Any], mass: Sequence[Any]) -> float:
    """The section on probabilities; returns the calibration error."""
    chosen = np.concatenate([p[t.heads, np.arange(len(t))] for p, t in zip(mass, found, strict=True)])
    right = np.concatenate([t.heads == s.heads for s, t in zip(gold, found, strict=True)])
    reliability = calibration(np.clip(chosen, 0.0, 1.0), right)
    lead = "Are heads correct as often as their probabilities say? Expected calibration error "
    page.section("calibration", "Probabilities", f"{lead}{percent(reliability.error)} percentage points.").add(
        figure(
            charts.reliability_diagram(
                reliability.edges.tolist(), reliability.counts.tolist(), plain(reliability.confidence),
                plain(reliability.accuracy), title="Right heads against their probabilities", of="the head",
            )
        )
    )  # fmt: skip
    return float(reliability.error)


def _by_relation(gold: Sequence[DependencySentence], found: Sequence[DependencySentence]) -> list[list[str]]:
    counts: dict[str, list[int]] = {}
    instead: dict[str, Counter[str]] = {}
    for ours, theirs in zip(gold, found, strict=True):
        for a, b in zip(ours.words, theirs.words, strict=True):
            cell = counts.setdefault(a[7], [0, 0, 0])
            cell[0] += 1
            cell[1] += a[6] == b[6]
            cell[2] += a[6:8] == b[6:8]
            if a[7] != b[7]:
                instead.setdefault(a[7], Counter())[b[7]] += 1
    rows = []
    for relation, (n, heads, both) in sorted(counts.items(), key=lambda item: -item[1][0]):
        mistake = instead[relation].most_common(1)[0] if relation in instead else None
        said = "–" if mistake is None else f"{mistake[0]} ({mistake[1]})"
        rows.append([relation, count(n), f"{100 * heads / n:.1f}", f"{100 * both / n:.1f}", said])
    return rows


def _by_length(gold: Sequence[DependencySentence], found: Sequence[DependencySentence]) -> list[list[str]]:
    heads = np.concatenate([s.heads for s in gold])
    words = np.concatenate([np.arange(1, len(s) + 1) for s in gold])
    right = heads == np.concatenate([s.heads for s in found])
    length, rows = np.abs(heads - words), [["root", heads == 0]]
    low = 1
    for high in (*LENGTHS, None):
        name = f"{low}" if high == low else f"{low} and more" if high is None else f"{low}–{high}"
        inside = (heads > 0) & (length >= low) & (length <= (high or length.max()))
        rows.append([name, inside])
        low = (high or 0) + 1
    return [[name, count(int(m.sum())), f"{100 * right[m].mean():.1f}"] for name, m in rows if m.any()]


def _draw(page: Page, gold: Sequence[DependencySentence], found: Sequence[Any], mass: Any, most: int) -> None:
    errors = [int((a.heads != b.heads).sum()) for a, b in zip(gold, found, strict=True)]
    worst = [i for i in np.argsort([-e for e in errors], kind="stable").tolist() if errors[i] > 0][:most]
    lead = "Wrong arcs are red, the right ones dashed"
    if mass is not None:
        lead += "; darker arcs are more probable, thin arcs were not chosen"
    section = page.section("trees", "Trees with the most wrong heads", f"{lead}.")
    if not worst:
        section.add("Every head is right.")
    for place, i in enumerate(worst):
        picture = dependency_svg(found[i], marginals=None if mass is None else mass[i], gold=gold[i])
        name = f"{gold[i].source or f'sentence {i + 1}'}: {errors[i]} of {len(gold[i])} heads are wrong"
        section.add(details(name, figure(picture), open_=place < 3))

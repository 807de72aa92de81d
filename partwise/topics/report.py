"""The report on a topic model: its words, its strong topics, its mistakes, and maps of documents beside LDA's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise._version import __version__
from partwise.exceptions import InputError
from partwise.report.markup import count, number, percent, plain
from partwise.report.page import Page, cards, facts, side_by_side
from partwise.storage import check_writable
from partwise.topics import report_pictures as pictures

if TYPE_CHECKING:
    from partwise.topics import TextTopics
    from partwise.topics.texts import Inferred

__all__ = ["topic_report"]

MOST_ERRORS = 40


def topic_report(
    path: str | os.PathLike[str],
    model: TextTopics,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    title: str = "Topics",
    most_points: int = 1000,
    compare: bool = True,
) -> None:
    """Write one HTML page on a fitted :class:`TextTopics` and its predictions for these texts.

    The page holds everything it needs and opens offline. Its numbers are also in it as JSON, in the element
    ``report-data``.

    Parameters
    ----------
    path
        File to write; an existing one is replaced only when the new one is complete.
    texts, labels
        Documents, best ones that the model was not fitted to, and their classes, None where unknown.
    most_points : int
        Maximum number of documents on the maps, spread evenly over the data.
    compare : bool
        Put the map of an LDA with as many topics, fitted to the same documents, beside the map of DiscLDA
        (Lacoste-Julien 2009, Figures 4.5, 4.6, 4.8).
    """
    check_writable(path)
    if labels is not None and len(labels) != len(texts):
        raise InputError(f"got {len(labels)} labels for {len(texts)} documents")
    found = model.infer(texts)
    given = [None] * len(texts) if labels is None else labels
    known = [None if label is None else str(label) for label in given]
    data: dict[str, Any] = {
        "partwise": __version__,
        "title": title,
        "kind": model.model_.kind,
        "settings": model.model_.to_state()[0]["parameters"],
        "info": model.info_,
        "counts": _counts(model, found, known),
        "groups": _groups(model),
        "topics": _topics(model, found),
        "trace": model.trace_,
        "history": getattr(model.model_, "history_", []),
        "strong": _strong(model, found, known),
        "classes": [str(name) for name in model.classes_] if model.discriminative else [],
        "confusion": _confusion(model, found, known),
        "errors": _errors(model, found, known, texts),
        "maps": _maps(model, found, texts, known, most_points, compare),
    }
    build(plain(data)).write(path)


def build(data: dict[str, Any]) -> Page:
    """The page of these numbers."""
    counts = data["counts"]
    subtitle = f"{count(counts['documents'])} documents, {count(counts['tokens'])} words, {counts['topics']} topics"
    page = Page(data["title"], subtitle)
    _summary(page, data)
    pictures.curves(page, data)
    pictures.words(page, data)
    if data["strong"]:
        pictures.strong(page, data)
    if data["confusion"]:
        pictures.confusion(page, data)
    pictures.maps(page, data)
    if data["confusion"]:
        pictures.errors(page, data["errors"])
    page.embed("report-data", data)
    return page


def _counts(model: TextTopics, found: Inferred, known: list[str | None]) -> dict[str, Any]:
    counts = {
        "documents": len(found.words),
        "tokens": int(found.words.sum()),
        "empty": int((found.words == 0).sum()),
        "vocabulary": len(model.counter_.vocabulary_),
        "topics": int(found.topics.shape[1]),
        "labelled": sum(label is not None for label in known),
    }
    if found.probabilities is not None and counts["labelled"]:
        chosen = model.classes_[found.probabilities.argmax(axis=1)]
        counts["wrong"] = sum(label is not None and str(p) != label for p, label in zip(chosen, known, strict=True))
    return counts


def _summary(page: Page, data: dict[str, Any]) -> None:
    counts, settings = data["counts"], data["settings"]
    lead = "Topics are distributions over words; a document is a mixture of them."
    if data["classes"]:
        lead += " Each class has topics of its own, and all share some."
    section = page.section("summary", "Summary", lead)
    items: list[tuple[object, object, object]] = []
    if "wrong" in counts:
        share = counts["wrong"] / counts["labelled"]
        items.append(("Error", f"{percent(share)}%", f"{count(counts['wrong'])} of {count(counts['labelled'])}"))
    items.append(("Topics", counts["topics"], f"{len(data['classes'])} classes" if data["classes"] else "no classes"))
    items.append(("Vocabulary", count(counts["vocabulary"]), "words"))
    if data["trace"]:
        items.append(("Log-likelihood", number(data["trace"][-1]["log_likelihood"]), "per training token, last sample"))
    tested: list[tuple[object, object]] = [
        ("documents", count(counts["documents"])),
        ("words of the vocabulary", count(counts["tokens"])),
        ("documents without any", count(counts["empty"])),
        ("documents with a label", count(counts["labelled"])),
    ]
    trained = [(str(name).replace("_", " "), str(value)) for name, value in data["info"].items()]
    chosen = [(name, _short(value)) for name, value in settings.items() if value is not None]
    section.add(
        cards(items),
        side_by_side(
            facts(tested, heading="These documents"),
            *([facts(trained, heading="Training")] if trained else []),
            facts(chosen, heading="Settings"),
            class_="three",
        ),
    )


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _groups(model: TextTopics, n_words: int = 12) -> list[dict[str, Any]]:
    return [
        {"name": group.name, "topics": group.topics, "words": list(map(list, model.top_words(group.topics, n_words)))}
        for group in model.groups()
    ]


def _topics(model: TextTopics, found: Inferred, n_words: int = 10) -> list[dict[str, Any]]:
    """Each topic: its words and its mean share in these documents."""
    shares = found.topics.mean(axis=0)
    return [
        {"topic": k, "share": float(shares[k]), "words": list(map(list, model.top_words([k], n_words)))}
        for k in range(len(shares))
    ]


def _strong(model: TextTopics, found: Inferred, known: list[str | None]) -> dict[str, Any]:
    """s_k^y of a learned T, the strong topics by it (§4.4.3), and each topic's mean share by class (Table 4.6)."""
    if not model.discriminative:
        return {}
    from partwise.topics import strong_topics

    transformation = model.model_.transformation_
    strong = strong_topics(transformation)
    classes = [str(name) for name in model.classes_]
    members = [[d for d, label in enumerate(known) if label == name] for name in classes]
    shares = [found.topics[rows].mean(axis=0) if rows else np.full(found.topics.shape[1], np.nan) for rows in members]
    return {
        "strength": transformation.sum(axis=2),
        "classes": dict(zip(classes, strong.classes, strict=True)),
        "shared": strong.shared,
        "shares": shares,
    }


def _confusion(model: TextTopics, found: Inferred, known: list[str | None]) -> dict[str, Any]:
    if found.probabilities is None or not any(label is not None for label in known):
        return {}
    chosen = model.classes_[found.probabilities.argmax(axis=1)]
    names = [str(name) for name in model.classes_]
    names += sorted({label for label in known if label is not None} - set(names))
    place = {name: k for k, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), int)
    for label, predicted in zip(known, chosen, strict=True):
        if label is not None:
            matrix[place[label], place[str(predicted)]] += 1
    return {"labels": names, "matrix": matrix}


def _errors(
    model: TextTopics, found: Inferred, known: list[str | None], texts: Sequence[str]
) -> list[Mapping[str, Any]]:
    """The mistakes that the model was surest of."""
    if found.probabilities is None:
        return []
    best = found.probabilities.argmax(axis=1)
    rated = []
    for d, label in enumerate(known):
        if label is not None and str(model.classes_[best[d]]) != label:
            rated.append((-float(found.probabilities[d, best[d]]), d))
    return [
        {
            "label": known[d],
            "predicted": str(model.classes_[best[d]]),
            "probability": -minus,
            "text": " ".join(texts[d].split())[:240],
        }
        for minus, d in sorted(rated)[:MOST_ERRORS]
    ]


def _maps(
    model: TextTopics,
    found: Inferred,
    texts: Sequence[str],
    known: list[str | None],
    most_points: int,
    compare: bool,
) -> dict[str, Any]:
    """t-SNE maps of the model's representation and, beside it, of LDA's."""
    from partwise.topics import LDA, document_map

    filled = np.flatnonzero(found.words > 0)
    if filled.size < 5:
        return {}
    rows = filled[np.unique(np.linspace(0, filled.size - 1, min(most_points, filled.size)).astype(int))]
    names = sorted({label for label in known if label is not None})
    if model.discriminative:
        names = [str(name) for name in model.classes_] + [n for n in names if n not in set(map(str, model.classes_))]
    place = {name: k for k, name in enumerate(names)}
    views = [{"name": "DiscLDA" if model.discriminative else "LDA", "points": document_map(found.topics[rows])}]
    if compare and model.discriminative:
        size = int(found.topics.shape[1])
        counts = model.count([texts[int(d)] for d in filled])
        lda = LDA(size, alpha=10.0 / size, n_iterations=100, random_state=0).fit(counts)
        places = np.searchsorted(filled, rows)
        views.append({"name": f"LDA with {size} topics", "points": document_map(lda.document_topics_[places])})
    return {
        "names": names,
        "groups": [place.get(known[d] or "", -1) for d in rows],
        "tips": [f"{known[d] or 'no label'}: {' '.join(texts[d].split())[:80]}" for d in rows],
        "views": views,
    }

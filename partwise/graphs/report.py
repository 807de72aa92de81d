"""A report on labelled graphs: scores by label, confusions, training, and pictures of input, truth and
prediction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import flat_labels
from partwise.graphs.labeler import GraphLabeler
from partwise.report.markup import count, percent, tag
from partwise.report.page import Page, cards, facts, figure, side_by_side, table
from partwise.report.pictures import picture
from partwise.report.training import learning_curves, trace

__all__ = ["Row", "graph_report", "label_scores"]

#: (title, [(words, (height, width, 3) colours), …]): one row of pictures.
Row = tuple[str, Sequence[tuple[str, NDArray[np.uint8]]]]


def label_scores(truth: Sequence[Any], found: Sequence[Any]) -> list[tuple[Any, int, float, float, float]]:
    """(label, nodes, precision, recall, intersection over union) of every label; nodes of unknown label do not count.

    Examples
    --------
    >>> [(label, n, round(iou, 3)) for label, n, _, _, iou in label_scores(["a", "a", "b"], ["a", "b", "b"])]
    [('a', 2, 0.5), ('b', 1, 0.5)]
    """
    pairs = [(t, f) for t, f in zip(truth, found, strict=True) if t is not None]
    rows = []
    for label in sorted({label for pair in pairs for label in pair}, key=str):
        both = sum(t == f == label for t, f in pairs)
        true, given = sum(t == label for t, _ in pairs), sum(f == label for _, f in pairs)
        rows.append((label, true, both / max(given, 1), both / max(true, 1), both / max(true + given - both, 1)))
    return rows


def graph_report(
    path: str | os.PathLike[str],
    model: GraphLabeler,
    graphs: Sequence[AttributedGraph],
    labels: Sequence[Any],
    *,
    title: str = "Labels of graphs",
    pictures: Sequence[Row] = (),
) -> None:
    """Write a report on the model's predictions for labelled graphs as one HTML page.

    ``pictures`` are shown in rows, each with a title: input, truth and prediction, for example; see
    :mod:`partwise.report.pictures`.
    """
    if len(graphs) != len(labels):
        raise InputError(f"there are {len(graphs)} graphs but labels for {len(labels)}")
    found = [label for answer in model.predict(graphs) for label in answer.tolist()]
    truth = [
        y for i, (graph, given) in enumerate(zip(graphs, labels, strict=True)) for y in flat_labels(i, graph, given)
    ]
    known = [(t, f) for t, f in zip(truth, found, strict=True) if t is not None]
    right = sum(t == f for t, f in known)
    scores = label_scores(truth, found)
    page = Page(title, f"{count(len(graphs))} graphs, {count(len(truth))} nodes")
    section = page.section("scores", "Scores", "Every node counts once; IoU is intersection over union.")
    mean = float(np.mean([row[4] for row in scores]))
    section.add(
        cards([
            ("accuracy", percent(right / max(len(known), 1)), f"{count(right)} of {count(len(known))} nodes"),
            ("mean IoU", percent(mean), f"of {len(scores)} labels"),
        ]),
        table(
            ["label", "nodes", "precision", "recall", "IoU"],
            [[str(label), count(n), *map(percent, rest)] for label, n, *rest in scores],
        ),
    )  # fmt: skip
    names = [label for label, *_ in scores]
    confusion = [[str(a), *(count(sum((t, f) == (a, b) for t, f in known)) for b in names)] for a in names]
    section.add(table(["true label", *(f"taken for {b}" for b in names)], confusion))
    if pictures:
        section = page.section("pictures", "Pictures")
        for name, images in pictures:
            shown = (figure(picture(pixels, words), words) for words, pixels in images)
            section.add(tag("h3", name), side_by_side(*shown, class_="gallery"))
        page.images = True
    section = page.section("model", "Model")
    kinds = [
        (f"nodes of type {k}", f"{v.dim} features, {len(v.classes)} labels")
        for k, v in model.encoder_.node_types.items()
    ]
    nodes, _ = model.encoder_.dims
    at = nodes
    for name, kind in model.encoder_.edge_types.items():
        width = model.encoder_._pairs(kind) * kind.dim
        weights = ", ".join(f"{w:.3g}" for w in model.theta_[at : at + min(width, 12)])
        kinds.append((f"edges of type {name}", f"weights {weights}{' …' if width > 12 else ''}"))
        at += width
    section.add(facts([("interaction", model.interaction_), ("inference", model.inference_), *kinds]))
    learning_curves(page, trace(model))
    page.write(path)

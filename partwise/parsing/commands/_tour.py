"""The parser's stop of ``partwise demo``: a dependency tree with the probabilities of its arcs."""

from __future__ import annotations

from typing import Any

from partwise.cli.tour import Outcome, Stop


def train() -> Any:
    """Train a first-order parser on the embedded treebank."""
    from partwise.parsing import DependencyParser, load_sample_treebank

    train, test = load_sample_treebank("train"), load_sample_treebank("test")
    model = DependencyParser(arc_bits=18, row_bits=12, max_passes=5).fit(train[:-40])
    model.calibrate(train[-40:])  # makes its probabilities honest
    return model, test


def show(trained: Any, folder: str) -> Outcome:
    import numpy as np

    from partwise.parsing.metrics import attachment_scores
    from partwise.parsing.pictures import dependency_svg
    from partwise.report.page import figure

    model, test = trained
    found = model.predict(test)
    scores = attachment_scores(test, found)
    errors = [int((a.heads != b.heads).sum()) for a, b in zip(test, found, strict=True)]
    lengths = np.array([len(sentence) for sentence in test])
    chosen = int(np.argmax(np.where(lengths <= 12, np.array(errors) + 0.01 * lengths, -1)))
    tree, mass = found[chosen], model.predict_marginals([test[chosen]])[0]
    lines = [" ".join(tree.forms)]
    for place, head in enumerate(tree.heads.tolist()):
        above = "(root)" if head == 0 else tree.forms[head - 1]
        lines.append(f"{tree.forms[place]} ← {above} (probability {mass[head, place]:.2f})")
    caption = (
        "A test sentence. Darker arcs are more probable; wrong arcs are red, missing gold arcs are dashed, and thin "
        "arcs were not chosen."
    )
    picture = figure(dependency_svg(tree, marginals=mass, gold=test[chosen]), caption)
    return Outcome({"UAS": scores.uas / 100, "LAS": scores.las / 100}, lines, [picture])


STOP = Stop(
    "parser",
    "Parsing",
    "dependency trees; the best one is found exactly, and every arc has a probability.",
    train,
    show,
    rank=1,
)

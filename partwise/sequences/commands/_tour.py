"""The tagger's stop of ``partwise demo``: named entities with probabilities and reasons."""

from __future__ import annotations

import os
from typing import Any

from partwise.cli.tour import Outcome, Stop


def train() -> Any:
    """Train a CRF on the embedded corpus."""
    from partwise import SequenceLabeler
    from partwise.data import load_sample

    train, test = load_sample(split="train"), load_sample(split="test")
    model = SequenceLabeler(templates="ner", scheme="IOB2", max_passes=200).fit(train, train.column("ner"))
    return model, test


def show(trained: Any, folder: str) -> Outcome:
    from partwise.report import charts
    from partwise.report.markup import number
    from partwise.report.page import figure, side_by_side
    from partwise.sequences.chunks import chunk_scores

    model, test = trained
    model.info_ = {"columns": list(test.names), "label": "ner"}
    model.save(os.path.join(folder, "ner.pw"))
    gold, found = test.column("ner"), model.predict(test)
    scores = chunk_scores(gold, found)
    best = max(range(len(test)), key=lambda i: (len(chunks(found[i])), -len(found[i])))
    sentence = test.subset([best])
    words, marginals = sentence.sentence(0, "word"), model.predict_marginals(sentence)[0]
    spans = model.predict_spans(sentence)[0]
    lines = [" ".join(words)]
    lines += [f"{s.type:5s} {' '.join(words[s.start : s.stop])} (probability {s.probability:.2f})" for s in spans]
    shown = [j for j in range(len(model.classes_)) if marginals[:, j].max() > 0.01]
    names = [model.classes_[j] for j in shown]
    part = marginals[:, shown].T
    heat = charts.heat_map(
        part, names, words, title="Probability of each label of each word", row_title="label", column_title="",
        text=lambda i, j: f"{100 * part[i, j]:.0f}" if part[i, j] >= 0.01 else "",
        tip=lambda i, j: f"{words[j]}, {names[i]}: {number(float(part[i, j]), 3)}",
    )  # fmt: skip
    token = max(spans, key=lambda s: 1 - s.probability).start if spans else 0
    why = model.explain(sentence, token)
    top = why.contributions[:8]
    bars = charts.bar_chart([c.name for c in top], [c.difference for c in top], title="What decided")
    caption = f"Why “{words[token]}” is {why.label} rather than {why.rival}: the attributes with the most weight."
    pictures = [
        figure(heat, "A test sentence: the probability of each label, in percent."),
        side_by_side(figure(bars, caption)),
    ]
    return Outcome({"F1": scores.f1, "token accuracy": scores.accuracy}, lines, pictures)


def chunks(tags: list[str]) -> list[str]:
    """The tags that begin an entity."""
    return [tag for tag in tags if tag.startswith("B-")]


STOP = Stop(
    "tagger",
    "Tagging",
    "people, places and organisations, found by a CRF; every label and every span has a probability.",
    train,
    show,
    rank=0,
)

"""The topics stop of ``partwise demo``: letters to clubs, sorted by DiscLDA."""

from __future__ import annotations

from typing import Any

from partwise.cli.tour import Outcome, Stop


def train() -> Any:
    """Train a discriminative topic model on the embedded letters."""
    from partwise.topics import DiscLDA, TextTopics, load_sample_documents

    train, test = load_sample_documents("train"), load_sample_documents("test")
    model = TextTopics(DiscLDA(class_topics=2, shared_topics=3, n_iterations=100, n_samples=200, random_state=0))
    model.fit(train.texts, train.labels)
    return model, test


def show(trained: Any, folder: str) -> Outcome:
    import numpy as np

    from partwise.report import charts
    from partwise.report.page import figure, side_by_side

    model, test = trained
    right = float(np.mean(np.asarray(model.predict(test.texts)) == np.asarray(test.labels)))
    lines, bars = [], []
    for group in model.groups():
        words = model.top_words(group.topics, 8)
        lines.append(f"{group.name}: {', '.join(word for word, _ in words[:6])}")
        chart = charts.bar_chart(
            [w for w, _ in words], [s for _, s in words], title=f"Words of {group.name}", width=300
        )
        bars.append(figure(chart, str(group.name)))
    note = "How many times likelier each word is in the topics of the group than if all words were equally likely."
    return Outcome({"letters classified correctly": right}, lines, [side_by_side(*bars, class_="three"), note])


STOP = Stop(
    "topics",
    "Topics",
    "letters to four clubs; DiscLDA gives every class topics of its own and lets all classes share others.",
    train,
    show,
    rank=4,
)

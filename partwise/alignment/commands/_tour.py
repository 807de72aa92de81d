"""The aligner's stop of ``partwise demo``: an HMM, and an aligner learned on top of it."""

from __future__ import annotations

from typing import Any

from partwise.cli.tour import Outcome, Stop


def train() -> Any:
    """Train an HMM on raw pairs and an aligner on gold links."""
    from partwise import WordAligner
    from partwise.alignment import GenerativeAligner
    from partwise.data import load_sample_alignments

    train, test = load_sample_alignments("train"), load_sample_alignments("test")
    hmm = GenerativeAligner(model="hmm", also=("model1",)).fit(train.bitext + test.bitext)
    model = WordAligner(hmm).fit(train.bitext, train.gold)
    return hmm, model, test


def show(trained: Any, folder: str) -> Outcome:
    from partwise.alignment.report_grid import alignment_grid
    from partwise.alignment.scores import alignment_scores
    from partwise.report.page import figure, side_by_side

    hmm, model, test = trained
    found = {name: each.predict(test.bitext) for name, each in (("HMM", hmm), ("learned", model))}
    scores = {f"AER, {name}": alignment_scores(test.gold, links).aer for name, links in found.items()}
    chosen = max(range(len(test.bitext)), key=lambda i: len(set(found["HMM"][i]) ^ set(found["learned"][i])))
    source, target = test.bitext[chosen]
    links = sorted(found["learned"][chosen])
    lines = [f"{' '.join(source)} – {' '.join(target)}", " ".join(f"{source[i]}–{target[j]}" for i, j in links)]
    gold = test.gold[chosen]
    grids = [
        figure(
            alignment_grid(source, target, each[chosen], gold.sure, gold.possible - gold.sure, title=name),
            f"{name}: {100 * scores[f'AER, {name}']:.1f}% alignment errors on the test pairs",
        )
        for name, each in found.items()
    ]
    note = "Squares are gold links (rounded: possible links); green marks are correct predictions, red ones are wrong."
    return Outcome(scores, lines, [side_by_side(*grids), note])


STOP = Stop(
    "aligner",
    "Word alignment",
    "an HMM learns from raw pairs, then an aligner learns from 100 gold pairs which posteriors to trust.",
    train,
    show,
    rank=2,
)

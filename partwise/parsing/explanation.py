"""Why this head: the weights that favour an arc over its rival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.estimation.contribution import Contribution, contribution_lines
from partwise.exceptions import InputError
from partwise.parsing import _arc_kernels as kernels
from partwise.parsing._word_views import VIEWS
from partwise.parsing.columns import complete
from partwise.parsing.conllu import DependencySentence

__all__ = ["ArcExplanation", "explain_arc"]


@dataclass(frozen=True)
class ArcExplanation:
    """The scores of two arcs into a word, without their labels, and what each template gave to the difference."""

    word: int
    head: int
    rival: int
    score: float
    rival_score: float
    contributions: list[Contribution]

    def __str__(self) -> str:
        lines = [
            f"head {self.head} rather than {self.rival} for word {self.word}: {self.score - self.rival_score:+.3f}"
        ]
        return "\n".join(lines + contribution_lines(self.contributions))


def arc_weights(parser: Any, sentence: DependencySentence, head: int, word: int) -> list[tuple[str, float]]:
    """(template, weight) of every arc feature of (head, word); the weights sum to the arc's part of the score."""
    features = parser._features([sentence])
    pack = features.pack
    heads, modifiers, _, _, between, _, _ = kernels.prepare(pack, 0)
    inside = 0
    tags, rows = {}, sentence.words
    for t in range(min(head, word) + 1, max(head, word)):
        inside |= 1 << int(pack.bits[t - 1])
        tags[int(pack.bits[t - 1])] = complete(rows[t - 1][1:6], parser.encoder_.frequent)[2]
    places = np.empty(2 * heads.shape[1] + 128, np.int64)
    shift = np.uint64(64 - pack.arc_bits)
    count = kernels.arc_features(heads, modifiers, head, word, np.uint64(inside), between, shift, places)
    names = []
    for a, b in pack.arc_templates.tolist():
        sides = [f"{side} {view}" for side, view in (("head", VIEWS[a]), ("word", VIEWS[b])) if view]
        names += [", ".join(sides), ", ".join([*sides, "distance"])]
    for bit in sorted(tags):
        names += [f"between upos {tags[bit]}", f"between xpos {tags[bit]}"]
    return list(zip(names, parser.theta_[places[:count]].astype(float).tolist(), strict=True))


def explain_arc(
    parser: Any, sentence: DependencySentence, word: int, head: int | None, rival: int | None
) -> ArcExplanation:
    """Compare the arc (head, word) with (rival, word).

    By default the head that the parser chooses, and the most probable other one.
    """
    n = len(sentence)
    if not 1 <= word <= n:
        raise InputError(f"there is no word {word} in a sentence of {n} words; words count from 1")
    chosen = head if head is not None else int(parser.predict([sentence])[0].heads[word - 1])
    if rival is None:
        mass = parser.predict_marginals([sentence])[0][:, word - 1].copy()
        mass[[chosen, word]] = -1.0
        rival = int(np.argmax(mass))
    for other in (chosen, rival):
        if not 0 <= other <= n or other == word:
            raise InputError(f"{other} cannot be the head of word {word} in a sentence of {n} words")
    ours, theirs = (arc_weights(parser, sentence, h, word) for h in (chosen, rival))
    weights: dict[str, list[float]] = {}
    for side, pairs in enumerate((ours, theirs)):
        for name, weight in pairs:
            weights.setdefault(name, [0.0, 0.0])[side] += weight
    found = [Contribution(name, 1.0, a, b) for name, (a, b) in weights.items()]
    found.sort(key=lambda c: -abs(c.difference))
    return ArcExplanation(word, chosen, rival, sum(w for _, w in ours), sum(w for _, w in theirs), found)

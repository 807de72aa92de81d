"""Why this phrase: the weights for and against a label over some words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.exceptions import InputError
from partwise.parsing.phrases import _phrase_kernels as kernels
from partwise.parsing.phrases.binary import PHRASE

__all__ = ["ConstituentExplanation", "explain_constituent"]


@dataclass(frozen=True)
class ConstituentExplanation:
    """The score of a constituent apart from the rules that make it, template by template, and its probability."""

    start: int
    stop: int
    label: str
    score: float
    probability: float
    contributions: list[tuple[str, float]]

    def __str__(self) -> str:
        lines = [
            f"{self.label} over words {self.start}..{self.stop - 1}: {self.score:+.3f}, p = {self.probability:.3f}"
        ]
        return "\n".join(lines + [f"{weight:+9.4f}  {name}" for name, weight in self.contributions[:15]])


def explain_constituent(parser: Any, words: Sequence[str], start: int, stop: int, label: str) -> ConstituentExplanation:
    """The contributions to a label over a span; the largest first, whichever way they point."""
    model = parser.model_
    if not 0 <= start < stop <= len(words):
        raise InputError(f"words {start}..{stop - 1} are outside of the sentence, which has {len(words)}")
    if label not in model.labels:
        raise InputError(f"the label {label!r} is not among {', '.join(model.labels)}")
    forests = model.forests([list(words)])
    if not forests.parsed:
        raise InputError("the sentence has no parse under the grammar")
    features = parser._features(forests.space, forests.words)
    table, (_, mass) = (
        forests.space.atoms(0),
        forests.space.marginals(0, features.scores(0, parser.theta_) / parser.temperature_),
    )
    here = (table.start == start) & (table.stop == stop) & (table.label == model.labels.index(label))
    if not here.any():
        raise InputError(f"the coarse pass has dropped {label} over words {start}..{stop - 1}")
    symbol = next(k for k, s in enumerate(model.fine.symbols) if s.kind == PHRASE and s.label == label)
    pack = features.pack
    node, _, _ = kernels.prepare(pack, 0)
    places = np.empty(node.shape[2] + 4, np.int64)
    count = kernels.node_places(pack, 0, node, symbol, start, stop, np.uint64(64 - pack.bits), places)
    names = []
    for a, b, length in kernels.NODE_TEMPLATES.tolist():
        sides = [f"{side}: {kernels.VIEWS[v]}" for side, v in (("start", a), ("stop", b)) if v]
        names.append(", ".join([*sides, *(["length"] if length else [])]) or "label")
    names += ["symbol with its parent", "all parts of speech"]
    weights = parser.theta_[places[:count]].astype(float).tolist()
    pairs = [
        (name, weight)
        for name, weight in zip(names, weights, strict=False)  # long spans have no feature of all parts of speech
        if name != "symbol with its parent"
    ]
    pairs.sort(key=lambda pair: -abs(pair[1]))
    probability = float(mass[: len(here)][here].sum())
    return ConstituentExplanation(start, stop, label, sum(w for _, w in pairs), probability, pairs)

"""Why this label: the weights for it and against its rival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.estimation.contribution import Contribution, contribution_lines
from partwise.exceptions import InputError

__all__ = ["Explanation", "explain_position"]


@dataclass(frozen=True)
class Explanation:
    """The score of a label minus that of its rival, part by part; the neighbours keep their predicted labels."""

    position: int
    label: Any
    rival: Any
    probability: float
    rival_probability: float
    contributions: list[Contribution]  # largest |difference| first

    @property
    def margin(self) -> float:
        """Σ of the differences: how far the label leads, the neighbours being as predicted."""
        return sum(c.difference for c in self.contributions)

    def __str__(self) -> str:
        lines = [
            f"position {self.position}: {self.label} (p = {self.probability:.3f}) rather than "
            f"{self.rival} (p = {self.rival_probability:.3f}), margin {self.margin:+.3f}"
        ]
        return "\n".join(lines + contribution_lines(self.contributions))


def explain_position(
    model: Any, X: Any, position: int, label: Any, against: Any, sequence: int | None = None
) -> Explanation:
    """The explanation for one position of one sequence in X: of the only one, or of number ``sequence``."""
    rows = model.encoder_.transform(X)
    if sequence is None and len(rows) != 1:
        raise InputError(f"explain takes one sequence; X has {len(rows)}: choose one with sequence=…")
    i = sequence or 0
    if not -len(rows) <= i < len(rows):
        raise InputError(f"sequence {i} of {len(rows)}")
    i %= len(rows)
    length = int(rows.offsets[i + 1] - rows.offsets[i])
    if not -length <= position < length:
        raise InputError(f"position {position} of a sequence that has {length} positions")
    position %= length
    classes = list(model.classes_)
    marginal = model.predict_marginals(X)[i][position]
    best = model.predict(X)[i]
    label = best[position] if label is None else label
    if label not in classes:
        raise InputError(f"label {label!r} is unknown; the model knows {', '.join(map(str, classes))}")
    chosen = classes.index(label)
    if against is None:
        others = marginal.copy()
        others[chosen] = -1.0
        against = classes[int(np.argmax(others))]
    if against not in classes:
        raise InputError(f"label {against!r} is unknown; the model knows {', '.join(map(str, classes))}")
    rival = classes.index(against)
    contributions = _attributes(model, rows, int(rows.offsets[i]) + position, chosen, rival)
    contributions += _transitions(model, best, position, chosen, rival)
    contributions.sort(key=lambda c: -abs(c.difference))
    return Explanation(position, label, against, float(marginal[chosen]), float(marginal[rival]), contributions)


def _attributes(model: Any, rows: Any, row: int, chosen: int, rival: int) -> list[Contribution]:
    numbers, values = rows.entries(row)
    names = model.attribute_names()
    table = model.weight_rows(numbers)
    return [
        Contribution(names[a], float(x), float(w[chosen]), float(w[rival]))
        for a, x, w in zip(numbers, values, table, strict=True)
    ]


def _transitions(model: Any, best: list[Any], position: int, chosen: int, rival: int) -> list[Contribution]:
    """The transitions that contain the position, its label replaced, the others as predicted."""
    classes = list(model.classes_)
    labels = [classes.index(b) for b in best]
    out = []
    for t in range(max(position, 1), min(position + model.order, len(labels) - 1) + 1):
        weights = []
        for candidate in (chosen, rival):
            window = labels.copy()
            window[position] = candidate
            weights.append(model.transition_score(window, t))
        first = max(0, t - model.order)
        shown = [str(classes[b]) if s != position else "·" for s, b in enumerate(labels)][first : t + 1]
        out.append(Contribution("transition " + " → ".join(shown), 1.0, *weights))
    return out

"""Why this link: the weights for and against it, and how confident the model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.alignment.link_files import Link
from partwise.alignment.links import Floats
from partwise.estimation.contribution import Contribution, contribution_lines
from partwise.exceptions import InputError

__all__ = ["LinkExplanation", "explain_link", "link_margins"]


@dataclass(frozen=True)
class LinkExplanation:
    """The score with a link minus the score without it, feature by feature; the other links stay as predicted.

    ``contributions`` are weights times values, the largest first: features of the link itself, and where the model
    has them of the fertilities and pairs of links that it changes. ``rivals`` are predicted links of the same words,
    of which the model may allow only one.
    """

    link: Link
    words: tuple[str, str]
    predicted: bool
    rivals: list[Link]
    contributions: list[Contribution]

    @property
    def score(self) -> float:
        """Sum of the contributions: above 0, it favours the link."""
        return sum(c.difference for c in self.contributions)

    def __str__(self) -> str:
        state = "predicted" if self.predicted else "not predicted"
        lines = [f"link {self.link[0]}-{self.link[1]} ({self.words[0]} – {self.words[1]}), {state}: {self.score:+.3f}"]
        if self.rivals:
            lines[0] += f"; its words are in {', '.join(f'{j}-{k}' for j, k in self.rivals)}"
        return "\n".join(lines + contribution_lines(self.contributions))


def explain_link(
    parts: Any, theta: Floats, names: list[str], pair: Any, link: Link, found: list[Link]
) -> LinkExplanation:
    """The explanation for one link of the only pair in ``parts``, of which ``found`` is predicted."""
    (source, target), (j, k) = pair, link
    if not (0 <= j < len(source) and 0 <= k < len(target)):
        sizes = f"there are {len(source)} source and {len(target)} target words, counted from 0"
        raise InputError(f"link {j}-{k} is out of range: {sizes}")
    others = [other for other in found if other != link]
    space = parts.space
    change = space.encode(0, [*others, link]) - space.encode(0, others)
    values = np.zeros(len(theta))
    parts.features.accumulate(0, change, 1.0, values)  # F(x)(z with the link − z without it)
    used = np.flatnonzero(values)
    contributions = [Contribution(names[d], float(values[d]), float(theta[d]), 0.0) for d in used]
    contributions.sort(key=lambda c: -abs(c.difference))
    rivals = [other for other in others if other[0] == j or other[1] == k]
    return LinkExplanation((j, k), (source[j], target[k]), link in found, rivals, contributions)


def link_margins(space: Any, i: int, scores: Floats) -> Floats:
    """Best score with the link minus best score without it, for all links of instance i: (J, K).

    Each link is forbidden in turn, or forced by a bonus that outweighs everything.
    """
    bonus = 1.0 + 2.0 * np.abs(scores).sum()
    best = space.argmax(i, scores)
    value = float(best @ scores)
    margins = np.empty(space.n_atoms(i))
    for r in range(len(margins)):
        changed = scores.copy()
        changed[r] = -np.inf if best[r] else scores[r] + bonus
        other = space.argmax(i, changed)
        used = other != 0
        margins[r] = (value - float(other[used] @ scores[used])) * (1.0 if best[r] else -1.0)
    return margins.reshape(space.size(i))

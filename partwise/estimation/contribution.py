"""The contribution of one weight to the decision between an output and its rival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Contribution", "contribution_lines"]


@dataclass(frozen=True)
class Contribution:
    """value · (weight for the label − weight for the rival) of one attribute or transition."""

    name: str
    value: float
    weight: float
    rival_weight: float

    @property
    def difference(self) -> float:
        return self.value * (self.weight - self.rival_weight)


def contribution_lines(contributions: Sequence[Contribution], top: int = 15) -> list[str]:
    """The ``top`` largest contributions, one per line; the others, if they matter, as their sum.

    Examples
    --------
    >>> some = [Contribution("a", 1.0, 2.0, -1.0), Contribution("b", 1.0, 0.5, 0.0), Contribution("c", 1.0, 0.25, 0.0)]
    >>> [line.split() for line in contribution_lines(some, 1)]
    [['+3.000', 'a'], ['+0.750', '2', 'smaller', 'ones']]
    """
    used = [c for c in contributions if c.difference]
    lines = [f"  {c.difference:+8.3f}  {c.name}" for c in used[:top]]
    if len(used) > top:
        lines.append(f"  {sum(c.difference for c in used[top:]):+8.3f}  {len(used) - top} smaller ones")
    return lines

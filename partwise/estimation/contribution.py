"""The contribution of one weight to the decision between an output and its rival."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Contribution"]


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

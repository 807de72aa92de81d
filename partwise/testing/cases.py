"""Cases: a structure with the enumeration of each of its instances, and scores of every kind that hurts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partwise.structures.base import Structure
from partwise.testing.enumeration import Enumeration

__all__ = ["SCORES", "Case", "Check", "draw_scores"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A structure and the enumeration of each of its instances."""

    structure: Structure
    instances: list[Enumeration]
    tame: Callable[[int, Floats], Floats] | None = None  # makes any scores such as the oracles accept
    relaxed: bool = False  # argmax ranges over all corners of the polytope, which the outputs are only some of

    def candidates(self, i: int) -> Enumeration:
        """The outputs of an instance, or all corners if argmax may answer with any of them."""
        return replace(self.instances[i], parts=self.instances[i].hull) if self.relaxed else self.instances[i]


Check = Callable[[Case, int, Floats, np.random.Generator], None]


SCORES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "ties": lambda rng, n: rng.integers(-1, 2, size=n).astype(float),
    "equal": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.uniform(-1e4, 1e4, size=n),
    "huge ties": lambda rng, n: rng.choice([-1e4, 0.0, 1e4], size=n),
    "inverse temperature": lambda rng, n: 10.0 ** rng.uniform(-3, 6) * rng.normal(size=n),
    "minus infinity": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, rng.normal(size=n)),
    "huge and minus infinity": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, rng.uniform(-1e4, 1e4, size=n)),
}


def draw_scores(kind: str, case: Case, i: int, rng: np.random.Generator) -> Floats:
    """Part scores of that kind, of which some output has a finite sum."""
    instance = case.instances[i]
    scores = SCORES[kind](rng, instance.parts.shape[1])
    possible = instance.parts[rng.integers(len(instance.outputs))] != 0
    scores[possible & np.isneginf(scores)] = 0.5
    return scores if case.tame is None else case.tame(i, scores)

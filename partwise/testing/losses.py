"""Checks of a loss: its gradient by finite differences, its value against its own promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.costs import Cost
from partwise.exceptions import CapabilityError
from partwise.losses import LossFunction
from partwise.structures.base import Floats, Structure

__all__ = ["check_loss"]


def check_loss(
    loss: LossFunction,
    space: Structure,
    outputs: Sequence[Any],
    cost: Cost | None = None,
    *,
    rounds: int = 5,
    seed: int = 0,
    tame: Callable[[int, Floats], Floats] | None = None,
) -> None:
    """Check value and gradient of a loss on given scores of small instances; raises AssertionError.

    * The gradient is the slope of the value along random directions (of a maximum: where it has one).
    * A convex loss lies above its tangents, whatever the scores: for β = ∞ that is what makes a cut.
    * Where the oracle is exact, the loss is not negative.

    ``tame(i, scores)`` turns random scores of instance i into such as the structure accepts.

    Examples
    --------
    >>> from partwise import Loss, Multiclass
    >>> check_loss(Loss.named("softmax_margin"), Multiclass(2, 3), [0, 2])
    """
    if loss.oracle not in space.oracles:
        raise CapabilityError(f"{type(space).__name__} has no oracle {loss.oracle!r}, which {loss} needs")
    rng = np.random.default_rng(seed)
    ends = np.cumsum(space.instance_sizes()[0])
    total = int(ends[-1])

    def drawn() -> Floats:
        parts = np.split(rng.normal(size=total), ends[:-1])
        return np.concatenate([row if tame is None else tame(i, row) for i, row in enumerate(parts)])

    exact = space.guarantee(loss.oracle) == "exact"
    for _ in range(rounds):
        scores = drawn()
        direction = drawn() - scores  # towards other scores that are allowed
        values, gradient = loss.evaluate(space, scores, outputs, cost)
        assert values.shape == (len(space),) and gradient.shape == (total,)
        assert np.isfinite(values).all() and np.isfinite(gradient).all()
        assert not exact or not loss.convex or (values >= -1e-9).all(), f"a negative loss: {values.min()}"
        step = 1e-6
        above, below = (loss.evaluate(space, scores + sign * step * direction, outputs, cost)[0] for sign in (1, -1))
        slope, expected = (above.sum() - below.sum()) / (2 * step), float(gradient @ direction)
        assert abs(slope - expected) < 1e-4 * (1.0 + abs(expected)), f"slope {slope}, gradient {expected}"
        if loss.convex and exact:
            other = drawn()
            there = loss.evaluate(space, other, outputs, cost)[0].sum()
            tangent = values.sum() + gradient @ (other - scores)
            assert there >= tangent - 1e-9 * (1.0 + abs(tangent)), "the loss dips below its tangent: it is not convex"

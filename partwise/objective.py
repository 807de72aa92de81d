"""Objective: what a learner that works on whole sums needs to see, and nothing else.

A :class:`~partwise.problem.Problem` is one. So is a sum over shards on other machines, or of several problems with
shared weights: whatever has these members can be given to a batch learner (``Learner.batch``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import CapabilityError

if TYPE_CHECKING:
    from partwise.losses import Loss

__all__ = ["Objective", "TrainingData"]

Floats = NDArray[np.float64]


class TrainingData:
    """What an estimator trains on: a problem, a sum over shards, the inputs of a search."""

    def learner_for(self, learner: Any) -> Any:
        """The learner itself, or its counterpart for such data."""
        return learner

    def reweighted(self, weights: ArrayLike) -> Any:
        """The same data with weights of the instances."""
        raise CapabilityError(f"a {type(self).__name__} cannot weight instances: omit sample_weight")

    def digest(self) -> bytes:
        """A digest of all that a result depends on, so that a checkpoint is not mistaken for that of another run."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what training needed."""


@runtime_checkable
class Objective(Protocol):
    """Σ_i L_i(θ) over m instances, as a function of θ ∈ R^dim."""

    @property
    def dim(self) -> int:
        """Number of weights."""

    @property
    def m(self) -> int:
        """Number of instances."""

    @property
    def loss(self) -> Loss:
        """What is summed; a learner accepts it or not."""

    @property
    def oracles(self) -> frozenset[str]:
        """The oracles of its output spaces."""

    @property
    def convex(self) -> bool:
        """Whether the sum is convex in θ."""

    @property
    def nonnegative(self) -> NDArray[np.bool_] | None:
        """Weights that must stay ≥ 0, or None."""

    @property
    def guarantee(self) -> str:
        """How good the losses are: a name in ``GUARANTEES``."""

    @property
    def bounded(self) -> bool:
        """Whether ``upper_losses`` are upper bounds on the losses."""

    def losses(self, theta: Floats) -> Floats:
        """L_i(θ) of every instance, as attained by the oracle; shape (m,)."""

    def upper_losses(self, theta: Floats) -> Floats:
        """Upper bounds of L_i(θ); the losses themselves unless the oracle has a bound of its own."""

    def loss_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """(Σ_i L_i(θ), Σ_i ∇L_i(θ))."""

"""Logistic regression of links, and Newton's method for it.

    min_w  Σ_e c_e log(1 + exp(−y_e w·f_e)) + 1/(2C) ‖w‖²,     y_e = ±1, c_e the weight of link e.

About a hundred features and many links: the matrix of second derivatives Σ_e c_e p_e (1 − p_e) f_e f_eᵀ costs as much
as a few gradients, and ten steps reach the minimum, where L-BFGS needs a hundred and more.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._threads import Threads
from partwise.exceptions import ParameterError
from partwise.learners.base import Floats, Learner, State
from partwise.losses import LossFunction
from partwise.objective import TrainingData

__all__ = ["CURVATURE", "LinkRegression", "Newton"]

CURVATURE = "curvature"  # what Newton needs of an objective beside sums of losses and gradients
BLOCK = 8192  # links per partial sum: sums do not depend on the number of threads


@kernel
def log_losses(x, y, weights, theta, start, losses):
    """losses ← c_e log(1 + exp(−y_e w·f_e)) of links from ``start`` on."""
    for e in range(losses.shape[0]):
        margin = 0.0
        for d in range(np.uintp(x.shape[1])):
            margin += x[start + e, d] * theta[d]
        margin *= y[start + e]
        least = min(margin, 0.0)
        losses[e] = weights[start + e] * (math.log1p(math.exp(2.0 * least - margin)) - least)


@kernel
def log_loss_sums(x, y, weights, theta, start, stop, gradient, second):
    """Σ of the losses; adds their gradient and, unless ``second`` is empty, the upper half of second derivatives.

    Four links at a time, since adding to ``second`` takes more time than reading the features.
    """
    n_columns = np.uintp(x.shape[1])
    factors, total = np.zeros(4), 0.0
    for first in range(start, stop, 4):
        size = min(4, stop - first)
        for r in range(4):
            factors[r] = 0.0
        for r in range(size):
            e = first + r
            margin = 0.0
            for d in range(n_columns):
                margin += x[e, d] * theta[d]
            margin *= y[e]
            least = min(margin, 0.0)
            small = math.exp(2.0 * least - margin)  # exp(−|margin|)
            total += weights[e] * (math.log1p(small) - least)
            wrong = (1.0 if margin < 0.0 else small) / (1.0 + small)
            step = -weights[e] * wrong * y[e]
            for d in range(n_columns):
                gradient[d] += step * x[e, d]
            factors[r] = weights[e] * small / ((1.0 + small) * (1.0 + small))
        if second.shape[0] == 0:
            continue
        a, b, c, d = first, min(first + 1, stop - 1), min(first + 2, stop - 1), min(first + 3, stop - 1)
        for row in range(n_columns):
            p, q = factors[0] * x[a, row], factors[1] * x[b, row]
            s, t = factors[2] * x[c, row], factors[3] * x[d, row]
            if p != 0.0 or q != 0.0 or s != 0.0 or t != 0.0:
                for column in range(row, n_columns):
                    second[row, column] += p * x[a, column] + q * x[b, column] + s * x[c, column] + t * x[d, column]
    return total


class LinkRegression(TrainingData):
    """Σ_e c_e log(1 + exp(−y_e w·f_e)) with its first and second derivatives.

    Parameters
    ----------
    x : (m, dim) features
    sure : (m,) which links are gold links
    weights : (m,) ≥ 0
    loss : the log-loss, as learners know it
    n_threads : sums do not depend on it

    Examples
    --------
    >>> from partwise.losses import Loss
    >>> x, sure = np.array([[1.0, 2.0], [1.0, -1.0]]), np.array([True, False])
    >>> data = LinkRegression(x, sure, np.ones(2), Loss.named("crf"))
    >>> value, gradient = data.loss_and_gradient(np.zeros(2))
    >>> round(value, 4), gradient.tolist(), data.curvature(np.zeros(2)).tolist()
    (1.3863, [0.0, -1.5], [[0.5, 0.25], [0.25, 1.25]])
    """

    oracles = frozenset({CURVATURE, "marginals", "argmax"})
    convex, bounded, guarantee, nonnegative = True, True, "exact", None

    def __init__(
        self, x: Floats, sure: NDArray[np.bool_], weights: Floats, loss: LossFunction, n_threads: int = 1
    ) -> None:
        self.x, self.y, self.weights = np.ascontiguousarray(x, float), np.where(sure, 1.0, -1.0), weights
        self.loss, self._threads = loss, Threads(n_threads)

    @property
    def dim(self) -> int:
        """Number of weights."""
        return int(self.x.shape[1])

    @property
    def m(self) -> int:
        """Number of links."""
        return int(self.x.shape[0])

    def losses(self, theta: Floats) -> Floats:
        """The loss of every link."""
        losses = np.empty(self.m)
        log_losses(self.x, self.y, self.weights, np.asarray(theta, float), 0, losses)
        return losses

    upper_losses = losses

    def loss_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Their sum, and its gradient."""
        value, gradient, _ = self.sums(theta, curved=False)
        return value, gradient

    def curvature(self, theta: Floats) -> Floats:
        """(dim, dim) second derivatives of the sum."""
        return self.sums(theta)[2]

    def sums(self, theta: Floats, curved: bool = True) -> tuple[float, Floats, Floats]:
        """The sum of the losses, its gradient and, if ``curved``, its second derivatives."""
        borders = [*range(0, self.m, BLOCK), self.m]
        n = len(borders) - 1
        values, gradients = np.zeros(n), np.zeros((n, self.dim))
        seconds = np.zeros((n, self.dim, self.dim) if curved else (n, 0, 0))

        def one(block: int, start: int, stop: int) -> None:
            values[block] = log_loss_sums(
                self.x, self.y, self.weights, np.asarray(theta, float), start, stop, gradients[block], seconds[block]
            )

        self._threads.each(one, [(block, *span) for block, span in enumerate(itertools.pairwise(borders))])
        second = seconds.sum(axis=0)
        return float(values.sum()), gradients.sum(axis=0), second + np.triu(second, 1).T

    def digest(self) -> bytes:
        """Of features, gold links and weights."""
        found = hashlib.blake2b(repr(self.loss).encode())
        for array in (self.x, self.y, self.weights):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.digest()


@dataclass(frozen=True)
class Newton(Learner):
    """Newton steps, halved until the objective falls enough (Armijo).

    Each pass gives the certificate P − ‖∇P‖² C/2 ≤ min P, by strong convexity.

    Parameters
    ----------
    tolerance : float
        Converged when the objective is known to lie within this share of its minimum.
    """

    losses: ClassVar[str] = "losses with second derivatives"
    needs: ClassVar[frozenset[str]] = frozenset({CURVATURE})
    certified: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    batch: ClassVar[bool] = True

    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tolerance >= 0:
            raise ParameterError("tolerance", "Newton", "a number ≥ 0", self.tolerance)

    def near(self, gap: float, primal: float) -> bool:
        return gap <= self.tolerance * abs(primal)

    def start(self, problem: Any, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        value, gradient, second = self._sums(problem, theta)
        return {"theta": theta, "value": value, "gradient": gradient, "second": second}

    def _sums(self, problem: Any, theta: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, second = problem.sums(theta)
        second[np.diag_indices(problem.dim)] += 1.0 / self.C
        return value + 0.5 / self.C * float(theta @ theta), gradient + theta / self.C, second

    def advance(self, problem: Any, state: State) -> dict[str, Any]:
        theta, gradient = state["theta"], state["gradient"]
        direction = -scipy.linalg.solve(state["second"], gradient, assume_a="pos")
        slope, size, accepted, evaluations = float(direction @ gradient), 1.0, False, 0
        while evaluations < 30 and slope < 0 and not accepted:
            new = theta + size * direction
            value, first, second = self._sums(problem, new)
            evaluations += 1
            accepted = value <= state["value"] + 1e-4 * size * slope
            if accepted:
                state.update(theta=new, value=value, gradient=first, second=second)
            else:
                size *= 0.5
        norm = float(np.linalg.norm(state["gradient"]))
        bound = 0.5 * self.C * norm * norm
        return {
            "objective": state["value"] / problem.m,
            "dual": (state["value"] - bound) / problem.m,
            "extra": {"gradient_norm": norm, "evaluations": float(evaluations), "step": size if accepted else 0.0},
            "converged": self.near(bound, state["value"]),
            "stalled": not accepted,
        }

"""Kernelised dual extragradient, Lacoste-Julien (2009) §2.5.1: parts that carry kernels instead of features.

    θ = Σ_l α_l k(x_l, ·),   l over all parts of all training instances,      F_iᵀθ = (Σ_l α_l k(x_l, x_r))_r

Every vector of the algorithm is a sum of features of parts, so its coefficients α say all: a move of the outputs adds
to the coefficients of its own parts, and norms are αᵀKα. Nothing but the Gram matrix K over the parts is needed, and
the iterates are those of the primal form with any features of that kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.costs import Cost
from partwise.exceptions import CapabilityError, InputError
from partwise.features.base import Features, feature_parts
from partwise.learners.base import Result
from partwise.learners.domains import Domain
from partwise.learners.extragradient import Extragradient
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.base import Floats, Structure

__all__ = ["KernelExtragradient", "KernelResult"]

#: kernel(i, j) → (parts of instance i, parts of instance j)
Kernel = Callable[[int, int], Floats]


def _blocks(kernel: Kernel, rows: Sequence[int], columns: Sequence[int]) -> list[Floats]:
    """For each column instance the matrix (all row parts, its parts)."""
    out = []
    for j, width in enumerate(columns):
        pieces = []
        for i, height in enumerate(rows):
            piece = np.asarray(kernel(i, j), float)
            if piece.shape != (height, width):
                raise InputError(f"kernel({i}, {j}) has shape {piece.shape}; expected {(height, width)}")
            if not np.isfinite(piece).all():
                raise InputError(f"kernel({i}, {j}) holds NaN or infinity")
            pieces.append(piece)
        out.append(np.vstack(pieces))
    return out


class _Coefficients(Features):
    """The features of a part are its own coefficient; the score of a part is a row of the Gram matrix times α."""

    def __init__(self, columns: list[Floats]) -> None:
        self.columns = columns
        self.offsets = np.concatenate([[0], np.cumsum([c.shape[1] for c in columns])])
        self.gram = np.hstack(columns)

    @property
    def dim(self) -> int:
        return int(self.offsets[-1])

    def scores(self, i: int, theta: Floats) -> Floats:
        return np.asarray(theta @ self.columns[i])

    def accumulate(self, i: int, parts: Floats, step: float, theta: Floats) -> None:
        theta[self.offsets[i] : self.offsets[i + 1]] += step * parts


@feature_parts.register(_Coefficients)
def _(features: _Coefficients, i: int) -> int:
    return int(features.columns[i].shape[1])


@dataclass(frozen=True)
class _KernelDomain(Domain):
    """The domain in the space of the kernel: ⟨α, α'⟩ = αᵀKα'."""

    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def dot(self, a: Floats, b: Floats) -> float:
        value = float(a @ (self.gram @ b))
        return max(value, 0.0) if a is b else value


@dataclass(frozen=True)
class KernelResult:
    """α with the training behind it; predicts by kernel expansions."""

    alpha: Floats
    result: Result
    sizes: tuple[int, ...]  # parts of every training instance

    def scores(self, space: Structure, kernel: Kernel) -> list[Floats]:
        """F_jᵀθ of the instances of ``space``, kernel(i, j) being between training instance i and instance j."""
        columns = _blocks(kernel, self.sizes, [space.n_parts(j) for j in range(len(space))])
        return [self.alpha @ column for column in columns]

    def predict(self, space: Structure, kernel: Kernel) -> list[Any]:
        """The output with the highest score of every instance of ``space``."""
        return [space.decode(j, space.argmax(j, s)) for j, s in enumerate(self.scores(space, kernel))]


@dataclass(frozen=True)
class KernelExtragradient(Extragradient):
    """Dual extragradient where only a kernel between parts is known: Lacoste-Julien (2009), §2.5.1.

    For small problems: the whole Gram matrix K is kept.

    ``fit_kernel`` takes a structure and a kernel in place of a Problem. The domain is an L2 ball or the L2 regulariser.

    Examples
    --------
    A circle inside a ring, which no line separates, with k(x, x') = (1 + x·x')² between points and 0 between labels:

    >>> from partwise.structures import Multiclass
    >>> angle = np.linspace(0, 6, 12)
    >>> points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.repeat([1.0, 3.0], 6)[:, None]
    >>> kernel = lambda i, j: (1 + points[i] @ points[j]) ** 2 * np.eye(2)
    >>> space, labels = Multiclass(12, n_labels=2), np.repeat([0, 1], 6)
    >>> found = KernelExtragradient(C=1.0).fit_kernel(space, kernel, labels)
    >>> found.predict(space, kernel) == labels.tolist()
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm != "l2":
            raise CapabilityError("KernelExtragradient knows only the L2 norm of its kernel; norm='l1' needs features")

    def domain(self, problem: Problem) -> Domain:
        if not isinstance(problem.features, _Coefficients):
            raise CapabilityError("KernelExtragradient trains with a kernel: call fit_kernel, not fit")
        return _KernelDomain(self.C, self.radius, gram=problem.features.gram)

    def check(self, problem: Any) -> None:
        super().check(problem)
        self.domain(problem)

    def fit_kernel(
        self,
        space: Structure,
        kernel: Kernel,
        outputs: Sequence[Any],
        loss: Loss | str = "svm",
        cost: Cost | None = None,
        **settings: Any,
    ) -> KernelResult:
        """Train with kernel(i, j) → (n_parts(i), n_parts(j)), symmetric and positive semidefinite.

        ``settings`` are those of ``fit`` (callbacks, checkpoint, …; a score sees α).
        """
        sizes = [space.n_parts(i) for i in range(len(space))]
        features = _Coefficients(_blocks(kernel, sizes, sizes))
        if not np.allclose(features.gram, features.gram.T, rtol=1e-8, atol=1e-10):
            raise InputError("the kernel is not symmetric: kernel(i, j) must be the transpose of kernel(j, i)")
        result = self.fit(Problem(space, features, outputs, loss, cost), **settings)
        return KernelResult(result.theta, result, tuple(sizes))

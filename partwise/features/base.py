"""Features: the linear map s = F(x)ᵀθ from weights to part scores, and its adjoint.

A feature map is a NamedTuple of packed arrays for all instances (its type selects the kernels below) together
with a Python object that remembers the vocabulary and names the weights. It knows how parts are numbered, and
nothing of what a structure does with their scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import Generic, composite, kernel, native
from partwise.exceptions import InputError

__all__ = [
    "Features",
    "MatrixFeatures",
    "Stack",
    "accumulate",
    "feature_parts",
    "feature_scores",
    "norm_and_clear",
    "squared_norm",
]

Floats = NDArray[np.float64]

#: Squares of features, sums of them and their products with C must be finite.
LARGEST = 1e100


@Generic
def feature_parts(features, i):
    """Number of parts of instance i that the map scores."""


@Generic
def feature_scores(features, i, theta, scores, at):
    """scores[at:at + n] ← F_iᵀθ."""


@Generic
def accumulate(features, i, parts, at, step, theta):
    """θ ← θ + step·F_i parts[at:at + n]: the adjoint of ``feature_scores``."""


@Generic
def norm_and_clear(features, i, parts, at, scratch):
    """‖scratch‖² where scratch = F_i parts[at:at + n], zeroing it on the way."""


@composite
def squared_norm(features, i, parts, scratch):
    """‖F_i parts‖². ``scratch`` (dim,) holds zeros before and after."""
    accumulate(features, i, parts, 0, 1.0, scratch)
    return norm_and_clear(features, i, parts, 0, scratch)


@kernel
def feature_sizes(features, out):
    """out[i] ← what ``feature_parts`` says, for every instance."""
    for i in range(out.shape[0]):
        out[i] = feature_parts(features, i)


class Stack(NamedTuple):
    """Two maps one after the other: the parts of ``first``, then the parts of ``second``."""

    first: Any
    second: Any


@feature_parts.register(Stack)
def _(features, i):
    return feature_parts(features.first, i) + feature_parts(features.second, i)


@feature_scores.register(Stack)
def _(features, i, theta, scores, at):
    feature_scores(features.first, i, theta, scores, at)
    feature_scores(features.second, i, theta, scores, at + feature_parts(features.first, i))


@accumulate.register(Stack)
def _(features, i, parts, at, step, theta):
    accumulate(features.first, i, parts, at, step, theta)
    accumulate(features.second, i, parts, at + feature_parts(features.first, i), step, theta)


@norm_and_clear.register(Stack)
def _(features, i, parts, at, scratch):
    first = norm_and_clear(features.first, i, parts, at, scratch)
    return first + norm_and_clear(features.second, i, parts, at + feature_parts(features.first, i), scratch)


class Features(ABC):
    """A feature map with its Python side: the packed arrays that kernels see, and how many weights there are.

    A map in plain Python defines ``scores`` and ``accumulate`` and needs no pack.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of weights."""

    #: In which type online learners keep θ and its running sum; single precision halves the memory of a hashed table.
    precision: ClassVar[type[np.floating[Any]]] = np.float64

    @property
    def pack(self) -> Any:
        """What the generic functions are called with: the map itself, or a NamedTuple of arrays."""
        return self

    @property
    def batch_pack(self) -> Any:
        """A pack that may add to weights that do not exist, for sums over many instances; see ``live``."""
        return self.pack

    @property
    def live(self) -> NDArray[np.uint8] | None:
        """Which weights exist: what ``batch_pack`` accumulates must be multiplied by this. None: all of them."""
        return None

    def instance_sizes(self, n: int) -> NDArray[np.int64]:
        """Number of scored parts of each of the n instances."""
        pack, out = self.pack, np.zeros(n, np.int64)
        fill = feature_sizes if native(pack) else getattr(feature_sizes, "py_func", feature_sizes)
        fill(pack, out)
        return out

    def check_scale(self, n: int) -> None:
        """Raise an error that names the first of n instances whose features would overflow when they are squared.

        A map in plain Python is asked for the scores of θ = 1; a packed one has looked at its numbers before.
        """
        if native(self.pack):
            return
        ones = np.ones(self.dim)
        for i in range(n):
            largest = float(np.abs(self.scores(i, ones)).max(initial=0.0))
            if not largest <= LARGEST:
                raise InputError(
                    f"features of instance {i} add up to {largest:.3g}; beyond {LARGEST:g} they overflow when they are "
                    "squared: divide all features by a number of that size"
                )

    def scores(self, i: int, theta: Floats) -> Floats:
        """F_iᵀθ, shape (n_parts(i),)."""
        out = np.empty(feature_parts(self.pack, i))
        feature_scores(self.pack, i, theta, out, 0)
        return out

    def accumulate(self, i: int, parts: Floats, step: float, theta: Floats) -> None:
        """θ ← θ + step·F_i parts, in place."""
        accumulate(self.pack, i, parts, 0, step, theta)


class MatrixFeatures(Features):
    """One explicit matrix F_i (dim × n_parts(i)) per instance, dense or scipy sparse: for structures of your own.

    Examples
    --------
    >>> features = MatrixFeatures([np.eye(2), np.ones((2, 3))])
    >>> features.scores(1, np.array([1.0, 2.0])).tolist()
    [3.0, 3.0, 3.0]
    """

    def __init__(self, matrices: Sequence[Any]) -> None:
        import scipy.sparse  # where it is not needed, a program starts 0.2 s earlier without

        self.matrices = [scipy.sparse.csc_array(m, dtype=float) for m in matrices]
        for i, matrix in enumerate(self.matrices):
            if matrix.shape[0] != self.matrices[0].shape[0]:
                raise InputError(
                    f"matrix of instance {i} has {matrix.shape[0]} rows; expected {self.matrices[0].shape[0]}"
                )
            if not np.isfinite(matrix.data).all():
                raise InputError(f"matrix of instance {i} holds NaN or infinity")
            largest = float(np.abs(matrix.data).max(initial=0.0))
            if largest > LARGEST:
                raise InputError(
                    f"matrix of instance {i} holds {largest:.3g}; features beyond {LARGEST:g} overflow when they are "
                    "squared: divide all of them by a number of that size"
                )

    @property
    def dim(self) -> int:
        return int(self.matrices[0].shape[0]) if self.matrices else 0

    def check_scale(self, n: int) -> None:
        """Done when the matrices came in."""

    def instance_sizes(self, n: int) -> NDArray[np.int64]:
        if len(self.matrices) != n:
            raise InputError(
                f"there are {len(self.matrices)} feature matrices for {n} instances; expected one per instance"
            )
        return super().instance_sizes(n)

    def scores(self, i: int, theta: Floats) -> Floats:
        return np.asarray(self.matrices[i].T @ theta)

    def accumulate(self, i: int, parts: Floats, step: float, theta: Floats) -> None:
        theta += step * (self.matrices[i] @ parts)


@feature_parts.register(MatrixFeatures)
def _(features: MatrixFeatures, i: int) -> int:
    return int(features.matrices[i].shape[1])


@feature_scores.register(Features)
def _(features: Features, i: int, theta: Floats, scores: Floats, at: int) -> None:
    values = features.scores(i, theta)
    scores[at : at + len(values)] = values


@accumulate.register(Features)
def _(features: Features, i: int, parts: Floats, at: int, step: float, theta: Floats) -> None:
    features.accumulate(i, parts[at : at + feature_parts(features, i)], step, theta)


@norm_and_clear.register(Features)
def _(features: Features, i: int, parts: Floats, at: int, scratch: Floats) -> float:
    total = float(scratch @ scratch)
    scratch[:] = 0.0
    return total

"""Structure: the output spaces Y(x_1), …, Y(x_n) of a data set and their oracles on part scores.

An output y is a vector of parts z = χ(y) (an indicator, or counts where several parts share one score), and its
score is s·z. A structure knows nothing but that: no weights, no features, no losses, no files.

Two ways to write one:

* **Plain Python.** Subclass :class:`Structure`, list what you have in ``oracles`` and define those methods; an
  argmax is enough for many learners.
* **Compiled.** Subclass :class:`CompiledStructure`, put the packed arrays of all instances into a NamedTuple
  (its ``pack``), and register kernels for the generic functions below with that NamedTuple. Compiled
  learners reach them by the type of the pack; nothing else in the library changes.

In both, parts are numbered 0 … n_parts(i) − 1 with the **atoms** first: the parts that a cost may count (labels,
arcs, edges), as against those that only carry score (label pairs).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._compile import Generic, kernel
from partwise.exceptions import CapabilityError, InputError, ParameterError

if TYPE_CHECKING:
    import scipy.sparse

    from partwise.costs import Cost

__all__ = [
    "ORACLES",
    "CompiledStructure",
    "Polytope",
    "Structure",
    "argmax",
    "gibbs_scores",
    "kbest",
    "marginal_entropy",
    "marginals",
    "part_count",
    "project",
    "score_of",
    "slack_argmax",
    "support_argmin",
    "work_size",
]

Floats = NDArray[np.float64]

#: What is smaller is rounding, not mass.
LEAST_MASS = 1e-12

#: Every oracle a structure may have, and what it answers.
ORACLES = {
    "argmax": "the output of largest score, eq. (7)",
    "marginals": "log-partition, part marginals and entropy, eq. (6)",
    "kbest": "the k outputs of largest score, in order",
    "sample": "draws from the Gibbs distribution of the scores, eq. (5)",
    "project": "Euclidean projection onto the marginal polytope",
    "marginal_entropy": "entropy of the maximum-entropy distribution with given marginals (chains: untied ones only)",
    "slack": "the output of largest cost × (offset + score), for slack rescaling",
    "support": "the output of least score within the support of given marginals, for moves inside the polytope",
    "gibbs": "scores whose Gibbs distribution has given marginals",
    "polytope": "the marginal polytope as linear constraints, for solvers of quadratic programs",
}


class Polytope(NamedTuple):
    """The convex hull of Y(x) as {lift·x : x ≥ 0, equal·x = equal_to, below·x ≤ limit}, Lacoste-Julien eq. (2.11).

    Without a ``lift`` the x are the parts themselves; with one, parts are sums of finer variables (a tied
    chain's counts of those at every position). No matrix has more than a few entries a column.
    """

    equal: scipy.sparse.csr_array
    equal_to: Floats
    below: scipy.sparse.csr_array
    limit: Floats
    lift: scipy.sparse.csr_array | None = None


# --------------------------------------------------------------------------------------------------
# Generic functions: what compiled loops call. `space` is a structure's pack, `i` an instance.


@Generic
def part_count(space, i):
    """Number of parts of instance i."""


@Generic
def work_size(space, i):
    """Length of the float64 work array that the oracles below need for instance i."""


@Generic
def argmax(space, i, scores, work, parts):
    """parts ← argmax_{z ∈ Y(x_i)} scores·z; returns the maximum, −inf if no output is allowed."""


@Generic
def marginals(space, i, scores, work, parts):
    """parts ← E[z] under p(z) ∝ exp(scores·z); returns log Z."""


@Generic
def kbest(space, i, scores, work, parts, values):
    """parts[r] ← the output of rank r, values[r] ← its score; returns how many there are, ≤ len(values)."""


@Generic
def project(space, i, point, work, parts):
    """parts ← argmin_z ‖z − point‖² over the convex hull of Y(x_i); returns −inf if no output is allowed."""


@kernel
def space_sizes(space, parts, work):
    """parts[i], work[i] ← what ``part_count`` and ``work_size`` say, for every instance."""
    for i in range(parts.shape[0]):
        parts[i] = part_count(space, i)
        work[i] = work_size(space, i)


@Generic
def slack_argmax(space, i, scores, costs, constant, offset, work, parts):
    """parts ← argmax_z (costs·z + constant)(offset + scores·z); returns the maximum, −inf if no output is allowed.

    ``costs`` is zero beyond the atoms, and no output has a cost below 0.
    """


@Generic
def marginal_entropy(space, i, parts, direction):
    """(H(μ), its slope along ``direction``) where H(μ) is the largest entropy of a distribution with E[z] = μ = parts.

    H is the conjugate of log Z, eq. (6): log Z(s) = max_μ s·μ + H(μ). A part with μ = 0 counts for nothing.
    """


@Generic
def support_argmin(space, i, scores, mass, work, parts):
    """parts ← the output of least score whose every part has mass; returns its score, +inf if there is none.

    Registered only where nonnegative parts and linear equations describe the marginal polytope: there
    μ + ε(z⁺ − z⁻) stays inside for any output z⁺ as long as no part of z⁻ goes below 0.
    """


@Generic
def gibbs_scores(space, i, mass, scores):
    """scores ← log-conditionals of the marginals ``mass``: p(z) ∝ exp(scores·z) has E[z] = mass, and log Z = 0."""


def score_of(scores: Floats, parts: Floats) -> float:
    """scores·parts where 0·(−inf) counts as 0.

    Examples
    --------
    >>> score_of(np.array([-np.inf, 2.0]), np.array([0.0, 1.0]))
    2.0
    """
    used = parts != 0
    return float(np.dot(scores[used], parts[used]))


class Structure(ABC):
    """Output spaces of n instances, in plain Python.

    Required of a subclass: ``__len__``, ``n_parts``, ``encode``, ``oracles`` and the methods it names.
    ``decode`` is needed to turn predictions into outputs; ``n_atoms`` where only some parts carry cost.

    Examples
    --------
    At most two of the items of each instance:

    >>> class UpToTwo(Structure):
    ...     oracles = frozenset({"argmax"})
    ...     def __init__(self, sizes): self.sizes = sizes
    ...     def __len__(self): return len(self.sizes)
    ...     def n_parts(self, i): return self.sizes[i]
    ...     def encode(self, i, y): return np.isin(np.arange(self.sizes[i]), list(y)).astype(float)
    ...     def decode(self, i, parts): return set(np.flatnonzero(parts).tolist())
    ...     def argmax(self, i, scores):
    ...         best = np.argsort(-scores)[:2]
    ...         return self.encode(i, best[scores[best] > 0])
    >>> space = UpToTwo([4])
    >>> space.decode(0, space.argmax(0, np.array([0.3, -1.0, 2.0, 0.1])))
    {0, 2}
    """

    oracles: ClassVar[frozenset[str]] = frozenset()  # of a class: what its instances may have

    @abstractmethod
    def __len__(self) -> int:
        """Number of instances."""

    @abstractmethod
    def n_parts(self, i: int) -> int:
        """Number of parts of instance i."""

    @abstractmethod
    def encode(self, i: int, y: Any) -> Floats:
        """χ(y): the parts of output y of instance i, shape (n_parts(i),)."""

    def n_atoms(self, i: int) -> int:
        """How many of the first parts a cost may count; all of them unless a subclass says otherwise."""
        return self.n_parts(i)

    def default_cost(self) -> Cost:
        """The cost of a problem that names none: the number of missed atoms, of labels the number of wrong ones.

        A structure whose outputs differ in their number of atoms overrides this, or wrong atoms would be free.
        """
        from partwise.costs import Hamming

        return Hamming()

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(number of parts, length of the oracles' work array) of every instance, shape (n,) each."""
        return np.array([self.n_parts(i) for i in range(len(self))], np.int64), np.zeros(len(self), np.int64)

    def decode(self, i: int, parts: Floats) -> Any:
        """The output y with χ(y) = parts."""
        raise self._lacks("decode")

    def argmax(self, i: int, scores: Floats) -> Floats:
        """The parts of the output of largest score."""
        raise self._lacks("argmax")

    def marginals(self, i: int, scores: Floats) -> tuple[float, Floats]:
        """(log Z, E[z]) under p(z) ∝ exp(scores·z)."""
        raise self._lacks("marginals")

    def kbest(self, i: int, scores: Floats, k: int) -> Floats:
        """The parts of the k outputs of largest score, best first, shape (≤ k, n_parts(i))."""
        raise self._lacks("kbest")

    def sample(self, i: int, scores: Floats, size: int, rng: np.random.Generator) -> Floats:
        """``size`` draws from p(z) ∝ exp(scores·z), shape (size, n_parts(i))."""
        raise self._lacks("sample")

    def project(self, i: int, point: Floats) -> Floats:
        """argmin_z ‖z − point‖² over the marginal polytope."""
        raise self._lacks("project")

    def slack(self, i: int, scores: Floats, costs: Floats, constant: float = 0.0, offset: float = 1.0) -> Floats:
        """The parts of the output of largest (costs·z + constant)(offset + scores·z), for slack rescaling."""
        raise self._lacks("slack")

    def slack_obstacle(self, offsets: NDArray[np.int64], numbers: NDArray[np.int32], values: Floats) -> str | None:
        """Why ``slack`` cannot take these costs (sparse, those of all instances), or None if it can."""
        return None

    def marginal_entropy(self, i: int, parts: Floats, direction: Floats | None = None) -> tuple[float, float]:
        """(H(parts), its slope along a direction): the largest entropy of a distribution with these marginals."""
        raise self._lacks("marginal_entropy")

    def support(self, i: int, scores: Floats, mass: Floats) -> Floats:
        """The parts of the output of least score among those whose every part has mass > 0."""
        raise self._lacks("support")

    def gibbs(self, i: int, mass: Floats) -> Floats:
        """Scores s with E[z] = mass under p(z) ∝ exp(s·z); −inf where there is no mass."""
        raise self._lacks("gibbs")

    def polytope(self, i: int) -> Polytope:
        """The marginal polytope of instance i as linear constraints."""
        raise self._lacks("polytope")

    def entropy(self, i: int, scores: Floats) -> float:
        """H = log Z − scores·E[z], by eq. (6)."""
        log_partition, mean = self.marginals(i, scores)
        return max(log_partition - score_of(np.asarray(scores, float), mean), 0.0)

    @property
    def constrained(self) -> bool:
        """Whether hard constraints may forbid an output that ``encode`` accepts."""
        return type(self).allows is not Structure.allows

    def allows(self, i: int, parts: Floats) -> bool:
        """Whether parts are an output that the hard constraints allow; True unless a subclass checks."""
        return True

    def forbidden_part(self, i: int, parts: Floats) -> str:
        """Words for an error message: which part of a forbidden output is to blame."""
        return "the output is outside the space"

    @property
    def pack(self) -> Any:
        """What the generic functions are called with: the structure itself, or a NamedTuple of arrays."""
        return self

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Sparse parts of one output an instance, as (offsets, part numbers, values)."""
        numbers: list[NDArray[np.int32]] = []
        values: list[Floats] = []
        offsets = np.zeros(len(outputs) + 1, np.int64)
        for i, y in enumerate(outputs):
            parts = np.asarray(self.encode(i, y), float)
            if parts.shape != (self.n_parts(i),):
                raise InputError(
                    f"{type(self).__name__}.encode returned shape {parts.shape} for instance {i}; "
                    f"expected ({self.n_parts(i)},)"
                )
            used = np.flatnonzero(parts).astype(np.int32)
            numbers.append(used)
            values.append(parts[used])
            offsets[i + 1] = offsets[i] + len(used)
        empty_numbers, empty_values = np.zeros(0, np.int32), np.zeros(0)
        return offsets, np.concatenate([empty_numbers, *numbers]), np.concatenate([empty_values, *values])

    def _lacks(self, oracle: str) -> CapabilityError:
        has = ", ".join(sorted(self.oracles)) or "none"
        return CapabilityError(f"{type(self).__name__} has no {oracle} (its oracles: {has})")


class CompiledStructure(Structure):
    """A structure whose oracles are kernels registered for its pack; the Python methods come for free."""

    @property
    @abstractmethod
    def pack(self) -> Any:
        """NamedTuple of the packed arrays of all instances."""

    def n_parts(self, i: int) -> int:
        return int(part_count(self.pack, i))

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        parts, work = np.zeros((2, len(self)), np.int64)
        space_sizes(self.pack, parts, work)
        return parts, work

    def _buffers(self, i: int, scores: ArrayLike, rows: int = 0) -> tuple[Floats, Floats, Floats]:
        n = self.n_parts(i)
        values = np.ascontiguousarray(scores, float)
        if values.shape != (n,):
            raise InputError(f"scores of instance {i} have shape {values.shape}; expected ({n},)")
        if np.isnan(values).any() or np.isposinf(values).any():
            raise InputError(f"scores of instance {i} hold NaN or +inf at part {int(np.argmax(~(values < np.inf)))}")
        return values, np.empty(work_size(self.pack, i)), np.zeros((rows, n) if rows else n)

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        values, work, parts = self._buffers(i, scores)
        if argmax(self.pack, i, values, work, parts) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return parts

    def marginals(self, i: int, scores: ArrayLike) -> tuple[float, Floats]:
        if "marginals" not in self.oracles:
            raise self._lacks("marginals")
        values, work, parts = self._buffers(i, scores)
        return float(marginals(self.pack, i, values, work, parts)), parts

    def kbest(self, i: int, scores: ArrayLike, k: int) -> Floats:
        if "kbest" not in self.oracles:
            raise self._lacks("kbest")
        if k < 1:
            raise ParameterError("k", type(self).__name__ + ".kbest", "at least 1", k)
        values, work, parts = self._buffers(i, scores, rows=k)
        return parts[: kbest(self.pack, i, values, work, parts, np.empty(k))]

    def project(self, i: int, point: ArrayLike) -> Floats:
        if "project" not in self.oracles:
            raise self._lacks("project")
        values, work, parts = self._buffers(i, point)
        if project(self.pack, i, values, work, parts) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return parts

    def slack(self, i: int, scores: ArrayLike, costs: ArrayLike, constant: float = 0.0, offset: float = 1.0) -> Floats:
        if "slack" not in self.oracles:
            raise self._lacks("slack")
        values, work, parts = self._buffers(i, scores)
        prices, _, _ = self._buffers(i, costs)
        used = np.flatnonzero(prices).astype(np.int32)
        starts = np.zeros(len(self) + 1, np.int64)
        starts[i + 1 :] = len(used)
        reason = self.slack_obstacle(starts, used, prices[used])
        if reason is not None:
            raise InputError(reason)
        if slack_argmax(self.pack, i, values, prices, float(constant), float(offset), work, parts) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return parts

    def marginal_entropy(self, i: int, parts: ArrayLike, direction: ArrayLike | None = None) -> tuple[float, float]:
        if "marginal_entropy" not in self.oracles:
            raise self._lacks("marginal_entropy")
        point, _, along = self._buffers(i, parts)
        if direction is not None:
            along, _, _ = self._buffers(i, direction)
        value, slope = marginal_entropy(self.pack, i, point, along)
        return float(value), float(slope)

    def support(self, i: int, scores: ArrayLike, mass: ArrayLike) -> Floats:
        if "support" not in self.oracles:
            raise self._lacks("support")
        values, work, parts = self._buffers(i, scores)
        masses = self._buffers(i, mass)[0]
        if support_argmin(self.pack, i, values, masses, work, parts) == np.inf:
            raise InputError(f"no output of instance {i} lies within the support")
        return parts

    def gibbs(self, i: int, mass: ArrayLike) -> Floats:
        if "gibbs" not in self.oracles:
            raise self._lacks("gibbs")
        masses, _, scores = self._buffers(i, mass)
        gibbs_scores(self.pack, i, masses, scores)
        return scores

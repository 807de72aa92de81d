"""Structure: the output spaces Y(x_1), …, Y(x_n) of a data set and their oracles on part scores.

An output y is a vector of parts z = χ(y) (an indicator, or counts where several parts share one score), and its
score is s·z. A structure knows nothing but that: no weights, no features, no losses, no files.

Two ways to write one:

* **Plain Python.** Subclass :class:`Structure` and define the methods of the oracles that you have; an argmax is
  enough for many learners.
* **Compiled.** Subclass :class:`CompiledStructure`, put the packed arrays of all instances into a NamedTuple
  (its ``pack``), and register kernels for the generic functions of :mod:`partwise.structures.oracles` with that
  NamedTuple. Compiled learners reach them by the type of the pack; nothing else in the library changes.

In both, parts are numbered 0 … n_parts(i) − 1 with the **atoms** first: the parts that a cost may count (labels,
arcs, edges), as against those that only carry score (label pairs). ``atoms(i)`` says where each of them lies.

Which oracles a structure has follows from what it registers or defines; how good their answers are, from
:meth:`Structure.guarantee`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.structures.oracles import (
    GUARANTEES,
    LEAST_MASS,
    ORACLES,
    Floats,
    Polytope,
    Solution,
    argmax,
    bound,
    gibbs_scores,
    kbest,
    kernel_of,
    marginal_entropy,
    marginals,
    part_count,
    project,
    sample,
    score_of,
    slack_argmax,
    space_sizes,
    support_argmin,
    work_size,
)

__all__ = [
    "GUARANTEES",
    "LEAST_MASS",
    "ORACLES",
    "CompiledStructure",
    "Floats",
    "Polytope",
    "Solution",
    "Structure",
    "argmax",
    "bound",
    "gibbs_scores",
    "kbest",
    "marginal_entropy",
    "marginals",
    "part_count",
    "project",
    "sample",
    "score_of",
    "slack_argmax",
    "support_argmin",
    "work_size",
]


class Structure(ABC):
    """Output spaces of n instances, in plain Python.

    Required of a subclass: ``__len__``, ``n_parts``, ``encode`` and the methods of the oracles that it has.
    ``decode`` is needed to turn predictions into outputs; ``n_atoms`` where only some parts carry cost;
    ``guarantee`` where an oracle is not exact.

    Examples
    --------
    At most two of the items of each instance:

    >>> class UpToTwo(Structure):
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
    >>> sorted(space.oracles)
    ['argmax']
    """

    #: Whether the oracles of different instances may run in several threads at once.
    concurrent: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(cls.__dict__.get("oracles"), frozenset | set | tuple | list):
            raise TypeError(
                f"{cls.__name__}.oracles is not declared by hand: it follows from the methods that the class defines "
                "and from the kernels that are registered for its pack"
            )

    @property
    def oracles(self) -> frozenset[str]:
        """The oracles of this space: the names in ``ORACLES`` whose method it defines or whose kernel it registers."""
        return frozenset(name for name in ORACLES if self._has(name))

    def _has(self, name: str) -> bool:
        method = getattr(type(self), name)
        return name in vars(self) or (
            method is not getattr(Structure, name) and method is not getattr(CompiledStructure, name)
        )

    def guarantee(self, oracle: str) -> str:
        """How good the answer of an oracle is: a name in ``GUARANTEES``; "exact" unless a subclass says otherwise.

        Certificates rest on it. An argmax that may overlook the best output is "inner"; it may have a ``bound``.
        """
        return "exact"

    def certifies(self, oracle: str) -> str:
        """The guarantee that certificates may rest on; less than ``guarantee`` where an engine stops at a tolerance.

        A relaxation solved only approximately still bounds every output, but cuts made from it need not be valid.
        """
        return self.guarantee(oracle)

    def explain(self, error: InputError) -> InputError:
        """A full message for an error of compiled code, which cannot format one."""
        return error

    def unconverged(self, oracle: str) -> int | None:
        """Instances for which the last call of an iterative oracle did not converge; None where none iterates."""
        return None

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

    def default_cost(self) -> tuple[float, float]:
        """(c⁺, c⁻) of a wrong and a missed atom in problems that name no cost: the number of missed atoms, (0, 1).

        A structure whose outputs differ in their number of atoms overrides this, or wrong atoms would be free.
        """
        return 0.0, 1.0

    def atoms(self, i: int) -> Any:
        """What the atoms of instance i are: a NamedTuple of integer arrays with one entry per atom.

        For example (position, label), (start, stop, label), (head, modifier, label) or (row, column). Costs
        and reports read it.
        """
        raise self._lacks("table of atoms")

    def instance_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(number of parts, length of the oracles' work array) of every instance, shape (n,) each."""
        return np.array([self.n_parts(i) for i in range(len(self))], np.int64), np.zeros(len(self), np.int64)

    def decode(self, i: int, parts: Floats) -> Any:
        """The output y with χ(y) = parts."""
        raise self._lacks("decode")

    def argmax(self, i: int, scores: Floats) -> Floats:
        """The parts of the output with the highest score."""
        raise self._lacks("argmax")

    def bound(self, i: int, scores: Floats) -> float:
        """An upper bound on the score of every output: that of the argmax where it is exact or a relaxation's."""
        if self.guarantee("argmax") in ("exact", "outer"):
            return score_of(np.asarray(scores, float), self.argmax(i, scores))
        raise self._lacks("bound")

    def solve(self, i: int, scores: Floats) -> Solution:
        """An output with a high score, and a bound on the score of every other."""
        values = np.asarray(scores, float)
        parts = self.argmax(i, values)
        value, guarantee = score_of(values, parts), self.guarantee("argmax")
        if guarantee == "exact":
            return Solution(parts, value, value, "optimal")
        if guarantee == "outer":
            output = np.asarray(self.encode(i, self.decode(i, parts)), float)
            attained = score_of(values, output)
            return Solution(output, attained, value, "optimal" if np.array_equal(output, parts) else "rounded")
        ceiling = self.bound(i, values) if "bound" in self.oracles else np.inf
        return Solution(parts, value, ceiling, "optimal" if ceiling <= value else "attained")

    def relax(self) -> Structure:
        """The space to train on if argmax is hard: an outer relaxation with the same parts, or this space itself."""
        return self

    def marginals(self, i: int, scores: Floats) -> tuple[float, Floats]:
        """(log Z, E[z]) under p(z) ∝ exp(scores·z)."""
        raise self._lacks("marginals")

    def kbest(self, i: int, scores: Floats, k: int) -> Floats:
        """The parts of the k outputs with the highest score, best first, shape (≤ k, n_parts(i))."""
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
        """The parts of the output with the lowest score among those whose every part has mass > 0."""
        raise self._lacks("support")

    def gibbs(self, i: int, mass: Floats) -> Floats:
        """Scores s with E[z] = mass under p(z) ∝ exp(s·z); −inf where there is no mass."""
        raise self._lacks("gibbs")

    def polytope(self, i: int) -> Polytope:
        """The marginal polytope of instance i as linear constraints."""
        raise self._lacks("polytope")

    def entropy(self, i: int, scores: Floats) -> float:
        """H = log Z − scores·E[z], Martins et al. (2010), eq. (6). An approximate one (Bethe) may be negative."""
        log_partition, mean = self.marginals(i, scores)
        entropy = log_partition - score_of(np.asarray(scores, float), mean)
        return max(entropy, 0.0) if self.guarantee("marginals") == "exact" else entropy

    @property
    def constrained(self) -> bool:
        """Whether hard constraints may forbid an output that ``encode`` accepts."""
        return type(self).allows is not Structure.allows

    def allows(self, i: int, parts: Floats) -> bool:
        """Whether parts are an output that the hard constraints allow; True unless a subclass checks."""
        return True

    def forbidden_part(self, i: int, parts: Floats) -> str:
        """For error messages: the part that makes an output forbidden."""
        return "the output is outside the space"

    @property
    def pack(self) -> Any:
        """What the generic functions are called with: the structure itself, or a NamedTuple of arrays."""
        return self

    def encode_all(self, outputs: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Sparse parts of one output per instance, as (offsets, part numbers, values)."""
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

    concurrent: ClassVar[bool] = True

    @property
    @abstractmethod
    def pack(self) -> Any:
        """NamedTuple of the packed arrays of all instances."""

    def _has(self, name: str) -> bool:
        return super()._has(name) or kernel_of(name, type(self.pack))

    def _need(self, oracle: str) -> None:
        if oracle not in self.oracles:
            raise self._lacks(oracle)

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

    def bound(self, i: int, scores: ArrayLike) -> float:
        if not kernel_of("bound", type(self.pack)):
            return super().bound(i, np.asarray(scores, float))
        values, work, parts = self._buffers(i, scores)
        return float(bound(self.pack, i, values, argmax(self.pack, i, values, work, parts), work))

    def marginals(self, i: int, scores: ArrayLike) -> tuple[float, Floats]:
        self._need("marginals")
        values, work, parts = self._buffers(i, scores)
        return float(marginals(self.pack, i, values, work, parts)), parts

    def kbest(self, i: int, scores: ArrayLike, k: int) -> Floats:
        self._need("kbest")
        if k < 1:
            raise ParameterError("k", type(self).__name__ + ".kbest", "at least 1", k)
        values, work, parts = self._buffers(i, scores, rows=k)
        return parts[: kbest(self.pack, i, values, work, parts, np.empty(k))]

    def sample(self, i: int, scores: ArrayLike, size: int, rng: np.random.Generator) -> Floats:
        self._need("sample")
        values, work, _ = self._buffers(i, scores)
        draws = np.zeros((size, self.n_parts(i)))
        seed = rng.integers(2**64, dtype=np.uint64)
        if sample(self.pack, i, values, work, seed, draws) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return draws

    def project(self, i: int, point: ArrayLike) -> Floats:
        self._need("project")
        values, work, parts = self._buffers(i, point)
        if project(self.pack, i, values, work, parts) == -np.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return parts

    def slack(self, i: int, scores: ArrayLike, costs: ArrayLike, constant: float = 0.0, offset: float = 1.0) -> Floats:
        self._need("slack")
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
        self._need("marginal_entropy")
        point, _, along = self._buffers(i, parts)
        if direction is not None:
            along, _, _ = self._buffers(i, direction)
        value, slope = marginal_entropy(self.pack, i, point, along)
        return float(value), float(slope)

    def support(self, i: int, scores: ArrayLike, mass: ArrayLike) -> Floats:
        self._need("support")
        values, work, parts = self._buffers(i, scores)
        masses = self._buffers(i, mass)[0]
        if support_argmin(self.pack, i, values, masses, work, parts) == np.inf:
            raise InputError(f"no output of instance {i} lies within the support")
        return parts

    def gibbs(self, i: int, mass: ArrayLike) -> Floats:
        self._need("gibbs")
        masses, _, scores = self._buffers(i, mass)
        gibbs_scores(self.pack, i, masses, scores)
        return scores

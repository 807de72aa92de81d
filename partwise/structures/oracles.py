"""Oracles: the queries that an output space may answer, as generic functions that compiled loops call.

Each oracle has a name, says what it answers, and is registered here once with ``@oracle``. A structure has an
oracle when a kernel is registered for its pack, or when its class defines the method of that name; nothing is
declared by hand (see :attr:`partwise.structures.base.Structure.oracles`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import Generic, kernel

if TYPE_CHECKING:
    import scipy.sparse

__all__ = [
    "GUARANTEES",
    "LEAST_MASS",
    "ORACLES",
    "Floats",
    "Polytope",
    "Solution",
    "argmax",
    "bound",
    "gibbs_scores",
    "kbest",
    "kernel_of",
    "marginal_entropy",
    "marginals",
    "part_count",
    "project",
    "sample",
    "score_of",
    "slack_argmax",
    "space_sizes",
    "support_argmin",
    "work_size",
]

Floats = NDArray[np.float64]

#: What is smaller is rounding, not mass.
LEAST_MASS = 1e-12

#: How good the answer of an oracle is.
GUARANTEES = {
    "exact": "the optimum over all outputs; for marginals, the log-partition itself",
    "outer": "the optimum of a relaxation, an upper bound; its parts may be fractional. An engine that stops at a "
    "tolerance returns what it attained, and has a bound. For marginals, an upper bound "
    "on the log-partition that is convex in the scores and has the marginals as its gradient",
    "inner": "a feasible output, perhaps not the best: a lower bound. For marginals, a lower bound on the "
    "log-partition that is attained by a distribution with these marginals",
    "none": "neither a lower nor an upper bound",
}

#: Every oracle a structure may have, and what it answers.
ORACLES: dict[str, str] = {}

_KERNELS: dict[str, Any] = {}


def oracle(name: str, answer: str) -> Callable[[Any], Any]:
    """Make a generic function the kernel of the oracle of that name."""

    def add(generic: Any) -> Any:
        ORACLES[name] = answer
        _KERNELS[name] = generic
        return generic

    return add


def kernel_of(name: str, pack: type) -> bool:
    """Whether a kernel of that oracle is registered for a type of pack."""
    generic = _KERNELS.get(name)
    return generic is not None and pack in generic.kinds


class Polytope(NamedTuple):
    """The convex hull of Y(x) as {lift·x : x ≥ 0, equal·x = equal_to, below·x ≤ limit}, Lacoste-Julien eq. (2.11).

    Without a ``lift`` the x are the parts themselves; with one, parts are sums of finer variables (a tied
    chain's counts of those at every position). No matrix has more than a few entries per column.
    """

    equal: scipy.sparse.csr_array
    equal_to: Floats
    below: scipy.sparse.csr_array
    limit: Floats
    lift: scipy.sparse.csr_array | None = None


@dataclass(frozen=True)
class Solution:
    """An output with a certificate: no output has a score above ``bound``, and this one has ``value``.

    ``status``: ``optimal``; ``rounded``, from a fractional solution of a relaxation; ``attained``, by a search that may
    have overlooked a better one; or ``time limit``. ``bound`` is +inf where nothing is known.
    """

    parts: Floats
    value: float
    bound: float
    status: str

    @property
    def gap(self) -> float:
        """How far the best output may be above this one."""
        return max(self.bound - self.value, 0.0)


# `space` is a structure's pack, `i` an instance.


@Generic
def part_count(space, i):
    """Number of parts of instance i."""


@Generic
def work_size(space, i):
    """Length of the float64 work array that the oracles below need for instance i."""


@oracle("argmax", "the output with the highest score, eq. (7)")
@Generic
def argmax(space, i, scores, work, parts):
    """parts ← argmax_{z ∈ Y(x_i)} scores·z; returns its score scores·parts, −inf if no output is allowed."""


@oracle("bound", "an upper bound on the highest score, for an argmax that may miss the best output or stop early")
@Generic
def bound(space, i, scores, value, work):
    """An upper bound on max_z scores·z, given the ``value`` that ``argmax`` attained."""


@oracle("marginals", "log-partition, part marginals and entropy, eq. (6)")
@Generic
def marginals(space, i, scores, work, parts):
    """parts ← E[z] under p(z) ∝ exp(scores·z); returns log Z."""


@oracle("kbest", "the k outputs with the highest scores, in order")
@Generic
def kbest(space, i, scores, work, parts, values):
    """parts[r] ← the output of rank r, values[r] ← its score; returns how many there are, ≤ len(values)."""


@oracle("sample", "draws from the Gibbs distribution of the scores, eq. (5)")
@Generic
def sample(space, i, scores, work, seed, parts):
    """parts[d] ← draw d from p(z) ∝ exp(scores·z), by the random stream of the uint64 ``seed``; returns log Z."""


@oracle("project", "Euclidean projection onto the marginal polytope")
@Generic
def project(space, i, point, work, parts):
    """parts ← argmin_z ‖z − point‖² over the convex hull of Y(x_i); returns −inf if no output is allowed."""


@oracle("marginal_entropy", "entropy of the maximum-entropy distribution with given marginals")
@Generic
def marginal_entropy(space, i, parts, direction):
    """(H(μ), its slope along ``direction``) where H(μ) is the largest entropy of a distribution with E[z] = μ = parts.

    H is the conjugate of log Z, eq. (6): log Z(s) = max_μ s·μ + H(μ). A part with μ = 0 counts for nothing.
    """


@oracle("slack", "the output with the largest cost × (offset + score), for slack rescaling")
@Generic
def slack_argmax(space, i, scores, costs, constant, offset, work, parts):
    """parts ← argmax_z (costs·z + constant)(offset + scores·z); returns the maximum, −inf if no output is allowed.

    ``costs`` is zero beyond the atoms, and no output has a cost below 0.
    """


@oracle("support", "the lowest-scoring output within the support of given marginals, for moves inside the polytope")
@Generic
def support_argmin(space, i, scores, mass, work, parts):
    """parts ← the output with the lowest score whose every part has mass; returns its score, +inf if there is none.

    Registered only where nonnegative parts and linear equations describe the marginal polytope: there
    μ + ε(z⁺ − z⁻) stays inside for any output z⁺ as long as no part of z⁻ goes below 0.
    """


@oracle("gibbs", "scores whose Gibbs distribution has given marginals")
@Generic
def gibbs_scores(space, i, mass, scores):
    """scores ← log-conditionals of the marginals ``mass``: p(z) ∝ exp(scores·z) has E[z] = mass, and log Z = 0."""


# a matrix for solvers of quadratic programs, never asked for by a kernel
ORACLES["polytope"] = "the marginal polytope as linear constraints, for solvers of quadratic programs"


@kernel
def space_sizes(space, parts, work):
    """parts[i], work[i] ← what ``part_count`` and ``work_size`` say, for every instance."""
    for i in range(parts.shape[0]):
        parts[i] = part_count(space, i)
        work[i] = work_size(space, i)


def score_of(scores: Floats, parts: Floats) -> float:
    """scores·parts where 0·(−inf) counts as 0.

    Examples
    --------
    >>> score_of(np.array([-np.inf, 2.0]), np.array([0.0, 1.0]))
    2.0
    """
    used = parts != 0
    return float(np.dot(scores[used], parts[used]))

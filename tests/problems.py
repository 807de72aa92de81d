"""Tiny problems of which everything is known: explicit feature matrices, all outputs, losses by plain sums.

``Tiny`` holds one chain problem twice: packed, as the library sees it, and written out. The written-out side calls
none of the code under test.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from oracles import Enumeration, enumerate_chain

from partwise.features import ChainFeatures, MatrixFeatures, RowFeatures, RowLayout, RowMatrix
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.base import Structure
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass

Floats = NDArray[np.float64]


# --------------------------------------------------------------------------------------------------
# Features, written out


def row_matrix(matrix: RowMatrix, layout: Any, i: int, dim: int) -> Floats:
    """F_i (dim, rows · outputs) from the meaning of a row map: weight (a, b) scores output b of rows that have a."""
    number = {(a, b): j for a, b, j in zip(*layout.pairs(), layout.positions(), strict=True)}
    first, last = matrix.offsets[i], matrix.offsets[i + 1]
    out = np.zeros((dim, (last - first) * layout.n_outputs))
    for r in range(first, last):
        for e in range(matrix.indptr[r], matrix.indptr[r + 1]):
            for b in range(layout.n_outputs):
                if (matrix.attributes[e], b) in number:
                    value = matrix.values[e] if len(matrix.values) else 1.0
                    row = number[matrix.attributes[e], b]
                    out[row, (r - first) * layout.n_outputs + b] += value
    return out


def transition_matrix(n_labels: int, order: int, base: int, dim: int) -> Floats:
    """F (dim, transition parts): a run of labels is scored by the weights of all its ends of two labels or more."""
    runs = [run for j in range(1, order + 1) for run in product(range(n_labels), repeat=j + 1)]
    number = {run: base + j for j, run in enumerate(runs)}
    out = np.zeros((dim, len(runs)))
    for part, run in enumerate(runs):
        for start in range(len(run) - 1):
            out[number[run[start:]], part] = 1.0
    return out


def random_rows(rng: np.random.Generator, lengths: Sequence[int], n_attributes: int, real: bool = True) -> RowMatrix:
    """Two to four attributes a row, the low numbers often, the high ones rarely."""
    chance = 1.0 / (1.0 + np.arange(n_attributes)) ** 1.2
    rows = []
    for _ in range(sum(lengths)):
        size = int(rng.integers(2, 5))
        chosen = rng.choice(n_attributes, size=size, replace=False, p=chance / chance.sum())
        row = np.zeros(n_attributes)
        row[chosen] = rng.normal(size=size) if real else 1.0
        rows.append(row)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return RowMatrix.from_csr(scipy.sparse.csr_array(np.array(rows)), offsets)


# --------------------------------------------------------------------------------------------------
# A structure in plain Python


class Enumerated(Structure):
    """Any output spaces as lists of outputs: every oracle by looking at all of them."""

    def __init__(self, instances: Sequence[Enumeration], n_atoms: Sequence[int]) -> None:
        self.instances, self.atom_counts = list(instances), list(n_atoms)

    def __len__(self) -> int:
        return len(self.instances)

    def n_parts(self, i: int) -> int:
        return int(self.instances[i].parts.shape[1])

    def n_atoms(self, i: int) -> int:
        return self.atom_counts[i]

    def encode(self, i: int, y: Any) -> Floats:
        return self.instances[i].parts[self.instances[i].outputs.index(tuple(y))]

    def decode(self, i: int, parts: Floats) -> Any:
        return self.instances[i].outputs[int(np.argmax((self.instances[i].parts == parts).all(axis=1)))]

    def argmax(self, i: int, scores: Floats) -> Floats:
        return self.instances[i].parts[best_output(self.instances[i], self.instances[i].values(scores))]

    def marginals(self, i: int, scores: Floats) -> tuple[float, Floats]:
        return self.instances[i].log_partition(scores), self.instances[i].marginals(scores)

    def kbest(self, i: int, scores: Floats, k: int) -> Floats:
        values = self.instances[i].values(scores).round(9)
        order = sorted(range(len(values)), key=lambda j: (-values[j], self.instances[i].outputs[j][::-1]))
        return self.instances[i].parts[order[:k]]

    def slack(self, i: int, scores: Floats, costs: Floats, constant: float = 0.0, offset: float = 1.0) -> Floats:
        instance = self.instances[i]
        values = (instance.parts @ costs + constant) * (offset + instance.values(scores))
        return instance.parts[best_output(instance, values)]


def best_output(instance: Enumeration, values: Floats) -> int:
    """The output of largest value; of equal ones that with the smallest last label, then the one before, and so on."""
    ties = np.flatnonzero(values >= values.max() - 1e-9)
    return int(min(ties, key=lambda j: instance.outputs[j][::-1]))


# --------------------------------------------------------------------------------------------------
# Losses, written out


def hamming(instance: Enumeration, y: Sequence[int], wrong: float = 1.0) -> Floats:
    """ℓ(y', y) of every output y': ``wrong`` for each position whose label is not that of y."""
    return np.array([wrong * sum(a != b for a, b in zip(other, y, strict=True)) for other in instance.outputs])


def reference_loss(
    instance: Enumeration, y: Sequence[int], scores: Floats, loss: Loss, costs: Floats
) -> tuple[float, Floats]:
    """Eq. (3) term by term, and z̄ − z of eq. (9), for one instance with the costs of all outputs."""
    gold = instance.parts[instance.outputs.index(tuple(y))]
    values = instance.values(scores) - scores @ gold + loss.gamma * costs
    if math.isinf(loss.beta):
        best = best_output(instance, values)
        return float(values[best]), instance.parts[best] - gold
    top = values.max()
    weights = np.exp(loss.beta * (values - top))
    value = float(top + math.log(weights.sum()) / loss.beta)
    return value, weights / weights.sum() @ instance.parts - gold


@dataclass(frozen=True)
class Tiny:
    """m small instances with features, both packed and written out."""

    space: Chain | Multiclass
    features: RowFeatures
    outputs: list[tuple[int, ...]]
    rows: RowMatrix
    layout: RowLayout
    matrices: list[Floats]  # (dim, parts) of each instance
    instances: list[Enumeration]

    def problem(self, loss: Loss | str, **settings: Any) -> Problem:
        """The packed problem: compiled."""
        single = isinstance(self.space, Multiclass)
        outputs = [y[0] for y in self.outputs] if single else self.outputs
        return Problem(self.space, self.features, outputs, loss, **settings)

    def plain(self, loss: Loss | str, space: Structure | None = None, **settings: Any) -> Problem:
        """The same problem from a structure and features in plain Python."""
        atoms = [self.space.n_atoms(i) for i in range(len(self.space))]
        space = space or Enumerated(self.instances, atoms)
        return Problem(space, MatrixFeatures(self.matrices), self.outputs, loss, **settings)

    @property
    def weights(self) -> NDArray[np.int64]:
        """Where in θ a weight exists."""
        return np.append(self.layout.positions(), np.arange(self.layout.dim, self.features.dim))

    def theta(self, rng: np.random.Generator, scale: float = 1.0) -> Floats:
        """Random weights, zero where there is none."""
        theta = np.zeros(self.features.dim)
        theta[self.weights] = scale * rng.normal(size=len(self.weights))
        return theta

    def instance_loss(self, i: int, theta: Floats, loss: Loss, wrong: float = 1.0) -> tuple[float, Floats]:
        """(L_i(θ), ∇L_i(θ)) with a Hamming cost, by enumeration."""
        instance, y = self.instances[i], self.outputs[i]
        value, parts = reference_loss(instance, y, self.matrices[i].T @ theta, loss, hamming(instance, y, wrong))
        return value, self.matrices[i] @ parts

    def loss(self, theta: Floats, loss: Loss) -> tuple[float, Floats]:
        """(Σ_i L_i, Σ_i ∇L_i)."""
        pairs = [self.instance_loss(i, theta, loss) for i in range(len(self.outputs))]
        return sum(value for value, _ in pairs), np.sum([gradient for _, gradient in pairs], axis=0)

    def objective(self, theta: Floats, loss: Loss, C: float) -> float:
        """Eq. (2) with λ = 1/(Cm)."""
        return (0.5 * theta @ theta / C + self.loss(theta, loss)[0]) / len(self.outputs)


def tiny(
    seed: int = 0,
    lengths: Sequence[int] = (3, 2, 4, 1, 3),
    n_labels: int = 3,
    order: int = 1,
    n_attributes: int = 12,
    real: bool = True,
    every: bool = False,
    **constraints: Any,
) -> Tiny:
    """A random problem; ``constraints`` as for Chain (transitions, start, stop), with gold outputs that obey them."""
    rng = np.random.default_rng(seed)
    space = Chain(lengths, n_labels, order=order, **constraints)
    masks = [constraints.get(name) for name in ("transitions", "start", "stop")]
    shapes = [(n_labels, n_labels), (n_labels,), (n_labels,)]
    full = [
        np.ones(shape, bool) if mask is None else np.array(mask, bool)
        for mask, shape in zip(masks, shapes, strict=True)
    ]
    instances = [enumerate_chain(n_labels, order, True, np.ones((n, n_labels), bool), *full) for n in lengths]
    outputs = [instance.outputs[rng.integers(len(instance.outputs))] for instance in instances]
    rows = random_rows(rng, lengths, n_attributes, real)
    layout = RowLayout.observed(rows, np.concatenate([np.array(y) for y in outputs]), n_labels, every=every)
    features = ChainFeatures(layout.pack(rows), layout.dim, n_labels, order)
    transitions = transition_matrix(n_labels, order, layout.dim, features.dim)
    matrices = [np.hstack([row_matrix(rows, layout, i, features.dim), transitions]) for i in range(len(lengths))]
    return Tiny(space, features, outputs, rows, layout, matrices, instances)


def tiny_multiclass(seed: int = 0) -> Tiny:
    """Six instances of one variable with four labels: compiles in a fraction of the time of a chain."""
    rng = np.random.default_rng(seed)
    rows, layout = random_rows(rng, [1] * 6, 8), RowLayout(8, 4)
    features = RowFeatures(layout.pack(rows), layout.dim)
    matrices = [row_matrix(rows, layout, i, layout.dim) for i in range(6)]
    instances = [Enumeration([(b,) for b in range(4)], np.eye(4), [])] * 6
    outputs = [(int(b),) for b in rng.integers(4, size=6)]
    return Tiny(Multiclass(6, 4), features, outputs, rows, layout, matrices, instances)


# --------------------------------------------------------------------------------------------------
# Learning, written out


def iterates(problem: Problem, learner: Any, order: Iterable[int], theta: Floats | None = None) -> list[Floats]:
    """θ after each single step of an online learner, not averaged."""
    state = learner.start(problem, np.zeros(problem.dim) if theta is None else theta.copy(), None)
    found = []
    for i in order:
        learner.one_pass(problem, state, np.array([i]))
        found.append(state["counters"][0] * state["v"])
    return found


class Memory:
    """A checkpoint kept in memory."""

    def __init__(self, every: int = 1) -> None:
        self.every, self.state = every, None

    def due(self, step: int) -> bool:
        return step % self.every == 0

    def exists(self) -> bool:
        return self.state is not None

    def save(self, state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)

    def load(self) -> dict[str, Any]:
        return copy.deepcopy(self.state)


def solve_qp(P: Floats, q: Floats, G: Floats, h: Floats) -> Floats:
    """argmin ½ xᵀPx + qᵀx subject to Gx ≤ h, by an interior-point solver."""
    clarabel = pytest.importorskip("clarabel", reason="the reference solutions of quadratic programs need clarabel")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(h))]
    matrices = [scipy.sparse.csc_matrix(x) for x in (np.triu(P), G)]
    solution = clarabel.DefaultSolver(matrices[0], q, matrices[1], h, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    return np.array(solution.x)


def differences(case: Tiny, i: int, gamma: float) -> tuple[Floats, Floats]:
    """a_y = φ(y) − φ(gold) (outputs, dim) and γ ℓ(y, gold) (outputs,): L = max_y a_yᵀθ + γℓ for the hinge."""
    instance, y = case.instances[i], case.outputs[i]
    gold = instance.parts[instance.outputs.index(y)]
    return (instance.parts - gold) @ case.matrices[i].T, gamma * hamming(instance, y)


def proximal_hinge(case: Tiny, chosen: Sequence[int], start: Floats, C: float, gamma: float) -> tuple[Floats, float]:
    """(θ, value) of min 1/(2C) ‖θ − start‖² + Σ_{i chosen} L(∞,γ)_i(θ) as a quadratic program with slacks."""
    dim, n = len(start), len(chosen)
    rows, bounds = [], []
    for k, i in enumerate(chosen):
        a, c = differences(case, i, gamma)
        rows.append(np.hstack([a, np.tile(-np.eye(n)[k], (len(a), 1))]))
        bounds.append(-c)
    P = np.diag(np.append(np.full(dim, 1.0 / C), np.zeros(n)))
    q = np.append(-start / C, np.ones(n))
    theta = solve_qp(P, q, np.vstack(rows), np.concatenate(bounds))[:dim]
    value = 0.5 * float((theta - start) @ (theta - start)) / C
    for i in chosen:
        a, c = differences(case, i, gamma)
        value += float((a @ theta + c).max())
    return theta, value


def slopes(function: Callable[[Floats], float], theta: Floats, step: float = 1e-6) -> Floats:
    """The gradient by central differences."""
    out = np.zeros(len(theta))
    for j in range(len(theta)):
        above, below = theta.copy(), theta.copy()
        above[j] += step
        below[j] -= step
        out[j] = (function(above) - function(below)) / (2 * step)
    return out

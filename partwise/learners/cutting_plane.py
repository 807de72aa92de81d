"""Cutting planes: the structural SVM as a quadratic program whose constraints are found one by one.

With L_i(θ) the maximum of the cuts b + θᵀF_i u (:mod:`partwise.learners.domains`), both learners minimise

    P(θ) = 1/m [ ‖θ‖²/(2C) + Σ_i L_i(θ) ]

over a growing working set of cuts, and in the dual of that: weights α ≥ 0 of the cuts, v = −Σ α F u, θ = C v, and
D = 1/m [ Σ α b − C/2 ‖v‖² ] ≤ min P. (Sarawagi's C is Cm here: she weighs the mean of the slacks.)

* **n-slack** (Tsochantaridis et al. 2005): a slack, and Σ_k α_ik ≤ 1, for every instance. A cut that is violated by
  more than ε raises the dual by at least min(Cε/2, ε²/8R²)/(Cm) where R = max ‖F_i u‖, so there are at most
  max(2mΔ/ε, 8CmΔR²/ε²) of them, Δ being the largest cost.
* **1-slack** (Joachims, Finley and Yu 2009): one slack for all, and one cut Σ_i (b_i, F_i u_i) per pass; at most
  log₂(Δ/(4R²Cm)) + 16CmR²/ε of them for a gap of ε, whatever the number of instances.

Margin and slack rescaling differ in the loss alone. Where some weights must be ≥ 0, θ = C·clip(v), and the dual is
quadratic piece by piece. The programs are solved in :mod:`partwise.learners._cut_weights`, with a bound on the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise._math import dot
from partwise.exceptions import ParameterError
from partwise.learners._cut_weights import hildreth, signed_ascent
from partwise.learners._cuts import Cuts, forgotten, grown, no_cuts
from partwise.learners._cutting_kernels import cached_cut, mixture, n_slack_pass, products, remembering_pass
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import CertifiedLearner
from partwise.learners.domains import Domain
from partwise.problem import Problem

__all__ = ["NSlack", "OneSlack"]

#: Joint cuts that a pass makes of cached ones at most, before it calls the oracles.
CACHED_ROUNDS = 100


@dataclass(frozen=True)
class CuttingPlane(CertifiedLearner):
    """Settings common to both formulations.

    Parameters
    ----------
    epsilon : float, optional
        By how much a new constraint must be violated, in the units of the loss of one instance. Training stops
        when there is none, or when the gap is within ``tolerance``. If absent, it follows from ``tolerance``.
    forget : int
        A constraint that has had no weight for this many passes is removed.
    """

    constrains: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    max_passes: int = 2000
    epsilon: float | None = None
    forget: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            self._positive("epsilon")
        if not self.forget >= 1:
            raise ParameterError("forget", type(self).__name__, "at least 1", self.forget)

    def _assess(self, state: State, primal: float, dual: float, none_violated: bool, **extra: float) -> dict[str, Any]:
        """As ``assess``, with the best primal so far: its θ is what ``fit`` returns."""
        primal, dual = float(primal), float(dual)
        norm = math.sqrt(dot(state["theta"], state["theta"]))
        known = self.assess(primal, dual, added=state["added"], norm=norm, **extra)
        state["gap"], state["primal"] = primal - dual, min(primal, state["primal"])
        near = state["primal"] - dual <= self.tolerance * abs(state["primal"])
        known["converged"] = near or (self.epsilon is not None and none_violated)
        return known


@register_learner("n_slack")
@dataclass(frozen=True)
class NSlack(CuttingPlane):
    """n-slack cutting planes: a working set of outputs for every instance.

    A pass calls the oracle of every instance in turn, adds the cut if it is violated, and solves for the weights of
    that instance's cuts at once ("efficient solution in the dual space", Sarawagi); then it sweeps over the working
    sets without the oracle until their own gap is small beside the last one of the whole problem. A second call of
    every oracle certifies the result.

    Parameters
    ----------
    max_sweeps : int
        Maximum number of sweeps over the working sets per pass.
    """

    max_sweeps: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_sweeps >= 0:
            raise ParameterError("max_sweeps", "NSlack", "at least 0", self.max_sweeps)

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        cuts = no_cuts(np.full(problem.m, 2, np.int64), 16 * problem.m)
        raw, totals = np.zeros(problem.dim), np.zeros(2)
        order = np.arange(problem.m)
        if theta.any():  # the cuts there, without weight: what the first sweep begins with
            cuts = self._over(problem, order, True, 0.0, np.inf, raw, self.domain(problem).clip(theta), cuts, totals)
        return {
            "theta": theta,
            "raw": raw,
            "cuts": cuts._asdict(),
            "added": float(totals[1]),
            "primal": self.primal(problem, np.zeros(problem.dim)),
            "gap": np.inf,
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
        }

    def _over(
        self, problem: Problem, order: Any, seek: bool, epsilon: float, tolerance: float,
        raw: Floats, theta: Floats, cuts: Cuts, totals: Floats,
    ) -> Cuts:  # fmt: skip
        """One pass of the kernel over all instances, with more room made as often as it asks for it."""
        signed = problem.nonnegative
        buffers, kept, scratch = problem.buffers(), problem.buffers().spare, np.zeros(problem.dim)
        place = 0
        while True:
            place = problem.run(
                n_slack_pass, problem.data, order, place, seek, self.C, epsilon, tolerance, signed, buffers, kept,
                scratch, raw, theta, cuts, totals,
            )  # fmt: skip
            if place == len(order):
                return cuts
            i = int(order[place])
            cuts = grown(cuts, i, int(problem.part_offsets[i + 1] - problem.part_offsets[i]))

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        domain, raw, cuts = self.domain(problem), state["raw"], Cuts(**state["cuts"])
        theta = raw if domain.nonnegative is None else domain.clip(raw)
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        near = self.tolerance * abs(state["primal"])  # what the gap may be in the end, an instance
        epsilon = 0.5 * near if self.epsilon is None else self.epsilon
        fine, totals = 0.1 * epsilon, np.zeros(2)
        cuts = self._over(problem, rng.permutation(problem.m), True, epsilon, fine, raw, theta, cuts, totals)
        added, sweeps, left = totals[1], 0, totals[0]
        while sweeps < self.max_sweeps and left > problem.m * max(0.5 * epsilon, 0.1 * state["gap"]):
            totals[0] = 0.0
            cuts = self._over(problem, rng.permutation(problem.m), False, epsilon, fine, raw, theta, cuts, totals)
            left, sweeps = totals[0], sweeps + 1
        cuts = forgotten(cuts, self.forget)
        primal = self.primal(problem, theta)
        dual = self.dual(problem, dot(cuts.alpha, cuts.constant), raw / self.C)
        state.update(theta=theta, cuts=cuts._asdict(), rng=rng.bit_generator.state, added=state["added"] + float(added))
        solved = added == 0.0 and left <= problem.m * epsilon
        return self._assess(state, primal, dual, solved, constraints=float(cuts.filled.sum()), sweeps=float(sweeps))


@register_learner("one_slack")
@dataclass(frozen=True)
class OneSlack(CuttingPlane):
    """1-slack cutting planes: one joint cut of all instances per pass, kept as a vector of weights.

    Parameters
    ----------
    cache : int
        How many of its last cuts each instance remembers. A pass first makes joint cuts of those, as long as they
        are violated by more than half of the last gap, and only then calls the oracles: for oracles that take far
        longer than computing the scores does.
    """

    batch: ClassVar[bool] = True

    cache: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cache >= 0:
            raise ParameterError("cache", "OneSlack", "at least 0", self.cache)

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        if self.cache and not isinstance(problem, Problem):
            raise ParameterError("cache", "OneSlack", "0 if the sum is not a Problem", self.cache)
        state: State = {
            "theta": self.domain(problem).project(theta),
            "directions": np.zeros((8, problem.dim)),
            "constants": np.zeros(8),
            "gram": np.zeros((8, 8)),
            "alpha": np.zeros(8),
            "last_alpha": np.zeros(0),
            "age": np.zeros(8, np.int64),
            "count": 0,
            "added": 0.0,
            "steps": 0,
            "dual": 0.0,
            "primal": np.inf,
            "gap": np.inf,
        }
        if self.cache:
            state["cache"] = no_cuts(np.full(problem.m, self.cache, np.int64), 16 * problem.m)._asdict()
        return state

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        domain = self.domain(problem)
        if state["count"]:
            self._solve(problem, domain, state)
            if self.cache:
                self._cached_rounds(problem, domain, state)
        theta = state["theta"]
        state["steps"] += 1
        total, direction = self._oracles(problem, state) if self.cache else problem.loss_and_gradient(theta)
        primal = float(domain.cost(theta) + total) / problem.m
        dual = state["dual"] / problem.m
        violation = total - self._model(state, theta)
        if violation > 0.0:
            self._add(state, total - dot(theta, direction), direction)
        still = violation <= 0.0 and np.array_equal(state["last_alpha"], state["alpha"])
        state["last_alpha"] = state["alpha"].copy()
        met = self.epsilon is not None and violation <= problem.m * self.epsilon
        known = self._assess(state, primal, dual, met, constraints=float(state["count"]))
        return {**known, "stalled": still}  # no new cut and no other weights: rounding lets it go no further

    # the working set

    def _model(self, state: State, theta: Floats) -> float:
        """max(0, max_k b_k + θᵀg_k): ΣL_i as far as the working set knows it."""
        worth = np.empty(state["count"])
        products(state["directions"], state["count"], theta, worth)
        return float((worth + state["constants"][: state["count"]]).max(initial=0.0))

    def _add(self, state: State, constant: float, direction: Floats) -> None:
        count = state["count"]
        if count == len(state["constants"]):
            for name in ("directions", "constants", "alpha", "age"):
                state[name] = np.concatenate([state[name], np.zeros_like(state[name])])
            state["gram"] = np.pad(state["gram"], ((0, count), (0, count)))
        state["directions"][count], state["constants"][count] = direction, constant
        state["alpha"][count], state["age"][count] = 0.0, 0
        products(state["directions"], count + 1, direction, state["gram"][count])
        state["gram"][:count, count] = state["gram"][count, :count]
        state["count"] = count + 1
        state["added"] += 1.0

    def _solve(self, problem: Problem, domain: Domain, state: State) -> None:
        """The quadratic program of the working set, to a small part of the last gap; θ and the dual from it."""
        count, alpha = state["count"], state["alpha"]
        rows, gram, constants = state["directions"], state["gram"], state["constants"]
        tolerance = max(0.2 * state["gap"] * problem.m, 1e-15 * np.abs(constants[:count]).max())
        v = np.empty(problem.dim)
        if domain.nonnegative is None:
            hildreth(gram, constants, count, self.C, alpha, tolerance)
        else:
            mixture(rows, -self.C * alpha, count, v)
            signed_ascent(rows, constants, count, self.C, domain.nonnegative, v, alpha, tolerance)
        mixture(rows, -alpha, count, v)  # afresh: the dual is that of these weights
        state["theta"], state["dual"] = domain.best(v), dot(alpha, constants) + domain.bound(v)
        self._forget(state)

    def _forget(self, state: State) -> None:
        count = state["count"]
        age = np.where(state["alpha"][:count] > 0, 0, state["age"][:count] + 1)
        keep = np.flatnonzero(age <= self.forget)
        state["age"][:count] = age
        if len(keep) == count:
            return
        for name in ("directions", "constants", "alpha", "age"):
            state[name][: len(keep)] = state[name][keep]
            state[name][len(keep) : count] = 0
        state["gram"][: len(keep), : len(keep)] = state["gram"][np.ix_(keep, keep)]
        state["count"] = len(keep)

    # the oracles

    def _oracles(self, problem: Problem, state: State) -> tuple[float, Floats]:
        """(Σ L_i, Σ F_i u_i) at θ; every instance remembers its cut."""
        cache = Cuts(**state["cache"])
        losses, direction = np.zeros(problem.m), np.zeros(problem.dim)
        buffers, kept, i = problem.buffers(), problem.buffers().spare, 0
        while True:
            i = problem.run(
                remembering_pass, problem.data, i, state["theta"], state["steps"], buffers, kept, cache, losses,
                direction,
            )  # fmt: skip
            if i == problem.m:
                break
            cache = grown(cache, i, int(problem.part_offsets[i + 1] - problem.part_offsets[i]))
        state["cache"] = cache._asdict()
        return float(losses.sum()), direction

    def _cached_rounds(self, problem: Problem, domain: Domain, state: State) -> None:
        """Cuts from the cache, as long as they promise half of what the oracles brought the last time."""
        cache, kept, mixed = Cuts(**state["cache"]), problem.buffers().spare, problem.buffers().spare
        promised = 0.5 * state["gap"] * problem.m
        for _ in range(CACHED_ROUNDS):
            direction, theta, dual = np.zeros(problem.dim), state["theta"], state["dual"]
            constant = float(problem.run(cached_cut, problem.data, theta, kept, mixed, cache, direction))
            if constant + dot(theta, direction) - self._model(state, theta) <= promised:
                return
            self._add(state, constant, direction)
            self._solve(problem, domain, state)
            if not state["dual"] > dual:  # rounding: what it promised, it does not hold
                return

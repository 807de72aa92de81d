"""Dual coordinate ascent on shards at the same time, with the duality gap of the whole problem: CoCoA⁺ in small rounds.

Every group of shards visits its instances with a copy of θ = C v and its own dual points (Jaggi et al. 2014; Ma et al.
2015). Seen from group k, the others stand still, so that together they might go too far: its subproblem has the
quadratic term σ′ C/2 ‖Σ_i F_i δ_i‖², and the changes are then added up,

    θ_k ← θ + σ′ Δθ_k  inside a round,        θ ← θ + Σ_k Δθ_k  after it.

That is the learner's own pass with σ′C in place of C. The dual cannot fall where σ′ ≥ ‖Σ_k Δθ_k‖² / Σ_k ‖Δθ_k‖²,
which is at most the number of groups K, and about 1 where the changes of the groups have little in common: the less,
the shorter a round is. So a pass is cut into many rounds, σ′ follows the ratio that the last one had, times
``MARGIN``, and goes back to the safe K whenever the dual fell. The gap is exact whatever σ′ was: the dual is that of
the points reached, the primal that of θ. For β < ∞ the pass is SDCA's, for β = ∞ that of block Frank–Wolfe.

Dual points stay on the workers. Where one is lost, or training is resumed, the rounds so far are gone through again:
they depend on nothing but the data and the seed, and end with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise._math import dot
from partwise.cluster.shards import ShardedObjective, add_to, sparse
from partwise.exceptions import ClusterError, ParameterError
from partwise.learners.base import Floats, State
from partwise.learners.blocks import BlockLearner
from partwise.learners.certified import CertifiedLearner
from partwise.losses import LossFunction
from partwise.problem import Problem

__all__ = ["DualRounds"]

#: Rounds of a pass, at least and at most, and how many instances a group visits in one where that decides.
ROUNDS = (16, 128)
VISITS = 16
MARGIN = 1.2


def dual_visits(problem: Problem, memory: dict[str, Any], number: int, carry: dict[str, Any]) -> dict[str, Any]:
    """One shard's part of a round: moves its dual points and the copy of θ that its group shares."""
    if carry.get("lost"):
        return carry
    learner, step, parts = carry["learner"], carry["step"], carry["rounds"]
    if step == 0:
        own = replace(learner, random_state=learner.random_state + number)
        memory["state"], memory["step"] = own.start(problem, np.zeros(problem.dim), None), 0
    if memory.get("step") != step:  # it was on a worker that is gone, or went ahead of one
        return {"lost": True}
    state, part = memory["state"], step % parts
    if part == 0:
        memory["visits"] = learner.visits(problem, state)
    order, draws, tree = memory["visits"]
    here = slice(len(order) * part // parts, len(order) * (part + 1) // parts)
    state["theta"] = carry["theta"]
    learner.visit(problem, state, order[here], draws[here], tree)
    memory["step"] = step + 1
    carry["constant"] += learner.constant(problem, state)
    carry["estimate"] += float(state["gaps"].sum())
    return carry


def group_change(before: Floats, carry: dict[str, Any]) -> dict[str, Any]:
    """What a group sends back: Δθ_k, its squared length, and Σ b_i."""
    if carry.get("lost"):
        return carry
    change = sparse(carry["theta"] - before)  # a round is short: most weights have not moved
    values = change[2] if isinstance(change, tuple) else change
    values /= carry["sigma"]
    return {
        "change": change,
        "square": dot(values, values),
        "constant": carry["constant"],
        "estimate": carry["estimate"],
    }


@dataclass(frozen=True)
class DualRounds(CertifiedLearner):
    """A learner that visits instances, on groups of shards at the same time; see the module."""

    batch: ClassVar[bool] = True

    base: BlockLearner | None = None
    groups: int = 1
    rounds: int = 0  # of a pass; 0 chooses

    @classmethod
    def of(cls, base: BlockLearner, groups: int) -> DualRounds:
        """With the settings of the learner whose passes it makes."""
        if getattr(base, "averaging", False):
            raise ParameterError("average", type(base).__name__, "False, with cuts > 0, when training on shards", True)
        if base.sampling == "gap":
            raise ParameterError(
                "sampling", type(base).__name__, "'permutation' or 'uniform' when training on shards", base.sampling
            )
        return cls(base.C, base.max_passes, base.random_state, base.tolerance, base, groups)

    @property
    def _base(self) -> BlockLearner:
        assert self.base is not None
        return self.base

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return self._base.needs

    @property
    def losses(self) -> str:  # type: ignore[override]
        return self._base.losses

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        return self._base.weighs

    def accepts(self, loss: LossFunction) -> bool:
        return self._base.accepts(loss)

    def start(self, problem: ShardedObjective, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        if theta.any():
            raise ParameterError("theta", type(self._base).__name__, "zero when training on shards starts", theta)
        borders = problem.runner.borders(self.groups)
        rounds = self.rounds or min(max(problem.m // (VISITS * (len(borders) - 1)), ROUNDS[0]), ROUNDS[1])
        return {
            "borders": borders,
            # also for a single group: visits that stay in one shard for long see too little of the others
            "rounds": rounds if borders[-1] > 1 else 1,
            "theta": np.zeros(problem.dim),
            "sigma": float(len(borders) - 1),
            "step": 0,
            "dual": 0.0,
            "best_dual": -np.inf,
            "estimate": 0.0,
            "answer": np.zeros(problem.dim),  # the best θ so far
            "primal": np.inf,
        }

    def advance(self, problem: ShardedObjective, state: State) -> dict[str, Any]:
        groups = len(state["borders"]) - 1
        for _ in range(state["rounds"]):
            if not self._round(problem, state):
                self._again(problem, state)
        state["best_dual"] = max(state["best_dual"], state["dual"])
        primal = self.primal(problem, state["theta"])  # type: ignore[arg-type]
        if primal < state["primal"]:
            state["answer"], state["primal"] = state["theta"], primal
        extra = {"gap_estimate": state["estimate"] / problem.m, "sigma": state["sigma"], "groups": float(groups)}
        return self.assess(state["primal"], state["dual"], state["best_dual"], **extra)

    def weights(self, state: State) -> Floats:
        answer: Floats = state["answer"]  # replaced in every pass, never written to
        return answer

    def _round(self, problem: ShardedObjective, state: State) -> bool:
        """One round; False where dual points were lost."""
        theta, sigma, groups = state["theta"], state["sigma"], len(state["borders"]) - 1
        common = {
            "learner": replace(self._base, C=sigma * self.C), "step": state["step"], "rounds": state["rounds"],
            "theta": theta, "sigma": sigma, "constant": 0.0, "estimate": 0.0,
        }  # fmt: skip
        found = problem.runner.sweep(dual_visits, group_change, state["borders"], common)
        if any(part.get("lost") for part in found):
            return False
        total = np.zeros(problem.dim)
        for part in found:
            add_to(total, part["change"])
        state["theta"] = theta + total
        squares = sum(part["square"] for part in found)
        constant = sum(part["constant"] for part in found)
        dual = (constant - 0.5 * dot(state["theta"], state["theta"]) / self.C) / problem.m
        ratio = dot(total, total) / squares if squares > 0 else 1.0
        state["sigma"] = float(groups) if dual < state["dual"] else min(float(groups), max(1.0, MARGIN * ratio))
        state["dual"], state["estimate"] = dual, sum(part["estimate"] for part in found)
        state["step"] += 1
        return True

    def _again(self, problem: ShardedObjective, state: State) -> None:
        """All rounds up to this one and this one itself, from the beginning."""
        for _ in range(5):
            again = {**self.start(problem, np.zeros(problem.dim), None), "borders": state["borders"]}
            again["rounds"] = state["rounds"]
            again["sigma"] = float(len(state["borders"]) - 1)
            while again["step"] <= state["step"]:
                if not self._round(problem, again):
                    break
            else:
                state.update({name: again[name] for name in ("theta", "sigma", "step", "dual", "estimate")})
                return
        raise ClusterError("the workers lose their dual points faster than they can be computed again")

"""Dual extragradient for max-margin learning as a saddle-point problem (Lacoste-Julien 2009, chapter 2).

    min_θ max_z  Ω(θ) + Σ_i θᵀF_i(z_i − ẑ_i) + γℓ_i(z_i),     z_i in the marginal polytope, ẑ_i gold,             (2.13)

is solved in its own form: neither player's constraints ever meet the other's. With a centre of each set and
divergences d from it, iteration t of Figures 2.2 and 2.4 is

    v = argmin_u Σ_{k<t} λ_k (⟨g(u^k), u⟩ + Ω(θ)) + β d_θ(θ) + d_z(z)            what the past asks for
    u^t = argmin_u λ_t (⟨g(v), u⟩ + Ω(θ)) + D(v, u)                              a step from there, looking ahead
    answer: Σ λ_k u^k / Λ,  Λ = Σ λ_k                                            an average

where g = (Σ F_i(z_i − ẑ_i), −F_iᵀθ − γp_i) is the operator of the bilinear game and D the Bregman divergence of the
function that v minimises. In a ball with β = 1 and λ = η = 1/‖F‖ this is eq. (2.17) to the letter.

**The regularised problem.** Ω(θ) = ‖θ‖²/(2C) would add θ/C to the operator. Instead it stands in the proximal steps,
which then are divided by β + Λ/C: the player of the weights grows stiffer, and that pays for longer steps. The
condition of the analysis, λ_t² L² ≤ β + Λ_{t−1}/C (L the Lipschitz constant of g), lets λ_t grow linearly and Λ
quadratically. In every domain the analysis of Nesterov (2003) gives

    Λ · (restricted gap of the average) ≤ β D_θ + D_z,                                                            (2.19)

so the gap of the average of all steps falls like 1/t in a ball, and like 1/t² with a regulariser. The players
themselves converge much faster once they have found the faces of their sets: an average of the later half of the steps
forgets the beginning, and its gap has been seen to fall a hundred times lower. The certificate says what it is.

**Memory.** s_z = Σ_k λ_k(F_iᵀu_θ^k + γp_i) = Λ(F_iᵀθ̄ + γp_i) is rebuilt from the average θ̄ (§2.5): between passes there
are a few vectors of the size of θ and nothing for each instance. The plain form keeps s_z and z̄, and makes the
same iterates.

**Steps.** ``fixed`` takes L = ‖F‖₂ (times what the geometry asks for). ``adaptive`` tries longer ones and keeps what
the analysis needs in sum: with ψ_t the minimum that v attains,

    ψ_t ≥ Σ_{k<t} λ_k (⟨g(u^k), u^k⟩ + Ω(u_θ^k)),

which every pass can check for the step before; a step that breaks it is taken back and made shorter. Hence (2.19)
holds for adaptive steps too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise.exceptions import InputError, ParameterError
from partwise.learners._saddle_kernels import Entropic, Euclidean, answers, operator_norm, update_scores
from partwise.learners._saddle_players import L1Ball, L2Player, Player, SimplexPlayer
from partwise.learners.base import Floats, State, register_learner
from partwise.learners.certified import CertifiedLearner
from partwise.learners.domains import Domain
from partwise.losses import LossFunction
from partwise.problem import Problem

__all__ = ["EntropicExtragradient", "Extragradient", "SaddlePointLearner"]

# Adaptive steps: how the estimate of L changes after a step that holds (before and after the first that does not) and
# after one that does not. A step taken back costs a pass, so they should be few: about one in ten here.
BOLD, EAGER, CAUTIOUS = 0.8, 0.95, 1.5
#: What rounding may do to the potentials that adaptive steps compare, relatively.
ROUNDING = 1e-11


@dataclass(frozen=True)
class SaddlePointLearner(CertifiedLearner):
    """What learners of the saddle-point problem share: the domain of θ and the scale of the steps.

    Parameters
    ----------
    radius : float, optional
        R of the ball ‖θ‖ ≤ R, eq. (2.8), in place of the regulariser ‖θ‖²/(2C); ``inf`` for neither of them: the
        unregularised path of §2.6, which a held-out score should stop (``fit(score=…, patience=…)``).
    norm : {"l2", "l1"}
        Of the ball.
    balance : float, optional
        β, the weight of the divergence of θ against that of the outputs. If absent D_z/D_θ, which minimises the
        bound (2.19) for a ball; 1/(CL)² with a regulariser, where it soon does not matter; 1 without both.
    """

    losses: ClassVar[str] = "convex losses with β = ∞ that rescale the margin"
    constrains: ClassVar[bool] = True

    max_passes: int = 1000
    radius: float | None = None
    norm: str = "l2"
    balance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("radius", "balance"):
            if getattr(self, name) is not None:
                self._positive(name, infinite=name == "radius")
        if self.norm not in ("l1", "l2"):
            raise ParameterError("norm", type(self).__name__, "'l1' or 'l2'", self.norm)
        if self.norm == "l1" and (self.radius is None or math.isinf(self.radius)):
            raise ParameterError("radius", type(self).__name__, "a positive number if norm is 'l1'", self.radius)

    def accepts(self, loss: LossFunction) -> bool:
        return super().accepts(loss) and loss.augmented

    def domain(self, problem: Problem) -> Domain:
        kind = L1Ball if self.norm == "l1" else Domain
        return kind(self.C, self.radius, problem.nonnegative)

    @property
    def _free(self) -> bool:
        """Neither ball nor regulariser."""
        return self.radius is not None and math.isinf(self.radius)

    def _beta(self, problem: Problem, lipschitz: float, reach: float) -> float:
        """β, with ``reach`` a bound of the divergence of the outputs."""
        if self.balance is not None:
            return self.balance
        if self.radius is None:
            return 1.0 / max((self.C * lipschitz) ** 2, 1e-300)
        if self._free:
            return 1.0
        return reach / (math.log(2 * problem.dim + 1) if self.norm == "l1" else 0.5 * self.radius**2)

    def judge(
        self, problem: Problem, state: State, theta: Floats, dual: float | None, **extra: float
    ) -> dict[str, Any]:
        """What ``advance`` returns for θ and a dual value, if there is one; remembers it in the state."""
        primal = self.primal(problem, theta)
        extra["norm"] = math.sqrt(self.domain(problem).dot(theta, theta))
        known: dict[str, Any] = {"objective": primal, "extra": extra}
        if dual is not None:
            known = self.assess(primal, dual, state["best_dual"], **extra)
            state["best_dual"] = max(dual, state["best_dual"])
        state["known"] = known
        return dict(known)


@register_learner("extragradient")
@dataclass(frozen=True)
class Extragradient(SaddlePointLearner):
    """min_θ max_z Ω(θ) + Σ_i θᵀF_i(z_i − ẑ_i) + γℓ_i(z_i) by dual extragradient.

    Lacoste-Julien (2009), eqs. (2.13) and (2.17).

    Parameters
    ----------
    geometry : {"euclidean", "entropic"}
        How outputs are moved: by projections onto the marginal polytope (oracle ``project``), or by marginals of Gibbs
        distributions (oracle ``marginals``; §2.4.2, Example 2).
    memory_efficient : bool
        Keep nothing for each instance (§2.5). The iterates are the same.
    step : {"adaptive", "fixed"} or float
        ``fixed`` is 1/L; a number is the 1/L to use.
    average : {"late", "all"}
        Which steps the answer is the average of: the later half or so, or all of them as in the paper.

    Notes
    -----
    Complexity: two oracle calls per instance and pass, and one argmax for the certificate.

    Examples
    --------
    Three points on a line, two classes, ‖θ‖ ≤ 2:

    >>> from partwise.features import MatrixFeatures
    >>> from partwise.structures import Multiclass
    >>> matrices = [np.array([[x, 0.0], [0.0, x]]) for x in (1.0, 2.0, -1.0)]
    >>> problem = Problem(Multiclass(3, n_labels=2), MatrixFeatures(matrices), [0, 0, 1], "svm")
    >>> result = Extragradient(radius=0.5, tolerance=1e-4).fit(problem)
    >>> result.theta.round(3).tolist(), result.certificate.relative_gap <= 1e-4
    ([0.354, -0.354], True)
    """

    geometry: str = "euclidean"
    memory_efficient: bool = True
    step: str | float = "adaptive"
    average: str = "late"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.geometry not in ("euclidean", "entropic"):
            raise ParameterError("geometry", name, "'euclidean' or 'entropic'", self.geometry)
        if self.step not in ("adaptive", "fixed") and not (isinstance(self.step, int | float) and self.step > 0):
            raise ParameterError("step", name, "'adaptive', 'fixed' or a positive number", self.step)
        if self.average not in ("late", "all"):
            raise ParameterError("average", name, "'late' or 'all'", self.average)

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"project" if self.geometry == "euclidean" else "marginals"})

    @property
    def _pack(self) -> Euclidean | Entropic:
        return Euclidean(1.0) if self.geometry == "euclidean" else Entropic(1.0)

    def player(self, problem: Problem, state: State) -> Player:
        """The player of the weights."""
        domain = self.domain(problem)
        if self.norm == "l1":
            return SimplexPlayer(domain, state["beta"], problem.features.live)
        return L2Player(domain, state["center"], state["beta"])

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        if self.norm == "l1" and theta.any():
            raise InputError("with norm='l1' training starts at θ = 0, the centre of the simplex; got another θ")
        state: State = {
            "center": self.domain(problem).project(theta),
            "pull": np.zeros(problem.dim),  # s = −Σ λ F(u − z)
            "sum": np.zeros(problem.dim),  # Σ λ u_θ
            "weight": 0.0,  # Λ
            "cost": 0.0,  # Σ λ γℓ(u)
            "promised": 0.0,  # Σ λ (⟨g(u), u⟩ + Ω(u_θ))
            "best_dual": -np.inf,
            "before": {},  # all of that before the last step, until its check
            "steps": 0,  # that are checked
            "tail": [],  # the sums where the average begins, and where the next one will
            "bold": True,
            "kept": np.zeros(0),
            "mean": np.zeros(0),
        }
        if not self.memory_efficient:
            state["kept"], state["mean"] = (np.zeros(problem.part_offsets[-1]) for _ in range(2))
        zero, none = np.zeros(problem.dim), np.zeros(0)
        # at Λ = 0 the outputs are at their centre: the potential there is log |Y_i|, or 0 for projections
        state["origin"] = answers(problem, self._pack, zero, 0.0, zero, 0.0, none, none).potential
        state["lipschitz"] = self.lipschitz(problem)
        reach = state["origin"] if self.geometry == "entropic" else float(problem.data.gold.values.sum())
        state["beta"] = self._beta(problem, state["lipschitz"], max(reach, 1e-12))
        state["known"] = {"objective": self.primal(problem, state["center"])}
        return state

    def lipschitz(self, problem: Problem) -> float:
        """L of the operator: ‖F‖₂ by power iteration; R‖F‖₂ for the simplex of an L1 ball.

        In the entropic geometry ‖z − z'‖₂ ≤ ρ‖P − P'‖₁ with 2ρ the diameter of the polytope: L = ρ‖F‖₂, where
        ρ ≤ n/√2 if no output has more than n parts. That is far from tight, and adaptive steps do not start from it.
        """
        if not isinstance(self.step, str):
            return 1.0 / self.step
        norm = operator_norm(problem, self.random_state) or 1.0
        if self.norm == "l1":
            norm *= float(self.radius or 0.0)
        if self.geometry == "entropic" and self.step == "fixed":
            most = 0.0
            for i in range(problem.m):
                ones = np.ones(problem.space.n_parts(i))
                most = max(most, float(problem.space.argmax(i, ones).sum()))
            norm *= most / math.sqrt(2.0)
        return norm

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        player, weight = self.player(problem, state), state["weight"]
        v = player.first(state["pull"], weight)
        step = math.sqrt(player.stiffness(weight)) / state["lipschitz"]
        mean = state["mean"].copy()
        found = answers(problem, self._pack, state["sum"], weight, v, step, state["kept"], mean)
        if self.step == "adaptive" and state["before"]:
            potential = player.potential(v, state["pull"], weight) - (found.potential - state["origin"])
            if potential < state["promised"] - ROUNDING * (abs(potential) + abs(state["promised"])):
                state.update(state["before"], before={}, bold=False)
                state["lipschitz"] *= CAUTIOUS
                state["known"]["extra"] = {**state["known"].get("extra", {}), "step": 0.0}
                return dict(state["known"])
            state["lipschitz"] *= BOLD if state["bold"] else EAGER
        if self.step == "adaptive":
            state["before"] = {name: state[name] for name in REVERSIBLE} | {"kept": state["kept"].copy()}
        self._move_tail(state)
        u = player.second(v, state["pull"], weight, -found.ahead, step)
        state["pull"] = state["pull"] - step * found.behind
        state["sum"] = state["sum"] + step * u
        state["mean"] = mean
        state["weight"] += step
        state["cost"] += step * found.cost
        state["promised"] += step * (self.domain(problem).cost(u) - found.tilt)
        if not self.memory_efficient:
            problem.run(update_scores, problem.data, problem.part_offsets, u, step, problem.buffers(), state["kept"])
        return self._assess(problem, state, step)

    def _move_tail(self, state: State) -> None:
        """After 2^k steps the average begins at step 2^(k−1): it holds between a half and three quarters of them."""
        if self.average == "late" and state["steps"].bit_count() == 1:
            now = {name: state[name] for name in SUMS}
            state["tail"] = [*state["tail"], now][-2:]
        state["steps"] += 1

    def _average(self, state: State) -> tuple[Floats, Floats, float]:
        """(θ̄, v, Σ_i b_i) of the steps that the answer averages, v = −Σ_i F_i(z̄_i − ẑ_i)."""
        first = state["tail"][0] if len(state["tail"]) == 2 else dict.fromkeys(SUMS, 0.0)
        total, pull, cost, weight = (state[name] - first[name] for name in SUMS)
        if not weight > 0.0:  # steps too small to be seen in their sum
            total, pull, cost, weight = (state[name] for name in SUMS)
        return total / weight, pull / weight, cost / weight

    def _assess(self, problem: Problem, state: State, step: float) -> dict[str, Any]:
        theta, v, cost = self._average(state)
        dual = None
        if not self._free:  # any average is a dual point: that of all steps comes for nothing
            weight = state["weight"]
            whole = self.dual(problem, state["cost"] / weight, state["pull"] / weight)
            dual = max(self.dual(problem, cost, v), whole)
        return self.judge(problem, state, theta, dual, step=step)

    def weights(self, state: State) -> Floats:
        return self._average(state)[0] if state["weight"] > 0 else state["center"]

    def restricted_gap(self, problem: Problem, state: State, theta_radius: float, output_radius: float) -> float:
        """The gap of eq. (2.18) where the players may go no further than divergences D_θ and D_z from their centres.

        (max {L(θ̄, z) : d(z) ≤ D_z} − min {L(θ, z̄) : d(θ) ≤ D_θ})/m, each by its multiplier τ,
        max {f : d ≤ D} = min_{τ>0} τD + max (f − τd). By (2.19) at most (β D_θ + D_z)/(Λ m); where the radii
        reach a solution it bounds the distance to the optimum.
        """
        player, theta, weight = self.player(problem, state), self.weights(state), state["weight"]
        v, zero, none = state["pull"] / weight, np.zeros(problem.dim), np.zeros(0)

        def above(log_tau: float) -> float:
            tau = math.exp(log_tau)
            found = answers(problem, self._pack, theta / tau, 1.0 / tau, zero, 0.0, none, none)
            result: float = tau * (output_radius + found.potential - state["origin"])
            return result

        def below(log_tau: float) -> float:
            tau = math.exp(log_tau)
            other = replace(player, beta=tau)
            return other.potential(other.first(v, 1.0), v, 1.0) - tau * theta_radius

        still = answers(problem, self._pack, zero, 0.0, zero, 0.0, none, none)
        upper = _least(above) + still.cost - still.tilt + self.domain(problem).cost(theta)
        lower = state["cost"] / weight - _least(lambda x: -below(x))
        result: float = (upper - lower) / problem.m
        return result


#: What a step changes beside ``kept``, which changes in place.
REVERSIBLE = ("pull", "sum", "weight", "cost", "promised", "mean", "known", "lipschitz", "tail", "steps")
#: What the answer is an average of.
SUMS = ("sum", "pull", "cost", "weight")


def _least(function: Callable[[float], float]) -> float:
    """min of a unimodal function of log τ."""
    import scipy.optimize  # here alone, so that importing the package does not wait for it

    found = scipy.optimize.minimize_scalar(function, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-7})
    return float(found.fun)


@register_learner("entropic_extragradient")
@dataclass(frozen=True)
class EntropicExtragradient(Extragradient):
    """:class:`Extragradient` with marginals in place of projections: for chains, trees, grammars (Example 2)."""

    geometry: str = "entropic"

"""Online learners: one compiled loop, θ ← θ − η_t ∇L_t(θ), and the rules for η_t.

==============  ==========================================  =======================================
rule            η_t                                         shrinks θ by
==============  ==========================================  =======================================
perceptron      1                                           —
SGD             η / (1 + (t − 1)/m)                         1 − η_t λ  (gradient of λ/2 ‖θ‖²)
DCA             min(1/(λm), L_t / ‖∇L_t‖²), eq. (15)        —
==============  ==========================================  =======================================

DCA (Martins et al. 2010, Algorithms 1 and 2) takes any loss of the family; with the hinge it is 1-best MIRA. In its
first pass every step raises the dual, eq. (10), by at least λm η_t (L_t − η_t/2 ‖∇L_t‖²) ≥ 0, so that the sum of
these is a lower bound on the optimum; later passes are the paper's heuristic and certify nothing.

θ is kept as a·v and its running sum as A·v − w (A the sum of the a's), so that shrinking and averaging
cost nothing beyond the sparse update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from partwise._compile import kernel
from partwise._math import dot, total_size
from partwise.exceptions import ParameterError
from partwise.features.base import accumulate, feature_scores, squared_norm
from partwise.learners.base import Floats, Learner, State, objective, register_learner
from partwise.losses import Loss, LossFunction, PredictionLoss, loss_parts
from partwise.problem import Problem
from partwise.structures.base import part_count

__all__ = ["DCA", "SGD", "Perceptron"]

PERCEPTRON, GRADIENT, ASCENT, EVALUATE = 0, 1, 2, 3


@kernel
def online_pass(data, order, rule, C, eta, buffers, scratch, v, w, counters):
    """One pass in the given order. ``counters``: a, A, t, Σ loss, dual, number of updates, of negative losses.

    The rule EVALUATE takes no step: it only sums the losses.

    ``w`` (dim,) collects Σ A·δ for the average, or has length 0 where no average is wanted.
    """
    m = order.shape[0]
    a, total_a, t = counters[0], counters[1], counters[2]
    for place in range(m):
        i = order[place]
        n = part_count(data.space, i)
        feature_scores(data.features, i, v, buffers.scores, 0)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        if a != 1.0:
            for r in range(n):
                scores[r] *= a
        if rule == GRADIENT and not total_size(scores, 0, n) < 1e100:  # θ has run away
            counters[3] = np.nan
            break
        loss = loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)
        counters[3] += loss
        step = 0.0
        if rule == PERCEPTRON:  # also where a wrong output merely ties with the gold one, as at θ = 0
            step = 1.0 if total_size(parts, 0, n) > 0.0 else 0.0
        elif rule == GRADIENT:
            step = eta / (1.0 + t / m)
            a *= 1.0 - step / (C * m)
            if abs(a) < 1e-9:  # fold a into v before it underflows, and what was summed so far into w
                for j in range(w.shape[0]):
                    w[j] -= total_a * v[j]
                for j in range(v.shape[0]):
                    v[j] *= a
                a, total_a = 1.0, 0.0
        elif rule == ASCENT and loss > 0.0:  # footnote 17: where an approximate loss is negative, no step
            norm = squared_norm(data.features, i, parts, scratch)
            if norm > 0.0:
                step = min(C, loss / norm)
                counters[4] += step * (loss - 0.5 * step * norm) / C
        elif rule == ASCENT and loss < 0.0:
            counters[6] += 1.0
        if step > 0.0:
            counters[5] += 1.0
            accumulate(data.features, i, parts, 0, -step / a, v)
            if w.shape[0] > 0:
                accumulate(data.features, i, parts, 0, -step / a * total_a, w)
        total_a += a
        t += 1.0
    counters[0], counters[1], counters[2] = a, total_a, t


@dataclass(frozen=True)
class OnlineLearner(Learner):
    """Settings common to the online learners.

    Parameters
    ----------
    average : bool
        Return the average of the θ after every step, 1/T Σ_t θ_{t+1}, instead of the last one. (Algorithm 1
        averages the θ before every step: θ = 0 in place of the last one, no other difference.)
    shuffle : bool
        Visit the instances in a new random order in every pass.
    trace_objective : bool
        Evaluate eq. (2) after every pass, which costs about half a pass.
    """

    rule: ClassVar[int]
    weighs: ClassVar[bool] = True
    converges: ClassVar[bool] = False

    max_passes: int = 20  # by folds of six corpora: benchmarks/online_defaults.py
    average: bool = True
    shuffle: bool = True
    trace_objective: bool = False

    def precision(self, problem: Problem) -> Any:
        return problem.features.precision

    def rate(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> float:
        """η, where the rule has one."""
        return 0.0

    def start(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> State:
        return {
            "eta": self.rate(problem, theta, score),
            "v": theta,
            "w": np.zeros(problem.dim if self.average else 0, theta.dtype),
            "counters": np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            "rng": np.random.default_rng(self.random_state).bit_generator.state,
            "zero_start": not theta.any(),
        }

    def loss_pack(self, loss: LossFunction) -> Any:
        """The loss as this learner uses it."""
        return loss.pack

    def one_pass(self, problem: Problem, state: State, order: Any) -> None:
        data = problem.data._replace(loss=problem.weighted(self.loss_pack(problem.loss)))
        scratch = np.zeros(problem.dim if self.rule == ASCENT else 0, state["v"].dtype)
        problem.run(
            online_pass, data, order, self.rule, self.C, state["eta"], problem.buffers(), scratch,
            state["v"], state["w"], state["counters"],
        )  # fmt: skip

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        order = rng.permutation(problem.m) if self.shuffle else np.arange(problem.m)
        state["rng"] = rng.bit_generator.state
        counters = state["counters"]
        counters[3:] = 0.0
        first = counters[2] == 0.0
        self.one_pass(problem, state, order)
        if np.isnan(counters[3]):
            name, eta = type(self).__name__, state["eta"]
            raise ParameterError("eta", name, "small enough for θ to stay finite", eta)
        known: dict[str, Any] = {
            "extra": {"online_loss": float(counters[3]) / problem.m, "updates": float(counters[5])},
            "converged": counters[5] == 0.0,
        }
        if self.rule == ASCENT and problem.guarantee != "exact":
            known["extra"]["negative_losses"] = float(counters[6])
        if self.trace_objective:
            known["objective"] = objective(problem, self.weights(state), self.C)
        if self.rule == ASCENT and first and state["zero_start"] and problem.convex:
            known["dual"] = float(counters[4]) / problem.m
        return known

    def weights(self, state: State) -> Floats:
        a, total_a, t = state["counters"][:3].tolist()  # Python's numbers leave the type of the arrays as it is
        if not self.average or t == 0:
            answer: Floats = a * state["v"]
            return answer
        theta = total_a * state["v"]
        theta -= state["w"]
        theta /= t
        answer = theta
        return answer


@register_learner("perceptron")
@dataclass(frozen=True)
class Perceptron(OnlineLearner):
    """θ ← θ − ∇L_t with the perceptron loss: φ(x, y) − φ(x, ŷ) for every wrong ŷ; averaged (Collins 2002).

    Regularised by averaging alone: C is not used. It always takes its own loss, L(∞, 0).
    """

    rule = PERCEPTRON
    losses: ClassVar[str] = "the perceptron loss"
    own_loss: ClassVar[str | None] = "perceptron"

    def accepts(self, loss: LossFunction) -> bool:
        return loss == Loss.named("perceptron")


@register_learner("sgd")
@dataclass(frozen=True)
class SGD(OnlineLearner):
    """θ ← (1 − η_t λ)θ − η_t ∇L_t, η_t = η/(1 + (t − 1)/m) (LeCun et al. 1998), Martins et al. (2010), §5.

    Parameters
    ----------
    eta : float, optional
        η. If absent, each of ``candidates`` runs one pass and the best is kept: by the held-out score if there is
        one, as in §5, else by the objective, eq. (2).
    """

    rule = GRADIENT

    average: bool = False
    eta: float | None = None
    candidates: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            self._positive("eta")
        if not self.candidates or not all(c > 0 for c in self.candidates):
            raise ParameterError("candidates", "SGD", "positive numbers", self.candidates)

    def rate(self, problem: Problem, theta: Floats, score: Callable[[Floats], float] | None) -> float:
        if self.eta is not None:
            return self.eta
        best, best_value = self.candidates[0], -np.inf
        for eta in self.candidates:
            trial = replace(self, eta=eta)
            state = trial.start(problem, theta.copy(), None)
            try:
                trial.advance(problem, state)
            except ParameterError:  # it diverged
                continue
            found = trial.weights(state)
            value = score(found) if score is not None else -self._objective(problem, found)
            if value > best_value:
                best, best_value = eta, value
        return best

    def _objective(self, problem: Problem, theta: Floats) -> float:
        """Eq. (2) by the loop of the passes itself: another loop would take seconds to compile."""
        counters, nothing = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(0, theta.dtype)
        problem.run(
            online_pass, problem.data, np.arange(problem.m), EVALUATE, self.C, 0.0, problem.buffers(), nothing,
            theta, nothing, counters,
        )  # fmt: skip
        result: float = (0.5 * dot(theta, theta) / self.C + float(counters[3])) / problem.m
        return result


@register_learner("dca")
@dataclass(frozen=True)
class DCA(OnlineLearner):
    """θ ← θ − η_t ∇L_t, η_t = min(1/(λm), L_t/‖∇L_t‖²): dual coordinate ascent.

    Martins et al. (2010), Algorithms 1 and 2, eq. (15).

    With the hinge this is the max-loss variant of 1-best MIRA (passive–aggressive).

    Parameters
    ----------
    variant : {"max_loss", "prediction"}
        Which output the hinge is taken at: the most violated one, or the plain prediction (footnote 11).
    margin : {"cost", "root"}, optional
        By how much the gold output must win: γℓ, or √(γℓ) for the prediction-based variant, as Crammer et al. (2006,
        §7) have it, and CRFsuite's ``pa`` with ℓ the number of wrong labels; there it is the default, better on held-
        out folds. The root does not decompose over parts, so the max-loss variant cannot use it. Nor does a pass with
        it give a lower bound on the optimum.
    """

    rule = ASCENT

    variant: str = "max_loss"
    margin: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in ("max_loss", "prediction"):
            raise ParameterError("variant", "DCA", "'max_loss' or 'prediction'", self.variant)
        if self.margin not in (None, "cost", "root"):
            raise ParameterError("margin", "DCA", "'cost' or 'root'", self.margin)
        if self.margin == "root" and self.variant != "prediction":
            raise ParameterError("margin", "DCA", "'cost' unless variant='prediction'", self.margin)

    @property
    def losses(self) -> str:  # type: ignore[override]
        return "any loss" if self.variant == "max_loss" else "losses with β = ∞"

    def accepts(self, loss: LossFunction) -> bool:
        return self.variant == "max_loss" or (loss.augmented and not loss.smooth)

    def loss_pack(self, loss: LossFunction) -> Any:
        return loss.pack if self.variant == "max_loss" else PredictionLoss(loss.gamma, self.margin != "cost")

    def advance(self, problem: Problem, state: State) -> dict[str, Any]:
        known = super().advance(problem, state)
        if self.variant == "prediction" and self.margin != "cost":  # √(γℓ) > γℓ where γℓ < 1: gains are no bound
            known.pop("dual", None)
        return known

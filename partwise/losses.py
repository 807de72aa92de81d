"""The loss family L(β,γ) of Martins et al. (2010), eq. (3), and its differences.

    L(β,γ)(θ; x, y) = 1/β log Σ_{y'} exp β( θᵀ(φ(x,y') − φ(x,y)) + γ ℓ(y',y) )                              (3)

==================  =====  =====
name                β      γ
==================  =====  =====
``crf``             1      0
``softmax_margin``  1      1
``svm``             ∞      1
``perceptron``      ∞      0
==================  =====  =====

Value and gradient come from one call of an oracle on part scores, eqs. (8) and (9): with the cost written over parts,
ℓ(y',y) = p·z' + q, and z̄ the marginals (β < ∞) or the argmax (β = ∞) of the scores s + γp at inverse temperature β,

    L = 1/β log Z(β(s + γp)) − s·z + γq,          ∇L = F(z̄ − z).

``risk`` and ``ramp`` are the non-convex differences δL = L(β,γ) − L(β,0) of footnote 1: at β = 1 the upper bound
log E exp γℓ of the expected cost, at β = ∞ the structured ramp loss.

``slack_svm`` rescales the slack by the cost instead of the margin (Tsochantaridis et al. 2005; "slack scaling" in
Sarawagi's overview), and needs an oracle of its own for the maximum of a product:

    L = max_{y'} γℓ(y',y) (1 + θᵀ(φ(x,y') − φ(x,y))),          ∇L = γℓ(ŷ,y) F(ẑ − z).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise._compile import Generic, composite
from partwise.exceptions import ParameterError, unknown_name
from partwise.structures.oracles import Floats, argmax, bound, marginals, part_count, slack_argmax

if TYPE_CHECKING:
    from partwise.costs import Cost
    from partwise.structures.base import Structure

__all__ = ["LOSSES", "Loss", "LossFunction", "loss_bound", "loss_parts", "register_loss"]


class MaxLoss(NamedTuple):
    """β = ∞: an argmax."""

    gamma: float


class SoftmaxLoss(NamedTuple):
    """β < ∞: marginals."""

    beta: float
    gamma: float


class PredictionLoss(NamedTuple):
    """The hinge at the plain argmax: s·(ẑ − z) + γℓ(ẑ, y), or √(γℓ) with ``root``. For prediction-based MIRA."""

    gamma: float
    root: bool


class MaxDifference(NamedTuple):
    """L(∞,γ) − L(∞,0): the structured ramp."""

    gamma: float


class SoftmaxDifference(NamedTuple):
    """L(β,γ) − L(β,0): a bound of the risk."""

    beta: float
    gamma: float


class SlackLoss(NamedTuple):
    """max_{y'} γℓ(y',y)(1 + s·(z' − z)): slack rescaling."""

    gamma: float


@Generic
def soften(loss, space, i, scores, work, parts):
    """parts ← z̄ of the scores at the loss's inverse temperature; returns 1/β log Z(β·scores). Scales ``scores``."""


@soften.register(MaxLoss)
def _(loss, space, i, scores, work, parts):
    return argmax(space, i, scores, work, parts)


@soften.register(PredictionLoss)
def _(loss, space, i, scores, work, parts):
    return argmax(space, i, scores, work, parts)


@soften.register(SoftmaxLoss)
def _(loss, space, i, scores, work, parts):
    for r in range(part_count(space, i)):
        scores[r] *= loss.beta
    return marginals(space, i, scores, work, parts) / loss.beta


@Generic
def gold_score(gold, loss, i, scores, work, spare):
    """s·z of the gold output; where gold is a set of outputs, 1/β log Z over it. May leave its parts in ``spare``."""


@Generic
def subtract_gold(gold, i, spare, parts):
    """parts ← parts − z of the gold output, or the z̄ of a set of them that ``gold_score`` left in ``spare``."""


@Generic
def add_cost(cost, i, gamma, scores):
    """scores ← scores + γp; returns q, where the cost of instance i is ℓ(y') = p·z' + q."""


@Generic
def loss_parts(loss, space, gold, cost, i, scores, work, parts, spare):
    """parts ← z̄ − z, the gradient in part space, Martins et al. (2010), eq. (9); returns L, eq. (8).

    ``scores`` (s on entry) is overwritten."""


@Generic
def loss_bound(loss, space, gold, cost, i, scores, work, parts, spare):
    """An upper bound on L where argmax may overlook outputs and the space has a ``bound``. Overwrites ``scores``."""


# Each call between compiled functions costs compile time, because numba optimises a caller together with all that
# it calls. So the helpers here are inlined, and every loss calls its oracle directly.


@composite(inline="always")
def _scale(space, i, beta, scores):
    if beta != 1.0:
        for r in range(part_count(space, i)):
            scores[r] *= beta


@loss_parts.register(MaxLoss)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    target = gold_score(gold, loss, i, scores, work, spare)
    if loss.gamma != 0.0:
        target -= loss.gamma * add_cost(cost, i, loss.gamma, scores)
    value = argmax(space, i, scores, work, parts)
    subtract_gold(gold, i, spare, parts)
    return value - target


@loss_bound.register(MaxLoss)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    target = gold_score(gold, loss, i, scores, work, spare)
    if loss.gamma != 0.0:
        target -= loss.gamma * add_cost(cost, i, loss.gamma, scores)
    return bound(space, i, scores, argmax(space, i, scores, work, parts), work) - target


@loss_parts.register(SoftmaxLoss)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    target = gold_score(gold, loss, i, scores, work, spare)
    if loss.gamma != 0.0:
        target -= loss.gamma * add_cost(cost, i, loss.gamma, scores)
    _scale(space, i, loss.beta, scores)
    value = marginals(space, i, scores, work, parts) / loss.beta
    subtract_gold(gold, i, spare, parts)
    return value - target


@loss_parts.register(PredictionLoss)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    target = gold_score(gold, loss, i, scores, work, spare)
    n = part_count(space, i)
    value = argmax(space, i, scores, work, parts)
    for r in range(n):
        scores[r] = 0.0
    margin = loss.gamma * add_cost(cost, i, loss.gamma, scores)
    for r in range(n):
        margin += scores[r] * parts[r]
    if loss.root:
        margin = math.sqrt(max(margin, 0.0))
    subtract_gold(gold, i, spare, parts)
    return value + margin - target


@loss_parts.register(MaxDifference)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    plain = argmax(space, i, scores, work, spare)
    constant = add_cost(cost, i, loss.gamma, scores)
    value = argmax(space, i, scores, work, parts)
    for r in range(part_count(space, i)):
        parts[r] -= spare[r]
    return value + loss.gamma * constant - plain


@loss_parts.register(SoftmaxDifference)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    _scale(space, i, loss.beta, scores)
    plain = marginals(space, i, scores, work, spare) / loss.beta
    constant = add_cost(cost, i, loss.beta * loss.gamma, scores)
    value = marginals(space, i, scores, work, parts) / loss.beta
    for r in range(part_count(space, i)):
        parts[r] -= spare[r]
    return value + loss.gamma * constant - plain


@loss_parts.register(SlackLoss)
def _(loss, space, gold, cost, i, scores, work, parts, spare):
    n = part_count(space, i)
    offset = 1.0 - gold_score(gold, loss, i, scores, work, spare)
    for r in range(n):
        spare[r] = 0.0
    constant = add_cost(cost, i, 1.0, spare)
    value = slack_argmax(space, i, scores, spare, constant, offset, work, parts)
    price = constant  # ℓ(ŷ, y)
    for r in range(n):
        price += spare[r] * parts[r]
    subtract_gold(gold, i, spare, parts)
    for r in range(n):
        parts[r] *= loss.gamma * price
    return loss.gamma * value


class LossFunction(ABC):
    """A loss: says which oracle it needs and how its value and gradient in part space are computed.

    A loss of your own subclasses this, makes a NamedTuple of its settings (``pack``), registers ``loss_parts`` for that
    NamedTuple, and gets a name by :func:`register_loss`. Nothing else in the library has to know it.
    """

    beta: float = math.inf  # inverse temperature
    gamma: float = 0.0  # weight of the cost

    @property
    @abstractmethod
    def oracle(self) -> str:
        """The oracle of the structure that value and gradient need."""

    @property
    @abstractmethod
    def pack(self) -> Any:
        """What the kernels see: a NamedTuple of numbers, whose type selects ``loss_parts``."""

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous."""
        return False

    @property
    def convex(self) -> bool:
        """Whether it is convex in the scores."""
        return True

    @property
    def augmented(self) -> bool:
        """Whether it is a point of L(β,γ): a maximum or soft maximum of cost-augmented scores."""
        return False

    @property
    def rescales_slack(self) -> bool:
        """Whether the cost multiplies the slack, which not every cost allows."""
        return False

    @property
    def uses_cost(self) -> bool:
        """Whether the cost matters."""
        return self.gamma != 0

    def evaluate(
        self,
        space: Structure,
        scores: Floats | Sequence[Floats],
        outputs: Sequence[Any] | Structure,
        cost: Cost | None = None,
        *,
        n_threads: int = 1,
    ) -> tuple[Floats, Floats]:
        """(L_1 … L_n, gradients z̄ − z side by side) for given part scores: for scorers of your own.

        Parameters
        ----------
        scores : (total parts,) packed, one instance after another; or a list of one array per instance
        outputs : gold outputs, one per instance

        To call it again and again on the same outputs, keep a :class:`~partwise.problem.Problem` with
        :class:`~partwise.features.GivenScores` instead: encoding is done once there.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import Loss, Multiclass
        >>> values, gradient = Loss.named("crf").evaluate(Multiclass(1, 2), np.array([0.0, 0.0]), [1])
        >>> values.round(3).tolist(), gradient.tolist()
        ([0.693], [0.5, -0.5])
        """
        from partwise.problem import evaluate  # a problem knows losses, not the other way round

        return evaluate(self, space, scores, outputs, cost, n_threads)

    def __str__(self) -> str:
        return next((name for name, point in LOSSES.items() if point == self), type(self).__name__)


#: The losses that have names.
LOSSES: dict[str, LossFunction] = {}


def register_loss(name: str, loss: LossFunction) -> LossFunction:
    """Make a loss known by name, for estimators, the command line and the capability table."""
    LOSSES[name] = loss
    return loss


@dataclass(frozen=True)
class Loss(LossFunction):
    """A point of the family L(β,γ), β ∈ (0, ∞], γ ≥ 0: Martins et al. (2010), eq. (3).

    ``difference`` selects δL = L(β,γ) − L(β,0).

    ``slack`` (only at β = ∞) lets the cost rescale the slack instead of the margin.

    Examples
    --------
    >>> Loss.named("svm")
    Loss(beta=inf, gamma=1.0, difference=False, slack=False)
    >>> Loss(beta=3.0, gamma=1.0).oracle
    'marginals'
    >>> Loss.named("slack_svm").oracle
    'slack'
    """

    beta: float = 1.0
    gamma: float = 0.0
    difference: bool = False
    slack: bool = False

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ParameterError("beta", "Loss", "a positive number or infinity", self.beta)
        if not (self.gamma >= 0 and math.isfinite(self.gamma)):
            raise ParameterError("gamma", "Loss", "a finite number ≥ 0", self.gamma)
        if self.slack and (self.smooth or self.difference or self.gamma == 0):
            raise ParameterError("slack", "Loss", "False unless β = ∞, γ > 0 and there is no difference", self.slack)

    @staticmethod
    def named(name: str) -> LossFunction:
        """The loss of that name; see the table above."""
        if name not in LOSSES:
            raise unknown_name("loss", name, LOSSES)
        return LOSSES[name]

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous: β < ∞."""
        return math.isfinite(self.beta)

    @property
    def convex(self) -> bool:
        return not self.difference

    @property
    def augmented(self) -> bool:
        return not self.difference and not self.slack

    @property
    def rescales_slack(self) -> bool:
        return self.slack

    @property
    def oracle(self) -> str:
        if self.slack:
            return "slack"
        return "marginals" if self.smooth else "argmax"

    @property
    def pack(self) -> Any:
        if self.difference:
            return SoftmaxDifference(self.beta, self.gamma) if self.smooth else MaxDifference(self.gamma)
        if self.slack:
            return SlackLoss(self.gamma)
        return SoftmaxLoss(self.beta, self.gamma) if self.smooth else MaxLoss(self.gamma)

    def __str__(self) -> str:
        for name, point in LOSSES.items():
            if point == self:
                return name
        kind = "δ" if self.difference else "slack " if self.slack else ""
        return f"{kind}L(β={self.beta:g}, γ={self.gamma:g})"


register_loss("crf", Loss(1.0, 0.0))
register_loss("softmax_margin", Loss(1.0, 1.0))
register_loss("svm", Loss(math.inf, 1.0))
register_loss("perceptron", Loss(math.inf, 0.0))
register_loss("slack_svm", Loss(math.inf, 1.0, slack=True))
register_loss("risk", Loss(1.0, 1.0, difference=True))
register_loss("ramp", Loss(math.inf, 1.0, difference=True))

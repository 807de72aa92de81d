"""Which learner does on shards what another does on single instances."""

from __future__ import annotations

from partwise.cluster.dual import DualRounds
from partwise.cluster.mixing import Mixing
from partwise.cluster.steps import ShardedEG, ShardedSubgradient
from partwise.exceptions import CapabilityError
from partwise.learners.base import Learner
from partwise.learners.blocks import BlockLearner
from partwise.learners.eg import EG
from partwise.learners.online import DCA, SGD, Perceptron
from partwise.learners.subgradient import Subgradient

__all__ = ["learner_on_shards"]

ABLE = (
    "lbfgs, one_slack, batch_frank_wolfe, eg, subgradient; frank_wolfe, sdca (dual rounds); perceptron, dca, sgd "
    "(parameter mixing)"
)


def learner_on_shards(learner: Learner, groups: int) -> Learner:
    """The learner itself where whole sums are all it needs; else its counterpart on groups of shards."""
    if learner.batch:
        return learner
    if type(learner) is EG:
        return ShardedEG.of(learner)
    if type(learner) is Subgradient:
        return ShardedSubgradient.of(learner)
    if isinstance(learner, BlockLearner):
        return DualRounds.of(learner, groups)
    if type(learner) in (Perceptron, SGD, DCA):
        return Mixing.of(learner, groups)  # type: ignore[arg-type]
    raise CapabilityError(
        f"{type(learner).__name__} visits single instances and cannot train on shards. Learners that can: {ABLE}."
    )

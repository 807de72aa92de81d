"""partwise: structured prediction, part by part.

Any structure × any loss × any learner, at native speed, with a certificate. Names are imported when first used, so
that ``import partwise`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partwise._version import __version__

if TYPE_CHECKING:
    from partwise.costs import Hamming, LabelCost
    from partwise.estimators import SequenceLabeler, StackedLabeler, StructuredClassifier, WordAligner
    from partwise.learners import DCA, LBFGS, SGD, ExactDCA, KBestMIRA, NSlack, OneSlack, Perceptron
    from partwise.losses import Loss
    from partwise.problem import Problem
    from partwise.structures import Chain, Multiclass, Structure

__all__ = [
    "DCA",
    "LBFGS",
    "SGD",
    "Chain",
    "ExactDCA",
    "Hamming",
    "KBestMIRA",
    "LabelCost",
    "Loss",
    "Multiclass",
    "NSlack",
    "OneSlack",
    "Perceptron",
    "Problem",
    "SequenceLabeler",
    "StackedLabeler",
    "Structure",
    "StructuredClassifier",
    "WordAligner",
    "__version__",
]

_HOME = {
    "Hamming": "costs",
    "LabelCost": "costs",
    "SequenceLabeler": "estimators",
    "StackedLabeler": "estimators",
    "StructuredClassifier": "estimators",
    "WordAligner": "estimators",
    "DCA": "learners",
    "LBFGS": "learners",
    "SGD": "learners",
    "ExactDCA": "learners",
    "KBestMIRA": "learners",
    "NSlack": "learners",
    "OneSlack": "learners",
    "Perceptron": "learners",
    "Loss": "losses",
    "Problem": "problem",
    "Chain": "structures",
    "Multiclass": "structures",
    "Structure": "structures",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"partwise.{_HOME[name]}"), name)
    raise AttributeError(f"module 'partwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

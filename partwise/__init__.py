"""partwise: structured prediction, part by part.

Any structure × any loss × any learner, at native speed, with a certificate. Names are imported when first used, so
that ``import partwise`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partwise._version import __version__

if TYPE_CHECKING:
    from partwise.alignment import GenerativeAligner
    from partwise.costs import Hamming, LabelCost, PartCost
    from partwise.estimators import SequenceLabeler, StackedLabeler, StructuredClassifier, WordAligner
    from partwise.learners import (
        DCA,
        EG,
        LBFGS,
        SDCA,
        SGD,
        SMO,
        BatchFrankWolfe,
        EntropicExtragradient,
        ExactDCA,
        Extragradient,
        FrankWolfe,
        HybridEG,
        JointQP,
        KBestMIRA,
        NSlack,
        OneSlack,
        OnlineEG,
        Perceptron,
        ProjectedGradient,
        Subgradient,
    )
    from partwise.losses import Loss
    from partwise.problem import Problem
    from partwise.structures import Assignment, Chain, Matching, Multiclass, Segments, Structure
    from partwise.topics import LDA, DiscLDA

__all__ = [
    "DCA",
    "EG",
    "LBFGS",
    "LDA",
    "SDCA",
    "SGD",
    "SMO",
    "Assignment",
    "BatchFrankWolfe",
    "Chain",
    "DiscLDA",
    "EntropicExtragradient",
    "ExactDCA",
    "Extragradient",
    "FrankWolfe",
    "GenerativeAligner",
    "Hamming",
    "HybridEG",
    "JointQP",
    "KBestMIRA",
    "LabelCost",
    "Loss",
    "Matching",
    "Multiclass",
    "NSlack",
    "OneSlack",
    "OnlineEG",
    "PartCost",
    "Perceptron",
    "Problem",
    "ProjectedGradient",
    "Segments",
    "SequenceLabeler",
    "StackedLabeler",
    "Structure",
    "StructuredClassifier",
    "Subgradient",
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
    "Segments": "structures",
    "Structure": "structures",
    "BatchFrankWolfe": "learners",
    "EG": "learners",
    "EntropicExtragradient": "learners",
    "Extragradient": "learners",
    "FrankWolfe": "learners",
    "HybridEG": "learners",
    "JointQP": "learners",
    "OnlineEG": "learners",
    "ProjectedGradient": "learners",
    "SDCA": "learners",
    "SMO": "learners",
    "Subgradient": "learners",
    "Assignment": "structures",
    "Matching": "structures",
    "GenerativeAligner": "alignment",
    "PartCost": "costs",
    "LDA": "topics",
    "DiscLDA": "topics",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"partwise.{_HOME[name]}"), name)
    raise AttributeError(f"module 'partwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Learners: ways of finding θ, all with one face.

A learner's module is imported when the learner is first used: a model that only predicts needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partwise.learners.base import (
    LEARNERS,
    Certificate,
    Learner,
    Record,
    Result,
    find_learner,
    register_learner,
)

if TYPE_CHECKING:
    from partwise.learners.cutting_plane import NSlack, OneSlack
    from partwise.learners.eg import EG
    from partwise.learners.extragradient import EntropicExtragradient, Extragradient
    from partwise.learners.frank_wolfe import BatchFrankWolfe, FrankWolfe
    from partwise.learners.joint_qp import JointQP
    from partwise.learners.kernel_extragradient import KernelExtragradient
    from partwise.learners.lbfgs import LBFGS
    from partwise.learners.mira import ExactDCA, KBestMIRA
    from partwise.learners.online import DCA, SGD, Perceptron
    from partwise.learners.online_eg import OnlineEG
    from partwise.learners.projected_gradient import ProjectedGradient
    from partwise.learners.sdca import SDCA
    from partwise.learners.simplex_qp import eg_qp
    from partwise.learners.smo import SMO, HybridEG
    from partwise.learners.subgradient import Subgradient

__all__ = [
    "DCA",
    "EG",
    "LBFGS",
    "LEARNERS",
    "SDCA",
    "SGD",
    "SMO",
    "BatchFrankWolfe",
    "Certificate",
    "EntropicExtragradient",
    "ExactDCA",
    "Extragradient",
    "FrankWolfe",
    "HybridEG",
    "JointQP",
    "KBestMIRA",
    "KernelExtragradient",
    "Learner",
    "NSlack",
    "OneSlack",
    "OnlineEG",
    "Perceptron",
    "ProjectedGradient",
    "Record",
    "Result",
    "Subgradient",
    "eg_qp",
    "find_learner",
    "register_learner",
]

#: Registered names, so that the first use of one imports that learner alone.
_NAMED = {
    "n_slack": "NSlack",
    "one_slack": "OneSlack",
    "eg": "EG",
    "entropic_extragradient": "EntropicExtragradient",
    "extragradient": "Extragradient",
    "batch_frank_wolfe": "BatchFrankWolfe",
    "frank_wolfe": "FrankWolfe",
    "joint_qp": "JointQP",
    "lbfgs": "LBFGS",
    "exact_dca": "ExactDCA",
    "mira": "KBestMIRA",
    "dca": "DCA",
    "sgd": "SGD",
    "perceptron": "Perceptron",
    "online_eg": "OnlineEG",
    "projected_gradient": "ProjectedGradient",
    "sdca": "SDCA",
    "smo": "SMO",
    "smo_eg": "HybridEG",
    "subgradient": "Subgradient",
}

_HOME = {
    "NSlack": "cutting_plane",
    "OneSlack": "cutting_plane",
    "EG": "eg",
    "eg_qp": "simplex_qp",
    "EntropicExtragradient": "extragradient",
    "Extragradient": "extragradient",
    "BatchFrankWolfe": "frank_wolfe",
    "FrankWolfe": "frank_wolfe",
    "JointQP": "joint_qp",
    "KernelExtragradient": "kernel_extragradient",
    "LBFGS": "lbfgs",
    "ExactDCA": "mira",
    "KBestMIRA": "mira",
    "DCA": "online",
    "SGD": "online",
    "Perceptron": "online",
    "OnlineEG": "online_eg",
    "ProjectedGradient": "projected_gradient",
    "SDCA": "sdca",
    "SMO": "smo",
    "HybridEG": "smo",
    "Subgradient": "subgradient",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"partwise.learners.{_HOME[name]}"), name)
    raise AttributeError(f"module 'partwise.learners' has no attribute {name!r}")

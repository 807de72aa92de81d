"""Learners: ways of finding θ, all with one face."""

from partwise.learners.base import (
    LEARNERS,
    Certificate,
    Learner,
    Record,
    Result,
    find_learner,
    register_learner,
)
from partwise.learners.lbfgs import LBFGS
from partwise.learners.mira import ExactDCA, KBestMIRA
from partwise.learners.online import DCA, SGD, Perceptron

__all__ = [
    "DCA",
    "LBFGS",
    "LEARNERS",
    "SGD",
    "Certificate",
    "ExactDCA",
    "KBestMIRA",
    "Learner",
    "Perceptron",
    "Record",
    "Result",
    "find_learner",
    "register_learner",
]

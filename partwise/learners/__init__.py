"""Learners: ways of finding θ, all with one face.

A learner's module is imported when the learner is first used: a model that only predicts needs none of them.
"""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

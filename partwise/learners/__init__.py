"""Learners: algorithms that find θ, all with the same interface.

A learner's module is imported when the learner is first used: a model that only predicts needs none of them.
"""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

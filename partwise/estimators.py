"""Estimators of all tasks by name; each lives with its task, and is imported when first used."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

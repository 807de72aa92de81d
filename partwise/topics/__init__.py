"""Topic models: LDA, and DiscLDA, whose topics are trained to distinguish classes."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

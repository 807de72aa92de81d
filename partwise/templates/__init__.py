"""Feature templates: a small language for attributes of tokens, and the index that turns tokens into rows."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

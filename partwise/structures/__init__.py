"""Output spaces and their oracles on part scores; each is imported when first used."""

from partwise._lazy import attach
from partwise.structures import plain as _plain  # noqa: F401, registers structures in plain Python

__getattr__, __dir__, __all__ = attach(__name__, __file__)

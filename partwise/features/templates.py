"""The template language under its documented name; it lives in ``partwise.templates`` and is imported on first use."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

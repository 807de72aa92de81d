"""The structures that the capability table and the conformance suite know, each with a small example of it.

What a structure can do may depend on its settings (a tied chain has fewer oracles than an untied one), so the
table asks spaces, not classes.
"""

from __future__ import annotations

from collections.abc import Callable

from partwise.structures.base import Structure

__all__ = ["STRUCTURES", "register_structure"]

#: Name, as in "Chain" or "Chain(tied=False)" → a function that makes a small space of it.
STRUCTURES: dict[str, Callable[[], Structure]] = {}


def register_structure(name: str, example: Callable[[], Structure]) -> None:
    """Make a structure known by name, with a function that makes a small space of it."""
    STRUCTURES[name] = example

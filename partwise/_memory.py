"""Memory that is free but still ours: what large temporary arrays left behind."""

from __future__ import annotations

import ctypes

__all__ = ["release_free_memory"]


def release_free_memory() -> None:
    """Hand free pages back to the system, where the C library can (glibc): it keeps what it may need again."""
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:
        trim(0)

"""Compiled kernels come back from the disk without the compiler.

numba fills its tables of types and implementations before it looks into its cache: eighty modules, a sixth of a second
and 14 MB, of which a kernel that is already machine code needs only the runtime that allocates arrays. Who must compile
after all fills the tables then: numba's compiler does so itself whenever it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

__all__ = ["KernelCache"]


class _Files(FunctionCache):  # type: ignore[misc]
    """numba's cache of the machine code of one function, which does not wake the compiler."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class KernelCache:
    """What a dispatcher of numba asks of its cache. Looks at the disk when the function is first called."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self.function, self.folder = function, folder

    @cached_property
    def _files(self) -> _Files:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = self.folder  # type: ignore[attr-defined]
        try:
            return _Files(self.function)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]

    @property
    def cache_path(self) -> str:
        return self._files.cache_path  # type: ignore[no-any-return]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._files.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._files.save_overload(sig, data)

    def flush(self) -> None:
        self._files.flush()

"""Compiled kernels come back from the disk without the compiler.

One file per kernel and signature, named by the hash of all that its machine code contains
(:mod:`partwise._kernel_contents`): what has changed has another name, so stale code cannot run.

numba fills its tables of types and implementations before it looks into its cache: eighty modules, a sixth of a second
and 14 MB, of which a kernel that is already machine code needs only the runtime that allocates arrays. A process that
has to compile after all pays for the tables then: numba's compiler fills them whenever it starts.

This overrides inner parts of numba: see :mod:`partwise._overrides` for what happens where they have changed.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from partwise import _cache_folder
from partwise._kernel_contents import UnknownContentsError, kernel_hash

__all__ = ["KernelCache", "PlainCache"]

logger = logging.getLogger("partwise")


class _Cache:
    """What a dispatcher of numba asks of its cache, and where the code of a signature belongs."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self._paths: dict[Any, str | None] = {}

    @property
    def cache_path(self) -> str | None:
        return _cache_folder.cache_dir()

    def _path(self, signature: Any, codegen: Any) -> str | None:
        """Place of a compiled signature; None where there is no folder, or no telling what the code contains."""
        folder = _cache_folder.cache_dir()
        if folder is None:
            return None
        try:
            key = kernel_hash(self.function, signature, self.options, codegen.magic_tuple())
        except UnknownContentsError as unknown:
            logger.info("%s is compiled without a disk cache: it contains %s", self.function.__qualname__, unknown)
            return None
        return os.path.join(folder, f"{self.function.__name__}-{key[:40]}")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        path = self._paths[sig] = self._path(sig, target_context.codegen())
        return None if path is None else self._load(path, sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        path = self._paths.get(sig)  # from before compilation: what it read then is what the code contains
        if path is None:
            return
        try:
            self._save(path, sig, data)
            _cache_folder.clean(os.path.dirname(path))
        except OSError as error:  # a full disk
            logger.warning("%s could not be kept in the kernel cache: %s", self.function.__qualname__, error)

    def flush(self) -> None:
        for path in filter(None, self._paths.values()):
            _cache_folder.remove(path + KernelCache.ENDING)

    def _load(self, path: str, sig: Any, target_context: Any) -> Any:
        raise NotImplementedError

    def _save(self, path: str, sig: Any, data: Any) -> None:
        raise NotImplementedError


class KernelCache(_Cache):
    """Machine code in one file, read without the compiler."""

    ENDING = ".kernel"

    def _load(self, path: str, sig: Any, target_context: Any) -> Any:
        data = _cache_folder.read(path + self.ENDING)
        if data is None:
            return None
        rtsys.initialize(target_context)
        return CompileResult._rebuild(target_context, *pickle.loads(data))

    def _save(self, path: str, sig: Any, data: Any) -> None:
        if not data.library.has_dynamic_globals and all(part.can_cache for part in data.lifted):
            _cache_folder.write(path + self.ENDING, dumps(data._reduce()))


class PlainCache(_Cache):
    """numba's own cache, in a folder for every state of what a kernel contains."""

    def _numba(self, path: str) -> FunctionCache:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = path  # type: ignore[attr-defined]
        try:
            return FunctionCache(self.function)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]

    def _load(self, path: str, sig: Any, target_context: Any) -> Any:
        if not os.path.isdir(path):
            return None
        _cache_folder.touch(path, os.stat(path))
        return self._numba(path).load_overload(sig, target_context)

    def _save(self, path: str, sig: Any, data: Any) -> None:
        self._numba(path).save_overload(sig, data)

"""Compiled kernels come back from the disk without the compiler.

One file per kernel and signature, named by the hash of all that its machine code contains
(:mod:`partwise._kernel_contents`): what has changed has another name, so stale code cannot run.

numba fills its tables of types and implementations before it looks into its cache: eighty modules, a sixth of a second
and 14 MB, of which a kernel that is already machine code needs only the runtime that allocates arrays. A process that
has to compile after all pays for the tables then: numba's compiler fills them whenever it starts. For the same reason

- a file holds the machine code alone, not the intermediate code that callers would link: callers contain a function in
  another form (:mod:`partwise._callees`);
- the modules that kernels took functions of numba's own from are not imported: only interpreted code asks for their
  globals;
- the runtime itself, which numba compiles in every process, lies beside the kernels.

This overrides inner parts of numba: see :mod:`partwise._overrides` for what happens where they have changed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import nrtdynmod, rtsys  # type: ignore[attr-defined]
from numba.core.serialize import dumps

from partwise import _cache_folder
from partwise._kernel_contents import UnknownContentsError, kernel_hash

__all__ = ["KernelCache", "PlainCache", "packed", "runtime_library", "start_runtime", "unpacked"]

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
        """Place of a compiled signature; None if there is no folder, or no telling what the code contains."""
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

    ENDING = ".code"

    def _load(self, path: str, sig: Any, target_context: Any) -> Any:
        data = _cache_folder.read(path + self.ENDING)
        if data is None:
            return None
        start_runtime(target_context)
        return unpacked(data, target_context)

    def _save(self, path: str, sig: Any, data: Any) -> None:
        if not data.library.has_dynamic_globals and all(part.can_cache for part in data.lifted):
            _cache_folder.write(path + self.ENDING, packed(data))


class PlainCache(_Cache):
    """numba's own cache, in a folder for every state of what a kernel contains."""

    def _numba(self, path: str) -> FunctionCache:
        config: Any = numba.config
        before, config.CACHE_DIR = config.CACHE_DIR, path
        try:
            return FunctionCache(self.function)
        finally:
            config.CACHE_DIR = before

    def _load(self, path: str, sig: Any, target_context: Any) -> Any:
        if not os.path.isdir(path):
            return None
        _cache_folder.touch(path, os.stat(path))
        return self._numba(path).load_overload(sig, target_context)

    def _save(self, path: str, sig: Any, data: Any) -> None:
        self._numba(path).save_overload(sig, data)


# -------------------------------------------------------------------------------------------------- what is in a file


def packed(result: Any) -> bytes:
    """A compiled function as bytes, without the intermediate code."""
    (name, kind, (code, _)), *rest = result._reduce()
    return bytes(dumps(((name, kind, (code, _nothing())), *rest)))


def unpacked(data: bytes, target_context: Any) -> Any:
    """The compiled function, ready to be called; None where the code does not hold it."""
    library, about, *rest = _Unpickler(io.BytesIO(data)).load()
    entry = about.llvm_cpython_wrapper_name
    if entry.encode() not in library[2][0]:
        return None
    target_context.codegen()._engine._defined_symbols.add(entry)  # numba looks for it in the intermediate code
    return CompileResult._rebuild(target_context, library, about, *rest)


@functools.cache
def _nothing() -> bytes:
    """An empty module of intermediate code."""
    return bytes(binding.parse_assembly("").as_bitcode())


class _Unpickler(pickle.Unpickler):
    """Leaves modules alone of which a kernel has only the name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numba.core.environment", "_rebuild_env"):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: list[Any], name: str) -> Environment:
    """What a function refers to at run time: constants, and globals that compiled code never looks at."""
    known = lookup_environment(name)
    if known is None:
        found = sys.modules.get(module)
        known = Environment({"__name__": module} if found is None else found.__dict__)
        known.consts[:] = constants
        known.env_name = name
        Environment._memo[name] = known
    result: Environment = known
    return result


def start_runtime(target_context: Any) -> None:
    """Start what counts references to arrays; its few functions come from the disk, where they have been compiled."""
    if rtsys._init:
        return
    with global_compiler_lock:
        compile_functions = nrtdynmod.compile_nrt_functions
        nrtdynmod.compile_nrt_functions = runtime_library
        try:
            rtsys.initialize(target_context)
        finally:
            nrtdynmod.compile_nrt_functions = compile_functions


def runtime_library(target_context: Any) -> Any:
    """What ``nrtdynmod.compile_nrt_functions`` returns."""
    codegen = target_context.codegen()
    folder = _cache_folder.cache_dir()
    debug = [getattr(numba.config, name, None) for name in ("DEBUG_NRT", "DEBUG_NRT_STACK_LIMIT")]
    about = (numba.__version__, llvmlite.__version__, codegen.magic_tuple(), debug)
    path = os.path.join(folder, f"runtime-{hashlib.sha256(repr(about).encode()).hexdigest()[:40]}") if folder else None
    data = _cache_folder.read(path) if path else None
    if data is not None:
        return codegen.unserialize_library(pickle.loads(data))
    module, library = nrtdynmod.create_nrt_module(target_context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    if path:
        try:
            _cache_folder.write(path, dumps(library.serialize_using_object_code()))
        except OSError as error:  # a full disk
            logger.info("the runtime of numba could not be kept in the kernel cache: %s", error)
    return library

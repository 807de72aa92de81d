"""Compiled kernels and generic functions: how one loop serves every structure.

``kernel`` compiles a function once per machine: machine code is kept on disk under a hash of all that it contains,
callees in other files and in other packages included (:mod:`partwise._kernel_contents`).

``Generic`` is an open function: implementations are chosen by the *type* of the first argument, both
in Python (for structures written in plain Python, and when compilation is switched off) and inside
compiled code (for packed arrays in a NamedTuple). Selecting by type, rather than by passing functions
around, is what lets numba reuse its cache in the next process.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.extending import overload, register_jitable, typeof_impl

from partwise._overrides import overrides_fit, overrides_missing

try:
    from partwise import _callees
except (ImportError, AttributeError) as error:
    overrides_missing(error)
    _callees = None  # type: ignore[assignment]
try:
    from partwise import _kernel_cache
except (ImportError, AttributeError) as error:  # then nothing is kept on disk
    overrides_missing(error)
    _kernel_cache = None  # type: ignore[assignment]

__all__ = ["Generic", "composite", "kernel", "native"]

# Sums may be reordered and fused (so that they vectorise), but infinities and NaNs keep their meaning.
FAST = frozenset({"reassoc", "contract", "nsz"})

# How to compile what only other compiled code calls.
CALLEE: dict[str, Any] = {"fastmath": set(FAST), "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if _callees is not None:
    CALLEE["pipeline_class"] = _callees.CalleeCompiler

_NATIVE = frozenset({np.ndarray, np.float64, np.int64, int, float, bool})


def kernel(function: Callable[..., Any] | None = None, *, fast: bool = True, cache: bool = True, **options: Any) -> Any:
    """Compile ``function`` with numba: cached on disk, without the GIL, ±inf and NaN exact."""
    if function is None:
        return functools.partial(kernel, fast=fast, cache=cache, **options)
    settings: dict[str, Any] = {
        "nogil": True,
        "no_cfunc_wrapper": True,
        "fastmath": set(FAST) if fast else False,
    }
    settings.update(options)
    return Kernel(function, settings, cache)


class Kernel:
    """A function that numba compiles when it is first called, in Python or by another kernel.

    Of the hundreds of kernels a process calls a handful: what numba needs to know of one is built when it is wanted.
    """

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any], cache: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.settings, self.cache = function, settings, cache

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function; the function itself where compilation is switched off."""
        dispatcher = numba.njit(**self.settings)(self.py_func)
        if isinstance(dispatcher, Dispatcher):
            fit = overrides_fit()
            if self.cache and _kernel_cache is not None:
                cache = _kernel_cache.KernelCache if fit else _kernel_cache.PlainCache
                dispatcher._cache = cache(self.py_func, self.settings)  # type: ignore[attr-defined]
            if fit:
                _contain(dispatcher, self.py_func, self.settings["fastmath"])
        return dispatcher

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)


@typeof_impl.register(Kernel)
def _type_of_kernel(value: Kernel, context: Any) -> Any:
    return types.Dispatcher(value.dispatcher)


def _contain(dispatcher: Any, function: Callable[..., Any], fastmath: Any) -> None:
    """Let compiled callers contain ``function`` without code of its own; see :mod:`partwise._callees`.

    f(x, 0) and f(x, n) are compiled once: numba would specialise on every integer constant in a call.
    """

    @functools.cache  # most are never needed: compiled callers come from the disk
    def inner() -> Any:
        return numba.njit(**{**CALLEE, "fastmath": fastmath})(function)

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return inner().get_call_template(tuple(map(types.unliteral, args)), plain)

    dispatcher.get_call_template = get_call_template
    dispatcher.get_overload = lambda signature: inner().get_overload(signature)
    dispatcher.callee = inner


def composite(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A step built from generic functions: compiled inside a kernel, plain Python when called from Python.

    That is how a loop whose structure is written in Python runs the very code that is compiled for the others.
    """
    if function is None:
        return functools.partial(composite, **options)
    function.compile_options = options  # type: ignore[attr-defined]  # part of what a kernel contains
    return register_jitable(**CALLEE, **options)(function)


def native(value: Any) -> bool:
    """Whether compiled code can take the value: arrays and numbers, and tuples of nothing else.

    Examples
    --------
    >>> native((np.zeros(2), 1.0)), native((np.zeros(2), object()))
    (True, False)
    """
    kind = type(value)
    if kind in _NATIVE:
        return True
    if issubclass(kind, tuple):
        return all(map(native, value))
    return issubclass(kind, np.ndarray | np.generic)


class Generic:
    """An open function whose implementation is chosen by the type of its first argument.

    ``register(cls)`` adds an implementation. For a NamedTuple of arrays the implementation is a kernel
    that compiled callers reach at no cost; for any other class it is ordinary Python. Calling the
    generic from Python works for both; where some other argument is an object of Python (the structure of
    a compiled loss, say), the source of the kernel runs instead of the kernel.
    """

    def __new__(cls, stub: Callable[..., Any]) -> Any:
        table: dict[type, Callable[..., Any]] = {}
        compiled: dict[type, Callable[..., Any]] = {}
        name = stub.__name__

        def find(kind: type) -> Callable[..., Any]:
            for base in kind.__mro__:
                if base in table:
                    return table[base]
            raise TypeError(f"{name} is not implemented for {kind.__name__}")

        @functools.wraps(stub)
        def generic(first: Any, *rest: Any) -> Any:
            chosen = find(type(first))
            if not native((first, *rest)):
                chosen = getattr(chosen, "py_func", chosen)
            return chosen(first, *rest)

        def register(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def add(implementation: Callable[..., Any]) -> Callable[..., Any]:
                if issubclass(kind, tuple) and hasattr(kind, "_fields"):
                    # numba names machine code by module, name and a number that begins anew in every process: of two
                    # functions called "_", one from the disk may otherwise be taken for one compiled now
                    if getattr(implementation, "__name__", "") == "_":
                        implementation.__name__ = implementation.__qualname__ = f"{name}_{kind.__name__}"
                    jitted = kernel(implementation)
                    compiled[kind] = implementation
                    table[kind] = jitted
                    result: Callable[..., Any] = jitted
                    return result
                table[kind] = implementation
                return implementation

            return add

        arguments = list(inspect.signature(stub).parameters)
        source = (
            f"def choose({', '.join(arguments)}):\n"
            f"    if isinstance({arguments[0]}, BaseNamedTuple):\n"
            f"        return compiled.get({arguments[0]}.instance_class)\n"
        )
        scope: dict[str, Any] = {"BaseNamedTuple": types.BaseNamedTuple, "compiled": compiled}
        exec(source, scope)  # numba matches overloads by argument names, so they must be the stub's
        overload(generic, jit_options=CALLEE)(scope["choose"])  # type: ignore[arg-type]

        generic.register = register  # type: ignore[attr-defined]
        generic.kinds = table.keys()  # type: ignore[attr-defined]
        generic.compiled = compiled  # type: ignore[attr-defined]
        return generic

"""What a compiled kernel is made of, as one hash: machine code may be used again if and only if this is unchanged.

numba compiles byte code, and bakes into it the byte code of every function called and the value of every constant
named. Its own cache looks at one file only, so that a change in a callee elsewhere goes unnoticed. Here the very things
that numba will read are followed from the function: names in its byte code and in its closure, functions they stand
for, and so on. A :class:`~partwise._compile.Generic` stands for the implementations registered for the NamedTuple
classes at hand: those in the types of the arguments and those that the code names. An edit elsewhere, to another
structure say, leaves the hash alone.

Functions written in LLVM code (``overload``, ``intrinsic``) run arbitrary Python while they are compiled: they count
with the text of their whole file and of the files it imports.

What has no source file (an interactive session, ``exec``) or cannot be described has no hash, and is compiled anew.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import llvmlite
import numba
import numba.extending
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types import BaseNamedTuple, BaseTuple, Type
from numba.core.types import Dispatcher as DispatcherType
from numba.core.typing.templates import builtin_registry

__all__ = ["UnknownContentsError", "kernel_hash"]

# Described by name: the key holds the versions of those that numba builds into machine code.
_FIXED = sys.stdlib_module_names | {"numba", "llvmlite", "numpy", "scipy"}

# Settings of numba that change the machine code.
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "CPU_NAME",
             "CPU_FEATURES")  # fmt: skip

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)


class UnknownContentsError(Exception):
    """Something in a kernel that cannot be described, so that a change would go unnoticed."""


def kernel_hash(function: Callable[..., Any], arguments: Iterable[Type], options: dict[str, Any], machine: Any) -> str:
    """Hash of all that the machine code of a function can contain, for arguments of the given types.

    Parameters
    ----------
    function : the function that is compiled
    arguments : numba's types of its arguments
    options : how it is compiled
    machine : what numba says of the processor
    """
    contents = _Contents()
    contents.add("compiler", _compiler())
    contents.add("machine", repr(machine))
    contents.add("options", contents.describe(options))
    contents.add("arguments", *map(contents.describe, arguments))
    contents.add("root", contents.describe(function))
    contents.follow()
    return hashlib.sha256("\n".join(sorted(contents.found)).encode()).hexdigest()


class _Contents:
    """The closure of what code refers to. ``found`` is a set of descriptions, in no order."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.waiting: list[Callable[[], None]] = []
        self.seen: set[tuple[str, int]] = set()
        self.generics: dict[str, Any] = {}
        self.classes: dict[str, type] = {}
        self.files: set[str] = set()
        self.unknown: list[tuple[str, str]] = []
        for template in _foreign_attributes():
            self._enter(self._file, sys.modules[template.__module__])

    def add(self, *words: str) -> None:
        self.found.add(repr(words))

    def follow(self) -> None:
        """Until nothing new is found: every function and file, then every implementation for every class."""
        done: set[tuple[str, str]] = set()
        while True:
            while self.waiting:
                self.waiting.pop()()
            pairs = [pair for pair in _pairs(self.generics, self.classes) if pair not in done]
            if not pairs:
                break
            for name, kind in pairs:
                done.add((name, kind))
                chosen = self.generics[name].compiled.get(self.classes[kind])
                if chosen is not None:
                    self.add("implementation", name, kind, self.describe(chosen))
        for module, unknown in self.unknown:
            if module not in self.files:
                raise UnknownContentsError(unknown)

    def _enter(self, visit: Callable[[Any], None], thing: Any) -> None:
        """Visit a thing later, once: what is found must not depend on the order in which it is found."""
        if (visit.__name__, id(thing)) not in self.seen:
            self.seen.add((visit.__name__, id(thing)))
            self.waiting.append(lambda: visit(thing))

    # ---------------------------------------------------------------- values

    def describe(self, value: Any) -> str:
        """The value of a constant, the name of anything else; what the name stands for is followed later."""
        kind = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if isinstance(value, Type):
            return self._type(value)
        if isinstance(value, type):
            return self._class(value)
        if kind in (set, frozenset):
            return f"{kind.__name__} {sorted(map(self.describe, value))}"
        if isinstance(value, tuple | list):
            return f"{self._class(kind)} {list(map(self.describe, value))}"
        if kind is dict:
            return f"dict {sorted((self.describe(key), self.describe(item)) for key, item in value.items())}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        return self._callable(value)

    def _array(self, array: np.ndarray[Any, Any]) -> str:
        if array.dtype.hasobject:
            raise UnknownContentsError(f"an array of {array.dtype}")
        return f"array {array.dtype.descr} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"

    def _type(self, kind: Any) -> str:
        """A type of numba, and the classes of NamedTuples in it."""
        if isinstance(kind, DispatcherType):
            return f"type of {self.describe(kind.dispatcher)}"
        is_tuple, is_named = isinstance(kind, BaseTuple), isinstance(kind, BaseNamedTuple)
        inside = list(kind) if is_tuple else [part for part in vars(kind).values() if isinstance(part, Type)]
        if is_named:
            inside.append(kind.instance_class)
        if not _fixed(type(kind).__module__):
            inside.append(type(kind))
        return f"type {kind} {list(map(self.describe, inside))}"

    def _class(self, kind: type) -> str:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _fixed(kind.__module__) and not hasattr(kind, "_fields"):
            return f"class {name}"
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            if _find(kind.__module__, kind.__qualname__) is not kind:
                raise UnknownContentsError(f"the class {name}, which the next process could not find by its name")
            self.classes[name] = kind
            return f"named tuple {name} {kind._fields}"
        self._enter(self._file, _module(kind.__module__, name))
        return f"class {name}"

    def _callable(self, value: Any) -> str:
        if isinstance(value, Dispatcher):
            return f"numba {self.describe(value.targetoptions)} {self._function(value.py_func)}"
        if isinstance(value, _Intrinsic):
            self._enter(self._file, _module(value._defn.__module__, value._name))
            return f"intrinsic {value._defn.__module__}.{value._defn.__qualname__}"
        if hasattr(value, "compiled") and hasattr(value, "register"):
            name = f"{value.__module__}.{value.__qualname__}"
            self.generics[name] = value
            return f"generic {name}"
        if hasattr(value, "py_func") and hasattr(value, "settings"):
            return f"kernel {self.describe(value.settings)} {self._function(value.py_func)}"
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, functools.partial):
            return f"partial {self.describe(value.func)} {self.describe(value.args)} {self.describe(value.keywords)}"
        called: Any = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        home: Any = getattr(value, "__module__", None) or type(value).__module__
        if isinstance(called, str) and callable(value) and _fixed(home):
            return f"built-in {home}.{called}"
        if isinstance(value, np.dtype):
            return f"dtype {value.descr}"
        raise UnknownContentsError(f"{type(value).__module__}.{type(value).__qualname__} object")

    # ---------------------------------------------------------------- functions and files

    def _function(self, function: types.FunctionType) -> str:
        home = function.__module__ or ""
        name = f"{home}.{function.__qualname__}"
        if _fixed(home):
            return f"function {name}"
        code = _code(function.__code__, function.__doc__)
        self._enter(self._references, function)
        return f"function {name} {code}"

    def _references(self, function: types.FunctionType) -> None:
        """Every value that a function names: constants, callees, classes."""
        name = self._function(function)
        module = _module(function.__module__, name)
        if not _is_file(function.__code__.co_filename):
            raise UnknownContentsError(f"{function.__qualname__}, which has no source file")
        if _writes_code(module):
            self._enter(self._file, module)
        describe = functools.partial(self._describe_in, module.__name__)
        self.add(name, "defaults", describe(function.__defaults__), describe(function.__kwdefaults__))
        self.add(name, "compiled with", self.describe(getattr(function, "compile_options", None)))
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.add(name, "closure", free, describe(cell.cell_contents))
        for template in _overloads().get(function, ()):
            if not _fixed(template.__module__):
                self._enter(self._file, _module(template.__module__, name))
        names = _names(function.__code__)
        for word in names & function.__globals__.keys():
            self._named(name, word, function.__globals__[word], names, describe)

    def _named(self, owner: str, word: str, value: Any, names: frozenset[str], describe: Callable[[Any], str]) -> None:
        self.add(owner, "names", word, describe(value))
        if isinstance(value, types.ModuleType) and not _fixed(value.__name__):
            for inner in names & vars(value).keys() - {word}:
                self._named(f"{owner} {word}", inner, vars(value)[inner], names - {word}, describe)

    def _file(self, module: types.ModuleType) -> None:
        """The text of a file and of what it imports: for Python that runs while code is generated."""
        self.files.add(module.__name__)
        self.add("file", module.__name__, _text_hash(_source(module)))
        for word, value in vars(module).items():
            if not word.startswith("__"):
                self.add("file", module.__name__, word, self._describe_in(module.__name__, value))
                home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
                if isinstance(home, str) and not _fixed(home) and home in sys.modules:
                    self._enter(self._file, sys.modules[home])

    def _describe_in(self, module: str, value: Any) -> str:
        """Where the whole text of a file counts, an object of Python is what the text makes it."""
        try:
            return self.describe(value)
        except UnknownContentsError as unknown:
            # its words alone: an error would keep the frames of all callers alive, and with them their data
            self.unknown.append((module, str(unknown)))
            return f"{unknown}"


# -------------------------------------------------------------------------------------------------- small questions


def _fixed(name: str) -> bool:
    """Whether a module is described by its name; a file of the user's that happens to be called ``test`` is not."""
    return _fixed_package(name.partition(".")[0])


@functools.cache
def _fixed_package(package: str) -> bool:
    if package in _FIXED - sys.stdlib_module_names:
        return True
    path = getattr(sys.modules.get(package), "__file__", None)
    homes = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own = path is None or ("-packages" not in path and any(path.startswith(home + os.sep) for home in homes))
    return package in _FIXED and own


def _pairs(generics: dict[str, Any], classes: dict[str, type]) -> Iterator[tuple[str, str]]:
    return ((name, kind) for name in generics for kind in classes)


def _module(name: str | None, wanted_by: str) -> types.ModuleType:
    try:
        return sys.modules[name or ""]
    except KeyError:
        raise UnknownContentsError(f"{wanted_by}, whose module is not to be found") from None


def _source(module: types.ModuleType) -> str:
    path = getattr(module, "__file__", None)
    if not path or not _is_file(path):
        raise UnknownContentsError(f"{module.__name__}, which has no source file")
    return str(path)


def _find(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for word in qualname.split("."):
        found = getattr(found, word, None)
    return found


@functools.cache
def _is_file(path: str) -> bool:
    return os.path.isfile(path)


def _names(code: types.CodeType) -> frozenset[str]:
    """All names in a function's code and in the functions inside it."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))


@functools.cache
def _code(code: types.CodeType, doc: str | None = None) -> str:
    """Hash of byte code. Neither comments nor docstrings nor line numbers are part of it."""
    constants = [
        _code(const) if isinstance(const, types.CodeType) else _constant(const)
        for place, const in enumerate(code.co_consts)
        if not (place == 0 and doc is not None and const == doc)
    ]
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_name)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    text = repr((code.co_code, code.co_exceptiontable, constants, shape, names))
    return hashlib.sha256(text.encode()).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset {sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"tuple {list(map(_constant, value))}"
    return f"{type(value).__name__} {value!r}"


_TEXTS: dict[str, tuple[tuple[int, int], str]] = {}


def _text_hash(path: str) -> str:
    """Hash of a file, read again when it has changed."""
    status = os.stat(path)
    stamp = (status.st_mtime_ns, status.st_size)
    if path not in _TEXTS or _TEXTS[path][0] != stamp:
        with open(path, "rb") as file:
            _TEXTS[path] = (stamp, hashlib.sha256(file.read()).hexdigest())
    return _TEXTS[path][1]


@functools.cache
def _compiler() -> str:
    """Versions and settings of the compiler, and the files that say how this library uses it."""
    here = os.path.dirname(__file__)
    files = ("_callees.py", "_compile.py", "_kernel_contents.py")
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    settings = [(name, getattr(numba.config, name, None)) for name in _SETTINGS]
    return repr((versions, settings, [_text_hash(os.path.join(here, file)) for file in files]))


def _writes_code(module: types.ModuleType) -> bool:
    """Whether functions of a module may be compiled from something other than their own byte code."""
    return any(
        id(value) in _EXTENSIONS or (isinstance(value, types.ModuleType) and value.__name__ in _CODE_WRITERS)
        for value in vars(module).values()
    )


_EXTENSIONS = {
    id(getattr(numba.extending, name))
    for name in ("intrinsic", "overload", "overload_attribute", "overload_method", "lower_builtin", "type_callable")
}
_CODE_WRITERS = {"numba.extending", "numba.core.extending", "llvmlite.ir", "llvmlite"}

_OVERLOADS: dict[Any, list[Any]] = {}
_COUNTED = [0]


def _overloads() -> dict[Any, list[Any]]:
    """Functions by which others have taught numba to compile a function, wherever they stand."""
    entries = builtin_registry.globals
    for value, kind in entries[_COUNTED[0] :]:
        if isinstance(value, types.FunctionType):
            taught = [getattr(t, "_overload_func", None) for t in getattr(kind, "templates", ())]
            _OVERLOADS.setdefault(value, []).extend(t for t in taught if t is not None)
    _COUNTED[0] = len(entries)
    return _OVERLOADS


def _foreign_attributes() -> list[Any]:
    """Methods and attributes that others have added to numba's own types: any kernel may use them."""
    taught = (getattr(template, "_overload_func", None) for template in builtin_registry.attributes)
    return [t for t in taught if t is not None and not _fixed(t.__module__)]

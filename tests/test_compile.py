"""Generic functions in Python and compiled; kernels without the compiler."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.event import Listener, install_listener
from numpy.typing import NDArray

import partwise._callees
import partwise._compile
import partwise.structures
from partwise import _cache_folder
from partwise._compile import Generic, composite, kernel
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass

COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
needs_compiler = pytest.mark.skipif(not COMPILED, reason="compilation is switched off")


class Square(NamedTuple):
    side: float


class Box(NamedTuple):
    sides: NDArray[np.float64]


class Disc:
    radius = 2.0


class Ring(Disc):
    pass


@Generic
def area(shape, scale):  # type: ignore[no-untyped-def]
    """scale × the area of a shape."""


@area.register(Square)
def _(shape, scale):  # type: ignore[no-untyped-def]
    return scale * shape.side**2


@area.register(Box)
def _(shape, scale):  # type: ignore[no-untyped-def]
    return scale * shape.sides[0] * shape.sides[1]


@area.register(Disc)
def _(shape: Disc, scale: float) -> float:
    return scale * 3.0 * shape.radius**2


@composite
def twice(shape, scale):  # type: ignore[no-untyped-def]
    return 2.0 * area(shape, scale)


@kernel
def total(shape, n):  # type: ignore[no-untyped-def]
    """Σ_{scale < n} 2·area, all compiled where the shape is a NamedTuple."""
    result = 0.0
    for scale in range(n):
        result += twice(shape, scale)
    return result


# --------------------------------------------------------------------------------------------------
# Dispatch


def test_generic_in_python() -> None:
    assert area(Square(3.0), 2.0) == 18.0
    assert area(Box(np.array([2.0, 5.0])), 1.0) == 10.0
    assert area(Disc(), 1.0) == 12.0
    assert area(Ring(), 1.0) == 12.0, "a subclass inherits"
    assert twice(Ring(), 1.0) == 24.0
    assert set(area.kinds) == {Square, Box, Disc}
    assert area.__name__ == "area" and "area of a shape" in area.__doc__


def test_generic_in_compiled_code() -> None:
    assert total(Square(3.0), 4) == 2 * 9.0 * 6
    assert total(Box(np.array([2.0, 5.0])), 3) == 2 * 10.0 * 3
    if COMPILED:
        assert len(total.dispatcher.signatures) == 2, "one specialisation a type"


@pytest.mark.parametrize("shape", [3, "disc", (1.0, 2.0)])
def test_a_type_without_an_implementation(shape: Any) -> None:
    with pytest.raises(TypeError, match=f"area is not implemented for {type(shape).__name__}"):
        area(shape, 1.0)


@needs_compiler
def test_a_type_without_a_compiled_implementation() -> None:
    class Blob(NamedTuple):
        mass: float

    with pytest.raises(TypingError, match="area"):
        total(Blob(1.0), 2)


@kernel
def spread(x):  # type: ignore[no-untyped-def]
    return np.isinf(x[0]), np.isnan(x[0] - x[0]), max(x[0], 1.0)


def test_kernels_keep_infinities_and_nans() -> None:
    assert spread(np.array([-np.inf])) == (True, True, 1.0)
    if COMPILED:
        assert not {"ninf", "nnan", "arcp", "fast"} & set(spread.dispatcher.targetoptions["fastmath"])


# --------------------------------------------------------------------------------------------------
# The same kernels, interpreted


def oracle_answers() -> dict[str, list[float]]:
    """What every kernel of the structures answers on a few small spaces."""
    rng = np.random.default_rng(0)
    legal = [[True, True, False], [True, True, True], [False, True, True]]
    allowed = rng.random((8, 3)) < 0.7
    allowed[:, 1] = True
    spaces = {
        "chain": Chain([4, 3, 1], 3),
        "untied chain of order 2": Chain([4, 3, 1], 3, order=2, tied=False),
        "constrained chain": Chain([4, 3, 1], 3, order=2, allowed=allowed, transitions=legal, stop=[1, 1, 0]),
        "multiclass": Multiclass(3, 4),
        "constrained multiclass": Multiclass(3, 4, allowed=[[1, 0, 1, 1]] * 3),
    }
    answers: dict[str, list[float]] = {}
    for name, space in spaces.items():
        for i in range(len(space)):
            for scale in (1.0, 1e4):  # the scaled pass and the log domain
                scores = scale * rng.normal(size=space.n_parts(i))
                scores[-1] = -np.inf
                log_partition, mean = space.marginals(i, scores)
                draws = space.sample(i, scores, 5, np.random.default_rng(1))
                results: list[Any] = [
                    space.argmax(i, scores),
                    log_partition,
                    mean,
                    space.kbest(i, scores, 4),
                    draws,
                ]
                if "project" in space.oracles:
                    results.append(space.project(i, scores / scale))
                if "marginal_entropy" in space.oracles:
                    results.append(space.marginal_entropy(i, mean, rng.normal(size=len(mean))))
                answers[f"{name} {i} {scale:g}"] = np.concatenate([np.ravel(r) for r in results]).tolist()
    return answers


def run(script: str, path: list[Path], **environment: str) -> str:
    """Standard output of a fresh interpreter, in the first folder of its path."""
    return run_both(script, path, **environment)[0]


def run_both(script: str, path: list[Path], **environment: str) -> tuple[str, str]:
    """Its standard error too."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, cwd=path[0], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_kernels_run_without_the_compiler() -> None:
    root = Path(partwise._compile.__file__).parents[1]
    script = (
        "import json, warnings; warnings.simplefilter('ignore'); import test_compile; "
        "assert not test_compile.COMPILED; print(json.dumps(test_compile.oracle_answers()))"
    )
    output = run(script, [root, Path(__file__).parent], NUMBA_DISABLE_JIT="1")
    plain, compiled = json.loads(output), oracle_answers()
    assert plain.keys() == compiled.keys()
    for name, answer in compiled.items():
        np.testing.assert_allclose(plain[name], answer, rtol=1e-10, atol=1e-10, err_msg=name)


@needs_compiler
def test_what_a_kernel_contains_has_no_machine_code_of_its_own() -> None:
    compiled: list[Any] = []

    class Seen(Listener):
        def on_start(self, event: Any) -> None:
            pass

        def on_end(self, event: Any) -> None:
            compiled.append(event.data["dispatcher"])

    def inner(x):
        return 2.0 * x

    contained = kernel(inner, cache=False)

    def outer(x):
        return contained(x) + contained(1.0)

    with install_listener("numba:compile", Seen()):
        assert kernel(outer, cache=False)(3.0) == 8.0
    libraries = {d.py_func: [result.library for result in d.overloads.values()] for d in compiled}
    assert [type(library) for library in libraries[inner]] == [partwise._callees.CalleeLibrary]
    assert not isinstance(libraries[outer][0], partwise._callees.CalleeLibrary)
    assert contained(5.0) == 10.0  # called from Python it is a kernel like others


@needs_compiler
def test_a_kernel_from_the_disk_does_not_wake_the_compiler_and_other_code_still_can() -> None:
    script = (
        "import sys, numba, numpy as np; from partwise._math import dot; dot(np.ones(2), np.ones(2)); "
        "print(any(name in sys.modules for name in ('scipy.linalg', 'numba.np.arraymath')))\n"
        "print(numba.njit(lambda a: np.dot(a, a))(np.ones(3)))"
    )
    folder = [Path(partwise._compile.__file__).parents[1]]
    run(script, folder)  # compiles it, where it has never been used
    assert run(script, folder).split() == ["False", "3.0"]


@needs_compiler
def test_a_kernel_from_the_disk_brings_no_modules_no_runtime_and_no_intermediate_code(tmp_path: Path) -> None:
    """One that allocates arrays; what is compiled after it still finds the runtime."""
    script = (
        "import sys, numpy as np; from partwise.features.layout import _observed_pairs; import numba\n"
        "if len(sys.argv) > 1: numba.core.runtime.nrtdynmod.create_nrt_module = None\n"
        "found = _observed_pairs(np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1, np.int64), 2, np.array([0, 1]), "
        "np.zeros(1, np.int64))\n"
        "print(found, any(name in sys.modules for name in ('numba.np.arrayobj', 'numba.cpython.unicode')))\n"
        "print(numba.njit(lambda a: np.arange(a).sum())(3))"
    )
    folder, cache = [Path(partwise._compile.__file__).parents[1]], str(tmp_path)
    run(script, folder, PARTWISE_CACHE_DIR=cache)
    script = script.replace("len(sys.argv) > 1", "True")
    assert run(script, folder, PARTWISE_CACHE_DIR=cache).split() == ["[1]", "False", "3"]
    (kept,) = tmp_path.glob("kernels/_observed_pairs-*")
    (_, _, (machine, intermediate)), *_ = pickle.loads(_cache_folder.read(str(kept)) or b"")
    assert len(machine) > 10_000 and len(intermediate) < 2_000


def test_every_implementation_of_a_generic_has_a_name_of_its_own() -> None:
    """numba tells pieces of machine code apart by module, name and types: argmax and project have the same types."""
    for module in pkgutil.iter_modules(partwise.structures.__path__, "partwise.structures."):
        importlib.import_module(module.name)
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("partwise")]
    values = [value for module in modules for value in vars(module).values()]
    generics = {id(value): value for value in values if hasattr(value, "compiled") and hasattr(value, "register")}
    functions = {id(made): made for generic in generics.values() for made in generic.compiled.values()}
    names = [(made.__module__, made.__qualname__) for made in functions.values()]
    assert len(names) > 50
    assert len(set(names)) == len(names)

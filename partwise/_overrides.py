"""Whether the inner parts of numba that are overridden here are still what they were.

Callees without machine code of their own (:mod:`partwise._callees`) and kernels that come from the disk without the
compiler (:mod:`partwise._kernel_cache`) make compilation and start-up quicker, but numba promises neither. So before
they are first used with a version of numba a small kernel goes through both (:mod:`partwise._self_test`), and the
answer is kept beside the compiled kernels. Where they do not fit, kernels are compiled and cached by plain numba, and
a warning says so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from typing import Any

import llvmlite
import numba
from numba.core.compiler_lock import global_compiler_lock

from partwise import _cache_folder

__all__ = ["overrides_fit", "overrides_missing"]

logger = logging.getLogger("partwise")

_FILES = ("_callees.py", "_compile.py", "_kernel_cache.py", "_self_test.py")
_answer: list[bool] = []
_testing: list[bool] = []


def overrides_fit() -> bool:
    """Whether this version of numba can be overridden; found out once per version."""
    if not _answer:
        with global_compiler_lock:  # the lock of all compilation: whoever asks may hold it already
            if _testing:  # the kernels of the test itself
                return True
            if not _answer:
                _testing.append(True)
                problem = _recorded_problem()
                _testing.clear()
                _answer.append(not problem)
                if problem:
                    _warn(problem)
    return _answer[0]


def overrides_missing(error: Exception) -> None:
    """A module that overrides numba could not even be imported."""
    if not _answer:
        _warn(f"{type(error).__name__}: {error}")
    _answer[:] = [False]


def _warn(problem: str) -> None:
    logger.warning(
        "numba %s is not known to partwise (%s): kernels are compiled and cached by numba alone, "
        "which takes longer at first use and at the start of every process.",
        numba.__version__, problem,
    )  # fmt: skip


def _recorded_problem() -> str:
    """What is wrong, or nothing: from the disk, else from the test."""
    folder = _cache_folder.cache_dir()
    path = os.path.join(folder, _record_name()) if folder else None
    known = _cache_folder.read(path) if path else None
    if known is not None:
        return known.decode()
    problem = _problem()
    if path:
        try:
            _cache_folder.write(path, problem.encode())
        except OSError as error:  # a full disk: the next process tests again
            logger.info("the self-test could not be recorded: %s", error)
    return problem


def _problem() -> str:
    try:
        from partwise._self_test import check

        check()
    except Exception as error:  # a new numba may fail in any way
        return f"{type(error).__name__}: {error}"
    return ""


def _record_name() -> str:
    here = os.path.dirname(__file__)
    digest = hashlib.sha256()
    for name in _FILES:
        with open(os.path.join(here, name), "rb") as file:
            digest.update(file.read())
    versions: tuple[Any, ...] = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
    return "-".join(["numba", *map(str, versions), digest.hexdigest()[:16]])

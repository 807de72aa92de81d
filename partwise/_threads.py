"""Threads that run compiled kernels, which release the GIL; made when first used, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

__all__ = ["Threads", "ahead"]

T = TypeVar("T")


class Threads:
    """At most ``count`` calls at a time. The pool is made at the first use and is not part of a pickle or a copy.

    Examples
    --------
    >>> found = []
    >>> Threads(2).each(found.append, [(1,), (2,)])
    >>> sorted(found)
    [1, 2]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def each(self, task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> None:
        """task(*args) for every args; an exception in one of them is raised here."""
        jobs = list(arguments)
        if self.count == 1 or len(jobs) <= 1:
            for args in jobs:
                task(*args)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        list(self._pool.map(lambda args: task(*args), jobs))

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count, "_pool": None}


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each one fetched by another thread while the caller works on the one before it.

    Examples
    --------
    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield cast(T, item)

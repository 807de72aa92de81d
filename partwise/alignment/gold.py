"""Gold alignments in any accepted form, checked and normalised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.links import SentencePair
from partwise.exceptions import InputError

__all__ = ["gold_links"]


def _is_link(value: Any) -> bool:
    return hasattr(value, "__len__") and len(value) == 2 and all(hasattr(x, "__index__") for x in value)


def _is_collection(value: Any) -> bool:
    """Of links, or of none: not a link itself."""
    return isinstance(value, Iterable) and not isinstance(value, str) and not _is_link(value)


def _links(values: Any, i: int, size: tuple[int, int]) -> frozenset[Link]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"gold alignment of pair {i}: {values!r:.80} is not a collection of links")
    found = set()
    for value in values:
        if not _is_link(value):
            expected = "a link (source position, target position)"
            raise InputError(f"gold alignment of pair {i}: {value!r:.80} is not {expected}")
        j, k = int(value[0]), int(value[1])
        if not (0 <= j < size[0] and 0 <= k < size[1]):
            raise InputError(
                f"gold alignment of pair {i}: link {j}-{k} is out of range: there are {size[0]} source and {size[1]} "
                "target words, counted from 0"
            )
        found.add((j, k))
    return frozenset(found)


def gold_links(X: Sequence[SentencePair], y: Sequence[Any]) -> list[GoldLinks]:
    """Each of ``y`` is GoldLinks, or links, all sure, or (sure links, possible links).

    Examples
    --------
    >>> gold_links([(["a", "b"], ["c", "d"])], [([(0, 0)], [(1, 1)])])[0].possible == {(0, 0), (1, 1)}
    True
    """
    if len(X) != len(y):
        raise InputError(f"X has {len(X)} pairs but y has {len(y)} gold alignments")
    out = []
    for i, ((source, target), given) in enumerate(zip(X, y, strict=True)):
        size = len(source), len(target)
        split = isinstance(given, tuple) and len(given) == 2 and all(map(_is_collection, given))
        sure, possible = given if split else (given, ())
        out.append(GoldLinks.of(_links(sure, i, size), _links(possible, i, size)))
    return out

"""Brute force of segmentations: every way to cut a few tokens into labelled segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from oracles import Enumeration, Mask, part_table

Segment = tuple[int, int, int]


def segment_parts(length: int, limits: Sequence[int]) -> list[tuple[object, ...]]:
    """The names of the parts in order: segments by start, label, length; then transitions."""
    names: list[tuple[object, ...]] = [
        ("segment", t, t + d, b)
        for t in range(length)
        for b, limit in enumerate(limits)
        for d in range(1, min(limit, length - t) + 1)
    ]
    labels = range(len(limits))
    return names + [("transition", a, b) for a in labels for b in labels]


def _covers(start: int, length: int, limits: Sequence[int]) -> list[list[Segment]]:
    if start == length:
        return [[]]
    return [
        [(start, start + d, b), *rest]
        for b, limit in enumerate(limits)
        for d in range(1, min(limit, length - start) + 1)
        for rest in _covers(start + d, length, limits)
    ]


def enumerate_segments(length: int, limits: Sequence[int], allowed: Mask, transitions: Mask) -> Enumeration:
    """All segmentations, sorted into allowed and forbidden; ``allowed`` is over the segments in their order."""
    names = segment_parts(length, limits)
    number = {name: r for r, name in enumerate(names)}

    def used(y: list[Segment]) -> list[tuple[object, ...]]:
        pairs = [("transition", a[2], b[2]) for a, b in pairwise(y)]
        return [*(("segment", *segment) for segment in y), *pairs]

    def legal(y: list[Segment]) -> bool:
        segments = all(allowed[number["segment", *segment]] for segment in y)
        return segments and all(transitions[a[2], b[2]] for a, b in pairwise(y))

    everything = _covers(0, length, limits)
    outputs = [y for y in everything if legal(y)]
    forbidden = [np.array(y) for y in everything if not legal(y)]
    return Enumeration([np.array(y) for y in outputs], part_table(outputs, names, used), forbidden)

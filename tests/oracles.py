"""Brute force: every output of a small instance, and every quantity from plain enumeration.

Nothing here calls the code under test. Parts are numbered by listing their names in the documented order,
outputs are filtered by the hard constraints one by one, and log Z, marginals, entropy and the rest are sums
over the list.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import scipy.optimize
import scipy.spatial
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures.base import Structure
from partwise.testing.enumeration import Enumeration, nearest_in_hull, part_table

__all__ = ["Enumeration", "nearest_in_hull", "part_table"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def enumerate_multiclass(n_labels: int, allowed: Mask) -> Enumeration:
    """L outputs less the forbidden ones; part b is label b."""
    outputs = [b for b in range(n_labels) if allowed[b]]
    forbidden = [b for b in range(n_labels) if not allowed[b]]
    return Enumeration(outputs, part_table(outputs, range(n_labels), lambda y: [y]), forbidden)


def chain_parts(length: int, n_labels: int, order: int, tied: bool) -> list[tuple[Any, ...]]:
    """The names of the parts in order: labels by position, then transitions (oldest label … newest) by block.

    A block of transitions is a history length where positions share scores, a position where they do not.
    """
    names: list[tuple[Any, ...]] = [("label", t, b) for t in range(length) for b in range(n_labels)]
    for block in range(1, order + 1) if tied else range(1, length):
        labels = product(range(n_labels), repeat=min(block, order) + 1)
        names += [("transition", block, *run) for run in labels]
    return names


def enumerate_chain(
    n_labels: int,
    order: int,
    tied: bool,
    allowed: Mask,
    transitions: Mask,
    start: Mask,
    stop: Mask,
) -> Enumeration:
    """All L^T sequences, sorted into allowed and forbidden; one row of ``allowed`` a position."""
    length = len(allowed)

    def legal(y: tuple[int, ...]) -> bool:
        labels = all(allowed[t, b] for t, b in enumerate(y))
        pairs = all(transitions[a, b] for a, b in pairwise(y))
        return bool(labels and pairs and start[y[0]] and stop[y[-1]])

    def used(y: tuple[int, ...]) -> list[Any]:
        names: list[Any] = [("label", t, b) for t, b in enumerate(y)]
        for t in range(1, length):
            history = min(t, order)
            names.append(("transition", history if tied else t, *y[t - history : t + 1]))
        return names

    everything = list(product(range(n_labels), repeat=length))
    outputs = [y for y in everything if legal(y)]
    forbidden = [y for y in everything if not legal(y)]
    return Enumeration(outputs, part_table(outputs, chain_parts(length, n_labels, order, tied), used), forbidden)


def enumerate_cuts(edges: NDArray[np.int64], allowed: Mask, hull: bool = True) -> Enumeration:
    """All L^N labellings; the polytope (2.5) also has corners with edge parts that are on though the ends agree."""
    names = [("node", j, b) for j in range(len(allowed)) for b in range(allowed.shape[1])] + [
        ("edge", e) for e in range(len(edges))
    ]

    def used(y: tuple[int, ...]) -> list[Any]:
        cut = [("edge", e) for e, (j, k) in enumerate(edges.tolist()) if y[j] != y[k]]
        return [("node", j, b) for j, b in enumerate(y)] + cut

    everything = list(product(range(allowed.shape[1]), repeat=len(allowed)))
    outputs = [y for y in everything if all(allowed[j, b] for j, b in enumerate(y))]
    parts = part_table(outputs, names, used)
    corners = []
    for row in parts if hull else []:
        off = 2 * len(allowed) + np.flatnonzero(row[2 * len(allowed) :] == 0)
        for chosen in product((0.0, 1.0), repeat=len(off)):
            corners.append(row.copy())
            corners[-1][off] = chosen
    return Enumeration(outputs, parts, [y for y in everything if y not in outputs], np.array(corners) if hull else None)


class Interval(Structure):
    """y = (a, b), 0 ≤ a < b ≤ n, with score Σ_{a ≤ t < b} s_t: the best run of items, in plain Python.

    Deliberately unlike the others: no labels, outputs of different numbers of parts, an argmax and no more.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def n_parts(self, i: int) -> int:
        return self.sizes[i]

    def encode(self, i: int, y: tuple[int, int]) -> Floats:
        parts = np.zeros(self.sizes[i])
        parts[y[0] : y[1]] = 1.0
        return parts

    def decode(self, i: int, parts: Floats) -> tuple[int, int]:
        inside = np.flatnonzero(parts)
        return int(inside[0]), int(inside[-1]) + 1

    def argmax(self, i: int, scores: Floats) -> Floats:
        """v_t = s_t + max(v_{t−1}, 0): the best run that ends at t."""
        top, best, first, value = -math.inf, (0, 0), 0, 0.0
        for t, score in enumerate(scores):
            if value <= 0.0:
                first, value = t, 0.0
            value += float(score)
            if value > top:
                top, best = value, (first, t + 1)
        if top == -math.inf:
            raise InputError(f"no output of instance {i} has a finite score")
        return self.encode(i, best)


def enumerate_interval(size: int) -> Enumeration:
    """All runs of a line of items."""
    outputs = [(a, b) for a in range(size) for b in range(a + 1, size + 1)]
    return Enumeration(outputs, part_table(outputs, range(size), lambda y: list(range(*y))), [])


# --------------------------------------------------------------------------------------------------
# Links between two sentences

Link = tuple[int, int]


def neighbours(kind: str, j: int, k: int) -> list[list[tuple[Link, Link]]]:
    """The pairs of links of a kind at place (j, k), in as many blocks as the kind has."""
    pairs: dict[str, list[tuple[Link, Link]]] = {
        "monotone": [((j, k), (j + 1, k + 1))],
        "inverted": [((j, k + 1), (j + 1, k))],
        "one_to_two": [((j, k), (j, k + 1)), ((j, k), (j + 1, k))],
    }
    return [[pair] for pair in pairs[kind]]


def link_parts(n_rows: int, n_cols: int, fertility: int, kinds: Sequence[str] = ()) -> list[Any]:
    """The names of the parts in order: links, fertilities of source and target words, pairs kind by kind."""
    cells = list(product(range(n_rows), range(n_cols)))
    names: list[Any] = [("link", cell) for cell in cells]
    for side, count in (("source", n_rows), ("target", n_cols)):
        names += [(side, word, d) for word in range(count) for d in range(2, fertility + 1)]
    for kind in kinds:
        for block in range(len(neighbours(kind, 0, 0))):
            pairs = [neighbours(kind, j, k)[block][0] for j, k in cells]
            names += [("pair", a, b) for a, b in pairs if a in cells and b in cells]
    return names


def enumerate_links(fertility: int, allowed: Mask, kinds: Sequence[str] = (), hull: bool = True) -> Enumeration:
    """All sets of links with at most ``fertility`` of a word; with ``hull`` also the corners of eq. (3.2)."""
    n_rows, n_cols = allowed.shape
    cells = list(product(range(n_rows), range(n_cols)))
    names = link_parts(n_rows, n_cols, fertility, kinds)

    def degrees(y: Iterable[Link]) -> dict[tuple[str, int], int]:
        count = {("source", j): 0 for j in range(n_rows)} | {("target", k): 0 for k in range(n_cols)}
        for j, k in y:
            count["source", j] += 1
            count["target", k] += 1
        return count

    def used(y: Sequence[Link]) -> list[Any]:
        high = [(*word, d) for word, degree in degrees(y).items() for d in range(2, degree + 1)]
        pairs = [name for name in names if name[0] == "pair" and name[1] in y and name[2] in y]
        return [("link", cell) for cell in y] + high + pairs

    choices = [[row for row in _subsets(n_cols) if len(row) <= fertility] for _ in range(n_rows)]
    sets = [[(j, k) for j, row in enumerate(rows) for k in row] for rows in product(*choices)]
    outputs = [y for y in sets if max(degrees(y).values()) <= fertility and all(allowed[cell] for cell in y)]
    forbidden = [[cell] for cell in cells if not allowed[cell]]
    forbidden += [[(j, k) for k in range(n_cols)] for j in range(n_rows) if n_cols > fertility]
    forbidden += [[(j, k) for j in range(n_rows)] for k in range(n_cols) if n_rows > fertility]
    parts = part_table(outputs, names, used)
    arrays = [np.array(y, int).reshape(-1, 2) for y in outputs]
    corners = None
    if hull and fertility > 1:
        words = list(degrees([]))
        rows = []
        for y in outputs:
            count = degrees(y)
            levels = [
                [up for up in product([0.0, 1.0], repeat=fertility - 1) if sum(up) >= count[w] - 1] for w in words
            ]
            links = [float(cell in y) for cell in cells]
            rows += [links + [value for up in ups for value in up] for ups in product(*levels)]
        corners = np.array(rows)
    return Enumeration(arrays, parts, [np.array(y) for y in forbidden], corners)


def _subsets(n: int) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(bits).tolist()) for bits in product([0, 1], repeat=n)]


def relaxed_inequalities(n_rows: int, n_cols: int, fertility: int, kinds: Sequence[str]) -> tuple[Floats, Floats]:
    """(G, h) of the relaxed polytope Gz ≤ h, eqs. (3.2), (3.3) with z_jklm ≥ z_jk + z_lm − 1; a row a constraint."""
    names = link_parts(n_rows, n_cols, fertility, kinds)
    number = {name: r for r, name in enumerate(names)}
    rows: list[dict[Any, float]] = []
    bounds: list[float] = []
    for side, count in (("source", n_rows), ("target", n_cols)):
        for word in range(count):
            row = {name: 1.0 for name in names if name[0] == "link" and name[1][side == "target"] == word}
            rows.append(row | {(side, word, d): -1.0 for d in range(2, fertility + 1)})
            bounds.append(1.0)
    for name in names:
        rows += [{name: -1.0}, {name: 1.0}]
        bounds += [0.0, 1.0]
        if name[0] == "pair":
            a, b = ("link", name[1]), ("link", name[2])
            rows += [{name: 1.0, a: -1.0}, {name: 1.0, b: -1.0}, {name: -1.0, a: 1.0, b: 1.0}]
            bounds += [0.0, 0.0, 1.0]
    matrix = np.zeros((len(rows), len(names)))
    for r, row in enumerate(rows):
        for name, value in row.items():
            matrix[r, number[name]] = value
    return matrix, np.array(bounds)


@functools.cache
def relaxed_corners(n_rows: int, n_cols: int, fertility: int, kinds: tuple[str, ...]) -> Floats:
    """All corners of the relaxed polytope, by intersecting half-spaces."""
    matrix, bounds = relaxed_inequalities(n_rows, n_cols, fertility, kinds)
    names = link_parts(n_rows, n_cols, fertility, kinds)
    inside = np.array([{"link": 0.2, "pair": 0.1}.get(name[0], 0.5) for name in names])
    half_spaces = scipy.spatial.HalfspaceIntersection(np.hstack([matrix, -bounds[:, None]]), inside)
    return np.unique(np.round(half_spaces.intersections, 9) + 0.0, axis=0)


# --------------------------------------------------------------------------------------------------
# Trees over the words of a sentence


def is_tree(heads: Sequence[int], single_root: bool, projective: bool) -> bool:
    """Whether every word reaches 0; how many words hang from it; whether each arc covers only its head's words."""
    n = len(heads)

    def ancestors(m: int) -> list[int]:
        line = [m]
        while line[-1] != 0 and len(line) <= n + 1:
            line.append(heads[line[-1] - 1])
        return line

    if any(ancestors(m)[-1] != 0 for m in range(1, n + 1)) or (single_root and list(heads).count(0) > 1):
        return False
    inside = ((h, m, x) for m, h in enumerate(heads, 1) for x in range(min(h, m) + 1, max(h, m)))
    return not projective or all(h in ancestors(x) for h, m, x in inside)


def enumerate_trees(
    n: int, n_labels: int | None, single_root: bool, projective: bool, allowed: Mask, pinned: Sequence[int]
) -> Enumeration:
    """All (n + 1)^n lists of heads times L^n labels, filtered; allowed[h, m − 1] and a label or −1 a word."""
    labels = range(n_labels or 1)
    words = range(1, n + 1)
    names = [(h, m, b) for m in words for h in range(n + 1) if h != m for b in labels]
    outputs, forbidden = [], []
    for heads in product(range(n + 1), repeat=n):
        if not is_tree(heads, single_root, projective):
            continue
        free = all(allowed[h, m - 1] for m, h in zip(words, heads, strict=True))
        for tags in product(labels, repeat=n):
            legal = free and all(pin in (-1, b) for pin, b in zip(pinned, tags, strict=True))
            (outputs if legal else forbidden).append((heads, tags))
    parts = part_table(outputs, names, lambda y: list(zip(y[0], words, y[1], strict=True)))

    def array(y: tuple[Any, Any]) -> NDArray[np.int64]:
        return np.array(y[0]) if n_labels is None else np.array(y).T

    return Enumeration([array(y) for y in outputs], parts, [array(y) for y in forbidden[:20]])

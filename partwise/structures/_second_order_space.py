"""The pack of second-order trees and the numbers of their parts.

Per sentence the candidate arcs are sorted by modifier, then head. Parts, in this order:

* label l of candidate arc a: a·L + l, the atoms;
* for every head h = 0..n and side (left, right), with its k candidate children c_0, c_1, … on that side outward: k
  parts "c_j is the first child", k(k − 1)/2 parts "c_j follows c_i" (i < j, at j(j − 1)/2 + i), k parts "c_j is last";
* for every word h, with its candidate arcs a into it and b out of it (by modifier): "a and b", row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel

__all__ = ["Layout", "SecondOrderSpace", "child", "layout", "write_parts"]


class SecondOrderSpace(NamedTuple):
    """Packed sentences with their candidate arcs."""

    offsets: NDArray[np.int64]  # (instances + 1,) words
    arcs: NDArray[np.int64]  # (instances + 1,) candidate arcs
    heads: NDArray[np.int32]  # (arcs,)
    modifiers: NDArray[np.int32]  # (arcs,) from 1
    parts: NDArray[np.int64]  # (instances + 1,) sums of numbers of parts
    n_labels: int
    single_root: int
    max_iterations: int
    log: NDArray[np.float64]  # (instances, 4) of the last calls: iterations, proved optimal; rounds, converged; or NaN


class Layout(NamedTuple):
    """Where the parts of one sentence are. Arcs have local numbers; those into word m are into[m]:into[m + 1]."""

    heads: NDArray[np.int32]  # (A,)
    modifiers: NDArray[np.int32]  # (A,)
    into: NDArray[np.int64]  # (n + 2,)
    out: NDArray[np.int64]  # (A,) arcs by head, then modifier; those of h are out_start[h]:out_start[h + 1]
    out_start: NDArray[np.int64]  # (n + 2,)
    split: NDArray[np.int64]  # (n + 1,) where in ``out`` the children to the right of h begin
    place: NDArray[np.int64]  # (A,) the place of an arc among those out of its head
    siblings: NDArray[np.int64]  # (n + 1, 2) first sibling part of a head and side
    grands: NDArray[np.int64]  # (n + 1,) first grandparent part of a word
    size: NDArray[np.int64]  # (1,) number of parts


@kernel
def layout(space, i):
    """The layout of instance i."""
    n, first, last = space.offsets[i + 1] - space.offsets[i], space.arcs[i], space.arcs[i + 1]
    heads, modifiers = space.heads[first:last], space.modifiers[first:last]
    count = last - first
    into, out_start = np.zeros(n + 2, np.int64), np.zeros(n + 2, np.int64)
    for a in range(count):
        into[modifiers[a] + 1] += 1
        out_start[heads[a] + 1] += 1
    for t in range(n + 1):
        into[t + 1] += into[t]
        out_start[t + 1] += out_start[t]
    out, place, used = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(n + 1, np.int64)
    split = out_start[: n + 1].copy()
    for a in range(count):  # arcs come by modifier, so those of a head do as well
        h = heads[a]
        place[a] = used[h]
        out[out_start[h] + used[h]] = a
        used[h] += 1
        if modifiers[a] < h:
            split[h] += 1
    siblings, grands = np.zeros((n + 1, 2), np.int64), np.zeros(n + 1, np.int64)
    at = count * space.n_labels
    for h in range(n + 1):
        for side in range(2):
            k = split[h] - out_start[h] if side == 0 else out_start[h + 1] - split[h]
            siblings[h, side] = at
            at += 2 * k + k * (k - 1) // 2
    for h in range(1, n + 1):
        grands[h] = at
        at += (into[h + 1] - into[h]) * (out_start[h + 1] - out_start[h])
    size = np.full(1, at)
    return Layout(heads, modifiers, into, out, out_start, split, place, siblings, grands, size)


@kernel
def child(lay, h, side, j):
    """The j-th candidate arc from h to a side, counted outward."""
    return lay.out[lay.split[h] - 1 - j] if side == 0 else lay.out[lay.split[h] + j]


@kernel
def write_parts(lay, tree, labels, n_labels, parts):
    """parts ← 1 for all parts of the tree, tree[m] being the candidate arc into word m; labels[m] its label."""
    n = tree.shape[0] - 1
    chosen = np.zeros(lay.heads.shape[0], np.bool_)
    for m in range(1, n + 1):
        chosen[tree[m]] = True
        parts[tree[m] * n_labels + labels[m]] = 1.0
    for h in range(n + 1):
        for side in range(2):
            k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
            base, before = lay.siblings[h, side], -1
            for j in range(k):
                if chosen[child(lay, h, side, j)]:
                    parts[base + j if before < 0 else base + k + j * (j - 1) // 2 + before] = 1.0
                    before = j
            if before >= 0:
                parts[base + k + k * (k - 1) // 2 + before] = 1.0
    for m in range(1, n + 1):
        h = lay.heads[tree[m]]
        if h > 0:
            row = tree[h] - lay.into[h]
            parts[lay.grands[h] + row * (lay.out_start[h + 1] - lay.out_start[h]) + lay.place[tree[m]]] = 1.0

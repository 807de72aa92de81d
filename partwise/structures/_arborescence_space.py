"""The pack of arborescences, the numbers of arcs, and the way from labelled scores to a matrix of arcs and back."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise._math import exp_shifted, largest

__all__ = ["ArborescenceSpace", "arc_number", "best_labels", "soft_labels", "spread_labels", "write_tree"]


class ArborescenceSpace(NamedTuple):
    """Packed sentences: the words of instance i are offsets[i]:offsets[i + 1], its arcs arcs[i]:arcs[i + 1].

    Word m = 1..n has n possible heads: the root 0 and the other words. Arc (h, m) has number
    (m − 1)n + h − [h > m], and label l of it is part number·L + l.
    """

    offsets: NDArray[np.int64]  # (instances + 1,)
    arcs: NDArray[np.int64]  # (instances + 1,) sums of n²
    n_labels: int
    single_root: int  # whether exactly one word depends on the root
    projective: int
    allowed: NDArray[np.uint8]  # (arcs,), or (0,) where every arc is
    pinned: NDArray[np.int32]  # (words,) the only label that a word's arc may have, −1 for any; or (0,)


@kernel
def arc_number(n, head, modifier):
    """The number of arc (head, modifier) among the n² arcs of n words."""
    return (modifier - 1) * n + head - (1 if head > modifier else 0)


@kernel
def _forbidden(space, i, arc):
    return space.allowed.shape[0] > 0 and space.allowed[space.arcs[i] + arc] == 0


@kernel
def best_labels(space, i, scores, arcs):
    """arcs[h, m] ← max_l s(h, m, l); −inf on the diagonal, into the root and where constraints forbid the arc."""
    n, L = space.offsets[i + 1] - space.offsets[i], space.n_labels
    arcs[:, :] = -np.inf
    for m in range(1, n + 1):
        pin = space.pinned[space.offsets[i] + m - 1] if space.pinned.shape[0] > 0 else -1
        for h in range(n + 1):
            if h == m:
                continue
            arc = arc_number(n, h, m)
            if not _forbidden(space, i, arc):
                arcs[h, m] = scores[arc * L + pin] if pin >= 0 else largest(scores, arc * L, (arc + 1) * L)


@kernel
def soft_labels(space, i, scores, arcs, parts):
    """arcs[h, m] ← log Σ_l exp s(h, m, l), and parts ← the probability of each label given its arc."""
    n, L = space.offsets[i + 1] - space.offsets[i], space.n_labels
    best_labels(space, i, scores, arcs)
    for m in range(1, n + 1):
        pin = space.pinned[space.offsets[i] + m - 1] if space.pinned.shape[0] > 0 else -1
        for h in range(n + 1):
            if h == m:
                continue
            start = arc_number(n, h, m) * L
            top = arcs[h, m]
            if top == -np.inf or pin >= 0:
                parts[start : start + L] = 0.0
                if top > -np.inf:
                    parts[start + pin] = 1.0
                continue
            exp_shifted(scores, start, start + L, 1.0, top, parts, start)
            total = 0.0
            for r in range(np.uintp(start), np.uintp(start + L)):
                total += parts[r]
            for r in range(np.uintp(start), np.uintp(start + L)):
                parts[r] /= total
            arcs[h, m] = top + math.log(total)


@kernel
def spread_labels(n, L, mass, parts):
    """parts(h, m, l) ← mass[h, m] times what ``soft_labels`` left there."""
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                start = arc_number(n, h, m) * L
                for r in range(np.uintp(start), np.uintp(start + L)):
                    parts[r] *= mass[h, m]


@kernel
def write_tree(space, i, scores, heads, parts):
    """parts ← the tree of ``heads`` with the best label of each arc; returns its score."""
    n, L = space.offsets[i + 1] - space.offsets[i], space.n_labels
    parts[:] = 0.0
    total = 0.0
    for m in range(1, n + 1):
        start = arc_number(n, heads[m], m) * L
        best = start
        if space.pinned.shape[0] > 0 and space.pinned[space.offsets[i] + m - 1] >= 0:
            best = start + space.pinned[space.offsets[i] + m - 1]
        else:
            for r in range(start + 1, start + L):
                if scores[r] > scores[best]:
                    best = r
        parts[best] = 1.0
        total += scores[best]
    return total

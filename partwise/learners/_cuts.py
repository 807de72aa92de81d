"""Working sets of cuts in part space: b + θᵀF_i u ≤ L_i(θ), u sparse, a few for every instance.

Everything lies in flat arrays that compiled code reads and fills and a checkpoint stores as they are. Room for more is
made between kernels: a kernel that finds none left returns where it stopped and is called again from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import composite, kernel
from partwise.structures.base import Floats

__all__ = ["Cuts", "fits", "forgotten", "grown", "no_cuts", "put", "scatter", "worth_of"]

Integers = NDArray[np.int64]


class Cuts(NamedTuple):
    """Instance i owns the slots first[i]:first[i + 1], of which the first filled[i] hold a cut.

    Its Gram matrix (F_i u_k)ᵀ(F_i u_l), of size room × room, begins at gram[square[i]].
    """

    first: Integers  # (m + 1,)
    square: Integers  # (m + 1,)
    filled: Integers  # (m,)
    start: Integers  # (slots,) u of a slot is numbers[start:stop], values[start:stop]
    stop: Integers  # (slots,)
    constant: Floats  # (slots,) b
    alpha: Floats  # (slots,) weight in the dual
    age: Integers  # (slots,) passes since alpha was last above 0
    gram: Floats
    numbers: NDArray[np.int32]  # (pool,)
    values: Floats  # (pool,)
    used: Integers  # (1,) how much of the pool is


def no_cuts(room: Integers, pool: int) -> Cuts:
    """An empty working set with so many slots for each instance and so much memory for parts."""
    first, square = (np.concatenate([[0], np.cumsum(size)]).astype(np.int64) for size in (room, room * room))
    slots = int(first[-1])
    return Cuts(
        first, square, np.zeros(len(room), np.int64), np.zeros(slots, np.int64), np.zeros(slots, np.int64),
        np.zeros(slots), np.zeros(slots), np.zeros(slots, np.int64), np.zeros(int(square[-1])),
        np.zeros(pool, np.int32), np.zeros(pool), np.zeros(1, np.int64),
    )  # fmt: skip


@composite
def fits(cuts, i, parts, n):
    """How many of the n parts are not zero if there is a slot and memory for them, else −1."""
    size = 0
    for r in range(n):
        if parts[r] != 0.0:
            size += 1
    full = cuts.filled[i] == cuts.first[i + 1] - cuts.first[i]
    return -1 if full or cuts.used[0] + size > cuts.numbers.shape[0] else size


@composite
def put(cuts, i, slot, parts, n, constant):
    """Write the cut (parts, constant) into a slot."""
    place = cuts.used[0]
    cuts.start[slot] = place
    for r in range(n):
        if parts[r] != 0.0:
            cuts.numbers[place] = r
            cuts.values[place] = parts[r]
            place += 1
    cuts.stop[slot] = place
    cuts.used[0] = place
    cuts.constant[slot] = constant
    cuts.alpha[slot] = 0.0
    cuts.age[slot] = 0


@composite
def worth_of(cuts, slot, scores):
    """b + uᵀscores, the value of a cut at the θ of these scores."""
    total = cuts.constant[slot]
    for e in range(cuts.start[slot], cuts.stop[slot]):
        total += cuts.values[e] * scores[cuts.numbers[e]]
    return total


@composite
def scatter(cuts, slot, weight, parts):
    """parts ← parts + weight·u."""
    for e in range(cuts.start[slot], cuts.stop[slot]):
        parts[cuts.numbers[e]] += weight * cuts.values[e]


@kernel
def _move(old, keep, new):
    """Copy the cuts that are kept, close together, with their Gram matrices."""
    place = 0
    for i in range(old.filled.shape[0]):
        begin, room = old.first[i], old.first[i + 1] - old.first[i]
        new_room = new.first[i + 1] - new.first[i]
        row = 0
        for k in range(old.filled[i]):
            slot = begin + k
            if not keep[slot]:
                continue
            target = new.first[i] + row
            new.start[target] = place
            for e in range(old.start[slot], old.stop[slot]):
                new.numbers[place] = old.numbers[e]
                new.values[place] = old.values[e]
                place += 1
            new.stop[target] = place
            new.constant[target] = old.constant[slot]
            new.alpha[target] = old.alpha[slot]
            new.age[target] = old.age[slot]
            column = 0
            for j in range(k + 1):
                if keep[begin + j]:
                    x = old.gram[old.square[i] + k * room + j]
                    new.gram[new.square[i] + row * new_room + column] = x
                    new.gram[new.square[i] + column * new_room + row] = x
                    column += 1
            row += 1
        new.filled[i] = row
    new.used[0] = place


def _moved(cuts: Cuts, keep: NDArray[np.bool_], room: Integers, pool: int) -> Cuts:
    new = no_cuts(room, pool)
    _move(cuts, keep, new)
    return new


def grown(cuts: Cuts, i: int, parts: int) -> Cuts:
    """The same cuts with room for one more of instance i, of at most that many parts."""
    room = np.diff(cuts.first)
    room[cuts.filled == room] *= 2  # with i, all others that are full
    live = int((cuts.stop - cuts.start).sum())  # what was replaced is left behind
    pool = max(len(cuts.numbers), 2 * (live + parts))
    return _moved(cuts, np.ones(len(cuts.alpha), bool), room, pool)


def forgotten(cuts: Cuts, limit: int) -> Cuts:
    """One pass older, and without the cuts that have had no weight for more than ``limit`` passes."""
    cuts.age[:] = np.where(cuts.alpha > 0, 0, cuts.age + 1)
    keep = cuts.age <= limit
    held = np.arange(len(keep)) < np.repeat(cuts.first[:-1] + cuts.filled, np.diff(cuts.first))
    if keep[held].all():
        return cuts
    return _moved(cuts, keep, np.diff(cuts.first), len(cuts.numbers))

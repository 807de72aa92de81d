"""Features of whole segments as 64-bit keys, computed by compiled code from the codes of their tokens.

Every base template gives one code per token. For each base b of a segment (t, u), Daumé & Marcu §4.1: the whole
sequence b_t … b_{u−1}; the same with b_{t−1} before it, and with b_u after it; and b_{t−1} with b_u and the length. A
segment with a token whose code is unknown (no such value in training) has no such feature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures._segments_kernels import block_start

__all__ = ["KINDS", "KeyTable", "gold_keys", "site_entries"]

#: What a base template makes of a segment, in the order of the keys.
KINDS = ("whole", "before+whole", "whole+after", "around")

_UNKNOWN, _OUTSIDE = -1, -2

FACTOR_B, FACTOR_C = np.uint64(0x94D049BB133111EB), np.uint64(0xD6E8FEB86659FD93)


@kernel
def mix(key, value):
    """A 64-bit hash of a pair (splitmix's finalizer)."""
    x = key ^ (np.uint64(value + 7) * np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def key_of(kind, a, b, c, d):
    """A hash of a kind of context and four integers: multilinear, so that nothing has to wait for anything."""
    return key_end(key_sum(kind, a, b, c, d))


@kernel
def key_sum(kind, a, b, c, d):
    """The sum that ``key_of`` scrambles; an integer x more in place b or c adds x·FACTOR_B or x·FACTOR_C to it."""
    return (
        np.uint64(kind + 8) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(a + 8) * np.uint64(0xBF58476D1CE4E5B9)
        + np.uint64(b + 8) * FACTOR_B + np.uint64(c + 8) * FACTOR_C + np.uint64(d + 8) * np.uint64(0xA0761D6478BD642F)
    )  # fmt: skip


@kernel
def key_end(x):
    x ^= x >> np.uint64(32)
    return np.int64((x * np.uint64(0xE7037ED1A0B428DB)) >> np.uint64(24))


@kernel
def segment_keys(codes, start, length, t, d, rolling, keys):
    """keys[k·4 + j] ← the key of kind j of base k of segment (t, t + d), 0 where it has none.

    ``rolling`` (K,) holds the hashes of the sequences of length d − 1 on entry and of length d on exit; 0 is unknown.
    """
    for k in range(codes.shape[0]):
        code = codes[k, start + t + d - 1]
        if d == 1:
            rolling[k] = mix(np.uint64(0x2545F4914F6CDD1D), k)
        if code == _UNKNOWN:
            rolling[k] = np.uint64(0)
        elif rolling[k] != np.uint64(0):
            rolling[k] = mix(rolling[k], np.int64(code))
        before, after = np.int64(_OUTSIDE), np.int64(_OUTSIDE)
        if t > 0:
            before = np.int64(codes[k, start + t - 1])
        if t + d < length:
            after = np.int64(codes[k, start + t + d])
        whole, at = rolling[k], k * 4
        for j in range(4):
            keys[at + j] = np.uint64(0)
        if whole != np.uint64(0):
            keys[at] = whole
            if before != _UNKNOWN:
                keys[at + 1] = mix(mix(whole, np.int64(-5)), before)
            if after != _UNKNOWN:
                keys[at + 2] = mix(mix(whole, np.int64(-6)), after)
        if before != _UNKNOWN and after != _UNKNOWN:
            keys[at + 3] = mix(mix(mix(np.uint64(k + 1), np.int64(d)), before), after)


@kernel
def gold_keys(codes, offsets, first, segments, used, keys):
    """keys[j] ← the keys of gold segment j (start, stop, label); those of instance i are first[i]:first[i + 1]."""
    rolling = np.zeros(codes.shape[0], np.uint64)
    row = np.zeros(keys.shape[1], np.uint64)
    for i in range(offsets.shape[0] - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(first[i], first[i + 1]):
            t, stop = segments[j, 0], segments[j, 1]
            for d in range(1, stop - t + 1):
                segment_keys(codes, offsets[i], length, t, d, rolling, row)
            for c in range(keys.shape[1]):
                keys[j, c] = row[c] if used[c] else np.uint64(0)


@kernel
def find(table, places, key):
    """The place of a key in an open-addressing table, −1 if it is not there."""
    mask = np.uint64(table.shape[0] - 1)
    slot = key & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return places[slot]
        slot = (slot + np.uint64(1)) & mask
    return np.int32(-1)


@kernel
def fill_table(keys, table, places):
    """Enter keys[j] → j into an empty table."""
    mask = np.uint64(table.shape[0] - 1)
    for j in range(keys.shape[0]):
        slot = keys[j] & mask
        while table[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        table[slot] = keys[j]
        places[slot] = j


@kernel
def mark(keys, marks):
    """Set one bit per key: most keys that are not in a table are told by it without a look at the table."""
    mask = np.uint64(64 * marks.shape[0] - 1)
    for j in range(keys.shape[0]):
        bit = (keys[j] >> np.uint64(20)) & mask
        marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@kernel
def site_entries(space, codes, offsets, used, marks, table, places, first, labels, starts):
    """(atoms, weights): those of instance i are starts[i]:starts[i + 1]; key j has weights first[j]:first[j + 1]."""
    widest, n_keys = space.below.shape[0] - 1, used.shape[0]
    limits, within = space.limits, space.within
    rolling, keys = np.zeros(codes.shape[0], np.uint64), np.zeros(n_keys, np.uint64)
    atoms, weights = np.empty(1024, np.int32), np.empty(1024, np.int32)
    mask = np.uint64(64 * marks.shape[0] - 1)
    n = 0
    for i in range(offsets.shape[0] - 1):
        length = offsets[i + 1] - offsets[i]
        for t in range(length):
            left, block = min(widest, length - t), block_start(space, length, t) - 1
            for d in range(1, left + 1):
                segment_keys(codes, offsets[i], length, t, d, rolling, keys)
                for c in range(n_keys):
                    bit = (keys[c] >> np.uint64(20)) & mask
                    seen = marks[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1)
                    if seen == np.uint64(0) or not used[c] or keys[c] == np.uint64(0):
                        continue
                    j = find(table, places, keys[c])
                    if j < 0:
                        continue
                    if n + first[j + 1] - first[j] > atoms.shape[0]:
                        atoms, weights = _longer(atoms, n), _longer(weights, n)
                    for w in range(first[j], first[j + 1]):
                        if d <= limits[labels[w]]:
                            atoms[n], weights[n] = block + within[left, labels[w]] + d, w
                            n += 1
        starts[i + 1] = n
    return atoms[:n].copy(), weights[:n].copy()


@kernel
def _longer(values, n):
    more = np.empty(2 * values.shape[0] + 64, np.int32)
    more[:n] = values[:n]
    return more


class KeyTable:
    """Keys with the labels they were seen with: weight w of key j, first[j] ≤ w < first[j + 1], is of labels[w].

    Parameters
    ----------
    keys : (n,) uint64, sorted and distinct
    first : (n + 1,)
    labels : (first[-1],)
    """

    def __init__(self, keys: NDArray[np.uint64], first: NDArray[np.int64], labels: NDArray[np.int32]) -> None:
        self.keys, self.first, self.labels = keys, first, labels
        size = 1 << max(4, int(2 * len(keys)).bit_length())
        self.table, self.places = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        self.marks = np.zeros(max(1, size // 16), np.uint64)  # eight bits per key, or up to sixteen
        fill_table(keys, self.table, self.places)
        mark(keys, self.marks)

    @classmethod
    def observed(cls, keys: NDArray[np.uint64], labels: NDArray[np.int64], n_labels: int, min_count: int) -> KeyTable:
        """The (key, label) pairs of gold segments, keys (segments, kinds), that occur often enough."""
        flat = keys.ravel()
        label = np.repeat(labels, keys.shape[1])[flat != 0]
        distinct, number = np.unique(flat[flat != 0], return_inverse=True)
        pairs, counts = np.unique(number * n_labels + label, return_counts=True)
        pairs = pairs[counts >= min_count]
        kept, place = np.unique(pairs // n_labels, return_inverse=True)
        first = np.append(0, np.cumsum(np.bincount(place, minlength=len(kept)))).astype(np.int64)
        return cls(distinct[kept], first, (pairs % n_labels).astype(np.int32))

    def __len__(self) -> int:
        return len(self.labels)

"""Kernels of the templates: one integer key per token and template, and tables from keys to attributes.

The key of a template with pieces p = 1..P is a number of mixed radix, key ← key·radix_p + code_p, where
code_p is the piece's value at the token plus its offset. A token where a piece has no value has no key.

Rows of ``pieces`` hold (source, offset, start in ``tables``, radix, padded, start in ``hashes``). Work goes
piece by piece over a block of tokens, so that what belongs to a piece is read once and not at each token.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["collect_keys", "compact", "fill_hashed", "fill_ids", "fill_real", "make_slots"]

BLOCK = 4096
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT1, _SHIFT2, _SHIFT3 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def _codes(sources, tables, piece, before, after, begin, codes):
    """codes[i] ← code of a piece at token begin + i, or -1; padded, 0 and 1 beyond the sentence."""
    offset, padded = piece[1], piece[4]
    source, table = sources[piece[0]], tables[piece[2] :]
    too_early, too_late = np.int32(padded - 1), np.int32(2 * padded - 1)
    first = np.uintp(begin)
    if offset == 0:
        for i in range(np.uintp(codes.size)):
            raw = source[first + i]
            codes[i] = table[np.uintp(raw)] if raw >= 0 else np.int32(-1)
        return
    for i in range(np.uintp(codes.size)):
        if offset < -before[first + i]:
            codes[i] = too_early
        elif offset > after[first + i]:
            codes[i] = too_late
        else:
            raw = source[np.uintp(np.intp(first + i) + offset)]
            codes[i] = table[np.uintp(raw)] if raw >= 0 else np.int32(-1)


@kernel
def _keys(sources, tables, pieces, before, after, begin, codes, keys):
    """keys[i] ← key of token begin + i, or -1."""
    keys[:] = 0
    for p in range(pieces.shape[0]):
        _codes(sources, tables, pieces[p], before, after, begin, codes)
        radix = pieces[p, 3]
        for i in range(np.uintp(keys.size)):
            there = (codes[i] >= 0) & (keys[i] >= 0)
            keys[i] = keys[i] * radix + codes[i] if there else np.int64(-1)


@kernel
def _find(slot_keys, shift, key):
    """The slot that holds the key, or the free one where it belongs (linear probing)."""
    mask = slot_keys.size - 1
    slot = np.int64((np.uint64(key) * _GOLDEN) >> shift)
    while slot_keys[slot] >= 0 and slot_keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def make_slots(keys, log_size, slot_keys, slot_ids):
    """Put key i into the table with id i; returns how many of the keys are different."""
    shift = np.uint64(64 - log_size)
    different = 0
    for i in range(keys.size):
        slot = _find(slot_keys, shift, keys[i])
        if slot_keys[slot] < 0:
            slot_keys[slot] = keys[i]
            slot_ids[slot] = i
            different += 1
    return different


@kernel
def _doubled(values):
    """The values, with room for as many again."""
    larger = np.empty(2 * values.size, values.dtype)
    larger[: values.size] = values
    return larger


@kernel
def collect_keys(sources, tables, pieces, before, after, direct, ids):
    """The different keys of all tokens in order of appearance.

    ids[t] ← which of them token t has, or -1. ``direct`` > 0 is a bound on the keys, for which a table of that
    size replaces hashing. O(tokens).
    """
    log_size = 12
    slot_keys = np.full(1 if direct else 1 << log_size, -1, np.int64)
    slot_ids = np.full(direct if direct else 1 << log_size, -1, np.int32)
    keys = np.empty(1 << 10, np.int64)
    n = 0
    codes = np.empty(BLOCK, np.int32)
    block = np.empty(BLOCK, np.int64)
    for begin in range(0, before.size, BLOCK):
        size = min(BLOCK, before.size - begin)
        _keys(sources, tables, pieces, before, after, begin, codes[:size], block[:size])
        first = np.uintp(begin)
        for i in range(np.uintp(size)):
            key = block[i]
            if key < 0:
                ids[first + i] = -1
                continue
            slot = np.uintp(key if direct else _find(slot_keys, np.uint64(64 - log_size), key))
            known = slot_ids[slot]
            if known >= 0:
                ids[first + i] = known
                continue
            if n == keys.size:
                keys = _doubled(keys)
            keys[n] = key
            slot_ids[slot] = ids[first + i] = n
            n += 1
            if not direct:
                slot_keys[slot] = key
                if 2 * n > slot_keys.size:
                    log_size += 2
                    slot_keys = np.full(1 << log_size, -1, np.int64)
                    slot_ids = np.full(1 << log_size, -1, np.int32)
                    make_slots(keys[:n], log_size, slot_keys, slot_ids)
    return keys[:n].copy()


@kernel
def fill_ids(sources, tables, pieces, before, after, begin, end, slot_keys, slot_ids, out, column):
    """out[i, column] ← id of the key of token begin + i, or -1; no ``slot_keys``: ids by the key."""
    direct = slot_keys.size == 0
    shift = np.uint64(64)
    size = slot_keys.size
    while size > 1:
        size >>= 1
        shift -= np.uint64(1)
    keys = np.empty(end - begin, np.int64)
    _keys(sources, tables, pieces, before, after, begin, np.empty(end - begin, np.int32), keys)
    for i in range(keys.size):
        found = np.int32(-1)
        if keys[i] >= 0:
            found = slot_ids[keys[i] if direct else _find(slot_keys, shift, keys[i])]
        out[i, column] = found


@kernel
def fill_hashed(sources, tables, hashes, pieces, before, after, begin, end, seed, bits, out, column):
    """As ``fill_ids``, but the id is the first bits of a hash of ``seed`` and of each piece's string.

    hashes: (sum of vocabularies,) uint64, the hash of each string. Mixed as in splitmix64.
    """
    codes = np.empty(end - begin, np.int32)
    mixed = np.full(end - begin, seed, np.uint64)
    there = np.ones(end - begin, np.bool_)
    for p in range(pieces.shape[0]):
        _codes(sources, tables, pieces[p], before, after, begin, codes)
        for i in range(codes.size):
            if codes[i] < 0:
                there[i] = False
                continue
            x = (mixed[i] ^ hashes[pieces[p, 5] + codes[i]]) + _GOLDEN
            x = (x ^ (x >> _SHIFT1)) * _MIX1
            x = (x ^ (x >> _SHIFT2)) * _MIX2
            mixed[i] = x ^ (x >> _SHIFT3)
    shift = np.uint64(64 - bits)
    for i in range(codes.size):
        out[i, column] = np.int64(mixed[i] >> shift) if there[i] else -1


@kernel
def fill_real(sources, tables, pieces, before, after, begin, end, vectors, ids, out, numbers, column):
    """Columns from ``column`` on ← the ids and the numbers of the vector of each token."""
    rows = np.empty(end - begin, np.int32)
    _codes(sources, tables, pieces[0], before, after, begin, rows)
    for i in range(rows.size):
        for d in range(ids.size):
            out[i, column + d] = ids[d] if rows[i] >= 0 else -1
            numbers[i, column + d] = vectors[rows[i], d] if rows[i] >= 0 else 0.0


@kernel
def compact(block, bases, numbers, n, begin, indptr, attributes, entries):
    """Append bases + the n rows of a block without their -1; ``entries`` is (0,) where all values are 1."""
    at = indptr[begin]
    for r in range(n):
        for k in range(block.shape[1]):
            if block[r, k] >= 0:
                attributes[at] = bases[k] + block[r, k]
                if entries.size:
                    entries[at] = numbers[r, k]
                at += 1
        indptr[begin + r + 1] = at

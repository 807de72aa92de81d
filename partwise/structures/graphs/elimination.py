"""Elimination order by min-fill, and the tree of buckets that it makes.

Eliminating variable v joins its neighbours; its **bucket** is a table over those neighbours and v. The bucket of the
neighbour that is eliminated first is the parent. Variables of a bucket stand in the order of elimination reversed, so
v is the last and runs fastest, and the others are a subsequence of the parent's variables.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from partwise._compile import kernel

__all__ = ["elimination_order"]

CROWDED = 64  # neighbours beyond which fill is not counted: such a variable waits


@kernel
def _fill_of(v, start, count, pool, mark, stamp):
    """Pairs of neighbours of v that are not neighbours of one another; more than can be for a crowded variable."""
    n = count[v]
    if n > CROWDED:
        return np.int64(n) * np.int64(n)
    missing = 0
    for j in range(n):
        u = pool[start[v] + j]
        if count[u] > CROWDED * CROWDED:  # scanning it would cost more than it tells
            missing += n
            continue
        stamp += 1
        for t in range(count[u]):
            mark[pool[start[u] + t]] = stamp
        for t in range(j + 1, n):
            if mark[pool[start[v] + t]] != stamp:
                missing += 1
    return missing


@kernel
def _is_neighbour(start, count, pool, a, b):
    if count[a] > count[b]:
        a, b = b, a
    found = False
    for t in range(count[a]):
        found = found or pool[start[a] + t] == b
    return found


@kernel
def _remove(start, count, pool, a, b):
    for t in range(count[a]):
        if pool[start[a] + t] == b:
            count[a] -= 1
            pool[start[a] + t] = pool[start[a] + count[a]]
            return


@kernel
def elimination_order(sizes, scope_start, scope, limit):
    """(order, bucket_start, bucket, widest): variables in order of elimination, and the neighbours each one had.

    Greedy: next is a variable whose elimination adds fewest edges, of those the one with the smallest table. Stops at
    the first table of more than ``limit`` entries; ``widest`` is then log2 of its size, and the arrays are cut short.
    """
    n = sizes.shape[0]
    degree = np.zeros(n, np.int64)
    for f in range(scope_start.shape[0] - 1):
        arity = scope_start[f + 1] - scope_start[f]
        for s in range(scope_start[f], scope_start[f + 1]):
            degree[scope[s]] += arity - 1
    # neighbour lists in one pool; a list that outgrows its room moves to the end
    start, room, count = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    total = 0
    for v in range(n):
        start[v], room[v] = total, degree[v] + 2
        total += room[v]
    pool = np.empty(2 * total + 64, np.int64)
    used = total
    mark, stamp = np.zeros(n, np.int64), 0
    for f in range(scope_start.shape[0] - 1):
        for s in range(scope_start[f], scope_start[f + 1]):
            for t in range(scope_start[f], scope_start[f + 1]):
                if s != t:
                    pool[start[scope[s]] + count[scope[s]]] = scope[t]
                    count[scope[s]] += 1
    for v in range(n):  # without repetition
        stamp += 1
        kept = 0
        for t in range(count[v]):
            u = pool[start[v] + t]
            if mark[u] != stamp and u != v:
                mark[u] = stamp
                pool[start[v] + kept] = u
                kept += 1
        count[v] = kept
    keys = np.zeros(n)
    heap = [(0.0, np.int64(0)) for _ in range(0)]
    for v in range(n):
        fill = _fill_of(v, start, count, pool, mark, stamp)
        stamp += count[v] + 1
        keys[v] = fill + 1e-6 * math.log2(sizes[v]) * (1.0 + count[v])
        heap.append((keys[v], np.int64(v)))
    heapq.heapify(heap)
    done = np.zeros(n, np.uint8)
    order, bucket_start = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    bucket = np.empty(4 * n + 64, np.int64)
    widest, position = 0.0, 0
    while len(heap) > 0:
        key, v = heapq.heappop(heap)
        if done[v] != 0 or key != keys[v]:
            continue
        fill = _fill_of(v, start, count, pool, mark, stamp)
        stamp += count[v] + 1
        now = fill + 1e-6 * math.log2(sizes[v]) * (1.0 + count[v])
        if now > key:  # it grew since it was queued
            keys[v] = now
            heapq.heappush(heap, (now, v))
            continue
        width = math.log2(sizes[v])
        for t in range(count[v]):
            width += math.log2(sizes[pool[start[v] + t]])
        widest = max(widest, width)
        if width > math.log2(limit) + 1e-9:
            return order[:position], bucket_start[: position + 1], bucket[: bucket_start[position]], width
        at = bucket_start[position]
        if at + count[v] > bucket.shape[0]:
            longer = np.empty(2 * (at + count[v]), np.int64)
            longer[:at] = bucket[:at]
            bucket = longer
        for t in range(count[v]):
            bucket[at + t] = pool[start[v] + t]
        bucket_start[position + 1] = at + count[v]
        order[position] = v
        position += 1
        done[v] = 1
        around = bucket[at : at + count[v]]
        for u in around:
            _remove(start, count, pool, u, v)
        for j in range(around.shape[0]):
            for t in range(j + 1, around.shape[0]):
                a, b = around[j], around[t]
                if fill > 0 and not _is_neighbour(start, count, pool, a, b):
                    for x, y in ((a, b), (b, a)):
                        if count[x] == room[x]:
                            need = 2 * room[x] + 4
                            if used + need > pool.shape[0]:
                                bigger = np.empty(2 * (used + need), np.int64)
                                bigger[:used] = pool[:used]
                                pool = bigger
                            pool[used : used + count[x]] = pool[start[x] : start[x] + count[x]]
                            start[x], room[x] = used, need
                            used += need
                        pool[start[x] + count[x]] = y
                        count[x] += 1
        for u in around:
            if count[u] > CROWDED and keys[u] > CROWDED:
                continue  # still crowded: counted when it comes up
            fill = _fill_of(u, start, count, pool, mark, stamp)
            stamp += count[u] + 1
            now = fill + 1e-6 * math.log2(sizes[u]) * (1.0 + count[u])
            if now != keys[u]:
                keys[u] = now
                heapq.heappush(heap, (now, u))
    return order, bucket_start, bucket[: bucket_start[n]], widest

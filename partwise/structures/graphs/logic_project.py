"""Euclidean projections onto the hulls of logical factors (Martins et al. 2015, "AD³", §5), O(n) or O(n log n).

A literal is given by a point; negated literals are the caller's: 1 − a_j.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.logic import AT_MOST_ONE, BUDGET, NODE, OR, OR_OUTPUT, XOR

__all__ = ["logic_project"]


@kernel
def _simplex(a, n, z):
    """z ← nearest point of {z ≥ 0, Σz = 1}: drop what falls below the threshold until nothing does (Michelot)."""
    total, count = -1.0, n
    for j in range(n):
        total += a[j]
        z[j] = 1.0
    while True:
        threshold, before = total / count, count
        for j in range(n):
            if z[j] > 0 and a[j] <= threshold and count > 1:  # of equal ones, rounding leaves the last
                z[j] = 0.0
                total -= a[j]
                count -= 1
        if count == before:
            break
    for j in range(n):
        z[j] = a[j] - threshold if z[j] > 0 else 0.0


@kernel
def _clip(a, n, z):
    total = 0.0
    for j in range(n):
        z[j] = min(max(a[j], 0.0), 1.0)
        total += z[j]
    return total


@kernel
def _capped(a, n, limit, z):
    """z ← nearest point of {0 ≤ z ≤ 1, Σz = limit}: Newton's method on the threshold, exact on its last piece."""
    low, high = np.inf, -np.inf
    for j in range(n):
        low, high = min(low, a[j] - 1.0), max(high, a[j])
    threshold = -limit / n
    for j in range(n):
        threshold += a[j] / n
    for _ in range(200):
        total, slope = 0.0, 0
        for j in range(n):
            v = a[j] - threshold
            z[j] = min(max(v, 0.0), 1.0)
            total += z[j]
            if 0.0 < v < 1.0:
                slope += 1
        excess = total - limit
        if excess > 0:
            low = threshold
        else:
            high = threshold
        if abs(excess) <= 1e-13 * (1.0 + limit):
            break
        step = threshold + excess / slope if slope > 0 else 0.5 * (low + high)
        threshold = step if low < step < high else 0.5 * (low + high)


@kernel
def _or_output(a, n, z):
    """{z_j ≤ y ≤ Σz, 0 ≤ z, y ≤ 1}, y last: onto {z_j ≤ y} first; if then Σz < y, onto the simplex of z and 1 − y."""
    m = n - 1
    total, count = a[m], 1  # those above the mean of themselves and y, by dropping the others
    for j in range(m):
        z[j] = 1.0
        total += a[j]
        count += 1
    while True:
        mean, before = total / count, count
        for j in range(m):
            if z[j] > 0 and a[j] <= mean:
                z[j] = 0.0
                total -= a[j]
                count -= 1
        if count == before:
            break
    y = min(max(mean, 0.0), 1.0)
    total = 0.0
    for j in range(m):
        z[j] = min(max(min(a[j], mean), 0.0), 1.0)
        total += z[j]
    z[m] = y
    if total < y:
        flipped = a[:n].copy()
        flipped[m] = 1.0 - flipped[m]
        _simplex(flipped, n, z)
        z[m] = 1.0 - z[m]


@kernel
def logic_project(kind, budget, n, a, z):
    """z ← the nearest point of the convex hull of what the factor allows."""
    if kind in (XOR, NODE):
        _simplex(a, n, z)
    elif kind == AT_MOST_ONE:
        total = 0.0
        for j in range(n):
            z[j] = max(a[j], 0.0)
            total += z[j]
        if total > 1.0:
            _simplex(a, n, z)
    elif kind == OR:
        if _clip(a, n, z) < 1.0:
            _simplex(a, n, z)
    elif kind == OR_OUTPUT:
        _or_output(a, n, z)
    elif kind == BUDGET:
        if _clip(a, n, z) > budget:
            _capped(a, n, budget, z)
    else:
        mean = 0.0
        for j in range(n):
            mean += a[j] / n
        z[:n] = min(max(mean, 0.0), 1.0)

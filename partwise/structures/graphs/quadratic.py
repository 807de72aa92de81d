"""Quadratic subproblems of AD³: max_q scores·q − ½‖Mq − a‖² over the configurations of one factor.

A 2 × 2 table has a closed form; other tables an active-set method (Martins et al. 2015, §6) that keeps few
configurations and starts from those of the last call; any structure with an argmax has the same method on
its outputs.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.structures.oracles import argmax

__all__ = ["SLACK", "active_set_table", "pair_closed_form", "project_structure"]

SLACK = 1e-10  # below this a configuration is no better


@kernel
def pair_closed_form(a, b, c):
    """(u, v, w) maximising c·w − ½(u − a)² − ½(v − b)² over the hull of {(u, v, uv)} for bits u, v."""
    if c < 0:
        u, v, w = pair_attractive(a + c, 1.0 - b, -c)
        return u, 1.0 - v, u - w
    return pair_attractive(a, b, c)


@kernel
def pair_attractive(a, b, c):
    if a > b + c:
        u, v = a, b + c
    elif b > a + c:
        u, v = a + c, b
    else:
        u = v = 0.5 * (a + b + c)
    u, v = min(max(u, 0.0), 1.0), min(max(v, 0.0), 1.0)
    return u, v, min(u, v)


@kernel
def solve_weights(gram, gains, k, lower, x, y, w):
    """w ← argmin ½wᵀGw − gains·w with Σw = 1, by a Cholesky factor of G + 11ᵀ. Returns (failed row or −1, τ).

    τ = gains_j − (Gw)_j for every j. A row fails where its vertex is an affine combination of those before it.
    """
    for r in range(k):
        for c in range(r + 1):
            total = gram[r, c] + 1.0
            for t in range(c):
                total -= lower[r, t] * lower[c, t]
            if r == c:
                if total < 1e-9:
                    return r, 0.0
                lower[r, r] = math.sqrt(total)
            else:
                lower[r, c] = total / lower[c, c]
    for r in range(k):
        s, o = gains[r], 1.0
        for t in range(r):
            s -= lower[r, t] * x[t]
            o -= lower[r, t] * y[t]
        x[r], y[r] = s / lower[r, r], o / lower[r, r]
    sum_x = sum_y = 0.0
    for r in range(k - 1, -1, -1):
        s, o = x[r], y[r]
        for t in range(r + 1, k):
            s -= lower[t, r] * x[t]
            o -= lower[t, r] * y[t]
        x[r], y[r] = s / lower[r, r], o / lower[r, r]
        sum_x += x[r]
        sum_y += y[r]
    shift = (sum_x - 1.0) / sum_y
    for r in range(k):
        w[r] = x[r] - shift * y[r]
    return -1, shift + 1.0


@kernel
def dependence(gram, k, lower, coefficients):
    """coefficients ← how vertex k is an affine combination of the first k, whose factor is ``lower``."""
    for r in range(k):
        s = gram[k, r] + 1.0
        for t in range(r):
            s -= lower[r, t] * coefficients[t]
        coefficients[r] = s / lower[r, r]
    for r in range(k - 1, -1, -1):
        s = coefficients[r]
        for t in range(r + 1, k):
            s -= lower[t, r] * coefficients[t]
        coefficients[r] = s / lower[r, r]


@kernel
def toward(old, w, k):
    """(step, place): how far old may go toward w before the weight at ``place`` is 0; (1, −1) all the way."""
    step, place = 1.0, -1
    for r in range(k):
        if w[r] < 0.0:
            t = old[r] / (old[r] - w[r])
            if t < step:
                step, place = max(t, 0.0), r
    return step, place


@kernel
def common_bits(sizes, strides, active, n, first, second):
    """Number of bits that two configurations share, of the slots that count."""
    total = 0.0
    for j in range(n):
        x, y = (first // strides[j]) % sizes[j], (second // strides[j]) % sizes[j]
        if x == y and active[j] != 0 and (sizes[j] > 2 or x == 1):
            total += 1.0
    return total


@kernel
def best_config(table, size, sizes, strides, n, field, values):
    """(configuration, value) of the largest table[c] + Σ_j field[j, state]. −1 where all are −inf."""
    best, top = -1, -np.inf
    if n == 2:
        c = 0
        for x in range(sizes[0]):
            base = field[0, x]
            for y in range(sizes[1]):
                value = table[c] + base + field[1, y]
                if value > top:
                    best, top = c, value
                c += 1
        return best, top
    for c in range(size):
        values[c] = table[c]
    for j in range(n):
        c = 0
        while c < size:
            for x in range(sizes[j]):
                for k in range(c, c + strides[j]):
                    values[k] += field[j, x]
                c += strides[j]
    for c in range(size):
        if values[c] > top:
            best, top = c, values[c]
    return best, top


@kernel
def active_set_table(
    table, size, sizes, strides, active, n, point, field, values, configs, weights, count, gram, lower, rows
):
    """Weights of few configurations that solve the subproblem; returns how many.

    table (size,): scores; point[j, x]: a for the bit of state x (0 for state 0 of two, and where active[j] = 0).
    configs, weights (capacity,): the active set, ``count`` of them on entry. field, values, gram, lower, rows: scratch.
    """
    capacity = configs.shape[0]
    gains, w, x, y = rows[0], rows[1], rows[2], rows[3]
    if count == 0:
        best, _ = best_config(table, size, sizes, strides, n, point, values)
        configs[0], weights[0], count = best, 1.0, 1
    fresh = count  # rows of the Gram matrix from 0 on must be computed
    for r in range(fresh):
        for c in range(r + 1):
            gram[r, c] = common_bits(sizes, strides, active, n, configs[r], configs[c])
    for r in range(count):
        gains[r] = table[configs[r]]
        for j in range(n):
            gains[r] += point[j, (configs[r] // strides[j]) % sizes[j]]
    for _ in range(20 * capacity):
        failed, level = solve_weights(gram, gains, count, lower, x, y, w)
        place = -1
        if failed >= 0:  # the newest is an affine combination of the others: shift weight at no cost but the scores'
            last = count - 1
            dependence(gram, last, lower, w)
            step = np.inf
            for r in range(last):
                if w[r] > 0 and weights[r] / w[r] < step:
                    step, place = weights[r] / w[r], r
            for r in range(last):
                weights[r] -= step * w[r]
            weights[last] += step
        else:
            step, place = toward(weights, w, count)
            for r in range(count):
                weights[r] += step * (w[r] - weights[r])
        if place >= 0:
            count -= 1
            for r in range(place, count):
                configs[r], weights[r], gains[r] = configs[r + 1], max(weights[r + 1], 0.0), gains[r + 1]
            for r in range(place, count):
                for c in range(r + 1):
                    gram[r, c] = gram[r + 1, c if c < place else c + 1]
            continue
        # the gradient: a less the bits of the mixture
        for j in range(n):
            for state in range(sizes[j]):
                field[j, state] = point[j, state]
            if active[j] != 0:
                for r in range(count):
                    state = (configs[r] // strides[j]) % sizes[j]
                    if sizes[j] > 2 or state == 1:
                        field[j, state] -= weights[r]
        best, value = best_config(table, size, sizes, strides, n, field, values)
        if value <= level + SLACK * (1.0 + abs(level)) or count == capacity:
            return count
        for r in range(count):
            if configs[r] == best:
                return count
        configs[count], weights[count] = best, 0.0
        gains[count] = table[best]
        for j in range(n):
            gains[count] += point[j, (best // strides[j]) % sizes[j]]
        for c in range(count + 1):
            gram[count, c] = common_bits(sizes, strides, active, n, best, configs[c])
        count += 1
    return count


@kernel
def project_structure(extra, i, point, work, vertices, weights, count, z):
    """z ← the point of the hull of a structure's outputs nearest to ``point``, from its argmax alone.

    vertices (capacity, n), weights (capacity,): the active set, ``count`` of them on entry; returns how many.
    """
    capacity, n = vertices.shape
    gram, lower = np.empty((capacity, capacity)), np.empty((capacity, capacity))
    gains, w, x, y = np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity)
    field = np.empty(n)
    if count == 0:
        if argmax(extra, i, point, work, vertices[0]) == -np.inf:
            return 0
        weights[0], count = 1.0, 1
    for r in range(count):
        gains[r] = dot(vertices[r], point)
        for c in range(r + 1):
            gram[r, c] = dot(vertices[r], vertices[c])
    for _ in range(20 * capacity):
        failed, level = solve_weights(gram, gains, count, lower, x, y, w)
        place = -1
        if failed >= 0:
            last = count - 1
            dependence(gram, last, lower, w)
            step = np.inf
            for r in range(last):
                if w[r] > 0 and weights[r] / w[r] < step:
                    step, place = weights[r] / w[r], r
            for r in range(last):
                weights[r] -= step * w[r]
            weights[last] += step
        else:
            step, place = toward(weights, w, count)
            for r in range(count):
                weights[r] += step * (w[r] - weights[r])
        if place >= 0:
            count -= 1
            for r in range(place, count):
                vertices[r] = vertices[r + 1]
                weights[r], gains[r] = max(weights[r + 1], 0.0), gains[r + 1]
            for r in range(place, count):
                for c in range(r + 1):
                    gram[r, c] = gram[r + 1, c if c < place else c + 1]
            continue
        for j in range(n):
            total = 0.0
            for r in range(count):
                total += weights[r] * vertices[r, j]
            z[j] = total
            field[j] = point[j] - total
        if count == capacity:
            return count
        value = argmax(extra, i, field, work, vertices[count])
        if value <= level + 1e-9 * (1.0 + abs(level)):
            return count
        weights[count] = 0.0
        gains[count] = dot(vertices[count], point)
        for c in range(count + 1):
            gram[count, c] = dot(vertices[count], vertices[c])
        count += 1
    return count

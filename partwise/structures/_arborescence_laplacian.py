"""Log-partition and arc marginals of arborescences by the matrix–tree theorem, stable at any inverse temperature.

Z = det of the Laplacian (Tutte 1948; Koo et al., Smith & Smith, McDonald & Satta 2007). Its pivots are found without a
single subtraction, as Grassmann, Taksar & Heyman (1985) do for Markov chains: taking word k out of the graph leaves

    S_k = Σ_h w(h, k),        w(h, m) ← w(h, m) + w(h, k) w(k, m) / S_k,        log Z = Σ_k log S_k,

over the words that are left and the root. Every number is a sum of products of positive numbers and so has all its
digits, whatever the condition of the Laplacian. Marginals are w·∂log Z/∂w, by this recursion in reverse: with
A_h = Σ_m g(h, m) w(k, m) and E = Σ_h w(h, k) A_h / S_k (the expected number of words that hang from k),

    g(h, k) = (1 − E + A_h) / S_k,        g(k, m) = Σ_h g(h, m) w(h, k) / S_k.

Times w these are masses, none larger than the number of words, so what rounding leaves of them is off by a few units of
10^-16·n, absolutely. Inverting the Laplacian instead subtracts entries that may be 10^20 times larger than the result.

If only one word may depend on the root, Z is the coefficient of the first power of the root's weights: the root
stays out of S_k, except for the last word.

The matrices are of words 1..n, taken out from n down to 1, so that what is left is always a corner of the matrix.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._math import log_add

__all__ = ["tree_gradient", "tree_marginals"]

# log Z of the matrix scaled to column maxima of 1 from which on plain numbers would begin to lose small ones.
FAINT = -300.0
# A word that other words hardly reach must be the root's: it is taken out later.
UNREACHED = -70.0


@kernel
def _swap(w, order, a, b):
    """Exchange the numbers of words a and b."""
    for j in range(w.shape[0]):
        w[a, j], w[b, j] = w[b, j], w[a, j]
    for j in range(w.shape[0]):
        w[j, a], w[j, b] = w[j, b], w[j, a]
    order[a], order[b] = order[b], order[a]


@kernel
def _column_sum(w, first, rows, k):
    total = 0.0
    for h in range(first, rows):
        if h != k:
            total += w[h, k]
    return total


@kernel
def _log_column_sum(w, first, rows, k):
    top = -np.inf
    for h in range(first, rows):
        if h != k and w[h, k] > top:
            top = w[h, k]
    if top == -np.inf:
        return top
    total = 0.0
    for h in range(first, rows):
        if h != k:
            total += math.exp(w[h, k] - top)
    return top + math.log(total)


@kernel
def _eliminate(w, single_root, order, sums):
    """The recursion above in plain numbers. Returns log Z; leaves S_k in ``sums`` and w as it was when k went."""
    n = w.shape[0] - 1
    total = 0.0
    for k in range(n, 0, -1):
        first = 1 if single_root and k > 1 else 0
        sums[k] = _column_sum(w, first, k, k)
        if first == 1 and sums[k] < 1e-30:
            best, top = k, sums[k]
            for j in range(1, k):
                value = _column_sum(w, first, k + 1, j)
                if value > top:
                    best, top = j, value
            if best != k:
                _swap(w, order, best, k)
                sums[k] = _column_sum(w, first, k, k)
        if sums[k] == 0.0:
            return -np.inf
        total += math.log(sums[k])
        last = np.uintp(k)
        for h in range(k):
            share = w[h, k] / sums[k]
            if share != 0.0:
                for m in range(np.uintp(1), last):
                    w[h, m] += share * w[k, m]
    return total


@kernel
def _log_eliminate(w, single_root, order, sums):
    """The same with logarithms of w and S."""
    n = w.shape[0] - 1
    total = 0.0
    for k in range(n, 0, -1):
        first = 1 if single_root and k > 1 else 0
        sums[k] = _log_column_sum(w, first, k, k)
        if first == 1 and sums[k] < UNREACHED:
            best, top = k, sums[k]
            for j in range(1, k):
                value = _log_column_sum(w, first, k + 1, j)
                if value > top:
                    best, top = j, value
            if best != k:
                _swap(w, order, best, k)
                sums[k] = _log_column_sum(w, first, k, k)
        if sums[k] == -np.inf:
            return -np.inf
        total += sums[k]
        for h in range(k):
            share = w[h, k] - sums[k]
            if share > -np.inf:
                for m in range(1, k):
                    if w[k, m] > -np.inf and h != m:
                        w[h, m] = log_add(w[h, m], share + w[k, m])
    return total


@kernel
def _differentiate(w, single_root, sums, g):
    """g ← ∂log Z/∂w, from what ``_eliminate`` left."""
    n = w.shape[0] - 1
    reach = np.empty(n + 1)  # A_h
    for k in range(1, n + 1):
        last = np.uintp(k)
        for m in range(1, k):
            g[k, m] = 0.0
        expected = 0.0
        for h in range(k):
            total, share = 0.0, w[h, k] / sums[k]
            for m in range(np.uintp(1), last):
                total += g[h, m] * w[k, m]
                g[k, m] += share * g[h, m]
            reach[h] = total
            expected += share * total
        for h in range(k):
            g[h, k] = (1.0 - expected + reach[h]) / sums[k]
        if single_root and k > 1:
            g[0, k] = reach[0] / sums[k]
        g[k, k] = 0.0


@kernel
def _log_differentiate(w, single_root, sums, g):
    """g ← log ∂log Z/∂w, from what ``_log_eliminate`` left; what rounding turned negative counts as 0."""
    n = w.shape[0] - 1
    reach = np.empty(n + 1)
    g[:, :] = -np.inf
    for k in range(1, n + 1):
        expected = 0.0
        for h in range(k):
            top = -np.inf
            for m in range(1, k):
                if h != m:
                    top = max(top, g[h, m] + w[k, m])
            reach[h] = top
            if top > -np.inf:
                total = 0.0
                for m in range(1, k):
                    if h != m:
                        total += math.exp(g[h, m] + w[k, m] - top)
                reach[h] = top + math.log(total)
                expected += math.exp(w[h, k] - sums[k] + reach[h])
        for m in range(1, k):
            for h in range(k):
                if h != m and w[h, k] > -np.inf and g[h, m] > -np.inf:
                    g[k, m] = log_add(g[k, m], w[h, k] - sums[k] + g[h, m])
        for h in range(k):
            if (h == 0 and single_root and k > 1) or reach[h] > 600.0:
                g[h, k] = reach[h] - sums[k]
            else:
                size = 1.0 - expected + math.exp(reach[h])
                g[h, k] = math.log(size) - sums[k] if size > 0.0 else -np.inf


@kernel
def tree_gradient(arcs, single_root, w, g):
    """(log Z, whether w and g are logarithms): w ← the scaled weights exp(arcs − column maximum), g ← ∂log Z/∂w.

    arcs (n + 1, n + 1) holds logarithms of weights, −inf where there is no arc and on the diagonal.
    """
    n = arcs.shape[0] - 1
    shift, shifts = 0.0, np.zeros(n + 1)
    order, sums, work = np.arange(n + 1), np.empty(n + 1), np.empty((n + 1, n + 1))
    w[:, 0] = 0.0
    for m in range(1, n + 1):
        top = -np.inf
        for h in range(n + 1):
            top = max(top, arcs[h, m])
        if top == -np.inf:
            return top, False
        shifts[m] = top
        shift += top
        for h in range(n + 1):
            w[h, m] = math.exp(arcs[h, m] - top) if h != m else 0.0
    work[:, :] = w
    log = False
    value = _eliminate(work, single_root, order, sums)
    # underflow may hide a sum that is not zero: plain numbers are trusted only where nothing is faint
    if value > FAINT:
        _differentiate(work, single_root, sums, g)
    else:
        log = True
        for m in range(1, n + 1):
            order[m] = m
            for h in range(n + 1):
                w[h, m] = arcs[h, m] - shifts[m] if h != m else -np.inf
        w[:, 0] = -np.inf
        work[:, :] = w
        value = _log_eliminate(work, single_root, order, sums)
        if value == -np.inf:
            return value, True
        _log_differentiate(work, single_root, sums, g)
    if single_root:  # undo the exchanges
        work[:, :] = g
        for h in range(n + 1):
            for m in range(n + 1):
                g[order[h], order[m]] = work[h, m]
    return value + shift, log


@kernel
def tree_marginals(arcs, single_root, mass):
    """mass[h, m] ← the probability of arc (h, m) where p(tree) ∝ exp Σ arcs; returns log Z, −inf without a tree."""
    n = arcs.shape[0] - 1
    w, g = np.empty((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    value, log = tree_gradient(arcs, single_root, w, g)
    mass[:, :] = 0.0
    if value == -np.inf:
        return value
    for m in range(1, n + 1):
        total = 0.0
        for h in range(n + 1):
            if h != m and arcs[h, m] > -np.inf:
                size = math.exp(w[h, m] + g[h, m]) if log else w[h, m] * g[h, m]
                mass[h, m] = max(size, 0.0)
                total += mass[h, m]
        for h in range(n + 1):  # every word has one head: takes away the last rounding
            mass[h, m] /= total
    return value

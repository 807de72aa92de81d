"""Logical factors over n literals, without enumeration: messages and local argmax.

A literal is given by one number: its log-odds a_j = log p(true)/p(false) for messages, its score for the argmax.
Negated literals are the caller's: −a_j. All are O(n) or O(n log n); a budget's messages are O(n·B).
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._math import log_add

__all__ = [
    "AND_PAIR",
    "AT_MOST_ONE",
    "BUDGET",
    "EQUAL",
    "HARD_TABLE",
    "NODE",
    "OR",
    "OR_OUTPUT",
    "SATISFIED",
    "TABLE",
    "XOR",
    "logic_best",
    "logic_max",
    "logic_sum",
    "reduced_kind",
]

# Kinds of factors. SATISFIED: whatever the free literals say. NODE: the states of one variable, a XOR that only
# relaxations need. AND_PAIR: soft, one part that is on where both literals are.
SATISFIED, TABLE, HARD_TABLE, XOR, AT_MOST_ONE, OR, OR_OUTPUT, BUDGET, EQUAL, NODE, AND_PAIR = range(11)


@kernel
def softplus(a):
    """log(1 + e^a)."""
    return a + math.log1p(math.exp(-a)) if a > 0 else math.log1p(math.exp(a))


@kernel
def log_expm1(a):
    """log(e^a − 1) for a ≥ 0."""
    if a <= 0.0:
        return -np.inf
    return a if a > 37.0 else math.log(math.expm1(a))


@kernel
def reduced_kind(kind, budget, n_true, n_false, n_free, output):
    """(kind, budget) of what is left of a factor when some literals are known; ``output`` −1 free, 0 or 1 known.

    Consistent with what is known: callers have propagated the constraints.
    """
    if n_free == 0:
        return SATISFIED, 0
    if kind == BUDGET:
        return (SATISFIED, 0) if budget - n_true >= n_free else (BUDGET, budget - n_true)
    if kind == OR:
        return (SATISFIED, 0) if n_true > 0 else (OR, 0)
    if kind == AT_MOST_ONE and n_free == 1 and n_true == 0:
        return SATISFIED, 0
    if kind == OR_OUTPUT:
        if output < 0:
            return OR_OUTPUT, 0
        known = n_true - (1 if output == 1 else 0)
        return (OR, 0) if output == 1 and known == 0 else (SATISFIED, 0)
    return kind, 0


# --------------------------------------------------------------------------------------------------
# Messages: out_j = log Σ_{y: y_j = 1} / Σ_{y: y_j = 0} of exp Σ_{k≠j} a_k y_k over what the factor allows


@kernel
def _exclusive(a, n, constant, out):
    """out_j = −log(constant + Σ_{k≠j} e^{a_k}); returns log(constant + Σ_k e^{a_k}). constant is 0 or 1."""
    first, second = -1, -1
    for j in range(n):
        if first < 0 or a[j] > a[first]:
            first, second = j, first
        elif second < 0 or a[j] > a[second]:
            second = j
    shift = a[first]
    if constant > 0 and shift < 0:
        shift = 0.0
    total = math.exp(-shift) if constant > 0 else 0.0
    for j in range(n):
        total += math.exp(a[j] - shift)
    for j in range(n):
        if j != first:
            out[j] = -(shift + math.log(total - math.exp(a[j] - shift)))
    # without the first, the sum has another leading term
    rest = a[second] if second >= 0 else -np.inf
    if constant > 0 and rest < 0:
        rest = 0.0
    if rest == -np.inf:
        out[first] = np.inf
    else:
        others = math.exp(-rest) if constant > 0 else 0.0
        for j in range(n):
            if j != first:
                others += math.exp(a[j] - rest)
        out[first] = -(rest + math.log(others))
    return shift + math.log(total)


@kernel
def _other_softplus(a, n, out):
    """out_j = Σ_{k≠j} log(1 + e^{a_k}) from sums of both sides, for nothing cancels; returns the sum of all."""
    total = 0.0
    for j in range(n):
        out[j] = total
        total += softplus(a[j])
    after = 0.0
    for j in range(n - 1, -1, -1):
        out[j] += after
        after += softplus(a[j])
    return total


@kernel
def _budget_sum(a, n, limit, out):
    """P_j[t] = log Σ over j literals with t true; with suffixes S, out_j = log Σ_{t<B} / Σ_{t≤B} of the others."""
    width = limit + 1
    prefix = np.full((n + 1, width), -np.inf)
    prefix[0, 0] = 0.0
    for j in range(n):
        for t in range(width):
            prefix[j + 1, t] = prefix[j, t]
            if t > 0:
                prefix[j + 1, t] = log_add(prefix[j, t], prefix[j, t - 1] + a[j])
    suffix = np.full(width, -np.inf)
    suffix[0] = 0.0
    at_most = np.empty(width)  # log Σ_{u ≤ t} e^{S[u]}
    for j in range(n - 1, -1, -1):
        running = -np.inf
        for t in range(width):
            running = log_add(running, suffix[t])
            at_most[t] = running
        on, off = -np.inf, -np.inf
        for t in range(width):
            off = log_add(off, prefix[j, t] + at_most[limit - t])
            if t < limit:
                on = log_add(on, prefix[j, t] + at_most[limit - 1 - t])
        out[j] = on - off
        for t in range(width - 1, 0, -1):
            suffix[t] = log_add(suffix[t], suffix[t - 1] + a[j])
    total = -np.inf
    for t in range(width):
        total = log_add(total, prefix[n, t])
    return total


@kernel
def logic_sum(kind, budget, n, a, out):
    """out ← log-odds of every literal without its own; returns log Σ_y exp a·y over what the factor allows."""
    if kind in (XOR, NODE):
        return _exclusive(a, n, 0, out)
    if kind == AT_MOST_ONE:
        return _exclusive(a, n, 1, out)
    if kind == OR:
        total = _other_softplus(a, n, out)
        for j in range(n):
            out[j] = -math.log(-math.expm1(-out[j])) if out[j] > 0 else np.inf
        return log_expm1(total)
    if kind == OR_OUTPUT:
        y = a[n - 1]
        total = _other_softplus(a, n - 1, out)
        for j in range(n - 1):
            out[j] = y + out[j] - log_add(0.0, y + log_expm1(out[j]))
        out[n - 1] = log_expm1(total)
        return log_add(0.0, y + out[n - 1])
    if kind == BUDGET:
        return _budget_sum(a, n, budget, out)
    total = 0.0  # EQUAL
    for j in range(n):
        total += a[j]
    for j in range(n):
        out[j] = total - a[j]
    return log_add(0.0, total)


@kernel
def logic_max(kind, budget, n, a, out):
    """The same for maxima: out_j = max_{y: y_j = 1} − max_{y: y_j = 0} of Σ_{k≠j} a_k y_k; returns max_y a·y."""
    first, second = -1, -1
    for j in range(n - 1 if kind == OR_OUTPUT else n):
        if first < 0 or a[j] > a[first]:
            first, second = j, first
        elif second < 0 or a[j] > a[second]:
            second = j
    top = a[first]
    below = a[second] if second >= 0 else -np.inf
    if kind in (XOR, NODE):
        for j in range(n):
            out[j] = -top if j != first else -below
        return top
    if kind == AT_MOST_ONE:
        for j in range(n):
            out[j] = -max(top, 0.0) if j != first else -max(below, 0.0)
        return max(top, 0.0)
    if kind == OR:
        total = 0.0
        for j in range(n):
            other = top if j != first else below
            out[j] = max(0.0, -other)
            total += max(a[j], 0.0)
        return total if top > 0 else top
    if kind == OR_OUTPUT:
        y, total = a[n - 1], 0.0
        for j in range(n - 1):
            total += max(a[j], 0.0)
        for j in range(n - 1):
            other = top if j != first else below
            on = total - max(a[j], 0.0)
            off = on if other > 0 else other  # of the others, at least one true
            out[j] = y + on - max(0.0, y + off)
        out[n - 1] = total if top > 0 else top
        return max(0.0, y + out[n - 1])
    if kind == BUDGET:
        order = np.argsort(-a[:n])
        total = 0.0
        for r in range(min(budget, n)):
            total += max(a[order[r]], 0.0)
        for r in range(n):
            rank = budget if r < budget else budget - 1  # who is B-th among the others
            out[order[r]] = -max(a[order[rank]], 0.0) if rank < n else 0.0
        return total
    total = 0.0
    for j in range(n):
        total += a[j]
    for j in range(n):
        out[j] = total - a[j]
    return max(total, 0.0)


@kernel
def _largest(a, n, limit, z):
    """z ← 1 for the largest positive ones, at most ``limit``; returns their sum."""
    total, count = 0.0, 0
    for j in range(n):
        z[j] = 1.0 if a[j] > 0 else 0.0
        total += max(a[j], 0.0)
        count += a[j] > 0
    if count <= limit:
        return total
    if min(limit, count - limit) > 12:
        order = np.argsort(-a[:n])
        total = 0.0
        for r in range(n):
            z[order[r]] = 1.0 if r < limit else 0.0
            total += a[order[r]] if r < limit else 0.0
        return total
    while count > limit:  # drop the least
        least = -1
        for j in range(n):
            if z[j] > 0 and (least < 0 or a[j] < a[least]):
                least = j
        z[least] = 0.0
        total -= a[least]
        count -= 1
    return total


@kernel
def logic_best(kind, budget, n, a, z):
    """z ← argmax a·y over what the factor allows (0 or 1 each); returns the maximum."""
    first = 0
    inputs = n - 1 if kind == OR_OUTPUT else n
    for j in range(inputs):
        if a[j] > a[first]:
            first = j
        z[j] = 0.0
    if kind in (XOR, NODE):
        z[first] = 1.0
        return a[first]
    if kind == AT_MOST_ONE:
        if a[first] > 0:
            z[first] = 1.0
        return max(a[first], 0.0)
    if kind in (OR, OR_OUTPUT):
        total = 0.0
        for j in range(inputs):
            if a[j] > 0:
                z[j] = 1.0
                total += a[j]
        if a[first] <= 0:
            z[first] = 1.0
            total = a[first]
        if kind == OR_OUTPUT:
            total += a[n - 1]
            z[n - 1] = 1.0
            if total <= 0:
                z[:n] = 0.0
                total = 0.0
        return total
    if kind == BUDGET:
        return _largest(a, n, budget, z)
    total = 0.0
    for j in range(n):
        total += a[j]
    z[:n] = 1.0 if total > 0 else 0.0
    return max(total, 0.0)

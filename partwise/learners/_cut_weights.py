"""The best weights of a few cuts: small quadratic programs, solved with a bound on the work.

A block of the dual, with the gradient w_k = b_k + θᵀg_k of its cuts k = 1 … n, is

    max_{α ≥ 0, Σα ≤ 1}  α·c − C/2 αᵀGα,        c = w + C G α₀  at the present weights α₀,   G_kl = g_kᵀg_l.

* ``hildreth``: one exchange of weight after the other, the most profitable first. Well-scaled cuts need a few; badly
  scaled ones any number, so after a fixed number of exchanges ``active_set`` takes over.
* ``active_set``: Newton steps in the plane of the cuts that have weight, up to where one of them loses it.
* ``signed_ascent``: the same where some weights θ_j must be ≥ 0. Then θ = clip(raw), and the dual is quadratic only
  as long as no coordinate changes between being clipped and not: Newton steps with the Gram matrix of the
  coordinates that are not, each followed by an exact line search.

No step lowers the dual, so each may end anywhere: its α is feasible, and what the dual is worth is computed from that.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["active_set", "best_step", "hildreth", "signed_ascent", "signed_block"]

#: Exchanges of ``hildreth`` for every cut, and steps of ``active_set``, before they end.
EXCHANGES, STEPS = 10, 6
#: Newton steps of ``signed_ascent``, and evaluations of each of its line searches.
NEWTON, SEARCH = 40, 60
#: Relative to the diagonal, what is added to it: dependent cuts are then left by a long step, not a wrong one.
RIDGE = 1e-13


@kernel
def active_set(gram, offsets, count, C, alpha, tolerance):
    """alpha ← nearly argmax_{α ≥ 0, Σα ≤ 1} α·offsets − C/2 αᵀ gram α over the first ``count`` rows; warm-started.

    The slack 1 − Σα counts as one more row without gradient and products, number ``count``.
    """
    n = count + 1
    x, worth = np.zeros(n), np.zeros(n)
    rows, d = np.empty(n, np.int64), np.empty(n)
    matrix, scale, rhs = np.empty((n, n)), np.empty(n), np.empty(n)
    x[count] = 1.0
    for k in range(count):
        x[k] = alpha[k]
        x[count] -= alpha[k]
    x[count] = max(x[count], 0.0)
    banned = -1  # a row that had to leave at once
    for _ in range(STEPS * n + 20):
        top, mean = count, 0.0
        for k in range(count):
            worth[k] = offsets[k]
            for j in range(count):
                if x[j] != 0.0:
                    worth[k] -= C * gram[k, j] * x[j]
            mean += x[k] * worth[k]
        for k in range(count):
            if worth[k] > worth[top]:
                top = k
        if worth[top] - mean <= tolerance:
            break
        # the rows with weight and the best one; differences are taken from the slack, or else from the heaviest
        base = count
        if x[count] == 0.0:
            for k in range(count):
                if x[k] > x[base]:
                    base = k
        size = 0
        for k in range(n):
            if k != base and (x[k] > 0.0 or (k == top and k != banned)):
                rows[size] = k
                size += 1
        for a in range(size):
            k = rows[a]
            rhs[a] = worth[k] - worth[base]
            for b in range(a + 1):
                j = rows[b]
                product = 0.0
                if k < count and j < count:
                    product += gram[k, j]
                if base < count:
                    product += gram[base, base]
                    if k < count:
                        product -= gram[k, base]
                    if j < count:
                        product -= gram[base, j]
                matrix[a, b] = C * product
                matrix[b, a] = C * product
            scale[a] = 1.0 / np.sqrt(matrix[a, a]) if matrix[a, a] > 0.0 else 0.0
        _solve(matrix, scale, rhs, size, d)
        slope, curvature, rest = 0.0, 0.0, 0.0
        for a in range(size):
            slope += d[a] * rhs[a]
            rest -= d[a]
            for b in range(size):
                curvature += d[a] * matrix[a, b] * d[b]
        if not slope > 0.0:
            break
        limit, blocking = np.inf, -1
        for a in range(size):
            if d[a] < 0.0 and x[rows[a]] < -limit * d[a]:
                limit, blocking = -x[rows[a]] / d[a], rows[a]
        if rest < 0.0 and x[base] < -limit * rest:
            limit, blocking = -x[base] / rest, base
        if limit == 0.0:  # the new row is worth nothing yet: first the others find their optimum
            if blocking == banned:
                break
            banned = blocking
            continue
        banned = -1
        step = limit if slope >= curvature * limit else slope / curvature
        if not step < np.inf:
            break
        moved = False
        for a in range(size):
            before = x[rows[a]]
            x[rows[a]] = max(before + step * d[a], 0.0)
            moved = moved or x[rows[a]] != before
        x[base] = max(x[base] + step * rest, 0.0)
        if step == limit:
            x[blocking] = 0.0
            moved = True
        if not moved:
            break
    total = 0.0
    for k in range(count):
        alpha[k] = x[k]
        total += x[k]
    if total > 1.0:  # by rounding
        for k in range(count):
            alpha[k] /= total


@kernel
def _solve(matrix, scale, rhs, size, d):
    """d ← (matrix + ridge)⁻¹ rhs over the first ``size`` rows by Cholesky, with a unit diagonal; see RIDGE."""
    factor, y = np.zeros((size, size)), np.empty(size)
    for a in range(size):
        for b in range(a + 1):
            total = matrix[a, b] * scale[a] * scale[b]
            if a == b:
                total = 1.0 + RIDGE
            for k in range(b):
                total -= factor[a, k] * factor[b, k]
            if a == b:
                factor[a, a] = np.sqrt(max(total, RIDGE))
            else:
                factor[a, b] = total / factor[b, b]
    for a in range(size):
        total = rhs[a] * (scale[a] if scale[a] > 0.0 else 1.0)
        for k in range(a):
            total -= factor[a, k] * y[k]
        y[a] = total / factor[a, a]
    for a in range(size - 1, -1, -1):
        total = y[a]
        for k in range(a + 1, size):
            total -= factor[k, a] * d[k]
        d[a] = total / factor[a, a]
    for a in range(size):
        d[a] *= scale[a] if scale[a] > 0.0 else 1.0


@kernel
def hildreth(gram, offsets, count, C, alpha, tolerance):
    """alpha ← argmax_{α ≥ 0, Σα ≤ 1} α·offsets − C/2 αᵀ gram α over the first ``count`` rows; warm-started.

    It ends when no exchange of weight is worth more than ``tolerance``, which bounds the duality gap
    max_k⁺ w_k − Σ_k α_k w_k, w = offsets − C gram α, by the same.
    """
    worth = np.empty(count)  # gradient of the dual: what a little more of a row is worth
    for k in range(count):
        worth[k] = offsets[k]
        for j in range(count):
            worth[k] -= C * gram[k, j] * alpha[j]
    for _ in range(EXCHANGES * count + 20):
        slack = 1.0
        for k in range(count):
            slack -= alpha[k]
        # the pair (up, down) of most profit; row −1 is the slack, worth nothing
        up, high = -1, 0.0
        down, low = -1, 0.0 if slack > 1e-15 else np.inf
        for k in range(count):
            if worth[k] > high:
                up, high = k, worth[k]
            if alpha[k] > 0.0 and worth[k] < low:
                down, low = k, worth[k]
        if high - low <= tolerance:
            return
        curvature = 0.0
        if up >= 0:
            curvature += gram[up, up]
        if down >= 0:
            curvature += gram[down, down]
        if up >= 0 and down >= 0:
            curvature -= 2.0 * gram[up, down]
        limit = alpha[down] if down >= 0 else slack
        move = limit if curvature <= 0.0 else min(limit, (high - low) / (C * curvature))
        if up >= 0:
            alpha[up] += move
        if down >= 0:
            alpha[down] = alpha[down] - move if move < limit else 0.0
        for k in range(count):
            if up >= 0:
                worth[k] -= C * gram[k, up] * move
            if down >= 0:
                worth[k] += C * gram[k, down] * move
    active_set(gram, offsets, count, C, alpha, tolerance)


@kernel
def _slope(raw, direction, t, signed, C, gain):
    """The derivative of the dual at raw + t·direction: gain − 1/C Σ_j clip(raw_j + tδ_j) δ_j."""
    total = 0.0
    for j in range(raw.shape[0]):
        here = raw[j] + t * direction[j]
        if here > 0.0 or not signed[j]:
            total += here * direction[j]
    return gain - total / C


@kernel
def best_step(raw, direction, signed, C, gain):
    """The t in [0, 1] at which the dual is largest along a direction of raw, θ = clip(raw); 0 if it only falls."""
    first, last = _slope(raw, direction, 0.0, signed, C, gain), _slope(raw, direction, 1.0, signed, C, gain)
    if not first > 0.0:
        return 0.0
    if last >= 0.0:
        return 1.0
    # the zero of a falling, piecewise linear function: secants, kept away from the ends
    low, high, above, below = 0.0, 1.0, first, last
    for _ in range(SEARCH):
        guess = low + (high - low) * above / (above - below)
        guess = min(max(guess, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        here = _slope(raw, direction, guess, signed, C, gain)
        if here >= 0.0:
            low, above = guess, here
        else:
            high, below = guess, here
        if abs(here) <= 1e-9 * first:
            return guess
    return low


@kernel
def signed_ascent(images, constants, count, C, signed, raw, alpha, tolerance):
    """alpha ← nearly the best weights of the cuts (images[k], constants[k]), where θ = clip(raw) at 0 if ``signed``.

    ``raw`` (dim,) = C v moves along by −C Σ_k Δα_k images[k]. The cuts of other instances stay as they are in it.
    """
    dim = raw.shape[0]
    worth, offsets, target = np.empty(count), np.empty(count), np.empty(count)
    gram, direction = np.empty((count, count)), np.empty(dim)
    for _ in range(NEWTON):
        best, mean = 0.0, 0.0
        for k in range(count):
            total = constants[k]
            for j in range(dim):
                if raw[j] > 0.0 or not signed[j]:
                    total += images[k, j] * raw[j]
            worth[k] = total
            best = max(best, total)
            mean += alpha[k] * total
        if best - mean <= tolerance:
            return
        for k in range(count):
            for other in range(k + 1):
                total = 0.0
                for j in range(dim):
                    if raw[j] >= 0.0 or not signed[j]:
                        total += images[k, j] * images[other, j]
                gram[k, other] = total
                gram[other, k] = total
        for k in range(count):
            offsets[k] = worth[k]
            target[k] = alpha[k]
            for other in range(count):
                offsets[k] += C * gram[k, other] * alpha[other]
        hildreth(gram, offsets, count, C, target, max(0.1 * tolerance, 1e-3 * (best - mean)))
        gain = 0.0
        for j in range(dim):
            direction[j] = 0.0
        for k in range(count):
            change = target[k] - alpha[k]
            if change != 0.0:
                gain += change * constants[k]
                for j in range(dim):
                    direction[j] -= C * change * images[k, j]
        t = best_step(raw, direction, signed, C, gain)
        if t == 0.0:
            return
        for k in range(count):
            alpha[k] = target[k] if t == 1.0 else max(alpha[k] + t * (target[k] - alpha[k]), 0.0)
        for j in range(dim):
            raw[j] += t * direction[j]


@kernel
def signed_block(images, constants, count, C, signed, raw, theta, alpha, tolerance):
    """``signed_ascent`` over the coordinates that the cuts of one instance touch; θ ← clip(raw), and images ← 0."""
    dim = raw.shape[0]
    columns, size = np.empty(dim, np.int64), 0
    for j in range(dim):
        for k in range(count):
            if images[k, j] != 0.0:
                columns[size] = j
                size += 1
                break
    small, point, mask = np.empty((count, size)), np.empty(size), np.empty(size, np.bool_)
    for place in range(size):
        j = columns[place]
        point[place], mask[place] = raw[j], signed[j]
        for k in range(count):
            small[k, place] = images[k, j]
            images[k, j] = 0.0
    signed_ascent(small, constants, count, C, mask, point, alpha, tolerance)
    for place in range(size):
        j = columns[place]
        raw[j] = point[place]
        theta[j] = raw[j] if raw[j] > 0.0 or not signed[j] else 0.0

"""p(a_j = i | e, f) under Model 1, Model 2 and the HMM, with the expected jumps.

A direction has n positions that may be chosen (the words of one sentence) at each of m times (the words of the
other). All work arrays hold m rows of stride n + 2·margin, position i of time t at ``t·stride + margin + i``; the
margins are zero, so that a jump off the sentence adds nothing and no loop needs to look where it ends.

The HMM with empty words: with probability p0 a word has no partner and the position stays where it was; otherwise the
position jumps from the last one i' by p(i | i', I), as in Och and Ney (2003), whose empty states remember i' too:

    α_t(i) = (1 − p0) p(t | i) [Σ_i' γ_{t−1}(i') p(i | i') + σ_{t−1} p(i | start)]
    γ_t(i) = α_t(i) + p0 p(t | NULL) γ_{t−1}(i),       σ_t = p0 p(t | NULL) σ_{t−1}
    β_{t−1}(i') = (1 − p0) Σ_i p(i | i') p(t | i) β_t(i) + p0 p(t | NULL) β_t(i')

Each row is divided by its sum z_t, and Σ log z_t is the log-likelihood. Jumps of ``reach`` and more share a weight, so
that a row costs n·(2·reach − 1) multiplications in a loop that vectorises, plus a running sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel

__all__ = ["HMM", "MODEL1", "MODEL2", "Work", "direction_posteriors", "margin_of", "new_work"]

MODEL1, MODEL2, HMM = 1, 2, 3
_GROUP = 5  # taps of the convolution that are applied at once


class Work(NamedTuple):
    """Scratch memory of one direction; ``posteriors`` holds p(t | i) going in and p(a_t = i) coming out."""

    posteriors: NDArray[np.float32]
    null: NDArray[np.float32]  # (longest,): p(t | NULL) in, p(a_t = NULL) out
    alpha: NDArray[np.float32]
    leaving: NDArray[np.float32]  # γ_t(i) / Σ_l c(l − i)
    running: NDArray[np.float32]  # Σ_{l ≤ i} leaving_t(l)
    entering: NDArray[np.float32]  # (1 − p0) p(t | i) β_t(i) / z_t
    row: NDArray[np.float32]  # (6, longest + 2·margin)
    scale: NDArray[np.float32]  # (2, longest)


def margin_of(reach: int) -> int:
    """Zeros on each side of a row: the longest reach of a convolution, rounded up to whole groups of taps."""
    return reach + _GROUP


def new_work(cells: int, longest: int, margin: int) -> Work:
    """Scratch for pairs of up to ``longest`` words per side and ``cells`` cells."""
    size = cells + (2 * margin + 1) * (longest + 2)
    rows = (np.zeros(size, np.float32) for _ in range(4))
    posteriors, alpha, leaving, entering = rows
    row, scale = np.zeros((6, longest + 4 * margin), np.float32), np.zeros((2, longest), np.float32)
    null = np.zeros(longest, np.float32)
    return Work(posteriors, null, alpha, leaving, np.zeros(size, np.float32), entering, row, scale)


@kernel
def _convolve(y, x, start, n, taps):
    """y[i] = Σ_k taps[k]·x[start + i + k] for i < n; the number of taps is a multiple of five."""
    m, one = np.uintp(n), np.uintp(1)
    for i in range(m):
        y[i] = np.float32(0.0)
    p = np.uintp(start)
    for k in range(0, taps.shape[0], 5):
        t0, t1, t2, t3, t4 = taps[k], taps[k + 1], taps[k + 2], taps[k + 3], taps[k + 4]
        p1, p2, p3, p4 = p + one, p + np.uintp(2), p + np.uintp(3), p + np.uintp(4)
        for i in range(m):
            y[i] += t0 * x[p + i] + t1 * x[p1 + i] + t2 * x[p2 + i] + t3 * x[p3 + i] + t4 * x[p4 + i]
        p += np.uintp(5)


@kernel
def _taps(weights, reach, forward):
    """Weights of the jumps shorter than reach, in the order the convolution meets them, padded with zeros."""
    n = 2 * reach - 1
    taps = np.zeros(-(-n // 5) * 5, np.float32)
    for k in range(n):
        taps[k] = weights[2 * reach - 1 - k] if forward else weights[1 + k]
    return taps


@kernel
def _hmm(n, m, margin, jumps, p0, work, collect, jump_counts, windows, start_counts):
    """Forward and backward; returns the log-likelihood. Expected jumps are added where ``collect`` holds."""
    reach = jumps.starts.shape[0] - 1
    size, stride, un = n + 2 * margin, np.uintp(n + 2 * margin), np.uintp(n)
    stay, go = np.float32(p0), np.float32(1.0 - p0)
    far_left, far_right = jumps.weights[0], jumps.weights[2 * reach]
    ahead, back = _taps(jumps.weights, reach, True), _taps(jumps.weights, reach, False)
    emit, alpha, leaving = work.posteriors, work.alpha, work.leaving
    running, entering = work.running, work.entering
    y, gamma, beta = work.row[0], work.row[1], work.row[2]
    inverse, begin, moved = work.row[3], work.row[4], work.row[5]
    z, outside = work.scale[0], work.scale[1]
    for i in range(n):
        inverse[i] = jumps.inverse[i, n - 1 - i]
        begin[i] = jumps.starts[min(i, reach)] * jumps.start_inverse[n] * go
        gamma[i] = np.float32(0.0)
        beta[i] = np.float32(1.0)
        moved[i] = np.float32(0.0)
    for t in range(m):
        for k in range(margin):
            leaving[t * size + k] = np.float32(0.0)
            leaving[t * size + margin + n + k] = np.float32(0.0)
            entering[t * size + k] = np.float32(0.0)
            entering[t * size + margin + n + k] = np.float32(0.0)
    log_likelihood = 0.0
    sigma = np.float32(1.0)
    for t in range(m):
        row = np.uintp(t * size + margin)
        q = stay * work.null[t]
        if t > 0:
            prev = row - stride
            _convolve(y, leaving, t * size - size + margin - reach + 1, n, ahead)
            if n > reach:
                total = running[prev + un - np.uintp(1)]
                for i in range(np.uintp(n - reach)):
                    y[i + np.uintp(reach)] += far_right * running[prev + i]
                    rest = total - running[prev + i + np.uintp(reach - 1)]
                    y[i] += far_left * (rest if rest > np.float32(0.0) else np.float32(0.0))
            for i in range(un):
                y[i] = go * y[i]
        else:
            for i in range(un):
                y[i] = np.float32(0.0)
        if sigma > np.float32(1e-12):
            for i in range(un):
                y[i] += sigma * begin[i]
        sigma = q * sigma
        total_row = np.float32(0.0)
        for i in range(un):
            a = emit[row + i] * y[i]
            g = a + q * gamma[i]
            alpha[row + i] = a
            gamma[i] = g
            total_row += g
        total_row += sigma
        factor = np.float32(1.0) / total_row
        z[t] = factor
        log_likelihood += np.log(total_row)
        sigma *= factor
        outside[t] = sigma
        for i in range(un):
            g = gamma[i] * factor
            gamma[i] = g
            alpha[row + i] *= factor
            leaving[row + i] = g * inverse[i]
        if n > reach:
            total = np.float32(0.0)
            for i in range(un):
                total += leaving[row + i]
                running[row + i] = total
    far_left_count, far_right_count = 0.0, 0.0
    for t in range(m - 1, -1, -1):
        row = np.uintp(t * size + margin)
        q = stay * work.null[t] * z[t]
        factor = go * z[t]
        aligned = np.float32(0.0)
        for i in range(un):
            b = beta[i]
            entering[row + i] = emit[row + i] * b * factor
            p = alpha[row + i] * b
            emit[row + i] = p
            aligned += p
        rest = np.float32(1.0) - aligned
        work.null[t] = rest if rest > np.float32(0.0) else np.float32(0.0)
        before = outside[t - 1] if t > 0 else np.float32(1.0)
        if collect and before > np.float32(1e-12):
            for i in range(n):
                start_counts[n, min(i, reach)] += before * begin[i] * entering[row + np.uintp(i)] / go
        if t == 0:
            break
        prev = row - stride
        _convolve(y, entering, t * size + margin - reach + 1, n, back)
        if n > reach:
            total = np.float32(0.0)  # Σ_{l ≤ i} entering(l): jumps from i + reach back to l
            for i in range(n - reach):
                total += entering[row + np.uintp(i)]
                y[i + reach] += far_left * total
            total = np.float32(0.0)
            for i in range(n - 1, reach - 1, -1):
                total += entering[row + np.uintp(i)]
                y[i - reach] += far_right * total
            if collect:
                whole = running[prev + un - np.uintp(1)]
                right, left = np.float32(0.0), np.float32(0.0)
                for i in range(np.uintp(n - reach)):
                    right += entering[row + i + np.uintp(reach)] * running[prev + i]
                    left += entering[row + i] * (whole - running[prev + i + np.uintp(reach - 1)])
                far_right_count += right
                far_left_count += left
        for i in range(un):
            moved[i] += leaving[prev + i] * y[i]
            beta[i] = inverse[i] * y[i] + q * beta[i]
    if collect:
        for i in range(n):
            windows[i, n - 1 - i] += moved[i]
        jump_counts[0] += far_left * max(far_left_count, 0.0)
        jump_counts[2 * reach] += far_right * far_right_count
        span = np.uintp((m - 1) * size)
        for k in range(1, 2 * reach):
            total = np.float32(0.0)
            shift = np.uintp(size + k - reach)
            for c in range(span):
                total += leaving[c] * entering[c + shift]
            jump_counts[k] += jumps.weights[k] * total
    return log_likelihood


@kernel
def _mixture(n, m, margin, jumps, p0, work, diagonal, collect, jump_counts, windows):
    """Model 1 (uniform positions) and Model 2 (by the distance from the diagonal): each word by itself."""
    reach = jumps.starts.shape[0] - 1
    size, un = n + 2 * margin, np.uintp(n)
    prior, emit = work.row[0], work.posteriors
    flat = np.float32((1.0 - p0) / n)
    for i in range(n):
        prior[i] = flat
    log_likelihood = 0.0
    for t in range(m):
        row = np.uintp(t * size + margin)
        centre = (2 * t + 1) * n // (2 * m)
        if diagonal:
            whole = np.float32(1.0 - p0) * jumps.inverse[centre, n - 1 - centre]
            for i in range(n):
                prior[i] = whole * jumps.weights[reach + max(-reach, min(reach, i - centre))]
        empty = np.float32(p0) * work.null[t]
        total = empty
        for i in range(un):
            p = emit[row + i] * prior[i]
            emit[row + i] = p
            total += p
        log_likelihood += np.log(total)
        factor = np.float32(1.0) / total
        for i in range(un):
            emit[row + i] *= factor
        work.null[t] = empty * factor
        if collect and diagonal:
            for i in range(n):
                jump_counts[reach + max(-reach, min(reach, i - centre))] += emit[row + np.uintp(i)]
            windows[centre, n - 1 - centre] += np.float32(1.0) - work.null[t]
    return log_likelihood


@kernel
def direction_posteriors(model, n, m, margin, jumps, p0, work, collect, jump_counts, windows, start_counts):
    """Posteriors of one direction of one pair, in place; returns its log-likelihood."""
    if model == HMM:
        return _hmm(n, m, margin, jumps, p0, work, collect, jump_counts, windows, start_counts)
    return _mixture(n, m, margin, jumps, p0, work, model == MODEL2, collect, jump_counts, windows)

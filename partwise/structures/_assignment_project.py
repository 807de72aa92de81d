"""Projection onto the relaxed quadratic assignment polytope by a primal-dual interior point method.

    min ½‖v − p‖²  over v = (x, y, w):  links x and fertilities y as in eq. (3.2), pairs w of links e, f with
    0 ≤ w,  w ≤ x_e,  w ≤ x_f,  x_e + x_f − 1 ≤ w                                                        (3.3)

Every iterate is strictly inside. Newton's system falls to one in the links alone: pairs and fertility parts are
eliminated one by one, pairs join only neighbouring links and the constraint of a source word its row, which makes a
narrow band when links are sorted by rows, and the target words are a correction of rank K.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._math import add_scaled

__all__ = ["project_relaxed"]

MAX_STEPS = 100
REFINE = 1


# Inner loops run over unsigned offsets into flat arrays, which lets them be vectorised. Row e of a band of stride w + 1
# holds the entries (e, e − w) … (e, e): entry (e, f) is at e·(w + 1) + w + f − e = e·w + w + f.


@kernel
def span_dot(x, at, y, start, count):
    """Σ_{g < count} x[at + g]·y[start + g]."""
    o, p = np.uintp(at), np.uintp(start)
    total = 0.0
    for g in range(np.uintp(count)):
        total += x[o + g] * y[p + g]
    return total


@kernel
def factor_band(band, n, width):
    """band ← L of the matrix LLᵀ ⪰ I of n rows. No pivot is below 1, but by rounding."""
    for e in range(n):
        low = max(0, e - width)
        for f in range(low, e + 1):
            left = max(low, f - width)
            here = e * width + width
            total = band[here + f] - span_dot(band, here + left, band, f * width + width + left, f - left)
            if f == e:
                band[here + e] = np.sqrt(max(total, 1.0))
            else:
                band[here + f] = total / band[f * width + width + f]


@kernel
def forward_band(band, width, first, n, r, at):
    """r ← L⁻¹r for r = r[at : at + n] that is 0 before ``first``."""
    for e in range(first, n):
        low, here = max(first, e - width), e * width + width
        r[at + e] = (r[at + e] - span_dot(band, here + low, r, at + low, e - low)) / band[here + e]


@kernel
def backward_band(band, width, n, r):
    """r ← L⁻ᵀr for the first n of r."""
    for e in range(n - 1, -1, -1):
        low, here = max(0, e - width), e * width + width
        r[e] /= band[here + e]
        x, o, p = r[e], np.uintp(low), np.uintp(here + low)
        for g in range(np.uintp(e - low)):
            r[o + g] -= band[p + g] * x


@kernel
def factor_dense(matrix):
    """matrix ← L of LLᵀ in its lower triangle."""
    for r in range(matrix.shape[0]):
        for c in range(r + 1):
            total = matrix[r, c]
            for k in range(c):
                total -= matrix[r, k] * matrix[c, k]
            if r == c:
                matrix[r, r] = np.sqrt(max(total, 1e-15 * matrix[r, r]))
            else:
                matrix[r, c] = total / matrix[c, c]


@kernel
def solve_dense(matrix, r):
    """r ← (LLᵀ)⁻¹r."""
    n = matrix.shape[0]
    for j in range(n):
        for k in range(j):
            r[j] -= matrix[j, k] * r[k]
        r[j] /= matrix[j, j]
    for j in range(n - 1, -1, -1):
        r[j] /= matrix[j, j]
        for k in range(j):
            r[k] -= matrix[j, k] * r[j]


@kernel
def measure(row, col, first, second, n_rows, n_words, capped, v, one, slack):
    """slack ← one·h − Gv of all constraints: words, links ≥ 0 and ≤ 1, fertilities ≥ 0 and ≤ 1, four per pair.

    The slack of a point with one = 1, the change of the slack along a step with one = 0.
    """
    n, n_pairs = row.shape[0], first.shape[0]
    n_nodes = v.shape[0] - n - n_pairs
    extra = n_nodes // n_words
    for j in range(n_words):
        slack[j] = one
        for d in range(extra):
            slack[j] += v[n + j * extra + d]
    at = n_words
    for e in range(n):
        slack[row[e]] -= v[e]
        slack[n_rows + col[e]] -= v[e]
        slack[at + e] = v[e]
        slack[at + n + e] = one - v[e] if capped else one
    at += 2 * n
    for r in range(n_nodes):
        slack[at + r] = v[n + r]
        slack[at + n_nodes + r] = one - v[n + r]
    at += 2 * n_nodes
    for q in range(n_pairs):
        w, x, z = v[n + n_nodes + q], v[first[q]], v[second[q]]
        slack[at + 4 * q] = w
        slack[at + 4 * q + 1] = x - w
        slack[at + 4 * q + 2] = z - w
        slack[at + 4 * q + 3] = one + w - x - z


@kernel
def pull(row, col, first, second, n_rows, n_words, capped, weight, out):
    """out ← out + Gᵀ weight for the constraints Gv ≤ h, in the order of ``measure``."""
    n, n_pairs = row.shape[0], first.shape[0]
    n_nodes = out.shape[0] - n - n_pairs
    extra = n_nodes // n_words
    for j in range(n_words):
        for d in range(extra):
            out[n + j * extra + d] -= weight[j]
    at = n_words
    for e in range(n):
        out[e] += weight[row[e]] + weight[n_rows + col[e]] - weight[at + e]
        if capped:
            out[e] += weight[at + n + e]
    at += 2 * n
    for r in range(n_nodes):
        out[n + r] += weight[at + n_nodes + r] - weight[at + r]
    at += 2 * n_nodes
    for q in range(n_pairs):
        zero, left, right, both = (
            weight[at + 4 * q],
            weight[at + 4 * q + 1],
            weight[at + 4 * q + 2],
            weight[at + 4 * q + 3],
        )
        out[n + n_nodes + q] += left + right - zero - both
        out[first[q]] += both - left
        out[second[q]] += both - right


@kernel
def factor_newton(
    row, col, first, second, n_rows, n_words, capped, ratio, band, width, wide, small, starts, node, word, pair
):
    """Factors I + Gᵀ diag(ratio) G: L in ``band``, L⁻¹Cᵀ in ``wide``, the columns' matrix in ``small``.

    Keeps what eliminates the rest: ``node`` the diagonals of the fertilities, ``word`` the ratio of each word without
    them, ``pair`` (P, 3) the diagonal of w and its entries towards e and f.
    """
    n, n_pairs = row.shape[0], first.shape[0]
    n_nodes = node.shape[0]
    extra = n_nodes // n_words
    n_cols = n_words - n_rows
    at = n_words + 2 * n
    for r in range(n_nodes):
        node[r] = 1.0 + ratio[at + r] + ratio[at + n_nodes + r]
    for j in range(n_words):
        total = 0.0
        for d in range(extra):
            total += 1.0 / node[j * extra + d]
        word[j] = ratio[j] / (1.0 + ratio[j] * total)
    band[:] = 0.0
    for e in range(n):
        here = e * width + width
        band[here + e] = 1.0 + ratio[n_words + e]
        if capped:
            band[here + e] += ratio[n_words + n + e]
        f = e
        while f >= 0 and row[f] == row[e]:
            band[here + f] += word[row[e]]
            f -= 1
    at += 2 * n_nodes
    for q in range(n_pairs):
        zero, left, right, both = ratio[at + 4 * q], ratio[at + 4 * q + 1], ratio[at + 4 * q + 2], ratio[at + 4 * q + 3]
        e, f = first[q], second[q]  # e < f
        own, to_e, to_f = 1.0 + zero + left + right + both, -left - both, -right - both
        pair[q, 0], pair[q, 1], pair[q, 2] = own, to_e, to_f
        # eliminated without cancellation: left + both − (left + both)²/own = (left + both)(own − left − both)/own
        band[e * width + width + e] += (left + both) * (1.0 + zero + right) / own
        band[f * width + width + f] += (right + both) * (1.0 + zero + left) / own
        band[f * width + width + e] += (both * (1.0 + zero) - left * right) / own
    factor_band(band, n, width)
    wide[:] = 0.0
    for e in range(n):
        wide[col[e] * n + e] = 1.0
    for k in range(n_cols):
        forward_band(band, width, starts[k], n, wide, k * n)
        for m in range(k + 1):
            start = max(starts[k], starts[m])
            small[k, m] = span_dot(wide, k * n + start, wide, m * n + start, n - start)
        small[k, k] += 1.0 / word[n_rows + k]
    factor_dense(small)


@kernel
def solve_newton(row, col, first, second, n_rows, n_words, band, width, wide, small, node, word, pair, r):
    """r ← (I + Gᵀ diag(ratio) G)⁻¹ r with the factors of ``factor_newton``."""
    n, n_pairs = row.shape[0], first.shape[0]
    n_nodes = node.shape[0]
    extra = n_nodes // n_words
    n_cols = n_words - n_rows
    for q in range(n_pairs):
        share = r[n + n_nodes + q] / pair[q, 0]
        r[first[q]] -= pair[q, 1] * share
        r[second[q]] -= pair[q, 2] * share
    given, filled = np.zeros(n_words), np.zeros(n_words)
    for j in range(n_words):
        for d in range(extra):
            given[j] += r[n + j * extra + d] / node[j * extra + d]
    for e in range(n):
        r[e] += word[row[e]] * given[row[e]] + word[n_rows + col[e]] * given[n_rows + col[e]]
    forward_band(band, width, 0, n, r, 0)
    u = np.zeros(n_cols)
    for k in range(n_cols):
        u[k] = span_dot(wide, k * n, r, 0, n)
    solve_dense(small, u)
    for k in range(n_cols):
        add_scaled(r, 0, -u[k], wide, k * n, n)
    backward_band(band, width, n, r)
    for e in range(n):
        filled[row[e]] += r[e]
        filled[n_rows + col[e]] += r[e]
    for j in range(n_words):
        # the excess a·Δx − ΣΔy of a word is (a·Δx − Σ r_y/H_y) / (1 + ratio Σ 1/H_y)
        excess = (filled[j] - given[j]) * word[j]
        for d in range(extra):
            r[n + j * extra + d] = (r[n + j * extra + d] + excess) / node[j * extra + d]
    for q in range(n_pairs):
        at = n + n_nodes + q
        r[at] = (r[at] - pair[q, 1] * r[first[q]] - pair[q, 2] * r[second[q]]) / pair[q, 0]


@kernel
def project_relaxed(p, row, col, first, second, n_rows, n_cols, width, push_off, v, slack, dual):
    """v ← the nearest point of the polytope to p, both (links, fertilities of source and target words, pairs).

    ``row``, ``col``: the words of each link, sorted by rows; ``first`` < ``second``: the links of each pair;
    ``width``: the largest distance of two links that share a row or a pair; ``push_off``: how large the first
    multipliers are, relative to the point. Leaves the slacks and multipliers in the order of ``measure``. Mehrotra's
    predictor and corrector with one step length. Returns the mean complementarity, ≤ 1e-15 unless rounding forbids.
    """
    n, n_pairs, n_words = row.shape[0], first.shape[0], n_rows + n_cols
    n_nodes = p.shape[0] - n - n_pairs
    capped = n_nodes > 0  # links need their bound 1 only where a word may have more than one
    m = slack.shape[0]  # n_words + 2 n + 2 n_nodes + 4 n_pairs
    live = m if capped else m - n
    ratio, push, move = np.empty(m), np.empty(m), np.zeros(m)
    band, wide, small = np.empty(n * (width + 1)), np.empty(n_cols * n), np.empty((n_cols, n_cols))
    node, word, pair = np.empty(n_nodes), np.empty(n_words), np.empty((n_pairs, 3))
    size = p.shape[0]
    residual, step, mend, change = np.empty(size), np.empty(size), np.empty(size), np.empty(m)
    degree, starts = np.zeros(n_words), np.full(n_cols, n)
    for e in range(n - 1, -1, -1):
        degree[row[e]] += 1.0
        degree[n_rows + col[e]] += 1.0
        starts[col[e]] = e
    for e in range(n):
        v[e] = 1.0 / (1.0 + max(degree[row[e]], degree[n_rows + col[e]]))
    for r in range(n_nodes):
        v[n + r] = 0.5
    for q in range(n_pairs):
        v[n + n_nodes + q] = 0.5 * min(v[first[q]], v[second[q]])
    measure(row, col, first, second, n_rows, n_words, capped, v, 1.0, slack)
    scale = 1.0
    for r in range(size):
        scale = max(scale, abs(p[r]))
    for c in range(m):
        dual[c] = push_off * scale
    if not capped:
        for e in range(n):
            dual[n_words + n + e] = 0.0
    mean, jammed = np.inf, False
    for _ in range(MAX_STEPS):
        mean, error = 0.0, 0.0
        for c in range(m):
            mean += slack[c] * dual[c]
            ratio[c] = dual[c] / slack[c]
        mean /= live
        for r in range(size):
            residual[r] = v[r] - p[r]
        pull(row, col, first, second, n_rows, n_words, capped, dual, residual)
        for r in range(size):
            error = max(error, abs(residual[r]))
        if mean <= 1e-15 and error <= 1e-11 * scale:
            break
        if error > 1e-8 * scale and mean <= 1e-9:  # rounding
            break
        factor_newton(
            row, col, first, second, n_rows, n_words, capped, ratio, band, width, wide, small, starts, node, word, pair
        )
        target = 0.0
        move[:] = 0.0
        for phase in range(2):
            # Δλ = push − ratio·move, with push = (target − the predictor's move·Δλ)/slack − λ
            for c in range(m):
                if dual[c] > 0.0:
                    push[c] = target / slack[c] - dual[c] + (move[c] / slack[c]) * (dual[c] + ratio[c] * move[c])
                else:
                    push[c] = 0.0
            for r in range(size):
                step[r] = 0.0
            pull(row, col, first, second, n_rows, n_words, capped, push, step)
            for r in range(size):
                step[r] = -residual[r] - step[r]
            solve_newton(row, col, first, second, n_rows, n_words, band, width, wide, small, node, word, pair, step)
            measure(row, col, first, second, n_rows, n_words, capped, step, 0.0, move)
            for _ in range(REFINE):  # refinement: the residual of Δv + GᵀΔλ = −residual
                for c in range(m):
                    change[c] = push[c] - ratio[c] * move[c]
                for r in range(size):
                    mend[r] = 0.0
                pull(row, col, first, second, n_rows, n_words, capped, change, mend)
                for r in range(size):
                    mend[r] = -residual[r] - step[r] - mend[r]
                solve_newton(row, col, first, second, n_rows, n_words, band, width, wide, small, node, word, pair, mend)
                for r in range(size):
                    step[r] += mend[r]
                measure(row, col, first, second, n_rows, n_words, capped, step, 0.0, move)
            length, after = 1.0, 0.0
            for c in range(m):
                push[c] -= ratio[c] * move[c]  # now Δλ
                if move[c] < 0.0:
                    length = min(length, -slack[c] / move[c])
                if push[c] < 0.0:
                    length = min(length, -dual[c] / push[c])
            if phase == 0:
                for c in range(m):
                    after += (slack[c] + length * move[c]) * (dual[c] + length * push[c])
                target = mean * (after / (live * mean)) ** 3
                if jammed:  # back to the middle, without the correction of second order
                    target = mean
                    move[:] = 0.0
        if not length > 1e-8:  # rounding, or a step that is not a number
            break
        jammed = length < 0.1
        length *= 0.995
        for r in range(size):
            v[r] += length * step[r]
        for c in range(m):
            slack[c] += length * move[c]
            dual[c] += length * push[c]
    return mean

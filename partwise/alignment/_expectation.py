"""EM over blocks of sentence pairs, both directions at once: expected counts, and tables from them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.alignment._posteriors import direction_posteriors

__all__ = ["Counts", "Tables", "add_up", "expected_counts", "maximise", "maximise_null"]

_SMALLEST = 1e-15  # probabilities below are 0: products of what is left stay normal numbers
_NULL_FLOOR = 1e-12  # every word can have the empty word as partner, or a pair might have no alignment at all


class Tables(NamedTuple):
    """Translation probabilities of one model."""

    pairs: NDArray[np.float32]  # (entries, 2): p(f | e) and p(e | f)
    null_target: NDArray[np.float32]  # (|F|,): p(f | NULL)
    null_source: NDArray[np.float32]  # (|E|,): p(e | NULL)


class Counts(NamedTuple):
    """Expected counts of one block of pairs."""

    pairs: NDArray[np.float64]  # (entries, 2)
    null_target: NDArray[np.float64]
    null_source: NDArray[np.float64]
    jumps: NDArray[np.float64]  # (2, 2·reach + 1), forward and backward
    windows: NDArray[np.float64]  # (2, longest, longest)
    starts: NDArray[np.float64]  # (2, longest + 1, reach + 1)
    likelihood: NDArray[np.float64]  # (2,)


@kernel
def expected_counts(
    model, agree, corpus, cells, start, stop, tables, forward, backward, p0, margin, work1, work2, counts
):
    """Add the expectations of pairs start:stop to ``counts``.

    With ``agree``, a link counts p(a_j = i)·p(b_i = j) in both tables, the product of the two directions'
    posteriors, eq. (5) of Liang, Taskar and Klein (2006); the jumps and the empty words count by their own model.
    """
    for s in range(start, stop):
        e0, f0, at = corpus.source_offsets[s], corpus.target_offsets[s], corpus.cell_offsets[s]
        n, m = corpus.source_offsets[s + 1] - e0, corpus.target_offsets[s + 1] - f0
        stride1, stride2, edge = np.uintp(n + 2 * margin), np.uintp(m + 2 * margin), np.uintp(margin)
        un, um, base = np.uintp(n), np.uintp(m), np.uintp(at)
        for i in range(un):
            to1, to2, c = edge + i, i * stride2 + edge, base + i * um
            for j in range(um):
                k = np.uintp(cells[c + j])
                work1.posteriors[to1 + j * stride1] = tables.pairs[k, 0]
                work2.posteriors[to2 + j] = tables.pairs[k, 1]
        for j in range(m):
            work1.null[j] = tables.null_target[corpus.target[f0 + j]]
        for i in range(n):
            work2.null[i] = tables.null_source[corpus.source[e0 + i]]
        jumps, windows, starts = counts.jumps, counts.windows, counts.starts
        counts.likelihood[0] += direction_posteriors(
            model, n, m, margin, forward, p0, work1, True, jumps[0], windows[0], starts[0]
        )
        counts.likelihood[1] += direction_posteriors(
            model, m, n, margin, backward, p0, work2, True, jumps[1], windows[1], starts[1]
        )
        for i in range(un):
            to1, to2, c = edge + i, i * stride2 + edge, base + i * um
            for j in range(um):
                k = np.uintp(cells[c + j])
                p, q = work1.posteriors[to1 + j * stride1], work2.posteriors[to2 + j]
                if agree:
                    p *= q
                    q = p
                counts.pairs[k, 0] += p
                counts.pairs[k, 1] += q
        for j in range(m):
            counts.null_target[corpus.target[f0 + j]] += work1.null[j]
        for i in range(n):
            counts.null_source[corpus.source[e0 + i]] += work2.null[i]


@kernel
def _exp_digamma(x):
    """exp(ψ(x)): by recurrence up to 6 and the asymptotic series there."""
    shift = 0.0
    while x < 6.0:
        shift += 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    psi = math.log(x) - 0.5 / x - r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r / 240.0)))
    return math.exp(psi - shift)


@kernel
def _probability(count, total, prior):
    """count / total; with a Dirichlet prior exp ψ(count + prior) / total, where the caller has prepared the total."""
    p = count / total if prior <= 0.0 else _exp_digamma(count + prior) / total
    return np.float32(p if p > _SMALLEST else 0.0)


@kernel
def add_up(rows, columns, blocks, totals_source, totals_target):
    """blocks[0] ← the counts of all blocks (blocks, entries, 2), of the given rows; the others ← 0.

    totals_source[e] ← Σ_f of the first direction, totals_target[f] += (Σ_e of the second, number of entries).
    """
    for e in range(rows.shape[0] - 1):
        total = 0.0
        for k in range(rows[e], rows[e + 1]):
            first, second = blocks[0, k, 0], blocks[0, k, 1]
            for b in range(1, blocks.shape[0]):
                first += blocks[b, k, 0]
                second += blocks[b, k, 1]
                blocks[b, k, 0] = 0.0
                blocks[b, k, 1] = 0.0
            blocks[0, k, 0], blocks[0, k, 1] = first, second
            total += first
            totals_target[columns[k], 0] += second
            totals_target[columns[k], 1] += 1.0
        totals_source[e] = total


@kernel
def _denominator(total, n, prior):
    """What the n counts of a word are divided by."""
    if prior > 0.0:
        total = _exp_digamma(total + prior * n)
    return total if total > 0.0 else 1.0


@kernel
def maximise(rows, columns, counts, prior, totals_source, totals_target, pairs):
    """pairs ← the tables of the counts (entries, 2), which are zeroed, of the given rows.

    prior > 0: variational Bayes with a symmetric Dirichlet over the words that occur together with the given one.
    """
    below = np.empty(totals_target.shape[0])
    for f in range(totals_target.shape[0]):
        below[f] = _denominator(totals_target[f, 0], totals_target[f, 1], prior)
    for e in range(rows.shape[0] - 1):
        total = _denominator(totals_source[e], rows[e + 1] - rows[e], prior)
        for k in range(rows[e], rows[e + 1]):
            pairs[k, 0] = _probability(counts[k, 0], total, prior)
            pairs[k, 1] = _probability(counts[k, 1], below[columns[k]], prior)
            counts[k, 0] = 0.0
            counts[k, 1] = 0.0


@kernel
def maximise_null(counts, table):
    """p(w | NULL) ∝ counts, never quite 0."""
    total = counts.sum()
    for w in range(counts.shape[0]):
        table[w] = np.float32(max(counts[w] / max(total, 1e-300), _NULL_FLOOR))

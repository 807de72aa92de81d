"""Posteriors and best alignments of new pairs, both directions."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.alignment._posteriors import MODEL2, direction_posteriors
from partwise.alignment._viterbi import best_positions

__all__ = ["pair_alignments", "pair_matrices"]


@kernel
def _load(corpus, cells, s, tables, unseen, margin, work1, work2):
    """p(t | i) of both directions of pair s into the work arrays; returns (I, J).

    A word that was not in the training data (code −1) says nothing about its partner: all positions explain it alike.
    As a partner it explains each word with the probability 1/|vocabulary|; words seen, but not together: ``unseen``.
    """
    n_source, n_target = tables.null_source.shape[0], tables.null_target.shape[0]
    e0, f0, at = corpus.source_offsets[s], corpus.target_offsets[s], corpus.cell_offsets[s]
    n, m = corpus.source_offsets[s + 1] - e0, corpus.target_offsets[s + 1] - f0
    stride1, stride2 = n + 2 * margin, m + 2 * margin
    for i in range(n):
        for j in range(m):
            k, e, f = cells[at + i * m + j], corpus.source[e0 + i], corpus.target[f0 + j]
            p, q = np.float32(unseen), np.float32(unseen)
            if k >= 0:
                p, q = max(p, tables.pairs[k, 0]), max(q, tables.pairs[k, 1])
            if e < 0:
                p, q = np.float32(1.0 / n_target), np.float32(1.0)
            if f < 0:
                p, q = np.float32(1.0), np.float32(1.0 if e < 0 else 1.0 / n_source)
            work1.posteriors[j * stride1 + margin + i] = p
            work2.posteriors[i * stride2 + margin + j] = q
    for j in range(m):
        f = corpus.target[f0 + j]
        work1.null[j] = tables.null_target[f] if f >= 0 else np.float32(1.0)
    for i in range(n):
        e = corpus.source[e0 + i]
        work2.null[i] = tables.null_source[e] if e >= 0 else np.float32(1.0)
    return n, m


@kernel
def pair_matrices(
    model, corpus, cells, start, stop, tables, forward, backward, p0, unseen, margin, work1, work2, out1, out2, logs
):
    """out1, out2 ← posteriors of both directions in the order of the cells; logs ← log-likelihoods."""
    none, nowhere = np.zeros(0), np.zeros((0, 0))
    for s in range(start, stop):
        n, m = _load(corpus, cells, s, tables, unseen, margin, work1, work2)
        at = corpus.cell_offsets[s]
        logs[s, 0] = direction_posteriors(model, n, m, margin, forward, p0, work1, False, none, nowhere, nowhere)
        logs[s, 1] = direction_posteriors(model, m, n, margin, backward, p0, work2, False, none, nowhere, nowhere)
        for i in range(n):
            for j in range(m):
                out1[at + i * m + j] = work1.posteriors[j * (n + 2 * margin) + margin + i]
                out2[at + i * m + j] = work2.posteriors[i * (m + 2 * margin) + margin + j]


@kernel
def pair_alignments(
    model, corpus, cells, start, stop, tables, forward, backward, p0, unseen, margin, work1, work2, best1, best2
):
    """best1[j], best2[i] ← the partner of each target and each source word in the best alignment; −1 is none."""
    for s in range(start, stop):
        n, m = _load(corpus, cells, s, tables, unseen, margin, work1, work2)
        e0, f0 = corpus.source_offsets[s], corpus.target_offsets[s]
        best_positions(model, model == MODEL2, n, m, margin, forward, p0, work1, best1[f0 : f0 + m])
        best_positions(model, model == MODEL2, m, n, margin, backward, p0, work2, best2[e0 : e0 + n])

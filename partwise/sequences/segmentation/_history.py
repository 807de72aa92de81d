"""Features of what came before a chunk, for searches: hashed weights of the labels and the codes at its border.

Exact search is for first-order models; a search that keeps whole hypotheses may look at two labels back, and at labels
together with what stands on both sides of the border. The contexts of a label b that follows labels b₁ and b₂ at token
t are listed by ``pair_sums`` (they need b₁ only and are scored once per token and b₁) and ``triple_sums``. The hash is
multilinear, so that a context is hashed once for all b: its sum lacks b·factor, which ``place`` adds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.sequences.segmentation._keys import FACTOR_B, FACTOR_C, key_end, key_sum

__all__ = ["PAIRS", "TRIPLES", "History", "add_weights", "pair_sums", "place", "triple_sums"]

#: Contexts of two labels: per base 4; contexts of three labels: 1 and per base 1.
PAIRS, TRIPLES = 4, 1

#: What label b adds to the sum of a context, per unit of b.
PAIR_FACTOR, TRIPLE_FACTOR = FACTOR_B, FACTOR_C


class History(NamedTuple):
    """Where the hashed weights are, and the codes of the tokens that they are of."""

    codes: NDArray[np.int32]  # (bases, tokens), −1 where unknown
    base: int
    mask: int  # size of the table − 1; −1 for no history at all


@kernel
def pair_sums(history, start, length, t, b1, sums):
    """sums ← contexts of a label after label b1 at token t, those with an unknown code left out; returns how many."""
    n = 0
    for k in range(history.codes.shape[0]):
        here = np.int64(history.codes[k, start + t])
        before = np.int64(history.codes[k, start + t - 1]) if t > 0 else np.int64(-2)
        after = np.int64(history.codes[k, start + t + 1]) if t + 1 < length else np.int64(-2)
        kind = PAIRS * k
        if here != -1:
            sums[n] = key_sum(kind, b1, 0, here, 0)
            n += 1
        if before != -1:
            sums[n] = key_sum(kind + 1, b1, 0, before, 0)
            n += 1
        if here != -1 and before != -1:
            sums[n] = key_sum(kind + 2, b1, 0, here, before)
            n += 1
        if here != -1 and after != -1:
            sums[n] = key_sum(kind + 3, b1, 0, here, after)
            n += 1
    return n


@kernel
def triple_sums(history, start, t, b2, b1, sums):
    """sums ← contexts of a label after labels b2 and b1 at token t; returns how many."""
    sums[0] = key_sum(-1, b2, b1, 0, 0)
    n = 1
    for k in range(history.codes.shape[0]):
        code = np.int64(history.codes[k, start + t])
        if code != -1:
            sums[n] = key_sum(-2 - k, b2, b1, 0, code)
            n += 1
    return n


@kernel
def place(history, context, factor, b):
    """The weight of label b in a context."""
    return history.base + (key_end(context + np.uint64(b) * factor) & np.int64(history.mask))


@kernel
def add_weights(history, theta, sums, n, factor, totals, at, n_labels):
    """totals[at + b] += the weights of label b in n contexts, for all b."""
    for j in range(n):
        for b in range(n_labels):
            totals[at + b] += theta[place(history, sums[j], factor, b)]

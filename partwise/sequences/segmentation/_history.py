"""Features of what came before a chunk, for searches: hashed weights of the labels and the codes at its border.

Exact search is for first-order models; a search that keeps whole hypotheses may look at two labels back, and at labels
together with what stands on both sides of the border. The contexts of a label b that follows labels b₁ and b₂ at token
t are listed in ``pair_places`` (they need b₁ only and are computed once per token and b₁) and ``triple_places``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.sequences.segmentation._keys import key_of

__all__ = ["PAIRS", "TRIPLES", "History", "pair_places", "triple_places"]

#: Contexts of two labels: per base 4; contexts of three labels: 1 and per base 1.
PAIRS, TRIPLES = 4, 1


class History(NamedTuple):
    """Where the hashed weights are, and the codes of the tokens that they are of."""

    codes: NDArray[np.int32]  # (bases, tokens), −1 where unknown
    base: int
    mask: int  # size of the table − 1; −1 for no history at all


@kernel
def pair_places(history, start, length, t, b1, b, places):
    """places ← weights of label b after label b1 at token t, −1 where a code is unknown; returns how many."""
    mask, n = np.int64(history.mask), 0
    for k in range(history.codes.shape[0]):
        here = np.int64(history.codes[k, start + t])
        before = np.int64(history.codes[k, start + t - 1]) if t > 0 else np.int64(-2)
        after = np.int64(history.codes[k, start + t + 1]) if t + 1 < length else np.int64(-2)
        kind = PAIRS * k
        places[n] = history.base + (key_of(kind, b1, b, here, 0) & mask) if here != -1 else -1
        places[n + 1] = history.base + (key_of(kind + 1, b1, b, before, 0) & mask) if before != -1 else -1
        both, next_to = here != -1 and before != -1, here != -1 and after != -1
        places[n + 2] = history.base + (key_of(kind + 2, b1, b, here, before) & mask) if both else -1
        places[n + 3] = history.base + (key_of(kind + 3, b1, b, here, after) & mask) if next_to else -1
        n += PAIRS
    return n


@kernel
def triple_places(history, start, t, b2, b1, b, places):
    """places ← weights of label b after labels b2 and b1 at token t; returns how many."""
    mask = np.int64(history.mask)
    places[0] = history.base + (key_of(-1, b2, b1, b, 0) & mask)
    n = 1
    for k in range(history.codes.shape[0]):
        code = np.int64(history.codes[k, start + t])
        places[n] = history.base + (key_of(-2 - k, b2, b1, b, code) & mask) if code != -1 else -1
        n += 1
    return n

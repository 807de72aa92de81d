"""Inside–outside of a probabilistic grammar over all spans of a sentence: the coarse pass.

Probabilities, not logarithms. Those of a span are divided by the largest of them, whose logarithm is kept as the scale
of the span, so sentences of any length stay in range; the outside ones carry the scale of their span, so that inside
times outside is the posterior itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.structures._grammar_space import span_number

__all__ = ["PcfgPack", "posteriors"]

#: Symbols whose inside probability is below this share of the best of their span are left out of it.
SMALL = 1e-11
#: Spans and symbols with a smaller posterior are not followed down.
UNLIKELY = 1e-9


class PcfgPack(NamedTuple):
    """p(A → B C | A is built), p(chain | A), p(A is built | A), p(A | the top)."""

    starts: NDArray[np.int32]  # (S + 1,) rules by their left child
    head: NDArray[np.int32]
    right: NDArray[np.int32]
    probability: NDArray[np.float64]
    stay: NDArray[np.float64]  # (S,)
    chain_head: NDArray[np.int32]
    chain_bottom: NDArray[np.int32]
    chain_probability: NDArray[np.float64]
    chain_starts: NDArray[np.int32]  # the symbols between head and bottom, those of chain r are middle[starts[r]:…]
    middle: NDArray[np.int32]
    root: NDArray[np.float64]  # (S,)


@kernel
def _inside(pack, n, tag_starts, tags, weights, built, top, scale):
    """Fill built[span, A] and top[span, A], scaled; scale[span] is −inf where nothing derives the words."""
    S = pack.stay.shape[0]
    active, counts = np.empty((top.shape[0], S), np.int32), np.zeros(top.shape[0], np.int64)
    for width in range(1, n + 1):
        for s in range(n - width + 1):
            e = s + width
            span = span_number(s, e)
            here = built[span]
            here[:] = 0.0
            size = -np.inf
            if width == 1:
                size = 0.0
                for j in range(tag_starts[s], tag_starts[e]):
                    here[tags[j]] = weights[j]
            for m in range(s + 1, e):
                size = max(size, scale[span_number(s, m)] + scale[span_number(m, e)])
            if size == -np.inf:
                scale[span] = size
                top[span, :] = 0.0
                continue
            for m in range(s + 1, e):
                one, two = span_number(s, m), span_number(m, e)
                if counts[one] == 0 or counts[two] == 0:
                    continue
                factor = math.exp(scale[one] + scale[two] - size)
                if factor == 0.0:
                    continue
                far = top[two]
                for j in range(counts[one]):
                    b = active[one, j]
                    x = factor * top[one, b]
                    for r in range(pack.starts[b], pack.starts[b + 1]):
                        here[pack.head[r]] += x * pack.probability[r] * far[pack.right[r]]
            for a in range(S):
                top[span, a] = here[a] * pack.stay[a]
            for r in range(pack.chain_head.shape[0]):
                top[span, pack.chain_head[r]] += pack.chain_probability[r] * here[pack.chain_bottom[r]]
            best = 0.0
            for a in range(S):
                best = max(best, max(top[span, a], here[a]))
            if best == 0.0:
                scale[span] = -np.inf
                continue
            scale[span] = size + math.log(best)
            for a in range(S):
                here[a] = here[a] / best if here[a] > SMALL * best else 0.0
                top[span, a] = top[span, a] / best if top[span, a] > SMALL * best else 0.0
                if top[span, a] > 0.0:
                    active[span, counts[span]] = a
                    counts[span] += 1
    return active, counts


@kernel
def posteriors(pack, n, tag_starts, tags, weights, threshold, allowed, best_tags):
    """allowed[span, A] ← whether the posterior of A over the span is at least ``threshold``; returns log p(words).

    ``best_tags[t]`` ← the symbol over word t alone that is most probable as a part of speech. O(n³ rules), the way down
    only where there is mass. Returns −inf where the grammar derives no tree; ``allowed`` is all zeros then.
    """
    S, spans = pack.stay.shape[0], n * (n + 1) // 2
    built, top, scale = np.zeros((spans, S)), np.zeros((spans, S)), np.empty(spans)
    active, counts = _inside(pack, n, tag_starts, tags, weights, built, top, scale)
    whole = span_number(0, n)
    total = 0.0
    for a in range(S):
        total += pack.root[a] * top[whole, a]
    allowed[:, :] = 0
    if total == 0.0 or scale[whole] == -np.inf:
        return -np.inf
    outside = np.zeros((spans, S))
    for a in range(S):
        outside[whole, a] = pack.root[a] / total
    making, chained = np.empty(S), np.empty(S)  # mass of what is built, of what chains hold above it
    for width in range(n, 0, -1):
        for s in range(n - width + 1):
            e = s + width
            span = span_number(s, e)
            above = outside[span]
            alive = False
            for a in range(S):
                making[a], chained[a] = above[a] * pack.stay[a], 0.0
                if above[a] * top[span, a] > UNLIKELY:
                    alive = True
            if not alive:
                continue
            for r in range(pack.chain_head.shape[0]):
                a, b = pack.chain_head[r], pack.chain_bottom[r]
                share = above[a] * pack.chain_probability[r]
                if share > 0.0 and built[span, b] > 0.0:
                    making[b] += share
                    share *= built[span, b]
                    chained[a] += share
                    for j in range(pack.chain_starts[r], pack.chain_starts[r + 1]):
                        chained[pack.middle[j]] += share
            best = 0.0
            for a in range(S):
                mass = making[a] * built[span, a]
                if mass >= threshold or chained[a] >= threshold:
                    allowed[span, a] = 1
                if mass < UNLIKELY:
                    making[a] = 0.0
                if width == 1 and mass > best:
                    best = mass
                    best_tags[s] = a
            for m in range(s + 1, e):
                one, two = span_number(s, m), span_number(m, e)
                if counts[one] == 0 or counts[two] == 0:
                    continue
                factor = math.exp(scale[one] + scale[two] - scale[span])
                if factor == 0.0:
                    continue
                near, far = outside[one], outside[two]
                for j in range(counts[one]):
                    b = active[one, j]
                    x, mass = top[one, b], 0.0
                    for r in range(pack.starts[b], pack.starts[b + 1]):
                        share = making[pack.head[r]]
                        if share > 0.0:
                            share *= pack.probability[r] * factor
                            mass += share * top[two, pack.right[r]]
                            far[pack.right[r]] += share * x
                    near[b] += mass
    return scale[whole] + math.log(total)

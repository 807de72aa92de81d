"""Transition features of a chain: one weight for each (history, label), shared by all positions.

A chain of order k has weights for every history length j = 1..k. The score of a transition is the sum of the weights
of its own history and of all shorter ones, W_j(y_{t−j..t}) + … + W_1(y_{t−1}, y_t): a pair weight is learned
from all positions, and a longer history only adds what the pair does not say.

:class:`TiedTransitions` are those of a tied chain, whose parts are counts; :class:`RepeatedTransitions` score every
position's own parts of an untied chain with the same weights, laid out in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._math import add_scaled, fill
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear

__all__ = ["RepeatedTransitions", "TiedTransitions", "repeated_parts"]


class TiedTransitions(NamedTuple):
    """Weights theta[base:base + Σ_j L^{j+1}], blocks of rising history length, as the chain's parts are."""

    n_outputs: int
    blocks: NDArray[np.int64]  # (order + 2,) as in ChainSpace
    base: int


@feature_parts.register(TiedTransitions)
def _(features, i):
    return features.blocks[-1]


@feature_scores.register(TiedTransitions)
def _(features, i, theta, scores, at):
    blocks, base = features.blocks, features.base
    fill(scores, at, blocks[2], 0.0)
    add_scaled(scores, at, 1.0, theta, base, blocks[2])  # L² pairs
    for j in range(2, blocks.shape[0] - 1):  # block j repeats the block of the shorter history L times
        shorter, block = blocks[j - 1], blocks[j]
        period = block - shorter
        for r in range(blocks[j + 1] - block):
            scores[at + block + r] = theta[base + block + r] + scores[at + shorter + r % period]


@accumulate.register(TiedTransitions)
def _(features, i, parts, at, step, theta):
    blocks, base = features.blocks, features.base
    add_scaled(theta, base, step, parts, at, blocks[-1])
    for j in range(2, blocks.shape[0] - 1):  # what a longer history counts, every shorter one counts too
        for r in range(blocks[j + 1] - blocks[j]):
            x = step * parts[at + blocks[j] + r]
            if x != 0.0:
                for q in range(1, j):
                    theta[base + blocks[q] + r % (blocks[q + 1] - blocks[q])] += x


@norm_and_clear.register(TiedTransitions)
def _(features, i, parts, at, scratch):
    total = 0.0
    for j in range(features.base, features.base + features.blocks[-1]):
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total


class RepeatedTransitions(NamedTuple):
    """The weights of :class:`TiedTransitions`, once more for every position of an untied chain."""

    offsets: NDArray[np.int64]  # (n + 1,) positions of instance i
    blocks: NDArray[np.int64]  # (order + 2,) as in ChainSpace
    base: int


@feature_parts.register(RepeatedTransitions)
def _(features, i):
    blocks, order = features.blocks, features.blocks.shape[0] - 2
    edges = features.offsets[i + 1] - features.offsets[i] - 1
    return blocks[min(edges, order) + 1] + max(edges - order, 0) * (blocks[order + 1] - blocks[order])


def repeated_parts(features: RepeatedTransitions) -> NDArray[np.int64]:
    """Parts of every instance, as ``feature_parts`` counts them."""
    blocks, order = features.blocks, len(features.blocks) - 2
    edges = np.diff(features.offsets) - 1
    result: NDArray[np.int64] = blocks[np.minimum(edges, order) + 1] + np.maximum(edges - order, 0) * (
        blocks[order + 1] - blocks[order]
    )
    return result


@feature_scores.register(RepeatedTransitions)
def _(features, i, theta, scores, at):
    blocks, base, order = features.blocks, features.base, features.blocks.shape[0] - 2
    edges = features.offsets[i + 1] - features.offsets[i] - 1
    for j in range(1, min(edges, order) + 1):  # the first positions have shorter histories: a block each
        block, size = blocks[j], blocks[j + 1] - blocks[j]
        fill(scores, at + block, size, 0.0)
        for q in range(1, j + 1):
            period = blocks[q + 1] - blocks[q]
            for r in range(0, size, period):
                add_scaled(scores, at + block + r, 1.0, theta, base + blocks[q], period)
    size = blocks[order + 1] - blocks[order]
    for t in range(1, edges - order + 1):
        fill(scores, at + blocks[order] + t * size, size, 0.0)
        add_scaled(scores, at + blocks[order] + t * size, 1.0, scores, at + blocks[order], size)


@accumulate.register(RepeatedTransitions)
def _(features, i, parts, at, step, theta):
    blocks, base, order = features.blocks, features.base, features.blocks.shape[0] - 2
    start = at
    for t in range(1, features.offsets[i + 1] - features.offsets[i]):
        j = min(t, order)
        size = blocks[j + 1] - blocks[j]
        for q in range(1, j + 1):
            period = blocks[q + 1] - blocks[q]
            for r in range(0, size, period):
                add_scaled(theta, base + blocks[q], step, parts, start + r, period)
        start += size


@norm_and_clear.register(RepeatedTransitions)
def _(features, i, parts, at, scratch):
    total = 0.0
    for j in range(features.base, features.base + features.blocks[-1]):
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total

"""Features of edges that ask for agreement, for factor graphs: a table of scores that is −uᵀw off the diagonal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear

__all__ = ["DisagreementRows"]


class DisagreementRows(NamedTuple):
    """Rows with D numbers each; row r scores L × L pairs of labels: 0 where they agree, −x_r·w where they do not."""

    offsets: NDArray[np.int64]  # (n + 1,)
    x: NDArray[np.float64]  # (rows, D)
    n_labels: int
    base: int  # where the D weights begin in θ


@feature_parts.register(DisagreementRows)
def _(features, i):
    return (features.offsets[i + 1] - features.offsets[i]) * features.n_labels * features.n_labels


@feature_scores.register(DisagreementRows)
def _(features, i, theta, scores, at):
    L = features.n_labels
    for r in range(features.offsets[i], features.offsets[i + 1]):
        price = 0.0
        for d in range(features.x.shape[1]):
            price += features.x[r, d] * theta[features.base + d]
        start = at + (r - features.offsets[i]) * L * L
        for a in range(L):
            for b in range(L):
                scores[start + a * L + b] = 0.0 if a == b else -price


@accumulate.register(DisagreementRows)
def _(features, i, parts, at, step, theta):
    L = features.n_labels
    for r in range(features.offsets[i], features.offsets[i + 1]):
        start = at + (r - features.offsets[i]) * L * L
        mass = 0.0
        for a in range(L):
            for b in range(L):
                if a != b:
                    mass += parts[start + a * L + b]
        if mass != 0.0:
            for d in range(features.x.shape[1]):
                theta[features.base + d] -= step * mass * features.x[r, d]


@norm_and_clear.register(DisagreementRows)
def _(features, i, parts, at, scratch):
    total = 0.0
    for j in range(features.base, features.base + features.x.shape[1]):
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total

"""Compiled loops over sentences for second-order trees: decoding with its certificate, and beliefs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.features.base import feature_scores
from partwise.structures._second_order_beliefs import DAMPING, MOST_ROUNDS, propagate, soft_arcs
from partwise.structures._second_order_kernels import best_labels, decompose
from partwise.structures._second_order_ranked import ranked_trees
from partwise.structures._second_order_space import layout

__all__ = ["Certified", "Propagated", "Ranked", "belief_tables", "second_order_lists", "second_order_trees"]

Floats = NDArray[np.float64]


class Certified(NamedTuple):
    """Scores of the trees found and upper bounds on the scores of all trees, one per sentence."""

    values: Floats
    bounds: Floats
    iterations: NDArray[np.int64]

    @property
    def optimal(self) -> NDArray[np.bool_]:
        """Which trees are proved to be the best over the candidate arcs."""
        return self.bounds - self.values <= 1e-6 * (1.0 + np.abs(self.values))


@kernel
def second_order_trees(space, features, theta, start, stop, heads, labels, values, bounds, iterations):
    """The best tree that dual decomposition finds of instances start:stop, with its certificate."""
    for i in range(start, stop):
        scores = np.empty(space.parts[i + 1] - space.parts[i])
        feature_scores(features, i, theta, scores, 0)
        lay = layout(space, i)
        first = space.offsets[i]
        n, count = space.offsets[i + 1] - first, lay.heads.shape[0]
        arc_scores, best, tree = np.empty(count), np.empty(count, np.int64), np.zeros(n + 1, np.int64)
        best_labels(lay, space.n_labels, scores, arc_scores, best)
        values[i], bounds[i], iterations[i] = decompose(
            lay,
            n,
            arc_scores,
            scores,
            space.single_root,
            space.max_iterations,
            np.zeros(2 * count),
            -np.inf,
            -np.inf,
            tree,
        )
        for m in range(1, n + 1):
            heads[first + m - 1], labels[first + m - 1] = lay.heads[tree[m]], best[tree[m]]


class Ranked(NamedTuple):
    """The best trees of every sentence: word by word the heads and labels of the r-th, and the scores."""

    heads: NDArray[np.int64]  # (k, words)
    labels: NDArray[np.int64]  # (k, words)
    values: Floats  # (sentences, k)
    counts: NDArray[np.int64]  # (sentences,) how many there are
    rest: Floats  # (sentences,) an upper bound on the scores of all other trees


@kernel
def second_order_lists(space, features, theta, start, stop, found):
    """The k best trees of instances start:stop, with what is known of all others."""
    k = found.values.shape[1]
    for i in range(start, stop):
        scores = np.empty(space.parts[i + 1] - space.parts[i])
        feature_scores(features, i, theta, scores, 0)
        lay, first = layout(space, i), space.offsets[i]
        n = space.offsets[i + 1] - first
        trees, names = np.zeros((k, n + 1), np.int64), np.zeros((k, n + 1), np.int64)
        found.counts[i], found.rest[i] = ranked_trees(
            lay, n, space.n_labels, scores, space.single_root, space.max_iterations, trees, names, found.values[i]
        )
        for r in range(found.counts[i]):
            for m in range(1, n + 1):
                found.heads[r, first + m - 1], found.labels[r, first + m - 1] = lay.heads[trees[r, m]], names[r, m]


class Propagated(NamedTuple):
    """The results of belief propagation for every sentence."""

    log_partitions: Floats  # (n,) Bethe's
    rounds: NDArray[np.int64]  # (n,)
    converged: NDArray[np.bool_]  # (n,)


@kernel
def belief_tables(space, features, theta, beta, start, stop, offsets, arcs, labelled, parts_out, found):
    """arcs[offsets[i]:] ← the (n + 1, n) beliefs in arcs by loopy propagation; those of labels where ``labelled``."""
    L = space.n_labels
    for i in range(start, stop):
        scores = np.empty(space.parts[i + 1] - space.parts[i])
        feature_scores(features, i, theta, scores, 0)
        for r in range(scores.shape[0]):
            scores[r] *= beta
        lay = layout(space, i)
        n, count = space.offsets[i + 1] - space.offsets[i], lay.heads.shape[0]
        arc_scores, mass, parts = np.empty(count), np.zeros(count), np.zeros(scores.shape[0])
        soft_arcs(L, scores, arc_scores, parts)
        found.log_partitions[i], found.rounds[i], found.converged[i] = propagate(
            lay, n, arc_scores, scores, space.single_root, MOST_ROUNDS, DAMPING, mass, parts
        )
        for a in range(count):
            place = offsets[i] + lay.heads[a] * n + lay.modifiers[a] - 1
            arcs[place] = mass[a]
            if labelled:
                for b in range(L):
                    parts_out[place * L + b] = mass[a] * parts[a * L + b]

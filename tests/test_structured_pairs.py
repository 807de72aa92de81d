"""AD³ and BP with a whole structure as one factor: dependency trees with pairs of arcs, against enumeration."""

from __future__ import annotations

import numpy as np
import oracles

from partwise.structures.arborescence import Arborescence
from partwise.structures.graphs.ad3 import Ad3Settings
from partwise.structures.graphs.messages import Schedule
from partwise.structures.graphs.structured import PairSpace, pair_graphs, pair_marginals, relax_pairs


def test_trees_with_pairs_of_arcs() -> None:
    rng = np.random.default_rng(0)
    words = 3
    trees = Arborescence([words], single_root=False)
    n = trees.n_parts(0)
    instance = oracles.enumerate_trees(words, None, False, False, np.ones((words + 1, words), bool), [-1] * words)
    pairs = np.array([(a, b) for a in range(n) for b in range(a)])
    tight = 0
    for _ in range(25):
        chosen = rng.permutation(pairs)[:6]
        space = PairSpace(trees.pack, pair_graphs([n], [chosen]))
        scores = rng.normal(size=n + len(chosen))
        arcs = instance.parts
        values = arcs @ scores[:n] + (arcs[:, chosen[:, 0]] * arcs[:, chosen[:, 1]]) @ scores[n:]
        parts = np.empty(len(scores))
        bound, _, residual = relax_pairs(space, 0, scores, Ad3Settings(2000, 1e-8, 1e-9, 5, 0), parts)
        assert bound >= values.max() - 1e-9
        assert residual <= 1e-8
        np.testing.assert_allclose(parts @ scores, bound, atol=1e-4)
        if np.abs(parts - parts.round()).max() < 1e-4:
            tight += 1
            np.testing.assert_allclose(bound, values.max(), atol=1e-5)
        schedule = Schedule(500, 1e-9, 0.3, 0.1)
        log_z, _, residual = pair_marginals(space, 0, np.concatenate([scores[:n], 0.1 * scores[n:]]), schedule, parts)
        values = arcs @ scores[:n] + 0.1 * (arcs[:, chosen[:, 0]] * arcs[:, chosen[:, 1]]) @ scores[n:]
        p = np.exp(values - values.max())
        assert residual <= 1e-9
        np.testing.assert_allclose(parts[:n], p @ arcs / p.sum(), atol=0.06)  # weak pairs: near the truth
        np.testing.assert_allclose(log_z, np.log(p.sum()) + values.max(), atol=0.1)
        free = np.concatenate([scores[:n], np.zeros(len(chosen))])  # pairs without score: exact
        log_z, _, _ = pair_marginals(space, 0, free, schedule, parts)
        np.testing.assert_allclose(log_z, instance.log_partition(scores[:n]), atol=1e-7)
        np.testing.assert_allclose(parts[:n], instance.marginals(scores[:n]), atol=1e-7)
    assert tight > 10

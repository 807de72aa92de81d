"""A structure of your own in plain Python: which run of items to select.

Each instance is a row of items with a few measurements each, and the output is one run (a, b) of neighbouring items.
An exact argmax is all that the library asks for; the rest of the training is the same as for its own structures.
"""

from __future__ import annotations

import numpy as np

from partwise import Hamming, Structure, StructuredClassifier


class Run(Structure):
    """y = (a, b), 0 ≤ a < b ≤ n: items a … b − 1. One part per item, all of them atoms, so that the cost counts
    items.
    """

    def __init__(self, X):
        self.sizes = [len(x) for x in X]

    def __len__(self):
        return len(self.sizes)

    def n_parts(self, i):
        return self.sizes[i]

    def encode(self, i, y):
        items = np.arange(self.sizes[i])
        return ((y[0] <= items) & (items < y[1])).astype(float)

    def decode(self, i, parts):
        inside = np.flatnonzero(parts)
        return int(inside[0]), int(inside[-1]) + 1

    def argmax(self, i, scores):
        ends = np.append(0.0, np.cumsum(scores))  # the score of (a, b) is ends[b] − ends[a]
        starts = [int(np.argmin(ends[:b])) for b in range(1, len(ends))]
        values = [ends[b + 1] - ends[a] for b, a in enumerate(starts)]
        b = int(np.argmax(values))
        return self.encode(i, (starts[b], b + 1))


def measure(n, seed):
    """Rows of items whose first measurement is larger inside the run, and the runs."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(4, 12))
        a = int(rng.integers(size - 1))
        b = int(rng.integers(a + 1, size + 1))
        inside = (np.arange(size) >= a) & (np.arange(size) < b)
        X.append(np.column_stack([inside + 0.6 * rng.normal(size=size), rng.normal(size=size), np.ones(size)]))
        y.append((a, b))
    return X, y


if __name__ == "__main__":
    X, y = measure(200, seed=0)
    # a column of F_i for each part: here the measurements of its item
    cost = Hamming(false_positive=1, false_negative=1)
    model = StructuredClassifier(Run, features=lambda X: [x.T for x in X], learner="n_slack", C=0.1, cost=cost)
    model.fit(X, y)
    print("weights", model.theta_.round(2), "relative gap", model.result_.certificate.relative_gap)
    print("wrong items per row", -model.score(*measure(200, seed=1)))

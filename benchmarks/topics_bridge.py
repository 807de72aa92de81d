"""Speed of fixed-T training and of bridge sampling on 20 Newsgroups, on one thread.

The thesis reports about 2 minutes for its C program on the test part of "1 vs. 20" (80k tokens, two classes,
K = 60, 2,500 samples after 200). Measured here: that task; the 20-class task (K = 110) on a sample of the
test documents, with every class sampled in full, and with hopeless classes screened out by a pilot run.

    python benchmarks/topics_bridge.py [--documents 400] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from partwise.topics import DiscLDA, count_newsgroups

THESIS_SECONDS = 120.0  # per 80,000 tokens
SETTINGS: dict[str, Any] = {"n_samples": 2500, "burn_in": 200, "random_state": 0}


def timed(model: DiscLDA, X: Any) -> float:
    """Seconds per 80,000 tokens of ``predict_proba``, compiled beforehand."""
    model.predict_proba(X[:2])
    start = time.perf_counter()
    model.predict_proba(X)
    return float((time.perf_counter() - start) / X.sum() * 80_000)


def report(name: str, seconds: float) -> None:
    faster = THESIS_SECONDS / seconds
    print(f"{name:58s} {seconds:7.1f} s per 80k tokens, {faster:5.1f} times the speed of the thesis", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--data", default=None)
    options = parser.parse_args()

    pair = count_newsgroups(path=options.data, classes=("alt.atheism", "talk.religion.misc"))
    binary = DiscLDA(20, 20, n_iterations=50, **SETTINGS).fit(pair.train, pair.train_labels)
    report(f"1 vs. 20, {pair.test.sum():,} tokens, K = 60, C = 2", timed(binary, pair.test))

    counted = count_newsgroups(path=options.data)
    chosen = np.random.default_rng(0).permutation(counted.test.shape[0])[: options.documents]
    sample = counted.test[np.sort(chosen)]
    start = time.perf_counter()
    model = DiscLDA(5, 10, n_topics=110, n_iterations=200, **SETTINGS)
    model.fit(counted.train, counted.train_labels)
    print(f"fixed T, K = 110, 200 sweeps of {counted.train.sum():,} tokens: {time.perf_counter() - start:.1f} s")
    for name, screen in (
        ("every class in full", 0.0),
        ("classes below 1e-8 in the pilot screened out", 1e-8),
    ):
        report(f"20 classes, {name}", timed(model.set_params(screen=screen), sample))


if __name__ == "__main__":
    main()

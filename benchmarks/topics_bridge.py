"""Speed of fixed-T training and of bridge sampling on 20 Newsgroups, on one thread.

The thesis reports about 2 minutes for its C program on the test part of "1 vs. 20" (80k tokens, two classes,
K = 60, 2,500 samples after 200). Measured here: that task with the same bridge (4.33) and with the default
mixture bridge; the 20-class task (K = 110) on a sample of the test documents, with every class sampled in full, and
with hopeless classes screened out by a pilot run; and the standard errors of the log-ratios that each buys.

    python benchmarks/topics_bridge.py [--documents 400] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from partwise.topics import DiscLDA, count_newsgroups

THESIS_SECONDS = 120.0  # per 80,000 tokens
SETTINGS: dict[str, dict[str, Any]] = {
    "bridge": {"n_samples": 2500, "burn_in": 200},
    "mixture_bridge": {"n_samples": None, "burn_in": None},
}


def report(name: str, model: DiscLDA, X: Any) -> None:
    """CPU seconds per 80,000 tokens of ``class_posterior``, compiled beforehand, and the errors it claims."""
    model.class_posterior(X[:2])
    start = time.process_time()
    found = model.class_posterior(X)[0]
    seconds = (time.process_time() - start) / float(X.sum()) * 80_000
    errors = found.ratio_errors[found.probabilities > 1e-8]
    print(
        f"{name:64s} {seconds:6.2f} CPU s per 80k tokens, {THESIS_SECONDS / seconds:6.1f} times the thesis's speed; "
        f"median standard error of log p(w | y) {np.median(errors):.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--data", default=None)
    options = parser.parse_args()

    pair = count_newsgroups(path=options.data, classes=("alt.atheism", "talk.religion.misc"))
    binary = DiscLDA(20, 20, n_iterations=50, random_state=0).fit(pair.train, pair.train_labels)
    for method, settings in SETTINGS.items():
        binary.set_params(method=method, **settings)
        report(f"{method}: 1 vs. 20, {pair.test.sum():,} tokens, K = 60, C = 2", binary, pair.test)

    counted = count_newsgroups(path=options.data)
    chosen = np.random.default_rng(0).permutation(counted.test.shape[0])[: options.documents]
    sample = counted.test[np.sort(chosen)]
    start = time.process_time()
    model = DiscLDA(5, 10, n_topics=110, n_iterations=200, random_state=0)
    model.fit(counted.train, counted.train_labels)
    print(f"fixed T, K = 110, 200 sweeps of {counted.train.sum():,} tokens: {time.process_time() - start:.1f} CPU s")
    for method, settings in SETTINGS.items():
        for name, screen in (("every class in full", 0.0), ("classes below 1e-8 in a pilot screened out", 1e-8)):
            model.set_params(method=method, screen=screen, **settings)
            report(f"{method}: 20 classes, {name}", model, sample)


if __name__ == "__main__":
    main()

"""``lacostejulien2009-disclda``: Tables 4.2–4.4 on 20 Newsgroups, by-date split, fixed T.

Settings of the thesis: K = 110, B_c = 5, B_s = 10, α = 10/K, β = 0.01, 200 sweeps, bridge sampling with 2,500
samples after 200; linear SVMs whose C is chosen on 20% of the training documents. Naive Bayes stands beside.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from partwise.topics import LDA, DiscLDA, count_newsgroups, group_words, topic_groups
from partwise.topics.corpus import pack
from partwise.topics.evaluate import svm_error

__all__ = ["run"]


def run(
    headers: str = "strip",
    seed: int = 0,
    n_phi: int = 1,
    n_iterations: int = 200,
    n_samples: int = 2500,
    screen: float = 1e-8,
    inference: str = "gibbs",
    with_lda: bool = True,
    data: str | None = None,
) -> dict[str, Any]:
    """One seed of Tables 4.2–4.4; errors on the test part, seconds, and top words."""
    counted = count_newsgroups(headers, path=data)
    X, y, X_test, y_test = counted.train, counted.train_labels, counted.test, counted.test_labels
    result: dict[str, Any] = {
        "headers": headers,
        "seed": seed,
        "n_phi": n_phi,
        "inference": inference,
        "train": {"documents": X.shape[0], "tokens": int(X.sum())},
        "test": {"documents": X_test.shape[0], "tokens": int(X_test.sum())},
        "vocabulary": X.shape[1],
    }
    bayes = {a: float((MultinomialNB(alpha=a).fit(X, y).predict(X_test) != y_test).mean()) for a in (0.01, 0.1, 1.0)}
    result["naive_bayes"] = {str(a): error for a, error in bayes.items()}

    start = time.perf_counter()
    settings = {"n_iterations": n_iterations, "n_phi": n_phi, "n_samples": n_samples, "screen": screen}
    model = DiscLDA(5, 10, n_topics=110, burn_in=200, inference=inference, random_state=seed, **settings)
    model.fit(X, y)
    result["train_seconds"] = time.perf_counter() - start
    start = time.perf_counter()
    posteriors = model.class_posterior(X_test)
    result["test_seconds"] = time.perf_counter() - start
    result["seconds_per_80k_tokens"] = result["test_seconds"] / n_phi / X_test.sum() * 80_000
    singles = [float((model.classes_[p.probabilities.argmax(axis=1)] != y_test).mean()) for p in posteriors]
    average = np.mean([p.probabilities for p in posteriors], axis=0)
    result["disclda_alone_each_phi"] = singles
    result["disclda_alone"] = float((model.classes_[average.argmax(axis=1)] != y_test).mean())
    print({key: value for key, value in result.items() if key != "vocabulary"}, file=sys.stderr, flush=True)
    packed, packed_test = pack(X), pack(X_test, allow_empty=True)
    reduced_test = np.mean([model.representation(packed_test, p) for p in posteriors], axis=0)
    model.set_params(n_samples=200, burn_in=50)  # training documents: features only
    reduced = np.mean([model.representation(packed, p) for p in model.class_posterior(X)], axis=0)
    result["disclda_svm"] = svm_error(reduced, y, reduced_test, y_test)._asdict()
    if with_lda:
        lda = LDA(110, alpha=10 / 110, beta=0.01, n_iterations=200, random_state=seed).fit(X)
        result["lda_svm"] = svm_error(lda.transform(X), y, lda.transform(X_test), y_test)._asdict()
    own, shared = topic_groups(20, 5, 10)
    groups = dict(zip(model.classes_.tolist(), own, strict=True)) | {"shared": shared}
    result["top_words"] = {
        name: [[word, round(score)] for word, score in group_words(model.phi_[0], topics, counted.vocabulary)]
        for name, topics in groups.items()
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headers", default="strip")
    parser.add_argument("--inference", default="gibbs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-phi", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--screen", type=float, default=1e-8)
    parser.add_argument("--no-lda", action="store_true")
    parser.add_argument("--data", default=None)
    options = parser.parse_args()
    result = run(
        headers=options.headers,
        seed=options.seed,
        n_phi=options.n_phi,
        n_iterations=options.iterations,
        n_samples=options.samples,
        screen=options.screen,
        inference=options.inference,
        with_lda=not options.no_lda,
        data=options.data,
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

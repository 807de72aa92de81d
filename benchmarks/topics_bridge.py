"""Speed of fixed-T training and of bridge sampling on 20 Newsgroups, on one thread.

The thesis reports about 2 minutes for its C program on the test part of "1 vs. 20" (80k tokens, two classes,
K = 60, 2,500 samples after 200). Measured here: that task with the same bridge (4.33) and with the default
mixture bridge; the 20-class task (K = 110) on a sample of the test documents, with every class sampled in full, and
with hopeless classes screened out by a pilot run; and the standard errors of the log-ratios that each buys.

With ``--coverage``, which needs no data: models of three classes are trained on 24 documents with sharp topics, and
posteriors of 40 documents of 4 to 7 words are compared with the sum over all topic assignments: how far they are
off, and how many of the cells (a document, a class, a seed) are more than 3 standard errors away.

    python benchmarks/topics_bridge.py [--documents 400] [--data FOLDER] [--coverage [--seeds 60]]
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from partwise.topics import DiscLDA, class_posterior, count_newsgroups
from partwise.topics.corpus import pack
from partwise.topics.posterior import METHODS
from partwise.topics.transforms import class_dependent_topics

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


def exact_posterior(text: np.ndarray, topics: np.ndarray, prior: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """p(y | w) by enumeration: Z_y = Σ_z p(z) Π_n Φ^y_{w_n z_n}."""
    states = np.array(list(itertools.product(range(alpha.size), repeat=text.size)))
    counts = (states[:, :, None] == np.arange(alpha.size)).sum(axis=1)
    weights = (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=1)
    scores = [
        np.log(p) + logsumexp(weights + np.log(phi[text, states]).sum(axis=1))
        for p, phi in zip(prior, topics, strict=True)
    ]
    return np.exp(scores - logsumexp(scores))


def coverage(seeds: int) -> None:
    """Errors against enumeration, and how often they are more than three standard errors."""
    for sizes in ((1, 1), (2, 0), (2, 1), (3, 1), (2, 2)):
        rng = np.random.default_rng(0)
        counts, labels = rng.poisson(0.7, (24, 6)), np.arange(24) % 3
        counts[np.arange(24), labels * 2] += 2
        model = DiscLDA(*sizes, n_iterations=40, random_state=1).fit(counts, labels)
        documents = [rng.multinomial(rng.integers(4, 8), rng.dirichlet(np.full(6, 0.7))) for _ in range(40)]
        packed = pack(np.array(documents))
        topics = class_dependent_topics(model.phi_[0], model.transformation_)
        known = (model.class_prior_, model.alpha_)
        texts = [packed.words[a:b] for a, b in itertools.pairwise(packed.offsets)]
        truth = np.array([exact_posterior(text, topics.astype(float), *known) for text in texts])
        for method in METHODS if sizes == (2, 1) else ("mixture_bridge",):
            found = [class_posterior(packed, topics, *known, method=method, screen=1e-8, seed=s) for s in range(seeds)]
            off = np.array([each.probabilities - truth for each in found])
            beyond = np.abs(off) > 3 * np.array([each.errors for each in found])
            documents_off = (np.abs(off).max(axis=2) > 0.1).sum(axis=1).mean()
            print(
                f"B_c, B_s = {sizes}, {method}: {documents_off:.1f} of 40 documents off by more than 0.1, at most "
                f"{np.abs(off).max():.3f}; {100 * beyond.mean():.2f}% of the cells more than 3 standard errors off",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coverage", action="store_true", help="errors against enumeration instead of speed")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--data", default=None)
    options = parser.parse_args()
    if options.coverage:
        coverage(options.seeds)
        return

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

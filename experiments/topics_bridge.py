"""``bridge-sampling``: bias and variance of class posterior estimators where the truth can be enumerated.

Short synthetic documents from a DiscLDA with two classes; every estimator is repeated with different seeds
and its log-odds compared with the enumerated ones, as appendix 4.B.1 did in exploratory experiments.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from partwise.topics import class_posterior
from partwise.topics.corpus import Corpus, pack
from partwise.topics.transforms import block_transformation, class_dependent_topics

__all__ = ["run"]

METHODS: dict[str, dict[str, Any]] = {
    "bridge": {},
    "optimal_bridge": {},
    "harmonic_mean": {},
    "annealed": {"n_chains": 8},
}


def log_evidence(text: np.ndarray, topics: np.ndarray, alpha: np.ndarray) -> float:
    """log p(w | y) by enumeration of all L^N assignments of prior topics."""
    states = np.array(list(itertools.product(range(alpha.size), repeat=text.size)))
    counts = np.stack([(states == ell).sum(axis=1) for ell in range(alpha.size)], axis=1)
    prior = (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=1)
    prior += gammaln(alpha.sum()) - gammaln(alpha.sum() + text.size)
    return float(logsumexp(prior + np.log(topics[text[None, :], states]).sum(axis=1)))


def synthetic(n_documents: int, length: int, seed: int) -> tuple[Corpus, np.ndarray, np.ndarray]:
    """Documents, Φ^y (2, V, L) and α: 12 words, B_c = 2, B_s = 2, smoothed topics."""
    rng = np.random.default_rng(seed)
    transformation = block_transformation(2, 2, 2)
    phi = 0.97 * rng.dirichlet(np.full(12, 0.3), size=6).T + 0.03 / 12
    alpha = np.full(4, 0.5)
    counts = []
    for d in range(n_documents):
        mixture = phi @ transformation[d % 2] @ rng.dirichlet(alpha)
        counts.append(rng.multinomial(length, mixture))
    return pack(np.array(counts)), class_dependent_topics(phi, transformation), alpha


def run(
    n_documents: int = 20,
    length: int = 8,
    repeats: int = 40,
    budgets: tuple[int, ...] = (100, 500, 2500),
    seed: int = 0,
) -> dict[str, Any]:
    """Bias, standard deviation and root mean square error of the log-odds, and how honest the errors are.

    ``budget`` is the Gibbs sweeps a class; annealed importance sampling spends it on 8 runs.
    """
    corpus, topics, alpha = synthetic(n_documents, length, seed)
    truth = np.array(
        [
            [log_evidence(corpus.words[a:b], topics[y], alpha) for y in range(2)]
            for a, b in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True)
        ]
    )
    odds = truth[:, 1] - truth[:, 0]
    result: dict[str, Any] = {
        "documents": n_documents,
        "length": length,
        "repeats": repeats,
        "estimators": [],
    }
    for method, settings in METHODS.items():
        for budget in budgets:
            samples = budget // settings.get("n_chains", 1)
            arguments = {"method": method, "n_samples": samples, "burn_in": 50, **settings}
            class_posterior(corpus, topics, np.full(2, 0.5), alpha, **arguments)  # compiles
            start = time.perf_counter()
            estimates, errors = [], []
            for repeat in range(repeats):
                found = class_posterior(corpus, topics, np.full(2, 0.5), alpha, seed=1000 + repeat, **arguments)
                estimates.append(found.log_ratios[:, 1] - found.log_ratios[:, 0])
                errors.append(np.hypot(found.ratio_errors[:, 0], found.ratio_errors[:, 1]))
            seconds = time.perf_counter() - start
            difference = np.array(estimates) - odds
            spread = difference.std(axis=0, ddof=1)
            result["estimators"].append(
                {
                    "method": method,
                    "budget": budget,
                    "bias": float(np.abs(difference.mean(axis=0)).mean()),
                    "bias_noise": float((spread / np.sqrt(repeats)).mean()),
                    "standard_deviation": float(spread.mean()),
                    "rmse": float(np.sqrt((difference**2).mean())),
                    "claimed_error": float(np.mean(errors)),
                    "milliseconds_per_document": 1000 * seconds / repeats / n_documents,
                }
            )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    print(json.dumps(run(options.documents, options.length, options.repeats), indent=1))


if __name__ == "__main__":
    main()

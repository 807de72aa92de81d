"""``bridge-sampling``: bias and variance of class posterior estimators where the truth can be enumerated.

Short synthetic documents from a DiscLDA with two classes; every estimator is repeated with different seeds
and its log-odds compared with the enumerated ones, as appendix 4.B.1 did in exploratory experiments.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from partwise.experiment import Cell, Context, markdown_table, register
from partwise.topics import class_posterior
from partwise.topics.corpus import Corpus, pack
from partwise.topics.transforms import block_transformation, class_dependent_topics

__all__ = ["draw", "run", "table"]

METHODS: dict[str, dict[str, Any]] = {
    "mixture_bridge": {},
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
    method: str, budget: int, n_documents: int = 20, length: int = 8, repeats: int = 40, seed: int = 0
) -> dict[str, float]:
    """Bias, standard deviation and root mean square error of the log-odds, and how honest the errors are.

    ``budget`` is the samples per class (annealed importance sampling: the Gibbs sweeps, spent on 8 runs).
    """
    corpus, topics, alpha = synthetic(n_documents, length, seed)
    truth = np.array(
        [
            [log_evidence(corpus.words[a:b], topics[y], alpha) for y in range(2)]
            for a, b in itertools.pairwise(corpus.offsets)
        ]
    )
    odds = truth[:, 1] - truth[:, 0]
    settings = METHODS[method]
    samples = budget // settings.get("n_chains", 1)
    arguments = {"method": method, "n_samples": samples, "burn_in": 50, **settings}
    class_posterior(corpus, topics, np.full(2, 0.5), alpha, **arguments)  # compiles
    begin = time.process_time()
    estimates, errors = [], []
    for repeat in range(repeats):
        found = class_posterior(corpus, topics, np.full(2, 0.5), alpha, seed=1000 + repeat, **arguments)
        estimates.append(found.log_ratios[:, 1] - found.log_ratios[:, 0])
        errors.append(np.hypot(found.ratio_errors[:, 0], found.ratio_errors[:, 1]))
    seconds = time.process_time() - begin
    difference = np.array(estimates) - odds
    spread = difference.std(axis=0, ddof=1)
    return {
        "bias": float(np.abs(difference.mean(axis=0)).mean()),
        "bias_noise": float((spread / np.sqrt(repeats)).mean()),
        "standard_deviation": float(spread.mean()),
        "rmse": float(np.sqrt((difference**2).mean())),
        "claimed_error": float(np.mean(errors)),
        "milliseconds_per_document": 1000 * seconds / repeats / n_documents,
    }


HEADER = {
    "bias": "mean bias, absolute",
    "bias_noise": "its noise",
    "standard_deviation": "standard deviation",
    "claimed_error": "claimed error",
    "rmse": "RMSE",
    "milliseconds_per_document": "ms per document",
}


def table(cells: list[Cell], context: Context) -> str:
    rows = [[c.settings["method"], c.settings["budget"], *(f"{c.result[key]:.4f}" for key in HEADER)] for c in cells]
    shown = markdown_table(["estimator", "samples per class", *HEADER.values()], rows)
    quick = "Quick variant: few documents and repeats. " if context.quick else ""
    return f"{quick}Errors of log p(w | y=1)/p(w | y=0), whose truth is enumerated.\n\n{shown}"


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    for method in METHODS:
        own = [cell for cell in cells if cell.settings["method"] == method]
        axes.loglog([c.settings["budget"] for c in own], [c.result["rmse"] for c in own], "o-", label=method)
    axes.set_xlabel("samples per class")
    axes.set_ylabel("root mean square error of the log-odds")
    axes.legend()


register(
    "bridge-sampling",
    run,
    description="Bias and variance of estimators of the class posterior, on documents whose posterior is enumerated",
    paper="Lacoste-Julien (2009), appendix 4.B.",
    cells=[{"method": method, "budget": budget} for method in METHODS for budget in (100, 500, 2500)],
    quick=[{"method": method, "budget": 100, "n_documents": 4, "length": 5, "repeats": 5} for method in METHODS],
    table=table,
    draw=draw,
)

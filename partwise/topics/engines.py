"""The two ways to do inference in DiscLDA, behind one interface: Gibbs sampling and mean field.

An engine takes the corpus, Φ and T and returns posteriors, gradients and new Φ; the learning loop
(Table 4.1) and the estimator do not depend on which engine it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from partwise._random import named_stream

from ._cluster import DistributedSweeps
from ._gibbs import count_topics, joint_sweep
from ._gradient import gradient_documents, local_topics
from ._parallel import blocks_of, run_all
from .corpus import MISSING, Corpus
from .posterior import ClassPosterior, class_posterior
from .transforms import class_dependent_topics, support_of
from .variational import variational_documents, variational_weights

__all__ = ["Engine", "GibbsEngine", "JointChain", "VariationalEngine", "phi_from_counts"]

Progress = Callable[[Any, int], bool]


def phi_from_counts(counts: np.ndarray, beta: float) -> np.ndarray:
    """E[Φ | u, w] of eqs. 4.6 and 4.27: (β + m_k^{(v)}) / (Vβ + m_k^{(·)}), (V, K) float64."""
    smoothed = counts.astype(np.float64) + beta
    return np.asarray(smoothed / smoothed.sum(axis=0))


class Engine(Protocol):
    """What the learning loop needs from inference."""

    def posterior(self, corpus: Corpus, phi: np.ndarray, transformation: np.ndarray) -> ClassPosterior: ...

    def gradient(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def update_phi(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> np.ndarray: ...


class JointChain:
    """Gibbs chain over (u, z) with Φ and θ integrated out (Table 4.1, step 2a; eq. 4.25).

    ``labels`` may hold MISSING: such documents take part once ``impute`` has drawn a class for them.
    """

    def __init__(
        self,
        corpus: Corpus,
        labels: np.ndarray,
        transformation: np.ndarray,
        alpha: np.ndarray,
        beta: float,
        seed: int,
    ) -> None:
        self.corpus, self.labels, self.transformation = corpus, labels.copy(), transformation
        self.alpha, self.beta, self.seed = np.asarray(alpha, np.float64), beta, seed
        self.support = support_of(transformation)
        self.n_sweeps = 0
        self.elsewhere: DistributedSweeps | None = None  # where a cluster sweeps in place of this process
        generator = np.random.default_rng([seed, 11])
        self.z = generator.integers(0, transformation.shape[2], corpus.n_tokens, dtype=np.int32)
        self.u = np.zeros(corpus.n_tokens, np.int32)
        owner = np.repeat(np.maximum(labels, 0), corpus.lengths)
        cumulative = np.cumsum(transformation, axis=1)
        thresholds = generator.random(corpus.n_tokens)
        for ell in range(transformation.shape[2]):  # u | z from the column of T^y
            for y in range(transformation.shape[0]):
                here = (self.z == ell) & (owner == y)
                self.u[here] = np.searchsorted(
                    cumulative[y, :, ell], thresholds[here] * cumulative[y, -1, ell], "right"
                )
        self._count()

    def _count(self) -> None:
        self.active = np.flatnonzero(self.labels != MISSING)
        kept = np.repeat(self.labels != MISSING, self.corpus.lengths)
        n_topics = self.transformation.shape[1]
        self.table = np.zeros((self.corpus.n_words, n_topics), np.float32)
        count_topics(self.corpus.words[kept], self.u[kept], self.table.reshape(-1), n_topics)
        self.totals = np.bincount(self.u[kept], minlength=n_topics)

    def sweep(self) -> None:
        """Redraw every (u, z) of the documents that have a class."""
        corpus = self.corpus
        if self.elsewhere is not None:
            common = (self.totals, self.alpha, self.beta, tuple(self.support), self.seed, self.n_sweeps)
            self.totals = self.elsewhere.joint(self.z, self.u, self.labels, self.table, common)
            self.n_sweeps += 1
            return
        start = named_stream(self.seed, self.n_sweeps, 7)
        tokens = (corpus.offsets, corpus.words, self.labels, self.z, self.u)
        counts = (self.table.reshape(-1), self.totals, self.alpha, self.beta)
        joint_sweep(self.active, *tokens, *counts, *self.support, start)
        self.n_sweeps += 1

    @property
    def phi(self) -> np.ndarray:
        return phi_from_counts(self.table, self.beta)

    def impute(self, unlabelled: np.ndarray, engine: GibbsEngine, burn_in: int = 20) -> None:
        """Draw classes for documents without a label from p(y | w, T, Φ) at the current Φ, then their (z, u).

        A Gibbs step on (y_d, z_d, u_d) with Φ held at its posterior mean in place of integrated out.
        """
        classes = class_dependent_topics(self.phi, self.transformation)
        part = self.corpus.take(unlabelled)
        seed = int(named_stream(self.seed, self.n_sweeps, 8) >> np.uint64(1))
        found = class_posterior(
            part,
            classes,
            engine.class_prior,
            self.alpha,
            n_samples=40,
            burn_in=burn_in,
            screen=1e-3,
            pilot=20,
            seed=seed,
            n_jobs=engine.n_jobs,
        )
        uniforms = np.random.default_rng([self.seed, self.n_sweeps, 9]).random(unlabelled.size)
        drawn = (np.cumsum(found.probabilities, axis=1) < uniforms[:, None]).sum(axis=1)
        self.labels[unlabelled] = np.minimum(drawn, classes.shape[0] - 1)
        support, alpha = self.support, self.alpha.astype(np.float32)
        arguments = (self.corpus.offsets, self.corpus.words, self.labels, classes, self.phi)
        packed = (support.rows, support.sizes, support.by_row, alpha, burn_in, np.uint64(seed))
        local_topics(unlabelled, *arguments, *packed, self.z, self.u)
        self._count()


@dataclass
class GibbsEngine:
    """Inference by sampling: bridges for posteriors (appendix 4.B), eq. 4.17 for gradients, steps 3b–3d for Φ."""

    alpha: np.ndarray
    beta: float
    class_prior: np.ndarray
    method: str = "mixture_bridge"
    n_samples: int | None = None
    burn_in: int | None = None
    reference: int | None = None
    screen: float = 0.0
    gradient_samples: int = 100
    gradient_burn_in: int = 10
    mixed_gradient: bool = True
    local_sweeps: int = 200
    seed: int = 0
    n_jobs: int = 1

    def posterior(self, corpus: Corpus, phi: np.ndarray, transformation: np.ndarray) -> ClassPosterior:
        return class_posterior(
            corpus,
            class_dependent_topics(phi, transformation),
            self.class_prior,
            self.alpha,
            method=self.method,
            n_samples=self.n_samples,
            burn_in=self.burn_in,
            reference=self.reference,
            screen=self.screen,
            seed=self.seed,
            n_jobs=self.n_jobs,
        )

    def gradient(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        classes = class_dependent_topics(phi, transformation)
        weights = np.zeros(classes.shape)
        posterior = np.zeros((corpus.n_documents, classes.shape[0]))
        documents = np.flatnonzero((labels != MISSING) & (corpus.lengths > 0))
        seed = named_stream(self.seed, step, 12)
        posterior[documents] = class_posterior(
            corpus.take(documents),
            classes,
            self.class_prior,
            self.alpha,
            method=self.method,
            n_samples=self.gradient_samples,
            burn_in=self.gradient_burn_in,
            screen=self.screen,
            seed=int(seed >> np.uint64(1)),
            n_jobs=self.n_jobs,
        ).probabilities
        tokens = (documents, corpus.offsets, corpus.words, labels, classes, np.log(self.class_prior))
        settings = (self.gradient_burn_in, self.gradient_samples, self.mixed_gradient, seed)
        gradient_documents(*tokens, self.alpha.astype(np.float32), *settings, posterior, weights)
        return np.einsum("vk,yvl->ykl", phi, weights, optimize=True), posterior

    def update_phi(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> np.ndarray:
        classes = class_dependent_topics(phi, transformation)
        support = support_of(transformation)
        z, u = np.zeros(corpus.n_tokens, np.int32), np.zeros(corpus.n_tokens, np.int32)
        documents = np.flatnonzero(labels != MISSING)
        packed = (support.rows, support.sizes, support.by_row, self.alpha.astype(np.float32))
        settings = (self.local_sweeps, named_stream(self.seed, step, 13))
        local_topics(documents, corpus.offsets, corpus.words, labels, classes, phi, *packed, *settings, z, u)
        kept = np.repeat(labels != MISSING, corpus.lengths)
        table = np.zeros(phi.shape, np.float32)
        count_topics(corpus.words[kept], u[kept], table.reshape(-1), phi.shape[1])
        return phi_from_counts(table, self.beta)


@dataclass
class VariationalEngine:
    """Inference by mean field: bounds for likelihoods, their exact gradients, expected counts for Φ."""

    alpha: np.ndarray
    beta: float
    class_prior: np.ndarray
    tolerance: float = 1e-4
    limit: int = 100
    n_jobs: int = 1

    def bounds(
        self, corpus: Corpus, phi: np.ndarray, transformation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """B_y, p(y | w) (D, C) and γ (D, C, L)."""
        classes = class_dependent_topics(phi, transformation)
        shape = (corpus.n_documents, classes.shape[0])
        bounds, probabilities, gammas = np.zeros(shape), np.zeros(shape), np.zeros((*shape, self.alpha.size))
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.class_prior)

        def task(documents: np.ndarray) -> None:
            tokens = (documents, corpus.offsets, corpus.words, classes, log_prior, self.alpha)
            variational_documents(*tokens, self.tolerance, self.limit, bounds, probabilities, gammas)

        run_all(task, [block for block in blocks_of(corpus.lengths + 1, 64) if block.size], self.n_jobs)
        return bounds, probabilities, gammas

    def posterior(self, corpus: Corpus, phi: np.ndarray, transformation: np.ndarray) -> ClassPosterior:
        bounds, probabilities, gammas = self.bounds(corpus, phi, transformation)
        none = np.zeros_like(bounds)  # deterministic: no sampling error to report
        return ClassPosterior(probabilities, none, bounds, none, gammas - self.alpha)

    def _weights(
        self,
        corpus: Corpus,
        labels: np.ndarray,
        classes: np.ndarray,
        found: tuple[np.ndarray, ...],
        apart: bool,
    ) -> np.ndarray:
        weights = np.zeros(classes.shape)
        documents = np.flatnonzero(labels != MISSING) if apart else np.arange(corpus.n_documents)
        tokens = (documents, corpus.offsets, corpus.words, labels, classes, found[1], self.alpha)
        variational_weights(*tokens, self.tolerance, self.limit, apart, found[2], weights)
        return weights

    def gradient(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self.bounds(corpus, phi, transformation)
        classes = class_dependent_topics(phi, transformation)
        weights = self._weights(corpus, labels, classes, found, True)
        return np.einsum("vk,yvl->ykl", phi, weights, optimize=True), found[1]

    def update_phi(
        self, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, transformation: np.ndarray, step: int
    ) -> np.ndarray:
        classes = class_dependent_topics(phi, transformation)
        if (labels == MISSING).any():
            found = self.bounds(corpus, phi, transformation)
        else:  # only γ of the known class is needed, and starts flat
            shape = (corpus.n_documents, classes.shape[0])
            flat = self.alpha + corpus.lengths[:, None] / self.alpha.size
            found = (np.zeros(shape), np.zeros(shape), np.repeat(flat[:, None], shape[1], axis=1))
        weights = self._weights(corpus, labels, classes, found, False)
        counts = phi * np.einsum("yvl,ykl->vk", weights, transformation, optimize=True)
        return phi_from_counts(counts, self.beta)

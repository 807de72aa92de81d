"""Latent Dirichlet allocation by collapsed Gibbs sampling (§4.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from partwise._random import named_stream
from partwise.estimation.base import thread_count
from partwise.exceptions import InputError, ParameterError

from ._checks import at_least, one_of, positive, seed_of
from ._cluster import DistributedSweeps
from ._gibbs import count_topics, lda_sweep, padded
from ._parallel import blocks_of, run_all
from ._state import CheckpointSource, Keeper, State, StateMixin
from .corpus import Corpus, pack
from .hyper import asymmetric_fixed_point, document_topic_counts, log_joint, symmetric_fixed_point
from .posterior import class_posterior

__all__ = ["LDA"]


class _Cells(NamedTuple):
    """Tokens cut into P × P cells (documents × words): cells of one diagonal share no count but the totals.

    documents: P arrays of document ids; starts, ends: (P, D), where block b of words lies in document d.
    """

    corpus: Corpus
    documents: list[np.ndarray]
    starts: np.ndarray
    ends: np.ndarray


def _cut(corpus: Corpus, n_blocks: int) -> _Cells:
    """Sort every document's tokens by word block and find the cells; O(N log N)."""
    documents = blocks_of(corpus.lengths, n_blocks)
    frequency = np.bincount(corpus.words, minlength=corpus.n_words)
    block_of = np.empty(corpus.n_words, np.int64)
    # Deal words out from the most frequent, so that every block has its share of frequent ones.
    block_of[np.argsort(-frequency, kind="stable")] = np.arange(corpus.n_words) % n_blocks
    owner = np.repeat(np.arange(corpus.n_documents), corpus.lengths)
    key = owner * n_blocks + block_of[corpus.words]
    words = corpus.words[np.argsort(key, kind="stable")]
    sizes = np.bincount(key, minlength=corpus.n_documents * n_blocks).reshape(-1, n_blocks)
    ends = corpus.offsets[:-1] + np.cumsum(sizes, axis=1).T
    return _Cells(corpus._replace(words=words), documents, ends - sizes.T, ends)


class LDA(StateMixin, TransformerMixin, BaseEstimator):
    """Topics φ_k ~ Dir(β), proportions θ_d ~ Dir(α), z_dn ~ θ_d, w_dn ~ φ_{z_dn}: Lacoste-Julien (2009), §4.2.1.

    θ and Φ are integrated out; a sweep redraws every z_dn from its exact conditional with vector
    instructions, O(N·K/16). Φ is its posterior mean given the last sample, eqs. (4.6) and (4.27).

    Parameters
    ----------
    n_topics : int
        K.
    alpha : float or array of shape (K,)
        Dirichlet parameter of θ.
    beta : float
        Symmetric Dirichlet parameter of the topics.
    n_iterations : int
        Sweeps over the tokens.
    optimize : None, "symmetric" or "asymmetric"
        Re-estimate α (all equal, or one per topic) and β from the counts every ``optimize_every`` sweeps,
        from sweep ``optimize_after`` on (Minka's fixed point).
    n_blocks : int
        1 is exact Gibbs. With P > 1 the tokens are cut into P × P cells of documents × words, and the P
        cells of a diagonal are sampled at the same time: only the K totals are then up to a cell out of
        date. The result depends on P, never on ``n_jobs``.
    n_jobs : int
        Threads, −1 for all cores; at most P of them are useful in training.
    transform_samples, transform_burn_in : int
        Gibbs samples per document for ``transform`` and ``perplexity``.
    random_state : int, generator or None
        The same integer gives the same model.
    callback : callable or None
        ``callback(estimator, iteration)`` after each sweep; ``estimator.checkpoint()`` is what
        ``fit(X, checkpoint=...)`` continues from. Returning ``True`` stops.

    Attributes
    ----------
    components_ : (K, V) float64, Φ transposed; rows sum to one.
    alpha_ : (K,); beta_ : float; n_iter_ : int; topic_counts_ : (K,), tokens per topic.
    document_topics_ : (D, K), E[θ_d] of the training documents at the last sample.

    Examples
    --------
    >>> from partwise.topics import LDA
    >>> X = [[4, 4, 0, 0], [3, 5, 0, 0], [0, 0, 4, 4], [0, 0, 5, 3]]
    >>> lda = LDA(n_topics=2, n_iterations=50, random_state=0).fit(X)
    >>> lda.components_.shape, lda.transform(X).argmax(axis=1).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    ((2, 4), True)
    """

    kind = "lda"
    _scalars = ("beta_", "n_iter_", "n_features_in_", "seed_", "n_batches_")
    _arrays = ("alpha_", "word_topic_counts_", "document_topics_")

    def __init__(
        self,
        n_topics: int = 50,
        *,
        alpha: float | np.ndarray = 0.1,
        beta: float = 0.01,
        n_iterations: int = 200,
        optimize: str | None = None,
        optimize_every: int = 10,
        optimize_after: int = 50,
        n_blocks: int = 1,
        n_jobs: int = 1,
        transform_samples: int = 200,
        transform_burn_in: int = 50,
        random_state: Any = 0,
        callback: Callable[[Any, int], bool | None] | None = None,
    ) -> None:
        self.n_topics = n_topics
        self.alpha = alpha
        self.beta = beta
        self.n_iterations = n_iterations
        self.optimize = optimize
        self.optimize_every = optimize_every
        self.optimize_after = optimize_after
        self.n_blocks = n_blocks
        self.n_jobs = n_jobs
        self.transform_samples = transform_samples
        self.transform_burn_in = transform_burn_in
        self.random_state = random_state
        self.callback = callback

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, checkpoint: CheckpointSource | None = None, engine: Any = None) -> Self:
        """Sample ``n_iterations`` sweeps on a D × V matrix of counts. With a ``checkpoint`` (a file, or what
        ``checkpoint()`` returned) continue from it; a file is also kept up to date.

        With an ``engine`` (a dask.distributed.Client, its address, or "local") groups of documents are swept at the
        same time by the workers of a cluster, each against its own copy of the counts (Newman et al. 2009): an
        approximation, whose result does not depend on the number of workers."""
        corpus = self._prepare(X)
        if engine is not None and self.n_blocks != 1:
            raise ParameterError("n_blocks", type(self).__name__, "1 on a cluster", self.n_blocks)
        self._start(corpus)
        self._keeper = Keeper(checkpoint, self, corpus)
        if self._keeper.state is not None:
            self._restore(self._keeper.state)
        if engine is None:
            self._sample(self.n_iterations)
            return self
        try:
            with DistributedSweeps(engine, self._cells.corpus) as self._elsewhere:
                self._sample(self.n_iterations)
        finally:
            del self._elsewhere
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a batch of new documents: sample their topics given the counts of all earlier batches.

        Earlier documents keep their last topics (their tokens are not stored), so this is the online
        Gibbs sampler of Canini et al. 2009 without rejuvenation; ``n_iterations`` sweeps over the batch.
        """
        if not hasattr(self, "word_topic_counts_"):
            return self.fit(X)
        corpus = pack(X, self.n_features_in_)
        earlier = self.word_topic_counts_
        self.n_batches_ += 1
        self._start(corpus, earlier)
        self._keeper = Keeper(None, self, corpus)
        self._sample(self.n_iterations)
        return self

    def _prepare(self, X: Any) -> Corpus:
        at_least(self, "n_topics", 1)
        at_least(self, "n_iterations", 1)
        at_least(self, "n_blocks", 1)
        thread_count(self.n_jobs)
        at_least(self, "optimize_every", 1)
        positive(self, "beta")
        one_of(self, "optimize", (None, "symmetric", "asymmetric"))
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.ndim > 1 or (alpha.ndim == 1 and alpha.size != self.n_topics) or not (alpha > 0).all():
            expected = f"a positive number or {self.n_topics} positive numbers"
            raise ParameterError("alpha", type(self).__name__, expected, self.alpha)
        corpus = pack(X)
        self.alpha_ = np.broadcast_to(alpha, (self.n_topics,)).copy()
        self.beta_ = float(self.beta)
        self.seed_ = seed_of(self.random_state)
        self.n_batches_ = 1
        return corpus

    def _start(self, corpus: Corpus, earlier: np.ndarray | None = None) -> None:
        """Random topics for the tokens, and their counts on top of the ``earlier`` (V, K) counts."""
        self.n_features_in_ = corpus.n_words
        self.n_iter_ = 0
        self._cells = _cut(corpus, self.n_blocks)
        generator = np.random.default_rng([self.seed_, self.n_batches_])
        self._earlier = earlier
        self._topics = generator.integers(0, self.n_topics, corpus.n_tokens, dtype=np.int32)
        self._count()

    def _count(self) -> None:
        width, n_words = padded(self.n_topics), self.n_features_in_
        table = np.zeros((n_words, width), np.float32)
        if self._earlier is not None:
            table[:, : self.n_topics] = self._earlier
        count_topics(self._cells.corpus.words, self._topics, table.reshape(-1), width)
        self._table = table
        self._totals = table.sum(axis=0, dtype=np.float64).astype(np.int64)

    def _sample(self, n_iterations: int) -> None:
        try:
            while self.n_iter_ < n_iterations:
                self._sweep()
                self.n_iter_ += 1
                due = self.n_iter_ >= self.optimize_after and self.n_iter_ % self.optimize_every == 0
                if self.optimize is not None and due:
                    self._optimize()
                self._keeper.keep(self.n_iter_, self.checkpoint)
                if self.callback is not None and self.callback(self, self.n_iter_):
                    break
        finally:  # an interrupted training leaves a usable model
            self.word_topic_counts_ = self._table[:, : self.n_topics].copy()
            counts = document_topic_counts(self._cells.corpus.offsets, self._topics, self.n_topics)
            smoothed = counts + self.alpha_
            self.document_topics_ = smoothed / smoothed.sum(axis=1, keepdims=True)
        del self._table, self._totals, self._topics, self._cells, self._earlier, self._keeper

    def _sweep(self) -> None:
        """One sweep: P diagonals of P cells; the totals are reduced in a fixed order after each."""
        if hasattr(self, "_elsewhere"):
            return self._sweep_elsewhere()
        corpus, documents, starts, ends = self._cells
        n_blocks = len(documents)
        alpha = np.zeros(self._table.shape[1], np.float32)
        alpha[: self.n_topics] = self.alpha_
        for diagonal in range(n_blocks):
            copies = [self._totals.copy() for _ in range(n_blocks)] if n_blocks > 1 else [self._totals]

            def task(block: int, diagonal: int = diagonal, copies: list[np.ndarray] = copies) -> None:
                column = (block + diagonal) % n_blocks
                named = named_stream(self.seed_ + self.n_batches_, self.n_iter_, diagonal * n_blocks + block)
                cell = (documents[block], corpus.offsets, starts[column], ends[column], corpus.words)
                state = (self._topics, self._table.reshape(-1), copies[block])
                lda_sweep(*cell, *state, alpha, self.beta_, self.n_topics, named)

            run_all(task, range(n_blocks), min(thread_count(self.n_jobs), n_blocks))
            if n_blocks > 1:
                before = self._totals
                self._totals = before + sum(copy - before for copy in copies)

    def _sweep_elsewhere(self) -> None:
        """One sweep by the workers of a cluster."""
        alpha = np.zeros(self._table.shape[1], np.float32)
        alpha[: self.n_topics] = self.alpha_
        common = (self._totals, alpha, self.beta_, self.n_topics, self.seed_ + self.n_batches_, self.n_iter_)
        self._totals = self._elsewhere.lda(self._topics, self._table, common)

    def _optimize(self) -> None:
        counts = document_topic_counts(self._cells.corpus.offsets, self._topics, self.n_topics)
        if self.optimize == "symmetric":
            self.alpha_[:] = symmetric_fixed_point(counts, float(self.alpha_.mean()))
        else:
            self.alpha_ = asymmetric_fixed_point(counts, self.alpha_)
        self.beta_ = symmetric_fixed_point(self._table[:, : self.n_topics].T.astype(np.int64), self.beta_)

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> State:
        """(header, arrays) of a training in progress: what ``fit(X, checkpoint=...)`` needs besides X."""
        if not hasattr(self, "_topics"):
            raise InputError("no training is in progress: call checkpoint() from the callback of fit")
        header = {"n_iter": self.n_iter_, "beta": self.beta_, "seed": self.seed_, "topics": self.n_topics}
        return header, {"topics": self._topics.copy(), "alpha": self.alpha_.copy()}

    def _restore(self, checkpoint: State) -> None:
        header, arrays = checkpoint
        if header["topics"] != self.n_topics or arrays["topics"].size != self._topics.size:
            raise InputError(
                f"the checkpoint is of {arrays['topics'].size} tokens and {header['topics']} topics, the "
                f"data and the estimator have {self._topics.size} and {self.n_topics}"
            )
        self.n_iter_, self.beta_, self.seed_ = header["n_iter"], header["beta"], header["seed"]
        self.alpha_ = arrays["alpha"].copy()
        self._topics = arrays["topics"].astype(np.int32)
        self._count()

    def _check_state(self) -> None:
        self._check_shapes(
            {
                "alpha_": (self.n_topics,),
                "word_topic_counts_": (self.n_features_in_, self.n_topics),
                "document_topics_": (None, self.n_topics),
            }
        )

    # ------------------------------------------------------------------ using the model

    @property
    def components_(self) -> np.ndarray:
        check_is_fitted(self, "word_topic_counts_")
        smoothed = self.word_topic_counts_.T.astype(np.float64) + self.beta_
        return np.asarray(smoothed / smoothed.sum(axis=1, keepdims=True))

    @property
    def topic_counts_(self) -> np.ndarray:
        check_is_fitted(self, "word_topic_counts_")
        return np.asarray(self.word_topic_counts_.sum(axis=0, dtype=np.float64))

    def transform(self, X: Any) -> np.ndarray:
        """E[θ_d | w_d, Φ], (D, K): posterior means, eq. (4.28), averaged over Gibbs samples of z_d, eq. (4.22)."""
        check_is_fitted(self, "word_topic_counts_")
        return self._proportions(pack(X, self.n_features_in_, allow_empty=True))

    def _proportions(self, corpus: Corpus) -> np.ndarray:
        topics = self.components_.T[None].astype(np.float32)
        counts = class_posterior(
            corpus,
            topics,
            np.ones(1),
            self.alpha_,
            method="bridge",  # one class has nothing to be bridged to: what is wanted are its chains' topics
            n_samples=self.transform_samples,
            burn_in=self.transform_burn_in,
            seed=self.seed_,
            n_jobs=self.n_jobs,
        ).topic_counts[:, 0]
        smoothed = counts + self.alpha_
        return np.asarray(smoothed / smoothed.sum(axis=1, keepdims=True))

    def perplexity(self, X: Any) -> float:
        """exp(−log p(w^B | w^A, Φ) / |w^B|): half of each document's tokens predicted from the other half.

        Document completion (Wallach et al. 2009): θ_d is estimated on w^A and scores w^B, so no token is used twice. A
        random half, drawn with ``random_state``: tokens are packed by word, so that taking every second one would put
        half of every repeated word's tokens on either side, and words seen in w^A are easy to predict.
        """
        check_is_fitted(self, "word_topic_counts_")
        corpus = pack(X, self.n_features_in_, allow_empty=True)
        owner = np.repeat(np.arange(corpus.n_documents), corpus.lengths)
        shuffled = np.lexsort((np.random.default_rng([self.seed_, 17]).random(corpus.n_tokens), owner))
        odd = np.empty(corpus.n_tokens, bool)
        odd[shuffled] = (np.arange(corpus.n_tokens) - corpus.offsets[owner]) % 2 == 1
        if not odd.any():
            raise InputError("perplexity needs a document of at least two tokens")
        offsets = np.concatenate([[0], np.cumsum((corpus.lengths + 1) // 2)]).astype(np.int64)
        theta = self._proportions(Corpus(offsets, corpus.words[~odd], corpus.n_words))
        phi = self.components_.T
        likelihood = np.einsum("nk,nk->n", theta[owner[odd]], phi[corpus.words[odd]])
        return float(np.exp(-np.log(likelihood).mean()))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a held-out token, −log perplexity: larger is better."""
        return -float(np.log(self.perplexity(X)))

    def log_likelihood(self) -> float:
        """log p(w, z | α, β) of the training data at the current sample, in the callback of ``fit``."""
        if not hasattr(self, "_topics"):
            raise InputError("no training is in progress: call log_likelihood() from the callback of fit")
        counts = document_topic_counts(self._cells.corpus.offsets, self._topics, self.n_topics)
        return log_joint(counts, self._table[:, : self.n_topics], self.alpha_, self.beta_)

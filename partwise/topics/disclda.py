"""DiscLDA: LDA whose topic proportions are transformed by the class (chapter 4)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from partwise.estimation.base import thread_count
from partwise.exceptions import InputError, ParameterError

from ._checks import at_least, one_of, positive, seed_of
from ._cluster import DistributedSweeps
from ._state import CheckpointSource, Keeper, State, StateMixin
from .corpus import MISSING, Corpus, encode_labels, pack
from .engines import GibbsEngine, VariationalEngine
from .posterior import METHODS, ClassPosterior
from .training import Plan, Training

__all__ = ["DiscLDA"]


class DiscLDA(StateMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """θ_d ~ Dir(α), z_dn ~ θ_d, u_dn ~ T^{y_d}_{·, z_dn}, w_dn ~ φ_{u_dn}: DiscLDA.

    Lacoste-Julien (2009), eq. (4.1), Figure 4.3.

    T^y turns L = B_c + B_s prior topics into K = C·B_c + B_s topics. Fixed, it gives every class B_c topics
    of its own and B_s shared ones (eqs. (4.5), (4.11)); learned, it starts there, smoothed, and ascends the
    conditional likelihood Σ_d log p(y_d | w_d, T, Φ) (Table 4.1).

    Parameters
    ----------
    class_topics, shared_topics : int
        B_c and B_s.
    n_topics : int or None
        K, as a check: it must equal C·B_c + B_s.
    transformation : "fixed" or "learned"
    inference : "gibbs" or "variational"
        Sampling as in the thesis, or mean field: deterministic, with exact gradients of its bounds.
    alpha : float, array of shape (L,) or None
        Dirichlet parameter of θ; ``None`` is 10/K, as in the thesis.
    beta : float
        Dirichlet parameter of the topics.
    n_iterations : int
        Gibbs sweeps (or variational EM rounds) that estimate Φ.
    class_prior : "empirical", "uniform" or array of shape (C,)
        π.
    method : "mixture_bridge", "bridge", "optimal_bridge", "harmonic_mean" or "annealed"
        Estimator of the class posterior (see ``class_posterior``), with ``n_samples`` and ``burn_in`` (None: what suits
        the method), ``reference`` (for bridges between classes: a class, or None for the best one of each
        document) and ``screen``. "bridge" is the thesis's; it is often wrong where B_c ≥ 2.
    n_phi, phi_lag : int
        Average predictions over ``n_phi`` estimates of Φ, ``phi_lag`` sweeps apart (§4.5.2; fixed T).
    sharpness : float
        s of the start t_0 = s·T − 2 from which T is learned. The thesis takes 3, which with many topics is nearly
        flat; a larger s starts nearer to the fixed T.
    step_sizes, gradient_steps, n_rounds, patience, gradient_samples, validation_fraction, refit
        Learning T: η is chosen among ``step_sizes`` by validation error on ``validation_fraction`` of the
        documents; each round is N_g gradient steps, with ``gradient_samples`` samples per document, and one
        local update of Φ. ``refit`` ends with a local update of Φ on all documents.
    impute_every : int
        Sweeps between new draws of the classes of documents without a label.
    random_state : int, generator or None
        The same integer gives the same model.
    n_jobs : int
        Threads of ``predict_proba`` and ``transform``, −1 for all cores; results do not depend on it.
    callback : callable or None
        ``callback(estimator, iteration)`` after each sweep or round; ``estimator.checkpoint()`` is what
        ``fit(X, y, checkpoint=...)`` continues from. Returning ``True`` stops.

    Attributes
    ----------
    classes_ : (C,); class_prior_ : (C,); alpha_ : (L,)
    transformation_ : (C, K, L), T
    phi_ : (n_phi, V, K), estimates of Φ
    history_ : list of dicts, one per step size tried, with the validation error of each round.

    Examples
    --------
    >>> from partwise.topics import DiscLDA
    >>> X = [[4, 4, 0, 0, 3], [3, 5, 0, 0, 2], [0, 0, 4, 4, 3], [0, 0, 5, 3, 2]]
    >>> model = DiscLDA(1, 1, n_iterations=50, random_state=0).fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[5, 2, 0, 0, 1], [0, 0, 3, 3, 0]]).tolist()
    ['a', 'b']
    >>> model.transform(X).shape
    (4, 3)
    """

    kind = "disclda"
    _scalars = ("n_features_in_", "n_iter_", "seed_", "history_")
    _arrays = ("classes_", "class_prior_", "alpha_", "transformation_", "phi_")

    def __init__(
        self,
        class_topics: int = 5,
        shared_topics: int = 10,
        *,
        n_topics: int | None = None,
        transformation: str = "fixed",
        inference: str = "gibbs",
        alpha: float | np.ndarray | None = None,
        beta: float = 0.01,
        n_iterations: int = 200,
        class_prior: str | Sequence[float] = "empirical",
        method: str = "mixture_bridge",
        n_samples: int | None = None,
        burn_in: int | None = None,
        reference: Any = None,
        screen: float = 1e-8,
        n_phi: int = 1,
        phi_lag: int = 20,
        step_sizes: Sequence[float] = (1.0, 10.0),
        gradient_steps: int = 10,
        n_rounds: int = 10,
        patience: int = 4,
        gradient_samples: int = 100,
        validation_fraction: float = 0.2,
        refit: bool = True,
        sharpness: float = 3.0,
        impute_every: int = 10,
        random_state: Any = 0,
        n_jobs: int = 1,
        callback: Callable[[Any, int], bool | None] | None = None,
    ) -> None:
        self.class_topics = class_topics
        self.shared_topics = shared_topics
        self.n_topics = n_topics
        self.transformation = transformation
        self.inference = inference
        self.alpha = alpha
        self.beta = beta
        self.n_iterations = n_iterations
        self.class_prior = class_prior
        self.method = method
        self.n_samples = n_samples
        self.burn_in = burn_in
        self.reference = reference
        self.screen = screen
        self.n_phi = n_phi
        self.phi_lag = phi_lag
        self.step_sizes = step_sizes
        self.gradient_steps = gradient_steps
        self.n_rounds = n_rounds
        self.patience = patience
        self.gradient_samples = gradient_samples
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.sharpness = sharpness
        self.impute_every = impute_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, checkpoint: CheckpointSource | None = None, engine: Any = None) -> Self:
        """Fit on a D × V matrix of counts and D labels, ``None`` or NaN where unknown. With a ``checkpoint``
        (a file, or what ``checkpoint()`` returned) continue from it; a file is also kept up to date.

        With an ``engine`` (a dask.distributed.Client, its address, or "local") the sweeps that estimate Φ are done by
        the workers of a cluster, as in :meth:`partwise.topics.LDA.fit`: an approximation, whose result does not depend
        on the number of workers. Learning T and drawing unknown classes stay here."""
        self._check_parameters()
        if engine is not None and self.inference != "gibbs":
            raise ParameterError("inference", "DiscLDA", "'gibbs' on a cluster", self.inference)
        corpus = pack(X)
        self.classes_, labels = encode_labels(y, corpus.n_documents)
        self._check_classes(labels)
        self.n_features_in_ = corpus.n_words
        self.seed_ = seed_of(self.random_state)
        plan = self._plan(labels)
        self._training = Training(plan, self._engine(), corpus, labels)
        self._keeper = Keeper(checkpoint, self, corpus, labels)
        if self._keeper.state is not None:
            self._training.restore(self._keeper.state)
        self.n_iter_ = 0
        with contextlib.ExitStack() as stack:
            if engine is not None:
                assert self._training.chain is not None
                elsewhere = stack.enter_context(DistributedSweeps(engine, self._training.chain.corpus))
                self._training.chain.elsewhere = elsewhere
            self._training.run(self._progress)
        self.transformation_ = self._training.transformation
        self.phi_ = np.stack(self._training.phis)
        self.history_ = self._training.winners
        del self._training, self._keeper
        return self

    def checkpoint(self) -> State:
        """(header, arrays) of a training in progress: what ``fit(X, y, checkpoint=...)`` continues from."""
        if not hasattr(self, "_training"):
            raise InputError("no training is in progress: call checkpoint() from the callback of fit")
        return self._training.checkpoint()

    def log_likelihood(self) -> float | None:
        """log p(w, u, z | y, α, β) at the current sample, in the callback of ``fit``; None for mean field."""
        if not hasattr(self, "_training"):
            raise InputError("no training is in progress: call log_likelihood() from the callback of fit")
        return self._training.log_likelihood()

    def _check_state(self) -> None:
        shape = getattr(self, "transformation_", np.empty((0, 0, 0))).shape
        n_classes, n_topics, n_prior = shape if len(shape) == 3 else (0, 0, 0)
        self._check_shapes(
            {
                "transformation_": (n_classes, n_topics, n_prior),
                "classes_": (n_classes,),
                "class_prior_": (n_classes,),
                "alpha_": (n_prior,),
                "phi_": (None, self.n_features_in_, n_topics),
            }
        )

    def _progress(self, iteration: int) -> bool:
        self.n_iter_ = iteration
        self._keeper.keep(iteration, self._training.checkpoint)
        return bool(self.callback is not None and self.callback(self, iteration))

    def _check_parameters(self) -> None:
        for name, low in (("class_topics", 1), ("shared_topics", 0), ("n_iterations", 1)):
            at_least(self, name, low)
        for name, low in (("n_samples", 1), ("burn_in", 0)):
            if getattr(self, name) is not None:
                at_least(self, name, low)
        for name in (
            "n_phi",
            "phi_lag",
            "gradient_steps",
            "gradient_samples",
            "impute_every",
            "n_rounds",
        ):
            at_least(self, name, 1)
        thread_count(self.n_jobs)
        positive(self, "beta")
        one_of(self, "transformation", ("fixed", "learned"))
        one_of(self, "inference", ("gibbs", "variational"))
        one_of(self, "method", tuple(METHODS))
        if not 0.0 < self.validation_fraction < 1.0:
            raise ParameterError("validation_fraction", "DiscLDA", "a share in (0, 1)", self.validation_fraction)
        if self.transformation == "learned" and self.n_phi > 1:
            raise ParameterError("n_phi", "DiscLDA", "1 when the transformation is learned", self.n_phi)

    def _check_classes(self, labels: np.ndarray) -> None:
        """Sizes that do not fit the classes; sets ``alpha_`` and ``class_prior_``."""
        n_classes = self.classes_.size
        n_topics = n_classes * self.class_topics + self.shared_topics
        if self.n_topics is not None and self.n_topics != n_topics:
            made = f"{n_classes}·{self.class_topics} + {self.shared_topics} = {n_topics}"
            raise ParameterError("n_topics", "DiscLDA", f"C·B_c + B_s = {made}", self.n_topics)
        n_prior = self.class_topics + self.shared_topics
        alpha = np.asarray(10.0 / n_topics if self.alpha is None else self.alpha, dtype=np.float64)
        if alpha.ndim > 1 or (alpha.ndim == 1 and alpha.size != n_prior) or not (alpha > 0).all():
            expected = f"a positive number or B_c + B_s = {n_prior} positive numbers"
            raise ParameterError("alpha", "DiscLDA", expected, self.alpha)
        self.alpha_ = np.broadcast_to(alpha, (n_prior,)).copy()
        sizes = np.bincount(labels[labels != MISSING], minlength=n_classes)
        if (sizes == 1).any():
            lonely = self.classes_[int(np.flatnonzero(sizes == 1)[0])]
            message = f"class {str(lonely)!r} has one document"
            if self.transformation == "learned":
                raise InputError(f"{message}: learning T needs one to train on and one to validate on")
            warnings.warn(f"{message}: its topics will copy that document", UserWarning, stacklevel=3)
        if isinstance(self.class_prior, str):
            one_of(self, "class_prior", ("empirical", "uniform"))
            empirical = self.class_prior == "empirical"
            self.class_prior_ = sizes / sizes.sum() if empirical else np.full(n_classes, 1.0 / n_classes)
        else:
            prior = np.asarray(self.class_prior, dtype=np.float64)
            if prior.shape != (n_classes,) or not (prior > 0).all():
                raise ParameterError("class_prior", "DiscLDA", f"{n_classes} positive numbers", self.class_prior)
            self.class_prior_ = prior / prior.sum()

    def _plan(self, labels: np.ndarray) -> Plan:
        steps = tuple(float(step) for step in np.atleast_1d(np.asarray(self.step_sizes, dtype=np.float64)))
        if not steps or min(steps) <= 0:
            raise ParameterError("step_sizes", "DiscLDA", "one or more positive numbers", self.step_sizes)
        return Plan(
            n_classes=self.classes_.size,
            class_topics=self.class_topics,
            shared_topics=self.shared_topics,
            learned=self.transformation == "learned",
            n_iterations=self.n_iterations,
            n_phi=self.n_phi,
            phi_lag=self.phi_lag,
            impute_every=self.impute_every,
            step_sizes=steps,
            gradient_steps=self.gradient_steps,
            n_rounds=self.n_rounds,
            patience=self.patience,
            validation_fraction=self.validation_fraction,
            refit=self.refit,
            sharpness=positive(self, "sharpness"),
            seed=self.seed_,
        )

    def _engine(self) -> GibbsEngine | VariationalEngine:
        common = (self.alpha_, float(self.beta), self.class_prior_)
        if self.inference == "variational":
            return VariationalEngine(*common, n_jobs=self.n_jobs)
        reference: int | None = None
        if self.reference is not None:
            found = np.flatnonzero(self.classes_ == self.reference)
            if found.size == 0:
                known = f"None or one of the classes {self.classes_.tolist()}"
                raise ParameterError("reference", "DiscLDA", known, self.reference)
            reference = int(found[0])
        return GibbsEngine(
            *common,
            method=self.method,
            n_samples=self.n_samples,
            burn_in=self.burn_in,
            reference=reference,
            screen=self.screen,
            gradient_samples=self.gradient_samples,
            mixed_gradient=self.classes_.size == 2,  # eq. 4.17 as printed costs C² a sample; else its O(C) form
            local_sweeps=self.n_iterations,
            seed=self.seed_,
            n_jobs=self.n_jobs,
        )

    # ------------------------------------------------------------------ using the model

    @property
    def components_(self) -> np.ndarray:
        """(K, V), the first estimate of Φ transposed; rows sum to one."""
        check_is_fitted(self, "phi_")
        return np.asarray(self.phi_[0].T)

    def class_posterior(self, X: Any) -> list[ClassPosterior]:
        """p(y | w_d, T, Φ) with standard errors (appendix 4.B), one ``ClassPosterior`` for each estimate of Φ."""
        return self._posteriors(self._pack(X))

    def _pack(self, X: Any) -> Corpus:
        check_is_fitted(self, "phi_")
        return pack(X, self.n_features_in_, allow_empty=True)

    def _posteriors(self, corpus: Corpus) -> list[ClassPosterior]:
        engine = self._engine()
        return [engine.posterior(corpus, phi, self.transformation_) for phi in self.phi_]

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y | w_d), (D, C), averaged over the estimates of Φ (§4.5.2); a document without words gets π."""
        return np.asarray(np.mean([found.probabilities for found in self.class_posterior(X)], axis=0))

    def predict(self, X: Any) -> np.ndarray:
        """argmax_y p(y | w_d), (D,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def transform(self, X: Any) -> np.ndarray:
        """E[T^y θ_d | w_d], (D, K), y integrated out (eqs. (4.9), (4.29)); averaged over the estimates of Φ."""
        corpus = self._pack(X)
        return np.asarray(np.mean([self.representation(corpus, p) for p in self._posteriors(corpus)], axis=0))

    def representation(self, corpus: Corpus, posterior: ClassPosterior) -> np.ndarray:
        """Σ_y p(y | w_d) T^y (α + n̂^{(d)}(y)) / (α_· + N_d), eq. (4.29), from a posterior already at hand."""
        smoothed = posterior.topic_counts + self.alpha_
        theta = smoothed / smoothed.sum(axis=2, keepdims=True)
        result: np.ndarray = np.einsum(
            "dy,ykl,dyl->dk", posterior.probabilities, self.transformation_, theta, optimize=True
        )
        return result

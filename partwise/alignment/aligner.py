"""WordAligner: learns word alignment from about a hundred gold sentence pairs, on top of a model of raw text."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.alignment.aligner_state import aligner_state, restore_aligner
from partwise.alignment.feature_map import (
    ALIGNMENT_MODELS,
    FeatureMap,
    check_fertility,
    fertility_of,
)
from partwise.alignment.generative import GenerativeAligner
from partwise.alignment.gold import gold_links
from partwise.alignment.gold_lexicon import GoldLexicon
from partwise.alignment.link_features import LinkSource
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.link_model import best_threshold, link_problem, shifted
from partwise.alignment.link_prediction import LinkPrediction
from partwise.alignment.link_regression import Newton
from partwise.alignment.links import Floats, SentencePair, check_pairs
from partwise.alignment.posterior_features import PosteriorFeatures, trained_on_raw_text
from partwise.alignment.problems import alignment_problem, check_learner, link_array, link_costs, training_targets
from partwise.alignment.scores import alignment_scores
from partwise.alignment.selection import AUTO, FEW, GRIDS, Selection, select, trials
from partwise.alignment.word_counts import common_words, word_counts
from partwise.costs import PartCost
from partwise.estimation.base import make_learner, make_loss, restore, thread_count
from partwise.estimation.outputs import as_instances, as_list
from partwise.exceptions import InputError, ParameterError, unknown_name
from partwise.gold import checked_weights
from partwise.learners import Learner, Result
from partwise.learners.base import Callback
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.storage import check_writable
from partwise.storage import load as load_file

__all__ = ["WordAligner"]


class WordAligner(LinkPrediction):
    """argmax over alignments y of Σ_jk w·f(x_jk) y_jk, with fertilities and pairs of links where the model has them.

    Lacoste-Julien (2009), eqs. (3.1)–(3.3), trained by maximising the margin over gold sentence pairs, eq. (3.5).

    Parameters
    ----------
    generative : GenerativeAligner, optional
        An aligner of raw text, whose posteriors and associations are the most important features. If it is not fitted,
        or absent (then it is an HMM), ``fit`` trains it on ``bitext`` and the training pairs.
    model : {"auto", "L", "M", "M+F", "M+Q", "M+F+Q"}
        Links one by one (logistic regression); matching; with fertilities; with pairs of neighbouring links (a
        quadratic assignment); with both. "auto": L, or M or M+F if they are better by more than a standard
        error in cross-validation on the gold pairs; M where ``C``, ``loss`` or ``learner`` is given.
    posteriors : tuple of str, optional
        Which of the generative aligner's models give posteriors; all of them if absent.
    sources : tuple of callables
        More edge features: each maps sentence pairs to {name: one (J, K) matrix per pair}. With ``n_jobs`` they are
        called in several threads at once.
    max_fertility : int
        Maximum number of links per word in models with F.
    false_positive, false_negative : float
        c⁺ and c⁻ of the cost, eq. (2.10). Links that are only possible cost nothing either way. Not for L, which
        predicts links above the probability with the lowest error on the training pairs.
    infeasible : {"error", "nearest"}
        For gold alignments that the model cannot produce: raise an error that names the pair and the link, or train on
        the largest feasible subset of their links. Where the model is chosen by cross-validation, always the latter.
    candidates : float
        In models with Q: the smallest posterior, under any model, of a link to be considered.
    exact : bool
        In models with Q: predict with an integer program, or by rounding its linear relaxation.
    time_limit : float, optional
        In models with Q: time limit per sentence pair in seconds; a :class:`SolverError` ends longer searches.
    frequent : int
        Number of most frequent words on each side that have their own features.
    gold_counts : bool
        Whether it is a feature how often the gold pairs link two words; with it come the values of links that share a
        word with this one. Both are absent in the paper.
    lexicon_count : int
        Words at least this frequent in the training pairs have their own fertility penalties.
    C : float, optional
        Weight of the losses. If absent, the one of a few of least cross-validated error on (up to 200) gold pairs, for
        the models with Q that of the model without. If that does not beat the generative aligner by more than one
        standard error (a quarter from 50 gold pairs on), :meth:`predict` returns the links of the latter, after a
        warning. ``selection_`` has the figures.
    loss, learner
        If absent, the SVM's loss (or the perceptron's own) and n-slack cutting planes; for L, the log-loss and Newton's
        method.
    max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`SequenceLabeler`. Models with F or Q need a learner that keeps weights ≥ 0. Those with Q search in
        ``n_jobs`` processes if there are many pairs.

    Attributes
    ----------
    theta_ : (dim,) weights, named by ``feature_names_``
    generative_ : GenerativeAligner
    result_ : Result with the trace, the certificate and the status
    n_pairs_ : number of training pairs
    model_ : str; C_ : float; selection_ : Selection, or None where C was given

    Examples
    --------
    >>> from partwise.data import load_sample_alignments
    >>> train, test = load_sample_alignments("train"), load_sample_alignments("test")
    >>> aligner = WordAligner().fit(train.bitext, train.gold)
    >>> aligner.selection_.improves, aligner.score(test.bitext, test.gold) > 0.9
    (True, True)
    >>> aligner.predict([("the cat sleeps".split(), "le chat dort".split())])
    [[(0, 0), (1, 1), (2, 2)]]
    """

    kind = "word-aligner"
    usual_loss = "svm"
    C: float | None  # type: ignore[assignment]
    free = ("n_jobs", "verbose", "exact")
    not_stored = ("generative", "sources")

    def __init__(
        self,
        generative: GenerativeAligner | None = None,
        *,
        model: str = "auto",
        posteriors: tuple[str, ...] | None = None,
        sources: tuple[LinkSource, ...] = (),
        max_fertility: int = 2,
        false_positive: float = 1.0,
        false_negative: float = 3.0,
        infeasible: str = "error",
        candidates: float = 0.01,
        exact: bool = True,
        time_limit: float | None = None,
        frequent: int = 5,
        lexicon_count: int = 5,
        gold_counts: bool = True,
        loss: Any = None,
        learner: Any = None,
        C: float | None = None,
        max_passes: int | None = None,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.generative, self.model, self.posteriors, self.sources = generative, model, posteriors, sources
        self.max_fertility, self.infeasible = max_fertility, infeasible
        self.false_positive, self.false_negative = false_positive, false_negative
        self.candidates, self.exact, self.time_limit = candidates, exact, time_limit
        self.frequent, self.lexicon_count, self.gold_counts = frequent, lexicon_count, gold_counts
        self.loss, self.learner, self.C, self.max_passes = loss, learner, C, max_passes
        self.learner_options, self.patience, self.random_state = learner_options, patience, random_state
        self.n_jobs, self.verbose = n_jobs, verbose

    def __sklearn_clone__(self) -> Self:
        """The same settings, including a fitted generative aligner."""
        return self.unfitted()

    # training

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        if self.model != "auto" and self.model not in ALIGNMENT_MODELS:
            raise unknown_name("model", self.model, ("auto", *ALIGNMENT_MODELS))
        if self.infeasible not in ("error", "nearest"):
            raise ParameterError("infeasible", "WordAligner", "'error' or 'nearest'", self.infeasible)
        for name in ("false_positive", "false_negative", "candidates", "frequent", "lexicon_count"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, "WordAligner", "a number ≥ 0", getattr(self, name))
        if self.time_limit is not None and not self.time_limit > 0:
            raise ParameterError("time_limit", "WordAligner", "a positive number of seconds", self.time_limit)
        check_fertility("M+F" if self._chooses else self._kind, self.max_fertility)
        super().check_settings()

    @property
    def _chooses(self) -> bool:
        """Whether the model is chosen by cross-validation."""
        return self.model == "auto" and self.C is None and self.loss is None and self.learner is None

    @property
    def _kind(self) -> str:
        """The model of the weights, or if there are none yet of those to come."""
        if self.model != "auto":
            return self.model
        chosen: str = getattr(self, "model_", "M")
        return chosen

    def fit(
        self,
        X: Sequence[SentencePair],
        y: Sequence[Any],
        *,
        bitext: Any = None,
        dev: tuple[Sequence[SentencePair], Sequence[Any]] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on sentence pairs X with gold links y. Ctrl-C ends training and keeps the best weights so far.

        Parameters
        ----------
        X : Bitext, or pairs (source words, target words)
        y : gold alignments, one per pair
            Links (j, k), counted from 0, all of them sure; or (sure links, possible links).
        bitext : Bitext or pairs without links, optional
            Raw text for the generative aligner, if no fitted one was given.
        dev : (X, y), optional
            Held-out pairs: the pass with the lowest error rate on them is kept.
        callbacks : of (record, θ) → True to stop
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        sample_weight : (n,), optional
            How much the loss of each pair counts; C is chosen without.
        """
        X, y = as_instances(X), as_list(y)
        self.__dict__.pop("model_", None)
        self.check_settings()
        check_learner(*self._settings(), self._kind)
        check_pairs(X)
        if len(X) == 0:
            raise InputError("there are no sentence pairs to train on")
        if dev is not None:
            gold_links(*dev)
        if checkpoint is not None:
            check_writable(checkpoint)
        gold = gold_links(X, y)
        if not self._chooses and self._kind != "L":
            self._targets(X, gold)  # what cannot be learned is said before raw text is read
        self.generative_ = trained_on_raw_text(self.generative, X, bitext, n_jobs=self.n_jobs, verbose=self.verbose)
        self.selection_ = self._select(X, gold)
        chosen = self._kind if self.selection_ is None or not self._chooses else self.selection_.model
        self.model_, self.C_ = chosen, self.C if self.selection_ is None else self.selection_.C
        if self.selection_ is not None and not self.selection_.improves:
            message = f"gold links did not improve on raw text: {self.selection_}, whose links predict() returns"
            warnings.warn(message, UserWarning, stacklevel=2)
        also: dict[str, Any] = {"sample_weight": sample_weight}
        if chosen == "L":  # whose instances are links
            also = {"pair_weights": None if sample_weight is None else checked_weights(sample_weight, len(X))}
        return self._fit(X, y, dev=dev, callbacks=callbacks, checkpoint=checkpoint, **also)

    def _settings(self, max_passes: int | None = None) -> tuple[Learner, LossFunction]:
        lone = self._kind == "L"
        usual = (Newton if self.loss is None else "lbfgs") if lone else "n_slack"
        name = usual if self.learner is None else self.learner
        C = self.C if self.C is not None else getattr(self, "C_", None) or FEW
        limit = self.max_passes if max_passes is None else max_passes
        learner = make_learner(name, C, limit, self.random_state, self.learner_options or {})
        return learner, make_loss(self.loss, name, usual="crf" if lone else self.usual_loss)

    def _targets(self, X: Any, gold: Sequence[GoldLinks]) -> tuple[list[NDArray[np.int64]], PartCost]:
        """What is to be learned, and what other links cost."""
        sizes = np.array([(len(source), len(target)) for source, target in X])
        infeasible = "nearest" if self._chooses else self.infeasible
        targets = training_targets(sizes, gold, fertility_of(self._kind, self.max_fertility), infeasible)
        return targets, link_costs(gold, targets, sizes, self.false_positive, self.false_negative)

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        gold = gold_links(X, y)
        counted = GoldLexicon.of(X, gold) if self.gold_counts else None
        self.map_ = self._feature_map(common_words(X, self.lexicon_count), counted)
        parts = self.map_(X, keep=[link_array(links.sure) for links in gold], own=gold)
        self.feature_names_, self.n_pairs_ = parts.names, len(X)
        self.__dict__.pop("_gold_parts", None)
        if self._kind == "L":
            self._gold_parts = parts, gold
            many = thread_count(self.n_jobs)
            problem: Problem = link_problem(parts, gold, learner, loss, many, self.random_state, **data)
            return problem
        return alignment_problem(parts, *self._targets(X, gold), loss, thread_count(self.n_jobs))

    def _take(self, result: Result) -> Self:
        super()._take(result)
        self.theta_ = self._final(result.theta)
        self.__dict__.pop("_gold_parts", None)
        return self

    def _final(self, theta: Floats) -> Floats:
        """The weights to predict with: in L, after training, those that make the best threshold 0."""
        if "_gold_parts" not in self.__dict__:
            return theta
        parts, gold = self._gold_parts
        return shifted(theta, best_threshold(parts, gold, theta))

    def _select(self, X: Any, gold: Sequence[GoldLinks]) -> Selection | None:
        """Model and C by cross-validation, where the learner takes a C."""
        if self.C is not None or not (self.learner is None or isinstance(self.learner, str)):
            return None
        infeasible = "nearest" if self._chooses else self.infeasible
        trial = self.unfitted().set_params(verbose=0, patience=None, infeasible=infeasible)
        trial.generative_ = self.generative_
        choices = AUTO if self._chooses else GRIDS[self._kind.removesuffix("+Q")]
        return select(trials(trial, X, gold), gold, self.generative_.predict(X), self.random_state, choices)

    @property
    def _label(self) -> str:
        return f"aligner {self._kind}"

    def _start(self, problem: Problem, X: Any, y: Any, dev: Any) -> Result | None:
        """Where the models with Q begin: at the solution without pairs of links, whose passes cost a fraction."""
        simpler, _, quadratic = self.model.rpartition("+")
        if quadratic != "Q":
            return None
        first = self.unfitted().set_params(model=simpler, generative=self.generative_, max_passes=None, C=self.C_)
        return first.fit(X, y, dev=dev).result_

    def _feature_map(self, lexicon: tuple[Sequence[str], Sequence[str]], gold: GoldLexicon | None) -> FeatureMap:
        names = tuple(self.generative_.models_) if self.posteriors is None else tuple(self.posteriors)
        return FeatureMap(
            self._kind, (PosteriorFeatures(self.generative_, names), *self.sources), word_counts(self.generative_),
            lexicon, self.max_fertility, self.frequent, self.candidates, self.time_limit, gold,
        )  # fmt: skip

    def _evidence(self, dev: Any) -> object:
        return None if dev is None else [list(dev[0]), [sorted(links.possible) for links in gold_links(*dev)]]

    def _make_score(self, X: Sequence[SentencePair], y: Sequence[Any]) -> Callable[[Floats], float]:
        gold, parts = gold_links(X, y), self.map_(X)
        return lambda theta: 1.0 - alignment_scores(gold, self._decode(parts, self._final(theta))).aer

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return aligner_state(self)

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        restore_aligner(self, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False, sources: tuple[LinkSource, ...] = ()) -> Self:
        """Read a model written by :meth:`save`. Functions are not stored: pass the ``sources`` of training again."""
        stored = load_file(path, cls.kind, mmap=mmap)
        maker: Any = SimpleNamespace(kind=cls.kind, from_state=partial(cls.from_state, sources=sources))
        model: Self = restore(maker, path, stored.header, stored.arrays)
        return model

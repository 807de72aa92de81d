"""PhraseParser: trees of phrases by a discriminative grammar, with probabilities, k-best lists and minimum risk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from partwise.batch import Batch
from partwise.costs import ConstituentCost
from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.estimation.results import result_from_json
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners import Learner, Result
from partwise.losses import LossFunction
from partwise.parsing.phrases.features import PhraseFeatures
from partwise.parsing.phrases.metrics import BracketScores, bracket_scores
from partwise.parsing.phrases.model import Forests, PhraseModel
from partwise.parsing.phrases.pcfg import check_sentences, check_trees, warn_of_fallbacks
from partwise.parsing.phrases.storage import model_from_state, model_to_state
from partwise.parsing.phrases.trees import PhraseTree
from partwise.parsing.training import TreebankEstimator
from partwise.problem import Problem
from partwise.structures.base import score_of
from partwise.structures.grammar import Grammar

if TYPE_CHECKING:
    from partwise.parsing.phrases.explanation import ConstituentExplanation

__all__ = ["Constituent", "PhraseParser", "RankedTree"]

Floats = NDArray[np.float64]

#: Sentences whose forests are in memory at once.
BLOCK = 256
#: How much the posteriors of rules count beside those of constituents where trees are of equal risk.
TIE = 1e-3


class Constituent(NamedTuple):
    """A label over the words start … stop − 1 with its probability."""

    start: int
    stop: int
    label: str
    probability: float


@dataclass(frozen=True)
class RankedTree:
    """A tree of a k-best list with its probability."""

    tree: PhraseTree
    probability: float


class PhraseParser(TreebankEstimator):
    """argmax over trees y of Σ θ·f(x, A, i, j) + Σ θ·f(x, A → B C, i, m, j): Bartlett et al. (2004), Example 2.

    The grammar is extracted from the trees; its rules have features of the words around their borders instead of
    probabilities. A coarse pass with the plain grammar drops unlikely spans first; in training, one that has not seen
    the sentence.

    Parameters
    ----------
    vertical, horizontal : int
        Memory of symbols, see :class:`TreebankParser`.
    threshold : float
        Posterior below which the coarse pass drops a symbol over a span.
    folds : int
        Number of folds of the training trees for the coarse pass; with 1, it has seen them all.
    loss, learner, C, max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`SequenceLabeler`; without a loss, the SVM's or the perceptron's own. The cost is the number of
        wrong and of missed constituents.
    bits : int
        There are 2^bits weights.

    Attributes
    ----------
    theta_ : (2^bits,) weights
    recall_ : Recall
        How much of the training trees the coarse pass kept, before gold constituents were added back.
    temperature_ : float
        Scores are divided by this before they become probabilities; 1 until :meth:`calibrate`.
    fallbacks_ : int
        How many sentences of the last prediction had no parse and got a flat tree with the label FALLBACK.
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from partwise.parsing import load_sample_phrases
    >>> parser = PhraseParser(bits=16, max_passes=5).fit(load_sample_phrases("train"))
    >>> str(parser.predict([["the", "dog", "slept", "."]])[0])
    '(S (NP (DT the) (NN dog)) (VP (VBD slept)) (. .))'
    """

    kind = "phrase-parser"
    usual_loss = "svm"

    def __init__(
        self,
        *,
        vertical: int = 1,
        horizontal: int = 1,
        threshold: float = 1e-3,
        folds: int = 5,
        loss: Any = None,
        learner: Any = "dca",
        C: float = 0.01,
        max_passes: int | None = 10,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        bits: int = 24,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.vertical, self.horizontal, self.threshold, self.folds = vertical, horizontal, threshold, folds
        self.loss, self.learner, self.C, self.max_passes = loss, learner, C, max_passes
        self.learner_options, self.patience, self.bits = learner_options, patience, bits
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    # training

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        name = type(self).__name__
        if self.vertical not in (1, 2):
            raise ParameterError("vertical", name, "1 or 2", self.vertical)
        if not self.horizontal >= 0:
            raise ParameterError("horizontal", name, "at least 0", self.horizontal)
        if not 0 < self.threshold < 1:
            raise ParameterError("threshold", name, "between 0 and 1", self.threshold)
        if not self.folds >= 1:
            raise ParameterError("folds", name, "at least 1", self.folds)
        if not 8 <= self.bits <= 28:
            raise ParameterError("bits", name, "in 8..28", self.bits)
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        trees = check_trees(X)
        self.temperature_ = 1.0
        self.model_ = PhraseModel(self.vertical, self.horizontal, self.threshold).fit(trees)
        n_threads = thread_count(self.n_jobs)
        folds = min(self.folds, len(trees))
        space, words, gold, self.recall_ = self.model_.training_forests(trees, folds, n_threads)
        features = self._features(space, words)
        return Problem(space, features, gold, loss, ConstituentCost(), n_threads=n_threads)

    @property
    def _label(self) -> str:
        return "phrases"

    def _evidence(self, dev: Any) -> object:
        return None if dev is None else [str(tree) for tree in dev[0]]

    def _features(self, space: Grammar, words: Sequence[Any]) -> PhraseFeatures:
        return PhraseFeatures(space, words, self.model_.fine.symbols, bits=self.bits)

    def _take(self, result: Result) -> Self:
        """Weights in single precision, as in the model file; hashed weights need no more."""
        self.theta_ = result.theta.astype(np.float32)
        self.result_ = replace(result, theta=np.zeros(0))
        return self

    def _make_score(self, X: Sequence[PhraseTree], y: None) -> Callable[[Floats], float]:
        sentences = check_sentences(X)
        forests = self.model_.forests(sentences, thread_count(self.n_jobs))
        batch = Batch(forests.space, self._features(forests.space, forests.words), n_threads=thread_count(self.n_jobs))

        def score(theta: Floats) -> float:
            trees = [self.model_.fallback(w, t) for w, t in zip(sentences, forests.tags, strict=True)]
            for i, rows in zip(forests.parsed, batch.outputs(theta), strict=True):
                trees[i] = self.model_.tree(rows, sentences[i])
            return bracket_scores(X, trees).f1 / 100.0

        return score

    # prediction

    def _blocks(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, Forests, Batch]]:
        """(first sentence, forests, batch) of so many sentences at a time."""
        n_threads = thread_count(self.n_jobs)
        for start in range(0, len(sentences), BLOCK):
            forests = self.model_.forests(sentences[start : start + BLOCK], n_threads)
            yield (
                start,
                forests,
                Batch(forests.space, self._features(forests.space, forests.words), n_threads=n_threads),
            )

    def predict(self, X: Sequence[Any], *, decoding: str = "best") -> list[PhraseTree]:
        """The tree of every sentence; a sentence is a list of words, or a tree whose words are used.

        Sentences without a parse get a flat tree with the label FALLBACK; ``fallbacks_`` counts them, a warning names
        the first.

        Parameters
        ----------
        X : sequence of sentences
        decoding : {"best", "risk"}
            The tree with the highest score, or the one with the fewest wrong and missed constituents in expectation
            under the model's probabilities.
        """
        if decoding not in ("best", "risk"):
            raise ParameterError("decoding", "predict", "'best' or 'risk'", decoding)
        check_is_fitted(self, "theta_")
        sentences = check_sentences(X)
        trees: list[PhraseTree] = []
        parsed: list[int] = []
        for start, forests, batch in self._blocks(sentences):
            here = sentences[start : start + BLOCK]
            trees += [self.model_.fallback(w, t) for w, t in zip(here, forests.tags, strict=True)]
            if not forests.parsed:
                continue
            if decoding == "risk":
                gains = self._gains(forests.space, batch)
                outputs = Batch(forests.space, n_threads=thread_count(self.n_jobs)).outputs(gains)
            else:
                outputs = batch.outputs(self.theta_)
            for i, rows in zip(forests.parsed, outputs, strict=True):
                trees[start + i] = self.model_.tree(rows, here[i])
            parsed += [start + i for i in forests.parsed]
        self.fallbacks_ = warn_of_fallbacks(sentences, parsed)
        return Outputs(trees)

    def _gains(self, space: Grammar, batch: Batch) -> Floats:
        """2p − 1 of every constituent, p that of its label over its span: minus the expected cost, up to a constant."""
        parts = batch.marginals(self.theta_, 1.0 / self.temperature_).parts
        gains = TIE * parts
        offset = 0
        for i in range(len(space)):
            table, n_atoms = space.atoms(i), space.n_atoms(i)
            places = np.stack([table.start, table.stop, table.label], axis=1)
            _, group = np.unique(places, axis=0, return_inverse=True)
            mass = np.bincount(group.ravel(), weights=parts[offset : offset + n_atoms])[group.ravel()]
            gains[offset : offset + n_atoms] = 2.0 * mass - 1.0
            offset += space.n_parts(i)
        return gains

    def predict_marginals(self, X: Sequence[Any], *, min_probability: float = 0.01) -> list[list[Constituent]]:
        """The constituents of every sentence with at least ``min_probability``, in order of start and stop.

        A sentence without a parse has none.
        """
        check_is_fitted(self, "theta_")
        sentences = check_sentences(X)
        found: list[list[Constituent]] = [[] for _ in sentences]
        for start, forests, batch in self._blocks(sentences):
            if not forests.parsed:
                continue
            parts, offset = batch.marginals(self.theta_, 1.0 / self.temperature_).parts, 0
            for k, i in enumerate(forests.parsed):
                table, n_atoms = forests.space.atoms(k), forests.space.n_atoms(k)
                places = np.stack([table.start, table.stop, table.label], axis=1)
                spans, group = np.unique(places, axis=0, return_inverse=True)
                mass = np.bincount(group.ravel(), weights=parts[offset : offset + n_atoms], minlength=len(spans))
                found[start + i] = [
                    Constituent(s, e, self.model_.labels[label], float(p))
                    for (s, e, label), p in zip(spans.tolist(), mass, strict=True)
                    if p >= min_probability
                ]
                offset += forests.space.n_parts(k)
        return found

    def predict_kbest(self, X: Sequence[Any], k: int = 5) -> list[list[RankedTree]]:
        """The k best trees of every sentence, best first, each with its probability; none if there is no parse."""
        check_is_fitted(self, "theta_")
        sentences = check_sentences(X)
        found: list[list[RankedTree]] = [[] for _ in sentences]
        for start, forests, _ in self._blocks(sentences):
            features = self._features(forests.space, forests.words)
            for place, i in enumerate(forests.parsed):
                scores = features.scores(place, self.theta_) / self.temperature_
                log_partition, _ = forests.space.marginals(place, scores)
                found[start + i] = [
                    RankedTree(
                        self.model_.tree(forests.space.decode(place, parts), sentences[start + i]),
                        float(np.exp(score_of(scores, parts) - log_partition)),
                    )
                    for parts in forests.space.kbest(place, scores, k)
                ]
        return found

    def predict_log_proba(self, X: Sequence[PhraseTree]) -> Floats:
        """log p(tree | words) of given trees, shape (n,); −inf if the pruned forest does not contain the tree."""
        check_is_fitted(self, "theta_")
        trees = check_trees(X) if len(X) else []
        found = np.full(len(trees), -np.inf)
        for i, space, place, scores, parts in self._gold(trees):
            scores = scores / self.temperature_
            found[i] = score_of(scores, parts) - space.marginals(place, scores)[0]
        return found

    def _gold(self, trees: Sequence[PhraseTree]) -> Iterator[tuple[int, Grammar, int, Floats, Floats]]:
        """(tree, space, its place there, scores, parts) of every tree that its pruned forest has got."""
        for start, forests, _ in self._blocks([tree.words for tree in trees]):
            features = self._features(forests.space, forests.words)
            for place, i in enumerate(forests.parsed):
                rows = self.model_.fine.rows(trees[start + i], self.vertical, self.horizontal)
                if rows is not None:
                    with contextlib.suppress(InputError):  # pruned
                        parts = forests.space.encode(place, rows)
                        yield start + i, forests.space, place, features.scores(place, self.theta_), parts

    def calibrate(self, X: Sequence[PhraseTree]) -> Self:
        """Choose ``temperature_`` so that held-out trees (those in their pruned forest) are most probable."""
        import scipy.optimize

        check_is_fitted(self, "theta_")
        gold = list(self._gold(check_trees(as_list(X, "X"))))
        if not gold:
            raise InputError("none of the trees is in the forest of its sentence: there is nothing to calibrate on")

        def loss(log_temperature: float) -> float:
            beta = float(np.exp(-log_temperature))
            return sum(s.marginals(place, beta * x)[0] - score_of(beta * x, parts) for _, s, place, x, parts in gold)

        best = scipy.optimize.minimize_scalar(loss, bounds=(-7.0, 4.0), method="bounded", options={"xatol": 0.01})
        self.temperature_ = float(np.exp(best.x))
        return self

    def evaluate(self, X: Sequence[PhraseTree], **how: Any) -> BracketScores:
        """Labelled brackets of the parser's trees against those of X, by the rules of EVALB."""
        return bracket_scores(as_list(X, "X"), self.predict(X, **how))

    def score(self, X: Sequence[PhraseTree], y: None = None) -> float:
        """Labelled F1 as a share."""
        return self.evaluate(X).f1 / 100.0

    def explain(self, sentence: Any, start: int, stop: int, label: str) -> ConstituentExplanation:
        """What favours a label over the words start … stop − 1 and what counts against it, template by template."""
        from partwise.parsing.phrases.explanation import explain_constituent

        check_is_fitted(self, "theta_")
        (words,) = check_sentences([sentence])
        return explain_constituent(self, words, start, stop, label)

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = model_to_state(self.model_)
        header |= {"recall": list(self.recall_), "temperature": self.temperature_}
        return {**header, "dim": len(self.theta_)}, arrays

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        used = np.flatnonzero(self.theta_)
        return {"places": used.astype(np.int32), "weights": self.theta_[used]}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        places, weights = np.asarray(arrays["places"]), np.asarray(arrays["weights"], np.float32)
        if header["dim"] != 1 << self.bits or not np.isfinite(weights).all():
            raise StorageError("the weights do not match the features that the settings describe")
        if len(places) != len(weights) or (len(places) and not 0 <= places.min() <= places.max() < header["dim"]):
            raise StorageError("weight positions lie outside the table")
        self.theta_ = np.zeros(header["dim"], np.float32)
        self.theta_[places] = weights
        self.result_ = result_from_json(header["result"], np.zeros(0))

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        from partwise.parsing.phrases.model import Recall

        self.model_ = model_from_state(header, arrays, self.vertical, self.horizontal, self.threshold)
        self.recall_, self.temperature_ = Recall(*header["recall"]), float(header["temperature"])

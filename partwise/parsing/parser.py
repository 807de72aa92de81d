"""DependencyParser: trees of heads and relations, with probabilities, k-best lists and constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.batch import Batch
from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.estimation.results import result_from_json
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners import Learner, Result
from partwise.losses import LossFunction
from partwise.metrics.probabilities import Calibration, calibration
from partwise.parsing._decoding import RISK, arc_probabilities, best_trees, in_blocks, shaped, tree_log_probabilities
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.features import ArcFeatures, WordEncoder
from partwise.parsing.gold import Constraint, constrained_trees, gold_trees, part_numbers, relations_of
from partwise.parsing.metrics import AttachmentScores, attachment_scores
from partwise.parsing.training import Sentences, TreebankEstimator, checked_sentences
from partwise.problem import Problem
from partwise.structures.arborescence import Arborescence

if TYPE_CHECKING:
    from partwise.parsing.explanation import ArcExplanation

__all__ = ["DependencyParser", "ParsedTree"]

Floats = NDArray[np.float64]
KBEST_BLOCK = 20  # sentences whose k best trees are in memory at a time


class ParsedTree(DependencySentence):
    """A sentence of a k-best list.

    ``probability`` is that of its whole tree; ``proved``, whether no tree outside the list up to this one is better.
    """

    probability: float = 0.0
    proved: bool = True

    @classmethod
    def of(cls, tree: DependencySentence, probability: float, proved: bool = True) -> ParsedTree:
        """A tree with what is known of it."""
        found = cls(tree.rows, tree.comments, tree.source)
        found.probability, found.proved = probability, proved
        return found


class DependencyParser(TreebankEstimator):
    """argmax over trees y of Σ_m θ·f(x, h_m, m, l_m): arc-factored parsing, section 3.2 of Martins et al. (2010).

    ``fit`` takes sentences with trees. Words whose head is ``_`` are parsed freely in training: partial trees, which a
    loss with γ = 0 can learn from. On held-out sentences LAS counts, or UAS without labels.

    Parameters
    ----------
    projective : bool
        Only trees without crossing arcs (Eisner), instead of all trees (Chu–Liu/Edmonds).
    single_root : bool, optional
        Whether exactly one word depends on the root. If absent, whether this holds in all training trees.
    labelled : bool
        Whether relations are learned as well.
    loss, learner, C, max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`SequenceLabeler`; without a loss, the SVM's or the perceptron's own.
    arc_bits, row_bits : int
        Sizes of the tables of weights: 2^arc_bits of arcs, 2^row_bits rows of one weight per relation.

    Attributes
    ----------
    theta_ : (dim,) weights
    relations_ : list of str
    temperature_ : float
        Scores are divided by this before they become probabilities; 1 until :meth:`calibrate`.
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from partwise.parsing import load_sample_treebank
    >>> parser = DependencyParser(arc_bits=18, row_bits=12, max_passes=5).fit(load_sample_treebank("train"))
    >>> parser.score(load_sample_treebank("test")) > 0.9
    True
    >>> sentence = DependencySentence.of_words(["Anna", "slept"], upos=["PROPN", "VERB"], xpos=["NNP", "VBD"])
    >>> parser.predict([sentence])[0].heads.tolist()
    [2, 0]
    """

    kind = "dependency-parser"
    usual_loss = "svm"

    def __init__(
        self,
        *,
        projective: bool = False,
        single_root: bool | None = None,
        labelled: bool = True,
        loss: Any = None,
        learner: Any = "dca",
        C: float = 0.01,
        max_passes: int | None = 10,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        arc_bits: int = 24,
        row_bits: int = 19,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.projective, self.single_root, self.labelled = projective, single_root, labelled
        self.loss, self.learner, self.C, self.max_passes = loss, learner, C, max_passes
        self.learner_options, self.patience = learner_options, patience
        self.arc_bits, self.row_bits = arc_bits, row_bits
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    # training

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        for name, low, high in (("arc_bits", 8, 28), ("row_bits", 4, 24)):
            if not low <= getattr(self, name) <= high:
                raise ParameterError(name, "DependencyParser", f"in {low}..{high}", getattr(self, name))
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        self.single_root_, gold = gold_trees(X, self.single_root, projective=self.projective)
        if gold.missing and loss.uses_cost:
            raise InputError(f"{gold.missing}; only a loss without a cost, such as 'crf', learns from partial trees")
        self.relations_ = relations_of(X) if self.labelled else ["_"]
        self.encoder_ = WordEncoder().fit(X)
        self.temperature_ = 1.0
        space, features = self._space(X), self._features(X)
        outputs = gold.outputs(space, X, self.relations_ if self.labelled else None)
        return Problem(space, features, outputs, loss, n_threads=thread_count(self.n_jobs))

    @property
    def _label(self) -> str:
        return "parser"

    def _evidence(self, dev: Any) -> object:
        return None if dev is None else [sentence.text() for sentence in dev[0]]

    def _take(self, result: Result) -> Self:
        """Weights in single precision, as in the model file; hashed weights need no more."""
        self.theta_ = result.theta.astype(np.float32)
        self.result_ = replace(result, theta=np.zeros(0))
        return self

    def _features(self, X: Sequence[DependencySentence]) -> ArcFeatures:
        n = len(self.relations_)
        return ArcFeatures(self.encoder_, X, n, arc_bits=self.arc_bits, row_bits=self.row_bits)

    def _space(self, X: Sequence[DependencySentence], constraints: Sequence[Constraint] | None = None) -> Arborescence:
        given = {} if constraints is None else constrained_trees(X, constraints, self.relations_)
        return Arborescence(
            [len(sentence) for sentence in X],
            len(self.relations_) if self.labelled else None,
            single_root=self.single_root_,
            projective=self.projective,
            **given,
        )

    def _make_score(self, X: Sequence[DependencySentence], y: None) -> Callable[[Floats], float]:
        space, features = self._space(X), self._features(X)

        def score(theta: Floats) -> float:
            scores = attachment_scores(X, self._trees(X, space, features, theta, 0))
            return (scores.las if self.labelled else scores.uas) / 100.0

        return score

    # prediction

    def _checked(self, X: Sentences) -> list[DependencySentence]:
        check_is_fitted(self, "theta_")
        return checked_sentences(X, self.encoder_.tagged)

    def _trees(
        self, X: Sequence[DependencySentence], space: Arborescence, features: ArcFeatures, theta: Any, rule: int
    ) -> list[DependencySentence]:
        offsets = space.pack.offsets
        heads, labels = np.full((2, int(offsets[-1])), -1)
        values, beta = np.empty(len(space)), 1.0 / self.temperature_
        in_blocks(
            offsets,
            thread_count(self.n_jobs),
            lambda a, b: best_trees(space.pack, features.pack, theta, beta, rule, a, b, heads, labels, values),
        )
        if (values == -np.inf).any():
            raise InputError(f"no tree of sentence {int(np.argmin(values))} has a finite score")
        return [
            sentence.with_tree(
                heads[a:b].tolist(), [self.relations_[k] for k in labels[a:b]] if self.labelled else None
            )
            for sentence, a, b in zip(X, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]

    def predict(
        self,
        X: Sentences,
        *,
        decoding: str = "best",
        constraints: Sequence[Constraint] | None = None,
    ) -> list[DependencySentence]:
        """The sentences with the parser's trees in their head and relation columns; all else as it was.

        Parameters
        ----------
        X : sequence of DependencySentence, or of lists of words
        decoding : {"best", "risk"}
            The tree with the highest score, or the one with the most correct arcs in expectation.
        constraints : one mapping (or None) per sentence, optional
            {word: head} or {word: (head, relation)} that the tree must have; words count from 1.
        """
        if decoding not in ("best", "risk"):
            raise ParameterError("decoding", "predict", "'best' or 'risk'", decoding)
        sentences = self._checked(X)
        if not sentences:
            return Outputs()
        rule, space = RISK if decoding == "risk" else 0, self._space(sentences, constraints)
        return Outputs(self._trees(sentences, space, self._features(sentences), self.theta_, rule))

    def predict_marginals(self, X: Sentences, *, labelled: bool = False) -> list[Floats]:
        """P(h is the head of m), (n + 1, n) per sentence with heads 0..n as rows; if ``labelled``, (n + 1, n, L)."""
        sentences = self._checked(X)
        space, features, n_labels = self._space(sentences), self._features(sentences), len(self.relations_)
        sizes = (space.lengths + 1) * space.lengths
        offsets = np.append(0, np.cumsum(sizes))
        arcs = np.zeros(int(offsets[-1]))
        parts = np.zeros(int(offsets[-1]) * n_labels if labelled else 0)
        in_blocks(
            space.pack.offsets,
            thread_count(self.n_jobs),
            lambda a, b: arc_probabilities(
                space.pack, features.pack, self.theta_, 1.0 / self.temperature_, a, b, offsets, arcs, labelled, parts
            ),
        )
        return shaped(parts if labelled else arcs, space.lengths, n_labels if labelled else None)

    def predict_log_proba(self, X: Sequence[DependencySentence]) -> Floats:
        """log p of the tree given with each sentence, shape (n,)."""
        sentences = self._checked(X)
        space, features = self._space(sentences), self._features(sentences)
        return self._log_proba(space, features, part_numbers(sentences, self.relations_ if self.labelled else None))

    def _log_proba(self, space: Arborescence, features: ArcFeatures, numbers: NDArray[np.int64]) -> Floats:
        out, beta = np.zeros(len(space)), 1.0 / self.temperature_
        in_blocks(
            space.pack.offsets,
            thread_count(self.n_jobs),
            lambda a, b: tree_log_probabilities(space.pack, features.pack, self.theta_, beta, numbers, a, b, out),
        )
        return out

    def predict_kbest(self, X: Sentences, k: int = 5) -> list[list[ParsedTree]]:
        """The k best trees of every sentence, best first, each with its probability."""
        sentences = self._checked(X)
        found: list[list[ParsedTree]] = []
        for start in range(0, len(sentences), KBEST_BLOCK):
            found += self._kbest(sentences[start : start + KBEST_BLOCK], k)
        return found

    def _kbest(self, X: Sequence[DependencySentence], k: int) -> list[list[ParsedTree]]:
        space, features, beta = self._space(X), self._features(X), 1.0 / self.temperature_
        batch = Batch(space, features, n_threads=thread_count(self.n_jobs))
        log_partitions, ranked = batch.marginals(self.theta_, beta).log_partitions, batch.kbest(self.theta_, k)
        probabilities = np.exp(beta * ranked.values - log_partitions[:, None])
        found = []
        for i, sentence in enumerate(X):
            trees = []
            for parts, probability in zip(
                batch.of(i, ranked.parts)[: ranked.counts[i]], probabilities[i], strict=False
            ):
                y = space.decode(i, parts)
                heads, labels = (y[:, 0], [self.relations_[b] for b in y[:, 1]]) if self.labelled else (y, None)
                trees.append(ParsedTree.of(sentence.with_tree(heads.tolist(), labels), float(probability)))
            found.append(trees)
        return found

    def calibrate(self, X: Sequence[DependencySentence]) -> Self:
        """Choose ``temperature_`` so that the gold trees of held-out sentences are most probable."""
        sentences = self._checked(X)
        space, features = self._space(sentences), self._features(sentences)
        numbers = part_numbers(sentences, self.relations_ if self.labelled else None)
        return self._find_temperature(lambda: -float(self._log_proba(space, features, numbers).sum()))

    def _find_temperature(self, loss: Callable[[], float]) -> Self:
        """The ``temperature_`` at which the loss is least."""
        import scipy.optimize

        def at(log_temperature: float) -> float:
            self.temperature_ = float(np.exp(log_temperature))
            return loss()

        best = scipy.optimize.minimize_scalar(at, bounds=(-7.0, 4.0), method="bounded", options={"xatol": 0.01})
        self.temperature_ = float(np.exp(best.x))
        return self

    def calibration(self, X: Sequence[DependencySentence], bins: int = 15) -> Calibration:
        """Calibration: how often predicted heads are correct, against their probabilities."""
        predicted, mass = self.predict(X), self.predict_marginals(X)
        chosen = [p[t.heads, np.arange(len(t))] for p, t in zip(mass, predicted, strict=True)]
        right = [t.heads == s.heads for s, t in zip(X, predicted, strict=True)]
        return calibration(np.clip(np.concatenate(chosen), 0.0, 1.0), np.concatenate(right), bins)

    def evaluate(self, X: Sequence[DependencySentence], *, punctuation: bool = True, **how: Any) -> AttachmentScores:
        """Attachment scores of the parser's trees against those of X."""
        return attachment_scores(list(as_list(X, "X")), self.predict(X, **how), punctuation=punctuation)

    def score(self, X: Sequence[DependencySentence], y: None = None) -> float:
        """LAS as a share, UAS without labels."""
        scores = self.evaluate(X)
        return (scores.las if self.labelled else scores.uas) / 100.0

    def explain(
        self, sentence: DependencySentence, word: int, head: int | None = None, rival: int | None = None
    ) -> ArcExplanation:
        """Why ``head`` and not ``rival``, template by template; by default the choice and the next most probable."""
        from partwise.parsing.explanation import explain_arc

        (sentence,) = self._checked([sentence])
        return explain_arc(self, sentence, word, head, rival)

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header = {
            "relations": self.relations_,
            "single_root": self.single_root_,
            "temperature": self.temperature_,
            "dim": len(self.theta_),
        }
        words, arrays = self.encoder_.to_state()
        return {**header, **words}, arrays

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        used = np.flatnonzero(self.theta_)
        return {"places": used.astype(np.int32), "weights": self.theta_[used]}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        places, weights = np.asarray(arrays["places"]), np.asarray(arrays["weights"], np.float32)
        n_labels = len(header["relations"])
        rows = (1 << self.row_bits) * n_labels if self.labelled and n_labels > 1 else 0
        if header["dim"] != (1 << self.arc_bits) + rows or not np.isfinite(weights).all():
            raise StorageError("the weights do not match the features that the settings describe")
        if len(places) != len(weights) or (len(places) and not 0 <= places.min() <= places.max() < header["dim"]):
            raise StorageError("weight positions lie outside the table")
        self.theta_ = np.zeros(header["dim"], np.float32)
        self.theta_[places] = weights
        self.result_ = result_from_json(header["result"], np.zeros(0))

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.relations_, self.single_root_ = list(header["relations"]), bool(header["single_root"])
        self.temperature_ = float(header["temperature"])
        self.encoder_ = WordEncoder.from_state(header, arrays)

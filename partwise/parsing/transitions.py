"""TransitionParser: dependency parsing by arc-hybrid transitions, trained inside the search (LaSO)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.estimation.results import result_from_json
from partwise.estimation.searched import SearchedEstimator
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso.learner import PackedSearch
from partwise.learners.loop import Result
from partwise.parsing._decoding import in_blocks
from partwise.parsing._transition_kernels import best_trees
from partwise.parsing._transition_system import STEP_WIDTH, ArcHybrid, uncross
from partwise.parsing._transition_templates import LABEL_TEMPLATES, STEP_TEMPLATES, VIEWS, word_table
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.features import WordEncoder
from partwise.parsing.gold import gold_trees, labelled_heads, relations_of
from partwise.parsing.metrics import AttachmentScores, attachment_scores
from partwise.parsing.training import Sentences, TreebankEstimator, checked_sentences

__all__ = ["TransitionParser"]

Floats = NDArray[np.float64]


class TransitionParser(SearchedEstimator, TreebankEstimator):
    """A tree in 2n steps: shift, attach left, attach right, with the y-good steps of a dynamic oracle.

    Linear time for a fixed beam, where :class:`DependencyParser` looks at all pairs of words. Its trees have no
    crossing arcs; in gold trees that have some, as few arcs as possible are ignored in training.

    Parameters
    ----------
    beam : int
        Number of states kept after each step; 1 is the fastest.
    update, mode, alpha, average, max_passes, random_state
        As in :class:`~partwise.learners.laso.learner.LaSO`; ``mode="explore"`` learns from its own errors.
    single_root : bool, optional
        Whether exactly one word depends on the root. If absent, whether this holds in all training trees.
    labelled : bool
        Whether relations are learned as well.
    step_bits, row_bits : int
        Sizes of the tables of weights: 2^step_bits rows of steps, 2^row_bits rows of one weight per relation.
    min_count : int
        Forms and lemmas seen less often are unknown words.
    patience : int, optional
        With held-out sentences: stop after this many passes without improvement.
    learner_options : dict, optional
        More settings of LaSO.
    n_jobs : int
        Number of threads in prediction; −1 for all cores.
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    theta_ : (dim,) weights
    relations_ : list of str
    result_ : Result with the trace and the status

    Examples
    --------
    >>> from partwise.parsing import load_sample_treebank
    >>> parser = TransitionParser(step_bits=14, row_bits=12, max_passes=3).fit(load_sample_treebank("train")[:60])
    >>> sentence = DependencySentence.of_words(["Anna", "slept"], upos=["PROPN", "VERB"], xpos=["NNP", "VBD"])
    >>> parser.predict([sentence])[0].heads.tolist()
    [2, 0]
    """

    kind = "transition-parser"

    def __init__(
        self,
        *,
        beam: int = 1,
        update: str = "perceptron",
        mode: str = "explore",
        alpha: float = 0.9,
        average: bool = True,
        max_passes: int = 15,
        single_root: bool | None = None,
        labelled: bool = True,
        step_bits: int = 20,
        row_bits: int = 17,
        min_count: int = 1,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.beam, self.update, self.mode, self.alpha = beam, update, mode, alpha
        self.average, self.max_passes, self.single_root, self.labelled = average, max_passes, single_root, labelled
        self.step_bits, self.row_bits, self.min_count = step_bits, row_bits, min_count
        self.patience, self.learner_options, self.random_state = patience, learner_options, random_state
        self.n_jobs, self.verbose = n_jobs, verbose

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        for name in ("step_bits", "row_bits"):
            if not 6 <= getattr(self, name) <= 26:
                raise ParameterError(name, "TransitionParser", "from 6 to 26", getattr(self, name))
        super().check_settings()

    # training

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        self.single_root_, known = gold_trees(X, self.single_root, projective=False)
        if not known.complete:
            i = next(i for i, sentence in enumerate(X) if not sentence.has_tree)
            raise InputError(f"{X[i].source or f'sentence {i}'}: every word needs a head")
        self.relations_ = relations_of(X) if self.labelled else ["_"]
        self.encoder_ = WordEncoder(self.min_count).fit(X)
        heads = []
        for sentence in X:
            own = sentence.heads
            own = np.where(own == 0, len(own), own - 1)  # words from 0, the root after them
            uncross(own, len(own))
            heads.append(own)
        relations = np.zeros(0)
        if self.labelled:
            relations = np.concatenate([tree[:, 1] for tree in labelled_heads(X, self.relations_)])
        return PackedSearch(self._pack(X, np.concatenate(heads), relations), self._dim, len(X), dynamic=True)

    @property
    def _dim(self) -> int:
        rows = (1 << self.row_bits) * len(self.relations_) if len(self.relations_) > 1 else 0
        return (STEP_WIDTH << self.step_bits) + rows

    def _pack(self, X: Sequence[DependencySentence], heads: Any = (), relations: Any = ()) -> ArcHybrid:
        offsets, words, _ = self.encoder_.encode(X)
        views = np.empty((len(words) + 2, len(VIEWS)), np.uint64)
        word_table(words, views)
        return ArcHybrid(
            offsets, views, *STEP_TEMPLATES, *LABEL_TEMPLATES, self.step_bits, self.row_bits, len(self.relations_),
            self.single_root_, int(np.diff(offsets).max()), np.asarray(heads, np.int32),
            np.asarray(relations, np.int32),
        )  # fmt: skip

    def _evidence(self, dev: Any) -> object:
        return None if dev is None else [sentence.text() for sentence in dev[0]]

    @property
    def _label(self) -> str:
        return "parser"

    def _take(self, result: Result) -> Self:
        """Weights in single precision, as in the model file; hashed weights need no more."""
        self.theta_ = result.theta.astype(np.float32)
        self.result_ = replace(result, theta=np.zeros(0))
        return self

    # prediction

    def _parse(self, X: Sequence[DependencySentence], problem: ArcHybrid, theta: Any) -> list[DependencySentence]:
        heads, relations = np.zeros((2, int(problem.offsets[-1])), np.int64)
        in_blocks(
            problem.offsets,
            thread_count(self.n_jobs),
            lambda a, b: best_trees(problem, theta, int(self.beam), a, b, heads, relations),
        )
        ends, sizes = problem.offsets.tolist(), np.diff(problem.offsets)
        numbers = np.where(heads == np.repeat(sizes, sizes), 0, heads + 1).tolist()
        names = [self.relations_[r] for r in relations.tolist()] if self.labelled else None
        return [
            sentence.with_tree(numbers[a:b], None if names is None else names[a:b])
            for sentence, a, b in zip(X, ends[:-1], ends[1:], strict=True)
        ]

    def _make_score(self, X: Any, y: Any) -> Callable[[Floats], float]:
        problem = self._pack(X)

        def score(theta: Floats) -> float:
            return self._share(attachment_scores(list(X), self._parse(X, problem, theta.astype(np.float32))))

        return score

    def _share(self, scores: AttachmentScores) -> float:
        return (scores.las if self.labelled else scores.uas) / 100.0

    def predict(self, X: Sentences) -> list[DependencySentence]:
        """The sentences, or lists of words, with the trees that the search finds; all else as it was."""
        check_is_fitted(self, "theta_")
        sentences = checked_sentences(X, self.encoder_.tagged)
        return Outputs(self._parse(sentences, self._pack(sentences), self.theta_) if sentences else ())

    def evaluate(self, X: Sequence[DependencySentence], *, punctuation: bool = True) -> AttachmentScores:
        """Attachment scores of the parser's trees against those of X."""
        return attachment_scores(list(as_list(X, "X")), self.predict(X), punctuation=punctuation)

    def score(self, X: Sequence[DependencySentence], y: None = None) -> float:
        """LAS as a share, UAS without labels."""
        return self._share(self.evaluate(X))

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = self.encoder_.to_state()
        return {**header, "relations": self.relations_, "single_root": self.single_root_, "dim": self._dim}, arrays

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        used = np.flatnonzero(self.theta_)
        return {"places": used.astype(np.int32), "weights": self.theta_[used]}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.relations_, self.single_root_ = list(header["relations"]), bool(header["single_root"])
        places, weights = np.asarray(arrays["places"]), np.asarray(arrays["weights"], np.float32)
        if header["dim"] != self._dim or places.shape != weights.shape or not np.isfinite(weights).all():
            raise StorageError("the weights do not match the features that the settings describe")
        if len(places) and not 0 <= places.min() <= places.max() < self._dim:
            raise StorageError("weight positions lie outside the table")
        self.theta_ = np.zeros(self._dim, np.float32)
        self.theta_[places] = weights
        self.result_ = result_from_json(header["result"], np.zeros(0))

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.encoder_ = WordEncoder.from_state(header, arrays)

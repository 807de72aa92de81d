"""TransitionParser: dependency parsing by beam search over arc-hybrid transitions, trained inside the search (LaSO)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.estimation.results import result_from_json
from partwise.estimation.searched import SearchedEstimator
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso.learner import PackedSearch
from partwise.parsing._transition_kernels import ArcHybrid, best_trees
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.gold import relations_of
from partwise.parsing.metrics import attachment_scores
from partwise.parsing.training import TreebankEstimator

__all__ = ["TransitionParser"]

Floats = NDArray[np.float64]
FIELDS = ("form", "upos", "xpos")


class TransitionParser(SearchedEstimator, TreebankEstimator):
    """A tree in 2n steps: shift, attach left, attach right, with the y-good steps of a dynamic oracle.

    Projective trees only; a gold tree that is not projective is learnt as far as its arcs can be built. Linear time
    for a fixed beam, where :class:`DependencyParser` looks at all pairs of words.

    Parameters
    ----------
    beam, update, mode, alpha, average, max_passes, random_state
        As in :class:`~partwise.learners.laso.learner.LaSO`.
    row_bits : int
        The table of weights has 2^row_bits rows, one weight per action each.
    min_count : int
        Forms seen less often are unknown words.
    patience : int, optional
        With held-out sentences: stop after so many passes without a better score.
    learner_options : dict, optional
        More settings of LaSO.
    n_jobs : int
        Threads of a prediction; −1 for all cores.
    verbose : int
        1 shows progress on standard error.

    Examples
    --------
    >>> from partwise.parsing import load_sample_treebank
    >>> parser = TransitionParser(row_bits=12, max_passes=3).fit(load_sample_treebank("train")[:60])
    >>> sentence = DependencySentence.of_words(["Anna", "slept"], upos=["PROPN", "VERB"], xpos=["NNP", "VBD"])
    >>> parser.predict([sentence])[0].heads.tolist()
    [2, 0]
    """

    kind = "transition-parser"

    def __init__(
        self,
        *,
        beam: int = 4,
        update: str = "perceptron",
        mode: str = "laso",
        alpha: float = 0.9,
        average: bool = True,
        max_passes: int = 10,
        row_bits: int = 17,
        min_count: int = 2,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.beam, self.update, self.mode, self.alpha = beam, update, mode, alpha
        self.average, self.max_passes, self.row_bits, self.min_count = average, max_passes, row_bits, min_count
        self.patience, self.learner_options, self.random_state = patience, learner_options, random_state
        self.n_jobs, self.verbose = n_jobs, verbose

    def check_settings(self) -> None:
        if not 6 <= self.row_bits <= 24:
            raise ParameterError("row_bits", "TransitionParser", "from 6 to 24", self.row_bits)
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        self.relations_ = relations_of(X)
        self.vocabularies_ = []
        for name in FIELDS:
            counts = Counter(value for sentence in X for value in sentence.column(name))
            least = self.min_count if name == "form" else 1
            self.vocabularies_.append(sorted(value for value, count in counts.items() if count >= least))
        number = {relation: r for r, relation in enumerate(self.relations_)}
        heads, relations = [], []
        for sentence in X:
            own = np.asarray(sentence.heads)
            heads.append(np.where(own == 0, len(own), own - 1))  # words from 0, the root after them
            relations.append([number[relation] for relation in sentence.column("deprel")])
        gold = np.concatenate(heads).astype(np.int32), np.concatenate(relations).astype(np.int32)
        return PackedSearch(self._pack(X, *gold), self._dim, len(X))

    @property
    def _dim(self) -> int:
        return int((1 << self.row_bits) * (1 + 2 * len(self.relations_)))

    def _pack(self, X: Sequence[DependencySentence], heads: Any = None, relations: Any = None) -> ArcHybrid:
        none = np.zeros(0, np.int32)
        lookups = [{value: code for code, value in enumerate(values)} for values in self.vocabularies_]
        sizes = [len(sentence) for sentence in X]
        if 0 in sizes:
            raise InputError(f"sentence {sizes.index(0)} has no words")
        columns = [[lookup.get(value, len(lookup)) for sentence in X for value in sentence.column(name)]
                   for name, lookup in zip(FIELDS, lookups, strict=True)]  # fmt: skip
        codes = np.array(columns, np.int32).T.copy()
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int64)
        return ArcHybrid(offsets, codes, len(self.relations_), max(sizes), (1 << self.row_bits) - 1,
                         none if heads is None else heads, none if relations is None else relations)  # fmt: skip

    def _parse(self, X: Sequence[DependencySentence], problem: ArcHybrid, theta: Floats) -> list[DependencySentence]:
        heads, relations = np.zeros((2, int(problem.offsets[-1])), np.int64)

        def task(start: int, stop: int) -> None:
            best_trees(problem, theta, int(self.beam), start, stop, heads, relations)

        jobs = thread_count(self.n_jobs)
        Threads(jobs).each(task, itertools.pairwise(np.linspace(0, len(X), jobs + 1).astype(int).tolist()))
        found = []
        for i, sentence in enumerate(X):
            here = slice(problem.offsets[i], problem.offsets[i + 1])
            own = heads[here]
            own = np.where(own == len(own), 0, own + 1)
            found.append(sentence.with_tree(own.tolist(), [self.relations_[r] for r in relations[here]]))
        return found

    def _make_score(self, X: Any, y: Any) -> Callable[[Floats], float]:
        problem = self._pack(X)
        return lambda theta: attachment_scores(list(X), self._parse(X, problem, theta)).las / 100

    def predict(self, X: Sequence[DependencySentence]) -> list[DependencySentence]:
        """The sentences with the trees that the search finds."""
        check_is_fitted(self, "theta_")
        X = as_list(X, "X")
        return Outputs(self._parse(X, self._pack(X), self.theta_) if len(X) else ())

    def score(self, X: Sequence[DependencySentence], y: None = None) -> float:
        """Share of words with the right head and relation."""
        return attachment_scores(list(as_list(X, "X")), self.predict(X)).las / 100

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"relations": self.relations_, "vocabularies": self.vocabularies_}, {}

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        used = np.flatnonzero(self.theta_)
        return {"places": used, "values": self.theta_[used]}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.relations_, self.vocabularies_ = list(header["relations"]), [list(v) for v in header["vocabularies"]]
        places, values = np.asarray(arrays["places"]), np.asarray(arrays["values"], float)
        if places.shape != values.shape or (len(places) and (places.min() < 0 or places.max() >= self._dim)):
            raise StorageError("the weights do not fit the table")
        theta = np.zeros(self._dim)
        theta[places] = values
        self._take(result_from_json(header["result"], theta))

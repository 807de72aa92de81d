"""TransitionParser: dependency parsing by beam search over arc-hybrid transitions, trained inside the search (LaSO)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.base import StoredModel
from partwise.estimation.conduct import Estimator, check_is_fitted
from partwise.estimation.results import result_from_json, result_to_json
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso.learner import LaSO, PackedSearch
from partwise.learners.loop import Callback, Result
from partwise.parsing._transition_kernels import ArcHybrid, best_trees
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.gold import relations_of
from partwise.parsing.metrics import attachment_scores
from partwise.progress import Progress

__all__ = ["TransitionParser"]

Floats = NDArray[np.float64]
FIELDS = ("form", "upos", "xpos")


class TransitionParser(StoredModel, Estimator):
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
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.beam, self.update, self.mode, self.alpha = beam, update, mode, alpha
        self.average, self.max_passes, self.row_bits, self.min_count = average, max_passes, row_bits, min_count
        self.patience, self.random_state, self.verbose = patience, random_state, verbose

    def _learner(self) -> LaSO:
        if self.beam is None:
            raise ParameterError("beam", "TransitionParser", "at least 1", None)
        if not 6 <= self.row_bits <= 24:
            raise ParameterError("row_bits", "TransitionParser", "from 6 to 24", self.row_bits)
        names = ("beam", "update", "mode", "alpha", "average", "max_passes", "random_state")
        return LaSO(**{name: getattr(self, name) for name in names})

    def fit(
        self,
        X: Sequence[DependencySentence],
        y: None = None,
        *,
        dev: Sequence[DependencySentence] | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Train on sentences with their trees; ``dev``: the pass of best LAS on them is kept."""
        learner = self._learner()
        if len(X) == 0:
            raise InputError("there are no sentences to train on")
        self.relations_ = relations_of(X)
        self.vocabularies_ = []
        for name in FIELDS:
            values: dict[str, int] = {}
            for sentence in X:
                for value in sentence.column(name):
                    values[value] = values.get(value, 0) + 1
            least = self.min_count if name == "form" else 1
            self.vocabularies_.append(sorted(value for value, count in values.items() if count >= least))
        number = {relation: r for r, relation in enumerate(self.relations_)}
        heads, relations = [], []
        for sentence in X:
            own = np.asarray(sentence.heads)
            heads.append(np.where(own == 0, len(own), own - 1))  # words from 0, the root after them
            relations.append([number[relation] for relation in sentence.column("deprel")])
        gold = np.concatenate(heads).astype(np.int32), np.concatenate(relations).astype(np.int32)
        problem = self._pack(X, *gold)
        width = 1 + 2 * len(self.relations_)
        data = PackedSearch(problem, (1 << self.row_bits) * width, len(X))
        score = None if dev is None else self._scorer(dev)
        with Progress(learner.max_passes, "parser") if self.verbose else nullcontext() as progress:
            watching: list[Any] = [*callbacks, *([progress] if progress is not None else [])]
            self.result_: Result = learner.fit(data, score=score, patience=self.patience, callbacks=watching)
        self.theta_ = self.result_.theta
        return self

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
        best_trees(problem, theta, int(self.beam), 0, len(X), heads, relations)
        found = []
        for i, sentence in enumerate(X):
            here = slice(problem.offsets[i], problem.offsets[i + 1])
            own = heads[here]
            own = np.where(own == len(own), 0, own + 1)
            found.append(sentence.with_tree(own.tolist(), [self.relations_[r] for r in relations[here]]))
        return found

    def _scorer(self, dev: Sequence[DependencySentence]) -> Callable[[Floats], float]:
        problem = self._pack(dev)
        return lambda theta: attachment_scores(list(dev), self._parse(dev, problem, theta)).las / 100

    def predict(self, X: Sequence[DependencySentence]) -> list[DependencySentence]:
        """The sentences with the trees that the search finds."""
        check_is_fitted(self, "theta_")
        return self._parse(X, self._pack(X), self.theta_) if len(X) else []

    def score(self, X: Sequence[DependencySentence], y: None = None) -> float:
        """Share of words with the right head and relation."""
        return attachment_scores(list(X), self.predict(X)).las / 100

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self, "theta_")
        header = {
            "params": self.get_params(deep=False), "relations": self.relations_, "vocabularies": self.vocabularies_,
            "result": result_to_json(self.result_),
        }  # fmt: skip
        used = np.flatnonzero(self.theta_)
        return header, {"places": used, "values": self.theta_[used]}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        model = cls(**{**header["params"], "verbose": 0})
        model._learner()
        model.relations_, model.vocabularies_ = list(header["relations"]), [list(v) for v in header["vocabularies"]]
        dim = (1 << model.row_bits) * (1 + 2 * len(model.relations_))
        places, values = np.asarray(arrays["places"]), np.asarray(arrays["values"], float)
        if places.shape != values.shape or (len(places) and (places.min() < 0 or places.max() >= dim)):
            raise StorageError("the weights do not fit the table")
        theta = np.zeros(dim)
        theta[places] = values
        model.result_ = result_from_json(header["result"], theta)
        model.theta_ = theta
        return model

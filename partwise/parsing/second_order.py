"""SecondOrderParser: siblings and grandparents over the arcs that a first-order parser leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError, ParameterError
from partwise.learners import Learner, Result
from partwise.learners.base import Callback
from partwise.losses import LossFunction
from partwise.parsing._decoding import in_blocks, shaped
from partwise.parsing._second_order_decoding import (
    Certified,
    Propagated,
    Ranked,
    belief_tables,
    second_order_lists,
    second_order_trees,
)
from partwise.parsing.conllu import DependencySentence
from partwise.parsing.features import SecondOrderFeatures
from partwise.parsing.gold import Constraint, labelled_heads
from partwise.parsing.metrics import attachment_scores
from partwise.parsing.parser import DependencyParser, ParsedTree
from partwise.parsing.training import Sentences
from partwise.problem import Problem
from partwise.structures.second_order import SecondOrderTree

if TYPE_CHECKING:
    from partwise.parsing.explanation import ArcExplanation

__all__ = ["Certified", "SecondOrderParser"]

Floats = NDArray[np.float64]
BLOCK = 500  # sentences whose candidate arcs are in memory at a time in prediction


class SecondOrderParser(DependencyParser):
    """argmax over trees of Σ arcs + Σ consecutive siblings + Σ grandparents, section 3.2 of Martins et al. (2010).

    A first-order :class:`DependencyParser` is trained first. It leaves at most ``max_heads`` heads per word (those with
    at least ``threshold`` times the probability of the best one, and those of its best tree), and training
    starts from its weights. Trees are found by dual decomposition; :meth:`certificates` shows which are proved to be
    the best. Probabilities are the beliefs of loopy belief propagation; k-best lists come with their own certificates
    (:meth:`predict_kbest`); explanations are those of the first-order model, ``pruner_``.

    Parameters
    ----------
    max_heads, threshold
        Settings of the pruning; :meth:`pruning_recall` returns the share of gold arcs that survive.
    max_iterations : int
        Maximum number of iterations of dual decomposition per sentence.
    pruner_passes : int
        Passes of the first-order learner.

    All other parameters are those of :class:`DependencyParser`, for both models.

    Examples
    --------
    >>> from partwise.parsing import load_sample_treebank
    >>> train, test = load_sample_treebank("train"), load_sample_treebank("test")
    >>> parser = SecondOrderParser(arc_bits=18, row_bits=12, max_passes=3, pruner_passes=3).fit(train)
    >>> parser.score(test) > 0.9, parser.pruning_recall(test) > 0.98
    (True, True)
    """

    kind = "second-order-parser"

    def __init__(
        self,
        *,
        max_heads: int = 10,
        threshold: float = 1e-4,
        max_iterations: int = 200,
        pruner_passes: int = 5,
        **first_order: Any,
    ) -> None:
        super().__init__(**first_order)
        self.max_heads, self.threshold = max_heads, threshold
        self.max_iterations, self.pruner_passes = max_iterations, pruner_passes

    def check_settings(self) -> None:
        super().check_settings()
        if not self.max_heads >= 1:
            raise ParameterError("max_heads", "SecondOrderParser", "at least 1", self.max_heads)
        if not 0 <= self.threshold < 1:
            raise ParameterError("threshold", "SecondOrderParser", "in [0, 1)", self.threshold)
        if self.projective:
            raise ParameterError("projective", "SecondOrderParser", "False", self.projective)
        for name in ("max_iterations", "pruner_passes"):
            if not getattr(self, name) >= 1:
                raise ParameterError(name, "SecondOrderParser", "at least 1", getattr(self, name))

    def fit(
        self,
        X: Sequence[DependencySentence],
        y: None = None,
        *,
        dev: Sequence[DependencySentence] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
        pruner: DependencyParser | None = None,
    ) -> Self:
        """Train the first-order model, then this one; as :meth:`DependencyParser.fit`, on complete trees only.

        Pass a first-order parser that is already trained and calibrated as ``pruner`` to reuse it.
        """
        X = as_list(X, "X")
        for i, sentence in enumerate(X):
            if not sentence.has_tree:
                raise InputError(f"{sentence.source or f'sentence {i}'}: every word needs a head")
        held_out = None if dev is None else (dev, None)
        given: dict[str, Any] = {"callbacks": callbacks, "checkpoint": checkpoint, "sample_weight": sample_weight}
        return self._fit(X, None, dev=held_out, held_out=dev, weights=sample_weight, pruner=pruner, **given)

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        dev, given = data["held_out"], data["pruner"]
        if given is None:
            first = self._first_order().set_params(max_passes=self.pruner_passes, patience=None)
            self.pruner_ = first.fit(X, sample_weight=data["weights"])
            self.pruner_.calibrate(dev if dev is not None else X[: min(len(X), 500)])
        else:
            self.pruner_ = self._checked_pruner(given)
        self._share()
        self.temperature_ = self.pruner_.temperature_
        space, features = self._second_order(X, gold=True)
        gold = labelled_heads(X, self.relations_ if self.labelled else None)
        return Problem(space, features, gold, loss, n_threads=thread_count(self.n_jobs))

    def _checked_pruner(self, pruner: DependencyParser) -> DependencyParser:
        """A first-order parser of the same features and labels; anything else would score other arcs."""
        check_is_fitted(pruner, "theta_")
        for name in ("labelled", "arc_bits", "row_bits"):
            if getattr(pruner, name) != getattr(self, name):
                want = f"a parser with {name}={getattr(self, name)!r}"
                raise ParameterError("pruner", "SecondOrderParser.fit", want, getattr(pruner, name))
        return pruner

    def _start(self, problem: Problem, X: Any, y: Any, dev: Any) -> Result | None:
        return Result(self.pruner_.theta_, [], None, "max_passes", 0)

    @property
    def _label(self) -> str:
        return "second-order parser"

    def _first_order(self) -> DependencyParser:
        """The first-order parser with the settings that both share."""
        names = DependencyParser._defaults()
        return DependencyParser(**{k: v for k, v in self.get_params(deep=False).items() if k in names})

    def _share(self) -> None:
        """What both models have in common."""
        first = self.pruner_
        self.relations_, self.single_root_, self.encoder_ = first.relations_, first.single_root_, first.encoder_

    # pruning

    def candidates(self, X: Sequence[DependencySentence]) -> list[NDArray[np.bool_]]:
        """The arcs that the first-order model leaves, (n + 1, n) per sentence."""
        found = []
        for mass, best in zip(self.pruner_.predict_marginals(X), self.pruner_.predict(X), strict=True):
            n = mass.shape[1]
            keep = mass >= self.threshold * mass.max(axis=0)
            if n + 1 > self.max_heads:
                keep &= mass >= np.partition(mass, n + 1 - self.max_heads, axis=0)[n + 1 - self.max_heads]
            keep[np.arange(1, n + 1), np.arange(n)] = False
            keep[best.heads, np.arange(n)] = True
            found.append(keep)
        return found

    def pruning_recall(self, X: Sequence[DependencySentence]) -> float:
        """The share of gold arcs that survive pruning."""
        kept = [table[s.heads, np.arange(len(s))] for s, table in zip(X, self.candidates(X), strict=True)]
        return float(np.concatenate(kept).mean())

    def _second_order(
        self, X: Sequence[DependencySentence], *, gold: bool = False
    ) -> tuple[SecondOrderTree, SecondOrderFeatures]:
        """Space and features over the candidate arcs; with ``gold``, those of the sentences' own trees among them."""
        tables: list[NDArray[np.bool_]] = []
        for start in range(0, len(X), BLOCK):
            tables += self.candidates(X[start : start + BLOCK])
        if gold:
            for sentence, table in zip(X, tables, strict=True):
                table[sentence.heads, np.arange(len(sentence))] = True
        n_labels = len(self.relations_) if self.labelled else None
        space = SecondOrderTree(tables, n_labels, single_root=self.single_root_, max_iterations=self.max_iterations)
        return space, SecondOrderFeatures(self._features(X), space)

    # prediction

    def _make_score(self, X: Sequence[DependencySentence], y: None) -> Callable[[Floats], float]:
        space, features = self._second_order(X)

        def score(theta: Floats) -> float:
            scores = attachment_scores(X, self._decompose(X, space, features, theta)[0])
            return (scores.las if self.labelled else scores.uas) / 100.0

        return score

    def _decompose(
        self, X: Sequence[DependencySentence], space: SecondOrderTree, features: SecondOrderFeatures, theta: Any
    ) -> tuple[list[DependencySentence], Certified]:
        offsets = space.pack.offsets
        heads, labels = np.zeros((2, int(offsets[-1])), np.int64)
        values, bounds = np.zeros((2, len(space)))
        iterations = np.zeros(len(space), np.int64)
        in_blocks(
            offsets,
            thread_count(self.n_jobs),
            lambda a, b: second_order_trees(
                space.pack, features.pack, theta, a, b, heads, labels, values, bounds, iterations
            ),
        )
        trees = [
            sentence.with_tree(
                heads[a:b].tolist(), [self.relations_[k] for k in labels[a:b]] if self.labelled else None
            )
            for sentence, a, b in zip(X, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
        return trees, Certified(values, bounds, iterations)

    def _all(self, X: Sentences) -> tuple[list[DependencySentence], Certified]:
        sentences, trees, found = self._checked(X), [], []
        for start in range(0, len(sentences), BLOCK):
            block = sentences[start : start + BLOCK]
            more, certified = self._decompose(block, *self._second_order(block), self.theta_)
            trees += more
            found.append(certified)
        if not found:
            return [], Certified(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        return trees, Certified(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def predict(
        self,
        X: Sentences,
        *,
        decoding: str = "best",
        constraints: Sequence[Constraint] | None = None,
    ) -> list[DependencySentence]:
        """The sentences with the trees found; constraints and minimum risk need marginals and are for ``pruner_``."""
        if decoding != "best":
            raise ParameterError("decoding", "SecondOrderParser.predict", "'best'", decoding)
        if constraints is not None:
            raise ParameterError("constraints", "SecondOrderParser.predict", "absent; use pruner_", constraints)
        return Outputs(self._all(X)[0])

    def certificates(self, X: Sentences) -> Certified:
        """Scores of the trees that :meth:`predict` finds, with upper bounds on the scores of all trees."""
        return self._all(X)[1]

    def predict_beliefs(self, X: Sentences, *, labelled: bool = False) -> tuple[list[Floats], Propagated]:
        """Marginals of arcs by loopy belief propagation, with the number of rounds and whether it converged.

        (n + 1, n) per sentence with heads 0..n as rows; if ``labelled``, (n + 1, n, L). Pruned arcs have none.
        """
        sentences, tables, accounts = self._checked(X), [], []
        for start in range(0, len(sentences), BLOCK):
            block = sentences[start : start + BLOCK]
            more, account = self._propagate(block, *self._second_order(block), labelled)
            tables += more
            accounts.append(account)
        if not accounts:
            return [], Propagated(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool))
        return tables, Propagated(*(np.concatenate(column) for column in zip(*accounts, strict=True)))

    def _propagate(
        self, X: Sequence[DependencySentence], space: SecondOrderTree, features: SecondOrderFeatures, labelled: bool
    ) -> tuple[list[Floats], Propagated]:
        n_labels = len(self.relations_)
        offsets = np.append(0, np.cumsum((space.lengths + 1) * space.lengths))
        arcs, parts = np.zeros(offsets[-1]), np.zeros(int(offsets[-1]) * n_labels if labelled else 0)
        found = Propagated(np.zeros(len(X)), np.zeros(len(X), np.int64), np.zeros(len(X), bool))
        beta = 1.0 / self.temperature_
        in_blocks(
            space.pack.offsets,
            thread_count(self.n_jobs),
            lambda a, b: belief_tables(
                space.pack, features.pack, self.theta_, beta, a, b, offsets, arcs, labelled, parts, found
            ),
        )
        return shaped(parts if labelled else arcs, space.lengths, n_labels if labelled else None), found

    def predict_marginals(self, X: Sentences, *, labelled: bool = False) -> list[Floats]:
        """P(h is the head of m) by loopy belief propagation; :meth:`predict_beliefs` shows where it failed to
        converge.
        """
        return self.predict_beliefs(X, labelled=labelled)[0]

    def predict_log_proba(self, X: Sequence[DependencySentence]) -> Floats:
        """log p of the tree given with each sentence, by the Bethe log-partition; −inf if an arc was pruned."""
        sentences, out = self._checked(X), np.full(len(X), -np.inf)
        for start in range(0, len(sentences), BLOCK):
            block = sentences[start : start + BLOCK]
            space, features = self._second_order(block)
            account = self._propagate(block, space, features, False)[1]
            golds = labelled_heads(block, self.relations_ if self.labelled else None)
            for i, tree in enumerate(golds):
                if space.holds(i, tree):
                    score = features.scores(i, self.theta_) @ space.encode(i, tree) / self.temperature_
                    out[start + i] = score - account.log_partitions[i]
        return out

    def predict_kbest(self, X: Sentences, k: int = 5) -> list[list[ParsedTree]]:
        """The k best trees of every sentence, best first, by branch and bound; ``proved`` marks those that are certain.

        Probabilities use the Bethe log-partition, or that of the k trees alone if it is larger: an estimate, but those
        of a list never sum to more than 1. With k = 1 this searches on where :meth:`predict` could not prove its tree
        optimal, and takes longer.
        """
        if not k >= 1:
            raise ParameterError("k", "SecondOrderParser.predict_kbest", "at least 1", k)
        sentences = self._checked(X)
        found: list[list[ParsedTree]] = []
        for start in range(0, len(sentences), BLOCK):
            found += self._kbest(sentences[start : start + BLOCK], k)
        return found

    def _kbest(self, X: Sequence[DependencySentence], k: int) -> list[list[ParsedTree]]:
        space, features = self._second_order(X)
        offsets, beta = space.pack.offsets, 1.0 / self.temperature_
        heads, labels = np.zeros((2, k, int(offsets[-1])), np.int64)
        values, counts, rest = np.full((len(X), k), -np.inf), np.zeros(len(X), np.int64), np.zeros(len(X))
        ranked = Ranked(heads, labels, values, counts, rest)
        in_blocks(
            offsets,
            thread_count(self.n_jobs),
            lambda a, b: second_order_lists(space.pack, features.pack, self.theta_, a, b, ranked),
        )
        log_partitions = self._propagate(X, space, features, False)[1].log_partitions
        log_partitions = np.maximum(log_partitions, np.logaddexp.reduce(beta * values, axis=1))
        proved = values >= (rest - 1e-6 * (1.0 + np.abs(rest)))[:, None]
        lists = []
        for i, (sentence, a, b) in enumerate(zip(X, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            trees = []
            for r in range(counts[i]):
                names = [self.relations_[c] for c in labels[r, a:b]] if self.labelled else None
                tree = sentence.with_tree(heads[r, a:b].tolist(), names)
                chance = float(np.exp(beta * values[i, r] - log_partitions[i]))
                trees.append(ParsedTree.of(tree, chance, bool(proved[i, r])))
            lists.append(trees)
        return lists

    def calibrate(self, X: Sequence[DependencySentence]) -> Self:
        """Choose ``temperature_`` so that the gold heads of held-out sentences get the highest probability."""
        sentences = self._checked(X)
        places = [(s.heads, np.arange(len(s))) for s in sentences]

        def loss() -> float:
            tables = self.predict_marginals(sentences)
            held = np.concatenate([table[place] for table, place in zip(tables, places, strict=True)])
            return -float(np.log(np.maximum(held, 1e-6)).sum())

        return self._find_temperature(loss)

    def explain(
        self, sentence: DependencySentence, word: int, head: int | None = None, rival: int | None = None
    ) -> ArcExplanation:
        """The first-order model's explanation."""
        (sentence,) = self._checked([sentence])
        return self.pruner_.explain(sentence, word, head, rival)

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = super()._own_state()
        first, more = self.pruner_.to_state()
        return {**header, "pruner": first}, {**arrays, **{f"pruner/{name}": array for name, array in more.items()}}

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(header, arrays)
        first = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith("pruner/")}
        self.pruner_ = DependencyParser.from_state(header["pruner"], first)
        self._share()

"""WordAligner: learns word alignment from a hundred gold sentence pairs, on top of what raw text teaches."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.alignment import GenerativeAligner
from partwise.alignment.feature_map import ALIGNMENT_MODELS, AlignmentFeatures, FeatureMap
from partwise.alignment.gold import gold_links
from partwise.alignment.link_features import LinkSource
from partwise.alignment.links import Floats, SentencePair, check_pairs
from partwise.costs import PartCost
from partwise.data.links import GoldLinks
from partwise.estimators.base import (
    StoredModel,
    make_learner,
    make_loss,
    params_from_json,
    params_to_json,
    thread_count,
)
from partwise.estimators.conduct import Estimator, check_is_fitted
from partwise.exceptions import InputError, ParameterError, unknown_name
from partwise.learners.base import Callback
from partwise.metrics.alignment import alignment_scores
from partwise.problem import Problem
from partwise.progress import Progress
from partwise.storage import Checkpoint, check_writable, pack_strings, unpack_strings
from partwise.structures.assignment import Assignment

__all__ = ["WordAligner"]

Link = tuple[int, int]


class WordAligner(StoredModel, Estimator):
    """argmax over alignments y of Σ_jk w·f(x_jk) y_jk, with fertilities and pairs of links where the model has them.

    Parameters
    ----------
    generative : GenerativeAligner, optional
        Fitted on raw text: its posteriors and associations are the features that matter most. If absent, ``fit``
        trains one (an HMM) on ``bitext`` and the training pairs.
    model : {"M", "M+F", "M+Q", "M+F+Q"}
        Matching; with fertilities; with pairs of neighbouring links (a quadratic assignment); with both.
    beliefs : tuple of str, optional
        Which of the generative aligner's models give posteriors; all of them if absent.
    sources : tuple of callables
        More edge features: each maps sentence pairs to {name: one (J, K) matrix a pair}.
    max_fertility : int
        Largest number of links of a word in the models with F.
    false_positive, false_negative : float
        c⁺ and c⁻ of the cost, eq. (2.10). Links that are only possible cost nothing either way.
    infeasible : {"error", "nearest"}
        Gold alignments that the model cannot produce: an error that names pair and link, or train on the largest
        feasible subset of their links.
    candidates : float
        In the models with Q only links that some belief gives at least this much are considered.
    exact : bool
        In the models with Q: predict by an integer program, or by rounding its linear relaxation.
    loss, learner, C, max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`SequenceLabeler`. Models with F or Q need a learner that keeps weights ≥ 0.

    Attributes
    ----------
    theta_ : (dim,) weights, named by ``feature_names_``
    generative_ : GenerativeAligner
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from partwise.data import load_sample_alignments
    >>> sample = load_sample_alignments()
    >>> aligner = WordAligner(infeasible="nearest", max_passes=40).fit(sample.pairs[:80], sample.gold[:80])
    >>> 0 <= aligner.score(sample.pairs[80:], sample.gold[80:]) <= 1
    True
    """

    kind = "word-aligner"

    def __init__(
        self,
        generative: GenerativeAligner | None = None,
        *,
        model: str = "M",
        beliefs: tuple[str, ...] | None = None,
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
        loss: Any = "svm",
        learner: Any = "extragradient",
        C: float = 1.0,
        max_passes: int | None = None,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.generative = generative
        self.model = model
        self.beliefs = beliefs
        self.sources = sources
        self.max_fertility = max_fertility
        self.false_positive = false_positive
        self.false_negative = false_negative
        self.infeasible = infeasible
        self.candidates = candidates
        self.exact = exact
        self.time_limit = time_limit
        self.frequent = frequent
        self.lexicon_count = lexicon_count
        self.loss = loss
        self.learner = learner
        self.C = C
        self.max_passes = max_passes
        self.learner_options = learner_options
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # training

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        if self.model not in ALIGNMENT_MODELS:
            raise unknown_name("model", self.model, ALIGNMENT_MODELS)
        if self.infeasible not in ("error", "nearest"):
            raise ParameterError("infeasible", "WordAligner", "'error' or 'nearest'", self.infeasible)
        for name in ("false_positive", "false_negative"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, "WordAligner", "a number ≥ 0", getattr(self, name))
        if self.max_fertility < 1:
            raise ParameterError("max_fertility", "WordAligner", "at least 1", self.max_fertility)
        make_loss(self.loss)
        self._learner()

    def _learner(self) -> Any:
        options = self.learner_options or {}
        return make_learner(self.learner, self.C, self.max_passes, self.random_state, options)

    def fit(
        self,
        X: Sequence[SentencePair],
        y: Sequence[Any],
        *,
        bitext: Any = None,
        dev: tuple[Sequence[SentencePair], Sequence[Any]] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> WordAligner:
        """Train on sentence pairs X with gold links y.

        Parameters
        ----------
        X : sequence of (source words, target words)
        y : gold alignments, one a pair
            Links (j, k), counted from 0, all of them sure; or (sure links, possible links).
        bitext : sentence pairs without links, optional
            Raw text for the generative aligner, where none was given.
        dev : (X, y), optional
            Held-out pairs: the pass of least error rate on them is kept.
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        """
        self.check_settings()
        check_pairs(X)
        gold = gold_links(X, y)
        if checkpoint is not None:
            check_writable(checkpoint)
        self.generative_ = self.generative if self.generative is not None else self._train_generative(X, bitext)
        self.map_ = self._feature_map(self._lexicon(X))
        known = [np.array(sorted(links.sure), np.int64).reshape(-1, 2) for links in gold]
        parts = self.map_(X, keep=known)
        self.feature_names_ = parts.names
        problem = self._problem(parts, gold)
        score = None if dev is None else self._scorer(*dev)
        keep = None if checkpoint is None else Checkpoint(checkpoint)
        learner = self._learner()
        show = Progress(f"aligner {self.model}", learner.max_passes) if self.verbose else nullcontext()
        start = self._start(X, y, dev, problem.dim)
        with show as progress:
            watching = [*callbacks, *([progress] if progress is not None else [])]
            self.result_ = learner.fit(
                problem, theta=start, score=score, patience=self.patience, callbacks=watching, checkpoint=keep
            )
        self.theta_ = self.result_.theta
        return self

    def _start(self, X: Any, y: Any, dev: Any, dim: int) -> Floats | None:
        """Where the models with Q begin: at the solution without pairs of links, which costs a fraction as much."""
        simpler, _, quadratic = self.model.rpartition("+")
        if quadratic != "Q":
            return None
        first = self.unfitted().set_params(model=simpler, generative=self.generative_, max_passes=None, verbose=0)
        weights = first.fit(X, y, dev=dev).theta_
        return np.concatenate([weights, np.zeros(dim - len(weights))])

    def _train_generative(self, X: Sequence[SentencePair], bitext: Any) -> GenerativeAligner:
        pairs = [*X, *bitext] if bitext is not None else list(X)
        return GenerativeAligner(n_jobs=self.n_jobs, verbose=self.verbose).fit(pairs)

    def _lexicon(self, X: Sequence[SentencePair]) -> tuple[list[str], list[str]]:
        """Words that are common enough in the training pairs to have fertility penalties of their own."""
        sides = [Counter(word.lower() for pair in X for word in pair[side]) for side in (0, 1)]
        first, second = (sorted(w for w, n in side.items() if n >= self.lexicon_count) for side in sides)
        return first, second

    def _word_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """In how many sentence pairs of the raw text each word stands, in lower case."""
        known, sides = self.generative_, []
        for index, counts in ((known.source_, known.table_.source_count), (known.target_, known.table_.target_count)):
            side: Counter[str] = Counter()
            for word, n in zip(index.words, counts.tolist(), strict=False):
                side[word.lower()] += n
            sides.append(dict(side))
        return sides[0], sides[1]

    def _feature_map(self, lexicon: tuple[Sequence[str], Sequence[str]]) -> FeatureMap:
        names = tuple(self.generative_.models_) if self.beliefs is None else tuple(self.beliefs)
        for name in names:
            if name not in self.generative_.models_:
                raise unknown_name("beliefs", name, self.generative_.models_)

        def own(pairs: Sequence[SentencePair]) -> dict[str, Any]:
            found: dict[str, Any] = {"dice": self.generative_.associations(pairs)}
            for name in names:
                posteriors = self.generative_.posteriors(pairs, name)
                found[f"{name} forward"], found[f"{name} backward"] = posteriors.forward, posteriors.backward
            return found

        return FeatureMap(
            self.model, (own, *self.sources), self._word_counts(), lexicon, self.max_fertility,
            self.frequent, self.candidates, self.time_limit,
        )  # fmt: skip

    def _problem(self, parts: AlignmentFeatures, gold: list[GoldLinks]) -> Problem:
        """The training problem; for the models with Q over the linear relaxation, eq. (3.6)."""
        space: Any = parts.space
        targets = [self._target(space, i, links) for i, links in enumerate(gold)]
        costs = []
        for i, (links, target) in enumerate(zip(gold, targets, strict=True)):
            n_rows, n_columns = parts.edges.lengths[i]
            p = np.full((n_rows, n_columns), float(self.false_positive))
            for neutral in (links.possible, links.sure):  # right, but not asked for
                p[tuple(np.array(sorted(neutral), np.int64).reshape(-1, 2).T)] = 0.0
            p[tuple(target.T)] = -float(self.false_negative)
            costs.append((p.ravel(), self.false_negative * len(target)))
        if isinstance(space, Assignment):
            space = space.relax()
        nonnegative = parts.nonnegative if parts.nonnegative.any() else None
        threads = thread_count(self.n_jobs)
        loss = make_loss(self.loss, self.learner)
        return Problem(
            space, parts.features, targets, loss, PartCost(costs), nonnegative=nonnegative, n_threads=threads
        )

    def _target(self, space: Any, i: int, links: GoldLinks) -> NDArray[np.int64]:
        wanted = np.array(sorted(links.sure), np.int64).reshape(-1, 2)
        coded = space.encode(i, wanted)
        if space.allows(i, coded):
            return wanted
        if self.infeasible == "error":
            raise InputError(
                f"gold alignment of pair {i}: {space.forbidden_part(i, coded)}. Use a model with fertility "
                "(M+F), or infeasible='nearest' to train on the largest subset of links that the model can produce"
            )
        return np.asarray(space.nearest_feasible(i, wanted))

    def _scorer(self, X: Sequence[SentencePair], y: Sequence[Any]) -> Any:
        gold = gold_links(X, y)
        parts = self.map_(X)

        def score(theta: Floats) -> float:
            return 1.0 - alignment_scores(gold, self._decode(parts, theta)).aer

        return score

    # prediction

    def _decode(self, parts: AlignmentFeatures, theta: Floats) -> list[list[Link]]:
        space, features = parts.space, parts.features
        found = []
        for i in range(len(space)):
            scores = features.scores(i, theta)
            if isinstance(space, Assignment) and not self.exact:
                best = space.solve(i, scores, relaxed=True).parts
            else:
                best = space.argmax(i, scores)
            found.append([(int(j), int(k)) for j, k in space.decode(i, best)])
        return found

    def predict(self, X: Sequence[SentencePair]) -> list[list[Link]]:
        """The links (j, k) of every pair, in order."""
        check_is_fitted(self, "theta_")
        return self._decode(self.map_(X), self.theta_)

    def predict_scores(self, X: Sequence[SentencePair]) -> list[Floats]:
        """s_jk of every possible link, one (J, K) matrix a pair: above 0 speaks for a link by itself."""
        check_is_fitted(self, "theta_")
        parts = self.map_(X)
        sizes = parts.edges.lengths
        n_links = sizes[:, 0] * sizes[:, 1]
        return [parts.features.scores(i, self.theta_)[:n].reshape(sizes[i]) for i, n in enumerate(n_links)]

    def predict_margins(self, X: Sequence[SentencePair]) -> list[Floats]:
        """Best score with the link minus best score without it, (J, K) a pair: > 0 where it is predicted.

        How sure the whole model is, all constraints considered. Two searches a link: for M and M+F.
        """
        check_is_fitted(self, "theta_")
        parts = self.map_(X)
        if isinstance(parts.space, Assignment):
            raise ParameterError("model", "predict_margins", "'M' or 'M+F'", self.model)
        return [_margins(parts.space, i, parts.features.scores(i, self.theta_)) for i in range(len(X))]

    def score(self, X: Sequence[SentencePair], y: Sequence[Any]) -> float:
        """1 − AER, so that more is better."""
        return 1.0 - alignment_scores(gold_links(X, y), self.predict(X)).aer

    # storage

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self, "theta_")
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in ("generative", "sources")}
        inner, arrays = self.generative_.to_state()
        header = {
            "params": params_to_json(params),
            "generative": inner,
            "sources": len(self.sources),
            "lexicon": [list(side) for side in self.map_.lexicon],
        }
        arrays = {f"generative_{name}": array for name, array in arrays.items()}
        arrays["theta"] = self.theta_
        arrays["names_bytes"], arrays["names_offsets"] = pack_strings(self.feature_names_)
        return header, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        prefix = "generative_"
        inner = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        self = cls(GenerativeAligner.from_state(header["generative"], inner), **params_from_json(header["params"]))
        if header["sources"]:
            raise ParameterError("sources", "WordAligner.load", "none: functions are not stored", header["sources"])
        self.generative_ = self.generative  # type: ignore[assignment]
        self.theta_ = np.asarray(arrays["theta"])
        self.feature_names_ = unpack_strings(arrays["names_bytes"], arrays["names_offsets"])
        first, second = header["lexicon"]
        self.map_ = self._feature_map((first, second))
        return self


def _margins(space: Any, i: int, scores: Floats) -> Floats:
    """Each link forced in and forbidden in turn, by a bonus that outweighs everything."""
    n = space.n_atoms(i)
    bonus = 1.0 + 2.0 * np.abs(scores).sum()
    best = space.argmax(i, scores)
    value = float(best @ scores)
    margins = np.empty(n)
    for r in range(n):
        changed = scores.copy()
        changed[r] = -np.inf if best[r] else scores[r] + bonus
        other = space.argmax(i, changed)
        used = other != 0
        margins[r] = value - float(other[used] @ scores[used])
        if not best[r]:
            margins[r] = -margins[r]
    return margins.reshape(space.size(i))

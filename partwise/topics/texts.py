"""Texts in, topics out: a counter of words and a topic model that are fitted, used and stored together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from partwise.estimation.base import MODELS
from partwise.exceptions import InputError, ParameterError, StorageError

from ._state import CheckpointSource, State, StateMixin
from .corpus import pack
from .disclda import DiscLDA
from .lda import LDA
from .show import TopWord, group_words, strong_topics, topic_groups
from .text import CountText

__all__ = ["Inferred", "TextTopics", "TopicGroup"]


class TopicGroup(NamedTuple):
    """Topics that belong together, and their name."""

    name: str
    topics: list[int]


class Inferred(NamedTuple):
    """The predictions of a model for D documents.

    topics: (D, K) shares; probabilities: (D, C) of the classes, None if there are none; words: (D,), how many
    words of the vocabulary each has.
    """

    topics: np.ndarray
    probabilities: np.ndarray | None
    words: np.ndarray


class TextTopics(StateMixin, BaseEstimator):
    """``model.fit(counter.fit_transform(texts), labels)``, as one estimator and one file.

    Parameters
    ----------
    model : LDA or DiscLDA
        Unfitted; ``fit`` works on a copy of it.
    counter : CountText or None
        How texts become counts; ``None`` is ``CountText()``.

    Attributes
    ----------
    model_, counter_ : the fitted copies.
    kept_ : (D',) int64, the training documents that have a word of the vocabulary; the others take no part.
    trace_ : list of {"iteration", "log_likelihood"}, about twenty of them: log p per token while sampling.
    info_ : dict stored with the model, for notes such as where the texts came from.

    Examples
    --------
    >>> from partwise.topics import DiscLDA, TextTopics
    >>> texts = ["apple tart with apple", "pear tart and plum", "rain and grey cloud", "cloud, wind, rain"]
    >>> model = TextTopics(DiscLDA(1, 1, n_iterations=50)).fit(texts, ["food", "food", "sky", "sky"])
    >>> model.predict(["plum and apple", "wind and rain"]).tolist()
    ['food', 'sky']
    """

    kind = "text-topics"

    def __init__(self, model: LDA | DiscLDA, counter: CountText | None = None) -> None:
        self.model = model
        self.counter = counter

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | None = None,
        *,
        checkpoint: CheckpointSource | None = None,
        engine: Any = None,
    ) -> Self:
        """Count the words, then fit the model. DiscLDA needs labels, ``None`` where one is unknown.

        ``checkpoint`` and ``engine`` are those of the model's own ``fit``."""
        if not isinstance(self.model, (LDA, DiscLDA)):
            raise ParameterError("model", "TextTopics", "an LDA or a DiscLDA", self.model)
        if labels is not None and len(labels) != len(texts):
            raise InputError(f"got {len(labels)} labels for {len(texts)} documents")
        self.counter_ = CountText() if self.counter is None else clone(self.counter)
        counts = self.counter_.fit_transform(texts)
        self.kept_ = np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel() > 0)
        self.info_: dict[str, Any] = {}
        self.trace_: list[dict[str, float]] = []
        self.model_ = clone(self.model)
        user = self.model_.callback
        self.model_.callback = self._traced(user, max(1, self.model_.n_iterations // 20), int(counts.sum()))
        kept = counts[self.kept_]
        chosen = None if labels is None else np.array(labels, dtype=object)[self.kept_]
        try:
            self.model_.fit(kept, chosen, checkpoint=checkpoint, engine=engine)
        finally:
            self.model_.callback = user
        return self

    def _traced(self, user: Callable[[Any, int], bool | None] | None, every: int, tokens: int) -> Any:
        def callback(model: Any, iteration: int) -> bool:
            if iteration % every == 0 and iteration <= model.n_iterations:
                value = model.log_likelihood()
                if value is not None:
                    self.trace_.append({"iteration": iteration, "log_likelihood": value / tokens})
            return bool(user is not None and user(model, iteration))

        return callback

    # ------------------------------------------------------------------ using the model

    def count(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Counts of the known words, (D, V)."""
        check_is_fitted(self, "model_")
        return self.counter_.transform(texts)

    def infer(self, texts: Sequence[str]) -> Inferred:
        """``transform`` and ``predict_proba`` from one run of the sampler."""
        counts = self.count(texts)
        words = np.asarray(counts.sum(axis=1)).ravel()
        if not isinstance(self.model_, DiscLDA):
            return Inferred(np.asarray(self.model_.transform(counts)), None, words)
        posteriors = self.model_.class_posterior(counts)
        packed = pack(counts, allow_empty=True)
        topics = np.mean([self.model_.representation(packed, each) for each in posteriors], axis=0)
        return Inferred(topics, np.mean([each.probabilities for each in posteriors], axis=0), words)

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """Topic proportions, (D, K): E[θ_d | w_d] of LDA, E[T^y θ_d | w_d] of DiscLDA."""
        counts = self.count(texts)
        return np.asarray(self.model_.transform(counts))

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """p(y | w_d), (D, C)."""
        return np.asarray(self._classifier().predict_proba(self.count(texts)))

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """argmax_y p(y | w_d), (D,)."""
        return np.asarray(self._classifier().predict(self.count(texts)))

    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self._classifier().classes_)

    @property
    def discriminative(self) -> bool:
        """Whether the model has classes."""
        check_is_fitted(self, "model_")
        return isinstance(self.model_, DiscLDA)

    def _classifier(self) -> DiscLDA:
        check_is_fitted(self, "model_")
        if not isinstance(self.model_, DiscLDA):
            raise InputError("an LDA has no classes: fit a DiscLDA on documents with labels")
        return self.model_

    @property
    def phi(self) -> np.ndarray:
        """Φ, (V, K): words × topics."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.components_.T)

    def groups(self) -> list[TopicGroup]:
        """Topics that belong together: those of each class and the shared ones, or (LDA) each one alone.

        With a fixed T they are its blocks (4.11); with a learned one, the strong topics of each class and
        the strong shared ones, by s_k^y (Lacoste-Julien 2009, §4.4.3). Groups without topics are left out.
        """
        phi = self.phi
        if not isinstance(self.model_, DiscLDA):
            return [TopicGroup(f"topic {k}", [k]) for k in range(phi.shape[1])]
        model = self.model_
        if model.transformation == "fixed":
            own, shared = topic_groups(model.classes_.size, model.class_topics, model.shared_topics)
        else:
            own, shared = strong_topics(model.transformation_)
        named = [(str(name), group) for name, group in zip(model.classes_.tolist(), own, strict=True)]
        return [TopicGroup(name, list(map(int, ks))) for name, ks in [*named, ("shared", shared)] if len(ks)]

    def top_words(self, topics: Sequence[int], n_words: int = 10) -> list[TopWord]:
        """Words by s_v^G = V/|G| Σ_{k∈G} Φ_vk, how many times likelier than uniform they are in the group."""
        return group_words(self.phi, topics, self.counter_.vocabulary_.tolist(), n_words)

    # ------------------------------------------------------------------ storage

    def to_state(self) -> State:
        """(header, arrays): those of the counter and of the model, side by side."""
        check_is_fitted(self, "model_")
        parts = {"counter": self.counter_.to_state(), "model": self.model_.to_state()}
        header: dict[str, Any] = {"class": "TextTopics", "format": 1, "kind": self.model_.kind}
        header |= {"info": self.info_, "trace": self.trace_, **{name: part[0] for name, part in parts.items()}}
        arrays = {f"{name}/{key}": array for name, part in parts.items() for key, array in part[1].items()}
        return header, {**arrays, "kept": self.kept_}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The estimator that ``to_state`` described."""
        if header.get("class") != "TextTopics" or header.get("kind") not in (LDA.kind, DiscLDA.kind):
            raise StorageError(f"expected the state of a TextTopics, got {header.get('class')!r}")

        def part(kind: Any, name: str) -> Any:
            own = {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}/")}
            return kind.from_state(header[name], own)

        counter, model = part(CountText, "counter"), part(MODELS[header["kind"]], "model")
        if counter.vocabulary_.size != model.n_features_in_:
            words = f"{counter.vocabulary_.size} words, the model {model.n_features_in_}"
            raise StorageError(f"the vocabulary has {words}")
        made = cls(clone(model), clone(counter))
        made.counter_, made.model_, made.kept_ = counter, model, np.asarray(arrays["kept"])
        made.info_, made.trace_ = dict(header["info"]), list(header["trace"])
        return made

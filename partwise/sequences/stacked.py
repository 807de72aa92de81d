"""StackedLabeler: a second labeler that reads the first one's labels of the same words elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.data.columns import CodedColumn, Columns, encode, is_coded
from partwise.estimation.base import StoredModel, params_from_json
from partwise.estimation.estimator import Estimator, check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError, ParameterError
from partwise.gold import checked_weights
from partwise.learners.base import Callback, Result
from partwise.sequences._empties import answers_empty, codes_empty
from partwise.sequences.encoders import TemplateEncoder, make_encoder
from partwise.sequences.explanation import Explanation
from partwise.sequences.labeler import SequenceLabeler
from partwise.sequences.spans import SpanPrediction
from partwise.sequences.tag_repair import repaired
from partwise.storage import check_writable
from partwise.templates._functions import CONTEXTS

__all__ = ["StackedLabeler", "with_column"]


class StackedLabeler(StoredModel, Estimator):
    """y = second(x, first(x)): the labels of a first stage are a column that the second stage's templates read.

    A word that is ambiguous in one sentence is often clear in another, where a title or a full name precedes it.
    Through ``doc_label``, the second stage sees the first stage's labels there. Since the first stage is too good on
    its own training data, the second is trained on labels obtained by cross-validation over documents (jackknifing).

    Parameters
    ----------
    first, second : SequenceLabeler, optional
        The stages, not fitted; both read token columns by templates. Without them: the presets "ner-document" and
        "ner-second", ten passes of DCA with softmax-margin losses (β = 1, γ = 1 and 3), and no tag scheme.
    folds : int
        Parts of the cross-validation. Documents are never divided, unless there are fewer of them than folds.
    column : str
        The name of the first stage's labels in the templates of the second.
    random_state : int
        Which documents are in which part.

    Attributes
    ----------
    first_, second_ : SequenceLabeler
        The fitted stages.
    classes_ : list of labels, sorted
    result_ : Result of the second stage
    first_score_ : float
        Chunk F1 (or accuracy) of the first stage in the cross-validation.

    Examples
    --------
    >>> from partwise.data import load_sample
    >>> data = load_sample("news", split="train")
    >>> def stage(*more):
    ...     lines = ["word[-1..1]", "shape(word)[0]", *more]
    ...     return SequenceLabeler(lines, learner="dca", max_passes=4, scheme="IOB2")
    >>> model = StackedLabeler(stage(), stage("doc_label(word,type(predicted))[0]"), folds=3)
    >>> model = model.fit(data, data.column("ner"))
    >>> model.predict(data)[0] == model.predict_coded(data).to_lists()[0]
    True
    """

    kind = "stacked-labeler"

    def __init__(
        self,
        first: SequenceLabeler | None = None,
        second: SequenceLabeler | None = None,
        *,
        folds: int = 5,
        column: str = "predicted",
        random_state: int = 0,
    ) -> None:
        self.first = first
        self.second = second
        self.folds = folds
        self.column = column
        self.random_state = random_state

    # training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        dev: tuple[Any, Any] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> StackedLabeler:
        """Train both stages: ``folds`` + 2 fits in all.

        Parameters
        ----------
        X : Columns, or lists of tokens
        y : one sequence of labels each, all of them known
        dev : (X, y), optional
            Held-out data: in each stage the best pass on it is kept.
        callbacks : of (record, θ) → True to stop
            Called in the second stage.
        checkpoint : path, optional
            Every fit saves its state in a file whose name begins with this.
        sample_weight : (n,), optional
            How much the loss of each sequence counts, in both stages.
        """
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 2:
            raise ParameterError("folds", "StackedLabeler", "an integer ≥ 2", self.folds)
        if checkpoint is not None:
            check_writable(checkpoint)
        columns, labels = self._columns(X), encode_known(y)
        for stage in map(self._stage, ("first", "second")):
            if stage.scheme is not None:  # once, not in every fold
                labels = repaired(labels, stage.scheme, stage.repair)
        lengths, expected = np.diff(labels.offsets), np.diff(columns.offsets)
        if len(lengths) != len(expected) or (lengths != expected).any():
            raise InputError("X and y differ in the number of sequences or in the length of one")

        def keep(stage: str) -> dict[str, Any]:
            return {} if checkpoint is None else {"checkpoint": f"{os.fspath(checkpoint)}.{stage}"}

        weights = None if sample_weight is None else checked_weights(sample_weight, len(columns))
        guessed = self._cross_validated(columns, labels, weights, keep)
        given: dict[str, Any] = {"sample_weight": weights}
        self.first_ = _whole(self._stage("first").unfitted().fit(columns, labels, dev=dev, **given, **keep("first")))
        if dev is not None:
            dev = self._read(dev[0]), dev[1]
        extended = with_column(columns, self.column, guessed)
        second = self._stage("second").unfitted()
        self.second_ = second.fit(extended, labels, dev=dev, callbacks=callbacks, **given, **keep("second"))
        return self

    def _stage(self, which: str) -> SequenceLabeler:
        given = getattr(self, which)
        if given is None:
            templates, gamma = ("ner-document", 1.0) if which == "first" else ("ner-second", 3.0)
            return SequenceLabeler(templates, loss=(1.0, gamma), learner="dca", C=0.1, max_passes=10)
        if given.templates is None:
            raise ParameterError(which, "StackedLabeler", "a labeler with templates", given)
        answer: SequenceLabeler = given
        return answer

    def _cross_validated(
        self, columns: Columns, labels: CodedColumn, weights: NDArray[np.float64] | None, keep: Any
    ) -> list[list[str]]:
        """The first stage's labels of each sequence, by a model that was not trained on its document."""
        part = parts_of(columns.documents, self.folds, self.random_state)
        gold = labels.to_lists()
        guessed: list[list[str]] = [[] for _ in gold]
        for fold in range(self.folds):
            inside, outside = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
            model = self._stage("first").unfitted().set_params(patience=None)  # a fold has no dev set to wait for
            given = {"sample_weight": None if weights is None else weights[inside], **keep(f"fold{fold}")}
            _whole(model.fit(columns.subset(inside), [gold[i] for i in inside], **given))
            for i, found in zip(outside, model.predict(columns.subset(outside)), strict=True):
                guessed[i] = found
        self.first_score_ = float(model._score(gold, encode(guessed)))
        return guessed

    # prediction

    def _columns(self, X: Any) -> Columns:
        stage = self._stage("first")
        encoder = make_encoder(X, stage.templates, stage.columns, stage.min_count, stage.hashing)
        assert isinstance(encoder, TemplateEncoder)
        return encoder.as_columns(X)

    def _read(self, X: Any) -> Columns:
        """X with the first stage's labels as one more column."""
        columns = self._columns(X)
        return with_column(columns, self.column, self.first_.predict_coded(columns))

    def _fitted(self) -> SequenceLabeler:
        check_is_fitted(self, "second_")
        return self.second_

    @property
    def classes_(self) -> list[Any]:
        return list(self.second_.classes_)

    @property
    def result_(self) -> Result:
        return self.second_.result_

    @answers_empty(lambda self: [], constrained=True)
    def predict(self, X: Any, constraints: Sequence[Mapping[int, Any] | None] | None = None) -> list[list[Any]]:
        """The best label sequence of every sequence. Sequences of one document belong in one call."""
        return Outputs(self.predict_coded(X, constraints).to_lists())

    @codes_empty(constrained=True)
    def predict_coded(self, X: Any, constraints: Sequence[Mapping[int, Any] | None] | None = None) -> CodedColumn:
        """The same in coded form; constraints apply to the second stage."""
        return self._fitted().predict_coded(self._read(X), constraints)

    @answers_empty(lambda self: np.zeros((0, len(self.classes_))), constrained=True)
    def predict_marginals(self, X: Any, constraints: Any = None) -> list[NDArray[np.float64]]:
        """P(y_t = b | x, first(x)): one (T, L) array per sequence, columns as ``classes_``."""
        return self._fitted().predict_marginals(self._read(X), constraints)

    def predict_proba(self, X: Any, constraints: Any = None) -> list[NDArray[np.float64]]:
        """The same as :meth:`predict_marginals`, under the name that scikit-learn gives probabilities."""
        return self.predict_marginals(X, constraints)

    @answers_empty(lambda self: [([], 1.0)])
    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[Any], float]]]:
        """The k best label sequences of every sequence, each with its probability, best first."""
        return self._fitted().predict_kbest(self._read(X), k)

    @answers_empty(lambda self: [])
    def predict_spans(self, X: Any, scheme: str | None = None) -> list[list[SpanPrediction]]:
        """The chunks of the best legal tag sequence, each with its probability."""
        return self._fitted().predict_spans(self._read(X), scheme)

    def score(self, X: Any, y: Any) -> float:
        """Chunk F1 if the labels are chunk tags, otherwise token accuracy."""
        return self._fitted().score(self._read(X), y)

    @property
    def context(self) -> str:
        """How much text a prediction looks at: the widest context of the stages."""
        result: str = max((stage.context for stage in self.stages), key=CONTEXTS.index)
        return result

    def explain(
        self, X: Any, position: int, label: Any = None, against: Any = None, *, sequence: int | None = None
    ) -> Explanation:
        """Why the second stage chose this label: the weights for and against it."""
        several = self._fitted() and self.first_._several(X)
        return self.second_.explain(self._read(several), position, label, against, sequence=sequence)

    # storage

    shows_weights = True

    @property
    def stages(self) -> list[SequenceLabeler]:
        return [self.first_, self.second_]

    @classmethod
    def stage_headers(cls, header: dict[str, Any]) -> list[dict[str, Any]]:
        return [header["first"], header["second"]]

    def describe_weights(self, label: Any = None, top: int = 5) -> dict[str, Any]:
        return self.second_.describe_weights(label, top)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self, "second_")
        header: dict[str, Any] = {
            "folds": self.folds,
            "column": self.column,
            "random_state": self.random_state,
            "first_score": self.first_score_,
        }
        arrays: dict[str, NDArray[Any]] = {}
        for which in ("first", "second"):
            header[which], own = getattr(self, f"{which}_").to_state()
            arrays.update({f"{which}/{name}": array for name, array in own.items()})
        return header, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        model = cls(folds=int(header["folds"]), column=str(header["column"]), random_state=header["random_state"])
        model.first_score_ = float(header["first_score"])
        for which in ("first", "second"):
            begin = len(which) + 1
            own = {name[begin:]: array for name, array in arrays.items() if name.startswith(f"{which}/")}
            setattr(model, f"{which}_", SequenceLabeler.from_state(header[which], own))
            setattr(model, which, SequenceLabeler(**params_from_json(header[which]["params"])))
        return model


def _whole(model: SequenceLabeler) -> SequenceLabeler:
    """The model; Ctrl-C, which only ends one fit, here ends all: there is nothing to keep without a second stage."""
    if model.result_.status == "interrupted":
        raise KeyboardInterrupt
    return model


def with_column(columns: Columns, name: str, labels: Any) -> Columns:
    """The same sentences with one more column; one of that name is replaced."""
    coded = encode(labels, f"column {name!r}")
    if not np.array_equal(coded.offsets, columns.offsets):
        raise InputError(f"column {name!r} and the sentences differ in length")
    kept = [i for i, other in enumerate(columns.names) if other != name]
    return replace(
        columns,
        names=(*(columns.names[i] for i in kept), name),
        codes=[*(columns.codes[i] for i in kept), coded.codes],
        vocab=[*(columns.vocab[i] for i in kept), list(coded.vocab)],
    )


def parts_of(documents: NDArray[np.int64], folds: int, random_state: int) -> NDArray[np.int64]:
    """The part of each sentence: whole documents, or single sentences where there are too few documents."""
    distinct, groups = np.unique(documents, return_inverse=True)
    if len(distinct) < folds:
        if len(documents) < folds:
            raise InputError(f"{len(documents)} sentences are too few for {folds} folds")
        groups, distinct = np.arange(len(documents)), np.arange(len(documents))
    shuffled = np.random.default_rng(random_state).permutation(len(distinct))
    return np.asarray(shuffled[groups] % folds, np.int64)


def encode_known(y: Any) -> CodedColumn:
    """Labels as a column; the first stage's labels are strings, so all must be."""
    y = as_list(y)
    if not is_coded(y):
        for i, sequence in enumerate(y):
            for t, label in enumerate(sequence):
                if not isinstance(label, str):
                    raise InputError(f"label {label!r} at position {t} of sequence {i}; expected a string")
    return encode(y, "labels")

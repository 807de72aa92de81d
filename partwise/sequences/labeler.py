"""SequenceLabeler: taggers, chunkers, entity recognisers; scikit-learn's interface, strings in, strings out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.batch import Batch
from partwise.costs import Cost
from partwise.data.columns import CodedColumn, is_coded
from partwise.data.packs import Pack
from partwise.estimation.base import make_loss, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import cost_for
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError, ParameterError
from partwise.features.layout import ChainFeatures
from partwise.learners import Learner
from partwise.learners.base import Callback
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.sequences import _decoding
from partwise.sequences._empties import answers_empty, codes_empty
from partwise.sequences._serving import OneByOne
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.encoders import Rows, make_encoder, sequences_of
from partwise.sequences.explanation import Explanation, explain_position
from partwise.sequences.labels import (
    GoldLabels,
    allowed_rows,
    check_held_out,
    check_size,
    encode_labels,
    find_classes,
)
from partwise.sequences.spans import SpanPrediction, predict_spans
from partwise.sequences.tag_repair import repaired
from partwise.sequences.tag_schemes import scheme_name
from partwise.sequences.tags import legal_transitions
from partwise.sequences.tokens import token_accuracy
from partwise.sequences.weights import ChainWeights
from partwise.structures.chain import Chain

__all__ = ["SequenceLabeler"]


#: Up to so many sequences are decoded one by one, which starts at once; more go through blocks and threads.
FEW = 4


class SequenceLabeler(OneByOne, ChainWeights):
    """argmax_y Σ_t [w(y_t)·x_t + Σ_{j=1..k} w(y_{t−j}, …, y_t)]: a linear chain with any loss and any learner.

    Parameters
    ----------
    templates : str, list of str or Templates, optional
        How to read token columns: a preset (\"chunking\", \"ner\", \"pos\"), template lines or text. Without it, X
        holds the features themselves.
    columns : tuple of str, optional
        Names of the columns, if X holds lists of token tuples.
    loss : {"crf", "svm", "softmax_margin", "perceptron", "slack_svm", "risk", "ramp"}, Loss or (beta, gamma), optional
        "crf" if absent; for the perceptron learner, its own.
    learner : {"lbfgs", "dca", "sgd", "mira", "n_slack", "one_slack", "frank_wolfe", "sdca", …} or Learner
    C : float
        Weight of the losses against ½‖θ‖²: larger means less regularisation. 3 was chosen for CRFs on held-out folds of
        six corpora; small corpora gain from 10.
    max_passes : int, optional
        The learner's own default if absent.
    order : int
        k, the number of previous labels in a transition; transitions of lower orders have weights, too.
    scheme : {"IOB2", "IOBES", …}, optional
        The labels are tags of this scheme; sequences that violate it are never predicted or trained on.
    repair : bool
        Whether to repair labels that are ill-formed in the scheme, with a warning that counts them, or to raise an
        error.
    cost : Cost, or a function of (X, y) that returns one, optional
        The cost in losses with γ > 0; by default the Hamming cost.
    features : {"observed", "all"}
        Weights for the (attribute, label) pairs seen in training, or for all of them.
    min_count : int
        Attributes that occur less often are dropped.
    hashing : int, optional
        With templates: hash attributes to this many bits instead of keeping a vocabulary.
    patience : int, optional
        With a dev set: stop after this many passes without improvement.
    learner_options : dict, optional
        More settings of the learner, such as {"eta": 0.1}.
    random_state : int
    n_jobs : int
        Threads; −1 for all cores. The result does not depend on it.
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : list of labels, sorted
    theta_ : (dim,) weights
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from partwise.data import load_sample
    >>> train = load_sample("english", split="train")
    >>> model = SequenceLabeler(templates="chunking", C=1.0, max_passes=30)
    >>> model = model.fit(train, train.column("chunk"))
    >>> model.predict([[("The", "DT"), ("old", "JJ"), ("harbour", "NN"), ("closed", "VBD")]])
    [['B-NP', 'I-NP', 'I-NP', 'B-VP']]
    """

    kind = "sequence-labeler"

    def __init__(
        self,
        templates: Any = None,
        *,
        columns: tuple[str, ...] | None = None,
        loss: Any = None,
        learner: Any = "lbfgs",
        C: float = 3.0,
        max_passes: int | None = None,
        order: int = 1,
        scheme: str | None = None,
        repair: bool = True,
        cost: Cost | Callable[[Any, Any], Cost] | None = None,
        features: str = "observed",
        min_count: int = 1,
        hashing: int | None = None,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.templates = templates
        self.columns = columns
        self.loss = loss
        self.learner = learner
        self.C = C
        self.max_passes = max_passes
        self.order = order
        self.scheme = scheme
        self.repair = repair
        self.cost = cost
        self.features = features
        self.min_count = min_count
        self.hashing = hashing
        self.patience = patience
        self.learner_options = learner_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # training

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: tuple[Any, Any] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        engine: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on sequences X with labels y.

        Parameters
        ----------
        X : Columns, lists of tokens, lists of string lists or dicts, CSR matrices or arrays; one per sequence
        y : one sequence of labels each
            None stands for an unknown label, a set for one of several.
        dev : (X, y), optional
            Held-out data; the best pass on it is kept.
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        engine : dask.distributed.Client, its address, or "local"; optional
            Train on the workers of a cluster. X may also be a pack (see :func:`partwise.pack`) or its path, with y
            left out, or a generator of sequences, which is packed first: neither need fit into memory.
        sample_weight : (n,), optional
            How much the loss of each sequence counts: 2 counts it twice. Learners that do not support this raise an
            error.
        """
        given: dict[str, Any] = {"callbacks": callbacks, "checkpoint": checkpoint, "sample_weight": sample_weight}
        return self._fit(X, y, dev=dev, engine=engine, **given)

    def _labels(self, y: Any) -> Any:
        """Labels to learn from: tags well-formed in the scheme; those known only in part are taken as they are."""
        y = as_list(y)
        if y is None:
            raise InputError("y is missing: expected one sequence of labels for each sequence of X")
        if self.scheme is None or not (is_coded(y) or all(isinstance(label, str) for row in y for label in row)):
            return y
        return repaired(y, self.scheme, self.repair)

    def _read(self, X: Any) -> Rows:
        result: Rows = self.encoder_.transform(sequences_of(X))
        return result

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Any:
        engine = data.get("engine")
        if hasattr(X, "__next__") or isinstance(X, str | os.PathLike | Pack):
            from partwise.sequences import shards  # what predicts never needs it

            return shards.of_pack(self, X, y, learner, loss, engine)
        X, y = sequences_of(X), self._labels(y)
        encoder = make_encoder(X, self.templates, self.columns, self.min_count, self.hashing)
        rows = encoder.fit_transform(X)
        classes = find_classes(y)
        check_size(len(classes), self.order)
        gold = encode_labels(y, classes, rows.offsets)
        layout = rows.layout(gold.codes, len(classes), self.features == "all")
        self.encoder_, self.layout_, self.classes_ = encoder, layout, classes
        if engine is not None:
            from partwise.sequences import shards

            return shards.of_rows(self, rows, gold, learner, loss, engine)
        return self._problem(rows, gold, loss, learner, cost_for(self.cost, X, y))

    def _make_score(self, X: Any, y: Any) -> Callable[[NDArray[np.float64]], float]:
        rows, truth = self._read(X), _as_lists(y)
        check_held_out(truth, self.classes_, rows.offsets)
        return lambda theta: self._score(truth, self._decode(rows, None, theta))

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None) -> Self:
        """One pass of an online learner over more data.

        The first call fixes the attributes (use ``hashing`` for an open vocabulary) and takes all the labels that
        will ever occur in ``classes``.
        """
        self.check_settings()
        X, y = sequences_of(X), self._labels(y)
        learner, loss = self._settings(max_passes=1)
        if not hasattr(learner, "shuffle"):
            raise ParameterError(
                "learner", "partial_fit", "an online learner: dca, sgd, perceptron or mira", self.learner
            )
        start = None
        if not hasattr(self, "theta_"):
            encoder = make_encoder(X, self.templates, self.columns, self.min_count, self.hashing)
            rows = encoder.fit_transform(X)
            self.encoder_, self.classes_ = (
                encoder,
                sorted(classes) if classes is not None else find_classes(y),
            )
            self.layout_ = rows.layout(np.zeros(int(rows.offsets[-1]), np.int64), len(self.classes_), True)
        else:
            rows, start = self._read(X), self.theta_
        gold = encode_labels(y, self.classes_, rows.offsets)
        problem = self._problem(rows, gold, loss, learner, cost_for(self.cost, X, y))
        return self._train(problem, learner, theta=start)

    def check_settings(self) -> None:
        if self.features not in ("observed", "all"):
            raise ParameterError("features", "SequenceLabeler", "'observed' or 'all'", self.features)
        if isinstance(self.order, bool) or not isinstance(self.order, int) or not 1 <= self.order <= 8:
            raise ParameterError("order", "SequenceLabeler", "an integer from 1 to 8", self.order)
        if self.scheme is not None:
            scheme_name(self.scheme)
        super().check_settings()

    def _problem(
        self, rows: Rows, gold: GoldLabels, loss: LossFunction, learner: Learner, cost: Cost | None
    ) -> Problem:
        tied = not learner.needs & Chain.untied_oracles  # the weights are the same; training may want every position
        space = self._space(rows.offsets, self.scheme, tied=tied)
        outputs: Any = gold.sequences()
        if gold.partial:
            outputs = self._space(rows.offsets, self.scheme, allowed=gold.allowed(len(self.classes_)), tied=tied)
        packed, n = rows.pack(self.layout_), len(self.classes_)
        features = ChainFeatures(packed, self.layout_.dim, n, self.order, tied=tied)
        try:
            return Problem(space, features, outputs, loss, cost, n_threads=thread_count(self.n_jobs))
        except InputError as error:
            raise InputError(f"{error} ({self._legend()})") from None

    def _legend(self) -> str:
        return "labels: " + ", ".join(f"{j} = {label}" for j, label in enumerate(self.classes_[:30]))

    def _space(self, offsets: NDArray[np.int64], scheme: str | None, allowed: Any = None, tied: bool = True) -> Chain:
        rules: dict[str, Any] = {}
        if scheme is not None:
            legal = legal_transitions(list(self.classes_), scheme)
            rules = {"transitions": legal.allowed, "start": legal.start, "stop": legal.stop}
        return Chain(np.diff(offsets), len(self.classes_), order=self.order, tied=tied, allowed=allowed, **rules)

    # prediction

    def _features(self, rows: Rows) -> ChainFeatures:
        return ChainFeatures(rows.index(self.layout_), self.layout_.dim, len(self.classes_), self.order)

    def _decode(self, rows: Rows, space: Chain | None, theta: NDArray[np.float64] | None = None) -> CodedColumn:
        space, features = space or self._space(rows.offsets, self.scheme), self._features(rows)
        labels = np.empty(int(rows.offsets[-1]), np.int32)
        weights = self.theta_ if theta is None else theta
        _decoding.in_blocks(thread_count(self.n_jobs), _decoding.decode_labels, space, features, (weights,), (labels,))
        if len(labels) and labels.min() < 0:
            i = int(np.searchsorted(rows.offsets, int(np.argmin(labels)), side="right")) - 1
            raise InputError(f"no label sequence of sequence {i} has a finite score")
        return CodedColumn(labels, list(self.classes_), rows.offsets)

    @answers_empty(lambda self: [], constrained=True)
    def predict(self, X: Any, constraints: Sequence[Mapping[int, Any] | None] | None = None) -> list[list[Any]]:
        """The best label sequence of every sequence.

        Parameters
        ----------
        constraints : one {position: label or set of labels} per sequence, optional
            Pins labels, for example [{0: "B-PER", -1: {"O", "I-LOC"}}].
        """
        check_is_fitted(self, "theta_")
        X = sequences_of(X)
        if len(X) <= FEW and constraints is None:
            found = self._predict_few(X)
            if found is not None:
                return Outputs(found)
        return Outputs(self.predict_coded(X, constraints).to_lists())

    @codes_empty(constrained=True)
    def predict_coded(self, X: Any, constraints: Sequence[Mapping[int, Any] | None] | None = None) -> CodedColumn:
        """The same in coded form, (codes, vocab, offsets): faster for large data."""
        check_is_fitted(self, "theta_")
        rows = self._read(X)
        return self._decode(rows, self._constrained(rows, constraints))

    def _constrained(self, rows: Rows, constraints: Any) -> Chain | None:
        if constraints is None:
            return None
        return self._space(rows.offsets, self.scheme, allowed_rows(constraints, self.classes_, rows.offsets))

    @answers_empty(lambda self: np.zeros((0, len(self.classes_))), constrained=True)
    def predict_marginals(self, X: Any, constraints: Any = None) -> list[NDArray[np.float64]]:
        """P(y_t = b | x) for every position t and label b: one (T, L) array per sequence, columns as ``classes_``.

        Uses the inverse temperature β of the loss; a loss with β = ∞ defines no distribution, so β = 1 is used.
        """
        check_is_fitted(self, "theta_")
        rows = self._read(X)
        space = self._constrained(rows, constraints) or self._space(rows.offsets, self.scheme)
        features = self._features(rows)
        out = np.empty((int(rows.offsets[-1]), len(self.classes_)))
        logs = np.empty(len(rows))
        settings, outs = (self.theta_, self._beta), (out, logs)
        _decoding.in_blocks(thread_count(self.n_jobs), _decoding.label_marginals, space, features, settings, outs)
        return Outputs(np.split(out, rows.offsets[1:-1]) if len(rows) else [])

    def predict_proba(self, X: Any, constraints: Any = None) -> list[NDArray[np.float64]]:
        """The same as :meth:`predict_marginals`, under the name that scikit-learn gives probabilities."""
        return self.predict_marginals(X, constraints)

    @property
    def _beta(self) -> float:
        beta = make_loss(self.loss, self.learner).beta
        return beta if np.isfinite(beta) else 1.0

    @answers_empty(lambda self: [([], 1.0)])
    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[Any], float]]]:
        """The k best label sequences of every sequence, each with its probability, best first."""
        check_is_fitted(self, "theta_")
        rows = self._read(X)
        space = self._space(rows.offsets, self.scheme)
        features = self._features(rows)
        batch, beta = Batch(space, features, n_threads=thread_count(self.n_jobs)), self._beta
        ranked, logs = batch.kbest(self.theta_, k), batch.marginals(self.theta_, beta).log_partitions
        found = []
        for i, count in enumerate(ranked.counts):
            sequences = [space.decode(i, parts) for parts in batch.of(i, ranked.parts)[:count]]
            probabilities = np.exp(beta * ranked.values[i, :count] - logs[i])
            labels = [[self.classes_[b] for b in sequence] for sequence in sequences]
            found.append(list(zip(labels, probabilities.tolist(), strict=True)))
        return Outputs(found)

    @answers_empty(lambda self: [])
    def predict_spans(self, X: Any, scheme: str | None = None) -> list[list[SpanPrediction]]:
        """The chunks of the best legal tag sequence, each with the probability that it is exactly a chunk."""
        check_is_fitted(self, "theta_")
        wanted = scheme or self.scheme
        if wanted is None:
            raise ParameterError("scheme", "predict_spans", "a tag scheme such as 'IOB2'", None)
        rows = self._read(X)
        space = self._space(rows.offsets, wanted)
        features = self._features(rows)
        best, jobs = self._decode(rows, space), thread_count(self.n_jobs)
        return predict_spans(space, features, self.theta_, self._beta, best, wanted, jobs)

    def score(self, X: Any, y: Any) -> float:
        """Chunk F1 if there is a scheme or the labels are chunk tags (O, B-…, I-…), otherwise token accuracy."""
        return self._score(_as_lists(y), self.predict_coded(X))

    def _score(self, truth: Any, predicted: CodedColumn) -> float:
        if self._tags:
            return chunk_scores(truth, predicted).f1
        return token_accuracy(_spelled(truth), _spelled(predicted))

    @property
    def _tags(self) -> bool:
        kinds = {str(label)[:2] for label in self.classes_ if label != "O"}
        return self.scheme is not None or (bool(kinds) and kinds <= {"B-", "I-", "E-", "S-", "L-", "U-"})

    @property
    def context(self) -> str:
        """How much text a prediction looks at: the "sentence", or its "document"."""
        result: str = self.encoder_.context
        return result

    def explain(
        self, X: Any, position: int, label: Any = None, against: Any = None, *, sequence: int | None = None
    ) -> Explanation:
        """Why this label: the weights for and against it at one position of one sequence.

        Parameters
        ----------
        X : what ``predict`` takes, with ``sequence`` where that is more than one sequence; or a single sequence
            Several matter to templates that look at the whole document.
        label, against : optional
            The label to explain and its rival; the predicted one and the best other one if absent.
        """
        check_is_fitted(self, "theta_")
        return explain_position(self, self._several(X), position, label, against, sequence)

    def _several(self, X: Any) -> Any:
        """X as ``predict`` takes it: a single sequence in a list."""
        X = sequences_of(X)
        return [X] if self.encoder_.is_single(X) else X


def _spelled(y: Any) -> Any:
    """Labels as strings, which scores are made of; numbers are labels too."""
    if isinstance(y, CodedColumn):
        return y._replace(vocab=list(map(str, y.vocab)))
    return [list(map(str, sequence)) for sequence in y]


def _as_lists(y: Any) -> Any:
    return y if isinstance(y, CodedColumn) else [list(sequence) for sequence in as_list(y)]

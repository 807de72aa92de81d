"""SegmentLabeler: chunking by whole labelled segments, exactly: semi-Markov CRF, perceptron, max-margin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.batch import Batch
from partwise.data.columns import CodedColumn
from partwise.estimation.base import make_loss, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import LearnedEstimator, cost_for
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError, ParameterError
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.sequences._empties import answers_empty, codes_empty
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.segmentation._decoding import exact_segments, segment_marginals
from partwise.sequences.segmentation.encoding import BASES, OUTSIDE, SegmentEncoder, gold_segments, segment_tags
from partwise.sequences.segmentation.explanation import SegmentExplanation, explain_segment
from partwise.sequences.segmentation.features import SegmentFeatures
from partwise.sequences.spans import SpanPrediction
from partwise.sequences.tag_repair import repaired
from partwise.sequences.tag_schemes import scheme_name
from partwise.sequences.tags import convert_all
from partwise.structures.segments import Segments

__all__ = ["SegmentLabeler", "SegmentModel"]

Floats = NDArray[np.float64]


class SegmentModel(LearnedEstimator):
    """What exact and searching labellers of segments share: features, tags, prediction, storage."""

    templates: Any
    segments: Sequence[str]
    columns: tuple[str, ...] | None
    scheme: str
    repair: bool
    max_length: int | None
    min_count: int
    encoder_: SegmentEncoder

    def _encode(self, X: Any, y: Any) -> tuple[Segments, SegmentFeatures, Any]:
        """Fit the encoder; the spaces, features and gold segments of the training data."""
        gold, labels = gold_segments(repaired(as_list(y), self.scheme, self.repair), self.scheme)
        limits = gold.limits(len(labels))
        if self.max_length is not None:
            limits = np.where(np.arange(len(labels)) == 0, 1, self.max_length)
        self.encoder_ = SegmentEncoder(self.templates, tuple(self.segments), columns=self.columns,
                                       min_count=self.min_count)  # fmt: skip
        self.encoder_.fit(X, gold, labels, limits)
        space, features = self.encoder_.transform(X)
        return space, features, gold

    @property
    def classes_(self) -> list[str]:
        """``"O"`` for tokens outside all segments, then the labels of segments."""
        return list(self.encoder_.labels)

    def check_settings(self) -> None:
        name = type(self).__name__
        scheme_name(self.scheme)
        if self.max_length is not None and (isinstance(self.max_length, bool) or not self.max_length >= 1):
            raise ParameterError("max_length", name, "at least 1, or None for the longest in training", self.max_length)
        if isinstance(self.segments, str):
            raise ParameterError("segments", name, "a list of templates", self.segments)
        super().check_settings()

    # prediction

    def _starts(self, space: Segments, features: SegmentFeatures, theta: Floats) -> NDArray[np.int64]:
        """(tokens,): label of the segment that begins at each token, −1 inside segments."""
        raise NotImplementedError

    def _blocks(self, n: int, task: Callable[[int, int], int]) -> None:
        """task(start, stop) over the inputs, in threads; an answer ≥ 0 is an input without output."""
        jobs = thread_count(self.n_jobs)
        borders = np.linspace(0, n, jobs + 1).astype(int).tolist()
        failed: list[int] = []
        Threads(jobs).each(lambda start, stop: failed.append(task(start, stop)), itertools.pairwise(borders))
        if any(i >= 0 for i in failed):
            raise InputError(f"no segmentation of sequence {min(i for i in failed if i >= 0)} has a finite score")

    def _tags(self, starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> CodedColumn:
        segments, first = start_segments(starts, offsets)
        tags = segment_tags(segments, first, self.encoder_.labels, offsets)
        return tags if scheme_name(self.scheme) == "IOB2" else convert_all(tags, "IOB2", self.scheme)

    @codes_empty()
    def predict_coded(self, X: Any) -> CodedColumn:
        """The tags as numbers with their names: (codes, vocab, offsets); the quick way for large data."""
        check_is_fitted(self, "theta_")
        space, features = self.encoder_.transform(X)
        return self._tags(self._starts(space, features, self.theta_), features.pack.tokens.offsets)

    def _written(self, outputs: Sequence[Any], length: int) -> list[list[str]]:
        """The tags of several segmentations of one sequence of this length."""
        first = np.append(0, np.cumsum([len(segments) for segments in outputs]))
        offsets = length * np.arange(len(outputs) + 1)
        tags = segment_tags(np.concatenate(outputs), first, self.encoder_.labels, offsets)
        same = scheme_name(self.scheme) == "IOB2"
        return (tags if same else convert_all(tags, "IOB2", self.scheme)).to_lists()

    def predict(self, X: Any) -> list[list[str]]:
        """The tags of the best segmentation of every sequence."""
        return Outputs(self.predict_coded(X).to_lists())

    def score(self, X: Any, y: Any) -> float:
        """Chunk F1."""
        return chunk_scores(as_list(y), self.predict_coded(X)).f1

    def _make_score(self, X: Any, y: Any) -> Callable[[Floats], float]:
        space, features = self.encoder_.transform(X)
        offsets, y = features.pack.tokens.offsets, as_list(y)
        return lambda theta: chunk_scores(y, self._tags(self._starts(space, features, theta), offsets)).f1

    def explain(
        self, X: Any, start: int, stop: int, label: str | None = None, against: str | None = None
    ) -> SegmentExplanation:
        """Why the tokens start … stop − 1 of a single sequence are a segment of this label and not of another.

        ``label`` is the best one for these tokens if absent, ``against`` the best other one.
        """
        check_is_fitted(self, "theta_")
        return explain_segment(self.encoder_, self.theta_, X, start, stop, label, against)

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.encoder_.to_state()

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.encoder_ = SegmentEncoder.from_state(header, arrays, len(self.theta_))


def start_segments(
    starts: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(segments, first) from the labels of the segments that begin at each token."""
    begin = np.flatnonzero(starts >= 0)
    sentence = np.searchsorted(offsets, begin, side="right") - 1
    end = np.append(begin[1:], offsets[-1])
    segments = np.stack([begin - offsets[sentence], end - offsets[sentence], starts[begin]], axis=1)
    return segments, np.append(0, np.cumsum(np.bincount(sentence, minlength=len(offsets) - 1)))


class SegmentLabeler(SegmentModel):
    """argmax over segmentations of Σ_j w(b_j)·f(x, t_j, t_{j+1}) + w(b_{j−1}, b_j), exactly, with any loss and learner.

    With the default loss this is the semi-Markov CRF of Sarawagi & Cohen (2004).

    Parameters
    ----------
    templates : str, list of str or Templates
        Attributes of tokens, which count as first, rest or last of their segment.
    segments : list of str
        Base templates whose values, taken over a whole segment, are features of it: its sequence, alone or with what
        stands before or after.
    columns : tuple of str, optional
        Names of the columns, if X holds lists of token tuples.
    scheme : str
        The scheme of the tags in y and of those predicted.
    repair : bool
        Whether to repair labels that are ill-formed in the scheme, with a warning that counts them, or to raise an
        error.
    max_length : int, optional
        The longest segment; that of each label in the training data if absent.
    min_count : int
        Attributes and whole segments seen less often are dropped.
    loss, learner, C, max_passes, cost, patience, learner_options, random_state, n_jobs, verbose
        As in :class:`~partwise.sequences.labeler.SequenceLabeler`.

    Attributes
    ----------
    classes_ : list of labels, ``"O"`` first
    theta_ : (dim,) weights
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from partwise.sequences.sample import load_sample
    >>> train = load_sample("english", split="train")
    >>> model = SegmentLabeler(max_passes=5).fit(train, train.column("chunk"))
    >>> model.predict([[("The", "DT"), ("old", "JJ"), ("harbour", "NN"), ("closed", "VBD")]])
    [['B-NP', 'I-NP', 'I-NP', 'B-VP']]
    """

    kind = "segment-labeler"

    def __init__(
        self,
        templates: Any = "chunking",
        *,
        segments: Sequence[str] = BASES,
        columns: tuple[str, ...] | None = None,
        scheme: str = "IOB2",
        repair: bool = True,
        max_length: int | None = None,
        min_count: int = 1,
        loss: Any = None,
        learner: Any = "dca",
        C: float = 0.5,
        max_passes: int | None = 15,
        cost: Any = None,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.templates = templates
        self.segments = segments
        self.columns = columns
        self.scheme = scheme
        self.repair = repair
        self.max_length = max_length
        self.min_count = min_count
        self.loss = loss
        self.learner = learner
        self.C = C
        self.max_passes = max_passes
        self.cost = cost
        self.patience = patience
        self.learner_options = learner_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        space, features, gold = self._encode(X, y)
        threads, cost = thread_count(self.n_jobs), cost_for(self.cost, X, y)
        try:
            return Problem(space, features, gold.outputs(), loss, cost, n_threads=threads)
        except InputError as error:
            names = ", ".join(f"{j} = {name}" for j, name in enumerate(self.encoder_.labels[:30]))
            raise InputError(f"{error} (labels: {names})") from None

    def _starts(self, space: Segments, features: SegmentFeatures, theta: Floats) -> NDArray[np.int64]:
        offsets = features.pack.tokens.offsets
        starts = np.empty(int(offsets[-1]), np.int64)

        def task(start: int, stop: int) -> int:
            return int(exact_segments(space.pack, features.pack, theta, start, stop, offsets, starts))

        self._blocks(len(space), task)
        return starts

    @property
    def _beta(self) -> float:
        beta = make_loss(self.loss, self.learner).beta
        return beta if np.isfinite(beta) else 1.0

    @answers_empty(lambda self: [])
    def predict_spans(self, X: Any) -> list[list[SpanPrediction]]:
        """The segments of the best segmentation, each with the probability that it is exactly one.

        Uses the inverse temperature β of the loss; a loss with β = ∞ defines no distribution, so β = 1 is used.
        """
        check_is_fitted(self, "theta_")
        space, features = self.encoder_.transform(X)
        offsets = features.pack.tokens.offsets
        starts = self._starts(space, features, self.theta_)
        mass = np.zeros(len(starts))

        def task(start: int, stop: int) -> int:
            segment_marginals(space.pack, features.pack, self.theta_, self._beta, start, stop, offsets, starts, mass)
            return -1

        self._blocks(len(space), task)
        segments, first = start_segments(starts, offsets)
        found = []
        for i in range(len(space)):
            rows = segments[first[i] : first[i + 1]].tolist()
            found.append([SpanPrediction(a, b, self.encoder_.labels[label], float(mass[offsets[i] + a]))
                          for a, b, label in rows if self.encoder_.labels[label] != OUTSIDE])  # fmt: skip
        return found

    @answers_empty(lambda self: [([], 1.0)])
    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[str], float]]]:
        """The tags of the k best segmentations of every sequence, each with its probability, best first."""
        check_is_fitted(self, "theta_")
        space, features = self.encoder_.transform(X)
        if not len(space):
            return []
        batch, beta = Batch(space, features, n_threads=thread_count(self.n_jobs)), self._beta
        ranked, logs = batch.kbest(self.theta_, k), batch.marginals(self.theta_, beta).log_partitions
        found = []
        for i, count in enumerate(ranked.counts.tolist()):
            outputs = [space.decode(i, parts) for parts in batch.of(i, ranked.parts)[:count]]
            shares = np.exp(beta * ranked.values[i, :count] - logs[i]).tolist()
            found.append(list(zip(self._written(outputs, int(space.lengths[i])), shares, strict=True)))
        return found

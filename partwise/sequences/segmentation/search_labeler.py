"""SearchLabeler: chunking by whole labelled segments, by beam search, trained inside the search (LaSO)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.searched import SearchedEstimator
from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso.learner import PackedSearch
from partwise.sequences._empties import answers_empty
from partwise.sequences.segmentation._chunk_kernels import best_segments, chunk_search, ranked_segments
from partwise.sequences.segmentation._history import History
from partwise.sequences.segmentation.encoding import BASES, SegmentEncoder
from partwise.sequences.segmentation.features import SegmentFeatures
from partwise.sequences.segmentation.labeler import Floats, SegmentModel, start_segments
from partwise.structures.segments import Segments

__all__ = ["SearchLabeler"]


class SearchLabeler(SegmentModel, SearchedEstimator):
    """A beam search over segmentations whose weights are learned where the search goes wrong (Daumé & Marcu 2005,
    §4.1).

    A state covers the first tokens, an operator adds a whole labelled chunk, and the beam keeps the best states that
    cover equally many tokens. Scores are not probabilities.

    Parameters
    ----------
    templates, segments, columns, scheme, repair, max_length, min_count
        As in :class:`~partwise.sequences.segmentation.labeler.SegmentLabeler`.
    history : bool
        Whether the first two ``segments`` templates are features together with the labels before as well: of the token
        where a chunk begins and of its neighbours, with one or two labels back. Without it only pairs of labels count,
        as in the paper.
    history_bits : int
        Their weights are hashed into a table of 2^bits.
    beam : int
        Number of states kept per number of covered tokens. For exact inference, use :class:`SegmentLabeler`.
    update, mode, rivals, alpha, margin_scale, average
        As in :class:`~partwise.learners.laso.learner.LaSO`. The margin is that of features of length 1; chunks have
        dozens of features, and so it is larger here (both were chosen on held-out sentences of CoNLL-2000).
    max_passes, patience, learner_options, random_state, n_jobs, verbose

    Attributes
    ----------
    classes_ : list of labels, ``"O"`` first
    theta_ : (dim,) weights
    result_ : Result with the trace: updates per pass, the norm of the weights

    Examples
    --------
    >>> from partwise.sequences.sample import load_sample
    >>> train = load_sample("english", split="train")
    >>> model = SearchLabeler(beam=3, max_passes=5).fit(train, train.column("chunk"))
    >>> model.predict([[("The", "DT"), ("old", "JJ"), ("harbour", "NN"), ("closed", "VBD")]])
    [['B-NP', 'I-NP', 'I-NP', 'B-VP']]
    """

    kind = "search-labeler"

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
        history: bool = True,
        history_bits: int = 20,
        beam: int = 5,
        update: str = "alma",
        mode: str = "laso",
        rivals: str = "ahead",
        alpha: float = 0.9,
        margin_scale: float | None = 10.0,
        average: bool = True,
        max_passes: int = 12,
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
        self.history = history
        self.history_bits = history_bits
        self.beam = beam
        self.update = update
        self.mode = mode
        self.rivals = rivals
        self.alpha = alpha
        self.margin_scale = margin_scale
        self.average = average
        self.max_passes: Any = max_passes
        self.patience = patience
        self.learner_options = learner_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_settings(self) -> None:
        if not 4 <= self.history_bits <= 26:
            raise ParameterError("history_bits", "SearchLabeler", "from 4 to 26", self.history_bits)
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        space, features, gold = self._encode(X, y)
        reason = space._too_long(gold.outputs())
        if reason is not None:
            raise InputError(reason)
        return self._training(space, features, gold)

    def _training(self, space: Segments, features: SegmentFeatures, gold: Any) -> PackedSearch:
        history = self._history(features)
        search = chunk_search(features.pack, gold.first, gold.segments, history)
        return PackedSearch(search, features.dim + self._table, len(space))

    @property
    def _table(self) -> int:
        """How many weights of histories there are, after all others."""
        return 1 << self.history_bits if self.history else 0

    def _history(self, features: SegmentFeatures) -> History:
        return History(features.codes[:2], features.dim, self._table - 1)

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.encoder_ = SegmentEncoder.from_state(header, arrays, len(self.theta_) - self._table)

    def _starts(self, space: Segments, features: SegmentFeatures, theta: Floats) -> NDArray[np.int64]:
        search = chunk_search(features.pack, None, np.zeros((0, 3), np.int64), self._history(features))
        offsets = features.pack.tokens.offsets
        starts = np.empty(int(offsets[-1]), np.int64)
        beam = int(self.beam)

        def task(start: int, stop: int) -> int:
            return int(best_segments(search, theta, beam, start, stop, offsets, starts))

        self._blocks(len(space), task)
        return starts

    @answers_empty(lambda self: [([], 0.0)])
    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[str], float]]]:
        """The tags of up to k outputs that are left in the beam, each with its score, best first."""
        check_is_fitted(self, "theta_")
        space, features = self.encoder_.transform(X)
        search = chunk_search(features.pack, None, np.zeros((0, 3), np.int64), self._history(features))
        offsets, beam = features.pack.tokens.offsets, max(k, int(self.beam))
        starts, values = np.empty((k, int(offsets[-1])), np.int64), np.full((len(space), k), -np.inf)

        def task(start: int, stop: int) -> int:
            return int(ranked_segments(search, self.theta_, beam, start, stop, offsets, starts, values))

        self._blocks(len(space), task)
        found = []
        for i, (row, here) in enumerate(zip(values, pairwise(offsets.tolist()), strict=True)):
            ends, length = np.array([0, here[1] - here[0]]), int(space.lengths[i])
            kept = np.flatnonzero(row > -np.inf)
            outputs = [start_segments(starts[j, slice(*here)], ends)[0] for j in kept]
            found.append(list(zip(self._written(outputs, length), row[kept].tolist(), strict=True)))
        return found

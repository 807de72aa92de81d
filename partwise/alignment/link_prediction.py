"""How a trained word aligner predicts: features and searches block by block, in threads or processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from partwise._threads import Threads
from partwise.alignment.explanation import LinkExplanation, explain_link, link_margins
from partwise.alignment.feature_map import AlignmentFeatures, FeatureMap, PairReader, PartScores
from partwise.alignment.generative import GenerativeAligner
from partwise.alignment.gold import gold_links
from partwise.alignment.link_files import Link
from partwise.alignment.links import Floats, SentencePair, check_pairs, pair_blocks
from partwise.alignment.scores import alignment_scores
from partwise.alignment.searches import best_links, best_matchings, chosen_links, search_blocks
from partwise.alignment.selection import Selection
from partwise.batch import Batch
from partwise.estimation.base import thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import LearnedEstimator
from partwise.estimation.outputs import Outputs, as_instances, as_list
from partwise.exceptions import ParameterError
from partwise.structures.base import Structure

__all__ = ["LinkPrediction"]

BLOCK_EDGES = 32_768  # possible links that a thread scores at a time in prediction
SEARCH_EDGES = 2048  # the same for a process that searches
PROCESS_PAIRS = 100  # fewer are searched in threads, before processes would have started


class LinkPrediction(LearnedEstimator):
    """argmax over alignments y of Σ_jk w·f(x_jk) y_jk, margins, and the reasons for a link, from trained weights."""

    exact: bool
    map_: FeatureMap
    generative_: GenerativeAligner
    selection_: Selection | None
    feature_names_: list[str]

    @property
    def _kind(self) -> str:
        """The model of the weights."""
        raise NotImplementedError

    def _space(self, space: Any) -> Structure:
        found: Structure = space if self.exact else space.relax()
        return found

    def _search(self, found: PartScores) -> list[list[Link]]:
        """The links of the pairs with these scores."""
        if self._kind == "L":
            return chosen_links(found.edges, found.scores > 0)
        return best_links(self._space(found.space), found.scores) if "Q" in self._kind else best_matchings(found)

    def _decode(self, parts: AlignmentFeatures, theta: Floats) -> list[list[Link]]:
        scores = Batch(parts.space, parts.features).scores(theta)
        return self._search(PartScores(parts.space, parts.edges, scores))

    def _each(self, X: Sequence[SentencePair], task: Callable[[PairReader, int, int], list[Any]]) -> list[Any]:
        """The results of ``task`` for every pair, block by block, so that memory does not grow with their number.

        Features and search of a block run in one thread, and other blocks in others.
        """
        check_is_fitted(self, "theta_")
        X = as_instances(X)
        check_pairs(X)
        spans, read = pair_blocks(X, BLOCK_EDGES), self.map_.reader(X)
        found: list[list[Any]] = [[] for _ in spans]

        def work_through(block: int, start: int, stop: int) -> None:
            found[block] = task(read, start, stop)

        Threads(thread_count(self.n_jobs)).each(work_through, [(block, *span) for block, span in enumerate(spans)])
        return [item for some in found for item in some]

    def predict(self, X: Sequence[SentencePair]) -> list[list[Link]]:
        """The links (j, k) of every pair, in order; those of the generative aligner if its own are no better."""
        check_is_fitted(self, "theta_")
        if self.selection_ is not None and not self.selection_.improves:
            result: list[list[Link]] = self.generative_.predict(X)
            return result
        jobs = thread_count(self.n_jobs)
        if "Q" not in self._kind or jobs == 1 or len(X) < PROCESS_PAIRS:
            return Outputs(self._each(X, lambda read, *span: self._search(read.scores(*span, self.theta_))))
        X = as_instances(X)
        check_pairs(X)
        read = self.map_.reader(X)
        blocks = (read.scores(*span, self.theta_) for span in pair_blocks(X, SEARCH_EDGES))
        return Outputs(search_blocks(((self._space(found.space), found.scores) for found in blocks), jobs))

    def predict_scores(self, X: Sequence[SentencePair]) -> list[Floats]:
        """s_jk of every possible link, one (J, K) matrix per pair: a positive one favours the link by itself."""

        def scores(read: PairReader, start: int, stop: int) -> list[Floats]:
            found = read.scores(start, stop, self.theta_)
            firsts = Batch(found.space).offsets[:-1]
            sizes = found.edges.lengths.tolist()
            return [
                found.scores[first : first + n * m].reshape(n, m) for first, (n, m) in zip(firsts, sizes, strict=True)
            ]

        return self._each(X, scores)

    def predict_margins(self, X: Sequence[SentencePair]) -> list[Floats]:
        """Best score with the link minus best score without it, (J, K) per pair: > 0 if it is predicted.

        How confident the model is, with all constraints taken into account. Takes one search per possible link; for M
        and M+F; in L the score is the margin.
        """
        if "Q" in self._kind:
            raise ParameterError("model", "predict_margins", "'L', 'M' or 'M+F'", self._kind)
        if self._kind == "L":
            return self.predict_scores(X)

        def margins(read: PairReader, start: int, stop: int) -> list[Floats]:
            space, _, scores = read.scores(start, stop, self.theta_)
            batch = Batch(space)
            return [link_margins(space, i, batch.of(i, scores)) for i in range(len(space))]

        return self._each(X, margins)

    def explain(self, pair: SentencePair, link: Link) -> LinkExplanation:
        """Why this link, or why not: weights times values of the features that favour it or count against it."""
        check_is_fitted(self, "theta_")
        parts = self.map_([pair])
        found = self._decode(parts, self.theta_)[0]
        return explain_link(parts, self.theta_, self.feature_names_, pair, (int(link[0]), int(link[1])), found)

    def score(self, X: Sequence[SentencePair], y: Sequence[Any]) -> float:
        """1 − AER, so that higher is better."""
        return 1.0 - alignment_scores(gold_links(as_instances(X), as_list(y)), self.predict(X)).aer

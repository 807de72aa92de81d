"""From sentence pairs to parts: the structure of an alignment model and the features of its links, words and pairs.

==========  =====================================  =======================================================
model       parts after the links                  structure
==========  =====================================  =======================================================
``L``       none                                   links one by one; the space below only lays out their scores
``M``       none                                   matching, eq. (3.1)
``M+F``     fertility of words                     matching with fertility, eq. (3.2)
``M+Q``     pairs of neighbouring links            quadratic assignment, eq. (3.3)
``M+F+Q``   both                                   both
==========  =====================================  =======================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.bitext import Bitext
from partwise.alignment.gold_lexicon import GoldLexicon
from partwise.alignment.known_words import KnownWords
from partwise.alignment.link_features import LinkFeatures, LinkSource, source_values
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, Floats, Ints, SentencePair, check_pairs
from partwise.alignment.word_features import fertility_features, pair_features, with_fertility_scores
from partwise.batch import Batch
from partwise.exceptions import ParameterError
from partwise.features.part_rows import PartFeatures
from partwise.structures.assignment import Assignment
from partwise.structures.matching import Matching

__all__ = [
    "ALIGNMENT_MODELS",
    "AlignmentFeatures",
    "FeatureMap",
    "PairReader",
    "PartScores",
    "alignment_space",
    "check_fertility",
    "fertility_of",
]

#: (fertility, pairs) of every model.
ALIGNMENT_MODELS = {
    "L": (False, False), "M": (False, False), "M+F": (True, False), "M+Q": (False, True), "M+F+Q": (True, True),
}  # fmt: skip


def check_fertility(model: str, max_fertility: Any) -> None:
    """Raise an error for a largest number of links of a word that the model cannot have."""
    least = 2 if ALIGNMENT_MODELS[model][0] else 1
    if isinstance(max_fertility, bool) or not isinstance(max_fertility, int | np.integer) or max_fertility < least:
        expected = f"an integer of at least {least} where the model is {model!r}"
        raise ParameterError("max_fertility", "WordAligner", expected, max_fertility)


def alignment_space(
    model: str, sizes: Any, max_fertility: int, *, allowed: Any = None, time_limit: float | None = None
) -> Any:
    """The output space of an alignment model: matchings, or assignments with pairs of links."""
    if ALIGNMENT_MODELS[model][1]:
        return Assignment(sizes, max_fertility=max_fertility, allowed=allowed, time_limit=time_limit)
    return Matching(sizes, max_fertility=max_fertility)


def fertility_of(model: str, max_fertility: int) -> int:
    """The largest number of links of a word in this model."""
    return max_fertility if ALIGNMENT_MODELS[model][0] else 1


@runtime_checkable
class Reading(Protocol):
    """A source that looks up the words of a text once and then gives the matrices of any run of its pairs."""

    def reader(self, pairs: Sequence[SentencePair]) -> Callable[[tuple[int, int]], Mapping[str, Sequence[Floats]]]:
        """(start, stop) → named matrices of these pairs."""


@dataclass(frozen=True)
class AlignmentFeatures:
    """The parts of some sentence pairs: structure, feature map, and what each weight means."""

    space: Matching | Assignment
    features: PartFeatures
    names: list[str]
    nonnegative: NDArray[np.bool_]  # (dim,) weights of penalties and bonuses
    edges: Edges


class PartScores(NamedTuple):
    """Scores of the parts of some sentence pairs, one pair after another, and their structure."""

    space: Matching | Assignment
    edges: Edges
    scores: Floats


@dataclass(frozen=True)
class FeatureMap:
    """How an aligner sees sentence pairs. Everything that was learned from data is in here except the weights.

    Parameters
    ----------
    model : a name in ``ALIGNMENT_MODELS``
    sources : functions of sentence pairs that return named matrices
    counts : (source, target) frequencies of words
    lexicon : (source, target) words with fertility penalties of their own
    max_fertility : largest number of links of a word where the model has fertility
    gold : counts of gold links, if they are features
    frequent : number of most frequent words of each side that have features of their own
    candidates : where the model has pairs of links, only links that some source gives at least this value may be
        used (the quadratic program grows with them); 0 for all
    """

    model: str
    sources: Sequence[LinkSource]
    counts: tuple[Mapping[str, int], Mapping[str, int]]
    lexicon: tuple[Sequence[str], Sequence[str]] = ((), ())
    max_fertility: int = 2
    frequent: int = 5
    candidates: float = 0.0
    time_limit: float | None = None
    gold: GoldLexicon | None = None

    def __post_init__(self) -> None:
        check_fertility(self.model, self.max_fertility)

    def __call__(
        self,
        pairs: Sequence[SentencePair],
        keep: Sequence[NDArray[np.int64]] | None = None,
        own: Sequence[GoldLinks] | None = None,
    ) -> AlignmentFeatures:
        """The parts of these pairs.

        ``keep``: links of each pair that stay candidates whatever the sources say; ``own``: gold links of these pairs
        if ``gold`` has counted them, so that no pair is described by its own.
        """
        return self.reader(pairs)(0, len(pairs), keep, own)

    def reader(self, pairs: Sequence[SentencePair]) -> PairReader:
        """The same for some of these pairs at a time; what is known of their words is looked up here, once."""
        if not isinstance(pairs, Bitext):
            check_pairs(pairs)
        text = Bitext.from_pairs(pairs)
        words = (text.source.vocab, text.target.vocab)
        known = KnownWords.of(words, self.counts, self.frequent, self.lexicon, self.gold)
        sources = [
            source.reader(text) if isinstance(source, Reading) else _called(source, pairs) for source in self.sources
        ]
        return PairReader(self, text, known, sources)

    def allowed(self, edges: Edges, values: Mapping[str, Floats], keep: Any) -> list[NDArray[np.bool_]] | None:
        """The links that the model may use, one mask per pair; None for all."""
        if self.candidates <= 0 or not values:
            return None
        best = np.max(np.stack(list(values.values())), axis=0) >= self.candidates
        masks = [
            best[a:b].reshape(shape)
            for a, b, shape in zip(edges.offsets, edges.offsets[1:], edges.lengths, strict=False)
        ]
        for mask, links in zip(masks, keep or (), strict=False):
            mask[links[:, 0], links[:, 1]] = True
        return masks


@dataclass(frozen=True)
class PairReader:
    """A feature map with the words of a text looked up; may be called in several threads."""

    map: FeatureMap
    text: Bitext
    words: KnownWords
    sources: Sequence[Callable[[tuple[int, int]], Mapping[str, Sequence[Floats]]]]

    def __call__(
        self,
        start: int,
        stop: int,
        keep: Sequence[NDArray[np.int64]] | None = None,
        own: Sequence[GoldLinks] | None = None,
    ) -> AlignmentFeatures:
        """The parts of the pairs from ``start`` to ``stop``."""
        links, depth = self._links(start, stop, own), self._depth
        fertile, quadratic = ALIGNMENT_MODELS[self.map.model]
        edges, values, names, x = links.edges, links.values, links.names, links.rows()
        blocks: list[tuple[Ints, Floats]] = [(edges.offsets, x)]
        if fertile:
            more, starts, rows = fertility_features(edges, values, self.words, depth)
            names, blocks = names + more, [*blocks, (starts, rows)]
        allowed = self.map.allowed(edges, values, keep) if quadratic else None
        space = alignment_space(self.map.model, edges.lengths, depth, allowed=allowed, time_limit=self.map.time_limit)
        if quadratic:
            first, second, pattern, starts = _pairs_of(space, edges)
            more, rows = pair_features(edges, values, first, second, pattern)
            names, blocks = names + more, [*blocks, (starts, rows)]
        features = PartFeatures(blocks)
        nonnegative = np.arange(features.dim) >= x.shape[1]
        return AlignmentFeatures(space, features, names, nonnegative, edges)

    def scores(self, start: int, stop: int, theta: Floats) -> PartScores:
        """F_iᵀθ of these pairs; in models without pairs of links no rows of links are kept."""
        if ALIGNMENT_MODELS[self.map.model][1]:
            parts = self(start, stop)
            return PartScores(parts.space, parts.edges, Batch(parts.space, parts.features).scores(theta))
        links = self._links(start, stop)
        edges, scores = links.edges, links.scores(theta)
        space = alignment_space(self.map.model, edges.lengths, self._depth)
        if ALIGNMENT_MODELS[self.map.model][0]:
            also = theta[len(links.names) :]
            scores = with_fertility_scores(scores, edges, links.values, self.words, self._depth, also)
        return PartScores(space, edges, scores)

    @property
    def _depth(self) -> int:
        return fertility_of(self.map.model, self.map.max_fertility)

    def _links(self, start: int, stop: int, own: Sequence[GoldLinks] | None = None) -> LinkFeatures:
        edges = Edges.of(self.text[start:stop])
        return LinkFeatures(edges, source_values((start, stop), edges, self.sources), self.words, own)


def _called(
    source: LinkSource, pairs: Sequence[SentencePair]
) -> Callable[[tuple[int, int]], Mapping[str, Sequence[Floats]]]:
    """A source that takes pairs, as one of (start, stop)."""
    return lambda span: source([pairs[i] for i in range(*span)])


def _pairs_of(space: Assignment, edges: Edges) -> tuple[Ints, Ints, Ints, Ints]:
    """(first edge, second edge, pattern, offsets) of all pair parts of all instances."""
    tables = [space.pair_links(i) for i in range(len(space))]
    starts = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
    kind, j, k, row, column = np.concatenate([np.zeros((0, 5), np.int64), *tables]).T
    owner = np.repeat(np.arange(len(tables)), np.diff(starts))
    base, width = edges.offsets[owner], edges.lengths[owner, 1]
    pattern = np.where((kind == 2) & (j != row), 3, kind)  # one to two words: on which side
    return base + j * width + k, base + row * width + column, pattern, starts

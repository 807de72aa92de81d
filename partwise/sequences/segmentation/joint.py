"""JointLabeler: tags and chunk tags of words at once, by beam search (Daumé & Marcu 2005, §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, Columns, encode
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.searched import SearchedEstimator
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.features.layout import RowLayout
from partwise.learners.laso.learner import PackedSearch
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.encoders import make_encoder, sequences_of
from partwise.sequences.segmentation._joint_kernels import (
    CLOSE_CONTEXTS,
    CONTEXTS,
    TAG_CONTEXTS,
    JointSearch,
    best_tags,
)
from partwise.sequences.segmentation._joint_templates import (
    CHUNK_TEMPLATES,
    FIRST_CHUNK_TEMPLATES,
    FIRST_TAG_TEMPLATES,
    TAG_TEMPLATES,
)
from partwise.sequences.segmentation.dictionary import TagDictionary, fold_of
from partwise.sequences.segmentation.guesses import FirstGuesses
from partwise.sequences.tags import legal_transitions
from partwise.sequences.tokens import token_accuracy
from partwise.sequences.weights import rows_from_state, rows_to_state

__all__ = ["JointLabeler"]

Floats = NDArray[np.float64]

#: What dictionaries say of a word: columns for the templates.
LOOKED_UP = ("seen", "lower", "stem", "forms", "role")


class JointLabeler(SearchedEstimator):
    """Tags and chunk tags of words, from the words alone, by a beam search trained with LaSO.

    ``fit`` takes sentences of words and (tags, chunk tags in IOB2). A state is a sentence tagged so far, an operator
    gives the next word a tag and a chunk tag, and I-X only follows B-X or I-X. Besides its form, what is known of a
    word comes from dictionaries of the training data. Two chains (CRFs) guess the tags and chunk tags of a sentence
    before the search begins, so that it knows what is likely to come. In training, a sentence is looked up in the
    dictionaries of the other folds and guessed by chains trained on them, so that words are as often unknown, and
    guesses as often wrong, as in new text.

    Parameters
    ----------
    tag_templates, chunk_templates : templates
        On the columns ``word``; ``usual`` (the usual tag of the word or of its ending), ``seen`` (all tags of the word,
        commonest first, with ``~`` if it is rare; ``?`` if unknown), ``lower`` (the same of the word in lower case),
        ``stem`` and ``forms`` (tags of known words that are this one with an ending less or more), ``role`` (the chunk
        tags of the word); and if there are guesses, ``pos`` and ``chunk`` (the guessed tags) and ``pos_odds`` and
        ``chunk_odds`` (all that are plausible, most probable first).
    frequent : int
        A word seen less often is rare: it may have every tag that rare words have.
    closed : int
        A word seen at least this often may only have the tags it was seen with; a rarer one may also have the tags of
        other words that share a tag with it.
    guesses : bool
        Whether chains guess first.
    folds : int
        Parts of the cross-validation.
    min_count : int
        Attributes seen less often are dropped.
    hash_bits : int
        The table of words with tags has 2^bits rows, that of histories 2^(bits + 4) weights.
    beam, update, mode, rivals, alpha, margin_scale, average
    max_passes, patience, learner_options, random_state, n_jobs, verbose
        As in :class:`~partwise.sequences.segmentation.search_labeler.SearchLabeler`.

    Examples
    --------
    >>> from partwise.sequences.sample import load_sample
    >>> train = load_sample("english", split="train")
    >>> model = JointLabeler(max_passes=3).fit(train.column("word"), (train.column("pos"), train.column("chunk")))
    >>> tags, chunks = model.predict([["The", "old", "harbour", "closed"]])
    >>> chunks
    [['B-NP', 'I-NP', 'I-NP', 'B-VP']]
    """

    kind = "joint-labeler"

    def __init__(
        self,
        *,
        tag_templates: str = TAG_TEMPLATES,
        chunk_templates: str = CHUNK_TEMPLATES,
        frequent: int = 4,
        closed: int = 50,
        guesses: bool = True,
        folds: int = 8,
        min_count: int = 1,
        hash_bits: int = 18,
        beam: int = 10,
        update: str = "alma",
        mode: str = "laso",
        rivals: str = "ahead",
        alpha: float = 0.9,
        margin_scale: float | None = 10.0,
        average: bool = True,
        max_passes: int = 15,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.tag_templates = tag_templates
        self.chunk_templates = chunk_templates
        self.frequent = frequent
        self.closed = closed
        self.guesses = guesses
        self.folds = folds
        self.min_count = min_count
        self.hash_bits = hash_bits
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
        if not self.frequent >= 1:
            raise ParameterError("frequent", "JointLabeler", "at least 1", self.frequent)
        if not self.closed >= 1:
            raise ParameterError("closed", "JointLabeler", "at least 1", self.closed)
        if not self.folds >= 2:
            raise ParameterError("folds", "JointLabeler", "at least 2", self.folds)
        if not 4 <= self.hash_bits <= 24:
            raise ParameterError("hash_bits", "JointLabeler", "from 4 to 24", self.hash_bits)
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        return self.training(X, y)

    def training(self, X: Any, y: tuple[Any, Any]) -> PackedSearch:
        """What the learner is to solve: fixes tags, words, attributes and the layout of θ; trains the chains."""
        words, tags, chunks = (encode(column) for column in (_words(X), *_both(y)))
        for name, column in (("tags", tags), ("chunk tags", chunks)):
            if not np.array_equal(column.offsets, words.offsets):
                raise InputError(f"the number of {name} differs from the number of words in some sentence")
        self.tags_, tag_codes = _sorted_codes(tags)
        self.chunks_, chunk_codes = _sorted_codes(chunks)
        both = (tag_codes, chunk_codes)
        self.dictionary_, self.roles_ = (TagDictionary.learn(words, codes, self.frequent) for codes in both)
        parts = fold_of(len(words.offsets) - 1, self.folds)
        columns = self._columns(words, self._other_folds(words, both, parts))
        if self.guesses:
            self.guesses_ = FirstGuesses((FIRST_TAG_TEMPLATES, FIRST_CHUNK_TEMPLATES))
            columns = self.guesses_.fit(columns, (tags, chunks), parts)
        self.encoders_ = [
            make_encoder(columns, text, None, self.min_count, None)
            for text in (self.tag_templates, self.chunk_templates)
        ]
        rows = [encoder.fit_transform(columns) for encoder in self.encoders_]
        matrices: list[Any] = [part.matrix for part in rows]
        self.layouts_ = [
            RowLayout.observed(matrices[0], tag_codes, len(self.tags_)),
            RowLayout.observed(matrices[1], chunk_codes, len(self.chunks_)),
        ]
        self.layouts_[1].base = self.layouts_[0].dim
        gold = tag_codes * len(self.chunks_) + chunk_codes
        return PackedSearch(self._search(words, columns, rows, gold), int(self._bases()[-1]), len(words.offsets) - 1)

    def _other_folds(
        self, words: CodedColumn, both: tuple[NDArray[np.int64], NDArray[np.int64]], parts: NDArray[np.int64]
    ) -> Iterable[tuple[Any, TagDictionary, TagDictionary]]:
        """(tokens of a fold, the two dictionaries of the other folds) for every fold."""
        tokens = np.repeat(parts, np.diff(words.offsets))
        for part in np.unique(parts):
            others = tokens != part
            tags, roles = (TagDictionary.learn(words, codes, self.frequent, others) for codes in both)
            yield ~others, tags, roles

    def _columns(self, words: CodedColumn, books: Iterable[tuple[Any, TagDictionary, TagDictionary]]) -> Columns:
        """Words and what dictionaries say of them, each of the tokens that it is for."""
        codes, names = words.codes, [*self.tags_, "?"]
        usual = np.empty(len(codes), np.int32)
        text = np.empty((len(LOOKED_UP), len(codes)), object)
        for inside, tags, roles in books:
            tag, values = np.empty(len(words.vocab), np.int32), np.empty((len(LOOKED_UP), len(words.vocab)), object)
            for code in np.unique(codes[inside]).tolist():
                word = words.vocab[code]
                tag[code] = tags.usual(word) % len(names)  # −1 is the last
                values[:, code] = (
                    tags.tag_class(word, names), tags.tag_class(word.lower(), names), tags.stem(word, names),
                    tags.forms(word, names), roles.tag_class(word, self.chunks_),
                )  # fmt: skip
            usual[inside] = tag[codes[inside]]
            text[:, inside] = values[:, codes[inside]]
        columns = {"word": words.to_lists(), "usual": CodedColumn(usual, names, words.offsets).to_lists()}
        for name, found in zip(LOOKED_UP, text.tolist(), strict=True):
            columns[name] = [found[start:stop] for start, stop in pairwise(words.offsets.tolist())]
        return Columns.from_sentences(columns)

    def _classes(self, columns: Columns) -> NDArray[np.int32]:
        """The guessed tag of every word, or the usual one if nothing was guessed."""
        number = {tag: code for code, tag in enumerate(self.tags_)}
        guess = columns.coded("pos" if self.guesses else "usual")
        return np.array([number.get(tag, len(self.tags_)) for tag in guess.vocab], np.int32)[guess.codes]

    def _bases(self) -> NDArray[np.int64]:
        """Where the weights of each context begin, and where the last ends; the order is that of ``contexts``."""
        n, c = len(self.tags_), len(self.chunks_)
        t1, c1, u = n + 1, c + 1, n + 2
        hashed = 1 << self.hash_bits
        rows = [n, n * u, n * u * u, hashed, 0, 0, c1, c1 * n, t1 * n, t1 * t1 * n, c1 * t1 * n, t1 * n * u, c1 * n * u,
                c1 * c1, c1 * c1 * n, t1 * t1, t1 * t1 * t1, c1 * c1 * n]  # fmt: skip
        sizes = [size * c for size in rows] + [1 << (self.hash_bits + 4)]
        bases = np.append(0, np.cumsum(sizes)).astype(np.int64) + self.layouts_[0].dim + self.layouts_[1].dim
        bases[4:6] = bases[3]  # one table for all words with tags
        return bases

    def _search(self, words: CodedColumn, columns: Columns, rows: list[Any], gold: NDArray[np.int64]) -> JointSearch:
        known = {word: number for number, word in enumerate(self.dictionary_.known())}
        lists = [self.dictionary_.allowed(word, self.closed) for word in known]
        lists.append(self.dictionary_.rare or list(range(len(self.tags_))))
        numbers = np.array([known.get(word, -1) for word in words.vocab], np.int32)
        packed: Any = [layout.pack(part.matrix) for layout, part in zip(self.layouts_, rows, strict=True)]
        number = numbers[words.codes]
        sizes = [int((np.diff(part.indptr) + np.diff(part.pair_indptr)).max(initial=0)) for part in packed]
        legal = legal_transitions(self.chunks_, "IOB2")
        kinds = sorted({tag[2:] for tag in self.chunks_})
        types = np.array([*(kinds.index(tag[2:]) for tag in self.chunks_), len(kinds)], np.int32)
        bases = self._bases()
        return JointSearch(
            words.offsets, packed[0], packed[1], bases[: CONTEXTS + 1], len(self.tags_) + 1,
            (1 << self.hash_bits) - 1, (1 << (self.hash_bits + 4)) - 1, self._classes(columns), number,
            np.where(number < 0, len(lists) - 1, number).astype(np.int32),
            np.append(0, np.cumsum([len(row) for row in lists])).astype(np.int64),
            np.concatenate([np.array(row, np.int32) for row in lists]),
            np.concatenate([legal.allowed, legal.start[None]]).astype(np.uint8),
            np.array([tag.startswith("I-") for tag in self.chunks_], np.uint8), types, gold,
            sum(sizes) + CONTEXTS + TAG_CONTEXTS + CLOSE_CONTEXTS,
        )  # fmt: skip

    # prediction

    def _decode(self, X: Any) -> Callable[[Floats, int], tuple[CodedColumn, CodedColumn]]:
        """(θ, beam) → (tags, chunk tags) of sentences that are encoded once."""
        words = encode(_words(X))
        columns = self._columns(words, [(slice(None), self.dictionary_, self.roles_)])
        if self.guesses:
            columns = self.guesses_.add(columns)
        rows = [encoder.transform(columns) for encoder in self.encoders_]
        search = self._search(words, columns, rows, np.zeros(0, np.int64))
        n = len(words.offsets) - 1

        def decode(theta: Floats, beam: int) -> tuple[CodedColumn, CodedColumn]:
            actions = np.empty(int(words.offsets[-1]), np.int64)
            failed = int(best_tags(search, theta, beam, 0, n, actions))
            if failed >= 0:
                raise InputError(f"no tags of sentence {failed} have a finite score")
            pair = actions // len(self.chunks_), actions % len(self.chunks_)
            names = self.tags_, self.chunks_
            return tuple(  # type: ignore[return-value]
                CodedColumn(codes.astype(np.int32), list(vocab), words.offsets)
                for codes, vocab in zip(pair, names, strict=True)
            )

        return decode

    def predict_coded(self, X: Any, beam: int | None = None) -> tuple[CodedColumn, CodedColumn]:
        """(tags, chunk tags) as numbers with their names; ``beam`` may differ from that of training."""
        check_is_fitted(self, "theta_")
        if not len(X):
            none = CodedColumn(np.zeros(0, np.int32), [], np.zeros(1, np.int64))
            return none, none
        return self._decode(X)(self.theta_, self.beam if beam is None else beam)

    def predict(self, X: Any) -> tuple[list[list[str]], list[list[str]]]:
        """(tags, chunk tags) of every sentence."""
        tags, chunks = self.predict_coded(X)
        return tags.to_lists(), chunks.to_lists()

    def score(self, X: Any, y: Any) -> float:
        """Chunk F1; a dev set is judged by the accuracy of the tags as well."""
        return chunk_scores(encode(_both(y)[1]), self.predict_coded(X)[1]).f1

    def _make_score(self, X: Any, y: Any) -> Callable[[Floats], float]:
        decode, truth = self._decode(X), [encode(column) for column in _both(y)]

        def score(theta: Floats) -> float:
            tags, chunks = decode(theta, self.beam)
            return token_accuracy(truth[0], tags) + chunk_scores(truth[1], chunks).f1

        return score

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header: dict[str, Any] = {
            "tags": self.tags_, "chunks": self.chunks_, "dictionary": self.dictionary_.to_state(),
            "roles": self.roles_.to_state(), "rows": [],
        }  # fmt: skip
        arrays: dict[str, NDArray[Any]] = {}
        if self.guesses:
            header["guesses"], arrays = self.guesses_.to_state()
        for k, (encoder, layout) in enumerate(zip(self.encoders_, self.layouts_, strict=True)):
            own, found = rows_to_state(encoder, layout)
            header["rows"].append(own)
            arrays |= {f"{k}/{name}": array for name, array in found.items()}
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.tags_, self.chunks_ = list(map(str, header["tags"])), list(map(str, header["chunks"]))
        self.dictionary_ = TagDictionary.from_state(header["dictionary"], self.frequent, len(self.tags_))
        self.roles_ = TagDictionary.from_state(header["roles"], self.frequent, len(self.chunks_))
        if self.guesses:
            templates = FIRST_TAG_TEMPLATES, FIRST_CHUNK_TEMPLATES
            self.guesses_ = FirstGuesses.from_state(header["guesses"], arrays, templates)
        self.encoders_, self.layouts_ = [], []
        for k, n_labels in enumerate((len(self.tags_), len(self.chunks_))):
            own = {name[2:]: array for name, array in arrays.items() if name.startswith(f"{k}/")}
            encoder, layout = rows_from_state(header["rows"][k], own, n_labels)
            self.encoders_.append(encoder)
            self.layouts_.append(layout)
        self.layouts_[1].base = self.layouts_[0].dim
        if len(self.theta_) != self._bases()[-1]:
            raise StorageError(f"theta has {len(self.theta_)} weights; expected {self._bases()[-1]}")


def _words(X: Any) -> Any:
    """The sentences of words; of columns, the one called word, or the only one."""
    X = sequences_of(X)
    return X.coded("word" if "word" in X.names else 0) if isinstance(X, Columns) else X


def _both(y: Any) -> Any:
    """(tags, chunk tags) of a pair, or of two columns, which a splitter can select sentences from."""
    y = sequences_of(y)
    if isinstance(y, Columns):
        if len(y.names) != 2:
            raise InputError(f"y has the columns {', '.join(y.names)}; expected two, of tags and of chunk tags")
        return y.coded(0), y.coded(1)
    return y


def _sorted_codes(column: CodedColumn) -> tuple[list[str], NDArray[np.int64]]:
    """(labels, codes) with the labels sorted."""
    order = sorted(range(len(column.vocab)), key=lambda j: column.vocab[j])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return [column.vocab[j] for j in order], rank[column.codes]

"""JointLabeler: tags and chunk tags of words at once, by beam search (Daumé & Marcu 2005, §4.2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
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
from partwise.sequences.segmentation._joint_kernels import CONTEXTS, TAG_CONTEXTS, JointSearch, best_tags
from partwise.sequences.tags import legal_transitions
from partwise.sequences.tokens import token_accuracy
from partwise.sequences.weights import rows_from_state, rows_to_state

__all__ = ["JointLabeler"]

Floats = NDArray[np.float64]

TAG_TEMPLATES = """\
bias
word[-2..2]
lower(word)[0]
word[-1..1 pairs]
prefix(word,1..4)[0]
suffix(word,1..5)[0]
suffix(word,2..3)[-1,1]
shape(word)[-1..1]
has_hyphen(word)[0]
has_digit(word)[0]
usual[-2..2]
usual[-1..1 pairs]
usual[-1..1 triples]
usual[1] usual[2]
word[0] usual[1]
word[0] usual[-1]
"""

CHUNK_TEMPLATES = """\
bias
word[-2..2]
lower(word)[-1..1]
word[-1..1 pairs]
suffix(word,1..3)[0]
prefix(word,1..3)[0]
shape(word)[-1..1]
usual[-2..3]
usual[-2..2 pairs]
usual[-2..2 triples]
usual[1] usual[2] usual[3]
word[0] usual[-1,1]
word[1] usual[0]
word[-1] usual[0]
"""


class JointLabeler(SearchedEstimator):
    """Tags and chunk tags of words, from the words alone, by a beam search that is trained as it goes (LaSO).

    ``fit`` takes sentences of words and (tags, chunk tags in IOB2). A state is a sentence tagged so far, an operator
    gives the next word a tag and a chunk tag, and I-X only follows B-X or I-X. What is known of a word beside its form
    comes from the training data: the tags it had there (the only ones it may have, if it was seen ``frequent`` times),
    and the most usual of them, or that of its suffix if it is rare.

    Parameters
    ----------
    tag_templates, chunk_templates : templates on columns ``word`` and ``usual`` (the usual tag)
    frequent : int
        A word seen less often is treated as unknown: it may have every tag that rare words have.
    hash_bits : int
        The table of words with tags has 2^bits rows.
    mode : str
        Updates of the largest violation by default: with them it learns faster here than by going on after an error
        (chosen on held-out sentences of CoNLL-2000).
    beam, update, alpha, average, max_passes, patience, learner_options, random_state, n_jobs, verbose
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
        hash_bits: int = 17,
        beam: int = 10,
        update: str = "alma",
        mode: str = "max_violation",
        alpha: float = 0.9,
        average: bool = True,
        max_passes: int = 10,
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.tag_templates = tag_templates
        self.chunk_templates = chunk_templates
        self.frequent = frequent
        self.hash_bits = hash_bits
        self.beam = beam
        self.update = update
        self.mode = mode
        self.alpha = alpha
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
        if not 4 <= self.hash_bits <= 24:
            raise ParameterError("hash_bits", "JointLabeler", "from 4 to 24", self.hash_bits)
        super().check_settings()

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        return self.training(X, y)

    def training(self, X: Any, y: tuple[Any, Any]) -> PackedSearch:
        """What the learner is to solve: fixes tags, words, attributes and the layout of θ."""
        words, tags, chunks = (encode(column) for column in (_words(X), *_both(y)))
        for name, column in (("tags", tags), ("chunk tags", chunks)):
            if not np.array_equal(column.offsets, words.offsets):
                raise InputError(f"the number of {name} differs from the number of words in some sentence")
        self.tags_, tag_codes = _sorted_codes(tags)
        self.chunks_, chunk_codes = _sorted_codes(chunks)
        self._learn_words(words, tag_codes)
        columns = self._columns(words)
        self.encoders_ = [
            make_encoder(columns, text, None, 1, None) for text in (self.tag_templates, self.chunk_templates)
        ]
        rows = [encoder.fit_transform(columns) for encoder in self.encoders_]
        matrices: list[Any] = [part.matrix for part in rows]
        self.layouts_ = [
            RowLayout.observed(matrices[0], tag_codes, len(self.tags_)),
            RowLayout.observed(matrices[1], chunk_codes, len(self.chunks_)),
        ]
        self.layouts_[1].base = self.layouts_[0].dim
        gold = tag_codes * len(self.chunks_) + chunk_codes
        return PackedSearch(self._search(words, rows, gold), int(self._bases()[-1]), len(words.offsets) - 1)

    def _learn_words(self, words: CodedColumn, tags: NDArray[np.int64]) -> None:
        """The tags of frequent words, of suffixes and of rare words."""
        seen: dict[str, Counter[int]] = defaultdict(Counter)
        suffixes: dict[str, Counter[int]] = defaultdict(Counter)
        for code, tag in zip(words.codes.tolist(), tags.tolist(), strict=True):
            seen[words.vocab[code]][tag] += 1
        rare: Counter[int] = Counter()
        for word, counts in seen.items():
            if sum(counts.values()) < self.frequent:
                rare.update(counts)
                suffixes[_ending(word)].update(counts)
        known = sorted(word for word, counts in seen.items() if sum(counts.values()) >= self.frequent)
        self.words_ = {word: number for number, word in enumerate(known)}
        self.usual_ = [max(seen[word], key=lambda tag, c=seen[word]: (c[tag], -tag)) for word in known]  # type: ignore[misc]
        self.endings_ = {end: max(c, key=lambda tag, c=c: (c[tag], -tag)) for end, c in suffixes.items()}  # type: ignore[misc]
        self.rare_ = sorted(rare) or list(range(len(self.tags_)))
        self.lists_ = [sorted(seen[word]) for word in known]

    def _known(self, words: CodedColumn) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(number, class) of every distinct word: −1 and the class of its ending if it is not frequent."""
        numbers = np.array([self.words_.get(word, -1) for word in words.vocab], np.int32)
        fallback = len(self.tags_)
        classes = [
            self.usual_[n] if n >= 0 else self.endings_.get(_ending(word), fallback)
            for n, word in zip(numbers.tolist(), words.vocab, strict=True)
        ]
        return numbers, np.array(classes, np.int32)

    def _columns(self, words: CodedColumn) -> Columns:
        _, classes = self._known(words)
        names = [*self.tags_, "?"]
        sentences = words.to_lists()
        usual = CodedColumn(classes[words.codes], names, words.offsets).to_lists()
        return Columns.from_sentences({"word": sentences, "usual": usual})

    def _bases(self) -> NDArray[np.int64]:
        """Where the weights of each context begin, and where the last ends; the order is that of ``contexts``."""
        n, c = len(self.tags_), len(self.chunks_)
        t1, c1, u = n + 1, c + 1, n + 2
        hashed = 1 << self.hash_bits
        rows = [n, c1, c1 * n, t1 * n, t1 * t1 * n, c1 * t1 * n, n * u, t1 * n * u, n * u * u, c1 * n * u,
                hashed, 0, 0]  # fmt: skip
        sizes = [size * c for size in rows] + [t1 * n, t1 * t1 * n, t1 * n * u]
        bases = np.append(0, np.cumsum(sizes)).astype(np.int64) + self.layouts_[0].dim + self.layouts_[1].dim
        bases[11:13] = bases[10]  # one table for all words with tags
        return bases

    def _search(self, words: CodedColumn, rows: list[Any], gold: NDArray[np.int64]) -> JointSearch:
        numbers, classes = self._known(words)
        packed: Any = [layout.pack(part.matrix) for layout, part in zip(self.layouts_, rows, strict=True)]
        lists = [*self.lists_, self.rare_]
        number = numbers[words.codes]
        sizes = [int((np.diff(part.indptr) + np.diff(part.pair_indptr)).max(initial=0)) for part in packed]
        legal = legal_transitions(self.chunks_, "IOB2")
        bases = self._bases()
        return JointSearch(
            words.offsets, packed[0], packed[1], bases[: CONTEXTS + TAG_CONTEXTS], len(self.tags_) + 1,
            (1 << self.hash_bits) - 1,
            classes[words.codes], number, np.where(number < 0, len(lists) - 1, number).astype(np.int32),
            np.append(0, np.cumsum([len(row) for row in lists])).astype(np.int64),
            np.concatenate([np.array(row, np.int32) for row in lists]),
            np.concatenate([legal.allowed, legal.start[None]]).astype(np.uint8), gold,
            sum(sizes) + CONTEXTS + TAG_CONTEXTS,
        )  # fmt: skip

    # prediction

    def _decode(self, X: Any) -> Callable[[Floats, int], tuple[CodedColumn, CodedColumn]]:
        """(θ, beam) → (tags, chunk tags) of sentences that are encoded once."""
        words = encode(_words(X))
        columns = self._columns(words)
        search = self._search(words, [encoder.transform(columns) for encoder in self.encoders_], np.zeros(0, np.int64))
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
            "tags": self.tags_, "chunks": self.chunks_, "words": list(self.words_), "usual": self.usual_,
            "endings": self.endings_, "rare": self.rare_, "lists": self.lists_, "rows": [],
        }  # fmt: skip
        arrays: dict[str, NDArray[Any]] = {}
        for k, (encoder, layout) in enumerate(zip(self.encoders_, self.layouts_, strict=True)):
            own, found = rows_to_state(encoder, layout)
            header["rows"].append(own)
            arrays |= {f"{k}/{name}": array for name, array in found.items()}
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.tags_, self.chunks_ = list(map(str, header["tags"])), list(map(str, header["chunks"]))
        self.words_ = {str(word): number for number, word in enumerate(header["words"])}
        self.usual_, self.rare_ = list(map(int, header["usual"])), list(map(int, header["rare"]))
        self.endings_ = {str(end): int(tag) for end, tag in header["endings"].items()}
        self.lists_ = [list(map(int, row)) for row in header["lists"]]
        named = [*self.usual_, *self.endings_.values(), *self.rare_, *(tag for row in self.lists_ for tag in row)]
        if any(not 0 <= tag < len(self.tags_) for tag in named) or not self.rare_ or not all(self.lists_):
            raise StorageError("a word has tags that the model does not know")
        if not len(self.words_) == len(self.usual_) == len(self.lists_):
            raise StorageError(f"{len(self.words_)} words have {len(self.usual_)} usual tags")
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


def _ending(word: str) -> str:
    """What stands for a rare word: its last three letters and whether it is capitalised or has digits."""
    kind = "d" if any(map(str.isdigit, word)) else "A" if word[:1].isupper() else "a"
    return kind + word[-3:].lower()


def _sorted_codes(column: CodedColumn) -> tuple[list[str], NDArray[np.int64]]:
    """(labels, codes) with the labels sorted."""
    order = sorted(range(len(column.vocab)), key=lambda j: column.vocab[j])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return [column.vocab[j] for j in order], rank[column.codes]

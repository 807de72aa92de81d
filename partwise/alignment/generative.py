"""Word alignment without gold links: IBM Models 1 and 2 and the HMM, both directions, trained by EM."""

from __future__ import annotations

import hashlib
import os
from contextlib import closing, nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.alignment._cooccurrence import (
    Cooccurrence,
    Corpus,
    Prepared,
    cooccurrence,
    count_cells,
    find_cells,
    pack_corpus,
)
from partwise.alignment._distributed import DistributedTraining
from partwise.alignment._expectation import Tables
from partwise.alignment._inference import pair_alignments, pair_matrices
from partwise.alignment._jumps import resized
from partwise.alignment._posteriors import margin_of, new_work
from partwise.alignment._schedule import JUMP_KEYS, TrainingCheckpoint, restored, run_plan, stored
from partwise.alignment._training import MODELS, Training, blocks_of_equal_size
from partwise.alignment._vocabulary import WordIndex
from partwise.alignment.associations import association
from partwise.alignment.bitext import Bitext
from partwise.alignment.gold import gold_links
from partwise.alignment.matrices import LinkMatrices, LinkPosteriors
from partwise.alignment.scores import alignment_scores
from partwise.alignment.symmetrisation import SYMMETRISATIONS, Link, symmetrise
from partwise.estimation.base import StoredModel, thread_count
from partwise.estimation.estimator import Estimator, check_is_fitted
from partwise.estimation.outputs import Outputs, as_instances, as_list
from partwise.exceptions import InputError, ParameterError, unknown_name
from partwise.progress import Progress
from partwise.storage import check_writable, pack_strings, unpack_strings

__all__ = ["GenerativeAligner"]

_UNSEEN = 1e-7  # probability of a translation that is in no table


class GenerativeAligner(Estimator, StoredModel):
    """p(f, a | e) = Π_j p(a_j | a_{j−1}, I)·p(f_j | e_{a_j}), and the same from f to e; trained by EM on plain pairs.

    Brown et al. (1993) for Models 1 and 2, Vogel, Ney and Tillmann (1996) and Och and Ney (2003) for the HMM,
    Liang, Taskar and Klein (2006) for agreement: the E-step counts a link by the product of the two directions'
    posteriors, which keeps the links that both find probable and roughly halves the error.

    Parameters
    ----------
    model : {"hmm", "model2", "model1"}
        Model 2 here has one weight for each distance from the diagonal, as the HMM has one for each jump.
    also : tuple of model names
        Other models to train on the way and to keep, as sources of features.
    iterations : int, or dict of model name to int
        Iterations of EM for each model. Model 2 and the HMM both start from the tables of Model 1.
    agree : bool
        Train Model 2 and the HMM in both directions together. Model 1 agrees only if it is the ``model`` itself.
    null_probability : float
        p0 of a word without a partner.
    max_jump : int
        Jumps (and distances from the diagonal) of this length and more share a weight on each side.
    prior : float
        Dirichlet prior of the translation tables (variational Bayes) if positive; 0 is maximum likelihood. Useful
        only without agreement: 0.01 keeps rare words from collecting whatever nothing else explains.
    lowercase : bool
        Compare words in lower case.
    max_length : int or None
        Pairs with a longer sentence are left out of training (``n_skipped_``), not of prediction.
    prune : float
        Forget translations below this probability in both directions and all kept models when training is done.
    symmetrise : str
        How :meth:`predict` joins the directions: "product" of posteriors ≥ ``threshold``, or a name of
        :func:`partwise.alignment.symmetrise`, applied to the links of each direction.
    threshold : float
        Smallest product of posteriors of a link; for the other methods, smallest posterior in each direction.
    viterbi : bool
        For the other methods: use the links of the best alignment of each direction instead of its posteriors.
    n_jobs : int or None
        Threads; −1 for all cores. The result does not depend on it.
    verbose : int

    Attributes
    ----------
    models_ : dict of model name to trained tables and jumps
    trace_ : list of dict
        Model, iteration, log-likelihoods per word of both directions before that iteration, seconds.

    Examples
    --------
    >>> pairs = [("the house".split(), "la maison".split()), ("the book".split(), "le livre".split()),
    ...          ("a house".split(), "une maison".split()), ("a book".split(), "un livre".split())]
    >>> aligner = GenerativeAligner(iterations=10).fit(pairs)
    >>> aligner.predict([("the book".split(), "le livre".split())])
    [[(0, 0), (1, 1)]]
    """

    kind: ClassVar[str] = "generative-aligner"

    def __init__(
        self,
        *,
        model: str = "hmm",
        also: tuple[str, ...] = (),
        iterations: int | dict[str, int] = 5,
        agree: bool = True,
        null_probability: float = 0.1,
        max_jump: int = 8,
        prior: float = 0.0,
        lowercase: bool = True,
        max_length: int | None = 100,
        prune: float = 1e-6,
        symmetrise: str = "product",
        threshold: float = 0.3,
        viterbi: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model, self.also, self.iterations, self.agree = model, also, iterations, agree
        self.null_probability, self.max_jump, self.prior = null_probability, max_jump, prior
        self.lowercase, self.max_length, self.prune = lowercase, max_length, prune
        self.symmetrise, self.threshold, self.viterbi = symmetrise, threshold, viterbi
        self.n_jobs, self.verbose = n_jobs, verbose

    def check_settings(self) -> None:
        """Raise ParameterError for a setting out of its range."""
        owner = type(self).__name__
        for name in (self.model, *self.also):
            if name not in MODELS:
                raise unknown_name("model", name, MODELS)
        for name, count in self._iterations().items():
            if name not in MODELS:
                raise unknown_name("iterations", name, MODELS)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ParameterError("iterations", owner, "positive integers", self.iterations)
        if self.symmetrise != "product" and self.symmetrise not in SYMMETRISATIONS:
            raise unknown_name("symmetrise", self.symmetrise, ("product", *SYMMETRISATIONS))
        ranges = (
            ("null_probability", 0 < self.null_probability < 1, "in (0, 1)"),
            ("threshold", 0 <= self.threshold <= 1, "in [0, 1]"),
            ("prune", 0 <= self.prune < 1, "in [0, 1)"),
            ("prior", self.prior >= 0, "0 or positive"),
            ("max_jump", isinstance(self.max_jump, int | np.integer) and self.max_jump >= 1, "a positive integer"),
            ("max_length", self.max_length is None or self.max_length >= 1, "None or a positive integer"),
        )
        for name, right, expected in ranges:
            if not right:
                raise ParameterError(name, owner, expected, getattr(self, name))

    def _iterations(self) -> dict[str, int]:
        if isinstance(self.iterations, dict):
            return {**dict.fromkeys(MODELS, 5), **self.iterations}
        return dict.fromkeys(MODELS, self.iterations)

    # ------------------------------------------------------------------ training

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, engine: Any = None
    ) -> Self:
        """Train on pairs of sentences.

        Parameters
        ----------
        X : Bitext, or pairs (source words, target words)
        checkpoint : path, optional
            Save the state there after every iteration; if it exists, continue from it.
        engine : dask.distributed.Client, its address, or "local"; optional
            Train on the workers of a cluster, which hold the tables in parts by source word; they are the same.
        """
        self.check_settings()
        if checkpoint is not None:
            check_writable(checkpoint)
        bitext = self._trainable(Bitext.from_pairs(as_instances(X)))
        self.source_, source = WordIndex.learn(bitext.source, self.lowercase)
        self.target_, target = WordIndex.learn(bitext.target, self.lowercase)
        self.n_pairs_ = len(bitext)
        corpus = pack_corpus(source, target)
        training = self._training(corpus, engine)
        plan = self._plan()
        keep = None if checkpoint is None else TrainingCheckpoint(checkpoint, self._fingerprint(corpus))
        steps = sum(count for _, count, _ in plan)
        with closing(training), Progress(steps, "alignment") if self.verbose else nullcontext() as progress:
            self.trace_ = run_plan(training, plan, keep, progress)
            wanted = [name for name, _, _ in plan if name in {self.model, *self.also}]
            self.table_, self.models_ = training.finish(wanted, self.prune)
        return self

    def _training(self, corpus: Corpus, engine: Any) -> Training | DistributedTraining:
        settings = {"reach": self.max_jump, "p0": self.null_probability, "prior": self.prior}
        sizes = len(self.target_), len(self.source_)
        if engine is not None:
            return DistributedTraining(corpus, sizes, engine=engine, **settings)
        table, cells = cooccurrence(corpus, sizes[1], sizes[0])
        return Training(corpus, table, cells, n_threads=thread_count(self.n_jobs), **settings)

    def _trainable(self, bitext: Bitext) -> Bitext:
        if self.max_length is not None and len(bitext):
            lengths = np.maximum(np.diff(bitext.source.offsets), np.diff(bitext.target.offsets))
            short = lengths <= self.max_length
            self.n_skipped_ = int((~short).sum())
            bitext = bitext.subset(short) if self.n_skipped_ else bitext
        else:
            self.n_skipped_ = 0
        if not len(bitext):
            raise InputError(f"no sentence pairs to train on ({self.n_skipped_} longer than {self.max_length} words)")
        return bitext

    def _plan(self) -> list[tuple[str, int, bool]]:
        """(model, iterations, agreement) in order; every model but the first starts from Model 1."""
        wanted = {self.model, *self.also}
        counts = self._iterations()
        plan = [("model1", counts["model1"], self.agree and self.model == "model1")]
        return plan + [(name, counts[name], self.agree) for name in ("model2", "hmm") if name in wanted]

    def _fingerprint(self, corpus: Corpus) -> str:
        skip = ("n_jobs", "verbose", "symmetrise", "threshold", "viterbi", "prune")
        params = {key: value for key, value in self.get_params().items() if key not in skip}
        digest = hashlib.blake2b(repr(sorted(params.items())).encode())
        for array in (corpus.source, corpus.target, corpus.source_offsets, corpus.target_offsets):
            digest.update(array.view(np.uint8).data)
        return digest.hexdigest()[:32]

    # ------------------------------------------------------------------ prediction

    def coded(self, X: Any) -> Bitext:
        """Pairs in the numbers of the words of training; −1 for others."""
        check_is_fitted(self, "models_")
        bitext = Bitext.from_pairs(as_instances(X))
        return Bitext(self.source_.recode(bitext.source), self.target_.recode(bitext.target))

    def prepared(self, coded: Bitext) -> Prepared:
        """What the methods below take in place of pairs: looked up once for all of them."""
        corpus = pack_corpus(coded.source, coded.target)
        cells = np.empty(int(corpus.cell_offsets[-1]), np.int32)
        find_cells(self.table_, corpus, cells)
        return Prepared(corpus, cells)

    def _prepare(self, X: Any) -> Prepared:
        return X if isinstance(X, Prepared) else self.prepared(self.coded(X))

    def _chosen(self, model: str | None) -> str:
        name = self.model if model is None else model
        if name not in self.models_:
            raise unknown_name("model", name, self.models_)
        return name

    def _run(self, function: Any, corpus: Corpus, cells: NDArray[np.int32], model: str | None, *out: Any) -> None:
        name = self._chosen(model)
        trained = self.models_[name]
        if len(corpus.source_offsets) == 1:
            return  # no pairs
        longest = int(max(np.diff(corpus.source_offsets).max(), np.diff(corpus.target_offsets).max()))
        jumps = [resized(side, longest) for side in trained.jumps]
        margin, largest = margin_of(self.max_jump), int(np.diff(corpus.cell_offsets).max())
        threads = thread_count(self.n_jobs)
        borders = blocks_of_equal_size(corpus.cell_offsets, threads)

        def work_through(block: int) -> None:
            work = [new_work(largest, longest, margin) for _ in range(2)]
            function(
                MODELS[name], corpus, cells, borders[block], borders[block + 1], trained.tables, *jumps,
                self.null_probability, _UNSEEN, margin, *work, *out,
            )  # fmt: skip

        Threads(threads).each(work_through, [(block,) for block in range(len(borders) - 1)])

    def posteriors(self, X: Any, model: str | None = None) -> LinkPosteriors:
        """p(a_j = i | e, f) and p(b_i = j | e, f) for all pairs; ``model`` is one of ``models_``."""
        corpus, cells = self._prepare(X)
        forward, backward = np.empty(len(cells), np.float32), np.empty(len(cells), np.float32)
        likelihood = np.zeros((len(corpus.source_offsets) - 1, 2))
        self._run(pair_matrices, corpus, cells, model, forward, backward, likelihood)
        offsets, columns = corpus.cell_offsets, np.diff(corpus.target_offsets)
        return LinkPosteriors(
            LinkMatrices(forward, offsets, columns), LinkMatrices(backward, offsets, columns), likelihood
        )

    def translations(self, X: Any, model: str | None = None) -> tuple[LinkMatrices, LinkMatrices]:
        """p(f_j | e_i) and p(e_i | f_j) from the tables for the words of all pairs; 0 where there is no entry."""
        corpus, cells = self._prepare(X)
        name = self._chosen(model)
        values = np.zeros((len(cells), 2), np.float32)
        known = cells >= 0  # none, where pruning left no entry at all
        values[known] = self.models_[name].tables.pairs[cells[known]]
        offsets, columns = corpus.cell_offsets, np.diff(corpus.target_offsets)
        forward, backward = (LinkMatrices(np.ascontiguousarray(values[:, k]), offsets, columns) for k in (0, 1))
        return forward, backward

    def associations(self, X: Any, measure: str = "dice") -> LinkMatrices:
        """Dice coefficients (or another measure of ``association``) of all pairs of words in all sentence pairs.

        Pairs of words that ``prune`` removed count as never together.
        """
        corpus, cells = self._prepare(X)
        together, source, target = np.zeros((3, len(cells)))
        count_cells(self.table_, corpus, cells, together, source, target)
        values = association(together, source, target, self.n_pairs_, measure).astype(np.float32)
        return LinkMatrices(values, corpus.cell_offsets, np.diff(corpus.target_offsets))

    def word_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """The number of training pairs in which each source and each target word occurs (in lower case, if
        ``lowercase``).
        """
        check_is_fitted(self, "models_")
        counts = (self.source_.words, self.table_.source_count), (self.target_.words, self.table_.target_count)
        source, target = (dict(zip(words, numbers.tolist(), strict=True)) for words, numbers in counts)
        return source, target

    def best_alignments(self, X: Any, model: str | None = None) -> list[tuple[list[Link], list[Link]]]:
        """The most probable alignment of each direction (Viterbi): links forward and backward for every pair."""
        corpus, cells = self._prepare(X)
        forward, backward = np.empty(len(corpus.target), np.int32), np.empty(len(corpus.source), np.int32)
        self._run(pair_alignments, corpus, cells, model, forward, backward)
        links = []
        for s in range(len(corpus.source_offsets) - 1):
            a = forward[corpus.target_offsets[s] : corpus.target_offsets[s + 1]].tolist()
            b = backward[corpus.source_offsets[s] : corpus.source_offsets[s + 1]].tolist()
            ahead = [(i, j) for j, i in enumerate(a) if i >= 0]
            links.append((ahead, [(i, j) for i, j in enumerate(b) if j >= 0]))
        return links

    def predict(self, X: Any, model: str | None = None) -> list[list[Link]]:
        """Links (source position, target position) of every pair, from 0, joined as ``symmetrise`` says."""
        self.check_settings()
        if self.viterbi and self.symmetrise != "product":
            return Outputs(symmetrise(*both, self.symmetrise) for both in self.best_alignments(X, model))
        found = self.posteriors(X, model)
        if self.symmetrise == "product":
            return Outputs(_links(matrix, self.threshold) for matrix in found.product)
        return Outputs(
            symmetrise(_links(a, self.threshold), _links(b, self.threshold), self.symmetrise)
            for a, b in zip(found.forward, found.backward, strict=True)
        )

    def score(self, X: Any, y: Any) -> float:
        """1 − AER against gold links, so that higher is better."""
        return 1.0 - alignment_scores(gold_links(as_instances(X), as_list(y)), self.predict(X)).aer

    def predict_scores(self, X: Any, model: str | None = None) -> LinkMatrices:
        """p(a_j = i)·p(b_i = j) of every possible link, one matrix per pair."""
        return self.posteriors(X, model).product

    # ------------------------------------------------------------------ storage

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self, "models_")
        params = {key: list(value) if isinstance(value, tuple) else value for key, value in self.get_params().items()}
        header = {"params": params, "pairs": self.n_pairs_, "skipped": self.n_skipped_, "trace": self.trace_}
        arrays: dict[str, NDArray[Any]] = {f"table_{key}": value for key, value in self.table_._asdict().items()}
        for side, index in (("source", self.source_), ("target", self.target_)):
            arrays[f"{side}_bytes"], arrays[f"{side}_offsets"] = pack_strings(index.words)
        for name, model in self.models_.items():
            tables, jumps = stored(model)
            for key, value in {**tables, **jumps}.items():
                arrays[f"{name}_{key}"] = value
        return {**header, "models": list(self.models_)}, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        params: dict[str, Any] = dict(header["params"])
        params["also"] = tuple(params["also"])
        self = cls(**params)
        self.n_pairs_, self.n_skipped_, self.trace_ = header["pairs"], header["skipped"], header["trace"]
        self.table_ = Cooccurrence(*(arrays[f"table_{key}"] for key in Cooccurrence._fields))
        for side in ("source", "target"):
            words = unpack_strings(arrays[f"{side}_bytes"], arrays[f"{side}_offsets"])
            setattr(self, f"{side}_", WordIndex(words, self.lowercase))
        self.models_ = {}
        for name in header["models"]:
            parts = [{key: arrays[f"{name}_{key}"] for key in keys} for keys in (Tables._fields, JUMP_KEYS)]
            self.models_[name] = restored(parts[0], parts[1], 1)
        return self


def _links(matrix: NDArray[np.float32], threshold: float) -> list[Link]:
    return [(int(i), int(j)) for i, j in np.argwhere(matrix >= threshold)]

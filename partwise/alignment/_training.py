"""One EM training: Model 1, then Model 2, then the HMM, both directions, each started from the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.alignment._cluster import block_counts, cut_pairs
from partwise.alignment._cooccurrence import Cooccurrence, Corpus
from partwise.alignment._expectation import Counts, Tables, expected_counts, maximise, maximise_null
from partwise.alignment._jumps import Jumps, fit_jumps, fit_starts, flat_jumps, weights_to_jumps
from partwise.alignment._posteriors import HMM, MODEL1, MODEL2, margin_of, new_work

__all__ = ["MODELS", "TrainedModel", "Training", "blocks_of_equal_size"]

MODELS = {"model1": MODEL1, "model2": MODEL2, "hmm": HMM}

#: Pairs are summed in this many blocks, whatever the number of threads: results do not depend on it.
BLOCKS = 4


@dataclass
class TrainedModel:
    """Translation tables and jump weights of one model; ``jumps`` is (forward, backward)."""

    tables: Tables
    jumps: tuple[Jumps, Jumps]

    def copy(self) -> TrainedModel:
        return TrainedModel(Tables(*(x.copy() for x in self.tables)), self.jumps)


def blocks_of_equal_size(cell_offsets: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Borders of n runs of pairs with about equally many cells."""
    total = cell_offsets[-1]
    inner = np.searchsorted(cell_offsets, total * np.arange(1, n) / n)
    return np.unique(np.concatenate([[0], inner, [len(cell_offsets) - 1]])).astype(np.int64)


class Training:
    """EM on one corpus. ``step`` is one iteration; ``current`` is the model it has reached."""

    def __init__(
        self,
        corpus: Corpus,
        cooccurrence: Cooccurrence,
        cells: NDArray[np.int32],
        *,
        reach: int,
        p0: float,
        prior: float,
        n_threads: int,
        engine: Any = None,
    ) -> None:
        self.corpus, self.cooccurrence, self.cells = corpus, cooccurrence, cells
        self.reach, self.p0, self.prior, self.n_threads = reach, p0, prior, n_threads
        lengths = np.diff(corpus.source_offsets), np.diff(corpus.target_offsets)
        self.longest = int(max(x.max() for x in lengths))
        self.margin = margin_of(reach)
        largest = int(np.diff(corpus.cell_offsets).max())
        self.borders = blocks_of_equal_size(corpus.cell_offsets, BLOCKS)
        self._sizes = len(cooccurrence.target_count), len(cooccurrence.source_count)
        entries, blocks = len(cooccurrence.columns), len(self.borders) - 1
        self._pairs = np.zeros((blocks, entries, 2))
        self._counts = [self._new_counts(self._pairs[b]) for b in range(blocks)]
        threads = min(n_threads, blocks)
        self._free = [[new_work(largest, self.longest, self.margin) for _ in range(2)] for _ in range(threads)]
        self._threads = Threads(threads)
        self._runner: Any = None
        if engine is not None:
            from partwise.cluster.engine import ClusterRunner

            shapes = tuple(part.shape for part in self._counts[0][1:])
            parts, self._entries = cut_pairs(corpus, cells, entries, self.borders, shapes, self.longest, self.margin)
            self._runner = ClusterRunner(engine, parts)
            del self.cells, self._free  # the blocks have taken them over
        self.model = ""
        self.current = self._start()

    def _start(self) -> TrainedModel:
        """Uniform translation tables, from which Model 1 finds the only maximum of its likelihood."""
        n_target, n_source = self._sizes
        pairs = np.empty((len(self.cooccurrence.columns), 2), np.float32)
        pairs[:, 0], pairs[:, 1] = 1.0 / n_target, 1.0 / n_source
        null = (np.full(size, 1.0 / size, np.float32) for size in self._sizes)
        flat = flat_jumps(self.reach, self.longest)
        return TrainedModel(Tables(pairs, *null), (flat, flat))

    def _new_counts(self, pairs: NDArray[np.float64]) -> Counts:
        longest, reach = self.longest, self.reach
        n_target, n_source = self._sizes
        shapes = (n_target,), (n_source,), (2, 2 * reach + 1), (2, longest, longest), (2, longest + 1, reach + 1), (2,)
        return Counts(pairs, *(np.zeros(shape) for shape in shapes))

    def begin(self, model: str) -> None:
        """Continue with ``model``: the translation tables stay, the jumps start flat."""
        self.model = model
        flat = flat_jumps(self.reach, self.longest)
        self.current = TrainedModel(self.current.tables, (flat, flat))

    def step(self, agree: bool) -> NDArray[np.float64]:
        """One iteration of EM; returns the two log-likelihoods of the model *before* it."""
        model, current = MODELS[self.model], self.current
        if self._runner is not None:
            return self._step_elsewhere(agree)

        def work_through(block: int) -> None:
            work = self._free.pop()
            try:
                expected_counts(
                    model, agree, self.corpus, self.cells, self.borders[block], self.borders[block + 1],
                    current.tables, *current.jumps, self.p0, self.margin, *work, self._counts[block],
                )  # fmt: skip
            finally:
                self._free.append(work)

        self._threads.each(work_through, [(block,) for block in range(len(self._counts))])
        return self._maximise()

    def _step_elsewhere(self, agree: bool) -> NDArray[np.float64]:
        """The same, with the expected counts of every block from a worker."""
        tables = self.current.tables
        common = (MODELS[self.model], agree, tables.null_target, tables.null_source, self.current.jumps, self.p0)
        found = self._runner.each(block_counts, common, [tables.pairs[used] for used in self._entries])
        for mine, used, theirs in zip(self._counts, self._entries, found, strict=True):
            mine.pairs[used] = theirs[0]
            for part, counted in zip(mine[1:], theirs[1:], strict=True):
                part[...] = counted
        return self._maximise()

    def close(self) -> None:
        """Release the workers, if there are any."""
        if self._runner is not None:
            self._runner.close()

    def _maximise(self) -> NDArray[np.float64]:
        current = self.current
        rest: list[Any] = []
        for parts in list(zip(*self._counts, strict=True))[1:]:
            rest.append(np.sum(parts, axis=0))
            for part in parts:
                part[...] = 0.0
        null_target, null_source, jumps, windows, starts, likelihood = rest
        totals = np.zeros(self._sizes[1]), np.zeros((self._sizes[0], 2))
        maximise(self.cooccurrence.rows, self.cooccurrence.columns, self._pairs, self.prior, current.tables, *totals)
        maximise_null(null_target, current.tables.null_target)
        maximise_null(null_source, current.tables.null_source)
        if self.model != "model1":
            fitted = []
            for side, old in enumerate(current.jumps):
                weights = fit_jumps(jumps[side], windows[side], old.weights.astype(np.float64))
                begin = fit_starts(starts[side], old.starts.astype(np.float64))
                fitted.append(weights_to_jumps(weights, begin, self.longest))
            self.current = TrainedModel(current.tables, (fitted[0], fitted[1]))
        result: NDArray[np.float64] = likelihood
        return result

"""One EM training: Model 1, then Model 2, then the HMM, both directions, each started from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.alignment._cooccurrence import Cooccurrence, Corpus
from partwise.alignment._expectation import Counts, Tables, add_up, expected_counts, maximise, maximise_null
from partwise.alignment._jumps import Jumps, fit_jumps, fit_starts, flat_jumps, weights_to_jumps
from partwise.alignment._posteriors import HMM, MODEL1, MODEL2, margin_of, new_work

__all__ = ["MODELS", "Maximisation", "TrainedModel", "Training", "blocks_of_equal_size", "pruned", "uniform"]

MODELS = {"model1": MODEL1, "model2": MODEL2, "hmm": HMM}

#: Pairs are summed in this many blocks, whatever the number of threads: results do not depend on it.
BLOCKS = 4
#: So are the rows of the table, by the source word.
PARTS = 8
#: A word that stands with n words, counted again and again, stands with about n^POWER different ones (Heaps 1978).
POWER = 0.65


@dataclass
class TrainedModel:
    """Translation tables and jump weights of one model; ``jumps`` is (forward, backward)."""

    tables: Tables
    jumps: tuple[Jumps, Jumps]

    def copy(self) -> TrainedModel:
        return TrainedModel(Tables(*(x.copy() for x in self.tables)), self.jumps)


def blocks_of_equal_size(cell_offsets: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Borders of n runs of pairs with about equally many cells."""
    total = cell_offsets[-1]
    inner = np.searchsorted(cell_offsets, total * np.arange(1, n) / n)
    return np.unique(np.concatenate([[0], inner, [len(cell_offsets) - 1]])).astype(np.int64)


def parts_of_source(corpus: Corpus, n_source: int) -> NDArray[np.int64]:
    """Borders of the parts of the table: runs of source words with about equally many entries.

    Nobody has counted the entries where that is asked; it depends on nothing but the text.
    """
    partners = np.repeat(np.diff(corpus.target_offsets), np.diff(corpus.source_offsets))
    size = np.bincount(corpus.source, weights=partners, minlength=n_source) ** POWER
    return blocks_of_equal_size(np.concatenate([[0.0], np.cumsum(size)]), PARTS)


def uniform(n: int, sizes: tuple[int, int]) -> NDArray[np.float32]:
    """n entries from which Model 1 finds the only maximum of its likelihood."""
    pairs = np.empty((n, 2), np.float32)
    pairs[:, 0], pairs[:, 1] = 1.0 / sizes[0], 1.0 / sizes[1]
    return pairs


def pruned(
    rows: NDArray[np.int64], entries: Sequence[NDArray[Any]], models: Sequence[NDArray[np.float32]], least: float
) -> tuple[NDArray[np.int64], list[NDArray[Any]], list[NDArray[np.float32]]]:
    """Rows, other arrays of entries and the tables of models without the entries that no model translates by."""
    if least <= 0:
        return rows, list(entries), list(models)
    keep = np.zeros(int(rows[-1]), bool)
    for pairs in models:
        keep |= (pairs >= least).any(axis=1)
    before = np.concatenate([[0], np.cumsum(keep)])
    return before[rows], [array[keep] for array in entries], [pairs[keep] for pairs in models]


class Maximisation:
    """What EM keeps besides the entries of the table: NULL words and jumps, and how they follow from counts."""

    def __init__(self, corpus: Corpus, sizes: tuple[int, int], *, reach: int, p0: float, prior: float) -> None:
        self.corpus, self.sizes = corpus, sizes  # of the vocabularies: target, source
        self.reach, self.p0, self.prior = reach, p0, prior
        lengths = np.diff(corpus.source_offsets), np.diff(corpus.target_offsets)
        self.longest = int(max(x.max() for x in lengths))
        self.margin = margin_of(reach)
        self.borders = blocks_of_equal_size(corpus.cell_offsets, BLOCKS)
        self.parts = parts_of_source(corpus, sizes[1])
        self.model = ""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of all counts but those of the entries."""
        longest, reach = self.longest, self.reach
        n_target, n_source = self.sizes
        return (n_target,), (n_source,), (2, 2 * reach + 1), (2, longest, longest), (2, longest + 1, reach + 1), (2,)

    def flat(self) -> tuple[Jumps, Jumps]:
        """Jumps to begin with."""
        jumps = flat_jumps(self.reach, self.longest)
        return jumps, jumps

    def even_nulls(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Words without a partner to begin with: all alike."""
        n_target, n_source = self.sizes
        return np.full(n_target, 1.0 / n_target, np.float32), np.full(n_source, 1.0 / n_source, np.float32)

    def fitted(self, jumps: tuple[Jumps, Jumps], counts: Sequence[Sequence[NDArray[np.float64]]]) -> tuple[Any, ...]:
        """(null_target, null_source, new jumps, log-likelihoods) of the counts of all blocks but those of entries."""
        rest: list[Any] = [np.sum(parts, axis=0) for parts in zip(*counts, strict=True)]
        null_target, null_source, distances, windows, starts, likelihood = rest
        nulls = self.even_nulls()
        for counted, table in zip((null_target, null_source), nulls, strict=True):
            maximise_null(counted, table)
        if self.model != "model1":
            sides = []
            for side, old in enumerate(jumps):
                weights = fit_jumps(distances[side], windows[side], old.weights.astype(np.float64))
                begin = fit_starts(starts[side], old.starts.astype(np.float64))
                sides.append(weights_to_jumps(weights, begin, self.longest))
            jumps = sides[0], sides[1]
        return *nulls, jumps, likelihood


class Training(Maximisation):
    """EM on one corpus in this process. ``step`` is one iteration; ``current`` is the model it has reached."""

    def __init__(
        self,
        corpus: Corpus,
        cooccurrence: Cooccurrence,
        cells: NDArray[np.int32],
        *,
        n_threads: int,
        **settings: Any,
    ) -> None:
        sizes = len(cooccurrence.target_count), len(cooccurrence.source_count)
        super().__init__(corpus, sizes, **settings)
        self.cooccurrence, self.cells = cooccurrence, cells
        largest = int(np.diff(corpus.cell_offsets).max())
        blocks, entries = len(self.borders) - 1, len(cooccurrence.columns)
        self._pairs = np.zeros((blocks, entries, 2))
        self._counts = [Counts(pairs, *map(np.zeros, self.shapes)) for pairs in self._pairs]
        threads = min(n_threads, blocks)
        self._free = [[new_work(largest, self.longest, self.margin) for _ in range(2)] for _ in range(threads)]
        self._threads = Threads(threads)
        self.current = TrainedModel(Tables(uniform(entries, sizes), *self.even_nulls()), self.flat())
        self.kept: dict[str, TrainedModel] = {}

    def begin(self, model: str, start: str | None = None) -> None:
        """Continue with ``model``, from the translation tables there are or a kept model's; the jumps start flat."""
        self.model = model
        tables = self.current.tables if start is None else self.kept[start].copy().tables
        self.current = TrainedModel(tables, self.flat())

    def resume(self, model: str, kept: dict[str, TrainedModel], current: TrainedModel) -> None:
        """Continue from what a checkpoint holds."""
        self.model, self.kept, self.current = model, kept, current

    def keep(self, name: str) -> None:
        """Remember the model reached under that name; the next one begins from a kept one."""
        self.kept[name] = self.current

    def state(self) -> tuple[dict[str, TrainedModel], TrainedModel]:
        """Kept models and the present one."""
        return self.kept, self.current

    def step(self, agree: bool) -> NDArray[np.float64]:
        """One iteration of EM; returns the two log-likelihoods of the model *before* it."""
        model, current = MODELS[self.model], self.current

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

    def _maximise(self) -> NDArray[np.float64]:
        tables, jumps = self.current.tables, self.current.jumps
        rows, columns = self.cooccurrence.rows, self.cooccurrence.columns
        *nulls, jumps, likelihood = self.fitted(jumps, [counts[1:] for counts in self._counts])
        for counts in self._counts:
            for part in counts[1:]:
                part[...] = 0.0
        by_source, by_target = np.zeros(self.sizes[1]), np.zeros((self.sizes[0], 2))
        for a, b in pairwise(self.parts):  # sums of sums, as on a cluster, where every part is somewhere else
            by_part = np.zeros_like(by_target)
            add_up(rows[a : b + 1], columns, self._pairs, by_source[a:b], by_part)
            by_target += by_part
        maximise(rows, columns, self._pairs[0], self.prior, by_source, by_target, tables.pairs)
        self.current = TrainedModel(Tables(tables.pairs, *nulls), jumps)
        result: NDArray[np.float64] = likelihood
        return result

    def finish(self, wanted: Sequence[str], least: float) -> tuple[Cooccurrence, dict[str, TrainedModel]]:
        """The table and the models wanted, without translations below ``least`` in all of them."""
        table, models = self.cooccurrence, {name: self.kept[name] for name in wanted}
        pairs = [model.tables.pairs for model in models.values()]
        rows, (columns, together), found = pruned(table.rows, (table.columns, table.together), pairs, least)
        for model, left in zip(models.values(), found, strict=True):
            model.tables = model.tables._replace(pairs=left)
        return table._replace(rows=rows, columns=columns, together=together), models

    def close(self) -> None:
        """Nothing is held elsewhere."""

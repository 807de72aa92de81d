"""Expected counts on a cluster: every worker keeps blocks of sentence pairs and gets the probabilities of their cells.

The blocks are those that threads share on one machine, and their counts are added in the same order, so that the tables
come out with the same bits. A block knows only the entries of the table that its pairs use: their probabilities travel
to it, their expected counts back.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.alignment._cooccurrence import Corpus
from partwise.alignment._expectation import Counts, Tables, expected_counts
from partwise.alignment._posteriors import new_work

__all__ = ["PairBlock", "block_counts", "cut_pairs"]


@dataclass(frozen=True)
class PairBlock:
    """Some sentence pairs; cells hold places in ``entries``, which are those of the whole table."""

    corpus: Corpus
    cells: NDArray[np.int32]
    n_entries: int
    shapes: tuple[tuple[int, ...], ...]  # of all counts but those of the entries
    longest: int
    margin: int

    def open(self, n_threads: int) -> PairBlock:
        return self

    @property
    def size(self) -> str:
        return f"{len(self.corpus.source_offsets) - 1} sentence pairs"

    @property
    def smaller(self) -> str:
        return "take more memory per worker: the number of groups of sentence pairs is fixed"

    def digest(self) -> bytes:
        return self.corpus.source.tobytes() + self.corpus.target.tobytes()


def cut_pairs(
    corpus: Corpus, cells: NDArray[np.int32], n_entries: int, borders: NDArray[np.int64], shapes: Any, longest: int,
    margin: int,
) -> tuple[list[PairBlock], list[NDArray[np.int64]]]:  # fmt: skip
    """The blocks between the borders, and the entries of the table that each uses.

    ``cells`` is the largest array there is: blocks take it over, and what it held is no longer in it.
    """
    blocks, entries = [], []
    there = np.zeros(n_entries, bool)
    for a, b in pairwise(borders):
        e0, e1, f0, f1 = *corpus.source_offsets[[a, b]], *corpus.target_offsets[[a, b]]
        c0, c1 = corpus.cell_offsets[[a, b]]
        there[:] = False
        there[cells[c0:c1]] = True
        used = np.flatnonzero(there)
        local = cells[c0:c1]
        local[:] = (np.cumsum(there, dtype=np.int32) - 1)[local]
        part = Corpus(
            corpus.source[e0:e1],
            corpus.target[f0:f1],
            corpus.source_offsets[a : b + 1] - e0,
            corpus.target_offsets[a : b + 1] - f0,
            corpus.cell_offsets[a : b + 1] - c0,
        )
        blocks.append(PairBlock(part, local, len(used), shapes, longest, margin))
        entries.append(used)
    return blocks, entries


def block_counts(block: PairBlock, memory: dict[str, Any], common: Any, pairs: NDArray[np.float32]) -> Counts:
    """The expected counts of a block; ``pairs`` are the probabilities of its entries."""
    model, agree, null_target, null_source, jumps, p0 = common
    if "work" not in memory:
        largest = int(np.diff(block.corpus.cell_offsets).max())
        memory["work"] = [new_work(largest, block.longest, block.margin) for _ in range(2)]
    counts = Counts(np.zeros((block.n_entries, 2)), *(np.zeros(shape) for shape in block.shapes))
    tables = Tables(np.array(pairs), np.array(null_target), np.array(null_source))  # what comes by wire is read-only
    sides = [type(side)(*(np.array(x) if isinstance(x, np.ndarray) else x for x in side)) for side in jumps]
    expected_counts(
        model, agree, block.corpus, block.cells, 0, len(block.corpus.source_offsets) - 1, tables, *sides, p0,
        block.margin, *memory["work"], counts,
    )  # fmt: skip
    return counts

"""Tables partitioned by source word: what blocks of sentence pairs and parts of the table do on workers of a cluster.

A part holds the rows of some source words: which words they stand with, and p(f | e) and p(e | f). A block holds
sentence pairs and knows only the entries that stand in them. In an iteration, parts send every block the probabilities
of its entries, blocks send every part the expected counts of its entries, and a part computes new probabilities where
it is. For p(e | f) that takes the sums over all source words: a number per target word, which goes through the client.

Blocks are those that threads share on one machine, and counts and sums are added up in the same order as there, so that
the tables come out with the same bits. A task says by a number which state it builds on; if a worker has another one,
or none, because it is not the one that computed it, the answer is :data:`~partwise.cluster.shards.GONE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.alignment._cooccurrence import Corpus, cooccurrence
from partwise.alignment._expectation import Counts, Tables, add_up, expected_counts, maximise
from partwise.alignment._posteriors import new_work
from partwise.alignment._training import pruned, uniform
from partwise.cluster.shards import GONE

__all__ = ["PairBlock", "TablePart"]

Memory = dict[str, Any]


@dataclass(frozen=True)
class PairBlock:
    """Some sentence pairs."""

    corpus: Corpus
    parts: NDArray[np.int64]  # borders between the source words of the parts
    n_target: int
    shapes: tuple[tuple[int, ...], ...]  # of all counts but those of the entries
    longest: int
    margin: int

    def open(self, n_threads: int) -> PairBlock:
        mine = Corpus._make(np.array(array) for array in self.corpus)  # what comes by wire is read-only
        return PairBlock(mine, np.array(self.parts), self.n_target, self.shapes, self.longest, self.margin)

    @property
    def size(self) -> str:
        return f"{len(self.corpus.source_offsets) - 1} sentence pairs"

    @property
    def smaller(self) -> str:
        return "take more memory per worker: the number of groups of sentence pairs is fixed"

    def digest(self) -> bytes:
        return self.corpus.source.tobytes() + self.corpus.target.tobytes()


@dataclass(frozen=True)
class TablePart:
    """The rows of the source words first:last."""

    first: int
    last: int
    sizes: tuple[int, int]  # of the vocabularies: target, source

    def open(self, n_threads: int) -> TablePart:
        return self

    @property
    def size(self) -> str:
        return f"the rows of {self.last - self.first} source words"

    @property
    def smaller(self) -> str:
        return "take more memory per worker: the number of parts of the table is fixed"

    def digest(self) -> bytes:
        return b""


# Which words stand together: once, from blocks to parts


def send_entries(block: PairBlock, memory: Memory, common: Any) -> list[Any]:
    """(entries per row, target words, number of pairs) of the entries of every part."""
    table, cells = cooccurrence(block.corpus, int(block.parts[-1]), block.n_target)
    memory["borders"], memory["words"] = table.rows[block.parts], (table.source_count, table.target_count)
    memory["cells"] = cells
    lengths = np.diff(table.rows).astype(np.int32)
    return [
        (lengths[a:b], table.columns[c:d], table.together[c:d])
        for (a, b), (c, d) in zip(pairwise(block.parts), pairwise(memory["borders"]), strict=True)
    ]


def merge_entries(part: TablePart, memory: Memory, common: Any, messages: Sequence[Any]) -> int:
    """The rows of all blocks together; returns the number of entries. ``places`` are those of the blocks' entries."""
    lengths, columns, together = (list(arrays) for arrays in zip(*messages, strict=True))
    offsets = np.concatenate([[0], np.cumsum([len(array) for array in columns])])
    rows = np.array([[0, *np.cumsum(length, dtype=np.int64)] for length in lengths]) + offsets[:-1, None]
    into = [np.empty(part.last - part.first + 1, np.int64), *(np.empty(offsets[-1], np.int32) for _ in range(3))]
    n = _merge(rows, np.concatenate(columns), np.concatenate(together), *into)
    memory["rows"], memory["columns"], memory["together"] = into[0], into[1][:n].copy(), into[2][:n].copy()
    memory["places"] = [into[3][a:b] for a, b in pairwise(offsets)]
    return int(n)


@kernel
def _merge(begins, columns, together, rows, merged, total, places):
    """Join sorted rows, of which those of block b are begins[b, e]:begins[b, e + 1]; returns the number of entries."""
    at = np.empty(begins.shape[0], np.int64)
    n = 0
    rows[0] = 0
    for e in range(rows.shape[0] - 1):
        at[:] = begins[:, e]
        while True:
            least = -1
            for b in range(at.shape[0]):
                if at[b] < begins[b, e + 1] and (least < 0 or columns[at[b]] < least):
                    least = columns[at[b]]
            if least < 0:
                break
            merged[n], total[n] = least, 0
            for b in range(at.shape[0]):
                if at[b] < begins[b, e + 1] and columns[at[b]] == least:
                    total[n] += together[at[b]]
                    places[at[b]] = n
                    at[b] += 1
            n += 1
        rows[e + 1] = n
    return n


def word_counts(block: PairBlock, memory: Memory, common: Any, own: Any) -> Any:
    """The numbers of sentence pairs with each source word, and with each target word."""
    return memory.get("words", GONE)


# One iteration: probabilities to blocks, counts to parts, new tables


def send_rows(part: TablePart, memory: Memory, common: Any) -> Any:
    """The probabilities of every block's entries."""
    version, pairs = memory.get("table", (None, None))
    return [pairs[places] for places in memory["places"]] if version == common[0] else GONE


def count_links(block: PairBlock, memory: Memory, common: Any, messages: Sequence[Any]) -> Any:
    """The E-step: keeps the expected counts of the entries and returns all others."""
    version, model, agree, null_target, null_source, jumps, p0 = common
    if "cells" not in memory:
        return GONE
    memory.pop("counts", None)
    if "work" not in memory:
        largest = int(np.diff(block.corpus.cell_offsets).max())
        memory["work"] = [new_work(largest, block.longest, block.margin) for _ in range(2)]
    tables = Tables(np.concatenate(messages), np.array(null_target), np.array(null_source))
    sides = [type(side)(*map(np.array, side)) for side in jumps]
    counts = Counts(np.zeros((len(tables.pairs), 2)), *map(np.zeros, block.shapes))
    expected_counts(
        model, agree, block.corpus, memory["cells"], 0, len(block.corpus.source_offsets) - 1, tables, *sides, p0,
        block.margin, *memory["work"], counts,
    )  # fmt: skip
    memory["counts"] = version, counts.pairs
    return counts[1:]


def send_counts(block: PairBlock, memory: Memory, common: Any) -> Any:
    """The expected counts of every part's entries."""
    version, counts = memory.get("counts", (None, None))
    return [counts[a:b] for a, b in pairwise(memory["borders"])] if version == common else GONE


def add_counts(part: TablePart, memory: Memory, common: Any, messages: Sequence[Any]) -> Any:
    """Keeps the counts of all blocks and their sums over target words; returns the sums over source words."""
    if "places" not in memory:
        return GONE
    counts = np.zeros((len(memory["columns"]), 2))
    for places, found in zip(memory["places"], messages, strict=True):
        counts[places] += found
    by_source, by_target = np.zeros(part.last - part.first), np.zeros((part.sizes[0], 2))
    add_up(memory["rows"], memory["columns"], counts[None], by_source, by_target)
    memory["sums"] = common, counts, by_source
    return by_target


def new_table(part: TablePart, memory: Memory, common: Any, own: Any) -> Any:
    """The M-step, from the counts kept and the sums over all source words."""
    version, prior, by_target = common
    if memory.get("table", (None,))[0] == version + 1:
        return None  # asked again
    known, counts, by_source = memory.pop("sums", (None, None, None))
    if known != version:
        return GONE
    pairs = np.empty((len(counts), 2), np.float32)
    maximise(memory["rows"], memory["columns"], counts, prior, by_source, np.array(by_target), pairs)
    memory["table"] = version + 1, pairs
    return None


# Tables in and out


def load_tables(part: TablePart, memory: Memory, version: int, own: Any) -> Any:
    """Begin with a table and with kept ones; uniform where there is None."""
    if "columns" not in memory:
        return GONE
    pairs, kept = own
    memory["kept"] = {name: np.array(table) for name, table in kept.items()}
    memory["table"] = version, uniform(len(memory["columns"]), part.sizes) if pairs is None else np.array(pairs)
    return None


def keep_table(part: TablePart, memory: Memory, common: Any, own: Any) -> Any:
    """Remember the present table under a name; what follows is a new one."""
    name, version = common
    known, pairs = memory.get("table", (None, None))
    if known != version:
        return GONE
    memory["kept"][name] = pairs
    return None


def take_up(part: TablePart, memory: Memory, common: Any, own: Any) -> Any:
    """Continue with a kept table."""
    name, version = common
    if name not in memory.get("kept", ()):
        return GONE
    memory["table"] = version, memory["kept"][name]
    return None


def fetch_table(part: TablePart, memory: Memory, common: Any, own: Any) -> Any:
    """The present table, of that version, or a kept one, by its name."""
    if isinstance(common, str):
        return memory.get("kept", {}).get(common, GONE)
    version, pairs = memory.get("table", (None, None))
    return pairs if version == common else GONE


def collect(part: TablePart, memory: Memory, common: Any, own: Any) -> Any:
    """(rows, [target words, numbers of pairs], tables of models) without what none of them translates by."""
    names, least = common
    kept = memory.get("kept", {})
    if any(name not in kept for name in names):
        return GONE
    return pruned(memory["rows"], (memory["columns"], memory["together"]), [kept[name] for name in names], least)

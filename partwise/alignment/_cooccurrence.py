"""Which words occur together: one sparse table of (e, f) pairs for both directions and all models.

Row e of the table lists the words f that stand in a sentence pair with e, in order. Both directions share it:
entry k holds p(f | e) and p(e | f) side by side, so that one access to memory serves both. ``cells`` says for
every pair of positions (i, j) of every training pair which entry it is: four bytes per cell, and no search in any pass
over the corpus.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.data.columns import CodedColumn

__all__ = ["Cooccurrence", "Corpus", "Prepared", "count_cells", "find_cells", "pack_corpus"]


class Corpus(NamedTuple):
    """Sentence pairs as the kernels see them."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    source_offsets: NDArray[np.int64]  # (n + 1,)
    target_offsets: NDArray[np.int64]  # (n + 1,)
    cell_offsets: NDArray[np.int64]  # (n + 1,): pair s has the cells I·J from here, target position fastest


class Prepared(NamedTuple):
    """Pairs in the numbers of a trained table, and which entry of it every cell is."""

    corpus: Corpus
    cells: NDArray[np.int32]


class Cooccurrence(NamedTuple):
    """The pairs (e, f) that stand in some sentence pair together, row by row."""

    rows: NDArray[np.int64]  # (|E| + 1,)
    columns: NDArray[np.int32]  # (entries,), ascending in each row
    together: NDArray[np.int32]  # (entries,): number of sentence pairs with both
    source_count: NDArray[np.int32]  # (|E|,): number of sentence pairs with e
    target_count: NDArray[np.int32]  # (|F|,)


def pack_corpus(source: CodedColumn, target: CodedColumn) -> Corpus:
    """The arrays of two parallel sides, with the offsets of the cells of each pair."""
    cells = np.diff(source.offsets) * np.diff(target.offsets)
    return Corpus(
        np.ascontiguousarray(source.codes, np.int32),
        np.ascontiguousarray(target.codes, np.int32),
        np.ascontiguousarray(source.offsets, np.int64),
        np.ascontiguousarray(target.offsets, np.int64),
        np.concatenate([[0], np.cumsum(cells)]).astype(np.int64),
    )


def cooccurrence(corpus: Corpus, n_source: int, n_target: int) -> tuple[Cooccurrence, NDArray[np.int32]]:
    """The table of a corpus, and the entry of each cell. Takes three passes over the cells."""
    token_sentence = np.repeat(
        np.arange(len(corpus.source_offsets) - 1, dtype=np.int32), np.diff(corpus.source_offsets)
    )
    order = np.argsort(corpus.source, kind="stable").astype(np.int32 if len(token_sentence) < 2**31 else np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(corpus.source, minlength=n_source))]).astype(np.int64)
    cells = np.empty(int(corpus.cell_offsets[-1]), np.int32)
    rows = np.zeros(n_source + 1, np.int64)
    counts = (np.zeros(n_source, np.int32), np.zeros(n_target, np.int32))
    columns, together = _build(corpus, order, starts, token_sentence, n_target, rows, cells, *counts)
    return Cooccurrence(rows, columns, together, *counts), cells


@kernel
def _grown(array, size):
    larger = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def _build(corpus, order, starts, token_sentence, n_target, rows, cells, source_count, target_count):
    """Fill rows, cells and counts; return the columns and the joint counts.

    For one e after the other: mark the words f of the sentences that hold e, number them in order, then write
    those numbers into the cells. The marks stay in the cache, and only short rows are sorted.
    """
    columns = np.empty(max(16, corpus.target.shape[0]), np.int32)
    together = np.empty(columns.shape[0], np.int32)
    marked = np.full(n_target, -1, np.int32)  # the e that marked f last
    counted = np.full(n_target, -1, np.int32)  # the sentence that f was counted in last, for this e
    joint = np.zeros(n_target, np.int32)
    number = np.zeros(n_target, np.int32)
    found = np.empty(n_target, np.int32)
    n = 0
    for e in range(rows.shape[0] - 1):
        n_found, last = 0, -1
        for o in range(starts[e], starts[e + 1]):
            s = token_sentence[order[o]]
            if s == last:
                continue
            last = s
            source_count[e] += 1
            for t in range(corpus.target_offsets[s], corpus.target_offsets[s + 1]):
                f = corpus.target[t]
                if marked[f] != e:
                    marked[f] = e
                    joint[f] = 0
                    counted[f] = -1
                    found[n_found] = f
                    n_found += 1
                if counted[f] != s:
                    counted[f] = s
                    joint[f] += 1
        if n + n_found > columns.shape[0]:
            columns = _grown(columns, n + n_found)
            together = _grown(together, n + n_found)
        if 16 * n_found > n_target:
            n_found = 0
            for f in range(n_target):
                if marked[f] == e:
                    found[n_found] = f
                    n_found += 1
        else:
            found[:n_found].sort()
        for k in range(n_found):
            f = found[k]
            number[f] = n + k
            columns[n + k] = f
            together[n + k] = joint[f]
        for o in range(starts[e], starts[e + 1]):
            s = token_sentence[order[o]]
            begin, end = corpus.target_offsets[s], corpus.target_offsets[s + 1]
            at = corpus.cell_offsets[s] + (order[o] - corpus.source_offsets[s]) * (end - begin)
            for t in range(begin, end):
                cells[at + t - begin] = number[corpus.target[t]]
        n += n_found
        rows[e + 1] = n
    counted[:] = -1
    for s in range(corpus.target_offsets.shape[0] - 1):
        for t in range(corpus.target_offsets[s], corpus.target_offsets[s + 1]):
            f = corpus.target[t]
            if counted[f] != s:
                counted[f] = s
                target_count[f] += 1
    return columns[:n].copy(), together[:n].copy()


@kernel
def find_cells(table, corpus, cells):
    """cells ← the entry of each pair of positions, by binary search; −1 where the table has none.

    Codes of −1 are unknown words.
    """
    for s in range(corpus.source_offsets.shape[0] - 1):
        at = corpus.cell_offsets[s]
        for p in range(corpus.source_offsets[s], corpus.source_offsets[s + 1]):
            e = corpus.source[p]
            for t in range(corpus.target_offsets[s], corpus.target_offsets[s + 1]):
                f = corpus.target[t]
                entry = -1
                if e >= 0 and f >= 0:
                    low, high = table.rows[e], table.rows[e + 1]
                    while low < high:
                        middle = (low + high) >> 1
                        if table.columns[middle] < f:
                            low = middle + 1
                        else:
                            high = middle
                    if low < table.rows[e + 1] and table.columns[low] == f:
                        entry = low
                cells[at] = entry
                at += 1


@kernel
def count_cells(table, corpus, cells, together, source, target):
    """The numbers of sentence pairs with both words of each cell, with the one and with the other; 0 stays."""
    for s in range(corpus.source_offsets.shape[0] - 1):
        at = corpus.cell_offsets[s]
        for p in range(corpus.source_offsets[s], corpus.source_offsets[s + 1]):
            e = corpus.source[p]
            for t in range(corpus.target_offsets[s], corpus.target_offsets[s + 1]):
                f = corpus.target[t]
                if cells[at] >= 0:
                    together[at] = table.together[cells[at]]
                if e >= 0:
                    source[at] = table.source_count[e]
                if f >= 0:
                    target[at] = table.target_count[f]
                at += 1

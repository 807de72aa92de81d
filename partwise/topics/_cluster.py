"""Approximate distributed Gibbs sampling: every group of documents sweeps against its own copy of the counts.

A group does not see the topics that others draw. Afterwards m ← m + Σ_g (m_g − m), so that counts are those of the
topics again (Newman et al. 2009). The less that happens between two such sums, the closer the sampler is to the exact
one: there are several in a sweep, each after a part of the documents of every group. Groups and parts are fixed by the
data alone: who sweeps which changes nothing. Topics travel with every part, so that a worker keeps nothing but words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from partwise._random import named_stream
from partwise.cluster.shards import add_to, sparse

from ._gibbs import joint_sweep, lda_sweep
from ._parallel import blocks_of
from .corpus import MISSING, Corpus

__all__ = ["GROUPS", "DistributedSweeps", "Documents"]

#: Of documents, whatever the number of workers; and how often in a sweep their counts are added up.
GROUPS = 8
PARTS = 4


@dataclass(frozen=True)
class Documents:
    """The words of one group of documents."""

    number: int
    words: np.ndarray
    offsets: np.ndarray

    def open(self, n_threads: int) -> Documents:
        return Documents(self.number, np.array(self.words), np.array(self.offsets))

    @property
    def size(self) -> str:
        return f"{len(self.words)} tokens"

    @property
    def smaller(self) -> str:
        return "take more memory per worker: the number of groups of documents is fixed"

    def digest(self) -> bytes:
        return self.words.tobytes() + self.offsets.tobytes()


class DistributedSweeps:
    """Sweeps over one corpus by the workers of a cluster; used as a context."""

    def __init__(self, engine: Any, corpus: Corpus) -> None:
        from partwise.cluster.engine import ClusterRunner

        groups: list[Documents] = []
        self._parts: list[list[_Part]] = [[] for _ in range(PARTS)]
        for number, members in enumerate(part for part in blocks_of(corpus.lengths, GROUPS) if len(part)):
            first, last = int(members[0]), int(members[-1]) + 1
            here = slice(int(corpus.offsets[first]), int(corpus.offsets[last]))
            offsets = corpus.offsets[first : last + 1] - corpus.offsets[first]
            groups.append(Documents(number, corpus.words[here], offsets))
            cuts = [len(members) * k // PARTS for k in range(PARTS + 1)]
            for part, (a, b) in zip(self._parts, pairwise(cuts), strict=True):
                tokens = slice(*map(int, corpus.offsets[[first + a, first + b]]))
                part.append(_Part((a, b), slice(first + a, first + b), tokens))
        self._runner = ClusterRunner(engine, groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._runner.close()

    def lda(self, topics: np.ndarray, table: np.ndarray, common: tuple[Any, ...]) -> np.ndarray:
        """One sweep of LDA: new topics and counts, in place; returns the totals of the counts."""
        return self._sweep(sweep_lda, table, common, (topics,), lambda part: (topics[part.tokens],))

    def joint(
        self, z: np.ndarray, u: np.ndarray, labels: np.ndarray, table: np.ndarray, common: tuple[Any, ...]
    ) -> np.ndarray:
        """One sweep of DiscLDA over the documents with a class, likewise."""

        def own(part: _Part) -> tuple[np.ndarray, ...]:
            return z[part.tokens], u[part.tokens], labels[part.documents]

        return self._sweep(sweep_joint, table, common, (z, u), own)

    def _sweep(
        self, task: Callable[..., Any], table: np.ndarray, common: tuple[Any, ...], arrays: tuple[np.ndarray, ...],
        own: Callable[[_Part], tuple[np.ndarray, ...]],
    ) -> np.ndarray:  # fmt: skip
        flat, (totals, *settings) = table.reshape(-1), common
        for number, parts in enumerate(self._parts):
            given = [(part.members, *own(part)) for part in parts]
            found = self._runner.each(task, (number, flat, totals, *settings), given)
            for part, (drawn, change) in zip(parts, found, strict=True):
                for array, new in zip(arrays, drawn, strict=True):
                    array[part.tokens] = new
                add_to(flat, change)  # whole numbers, so that the order does not matter
            totals = table.sum(axis=0, dtype=np.float64).astype(np.int64)
        result: np.ndarray = totals
        return result


class _Part(NamedTuple):
    """Some documents of a group: their numbers in it, a:b, and where they and their tokens are in the corpus."""

    members: tuple[int, int]
    documents: slice
    tokens: slice


def _cell(group: Documents, members: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, words) of some documents of a group."""
    offsets = group.offsets[members[0] : members[1] + 1]
    return offsets - offsets[0], group.words[offsets[0] : offsets[-1]]


def _stream(seed: int, sweep: int, group: Documents, part: int) -> np.uint64:
    return named_stream(seed, sweep, group.number * PARTS + part)


def sweep_lda(group: Documents, memory: dict[str, Any], common: Any, own: Any) -> tuple[Any, Any]:
    """((new topics,), change of the flat counts) of one part of a group."""
    part, table, totals, alpha, beta, n_topics, seed, sweep = common
    members, topics = own
    offsets, words = _cell(group, members)
    counts, drawn = np.array(table), np.array(topics)
    cell = (np.arange(len(offsets) - 1), offsets, offsets[:-1], offsets[1:], words)
    state = (drawn, counts, np.array(totals))  # what arrives from elsewhere may not be written to
    lda_sweep(*cell, *state, np.array(alpha), beta, n_topics, _stream(seed, sweep, group, part))
    counts -= table
    return (drawn,), sparse(counts)


def sweep_joint(group: Documents, memory: dict[str, Any], common: Any, own: Any) -> tuple[Any, Any]:
    """((new z, new u), change of the flat counts) of one part of a group."""
    part, table, totals, alpha, beta, support, seed, sweep = common
    members, *arrays = own
    counts, z, u, labels = np.array(table), *map(np.array, arrays)
    joint_sweep(
        np.flatnonzero(labels != MISSING), *_cell(group, members), labels, z, u, counts, np.array(totals),
        np.array(alpha), beta, *map(np.array, support), _stream(seed, sweep, group, part),
    )  # fmt: skip
    counts -= table
    return (z, u), sparse(counts)

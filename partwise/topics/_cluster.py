"""Approximate distributed Gibbs sampling: every group of documents sweeps against its own copy of the counts.

Within a sweep a group does not see the topics that others draw. Afterwards m ← m + Σ_g (m_g − m), so that counts are
those of the topics again (Newman et al. 2009). The groups are fixed by the data alone: who sweeps which changes
nothing. Topics travel with every sweep, so that a worker keeps nothing but words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from partwise._random import named_stream
from partwise.cluster.shards import add_to, sparse

from ._gibbs import joint_sweep, lda_sweep
from ._parallel import blocks_of
from .corpus import MISSING, Corpus

__all__ = ["GROUPS", "DistributedSweeps", "Documents"]

#: Of documents, whatever the number of workers.
GROUPS = 8


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

        groups, self._tokens, self._documents = [], [], []
        for number, members in enumerate(part for part in blocks_of(corpus.lengths, GROUPS) if len(part)):
            first, last = int(members[0]), int(members[-1]) + 1
            here = slice(int(corpus.offsets[first]), int(corpus.offsets[last]))
            offsets = corpus.offsets[first : last + 1] - corpus.offsets[first]
            groups.append(Documents(number, corpus.words[here], offsets))
            self._tokens.append(here)
            self._documents.append(slice(first, last))
        self._runner = ClusterRunner(engine, groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._runner.close()

    def lda(self, topics: np.ndarray, table: np.ndarray, common: tuple[Any, ...]) -> np.ndarray:
        """One sweep of LDA: new topics and counts, in place; returns the totals of the counts."""
        return self._sweep(sweep_lda, table, common, (topics,), [(topics[here],) for here in self._tokens])

    def joint(
        self, z: np.ndarray, u: np.ndarray, labels: np.ndarray, table: np.ndarray, common: tuple[Any, ...]
    ) -> np.ndarray:
        """One sweep of DiscLDA over the documents with a class, likewise."""
        places = zip(self._tokens, self._documents, strict=True)
        return self._sweep(sweep_joint, table, common, (z, u), [(z[a], u[a], labels[b]) for a, b in places])

    def _sweep(
        self, task: Callable[..., Any], table: np.ndarray, common: tuple[Any, ...], arrays: tuple[np.ndarray, ...],
        own: list[Any],
    ) -> np.ndarray:  # fmt: skip
        flat = table.reshape(-1)
        found = self._runner.each(task, (flat, *common), own)
        for here, (drawn, change) in zip(self._tokens, found, strict=True):
            for array, new in zip(arrays, drawn, strict=True):
                array[here] = new
            add_to(flat, change)  # whole numbers, so that the order does not matter
        return table.sum(axis=0, dtype=np.float64).astype(np.int64)


def sweep_lda(group: Documents, memory: dict[str, Any], common: Any, own: Any) -> tuple[Any, Any]:
    """((new topics,), change of the flat counts) of one group."""
    table, totals, alpha, beta, n_topics, seed, sweep = common
    counts, drawn = np.array(table), np.array(own[0])
    offsets, members = group.offsets, np.arange(len(group.offsets) - 1)
    cell = (members, offsets, offsets[:-1], offsets[1:], group.words)
    state = (drawn, counts, np.array(totals))  # what arrives from elsewhere may not be written to
    lda_sweep(*cell, *state, np.array(alpha), beta, n_topics, named_stream(seed, sweep, group.number))
    counts -= table
    return (drawn,), sparse(counts)


def sweep_joint(group: Documents, memory: dict[str, Any], common: Any, own: Any) -> tuple[Any, Any]:
    """((new z, new u), change of the flat counts) of one group."""
    table, totals, alpha, beta, support, seed, sweep = common
    counts, z, u, labels = np.array(table), *map(np.array, own)
    joint_sweep(
        np.flatnonzero(labels != MISSING), group.offsets, group.words, labels, z, u, counts, np.array(totals),
        np.array(alpha), beta, *map(np.array, support), named_stream(seed, sweep, group.number),
    )  # fmt: skip
    counts -= table
    return (z, u), sparse(counts)

"""Approximate distributed LDA: every group of documents sweeps against its own copy of the counts (Newman et al. 2009).

Within a sweep a group does not see the topics that others draw. Afterwards m ← m + Σ_g (m_g − m), so that counts are
those of the topics again. The groups are fixed by the data alone: who sweeps which changes nothing. Topics travel with
every sweep, so that a worker keeps nothing but words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise._random import named_stream
from partwise.cluster.shards import dense, sparse

from ._gibbs import lda_sweep
from ._parallel import blocks_of
from .corpus import Corpus

__all__ = ["GROUPS", "Documents", "cut_documents", "sweep_documents"]

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

    def digest(self) -> bytes:
        return self.words.tobytes() + self.offsets.tobytes()


def cut_documents(corpus: Corpus) -> tuple[list[Documents], list[slice]]:
    """The groups, and where the tokens of each are."""
    groups, places = [], []
    for number, members in enumerate(part for part in blocks_of(corpus.lengths, GROUPS) if len(part)):
        first, last = corpus.offsets[members[0]], corpus.offsets[members[-1] + 1]
        offsets = corpus.offsets[members[0] : members[-1] + 2] - first
        groups.append(Documents(number, corpus.words[first:last], offsets))
        places.append(slice(int(first), int(last)))
    return groups, places


def sweep_documents(group: Documents, memory: dict[str, Any], common: Any, topics: Any) -> tuple[Any, Any]:
    """(new topics, change of the flat counts) of one group."""
    table, totals, alpha, beta, n_topics, seed, sweep = common
    own, drawn = np.array(table), np.array(topics)
    members = np.arange(len(group.offsets) - 1)
    start = named_stream(seed, sweep, group.number)
    lda_sweep(
        members, group.offsets, group.offsets[:-1], group.offsets[1:], group.words, drawn, own, np.array(totals),
        np.array(alpha), beta, n_topics, start,
    )  # fmt: skip
    own -= table
    return drawn, sparse(own.astype(np.float64))


def added(table: np.ndarray, changes: list[Any]) -> None:
    """m ← m + Σ_g (m_g − m), in place; whole numbers, so that the order does not matter."""
    for change in changes:
        table += dense(change).astype(np.float32)

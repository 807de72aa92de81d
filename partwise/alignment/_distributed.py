"""EM with blocks of sentence pairs and parts of the table on the workers of a cluster; see :mod:`._cluster`.

Here are only NULL words, jumps and sums. What a worker takes with it when it dies is computed again: the iterations
since the last table that this process has seen, that of the last checkpoint if there are any, are gone through again.
They depend on nothing but the data, and end with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.alignment import _cluster as tasks
from partwise.alignment._cooccurrence import Cooccurrence, Corpus
from partwise.alignment._expectation import Tables
from partwise.alignment._training import MODELS, Maximisation, TrainedModel
from partwise.cluster.shards import StateLostError
from partwise.exceptions import ClusterError

__all__ = ["DistributedTraining"]

#: How often in a row tables may be lost while they are computed again.
ATTEMPTS = 6
_NOWHERE = np.zeros((0, 2), np.float32)


class _Seen(NamedTuple):
    """What this process has seen of the tables: where to begin again."""

    model: str
    kept: dict[str, TrainedModel]
    current: TrainedModel | None  # None: a uniform table


class DistributedTraining(Maximisation):
    """EM on one corpus by the workers of a cluster; as :class:`~._training.Training`, and with the same results."""

    def __init__(self, corpus: Corpus, sizes: tuple[int, int], *, engine: Any, **settings: Any) -> None:
        from partwise.cluster import engine as cluster

        super().__init__(corpus, sizes, **settings)
        blocks = [
            tasks.PairBlock(_between(corpus, a, b), self.parts, sizes[0], self.shapes, self.longest, self.margin)
            for a, b in pairwise(self.borders)
        ]
        parts = [tasks.TablePart(int(a), int(b), sizes) for a, b in pairwise(self.parts)]
        self._blocks, self._parts = range(len(blocks)), range(len(blocks), len(blocks) + len(parts))
        self._runner: Any = cluster.ClusterRunner(engine, [*blocks, *parts])
        self._seen = _Seen("", {}, None)
        self._since: list[Callable[[], Any]] = []  # what has been done since then
        self._ready, self._version = False, 0

    # what a schedule asks

    def begin(self, model: str, start: str | None = None) -> None:
        """Continue with ``model``, from the translation tables there are or a kept model's; the jumps start flat."""
        self._do(partial(self._begin, model, start))

    def resume(self, model: str, kept: dict[str, TrainedModel], current: TrainedModel) -> None:
        """Continue from what a checkpoint holds."""
        self._seen, self._since, self._ready = _Seen(model, kept, current), [], False

    def keep(self, name: str) -> None:
        """Remember the model reached under that name."""
        self._do(partial(self._keep, name))

    def step(self, agree: bool) -> NDArray[np.float64]:
        """One iteration of EM; returns the two log-likelihoods of the model *before* it."""
        likelihood: NDArray[np.float64] = self._do(partial(self._step, agree))
        return likelihood

    def state(self) -> tuple[dict[str, TrainedModel], TrainedModel]:
        """Kept models and the present one, with their tables: this process then holds all of them."""
        kept = dict(self._seen.kept)
        for name in self._certain(lambda: list(self._kept)):
            if name not in kept:
                kept[name] = _with(self._kept[name], self._certain(partial(self._fetch, name)))
        current = self._certain(lambda: _with(self._current, self._fetch(self._version)))
        self._seen, self._since = _Seen(self.model, kept, current), []
        return kept, current

    def finish(self, wanted: Sequence[str], least: float) -> tuple[Cooccurrence, dict[str, TrainedModel]]:
        """The table and the models wanted, without translations below ``least`` in all of them."""
        parts = self._certain(lambda: self._runner.at(tasks.collect, self._parts, (tuple(wanted), least)))
        words = self._certain(lambda: self._runner.at(tasks.word_counts, self._blocks, None))
        rows = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part[0]) for part in parts]))])
        columns, together = (np.concatenate([part[1][k] for part in parts]) for k in range(2))
        counts: list[Any] = [np.sum(found, axis=0, dtype=np.int32) for found in zip(*words, strict=True)]
        table = Cooccurrence(rows, columns, together, *counts)
        pairs = [np.concatenate([part[2][k] for part in parts]) for k in range(len(wanted))]
        return table, {name: _with(self._kept[name], found) for name, found in zip(wanted, pairs, strict=True)}

    def close(self) -> None:
        """Release the workers."""
        self._runner.close()

    # what is done again where it is lost

    def _do(self, act: Callable[[], Any]) -> Any:
        result = self._certain(act)
        self._since.append(act)
        return result

    def _certain(self, act: Callable[[], Any]) -> Any:
        """The result of a task; where workers lost what it builds on, they first get there again."""
        for _ in range(ATTEMPTS):
            try:
                if not self._ready:
                    self._catch_up()
                return act()
            except StateLostError:
                self._ready = False
                self._runner.replace(self._runner.shards)
        raise ClusterError("the workers lose their tables faster than they can be computed again")

    def _catch_up(self) -> None:
        """From nothing to the present state."""
        entries = self._runner.exchange(tasks.send_entries, tasks.merge_entries, self._blocks, self._parts, None)
        cuts = np.cumsum(entries)[:-1]
        model, kept, current = self._seen
        tables = [None] * len(entries) if current is None else np.split(current.tables.pairs, cuts)
        others = {name: np.split(other.tables.pairs, cuts) for name, other in kept.items()}
        own = [(table, {name: split[k] for name, split in others.items()}) for k, table in enumerate(tables)]
        self._runner.at(tasks.load_tables, self._parts, self._version, own)
        self.model = model
        self._kept = {name: _with(other, _NOWHERE) for name, other in kept.items()}
        if current is None:
            self._current = TrainedModel(Tables(_NOWHERE, *self.even_nulls()), self.flat())
        else:
            self._current = _with(current, _NOWHERE)
        for act in self._since:
            act()
        self._ready = True

    def _begin(self, model: str, start: str | None) -> None:
        tables = self._current.tables
        if start is not None:
            self._runner.at(tasks.take_up, self._parts, (start, self._version + 1))
            tables = self._kept[start].tables
            self._version += 1
        self.model, self._current = model, TrainedModel(tables, self.flat())

    def _keep(self, name: str) -> None:
        self._runner.at(tasks.keep_table, self._parts, (name, self._version))
        self._kept[name] = self._current

    def _step(self, agree: bool) -> NDArray[np.float64]:
        runner, version, (tables, jumps) = self._runner, self._version, (self._current.tables, self._current.jumps)
        common = (version, MODELS[self.model], agree, tables.null_target, tables.null_source, jumps, self.p0)
        counts = runner.exchange(tasks.send_rows, tasks.count_links, self._parts, self._blocks, common)
        sums = runner.exchange(tasks.send_counts, tasks.add_counts, self._blocks, self._parts, version)
        by_target = np.zeros((self.sizes[0], 2))
        for by_part in sums:
            by_target += by_part
        runner.at(tasks.new_table, self._parts, (version, self.prior, by_target))
        *nulls, jumps, likelihood = self.fitted(jumps, counts)
        self._current, self._version = TrainedModel(Tables(_NOWHERE, *nulls), jumps), version + 1
        result: NDArray[np.float64] = likelihood
        return result

    def _fetch(self, which: str | int) -> NDArray[np.float32]:
        """A whole table: of a name, or of a version."""
        return np.concatenate(self._runner.at(tasks.fetch_table, self._parts, which))


def _with(model: TrainedModel, pairs: NDArray[np.float32]) -> TrainedModel:
    return TrainedModel(model.tables._replace(pairs=pairs), model.jumps)


def _between(corpus: Corpus, a: int, b: int) -> Corpus:
    """The sentence pairs a:b."""
    e0, e1, f0, f1 = *corpus.source_offsets[[a, b]], *corpus.target_offsets[[a, b]]
    return Corpus(
        corpus.source[e0:e1],
        corpus.target[f0:f1],
        corpus.source_offsets[a : b + 1] - e0,
        corpus.target_offsets[a : b + 1] - f0,
        corpus.cell_offsets[a : b + 1] - corpus.cell_offsets[a],
    )

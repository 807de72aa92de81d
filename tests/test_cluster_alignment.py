"""Translation tables in parts by source word: the tables of one process, whoever holds the parts and whoever dies."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import cluster

from partwise.alignment import GenerativeAligner
from partwise.alignment._schedule import TrainingCheckpoint
from partwise.cluster import engine
from partwise.cluster.local import LocalRunner
from partwise.cluster.shards import GONE, unless_gone
from partwise.data import load_sample_alignments
from partwise.exceptions import ClusterError

PAIRS = load_sample_alignments().bitext[:60]
BOTH = {"also": ("model1", "model2"), "iterations": 2}


def assert_same(mine: GenerativeAligner, other: GenerativeAligner) -> None:
    """All parameters, bit for bit."""
    for ours, theirs in zip(mine.table_, other.table_, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert list(mine.models_) == list(other.models_)
    for name, model in mine.models_.items():
        same = other.models_[name]
        for ours, theirs in zip(
            (*model.tables, *sum(model.jumps, ())), (*same.tables, *sum(same.jumps, ())), strict=True
        ):
            assert ours.tobytes() == theirs.tobytes()
    assert [{**line, "seconds": 0} for line in mine.trace_] == [{**line, "seconds": 0} for line in other.trace_]


class Forgetful(LocalRunner):
    """Shards in this process; one of them loses its memory before the call of that number."""

    moment, victim = -1, 0

    def __init__(self, client: Any, shards: Any) -> None:
        super().__init__(shards)
        self.calls = 0

    def _count(self) -> None:
        if self.calls == self.moment:
            self._memories[self.victim].clear()
        self.calls += 1

    def exchange(self, *args: Any) -> list[Any]:
        self._count()
        return super().exchange(*args)

    def at(self, *args: Any) -> list[Any]:
        self._count()
        return super().at(*args)


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[Forgetful]:
    """The runners that are made from now on, none of which is on a cluster."""
    made: list[Forgetful] = []

    def make(client: Any, shards: Any) -> Forgetful:
        made.append(Forgetful(client, shards))
        return made[-1]

    monkeypatch.setattr(engine, "ClusterRunner", make)
    return made


@pytest.mark.parametrize(
    "settings",
    [BOTH, {**BOTH, "agree": False, "prior": 0.01, "prune": 0}, {"model": "model1", "prune": 0.01}],
    ids=["agreement", "prior", "model1"],
)
def test_parts_make_the_same_tables(runners: list[Forgetful], settings: dict[str, Any]) -> None:
    assert_same(GenerativeAligner(**settings).fit(PAIRS, engine="here"), GenerativeAligner(**settings).fit(PAIRS))


def test_nobody_holds_the_table(runners: list[Forgetful], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalRunner, "close", lambda self: None)  # what it held is looked at below
    table = GenerativeAligner(iterations=1, prune=0).fit(PAIRS, engine="here").table_
    blocks, parts = runners[0]._memories[:4], runners[0]._memories[4:]
    assert len(parts) == 8 and sum(len(part["columns"]) for part in parts) == len(table.columns)
    for part in parts:
        assert max(len(part["columns"]), *map(len, part["places"])) < len(table.columns) / 3
    for block in blocks:
        assert len(block["counts"][1]) < len(table.columns) / 2
        assert max(x.size for x in (block["words"] + tuple(block["borders"][None]))) < len(table.columns)


def test_whatever_is_lost_is_computed_again(runners: list[Forgetful], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = GenerativeAligner(iterations=1).fit(PAIRS)
    GenerativeAligner(iterations=1).fit(PAIRS, engine="here")
    calls = runners[0].calls
    assert calls > 10
    for moment in range(calls):
        for victim in (0, 5):  # a block, a part
            monkeypatch.setattr(Forgetful, "moment", moment)
            monkeypatch.setattr(Forgetful, "victim", victim)
            assert_same(GenerativeAligner(iterations=1).fit(PAIRS, engine="here"), alone)
    assert max(runner.calls for runner in runners) > 1.5 * calls
    monkeypatch.setattr(Forgetful, "exchange", lambda self, *args: unless_gone([GONE]))
    with pytest.raises(ClusterError, match="lose their tables faster than they can be computed again"):
        GenerativeAligner(iterations=1).fit(PAIRS, engine="here")


def test_a_checkpoint_is_also_where_to_begin_again(
    runners: list[Forgetful], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Training moves between one process and a cluster; what was saved is not computed again."""
    alone, save, saved = GenerativeAligner(**BOTH).fit(PAIRS), TrainingCheckpoint.save, []

    def interrupted(self: Any, *state: Any) -> None:
        save(self, *state)
        saved.append(state)
        if len(saved) in (3, 5):
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCheckpoint, "save", interrupted)
    for where in ({"engine": "here"}, {}):
        with pytest.raises(KeyboardInterrupt):
            GenerativeAligner(**BOTH).fit(PAIRS, checkpoint=tmp_path / "c", **where)
    monkeypatch.setattr(Forgetful, "moment", 6)
    assert_same(GenerativeAligner(**BOTH).fit(PAIRS, checkpoint=tmp_path / "c", engine="here"), alone)
    assert len(saved) == 6 and runners[-1].calls < 25


def test_workers_hold_the_parts_and_die(tmp_path: Path) -> None:
    """One, two and four workers; then three of them die at random moments."""
    pytest.importorskip("distributed", reason="needs partwise[dask]")
    alone = GenerativeAligner(**BOTH).fit(PAIRS)
    rng, killed = random.Random(time.time_ns()), []
    with cluster(tmp_path) as (processes, client):
        for wanted in (1, 2, 4):
            processes.have_workers(client, wanted)
            assert_same(GenerativeAligner(**BOTH).fit(PAIRS, engine=client), alone)

        def kill() -> None:
            while len(killed) < 3:
                time.sleep(rng.uniform(0.1, 1.0))
                found = client.run(os.getpid, on_error="ignore").values()
                pids = [pid for pid in found if isinstance(pid, int) and pid not in killed]
                if pids:
                    killed.append(rng.choice(pids))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        disturbed = [GenerativeAligner(**BOTH).fit(PAIRS, engine=client)]
        while killer.is_alive():  # a training that was too short for three kills is followed by another
            disturbed.append(GenerativeAligner(**BOTH).fit(PAIRS, engine=client))
        killer.join()
    for model in disturbed:
        assert_same(model, alone)

"""What is lost, full or too small around a cluster: what is said, and that work resumes from its checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import LINES, ROOT, Hoard, cluster, nap, sample_pack

import partwise
from partwise.cluster import engine
from partwise.cluster.mapped import drop_pages
from partwise.exceptions import ClusterError, StorageError

distributed = pytest.importorskip("distributed", reason="needs partwise[dask]")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> partwise.Pack:
    return sample_pack(tmp_path_factory.mktemp("faults"))


def test_the_scheduler_is_lost(pack: partwise.Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TIMEOUT", 5.0)  # also how long the client looks for it

    def model() -> partwise.SequenceLabeler:
        return partwise.SequenceLabeler(max_passes=10, learner_options={"tolerance": 0.0})

    with cluster(tmp_path) as (processes, mine):
        mine.close()

        def kill(record: Any, theta: Any) -> None:
            if record.step == 4:
                processes.started[0].kill()
                processes.started[0].wait()

        with pytest.raises(
            ClusterError, match="the scheduler is gone; run the same command again to resume from its checkpoint"
        ):
            model().fit(pack, engine=processes.address, checkpoint=tmp_path / "c.pw", callbacks=[kill])
    steps: list[int] = []
    with engine.local_client(1) as client:
        resumed = model().fit(
            pack,
            engine=client,
            checkpoint=tmp_path / "c.pw",
            callbacks=[lambda record, theta: steps.append(record.step)],
        )
    assert steps[0] > 2  # the passes before are not gone through again
    np.testing.assert_array_equal(resumed.theta_, model().fit(pack).theta_)


def test_a_worker_runs_out_of_memory(tmp_path: Path) -> None:
    from partwise.cluster.engine import ClusterRunner
    from partwise.cluster.shards import shard_facts

    settings = {
        "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "0.95",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",  # the first worker that is lost tells enough
    }
    with cluster(tmp_path, "--memory-limit", "600MB", **settings) as (_, client):
        runner = ClusterRunner(client, [Hoard(700_000_000)])
        with pytest.raises(
            ClusterError,
            match=r"ran out of memory .* A shard has 1000 tokens; pack the data again with shard_tokens=500",
        ):
            runner.each(shard_facts, None)


def test_work_stays_where_the_shards_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one worker has all of it and the other waits: dask would give it some, which it could not do."""
    with engine.local_client(2) as client:
        runner = engine.ClusterRunner(client, [Hoard(1)] * 8)
        for turn in (1, 2, 3):
            assert runner.at(nap, range(8), None, [0.2] * 4 + [0.0] * 4) == [turn] * 8
        runner.replace(runner.shards)
        scatter, refused = client.scatter, []

        def refuse(*args: Any, **settings: Any) -> Any:
            """As where a worker dies after it was asked for."""
            if not refused:
                refused.append(settings["workers"])
                raise OSError(f"Timed out trying to connect to {settings['workers'][0]} after 30 s")
            return scatter(*args, **settings)

        monkeypatch.setattr(client, "scatter", refuse)
        assert runner.at(nap, range(8), None, [0.0] * 8) == [1] * 8 and refused
        runner.close()


def test_packs_say_what_to_choose(pack: partwise.Pack) -> None:
    from partwise.learners.lbfgs import LBFGS
    from partwise.losses import Loss
    from partwise.sequences.shards import pack_shards

    shard = pack_shards(partwise.SequenceLabeler(), pack, LBFGS(), Loss.named("crf"))[0]
    assert shard.smaller == f"pack the data again with shard_tokens={shard.tokens // 2} (--shard-tokens)"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_pages_are_given_back(tmp_path: Path) -> None:
    def of_files() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile"))

    np.arange(2_000_000.0).tofile(tmp_path / "a")
    array = np.memmap(tmp_path / "a", np.float64, "c").view(np.ndarray)
    nested = ((array[:1000], 3), (array[1000:], np.ones(3)))
    total, touched = array.sum(), of_files()
    drop_pages(nested)
    assert touched - of_files() > 12_000_000
    assert array.sum() == total


def test_a_disk_fills_up(pack: partwise.Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of one megabyte, for packs, for models, and for what training keeps on disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        text = Path(pack.path).with_suffix(".txt")
        big = tmp_path / "big.txt"
        big.write_bytes(text.read_bytes() * 20)
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            partwise.pack(big, disk / "a.pack", templates=LINES)
        assert os.listdir(disk) == []
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            partwise.pack(big, disk / "a.pack", templates=LINES, workers=2, shard_tokens=20_000)
        assert os.listdir(disk) == []
        model = partwise.SequenceLabeler(max_passes=2).fit(pack)
        (disk / "filler").write_bytes(bytes(1_000_000))
        with pytest.raises(StorageError, match=r"m\.pw: cannot be written: No space left on device"):
            model.save(disk / "m.pw")
        assert os.listdir(disk) == ["filler"]
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        monkeypatch.setattr("partwise.cluster.mapped.SMALLEST", 1)
        with pytest.raises(StorageError, match=r"cannot be written.*set TMPDIR to a larger disk"):
            for _ in range(3):
                partwise.SequenceLabeler(max_passes=2).fit(pack)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # files may still be mapped


def test_the_example_script(pack: partwise.Pack, tmp_path: Path) -> None:
    """``examples/cluster.sh`` starts a cluster that trains, and ends it."""
    environment = {
        **os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "PARTWISE_PORT": "18786",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }  # fmt: skip
    script = str(ROOT / "examples" / "cluster.sh")
    begun = subprocess.run([script, "start", "2"], env=environment, capture_output=True, text=True, check=True)
    try:
        address = begun.stdout.strip()
        assert address == "tcp://127.0.0.1:18786"
        found = partwise.SequenceLabeler(max_passes=3).fit(pack, engine=address)
        np.testing.assert_array_equal(found.theta_, partwise.SequenceLabeler(max_passes=3).fit(pack).theta_)
    finally:
        subprocess.run([script, "stop"], env=environment, check=True)
    left = subprocess.run([script, "stop"], env=environment, capture_output=True, text=True, check=False)
    assert left.returncode != 0 and "no cluster" in left.stderr

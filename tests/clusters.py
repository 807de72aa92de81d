"""A scheduler and workers on loopback, as processes of their own: what a test of the cluster talks to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import partwise
from partwise.data import load_sample, write_columns

ROOT = Path(__file__).resolve().parents[1]
LINES = ["word[-1..1]", "suffix(word,1..2)[0]", "word[-1] pos[0]"]


def sample_pack(folder: Path) -> partwise.Pack:
    """``train.txt`` in that folder, and its pack of several shards."""
    write_columns(folder / "train.txt", load_sample(split="train").without("ner"))
    return partwise.pack(folder / "train.txt", folder / "train.pack", templates=LINES, shard_tokens=500)


@dataclass(frozen=True)
class Hoard:
    """A shard that takes so many bytes of memory where it is opened."""

    nbytes: int
    size = "1000 tokens"
    smaller = "pack the data again with shard_tokens=500"

    def open(self, n_threads: int) -> Any:
        held = bytearray(self.nbytes)
        held[::4096] = b"x" * len(held[::4096])  # taken, not only asked for
        time.sleep(20 if self.nbytes > 1 else 0)  # until somebody notices
        return held

    def digest(self) -> bytes:
        return b""


def nap(shard: Any, memory: dict[str, Any], common: Any, seconds: float) -> int:
    """How often this shard has slept where it is now."""
    time.sleep(seconds)
    memory["naps"] = memory.get("naps", 0) + 1
    naps: int = memory["naps"]
    return naps


class Processes:
    """``dask scheduler`` and ``dask worker`` in a folder; ended with the context."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.started, self.workers = folder, [], 0  # type: ignore[var-annotated]
        # every worker imports partwise from where the tests do
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
            **settings,
        }

    def __enter__(self) -> Processes:
        file = self.folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
        for _ in range(600):
            if file.exists():
                break
            time.sleep(0.05)
        time.sleep(0.1)
        self.address: str = json.loads(file.read_text())["address"]
        return self

    def __exit__(self, *error: Any) -> None:
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def have_workers(self, client: Any, n: int, *options: str) -> None:
        """Start workers until there are that many, and wait for them."""
        if n > self.workers:
            self._add_workers(n - self.workers, *options)
            self.workers = n
        client.wait_for_workers(n, timeout=90)

    def _add_workers(self, n: int, *options: str) -> None:
        """Workers of one thread, each under a nanny that starts it again when it dies."""
        self._start(
            "worker", self.address, "--nworkers", str(n), "--nthreads", "1", "--no-dashboard", "--local-directory",
            str(self.folder), "--death-timeout", "60", *options,
        )  # fmt: skip

    def _start(self, *command: str) -> None:
        log = (self.folder / "log.txt").open("ab")
        program = "import sys; from dask.cli import run_cli; sys.argv = ['dask', *sys.argv[1:]]; run_cli()"
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-c", program, *command], cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
        )


@contextmanager
def cluster(folder: Path, *options: str, **settings: str) -> Iterator[tuple[Processes, Any]]:
    """A scheduler with one worker, and a client of it; options are the worker's, settings the environment's."""
    from distributed import Client

    with Processes(folder, **settings) as processes, Client(processes.address, timeout=30) as client:
        processes.have_workers(client, 1, *options)
        yield processes, client

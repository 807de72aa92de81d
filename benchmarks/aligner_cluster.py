"""Model 1 and the HMM on Hansards: one process and two workers; the largest difference of the tables, and memory.

    python benchmarks/aligner_cluster.py [--pairs 1130104] [--workers 2] [--iterations 5]

Memory is what a process holds at most beside pages of files (RssAnon of /proc, sampled): of the process alone, and of
every worker. Seconds are of the CPU, of all processes together. Bytes are those that went over loopback meanwhile.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _timing import DATA
from cluster_overhead import loopback

from partwise.alignment import GenerativeAligner
from partwise.cluster.engine import local_client
from partwise.data import read_bitext


def anonymous(pid: int) -> int:
    """Bytes that a process holds itself."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


class Peaks:
    """The most that each of some processes held."""

    def __init__(self, pids: list[int]) -> None:
        self.peaks = dict.fromkeys(pids, 0)

    def __enter__(self) -> Peaks:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            for pid in self.peaks:
                self.peaks[pid] = max(self.peaks[pid], anonymous(pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_130_104)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    args = parser.parse_args()
    pairs = read_bitext(DATA / "hansards" / "train.e.xz", DATA / "hansards" / "train.f.xz")[: args.pairs]
    settings: dict[str, Any] = {"model": "hmm", "also": ("model1",), "iterations": args.iterations, "prune": 0}
    with local_client(args.workers) as client:
        workers = client.run(os.getpid)
        before = sum(client.run(time.process_time).values()) + time.process_time()
        moved, resting = loopback(), [anonymous(pid) for pid in workers.values()]
        with Peaks([*workers.values(), os.getpid()]) as watched:
            together = GenerativeAligner(**settings).fit(pairs, engine=client)
        moved = loopback() - moved
        seconds = sum(client.run(time.process_time).values()) + time.process_time() - before
    held = [watched.peaks[pid] / 1e9 for pid in workers.values()]
    print(f"{len(pairs)} pairs, {len(together.table_.columns)} entries of the table", flush=True)
    print(f"{args.workers} workers: {seconds:.0f} CPU s; {', '.join(f'{x:.2f}' for x in held)} GB, "
          f"this process {watched.peaks[os.getpid()] / 1e9:.2f} GB; {moved / 1e9:.2f} GB moved; "
          f"{np.mean(resting) / 1e9:.2f} GB per worker before", flush=True)  # fmt: skip
    begin = time.process_time()
    with Peaks([os.getpid()]) as watched:
        alone = GenerativeAligner(**settings).fit(pairs)
    print(f"one process: {time.process_time() - begin:.0f} CPU s, {watched.peaks[os.getpid()] / 1e9:.2f} GB, "
          "the tables of the other training included")  # fmt: skip
    for name in ("model1", "hmm"):
        mine, theirs = together.models_[name], alone.models_[name]
        arrays = zip([*mine.tables, *sum(mine.jumps, ())], [*theirs.tables, *sum(theirs.jumps, ())], strict=True)
        worst = max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in arrays)
        print(f"{name}: the largest difference of a parameter is {worst:.1e}")


if __name__ == "__main__":
    main()

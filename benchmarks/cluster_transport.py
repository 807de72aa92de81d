"""Overhead of an evaluation on a cluster: seconds by the number of weights, fitted to a line.

    python benchmarks/cluster_transport.py [--workers 2] [--repeats 7]

The shards are empty: each returns a vector of ones at once. What is left is θ on its way to the workers, the sums along
the tree and the answer, as in training: seconds = latency + bytes of the model / bandwidth, by least squares of
relative errors. The bytes are those that docs/scaling.md counts. On one machine all of them go over loopback.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from cluster_overhead import loopback, model_bytes

from partwise.cluster.engine import ClusterRunner, local_client


@dataclass(frozen=True)
class Empty:
    """A shard without data."""

    size = "nothing"
    smaller = "nothing can be done"

    def open(self, n_threads: int) -> Any:
        return self

    def digest(self) -> bytes:
        return b""


def ones(problem: Any, theta: Any, scratch: Any) -> tuple[float, Any]:
    """The two sums of an empty shard."""
    vector = scratch.zeros(len(theta))
    vector += 1.0
    return 0.0, vector


def cpu_seconds(client: Any) -> float:
    """Of this process, which holds client and scheduler, and of the workers."""
    return time.process_time() + float(sum(client.run(time.process_time).values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--weights", type=int, nargs="+", default=[1_000, 100_000, 500_000, 2_000_000, 5_000_000])
    args = parser.parse_args()
    rows = []
    with local_client(args.workers) as client:
        runner = ClusterRunner(client, [Empty()] * args.workers)
        for dim in args.weights:
            theta, seconds = np.linspace(0.0, 1.0, dim), []
            runner.total(theta, ones)
            before, used = loopback(), cpu_seconds(client)
            for _ in range(args.repeats):
                begin = time.perf_counter()
                runner.total(theta, ones)
                seconds.append(time.perf_counter() - begin)
            used = (cpu_seconds(client) - used) / args.repeats
            measured, moved = (loopback() - before) / args.repeats, model_bytes(dim, args.workers)
            rows.append((moved, float(np.median(seconds))))
            median, best = 1e3 * rows[-1][1], 1e3 * min(seconds)
            print(f"{dim:9d} weights: {median:7.1f} ms, best {best:7.1f}, {1e3 * used:.1f} ms of CPU; "
                  f"{measured / 1e6:.2f} MB, model {moved / 1e6:.2f}", flush=True)  # fmt: skip
        runner.close()
    moved, found = np.array(rows).T
    design = np.stack([np.ones_like(moved), moved], axis=1) / found[:, None]
    (latency, slope), *_ = np.linalg.lstsq(design, np.ones(len(found)), rcond=None)
    off = 100 * np.abs((latency + slope * moved) / found - 1).max()
    print(f"latency {1e3 * latency:.1f} ms, {1e-6 / slope:.0f} MB/s; off by at most {off:.0f}%; "
          f"load average {os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()

"""Two single-threaded workers against two threads of one process, on ten copies of CoNLL-2000; bytes per evaluation.

    python benchmarks/cluster_overhead.py [--copies 10] [--workers 2] [--turns 4]

Both train from the same pack, in one run, turn by turn. Bytes are those of the loopback device, so that nothing else
should talk there; the model says what they should be (docs/scaling.md). Beside the clock stand CPU seconds, which other
users of the machine change less: of the threads, and of the workers and of the process that holds client and scheduler.
From them follows what the clock would say on idle cores, C/W of the threads against the busiest worker and, after it,
all that the client does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import partwise
from partwise.cluster.engine import local_client

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def loopback() -> int:
    """Bytes that went over the loopback device so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def model_bytes(dim: int, workers: int) -> int:
    """θ to a worker and from it to the others; gradients along the tree; the sum to the client."""
    return 8 * dim * (1 + (workers - 1) + (workers - 1) + 1)


def predicted(tokens: float, dim: float, cores: int, per_token: float, bandwidth: float) -> float:
    """Seconds of an evaluation: the work divided by the cores, and the longest way of θ and of a gradient."""
    steps = 2 + 2 * np.log2(cores)  # to a worker and back; in between down and up the tree
    return tokens * per_token / cores + 8 * dim * steps / bandwidth


class Clock:
    """A callback that notes, after every pass: seconds, those of this process and of each worker, and bytes moved."""

    def __init__(self, client: Any = None) -> None:
        self.client, self.marks = client, []  # type: ignore[var-annotated]

    def __call__(self, record: Any, theta: Any) -> None:
        workers = sorted(self.client.run(time.process_time).items()) if self.client is not None else []
        self.marks.append([time.perf_counter(), time.process_time(), loopback(), *(used for _, used in workers)])

    def per_evaluation(self, model: partwise.SequenceLabeler) -> Any:
        """(seconds, CPU seconds here, bytes, CPU seconds of each worker), from the first pass on."""
        count = sum(record.extra["evaluations"] for record in model.result_.trace[1:])
        return (np.array(self.marks[-1]) - np.array(self.marks[0])) / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--folder", help="where the pack is kept from one run to the next")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second between machines: 10 Gbit/s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pack = make_pack(Path(args.folder or folder), args.copies)
        print(pack, flush=True)
        settings = {"max_passes": args.passes, "learner_options": {"tolerance": 0.0}}
        threads, workers = [], []
        with local_client(args.workers) as client:
            for _ in range(args.turns):
                clock = Clock()
                alone = partwise.SequenceLabeler(n_jobs=args.workers, **settings).fit(pack, callbacks=[clock])
                threads.append(clock.per_evaluation(alone))
                clock = Clock(client)
                together = partwise.SequenceLabeler(**settings).fit(pack, engine=client, callbacks=[clock])
                workers.append(clock.per_evaluation(together))
                print(f"threads {threads[-1][0]:.3f} s ({threads[-1][1]:.3f} of CPU), workers {workers[-1][0]:.3f} s "
                      f"({workers[-1][3:].sum():.3f} of CPU, {workers[-1][1]:.3f} of client and scheduler) per "
                      f"evaluation; {workers[-1][2] / 1e6:.1f} MB moved", flush=True)  # fmt: skip
        assert (together.theta_ == alone.theta_).all()
    ours, theirs = np.array(threads), np.array(workers)
    clocks = theirs[:, 0] / ours[:, 0]
    idle = (theirs[:, 3:].max(axis=1) + theirs[:, 1]) / (ours[:, 1] / args.workers)
    dim, moved, expected = len(alone.theta_), np.median(theirs[:, 2]), model_bytes(len(alone.theta_), args.workers)
    print(f"{pack.tokens} tokens, {dim} weights, {args.workers} workers, {args.turns} turns: of the threads' time")
    for name, ratios in (("by the clock", clocks), ("of the CPU, were the cores idle otherwise", idle)):
        print(f"  {name}: best {ratios.min():.2f}, median {np.median(ratios):.2f}")
    print(f"{moved / 1e6:.1f} MB per evaluation, model {expected / 1e6:.1f} MB ({moved / expected:.2f})")
    per_token = float(np.median(ours[:, 1])) / pack.tokens
    print(f"fitted: {1e6 * per_token:.2f} µs of CPU per token; a network of {args.bandwidth / 1e6:.0f} MB/s assumed")
    for cores in (100, 1000):
        seconds = predicted(1e9, 1e7, cores, per_token, args.bandwidth)
        share = 1e9 * per_token / cores / seconds
        print(f"10^9 tokens, 10^7 weights, {cores} cores: {seconds:.1f} s per evaluation, {100 * share:.0f}% work")


def make_pack(folder: Path, copies: int) -> partwise.Pack:
    """So many copies of CoNLL-2000 in shards; what is there already is not made again."""
    if not (folder / "t.pack").exists():
        content = (DATA / "conll2000" / "train.txt").read_bytes().rstrip() + b"\n\n"
        with (folder / "train.txt").open("wb") as file:
            for _ in range(copies):
                file.write(content)
        partwise.pack(folder / "train.txt", folder / "t.pack", templates="crfsuite-chunking", shard_tokens=150_000,
                      workers=2)  # fmt: skip
    return partwise.Pack(folder / "t.pack")


if __name__ == "__main__":
    main()

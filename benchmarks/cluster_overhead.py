"""Two single-threaded workers against two threads of one process, on ten copies of CoNLL-2000; bytes per evaluation.

    python benchmarks/cluster_overhead.py [--copies 10] [--workers 2]

Both train from the same pack, in one run, turn by turn. Bytes are those of the loopback device, so that nothing else
should talk there; the model says what they should be (docs/scaling.md).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

import partwise
from partwise.cluster.engine import local_client

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def loopback() -> int:
    """Bytes that went over the loopback device so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def model_bytes(dim: int, workers: int) -> int:
    """θ to the scheduler, to a worker and from it to the others; gradients along the tree; the sum to the client."""
    return 8 * dim * (2 + (workers - 1) + (workers - 1) + 1)


def predicted(tokens: float, dim: float, cores: int, per_token: float, bandwidth: float) -> float:
    """Seconds of an evaluation: the work divided by the cores, and the longest way of θ and of a gradient."""
    steps = 3 + 2 * np.log2(cores)  # to the scheduler, a worker and back; then down and up the tree
    return tokens * per_token / cores + 8 * dim * steps / bandwidth


def evaluations(model: partwise.SequenceLabeler) -> tuple[float, int]:
    """(seconds per evaluation, number of evaluations) after the first pass."""
    trace = model.result_.trace
    seconds = np.diff([record.seconds for record in trace])
    counts = np.array([record.extra["evaluations"] for record in trace[1:]])
    return float(np.median(seconds / counts)), int(counts.sum())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second between machines: 10 Gbit/s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "train.txt"
        content = (DATA / "conll2000" / "train.txt").read_bytes().rstrip() + b"\n\n"
        with text.open("wb") as file:
            for _ in range(args.copies):
                file.write(content)
        pack = partwise.pack(
            text, Path(folder) / "t.pack", templates="crfsuite-chunking", shard_tokens=150_000, workers=2
        )
        print(pack, flush=True)
        settings = {"max_passes": args.passes, "learner_options": {"tolerance": 0.0}}
        times: dict[str, list[float]] = {"threads": [], "workers": []}
        with local_client(args.workers) as client:
            for _ in range(args.turns):
                alone = partwise.SequenceLabeler(n_jobs=args.workers, **settings).fit(pack)
                times["threads"].append(evaluations(alone)[0])
                marks: list[int] = []
                together = partwise.SequenceLabeler(**settings).fit(
                    pack, engine=client, callbacks=[lambda record, theta, marks=marks: marks.append(loopback())]
                )
                seconds, count = evaluations(together)
                times["workers"].append(seconds)
                moved = (marks[-1] - marks[0]) / count
                print(f"threads {times['threads'][-1]:.3f} s, workers {seconds:.3f} s per evaluation; "
                      f"{moved / 1e6:.1f} MB moved", flush=True)  # fmt: skip
        assert (together.theta_ == alone.theta_).all()
        ratio = min(times["workers"]) / min(times["threads"])
        dim = len(alone.theta_)
        expected = model_bytes(dim, args.workers)
        print(f"{pack.tokens} tokens, {dim} weights, {args.workers} workers: {ratio:.2f} times the time of threads")
        print(f"{moved / 1e6:.1f} MB per evaluation, model {expected / 1e6:.1f} MB ({moved / expected:.2f})")
        per_token = min(times["threads"]) * args.workers / pack.tokens
        print(
            f"fitted: {1e6 * per_token:.2f} µs per token and core; a network of {args.bandwidth / 1e6:.0f} MB/s assumed"
        )
        for cores in (100, 1000):
            seconds = predicted(1e9, 1e7, cores, per_token, args.bandwidth)
            share = 1e9 * per_token / cores / seconds
            print(f"10^9 tokens, 10^7 weights, {cores} cores: {seconds:.1f} s per evaluation, {100 * share:.0f}% work")


if __name__ == "__main__":
    main()

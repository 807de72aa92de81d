"""Data larger than memory: generate a corpus, pack it, train five L-BFGS iterations from the pack; memory and seconds.

    python benchmarks/out_of_core.py --tokens 100000000 --folder /tmp/big [--until pack]

The corpus is synthetic: a Markov chain of 20 labels, words and tags that depend on them, 20 attributes per token.
Memory is what processes hold themselves (RssAnon of /proc, sampled): pages of mapped files are the page cache's. The
time per token is compared with training in memory on CoNLL-2000, before and after, in the same run; CPU seconds stand
beside it, since two threads on a machine that others use wait for each other. What a folder holds already is not made
again, so that the steps can be run one by one.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import partwise
from partwise.data import read_columns

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LABELS, WORDS, TAGS = 20, 10_000, 20
TEMPLATES = [
    "word[-2..2]", "pos[-2..2]", "suffix(word,1..3)[0]",
    "pos[-2] pos[-1]", "pos[-1] pos[0]", "pos[0] pos[1]", "pos[1] pos[2]",
    "pos[-2] pos[-1] pos[0]", "pos[-1] pos[0] pos[1]", "pos[0] pos[1] pos[2]",
]  # fmt: skip


def write_corpus(path: Path, tokens: int, seed: int = 0) -> None:
    """Sentences of 25 tokens on average; half of the words are those of their label, half of everybody."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.dirichlet(np.full(LABELS, 0.3), size=LABELS), axis=1)
    zipf = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    zipf /= zipf[-1]
    words = np.array([f"w{j:x}" for j in range(WORDS)])
    tags, names = np.array([f"T{j}" for j in range(TAGS)]), np.array([f"L{j}" for j in range(LABELS)])
    done, block = 0, 1000  # chains side by side: each step of all of them is one call
    with path.open("w", encoding="utf-8") as file:
        while done < tokens:
            label = rng.integers(LABELS, size=block)
            rows = np.empty((block, 25), np.int64)
            for t in range(25):
                rows[:, t] = label = (rng.random(block)[:, None] < steps[label]).argmax(axis=1)
            rank = np.searchsorted(zipf, rng.random(rows.shape))
            own = rng.random(rows.shape) < 0.5
            word = np.where(own, (rank * LABELS + rows) % WORDS, rank)
            tag = np.where(rng.random(rows.shape) < 0.7, rows % TAGS, rng.integers(TAGS, size=rows.shape))
            ends = np.where(np.arange(25) == 24, "\n\n", "\n")
            lines = np.char.add(np.char.add(np.char.add(words[word], " "), np.char.add(tags[tag], " ")), names[rows])
            file.write("".join(np.char.add(lines, ends[None, :]).ravel().tolist()))
            done += rows.size


class Memory:
    """The most that this process and its children held at the same time, outside the page cache."""

    def __enter__(self) -> Memory:
        self.peak, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, sum(map(_anonymous, [os.getpid(), *_children(os.getpid())])))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


class Clock:
    """A callback that notes wall and CPU seconds after every pass, and says so where passes take long."""

    def __init__(self, says: bool = False) -> None:
        self.says, self.marks = says, [(time.perf_counter(), time.process_time())]

    def __call__(self, record: Any, theta: Any) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))
        if self.says:
            wall, cpu = (b - a for a, b in zip(*self.marks[-2:], strict=True))
            evaluations = record.extra["evaluations"]
            print(f"pass {record.step}: {evaluations} evaluations, {wall:.0f} s, {cpu:.0f} s of CPU", flush=True)

    def per_token(self, model: partwise.SequenceLabeler, tokens: int) -> tuple[float, float]:
        """Median µs of an evaluation of loss and gradient, per token: by the wall clock, and of CPU."""
        evaluations = np.array([record.extra["evaluations"] for record in model.result_.trace[1:]])
        wall, cpu = np.median(np.diff(self.marks[1:], axis=0) / evaluations[:, None], axis=0)
        return 1e6 * float(wall) / tokens, 1e6 * float(cpu) / tokens


def in_memory(jobs: int) -> tuple[float, float]:
    """µs per token and evaluation on CoNLL-2000."""
    data = read_columns(DATA / "conll2000" / "train.txt", columns=("word", "pos", "chunk"))
    clock = Clock()
    model = partwise.SequenceLabeler("crfsuite-chunking", max_passes=15, n_jobs=jobs)
    model.fit(data.without("chunk"), data.coded("chunk"), callbacks=[clock])
    return clock.per_token(model, data.tokens)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--until", choices=("text", "pack", "train"), default="train")
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    text, out = args.folder / "corpus.txt", args.folder / "corpus.pack"
    if not text.exists():
        begin = time.perf_counter()
        write_corpus(text, args.tokens)
        print(f"generated {text.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - begin:.0f} s", flush=True)
    if args.until == "text":
        return
    if not out.exists():
        begin = time.perf_counter()
        with Memory() as memory:
            made = partwise.pack(text, out, templates=TEMPLATES, workers=args.jobs)
        seconds = time.perf_counter() - begin
        rate = made.tokens / seconds / 1e3
        print(f"packed {made.tokens} tokens in {seconds:.0f} s ({rate:.0f} thousand per s), "
              f"{memory.peak / 1e9:.2f} GB at most in {args.jobs} processes", flush=True)  # fmt: skip
    pack = partwise.Pack(out)
    disk = sum(entry.stat().st_size for entry in os.scandir(out))
    print(f"pack: {len(pack.shards)} shards, {disk / 1e9:.2f} GB, {disk / pack.tokens:.0f} bytes per token", flush=True)
    if args.until == "pack":
        return
    before = in_memory(args.jobs)
    clock = Clock(says=True)
    with Memory() as memory:
        model = partwise.SequenceLabeler(max_passes=5, n_jobs=args.jobs).fit(pack, callbacks=[clock])
    vectors = len(model.theta_) * (6 * 8 + 12 * 4)  # θ, gradients and directions; two times six steps of half precision
    wall, cpu = clock.per_token(model, pack.tokens)
    after = in_memory(args.jobs)
    print(f"trained: {len(model.theta_)} weights, {memory.peak / 1e9:.2f} GB at most, of which the optimiser's vectors "
          f"{vectors / 1e9:.2f} GB; {wall:.3f} µs per token and evaluation, {cpu:.3f} µs of CPU")  # fmt: skip
    for when, known in (("before", before), ("after", after)):
        print(f"CoNLL-2000 in memory, {when}: {known[0]:.3f} µs, {known[1]:.3f} µs of CPU; "
              f"ratio {wall / known[0]:.2f}, of CPU {cpu / known[1]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()

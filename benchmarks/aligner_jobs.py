"""``WordAligner.predict`` with one and with two jobs: wall time for every model, in one run.

    python benchmarks/aligner_jobs.py [--raw 500] [--gold 30] [--copies 4] [--repeats 5]

Models are trained on few Hansards pairs (C = 0.1, six passes: how good they are is not the point), and the 247 test
pairs after the first 200 are aligned, several times over. Runs with one and with two jobs alternate after a first run
of each, which compiles and starts processes; the best of each counts. Two busy loops in processes of their own say
what this machine could give at that time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from aligner_defaults import hansards

from partwise import WordAligner
from partwise.alignment import GenerativeAligner

MODELS = ("L", "M", "M+F", "M+Q", "M+F+Q")


def busy(n: int) -> int:
    total = 0
    for k in range(n):
        total += k * k
    return total


def wall(task: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw", type=int, default=500)
    parser.add_argument("--gold", type=int, default=30)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    raw, train, test = hansards(options.raw)
    generative = GenerativeAligner().fit([*raw, *train[0], *test[0]])
    pairs = list(test[0]) * options.copies
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(busy, [10, 10]))
        one = min(wall(lambda: list(pool.map(busy, [3_000_000]))) for _ in range(options.repeats))
        two = min(wall(lambda: list(pool.map(busy, [3_000_000] * 2))) for _ in range(options.repeats))
    print(f"two busy loops: {2 * one / two:.2f} times one", flush=True)
    for model in options.models:
        settings = {"C": 0.1, "gold_counts": model == "L", "max_passes": 6}  # the others as in the paper
        aligner = WordAligner(generative, model=model, infeasible="nearest", **settings)
        aligner.fit(train[0][: options.gold], train[1][: options.gold])
        found, times = {}, {1: [], 2: []}
        for turn in range(options.repeats + 1):
            for jobs in (1, 2):
                aligner.n_jobs = jobs
                seconds = wall(lambda: found.update({jobs: aligner.predict(pairs)}))  # noqa: B023
                if turn:
                    times[jobs].append(seconds)
        assert found[1] == found[2]
        first, second = min(times[1]), min(times[2])
        rate = len(pairs) / first
        print(
            f"{model}: {first:.3f} s with one job ({rate:.0f} pairs/s), {second:.3f} with two: {first / second:.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()

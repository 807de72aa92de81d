"""``partwise predict --workers N`` against one process: seconds, CPU seconds, and whether the output is the same.

    python benchmarks/predict_workers.py --folder /tmp/big [--megabytes 2000] [--workers 2] [--turns 1]

The text is CoNLL-2000 (training and test part) over and over, up to the size wanted; the model is the preset
"chunking", trained for 20 passes. What the folder holds already is not made again.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def run(*command: str) -> tuple[float, float]:
    """(seconds, CPU seconds) of a command of partwise."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-W", "ignore", "-m", "partwise", *command], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    model, text = args.folder / "chunker.pw", args.folder / f"text-{args.megabytes}.txt"
    if not model.exists():
        source = str(DATA / "conll2000" / "train.txt")
        run("train", source, "--model", str(model), "-t", "chunking", "--max-passes", "20", "--quiet")
    if not text.exists():
        files = (DATA / "conll2000" / name for name in ("train.txt", "test.txt"))
        content = b"".join(file.read_bytes().rstrip() + b"\n\n" for file in files)
        with text.open("wb") as target:
            for _ in range(round(args.megabytes * 1e6 / len(content)) or 1):
                target.write(content)
    print(f"{text.stat().st_size / 1e6:.0f} MB, load average {os.getloadavg()[0]:.1f}", flush=True)
    one, many = args.folder / "one.txt", args.folder / "many.txt"
    for _ in range(args.turns):
        alone = run("predict", str(model), str(text), "--output", str(one))
        print(f"one process: {alone[0]:.1f} s, {alone[1]:.1f} s of CPU", flush=True)
        together = run("predict", str(model), str(text), "--output", str(many), "--workers", str(args.workers))
        print(f"{args.workers} workers: {together[0]:.1f} s, {together[1]:.1f} s of CPU; {alone[0] / together[0]:.2f} "
              f"times as fast; the output is {'the same' if filecmp.cmp(one, many, False) else 'NOT THE SAME'}; "
              f"load average {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
    one.unlink()
    many.unlink()


if __name__ == "__main__":
    main()

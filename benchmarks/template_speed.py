"""Tokens per second of the presets, on the training part of CoNLL-2000, one thread, the best of several runs.

python benchmarks/template_speed.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import time

from _timing import conll2000

from partwise.data import read_columns
from partwise.templates.template_list import Templates

SETS = ("crfsuite-chunking", "chunking", "pos", "ner")


def main() -> None:
    """Time both ways of extraction, for every set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    data = read_columns(conll2000("train"), columns=("word", "pos", "chunk"))
    print(f"{'set':20}{'attributes a token':>20}{'fit_transform':>16}{'transform':>12}   (1000 tokens/s)")
    for name in SETS:
        templates, times = Templates.preset(name), []
        index, matrix = templates.fit_transform(data)  # also compiles
        for _ in range(repeats):
            begin = time.perf_counter()
            index, matrix = templates.fit_transform(data)
            middle = time.perf_counter()
            index.transform(data)
            times.append((middle - begin, time.perf_counter() - middle))
        fit, transform = (data.tokens / min(each) / 1000 for each in zip(*times, strict=True))
        print(f"{name:20}{len(matrix.attributes) / data.tokens:20.1f}{fit:16.0f}{transform:12.0f}")


if __name__ == "__main__":
    main()

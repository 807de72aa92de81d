"""What both sides of a race share: the data, clocks, the table, and measurements in processes of their own.

Standard library only, so that a child process holds nothing but what it is measured with.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("PARTWISE_DATA") or HERE.parents[1] / "shared" / "data").resolve()

Sentence = list[list[str]]  # a row of fields for every token


# Data: CoNLL-2000 and the attributes of CRFsuite's chunking example


def conll2000(part: str) -> Path:
    """The file of a part, "train" or "test"; leaves with exit code 2 where it is not there."""
    path = DATA / "conll2000" / f"{part}.txt"
    if not path.is_file():
        print(
            f"{path} is missing. It is the {part} part of the CoNLL-2000 shared task (chunking):\n"
            f"  https://www.cnts.ua.ac.be/conll2000/chunking/{part}.txt.gz\n"
            "Unpack it there, or set PARTWISE_DATA to a folder with conll2000/train.txt and test.txt in it.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return path


def sentences(path: Path, limit: int | None = None) -> Iterator[Sentence]:
    """Sentences of a file of columns, blank lines between them; at most ``limit``."""
    found, rows = 0, []
    with open(path, encoding="utf-8") as lines:
        for line in [*lines, ""]:
            if fields := line.split():
                rows.append(fields)
            elif rows:
                yield rows
                found, rows = found + 1, []
                if found == limit:
                    return


def _templates() -> list[tuple[str, int, list[int]]]:
    """(name, column, offsets) of the 19 templates, for instance ("pos[-1]|pos[0]", 1, [-1, 0])."""
    kinds = [("w", 0, 1, -2, 2), ("w", 0, 2, -1, 0)]
    kinds += [("pos", 1, 1, -2, 2), ("pos", 1, 2, -2, 1), ("pos", 1, 3, -2, 0)]
    templates = []
    for name, column, size, first, last in kinds:
        for start in range(first, last + 1):
            offsets = list(range(start, start + size))
            templates.append(("|".join(f"{name}[{d}]" for d in offsets), column, offsets))
    return templates


TEMPLATES = _templates()


def attributes(sentence: Sentence) -> list[list[str]]:
    """CRFsuite's attributes of every token; a template that reaches beyond the sentence gives none."""
    n = len(sentence)
    return [
        [
            f"{name}={'|'.join(sentence[t + d][column] for d in offsets)}"
            for name, column, offsets in TEMPLATES
            if t + offsets[0] >= 0 and t + offsets[-1] < n
        ]
        for t in range(n)
    ]


# Clocks, memory, processes


class Clock(NamedTuple):
    """A reading of both clocks, or the time between two, in seconds."""

    wall: float
    cpu: float  # of the whole process, all threads

    @classmethod
    def now(cls) -> Clock:
        return cls(time.perf_counter(), time.process_time())

    @classmethod
    def each(cls, stamps: list[Clock], first: int) -> Clock:
        """Mean time of one step: from the end of step ``first`` to the end of the last one."""
        start, end, steps = stamps[first - 1], stamps[-1], len(stamps) - first
        return cls((end.wall - start.wall) / steps, (end.cpu - start.cpu) / steps)


def interleaved(runs: Mapping[str, Callable[[int], Any]], repeats: int) -> dict[str, list[Any]]:
    """Results of every run, taken in turns so that a slow minute of the machine hits all alike."""
    results: dict[str, list[Any]] = {name: [] for name in runs}
    for repeat in range(repeats):
        for name, run in runs.items():
            results[name].append(run(repeat))
    return results


def best(clocks: Iterable[Clock]) -> Clock:
    """The smallest reading of each clock."""
    walls, cpus = zip(*clocks, strict=True)
    return Clock(min(walls), min(cpus))


def peak_memory() -> float:
    """Largest resident set of this process so far, in MB.

    VmHWM where there is one: Linux lets ru_maxrss start at the size of the process that started this one.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size / (1024**2 if sys.platform == "darwin" else 1024)


def child(code: str, *args: str, **env: str) -> tuple[Any, Clock]:
    """Run ``code`` in a new Python; (what it printed last, as JSON; time of the whole process)."""
    output, clock = process("-c", code, *args, **env)
    return json.loads(output.splitlines()[-1]), clock


def process(*arguments: str, **env: str) -> tuple[str, Clock]:
    """Run a new Python with these arguments; (standard output, time of the whole process)."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [HERE, *sys.path])), **env}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode on disk
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])  # user and system time of finished children
    if done.returncode:
        raise RuntimeError(f"a child process failed:\n{done.stderr}")
    return done.stdout, Clock(wall, cpu)


def rounds(work: Callable[[], Any], count: int) -> None:
    """Do the work so often in this process, and print the seconds of the quickest time but the first."""
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": min(seconds[1:], default=seconds[0])}))


def machine() -> dict[str, Any]:
    """Processor, cores, load and Python, for the record."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    return {
        "cpu": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


# The table


@dataclass(frozen=True)
class Row:
    """One line: what was measured on both sides, their ratio or difference, and the target for it."""

    what: str
    theirs: float | None
    ours: float | None
    ratio: float | None = None
    target: str = ""  # "≥ 2.5", "≤ 1e-4": what ``ratio`` has to be
    form: str = "{:.3f}"  # of theirs and ours
    ratio_form: str = "{:.2f}×"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if not self.target or self.ratio is None:
            return None
        sign, bound = self.target.split()
        return self.ratio >= float(bound) if sign == "≥" else self.ratio <= float(bound)

    def cells(self) -> list[str]:
        def text(form: str, value: float | None) -> str:
            return "" if value is None else form.format(value)

        answer = {True: "yes", False: "NO", None: ""}[self.met]
        both = [text(self.form, self.theirs), text(self.form, self.ours)]
        return [self.what, *both, text(self.ratio_form, self.ratio), self.target, answer]


def print_table(title: str, rows: list[Row], peer: str = "CRFsuite") -> None:
    """The rows in aligned plain text."""
    table = [["", peer, "partwise", "ratio", "target", "met"], *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(6)]
    print(f"\n{title}")
    for line in table:
        left, *right = line
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(right, widths[1:], strict=True))
        print(f"  {left.ljust(widths[0])}  {numbers}".rstrip())
    print(flush=True)


# Measurements in processes of their own

HEAD = """
import itertools, json, sys, tempfile
from pathlib import Path
from _timing import attributes, conll2000, peak_memory, sentences
path, limit, stream = conll2000("train"), int(sys.argv[1]) or None, sys.argv[2] == "stream"
keep = (lambda items: items) if stream else list
y = [[row[2] for row in s] for s in sentences(path, limit)]
X = keep(attributes(s) for s in sentences(path, limit))
"""
THEIR_MEMORY = f"""{HEAD}
import pycrfsuite
trainer = pycrfsuite.Trainer("lbfgs", {{"c2": 1.0, "max_iterations": 10}}, verbose=False)
for x, labels in zip(X, y):
    trainer.append(x, labels)
with tempfile.TemporaryDirectory() as folder:
    trainer.train(folder + "/model")
print(json.dumps(peak_memory()))
"""
OUR_MEMORY = f"""{HEAD}
import numpy as np
from partwise import Chain, LBFGS, Problem
from partwise.features import ChainFeatures, RowLayout, Vocabulary
numbers = {{}}
y = [np.array([numbers.setdefault(label, len(numbers)) for label in labels]) for labels in y]
rows = Vocabulary().read(X, grow=True)
n = len(numbers)
layout = RowLayout.observed(rows, np.concatenate(y), n)
features, space = ChainFeatures(layout.pack(rows), layout.dim, n), Chain(np.diff(rows.offsets), n)
del rows
LBFGS(C=0.5, max_passes=10).fit(Problem(space, features, y, "crf"))
print(json.dumps(peak_memory()))
"""


def memory_section(limit: int | None) -> list[Row]:
    """Peak memory of a process that reads the file, makes the attributes and does 10 iterations of L-BFGS."""
    child(OUR_MEMORY, "50", "lists")  # compile
    rows = []
    for way, what in (
        ("stream", "MB, sentence by sentence"),
        ("lists", "MB, all attributes as string lists"),
    ):
        theirs, ours = (child(code, str(limit or 0), way)[0] for code in (THEIR_MEMORY, OUR_MEMORY))
        rows.append(Row(what, theirs, ours, ours / theirs, "≤ 1", "{:.0f}"))
    return rows


FIRST_USE = """
import json, sys
import numpy as np
from partwise import DCA, LBFGS, SGD, Chain, KBestMIRA, Perceptron, Problem
from partwise.features import ChainFeatures, RowLayout, Vocabulary
y = [np.array([0, 1]), np.array([1])]
rows = Vocabulary().read([[["a", "b"], ["b"]], [["c"]]], grow=True)
layout = RowLayout.observed(rows, np.concatenate(y), 2)
features = ChainFeatures(layout.pack(rows), layout.dim, 2)
eval(sys.argv[1]).fit(Problem(Chain([2, 1], 2), features, y, sys.argv[2]))
print(json.dumps(0))
"""
IMPORT = """
import json, sys, time
begin = time.perf_counter()
import partwise
print(json.dumps([time.perf_counter() - begin, "matplotlib" in sys.modules or "torch" in sys.modules]))
"""


def compile_section(repeats: int) -> list[Row]:
    """Seconds of compilation at first use, of a whole later process, and of ``import partwise``."""
    rows = []
    for learner, loss in (
        ("LBFGS(max_passes=1)", "crf"),
        ("Perceptron(max_passes=1)", "perceptron"),
        ("DCA(max_passes=1)", "svm"),
        ("SGD(max_passes=1)", "crf"),
        ("KBestMIRA(max_passes=1)", "svm"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            use = partial(child, FIRST_USE, learner, loss, PARTWISE_CACHE_DIR=folder)
            first = use()[1]
            later = best(use()[1] for _ in range(max(2, repeats)))
        wall, cpu = (a - b for a, b in zip(first, later, strict=True))
        name, seconds = learner.split("(")[0], {"form": "{:.2f}", "ratio_form": "{:.2f} s"}
        rows += [
            Row(f"{name}, {loss}: s to compile (CPU {cpu:.1f})", None, wall, wall, "≤ 15", **seconds),
            Row(
                f"  s of a later process (CPU {later.cpu:.1f})",
                None,
                later.wall,
                later.wall,
                "≤ 1",
                **seconds,
            ),
        ]
    times, heavy = zip(*(child(IMPORT)[0] for _ in range(max(3, repeats))), strict=True)
    rows.append(Row("import partwise: s", None, min(times), min(times), "≤ 0.5", "{:.3f}", "{:.3f} s"))
    print(f"  matplotlib or torch imported by partwise: {'YES' if any(heavy) else 'no'}")
    return rows

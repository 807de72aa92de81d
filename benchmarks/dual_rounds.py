"""Dual learners on four shards of CoNLL-2000 at the same time: passes to a relative gap of 1e-3, against one process.

python benchmarks/dual_rounds.py sdca crf 0.1
python benchmarks/dual_rounds.py frank_wolfe svm 0.01
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import partwise
from partwise.cluster.local import LocalRunner
from partwise.cluster.shards import ShardedObjective
from partwise.data import read_columns
from partwise.learners import find_learner
from partwise.losses import Loss
from partwise.sequences.encoders import make_encoder
from partwise.sequences.labels import encode_labels, find_classes
from partwise.sequences.shards import HeldShard, cut_rows

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def main() -> None:
    name, loss, C = sys.argv[1], Loss.named(sys.argv[2]), float(sys.argv[3])
    options = dict(item.split("=") for item in sys.argv[4:])
    sentences, groups, rounds = (
        int(options.get(key, usual)) for key, usual in (("sentences", 0), ("groups", 4), ("rounds", 0))
    )
    data = read_columns(DATA / "conll2000" / "train.txt", columns=("word", "pos", "chunk"))
    data = data.subset(range(sentences or len(data)))
    seen, labels = data.without("chunk"), data.coded("chunk")
    model = partwise.SequenceLabeler("crfsuite-chunking")
    model.encoder_, model.classes_ = make_encoder(seen, model.templates, None, 1, None), find_classes(labels)
    rows = model.encoder_.fit_transform(seen)
    gold = encode_labels(labels, model.classes_, rows.offsets)
    model.layout_ = rows.layout(gold.codes, len(model.classes_), False)
    learner = find_learner(name)(C=C, max_passes=80, tolerance=1e-3)

    def show(where: str) -> Any:
        def line(record: Any, theta: Any) -> None:
            sigma = record.extra.get("sigma", 1.0)
            relative = record.gap / record.objective
            print(f"{where} pass {record.step} gap {relative:.2e} sigma {sigma:.2f} {record.seconds:.0f} s", flush=True)

        return line

    whole = model._problem(rows, gold, loss, learner, None)
    alone = learner.fit(whole, callbacks=[show("one process")])
    del whole
    shards = [HeldShard(model._problem(*part, loss, learner, None), 0) for part in cut_rows(rows, gold, groups)]
    objective = ShardedObjective(LocalRunner(shards, n_groups=groups), loss)
    sharded = replace(objective.learner_for(learner), rounds=rounds)
    together = sharded.fit(objective, callbacks=[show(f"{groups} groups")])
    passes = len(together.trace), len(alone.trace)
    ratio = np.divide(*passes)
    print(f"{name} {loss} C {C:g}: {passes[0]} passes on {groups} shards, {passes[1]} in one process: {ratio:.2f}")


if __name__ == "__main__":
    main()

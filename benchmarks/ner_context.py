"""CoNLL-2003 by document and sentence by sentence: what presets that look at documents lose without them.

    python benchmarks/ner_context.py

Needs CoNLL-2003 (``PARTWISE_DATA``). Ten passes of DCA, C = 0.1, softmax-margin: chosen on testa.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from _timing import DATA

from partwise import SequenceLabeler, StackedLabeler
from partwise.data import Columns, read_columns
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.tag_repair import repair_report
from partwise.sequences.tags import convert_all

SETTINGS: dict[str, Any] = {"loss": (1, 1), "learner": "dca", "C": 0.1, "max_passes": 10, "scheme": "IOB2"}


def load(part: str) -> tuple[Columns, Any]:
    data = read_columns(DATA / "conll2003" / f"eng.{part}", columns=("word", "pos", "chunk", "ner"))
    tags = convert_all(repair_report(data.coded("ner"), "IOB1").repaired, "IOB1", "IOB2")
    return replace(data, names=data.names[:3], codes=data.codes[:3], vocab=data.vocab[:3]), tags


def main() -> None:
    train, parts = load("train"), {part: load(part) for part in ("testa", "testb")}
    second = SequenceLabeler("ner-second", **{**SETTINGS, "loss": (1, 3), "max_passes": 5})
    models = {
        "`ner`": SequenceLabeler("ner", **SETTINGS),
        "`ner-document`": SequenceLabeler("ner-document", **SETTINGS),
        "two stages": StackedLabeler(SequenceLabeler("ner-document", **SETTINGS), second),
    }
    print("| preset | set | F1 by document | F1 sentence by sentence |\n|---|---|---|---|")
    for name, model in models.items():
        model.fit(*train)
        for part, (data, gold) in parts.items():
            alone = replace(data, docstart=None, documents=data.documents * 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # documents are left out on purpose
                found = [chunk_scores(gold, model.predict(given)).f1 for given in (data, alone)]
            print(f"| {name} | {part} | {100 * found[0]:.2f} | {100 * found[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

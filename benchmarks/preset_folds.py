"""Which templates a preset should contain: held-out folds of the training parts of the corpora, with the defaults.

    python benchmarks/preset_folds.py pos|chunking|ner [--sentences 1500] [--folds 3] [--corpora danish …] [--only text]

The preset, the preset without each of its lines in turn, and with each line that is a candidate; F1 of chunks or
accuracy of tags, in percent: the difference to the preset, the mean over the folds, for each corpus and for all, with
the standard error of that difference over all folds. Training files only; test files are not read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from _timing import Sentence
from numpy.typing import NDArray
from online_defaults import CORPORA, columns, score

from partwise import SequenceLabeler
from partwise.data import Columns
from partwise.templates import PRESETS

#: preset → corpora whose labels are of its kind
TASKS: dict[str, dict[str, Callable[[], list[Sentence]]]] = {
    "pos": {
        **{name: CORPORA[name] for name in ("english", "greek", "danish")},
        "wsj": lambda: columns("ptb_sample/wsj_dependencies.dp", None, 1),
    },
    "chunking": {
        "conll2000": CORPORA["conll2000"],
        "conll2003 chunks": lambda: columns("conll2003/eng.train", 1, 2),
    },
    "ner": {
        "conll2003": CORPORA["conll2003"],
        "conll2003, words alone": lambda: columns("conll2003/eng.train", None, 3),
        "conll2003, lower case": lambda: [
            [[row[0].lower(), "", row[2]] for row in sentence] for sentence in columns("conll2003/eng.train", None, 3)
        ],
        "bc5cdr": CORPORA["bc5cdr"],
    },
}
CANDIDATES = {
    "pos": [
        "word[-1,1]",
        "lower(word)[-3,3]",
        "lower(word)[-1] lower(word)[1]",
        "lower(word)[-2..2 pairs]",
        "prefix(lower(word),5)[0]",
        "prefix(lower(word),2..3)[-1,1]",
        "suffix(lower(word),1..4)[0]",
        "suffix(lower(word),2..3)[-2,2]",
        "suffix(lower(word),2..3)[-1..1 pairs]",
        "suffix(lower(word),3)[-1..1 triples]",
        "shape(word)[-1..1]",
        "short_shape(word)[-1..1 pairs]",
        "corpus_label(lower(word),short_shape(word))[-1..1]",
        "has_digit(word)[0]",
    ],
    "chunking": [
        "lower(word)[-2..2]",
        "word[-1..1] pos[-1..1]",
        "short_shape(word)[-1..1]",
        "pos[-3..3 pairs]",
        "suffix(word,2..3)[-2,2]",
        "first pos[0]",
        "last pos[0]",
    ],
    "ner": [
        "word[-3,3]",
        "lower(word)[-2..2 pairs]",
        "prefix(word,6)[0]",
        "suffix(word,6)[0]",
        "shape(word)[-1..1 triples]",
        "suffix(word,3)[-1..1 pairs]",
        "fold_digits(word)[-1,1]",
        "lower(word)[-1] lower(word)[1]",
        "prefix(lower(word),3..5)[0]",
        "suffix(lower(word),2..4)[0]",
        "is_punct(word)[-1..1]",
        "length(word)[0]",
        "word[0] short_shape(word)[-1,1]",
        "first word[0]",
        "last word[0]",
    ],
}


def variants(preset: str) -> dict[str, str]:
    """Name → template text."""
    lines = [line for line in PRESETS[preset].splitlines() if not line.startswith("#")]
    found = {"": "\n".join(lines)}
    for i, line in enumerate(lines):
        found[f"− {line}"] = "\n".join(lines[:i] + lines[i + 1 :])
    for line in CANDIDATES[preset]:
        found[f"+ {line}"] = "\n".join([*lines, line])
    return found


def folds_of(corpus: list[Sentence], n_sentences: int, n_folds: int) -> list[tuple[Columns, Columns]]:
    """(training, held-out) columns of each fold, of sentences drawn at random."""
    drawn = [corpus[i] for i in np.random.default_rng(0).permutation(len(corpus))[:n_sentences]]
    names = ("word", "pos", "label") if drawn[0][0][1] else ("word", "label")
    keep = (0, 1, 2) if len(names) == 3 else (0, 2)
    rows = [[tuple(row[c] for c in keep) for row in sentence] for sentence in drawn]
    return [
        (
            Columns.from_sentences([s for i, s in enumerate(rows) if i % n_folds != k], names=names),
            Columns.from_sentences([s for i, s in enumerate(rows) if i % n_folds == k], names=names),
        )
        for k in range(n_folds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("preset", choices=list(TASKS))
    parser.add_argument("--sentences", type=int, default=1500)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--corpora", nargs="*")
    parser.add_argument("--only", default="", help="variants whose names hold this")
    options = parser.parse_args()
    begin = time.process_time()
    task = TASKS[options.preset]
    parts = {
        corpus: folds_of(task[corpus](), options.sentences, options.folds) for corpus in options.corpora or list(task)
    }
    base: dict[str, NDArray[np.float64]] = {}
    print(
        f"| {options.preset} | {' | '.join(parts)} | all | standard error |\n|---|{'---|' * (len(parts) + 2)}",
        flush=True,
    )
    for name, text in variants(options.preset).items():
        if name and options.only not in name:
            continue
        found = {}
        for corpus, folds in parts.items():
            lines = []
            for train, held_out in folds:
                model = SequenceLabeler(templates=text).fit(train, train.column("label"))
                lines.append(score(held_out.column("label"), model.predict(held_out), options.preset != "pos"))
            found[corpus] = np.array(lines)
        if not name:
            base = found
            cells = [f"{found[corpus].mean():.2f}" for corpus in parts]
            print(f"| as it is | {' | '.join(cells)} | | |", flush=True)
            continue
        gains = {corpus: found[corpus] - base[corpus] for corpus in parts}
        every = np.concatenate(list(gains.values()))
        cells = [f"{gain.mean():+.2f}" for gain in gains.values()]
        error = every.std(ddof=1) / len(every) ** 0.5
        print(f"| {name} | {' | '.join(cells)} | {every.mean():+.3f} | {error:.3f} |", flush=True)
    print(f"{time.process_time() - begin:.0f} CPU s")


if __name__ == "__main__":
    main()

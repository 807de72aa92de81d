"""Settings of the online learners that work well everywhere: held-out folds of the training parts of six corpora.

    python benchmarks/online_defaults.py [--sentences 1200] [--folds 3] [--only "dca prediction"] [--corpora bc5cdr …]
        [--keep FILE]

Chunks (CoNLL-2000), entities (CoNLL-2003, BC5CDR) and tags (English, Greek and Danish treebanks). Of every training
file some sentences are drawn at random and dealt into folds; each fold is labelled by weights learned from the
others. F1 of chunks, or accuracy of tags, in percent, the mean over the folds, after 5, 10 and 20 passes; test files
are not read. CRFsuite (``pa``, ``ap``) and L-BFGS, the default of ``SequenceLabeler``, are beside them, with the same
attributes. "rank" is the mean over the corpora of the distance to the best setting of our own online learners there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from _timing import DATA, Sentence, sentences
from crfsuite_race import Labels, Ours, Theirs
from numpy.typing import NDArray

from partwise import DCA, LBFGS, SGD, KBestMIRA, Perceptron
from partwise.learners import Learner
from partwise.metrics import chunk_scores

PASSES = (5, 10, 20)


def settings() -> dict[str, tuple[str, Learner]]:
    """Name → loss and learner."""
    last = PASSES[-1]
    found: dict[str, tuple[str, Learner]] = {"perceptron": ("perceptron", Perceptron(max_passes=last))}
    for C in (0.02, 0.05, 0.1, 0.3, 1.0):
        found[f"dca svm, C = {C:g}"] = ("svm", DCA(C=C, max_passes=last))
    for margin in ("cost", "root"):
        for C in (0.05, 0.1, 0.3, 1.0):
            learner = DCA(C=C, variant="prediction", margin=margin, max_passes=last)
            found[f"dca prediction, {margin}, C = {C:g}"] = ("svm", learner)
    for C in (0.05, 0.1, 0.3, 1.0):
        found[f"dca crf, C = {C:g}"] = ("crf", DCA(C=C, max_passes=last))
    for C in (0.05, 0.3, 1.0):
        found[f"mira, k = 5, C = {C:g}"] = ("svm", KBestMIRA(C=C, max_passes=last))
    for C in (1.0, 10.0):
        for average in (False, True):
            name = f"sgd crf{', averaged' if average else ''}, C = {C:g}"
            found[name] = ("crf", SGD(C=C, average=average, max_passes=last))
    for C in (0.3, 1.0, 3.0, 10.0):
        found[f"lbfgs crf, C = {C:g}"] = ("crf", LBFGS(C=C))
    return found


# Corpora: rows of (word, tag or nothing, label)


def columns(path: str, tag: int | None, label: int) -> list[Sentence]:
    return [
        [[row[0], row[tag] if tag is not None else "", row[label]] for row in sentence]
        for sentence in sentences(DATA / path)
        if sentence[0][0] != "-DOCSTART-"
    ]


def treebank(path: str, label: int) -> list[Sentence]:
    """Words and their tags, of CoNLL-U or CoNLL-X; comments, ranges and empty nodes are left out."""
    found: list[Sentence] = [[]]
    with open(DATA / path, encoding="utf-8") as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if len(fields) > label and fields[0].isdigit():
                if fields[0] == "1" and found[-1]:
                    found.append([])
                found[-1].append([fields[1], "", fields[label]])
    return found


CORPORA: dict[str, Callable[[], list[Sentence]]] = {
    "conll2000": lambda: columns("conll2000/train.txt", 1, 2),
    "conll2003": lambda: columns("conll2003/eng.train", 1, 3),
    "bc5cdr": lambda: columns("bc5cdr/train.tsv", None, 1),
    "english": lambda: treebank("ud_english_ewt/en_ewt-ud-train.conllu", 3),
    "greek": lambda: treebank("ud_greek_gdt/el_gdt-ud-train.conllu", 3),
    "danish": lambda: treebank("ddt_danish/ddt_train.conll", 3),
}
CHUNKS = ("conll2000", "conll2003", "bc5cdr")


def attributes(sentence: Sentence) -> list[list[str]]:
    """Words and tags around, and the form of the word, as strings."""
    n, found = len(sentence), []
    for t, (word, _, _) in enumerate(sentence):
        here = ["bias", f"lower={word.lower()}", f"shape={shape(word)}"]
        here += [f"{d}:w={sentence[t + d][0]}" for d in range(-2, 3) if 0 <= t + d < n]
        here += [f"{d}:s={sentence[t + d][0][-3:]}" for d in (-1, 1) if 0 <= t + d < n]
        here += [f"p={word[:k]}" for k in (1, 2, 3)] + [f"s={word[-k:]}" for k in (1, 2, 3)]
        here += [f"{d}:t={sentence[t + d][1]}" for d in range(-2, 3) if 0 <= t + d < n and sentence[t + d][1]]
        found.append(here)
    return found


def shape(word: str) -> str:
    kinds = ["X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word]
    return "".join(kind for kind, _ in itertools.groupby(kinds))


def folds(corpus: list[Sentence], n_sentences: int, n_folds: int) -> Iterator[SimpleNamespace]:
    chosen = np.random.default_rng(0).permutation(len(corpus))[:n_sentences]
    drawn = [corpus[i] for i in chosen]
    for k in range(n_folds):
        parts = ([s for i, s in enumerate(drawn) if (i % n_folds == k) == held] for held in (False, True))
        train, test = parts
        yield SimpleNamespace(
            train=[attributes(s) for s in train],
            test=[attributes(s) for s in test],
            labels=[[row[2] for row in s] for s in train],
            gold=[[row[2] for row in s] for s in test],
        )


def score(gold: Labels, predicted: Labels, chunks: bool) -> float:
    """F1 of chunks, or the share of labels that are right, in percent."""
    if chunks:
        return 100 * chunk_scores(gold, predicted).f1
    pairs = [(a, b) for x, y in zip(gold, predicted, strict=True) for a, b in zip(x, y, strict=True)]
    return 100 * float(np.mean([a == b for a, b in pairs]))


def race(corpus: str, only: str, n_sentences: int, n_folds: int) -> dict[str, NDArray[Any]]:
    """Name → scores (folds, passes)."""
    found: dict[str, list[list[float]]] = {}
    chunks = corpus in CHUNKS
    for fold in folds(CORPORA[corpus](), n_sentences, n_folds):
        ours, theirs = Ours(fold), Theirs(fold)
        for algorithm in ("pa", "ap") if not only else ():
            taggers = [theirs.train(algorithm, max_iterations=passes).tagger for passes in PASSES]
            line = [score(fold.gold, theirs.tag(tagger), chunks) for tagger in taggers]
            found.setdefault(f"CRFsuite {algorithm}", []).append(line)
        for name, (loss, learner) in settings().items():
            if only not in name:
                continue
            seen: dict[int, float] = {}

            def look(record: Any, theta: Any, seen: dict[int, float] = seen) -> None:
                if record.step in PASSES:
                    seen[record.step] = score(fold.gold, ours.tag(theta), chunks)  # noqa: B023

            result = learner.fit(ours.problem(loss), callbacks=[look] if not isinstance(learner, LBFGS) else [])
            last = score(fold.gold, ours.tag(result.theta), chunks)
            found.setdefault(name, []).append([seen.get(passes, last) for passes in PASSES])
    return {name: np.array(lines) for name, lines in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=1200)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--only", default="", help="settings whose names hold this")
    parser.add_argument("--corpora", nargs="*", default=list(CORPORA), choices=list(CORPORA))
    parser.add_argument("--keep", type=Path, help="finished corpora, as JSON: they are not run again")
    options = parser.parse_args()
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    tables = {corpus: {name: np.array(lines) for name, lines in kept[corpus].items()} for corpus in kept}
    for corpus in options.corpora:
        if corpus in tables:
            continue
        begin = time.process_time()
        tables[corpus] = race(corpus, options.only, options.sentences, options.folds)
        print(f"{corpus}: {time.process_time() - begin:.0f} CPU s", flush=True)
        for name, lines in tables[corpus].items():
            shown = " ".join(f"{value:6.2f}" for value in lines.mean(axis=0))
            print(
                f"  {name:36s} {shown}  (standard error {lines[:, 1].std(ddof=1) / len(lines) ** 0.5:.2f})", flush=True
            )
        if options.keep:
            everything = {c: {name: lines.tolist() for name, lines in found.items()} for c, found in tables.items()}
            options.keep.write_text(json.dumps(everything))
    names = list(next(iter(tables.values())))
    for k, passes in enumerate(PASSES):
        print(
            f"\n| after {passes} passes | {' | '.join(tables)} | behind the best |\n|---|{'---|' * (len(tables) + 1)}"
        )
        means = np.array([[tables[corpus][name][:, k].mean() for corpus in tables] for name in names])
        online = [i for i, name in enumerate(names) if not name.startswith(("CRFsuite", "lbfgs"))]
        behind = (means[online or slice(None)].max(axis=0) - means).mean(axis=1)
        for i in np.argsort(behind):
            print(f"| {names[i]} | {' | '.join(f'{value:.2f}' for value in means[i])} | {behind[i]:.2f} |")


if __name__ == "__main__":
    main()

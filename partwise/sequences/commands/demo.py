"""``partwise demo``: learn, compare, explain and report on the embedded sample, in under a minute."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.cli.console import note, percent, print_json, print_table
from partwise.cli.registry import Command
from partwise.exceptions import StorageError
from partwise.sequences.commands._files import without

if TYPE_CHECKING:
    from partwise.data.columns import Columns
    from partwise.sequences.labeler import SequenceLabeler

EXAMPLES = """
partwise demo
partwise demo --out demo
partwise demo --json
"""

# What is learned: the label column and its templates, in words.
TASKS = {
    "ner": ("ner", "names of people, places, organisations"),
    "chunk": ("chunking", "noun, verb, ... phrases"),
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "CRF": {"loss": "crf", "learner": "lbfgs", "max_passes": 60},
    "SVM": {"loss": "svm", "learner": "dca", "max_passes": 15},
    "averaged perceptron": {"learner": "perceptron", "max_passes": 15},
}


class Run(NamedTuple):
    """One system trained for one task, and its scores on the test half."""

    task: str
    system: str
    precision: float
    recall: float
    f1: float
    accuracy: float
    seconds: float


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default=os.path.join("out", "demo"),
        help="where models and report go (default: out/demo)",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="only the results")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


def run(args: argparse.Namespace) -> None:
    from partwise.sequences.report import sequence_report
    from partwise.sequences.sample import load_sample
    from partwise.storage import check_writable

    try:
        os.makedirs(args.out, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{args.out}: cannot be made a folder: {error.strerror}") from None
    report = os.path.join(args.out, "report.html")
    check_writable(report)
    train, test = load_sample(split="train"), load_sample(split="test")
    note(args, f"embedded sample: {len(train)} sentences to learn from, {len(test)} to test on")
    note(args, "compiling (about half a minute the first time, then kept)")
    few = train.subset(range(4))
    for system in SYSTEMS:
        learn("chunk", system, few, few)
    runs: list[Run] = []
    models: dict[str, SequenceLabeler] = {}
    for task in TASKS:
        for system in SYSTEMS:
            note(args, f"training: {task}, {system}")
            model, scores = learn(task, system, train, test)
            runs.append(scores)
            if system == "CRF":
                models[task] = model
                model.save(os.path.join(args.out, f"{task}.pw"))
    note(args, "writing the report")
    names = without(test, "ner")
    info = {
        "file": "embedded sample",
        "sentences": len(train),
        "tokens": train.tokens,
        "seconds": runs[0].seconds,
    }
    sequence_report(
        report,
        models["ner"],
        names,
        test.column("ner"),
        title="Entities in the embedded sample",
        train_info=info,
    )
    if args.json:
        print_json({"runs": [each._asdict() for each in runs], "models": args.out, "report": report})
        return
    show(runs)
    print()
    show_explanations(models["ner"], names, test.column("ner"))
    print(f"\nmodels: {', '.join(os.path.join(args.out, f'{task}.pw') for task in TASKS)}")
    print(f"report: {report}")


def learn(task: str, system: str, train: Columns, test: Columns) -> tuple[SequenceLabeler, Run]:
    """Train one system and score it. What comes after the task's column in the file is not given to it."""
    from partwise.sequences.chunks import chunk_scores
    from partwise.sequences.labeler import SequenceLabeler

    columns = train.names[: train.names.index(task) + 1]
    seen, unseen = (_only(data, columns[:-1]) for data in (train, test))
    begin = time.perf_counter()
    model = SequenceLabeler(TASKS[task][0], columns=columns[:-1], **SYSTEMS[system]).fit(seen, train.coded(task))
    seconds = time.perf_counter() - begin
    model.info_ = {"columns": list(columns), "label": task}
    found = chunk_scores(test.coded(task), model.predict_coded(unseen))
    return model, Run(task, system, found.precision, found.recall, found.f1, found.accuracy, seconds)


def _only(data: Columns, names: tuple[str, ...]) -> Columns:
    for name in data.names:
        data = data if name in names else without(data, name)
    return data


def show(runs: list[Run]) -> None:
    for task, (_, words) in TASKS.items():
        rows = [
            (
                r.system,
                percent(r.precision),
                percent(r.recall),
                percent(r.f1),
                percent(r.accuracy),
                f"{r.seconds:.1f}",
            )
            for r in runs
            if r.task == task
        ]
        print()
        print_table(
            ("learned by", "precision", "recall", "F1", "accuracy", "seconds"),
            rows,
            f"{task}: {words} (test)",
        )


def show_explanations(model: SequenceLabeler, data: Columns, gold: list[list[str]], n: int = 3, top: int = 4) -> None:
    """An entity found against rivals, one found with ease, and a mistake, with the weights that decided."""
    predicted, marginals = model.predict(data), model.predict_marginals(data)
    number = {label: j for j, label in enumerate(model.classes_)}
    rated = [
        (float(marginals[i][t, number[label]]), i, t, label == gold[i][t])
        for i, sequence in enumerate(predicted)
        for t, label in enumerate(sequence)
        if label != "O" or gold[i][t] != "O"
    ]
    right, wrong = sorted(r for r in rated if r[3]), sorted(r for r in rated if not r[3])
    chosen = [
        ("found against rivals", right[:1]),
        ("found with ease", right[-1:]),
        ("a mistake, and sure of it", wrong[-1:]),
    ]
    for title, picks in chosen[:n]:
        for _, i, t, _ in picks:
            words = data.sentence(i, "word")
            shown = " ".join(f"[{word}]" if s == t else word for s, word in enumerate(words))
            mistaken = predicted[i][t] != gold[i][t]
            rival = gold[i][t] if mistaken and gold[i][t] in number else None
            explanation = model.explain(data, t, against=rival, sequence=i)
            correct = f"; correct is {gold[i][t]}" if mistaken else ""
            print(f"{title}: {shown}")
            print(
                f"  {explanation.label} (p = {explanation.probability:.2f}) rather than {explanation.rival} "
                f"(p = {explanation.rival_probability:.2f}){correct}"
            )
            for c in explanation.contributions[:top]:
                print(f"  {c.difference:+7.2f}  {c.name}")


COMMAND = Command("demo", "learn, compare, explain and report on an embedded sample", configure, run, EXAMPLES, rank=6)

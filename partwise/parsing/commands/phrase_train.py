"""``partwise phrase-train``: a phrase parser from bracketed trees."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.registry import Command
from partwise.cli.training import Account, add_files, add_learning, check_files, learning_settings, train

EXAMPLES = """
partwise phrase-train train.mrg --dev dev.mrg --model phrases.pw
partwise phrase-train train.mrg --model phrases.pw --loss crf --C 0.1
partwise phrase-train train.mrg --dev dev.mrg --model phrases.pw --max-passes 8 --report report.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "bracketed trees; traces and function tags are removed", "trees")
    group = parser.add_argument_group("grammar")
    group.add_argument(
        "--vertical",
        type=int,
        choices=(1, 2),
        default=1,
        help="2: symbols are annotated with their parent (default: 1)",
    )
    group.add_argument(
        "--horizontal",
        metavar="N",
        type=int,
        default=1,
        help="number of children that the inner symbols of long rules remember (default: 1)",
    )
    group.add_argument(
        "--threshold",
        metavar="P",
        type=float,
        default=1e-3,
        help="smallest posterior to keep in the coarse pass (default: 0.001)",
    )
    group.add_argument("--bits", metavar="N", type=int, default=24, help="2^N weights (default: 24)")
    add_learning(parser, learner="dca", loss_help="(default: svm; the perceptron has its own)", C=0.01, max_passes=10)


def describe(model: Any) -> str:
    labels, symbols = len(model.model_.labels), len(model.model_.fine.symbols)
    kept = f"the coarse pass keeps {100 * model.recall_.share:.2f}% of the nodes of held-out training trees"
    return f"{labels} labels, {symbols} symbols; {kept}"


def evaluate(model: Any, dev: Any) -> tuple[dict[str, Any], str]:
    scores = model.evaluate(dev)
    numbers = {"f1": scores.f1, "precision": scores.precision, "recall": scores.recall, "fallbacks": model.fallbacks_}
    return numbers, f"{scores}, {model.fallbacks_} without a parse"


def run(args: argparse.Namespace) -> int:
    from partwise.parsing import PhraseParser, phrase_report, read_trees

    check_files(args, "trees")
    model = PhraseParser(vertical=args.vertical, horizontal=args.horizontal, threshold=args.threshold, bits=args.bits,
                         **learning_settings(args))  # fmt: skip
    account = Account(describe, lambda model: {"pruning_recall": model.recall_.share}, evaluate, phrase_report, True)
    sizes = lambda data: {"trees": len(data), "words": sum(map(len, data))}  # noqa: E731
    return train(args, model, read_trees, sizes, account)


COMMAND = Command("phrase-train", "train a phrase parser on bracketed trees", configure, run, EXAMPLES, rank=32)

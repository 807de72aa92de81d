"""``partwise parse-train``: a dependency parser from a treebank."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.registry import Command, UsageError
from partwise.cli.training import Account, add_files, add_learning, check_files, learning_settings, train

EXAMPLES = """
partwise parse-train train.conllu --dev dev.conllu --model parser.pw
partwise parse-train train.conllu --model parser.pw --loss crf --C 0.1
partwise parse-train train.conllu --dev dev.conllu --model parser.pw --order 2 --report report.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "sentences with trees: CoNLL-U or CoNLL-X", "sentences")
    group = parser.add_argument_group("model")
    group.add_argument("--order", type=int, choices=(1, 2), default=1, help="2: siblings and grandparents (default: 1)")
    group.add_argument("--projective", action="store_true", help="only trees without crossing arcs (first order)")
    group.add_argument(
        "--roots",
        choices=("one", "several"),
        help="how many words may depend on the root (default: as in the treebank)",
    )
    group.add_argument("--unlabelled", action="store_true", help="learn heads only, without relations")
    group.add_argument("--arc-bits", metavar="N", type=int, default=24, help="2^N weights of arcs (default: 24)")
    group.add_argument("--row-bits", metavar="N", type=int, default=19, help="2^N rows of relations (default: 19)")
    add_learning(parser, learner="dca", loss_help="(default: svm; the perceptron has its own)", C=0.01, max_passes=10)


def make(args: argparse.Namespace) -> Any:
    """The parser that the flags describe."""
    from partwise.parsing import DependencyParser, SecondOrderParser

    settings: dict[str, Any] = {
        "single_root": None if args.roots is None else args.roots == "one", "labelled": not args.unlabelled,
        "arc_bits": args.arc_bits, "row_bits": args.row_bits, **learning_settings(args),
    }  # fmt: skip
    if args.order == 2:
        if args.projective:
            raise UsageError("--projective is for --order 1")
        return SecondOrderParser(**settings)
    return DependencyParser(projective=args.projective, **settings)


def evaluate(model: Any, dev: Any) -> tuple[dict[str, Any], str]:
    from partwise.parsing import attachment_scores

    scores = attachment_scores(dev, model.predict(dev))
    return {"uas": scores.uas, "las": scores.las, "clas": scores.clas}, str(scores)


def run(args: argparse.Namespace) -> int:
    from partwise.parsing import parsing_report, read_conllu

    check_files(args, "sentences")
    account = Account(
        lambda model: f"{len(model.relations_)} relations", lambda model: {}, evaluate, parsing_report, True
    )
    return train(
        args, make(args), lambda path: read_conllu(path, trees=False),
        lambda data: {"sentences": len(data), "words": sum(map(len, data))}, account, read_conllu,
    )  # fmt: skip


COMMAND = Command("parse-train", "train a dependency parser on a treebank", configure, run, EXAMPLES, rank=6)

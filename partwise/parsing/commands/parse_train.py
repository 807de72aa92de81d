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
partwise parse-train train.conllu --dev dev.conllu --model parser.pw --transitions
"""

LEARNER, C = "dca", 0.01


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "sentences with trees: CoNLL-U or CoNLL-X", "sentences")
    group = parser.add_argument_group("model")
    group.add_argument("--order", type=int, choices=(1, 2), default=1, help="2: siblings and grandparents (default: 1)")
    group.add_argument("--transitions", action="store_true", help="a transition parser: linear time, no probabilities")
    group.add_argument("--beam", metavar="N", type=int, help="with --transitions: beam size (default: 1)")
    group.add_argument("--projective", action="store_true", help="only trees without crossing arcs (first order)")
    group.add_argument(
        "--roots",
        choices=("one", "several"),
        help="how many words may depend on the root (default: as in the treebank)",
    )
    group.add_argument("--unlabelled", action="store_true", help="learn heads only, without relations")
    group.add_argument(
        "--arc-bits", metavar="N", type=int, help="2^N weights of arcs (default: 24), or rows of steps (default: 20)"
    )
    group.add_argument(
        "--row-bits", metavar="N", type=int, help="2^N rows of relations (default: 19; with --transitions 17)"
    )
    add_learning(parser, learner=LEARNER, loss_help="(default: svm; the perceptron has its own)", C=C, max_passes=10)


def make(args: argparse.Namespace) -> Any:
    """The parser that the flags describe."""
    from partwise.parsing import DependencyParser, SecondOrderParser

    if args.transitions:
        return make_transition_parser(args)
    if args.beam is not None:
        raise UsageError("--beam is for --transitions")
    settings: dict[str, Any] = {
        "single_root": None if args.roots is None else args.roots == "one", "labelled": not args.unlabelled,
        "arc_bits": 24 if args.arc_bits is None else args.arc_bits,
        "row_bits": 19 if args.row_bits is None else args.row_bits, **learning_settings(args),
    }  # fmt: skip
    if args.order == 2:
        if args.projective:
            raise UsageError("--projective is for --order 1")
        return SecondOrderParser(**settings)
    return DependencyParser(projective=args.projective, **settings)


def make_transition_parser(args: argparse.Namespace) -> Any:
    """The parser of --transitions, which a search trains: flags of losses and learners are not for it."""
    from partwise.parsing import TransitionParser

    unused = {
        "--order 2": args.order == 2, "--projective": args.projective, "--loss": args.loss is not None,
        "--learner": args.learner != LEARNER, "--C": args.C != C,
    }  # fmt: skip
    for flag, given in unused.items():
        if given:
            raise UsageError(f"{flag} is not for --transitions: its trees are projective, and LaSO trains it")
    bits = {"step_bits": args.arc_bits, "row_bits": args.row_bits, "beam": args.beam}
    names = ("max_passes", "learner_options", "patience", "random_state", "n_jobs", "verbose")
    settings = learning_settings(args)
    return TransitionParser(
        single_root=None if args.roots is None else args.roots == "one", labelled=not args.unlabelled,
        **{name: value for name, value in bits.items() if value is not None},
        **{name: settings[name] for name in names},
    )  # fmt: skip


def evaluate(model: Any, dev: Any) -> tuple[dict[str, Any], str]:
    from partwise.parsing import attachment_scores

    scores = attachment_scores(dev, model.predict(dev))
    return {"uas": scores.uas, "las": scores.las, "clas": scores.clas}, str(scores)


def run(args: argparse.Namespace) -> int:
    from partwise.parsing import parsing_report, read_conllu

    check_files(args, "sentences")
    about = lambda model: f"{len(model.relations_)} relations"  # noqa: E731
    account = Account(about, lambda model: {}, evaluate, parsing_report, not args.transitions)
    return train(
        args, make(args), lambda path: read_conllu(path, trees=False),
        lambda data: {"sentences": len(data), "words": sum(map(len, data))}, account, read_conllu,
    )  # fmt: skip


COMMAND = Command("parse-train", "train a dependency parser on a treebank", configure, run, EXAMPLES, rank=30)

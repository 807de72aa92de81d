"""``partwise topics train | infer | show``: topic models of texts, with classes (DiscLDA) or without (LDA)."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.engine import add_engine
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_read_model, count, settle_model
from partwise.topics.commands import _runs as topic_runs
from partwise.topics.commands._documents import add_input

EXAMPLES = """
partwise topics train letters/ --model letters.pw
partwise topics infer letters.pw new.txt
partwise topics show letters.pw --top 15
"""
_EXAMPLES = {
    "train": """
partwise topics train letters/ -m letters.pw
partwise topics train posts.tsv --tab -m posts.pw --class-topics 5 --shared-topics 10 --learn
partwise topics train posts.tsv --tab --test test.tsv -m posts.pw --report report.html
partwise topics train abstracts.txt -m lda.pw --topics 50 --checkpoint run.ckpt
""",
    "infer": """
partwise topics infer letters.pw new.txt
partwise topics infer letters.pw unseen/ --json
cat new.txt | partwise topics infer letters.pw -
""",
    "show": """
partwise topics show letters.pw
partwise topics show letters.pw --each --top 5
partwise topics show posts.pw --data test.tsv --tab --report report.html
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    places = parser.add_subparsers(title="what to do", metavar="train | infer | show")
    parser.set_defaults(action=None)
    for name, line, add, run in (
        ("train", "fit a model to texts: DiscLDA if they have classes, LDA otherwise", _add_train, topic_runs.train),
        ("infer", "predict classes and topics of new texts", _add_infer, topic_runs.infer),
        ("show", "show the words of the topics; write a report", _add_show, topic_runs.show),
    ):
        examples = "examples:\n" + "".join(f"  {text}\n" for text in _EXAMPLES[name].strip().splitlines())
        part = places.add_parser(
            name,
            help=line,
            description=line[:1].upper() + line[1:] + ".",
            epilog=examples,
            formatter_class=parser.formatter_class,
        )
        add(part)
        part.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of errors")
        part.set_defaults(action=run)


def _add_train(parser: argparse.ArgumentParser) -> None:
    what = "a file with one document per line, or a folder with one folder per class; '-' is standard input"
    parser.add_argument("data", metavar="DATA", help=what)
    parser.add_argument("--model", "-m", "--save", metavar="FILE", help="the model file to write (required)")
    add_input(parser)
    group = parser.add_argument_group("words")
    group.add_argument(
        "--stop-words", metavar="W", default="english", help="english, none, or a file (default: english)"
    )
    group.add_argument(
        "--min-documents", metavar="N", type=int, default=1, help="keep words that occur in at least N documents"
    )
    group.add_argument(
        "--max-documents",
        metavar="S",
        type=float,
        default=1.0,
        help="drop words that occur in a larger share of the documents",
    )
    group.add_argument("--max-words", metavar="N", type=int, help="keep only the N most frequent words")
    group = parser.add_argument_group("model")
    group.add_argument("--lda", action="store_true", help="use LDA even if there are labels")
    group.add_argument("--topics", metavar="K", type=int, help="topics of LDA (default: 20)")
    group.add_argument("--class-topics", metavar="N", type=int, help="topics per class (default: 5)")
    group.add_argument("--shared-topics", metavar="N", type=int, help="topics shared by all classes (default: 10)")
    group.add_argument("--learn", action="store_true", help="learn the transformation T instead of fixing its blocks")
    group.add_argument("--variational", action="store_true", help="mean field instead of sampling (DiscLDA)")
    group.add_argument("--iterations", metavar="N", type=int, default=200, help="sweeps (default: 200)")
    group.add_argument(
        "--samples", metavar="N", type=int, help="samples per class and document for p(y|w) (default: 192)"
    )
    group.add_argument(
        "--alpha", metavar="A", type=float, help="Dirichlet parameter of the topic proportions (default: 10/K)"
    )
    group.add_argument(
        "--beta", metavar="B", type=float, default=0.01, help="Dirichlet parameter of the topics (default: 0.01)"
    )
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random number generator (default: 0)"
    )
    group = parser.add_argument_group("run")
    group.add_argument(
        "--test", metavar="DATA", help="labelled documents in the format of DATA; the error rate on them is reported"
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the training state to this file from time to time, and resume from it",
    )
    group.add_argument("--report", metavar="FILE", help="write an HTML report (on --test if given)")
    group.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads of inference (default: 1)")
    add_engine(group)
    _add_output(group)


def _add_infer(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.set_defaults(after_model="data")
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        help="documents, read as in training; with labels, the error rate is reported",
    )
    add_input(parser)
    parser.add_argument(
        "--top", metavar="N", type=count, default=3, help="number of topics to show per document (default: 3)"
    )
    parser.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    _add_output(
        parser, "one JSON object per document, with the probabilities of all classes and the shares of all topics"
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.set_defaults(after_model=None)
    parser.add_argument("--top", metavar="N", type=count, default=10, help="number of words to show (default: 10)")
    parser.add_argument("--each", action="store_true", help="show each topic separately, not only groups")
    parser.add_argument("--group", metavar="NAME", help="only this class, or 'shared'")
    parser.add_argument("--data", metavar="DATA", help="documents for the report")
    parser.add_argument("--report", metavar="FILE", help="write an HTML report on the documents of --data")
    parser.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    add_input(parser)
    _add_output(parser)


def _add_output(parser: Any, json: str = "print the result as JSON") -> None:
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help=json)


def run(args: argparse.Namespace) -> int | None:
    if args.action is None:
        raise UsageError("what to do: train, infer or show? (partwise topics --help)")
    if "named_model" in args:
        settle_model(args, args.after_model)
    done: int | None = args.action(args)
    return done


COMMAND = Command(
    "topics", "train and use topic models of texts, with or without classes", configure, run, EXAMPLES, rank=60
)

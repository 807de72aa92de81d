"""``partwise parse``: trees of sentences in CoNLL-U or CoNLL-X, as they come."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

from partwise.cli.console import note, print_json, tell
from partwise.cli.registry import Command
from partwise.cli.stream import opened
from partwise.exceptions import InputError
from partwise.parsing.commands._flags import check_flags, load_parser

EXAMPLES = """
partwise parse input.conllu --model parser.pw > parsed.conllu
cat input.conllu | partwise parse --model parser.pw
partwise parse test.conllu --model parser.pw --evaluate --report report.html -o parsed.conllu
partwise parse input.conllu --model parser.pw --kbest 5
partwise parse input.conllu --model parser.pw --probabilities
"""

BATCH = 200  # sentences that are parsed at a time


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="FILE", nargs="?", default="-", help="CoNLL-U or CoNLL-X (default: standard input)"
    )
    parser.add_argument("--model", "-m", metavar="FILE", help="a model of partwise parse-train (required)")
    parser.add_argument("--output", "-o", metavar="FILE", default="-", help="where to write the trees")
    parser.add_argument("--risk", action="store_true", help="predict the tree with the most expected correct arcs")
    parser.add_argument("--kbest", metavar="K", type=int, help="the K best trees of every sentence, with probabilities")
    parser.add_argument(
        "--probabilities", action="store_true", help="add 'HeadProb=…' to the last column of every word"
    )
    parser.add_argument("--evaluate", action="store_true", help="compare with the trees of the input: UAS, LAS, CLAS")
    parser.add_argument("--report", metavar="FILE", help="with --evaluate: write an HTML report")
    parser.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="with --evaluate: the scores as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="print no messages")


def open_text(path: str) -> IO[str]:
    """A file of text, or an error that names it."""
    try:
        return open(path, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def batches(sentences: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Sentences in lists; one at a time if input comes from a terminal or a pipe."""
    block: list[Any] = []
    for sentence in sentences:
        block.append(sentence)
        if len(block) >= size:
            yield block
            block = []
    if block:
        yield block


def parsed(args: argparse.Namespace, model: Any, block: list[Any]) -> list[Any]:
    """What is to be written for some sentences."""
    if args.kbest is not None:
        found = []
        for trees in model.predict_kbest(block, args.kbest):
            for r, tree in enumerate(trees, 1):
                said = {"rank": str(r), "probability": f"{tree.probability:.6g}"}
                found.append(tree.with_comments(**said, **({} if tree.proved else {"proved": "no"})))
        return found
    trees = model.predict(block, decoding="risk") if args.risk else model.predict(block)
    if not args.probabilities:
        answer: list[Any] = trees
        return answer
    return [with_probabilities(tree, mass) for tree, mass in zip(trees, model.predict_marginals(block), strict=True)]


def with_probabilities(sentence: Any, mass: Any) -> Any:
    """A copy whose words have the probability of their head in the last column."""
    heads, rows = iter(enumerate(sentence.heads.tolist())), []
    for row in sentence.rows:
        if row[0].isdecimal():
            m, head = next(heads)
            said = f"HeadProb={mass[head, m]:.4f}"
            row = (*row[:9], said if row[9] == "_" else f"{row[9]}|{said}")
        rows.append(row)
    return type(sentence)(rows, sentence.comments, sentence.source)


def run(args: argparse.Namespace) -> None:
    from partwise.parsing import DependencyParser, TransitionParser, attachment_scores, parse_conllu

    check_flags(args)
    model = load_parser(args, (DependencyParser, TransitionParser), "dependency")
    if isinstance(model, TransitionParser) and (args.risk or args.kbest is not None or args.probabilities):
        raise InputError(
            f"{args.model}: a transition parser has no probabilities, which --risk, --kbest and --probabilities need"
        )
    stream = sys.stdin if args.input == "-" else open_text(args.input)
    name = "<stdin>" if args.input == "-" else args.input
    size = 1 if args.input == "-" and sys.stdin.isatty() else BATCH
    gold, found = [], []
    try:
        with opened(args.output) as write:
            for block in batches(parse_conllu(stream, name, trees=args.evaluate), size):
                trees = parsed(args, model, block)
                write("".join(tree.text() for tree in trees))
                if args.evaluate:
                    gold += block
                    found += trees
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error.reason} at byte {error.start})") from error
    finally:
        if stream is not sys.stdin:
            stream.close()
    if not args.evaluate:
        return
    scores, bare = (attachment_scores(gold, found, punctuation=p) for p in (True, False))
    if args.report is not None:
        from partwise.parsing.report import parsing_report

        parsing_report(args.report, model, gold, title=f"{args.model} on {name}")
        note(args, f"report: {args.report}")
    if args.json and args.output != "-":
        print_json(
            {
                "uas": scores.uas,
                "las": scores.las,
                "las_universal": scores.las_universal,
                "clas": scores.clas,
                "uas_bare": bare.uas,
                "las_bare": bare.las,
            }
        )
        return
    say = tell if args.output == "-" else print  # standard output has the trees
    say(str(scores))
    say(f"relations without subtypes, as CoNLL-2018 compares them: LAS {scores.las_universal:.2f}")
    say(f"without punctuation: UAS {bare.uas:.2f}  LAS {bare.las:.2f}")


COMMAND = Command("parse", "parse sentences with a trained parser", configure, run, EXAMPLES, rank=31)

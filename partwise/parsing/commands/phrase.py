"""``partwise phrase``: trees of sentences, one per line, as they come."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from partwise.cli.console import note, print_json, tell
from partwise.cli.registry import Command, UsageError
from partwise.cli.stream import opened
from partwise.exceptions import InputError
from partwise.parsing.commands._flags import check_flags, load_parser
from partwise.parsing.commands.parse import BATCH, batches, open_text
from partwise.parsing.phrases.trees import escaped

EXAMPLES = """
partwise phrase sentences.txt --model phrases.pw > trees.mrg
echo "the dog slept ." | partwise phrase --model phrases.pw
partwise phrase test.mrg --model phrases.pw --evaluate --report report.html -o trees.mrg
partwise phrase sentences.txt --model phrases.pw --kbest 5
partwise phrase sentences.txt --model phrases.pw --probabilities
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="FILE", nargs="?", default="-",
        help="one sentence per line, with spaces between words; with --evaluate, bracketed trees (default: stdin)",
    )  # fmt: skip
    parser.add_argument("--model", "-m", metavar="FILE", help="a model of partwise phrase-train (required)")
    parser.add_argument("--output", "-o", metavar="FILE", default="-", help="where to write the trees")
    parser.add_argument("--risk", action="store_true", help="predict the tree with the fewest expected errors")
    parser.add_argument(
        "--kbest", metavar="K", type=int, help="the K best trees: rank, probability and tree, separated by tabs"
    )
    parser.add_argument(
        "--probabilities", action="store_true", help="constituents instead of trees: start, stop, label, probability"
    )
    parser.add_argument("--evaluate", action="store_true", help="compare with the trees of the input: labelled F1")
    parser.add_argument("--report", metavar="FILE", help="with --evaluate: write an HTML report")
    parser.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="with --evaluate: the scores as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="print no messages")


def sentences(lines: Iterable[str], name: str) -> Iterator[list[str]]:
    """The words of every line; blank lines are no sentences."""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words and words[0].startswith("(") and len(words) > 1 and words[-1].endswith(")"):
            raise InputError(f"{name}:{number}: a bracketed tree; expected words separated by spaces, or --evaluate")
        if words:
            yield [escaped(word) for word in words]


def written(args: argparse.Namespace, model: Any, block: list[Any]) -> tuple[str, list[Any]]:
    """(what is to be written for some sentences, their trees)."""
    if args.kbest is not None:
        lines = []
        for ranked in model.predict_kbest(block, args.kbest):
            args.fallbacks += not ranked
            lines += [f"{r}\t{t.probability:.6g}\t{t.tree}" for r, t in enumerate(ranked, 1)]
            lines.append("")
        return "".join(f"{line}\n" for line in lines), []
    if args.probabilities:
        lines = []
        for found in model.predict_marginals(block):
            args.fallbacks += not found
            lines += [f"{c.start}\t{c.stop}\t{c.label}\t{c.probability:.4f}" for c in found]
            lines.append("")
        return "".join(f"{line}\n" for line in lines), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are counted, and told at the end
        trees = model.predict(block, decoding="risk" if args.risk else "best")
    args.fallbacks += model.fallbacks_
    return "".join(f"{tree}\n" for tree in trees), trees


def run(args: argparse.Namespace) -> None:
    from partwise.parsing import PhraseParser, bracket_scores, clean_tree, parse_trees, phrase_report

    check_flags(args)
    if args.probabilities and args.evaluate:
        raise UsageError("--probabilities cannot be combined with --evaluate: it writes no trees")
    model = load_parser(args, PhraseParser, "phrase")
    args.fallbacks = args.sentences = 0
    stream = sys.stdin if args.input == "-" else open_text(args.input)
    name = "<stdin>" if args.input == "-" else args.input
    size = 1 if args.input == "-" and sys.stdin.isatty() else BATCH
    gold: list[Any] = []
    found: list[Any] = []
    try:
        with opened(args.output) as write:
            source: Any = map(clean_tree, parse_trees(stream, name)) if args.evaluate else sentences(stream, name)
            for block in batches(source, size):
                text, trees = written(args, model, block)
                args.sentences += len(block)
                write(text)
                if args.evaluate:
                    gold += block
                    found += trees
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error.reason} at byte {error.start})") from error
    finally:
        if stream is not sys.stdin:
            stream.close()
    if args.fallbacks:
        what = "nothing is written for them" if args.kbest or args.probabilities else "their trees are flat: FALLBACK"
        tell(f"{args.fallbacks} of {args.sentences} sentences have no parse under the grammar; {what}")
    if not args.evaluate:
        return
    scores = bracket_scores(gold, found)
    if args.report is not None:
        phrase_report(args.report, model, gold, title=f"{args.model} on {name}")
        note(args, f"report: {args.report}")
    if args.json and args.output != "-":
        print_json({
            "f1": scores.f1, "precision": scores.precision, "recall": scores.recall, "complete": scores.exact,
            "tagging": scores.tagging, "sentences": scores.sentences, "fallbacks": args.fallbacks,
        })  # fmt: skip
        return
    say = tell if args.output == "-" else print  # standard output has the trees
    say(str(scores))


COMMAND = Command("phrase", "parse sentences into phrases with a trained parser", configure, run, EXAMPLES, rank=33)

"""``partwise reproduce``: the tables and figures of the papers, again."""

from __future__ import annotations

import argparse

from partwise.cli.console import print_json
from partwise.cli.registry import Command, UsageError

EXAMPLES = """
partwise reproduce --list
partwise reproduce conll2000-crf --quick
partwise reproduce martins2010-ner --data folder-with-conll2003 --out out/experiments
partwise reproduce daume2005-beams --sentences 1000
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the experiment")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--quick", action="store_true", help="run a small variant that needs no data")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="out/experiments",
        help="where to write the results (default: out/experiments)",
    )
    parser.add_argument("--data", metavar="FOLDER", help="where the data sets are (default: $PARTWISE_DATA)")
    parser.add_argument(
        "--sentences",
        metavar="N",
        type=int,
        help="train on the first N sentences only, if the experiment supports it (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print the results, or the list, as JSON")


def run(args: argparse.Namespace) -> None:
    from partwise.experiment import find_experiments, run_experiment

    if args.list:
        known = find_experiments()
        if args.json:
            print_json(known)
        else:
            width = max(map(len, known), default=0)
            print("\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in known.items()))
        return
    if args.name is None:
        raise UsageError("name an experiment; partwise reproduce --list shows them all")
    result = run_experiment(args.name, quick=args.quick, out=args.out, data=args.data, sentences=args.sentences)
    if args.json:
        print_json(result)
        return
    print(result["table"].strip())
    print()
    for kind, path in result["files"].items():
        print(f"{kind}: {path}")


COMMAND = Command("reproduce", "reproduce an experiment from the papers", configure, run, EXAMPLES, rank=90)

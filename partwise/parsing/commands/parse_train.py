"""``partwise parse-train``: a dependency parser from a treebank."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from partwise.cli.console import STATUS, note, print_json, size_of, tell
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import loss, option

EXAMPLES = """
partwise parse-train train.conllu --dev dev.conllu --save parser.pw
partwise parse-train train.conllu --save parser.pw --loss crf --C 0.1
partwise parse-train train.conllu --dev dev.conllu --save parser.pw --order 2 --report report.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="TRAIN", help="sentences with trees: CoNLL-U or CoNLL-X")
    parser.add_argument("--save", "-o", metavar="FILE", help="where to write the model (required)")
    parser.add_argument("--dev", metavar="FILE", help="held-out sentences: the best pass is kept")
    group = parser.add_argument_group("model")
    group.add_argument("--order", type=int, choices=(1, 2), default=1, help="2: siblings and grandparents (default: 1)")
    group.add_argument("--projective", action="store_true", help="only trees without crossing arcs (first order)")
    group.add_argument(
        "--roots", choices=("one", "several"), help="words that hang from the root (default: as in the treebank)"
    )
    group.add_argument("--unlabelled", action="store_true", help="learn heads and no relations")
    group.add_argument("--arc-bits", metavar="N", type=int, default=24, help="2^N weights of arcs (default: 24)")
    group.add_argument("--row-bits", metavar="N", type=int, default=18, help="2^N rows of relations (default: 18)")
    group = parser.add_argument_group("learning")
    group.add_argument("--learner", metavar="NAME", default="dca", help="(default: dca)")
    group.add_argument("--loss", metavar="L", type=loss, help="(default: svm; the perceptron: its own)")
    group.add_argument("--set", metavar="NAME=VALUE", type=option, action="append", help="a setting of the learner")
    group.add_argument("--C", "-C", metavar="C", type=float, default=0.01, help="weight of the losses (default: 0.01)")
    group.add_argument("--max-passes", metavar="N", type=int, default=10, help="at most so many passes (default: 10)")
    group.add_argument(
        "--patience", metavar="N", type=int, help="with --dev: stop after so many passes without a better"
    )
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of all random choices (default: 0)")
    group.add_argument("--checkpoint", metavar="FILE", help="keep the state there after every pass, and go on from it")
    group.add_argument("--report", metavar="FILE", help="with --dev: write an HTML report")
    group.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")


def make(args: argparse.Namespace) -> Any:
    """The parser that the flags describe."""
    from partwise.parsing import DependencyParser, SecondOrderParser

    settings: dict[str, Any] = {
        "single_root": None if args.roots is None else args.roots == "one",
        "labelled": not args.unlabelled, "loss": args.loss, "learner": args.learner, "C": args.C,
        "max_passes": args.max_passes, "learner_options": dict(args.set) if args.set else None,
        "patience": args.patience, "arc_bits": args.arc_bits, "row_bits": args.row_bits, "random_state": args.seed,
        "n_jobs": args.n_jobs, "verbose": int(not args.quiet),
    }  # fmt: skip
    if args.order == 2:
        if args.projective:
            raise UsageError("--projective is for --order 1")
        return SecondOrderParser(**settings)
    return DependencyParser(projective=args.projective, **settings)


def run(args: argparse.Namespace) -> int:
    from partwise.parsing import attachment_scores, read_conllu
    from partwise.storage import check_writable

    if args.save is None:
        raise UsageError("missing: where to write the model: --save FILE")
    if args.dev is None and (args.patience is not None or args.report is not None):
        raise UsageError(f"--{'patience' if args.report is None else 'report'} needs held-out sentences: --dev")
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))
    model = make(args)
    model.check_settings()
    train = read_conllu(args.train, trees=False)
    note(args, f"{args.train}: {len(train)} sentences, {sum(map(len, train))} words")
    dev = None if args.dev is None else read_conllu(args.dev)
    begin = time.perf_counter()
    model.fit(train, dev=dev, checkpoint=args.checkpoint)
    seconds = time.perf_counter() - begin
    result = model.result_
    if result.status == "interrupted" and result.best_step == 0:
        tell("partwise parse-train: interrupted before the first pass was complete; nothing is saved")
        return 130
    if dev is not None:
        model.calibrate(dev)
    model.verbose = 0
    model.info_ = {"train": {"file": args.train, "sentences": len(train), "words": sum(map(len, train))}}
    model.save(args.save)
    summary: dict[str, Any] = {
        "model": args.save, "bytes": os.path.getsize(args.save), "sentences": len(train), "status": result.status,
        "passes": len(result.trace), "best_pass": result.best_step, "seconds": seconds, "report": args.report,
    }  # fmt: skip
    if dev is not None:
        scores = attachment_scores(dev, model.predict(dev))
        summary |= {"uas": scores.uas, "las": scores.las, "clas": scores.clas}
        if args.report is not None and result.status != "interrupted":
            from partwise.parsing.report import parsing_report

            info = {"file": args.train, "sentences": len(train), "seconds": seconds}
            parsing_report(
                args.report, model, dev, title=f"{os.path.basename(args.save)} on {args.dev}", train_info=info
            )
    if args.json:
        print_json(summary)
    else:
        print(f"{args.save}: {size_of(summary['bytes'])}, {len(model.relations_)} relations")
        print(f"{summary['passes']} passes in {seconds:.1f} s ({STATUS.get(result.status, result.status)})")
        if dev is not None:
            print(f"on {args.dev}: {scores}")
        if args.report is not None:
            print(f"report: {args.report}")
    return 130 if result.status == "interrupted" else 0


COMMAND = Command("parse-train", "train a dependency parser on a treebank", configure, run, EXAMPLES, rank=6)

"""``partwise phrase-train``: a phrase parser from bracketed trees."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from partwise.cli.console import STATUS, note, print_json, size_of, tell
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import loss, option

EXAMPLES = """
partwise phrase-train train.mrg --dev dev.mrg --save phrases.pw
partwise phrase-train train.mrg --save phrases.pw --loss crf --C 0.1
partwise phrase-train train.mrg --dev dev.mrg --save phrases.pw --max-passes 8 --report report.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="TRAIN", help="bracketed trees; traces and function tags are taken away")
    parser.add_argument("--save", "-o", metavar="FILE", help="where to write the model (required)")
    parser.add_argument("--dev", metavar="FILE", help="held-out trees: the best pass is kept")
    group = parser.add_argument_group("grammar")
    group.add_argument(
        "--vertical", type=int, choices=(1, 2), default=1, help="2: symbols know their parent (default: 1)"
    )
    group.add_argument(
        "--horizontal", metavar="N", type=int, default=1, help="children that long rules recall (default: 1)"
    )
    group.add_argument(
        "--threshold", metavar="P", type=float, default=1e-3, help="least posterior in the coarse pass (default: 0.001)"
    )
    group.add_argument("--bits", metavar="N", type=int, default=24, help="2^N weights (default: 24)")
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


def run(args: argparse.Namespace) -> int:
    from partwise.parsing import PhraseParser, phrase_report, read_trees
    from partwise.storage import check_writable

    if args.save is None:
        raise UsageError("missing: where to write the model: --save FILE")
    if args.dev is None and (args.patience is not None or args.report is not None):
        raise UsageError(f"--{'patience' if args.report is None else 'report'} needs held-out trees: --dev")
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))
    model = PhraseParser(
        vertical=args.vertical, horizontal=args.horizontal, threshold=args.threshold, bits=args.bits, loss=args.loss,
        learner=args.learner, C=args.C, max_passes=args.max_passes, patience=args.patience,
        learner_options=dict(args.set) if args.set else None, random_state=args.seed, n_jobs=args.n_jobs,
        verbose=int(not args.quiet),
    )  # fmt: skip
    model.check_settings()
    train = read_trees(args.train)
    words = sum(map(len, train))
    note(args, f"{args.train}: {len(train)} trees, {words} words")
    dev = None if args.dev is None else read_trees(args.dev)
    begin = time.perf_counter()
    model.fit(train, dev=dev, checkpoint=args.checkpoint)
    seconds = time.perf_counter() - begin
    result = model.result_
    if result.status == "interrupted" and result.best_step == 0:
        tell("partwise phrase-train: interrupted before the first pass was complete; nothing is saved")
        return 130
    if dev is not None:
        model.calibrate(dev)
    model.verbose = 0
    model.info_ = {"train": {"file": args.train, "trees": len(train), "words": words}}
    model.save(args.save)
    summary: dict[str, Any] = {
        "model": args.save, "bytes": os.path.getsize(args.save), "trees": len(train), "status": result.status,
        "passes": len(result.trace), "best_pass": result.best_step, "seconds": seconds, "report": args.report,
        "pruning_recall": model.recall_.share,
    }  # fmt: skip
    if dev is not None:
        scores = model.evaluate(dev)
        summary |= {"f1": scores.f1, "precision": scores.precision, "recall": scores.recall,
                    "fallbacks": model.fallbacks_}  # fmt: skip
        if args.report is not None and result.status != "interrupted":
            title = f"{os.path.basename(args.save)} on {args.dev}"
            info = {"file": args.train, "trees": len(train), "seconds": seconds}
            phrase_report(args.report, model, dev, title=title, train_info=info)
    if args.json:
        print_json(summary)
    else:
        labels, symbols = len(model.model_.labels), len(model.model_.fine.symbols)
        print(f"{args.save}: {size_of(summary['bytes'])}, {labels} labels, {symbols} symbols")
        print(f"{summary['passes']} passes in {seconds:.1f} s ({STATUS.get(result.status, result.status)})")
        print(f"the coarse pass keeps {100 * model.recall_.share:.2f} % of the nodes of held-out training trees")
        if dev is not None:
            print(f"on {args.dev}: {scores}, {model.fallbacks_} without a parse")
        if args.report is not None:
            print(f"report: {args.report}")
    return 130 if result.status == "interrupted" else 0


COMMAND = Command("phrase-train", "train a phrase parser on bracketed trees", configure, run, EXAMPLES, rank=6)

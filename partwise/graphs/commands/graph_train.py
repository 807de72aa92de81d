"""``partwise train --task graph``, or ``graph-train``: a labeler of the nodes of graphs from a file of graphs."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from partwise.cli.console import STATUS, note, percent, print_json, size_of, tell
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import loss, option

EXAMPLES = """
partwise train --task graph train.jsonl --model scenes.pw
partwise graph-train train.jsonl --save scenes.pw
partwise graph-train train.jsonl --dev dev.jsonl --save scenes.pw --C 0.1 --report report.html
partwise graph-train train.jsonl --save tables.pw --interaction full --inference trw --loss crf
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="TRAIN", help="one graph per line, as JSON with nodes, edges and labels")
    parser.add_argument(
        "--save", "-o", "--model", "-m", metavar="FILE", dest="save", help="where to write the model (required)"
    )
    parser.add_argument("--dev", metavar="FILE", help="held-out graphs: the best pass is kept")
    parser.add_argument("--report", metavar="FILE", help="with --dev: write an HTML report")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--interaction", choices=("associative", "full", "none"), default="associative",
        help="what edges may say (default: associative, neighbours would rather agree)",
    )  # fmt: skip
    group.add_argument("--inference", metavar="NAME", default="auto", help="(default: auto)")
    group = parser.add_argument_group("learning")
    group.add_argument("--learner", metavar="NAME", help="(default: one_slack; with full tables lbfgs)")
    group.add_argument("--loss", metavar="L", type=loss, help="(default: svm; with full tables crf)")
    group.add_argument("--set", metavar="NAME=VALUE", type=option, action="append", help="a setting of the learner")
    group.add_argument("--C", "-C", metavar="C", type=float, default=1.0, help="weight of the losses (default: 1)")
    group.add_argument("--max-passes", metavar="N", type=int, help="at most so many passes (default: the learner's)")
    group.add_argument(
        "--patience", metavar="N", type=int, help="with --dev: stop after so many passes without a better"
    )
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of all random choices (default: 0)")
    group.add_argument("--checkpoint", metavar="FILE", help="keep the state there after every pass, and go on from it")
    group.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    from partwise.graphs import GraphLabeler
    from partwise.graphs.files import read_graphs
    from partwise.storage import check_writable

    if args.save is None:
        raise UsageError("missing: where to write the model: --save FILE")
    if args.dev is None and (args.patience is not None or args.report is not None):
        raise UsageError(f"--{'patience' if args.report is None else 'report'} needs held-out graphs: --dev")
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))
    model = GraphLabeler(
        interaction=args.interaction, inference=args.inference, loss=args.loss, learner=args.learner, C=args.C,
        max_passes=args.max_passes, learner_options=dict(args.set) if args.set else None, patience=args.patience,
        random_state=args.seed, n_jobs=args.n_jobs, verbose=int(not args.quiet),
    )  # fmt: skip
    model.check_settings()
    graphs, labels = read_graphs(args.train)
    nodes = sum(graph.n_nodes for graph in graphs)
    note(args, f"{args.train}: {len(graphs)} graphs, {nodes} nodes")
    dev = None if args.dev is None else read_graphs(args.dev)
    begin = time.perf_counter()
    model.fit(graphs, labels, dev=dev, checkpoint=args.checkpoint)
    seconds = time.perf_counter() - begin
    result = model.result_
    if result.status == "interrupted" and result.best_step == 0:
        tell("partwise graph-train: interrupted before the first pass was complete; nothing is saved")
        return 130
    model.verbose, model.info_ = 0, {"train": {"file": args.train, "graphs": len(graphs), "nodes": nodes}}
    model.save(args.save)
    summary: dict[str, Any] = {
        "model": args.save, "bytes": os.path.getsize(args.save), "graphs": len(graphs), "nodes": nodes,
        "inference": model.inference_, "status": result.status, "passes": len(result.trace),
        "best_pass": result.best_step, "seconds": seconds, "report": args.report,
    }  # fmt: skip
    if dev is not None:
        summary["accuracy"] = model.score(*dev)
        if args.report is not None and result.status != "interrupted":
            from partwise.graphs.report import graph_report

            graph_report(args.report, model, *dev, title=f"{os.path.basename(args.save)} on {args.dev}")
    if args.json:
        print_json(summary)
    else:
        print(f"{args.save}: {size_of(summary['bytes'])}, inference {model.inference_}")
        print(f"{summary['passes']} passes in {seconds:.1f} s ({STATUS.get(result.status, result.status)})")
        if dev is not None:
            print(f"on {args.dev}: {percent(summary['accuracy'])} of the nodes right")
        if args.report is not None:
            print(f"report: {args.report}")
    return 130 if result.status == "interrupted" else 0


COMMAND = Command("graph-train", "train a labeler of the nodes of graphs", configure, run, EXAMPLES, rank=6)

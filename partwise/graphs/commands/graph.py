"""``partwise graph``: labels of the nodes of graphs, one JSON line per graph."""

from __future__ import annotations

import argparse
import json
from typing import Any

from partwise.cli.console import percent, tell
from partwise.cli.registry import Command, UsageError
from partwise.exceptions import InputError

EXAMPLES = """
partwise graph input.jsonl --model scenes.pw > labels.jsonl
partwise graph test.jsonl --model scenes.pw --evaluate --report report.html
partwise graph input.jsonl --model scenes.pw --marginals --inference trw
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="FILE", help="one graph per line, as JSON")
    parser.add_argument("--model", "-m", metavar="FILE", help="a model of partwise graph-train (required)")
    parser.add_argument("--inference", metavar="NAME", help="inference engine (default: as in training)")
    parser.add_argument("--marginals", action="store_true", help="write probabilities as well as labels")
    parser.add_argument("--evaluate", action="store_true", help="compare with the labels of the input")
    parser.add_argument("--report", metavar="FILE", help="with --evaluate: write an HTML report")
    parser.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")


def run(args: argparse.Namespace) -> None:
    from partwise.estimation.base import load_model
    from partwise.graphs import GraphLabeler
    from partwise.graphs.files import read_graphs
    from partwise.graphs.report import graph_report

    if args.model is None:
        raise UsageError("missing: the model: --model FILE")
    if args.report is not None and not args.evaluate:
        raise UsageError("--report compares with the labels of the input: --evaluate")
    model = load_model(args.model)
    if not isinstance(model, GraphLabeler):
        raise InputError(f"{args.model}: holds a {model.kind!r}, not a labeler of graphs")
    model.n_jobs = args.n_jobs
    graphs, labels = read_graphs(args.input, labelled=args.evaluate)
    if args.evaluate:
        tell(f"{args.input}: {percent(model.score(graphs, labels))} of the nodes right")
        if args.report is not None:
            graph_report(args.report, model, graphs, labels, title=f"{args.model} on {args.input}")
        return
    found = model.predict(graphs, inference=args.inference)
    masses: list[Any] = [None] * len(graphs)
    if args.marginals:
        masses = model.predict_marginals(graphs, inference=args.inference)
    for codes, mass in zip(found, masses, strict=True):
        item: dict[str, Any] = {"labels": codes.tolist()}
        if mass is not None:
            item["marginals"] = [row.tolist() for row in mass]
        print(json.dumps(item))


COMMAND = Command("graph", "label the nodes of graphs", configure, run, EXAMPLES, rank=51)

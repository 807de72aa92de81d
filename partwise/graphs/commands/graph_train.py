"""``partwise train --task graph``, or ``graph-train``: a labeler of the nodes of graphs from a file of graphs."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.console import percent
from partwise.cli.registry import Command
from partwise.cli.training import Account, add_files, add_learning, check_files, learning_settings, train

EXAMPLES = """
partwise graph-train train.jsonl --model scenes.pw
partwise train --task graph train.jsonl --model scenes.pw
partwise graph-train train.jsonl --dev dev.jsonl --model scenes.pw --C 0.1 --report report.html
partwise graph-train train.jsonl --model tables.pw --interaction full --inference trw --loss crf
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "one graph per line, as JSON with nodes, edges and labels", "graphs")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--interaction", choices=("auto", "associative", "full", "none"), default="auto",
        help="what edges can express (default: auto, full tables on trees, else agreement of neighbours)",
    )  # fmt: skip
    group.add_argument("--inference", metavar="NAME", default="auto", help="(default: auto)")
    add_learning(
        parser,
        learner="",
        learner_help="(default: lbfgs with full tables, else one_slack)",
        loss_help="(default: crf with full tables, else svm)",
        C=1.0,
        max_passes=None,
    )


def evaluate(model: Any, dev: Any) -> tuple[dict[str, Any], str]:
    accuracy = model.score(*dev)
    return {"accuracy": accuracy}, f"{percent(accuracy)} of the nodes right"


def write_report(path: str, model: Any, dev: Any, *, title: str, train_info: dict[str, Any]) -> None:
    from partwise.graphs.report import graph_report

    graph_report(path, model, *dev, title=title)


def run(args: argparse.Namespace) -> int:
    from partwise.graphs import GraphLabeler
    from partwise.graphs.files import read_graphs

    check_files(args, "graphs")
    model = GraphLabeler(interaction=args.interaction, inference=args.inference, **learning_settings(args))
    account = Account(
        lambda model: f"{model.interaction_} edges, inference {model.inference_}",
        lambda model: {"interaction": model.interaction_, "inference": model.inference_}, evaluate, write_report,
    )  # fmt: skip

    def sizes(data: Any) -> dict[str, int]:
        return {"graphs": len(data[0]), "nodes": sum(graph.n_nodes for graph in data[0])}

    return train(args, model, read_graphs, sizes, account)


COMMAND = Command("graph-train", "train a model that labels the nodes of graphs", configure, run, EXAMPLES, rank=50)

"""``partwise chunk-train``: from a column file to a model of whole labelled segments, exact or by beam search."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.console import print_json, tell
from partwise.cli.registry import Command
from partwise.cli.settings import truth
from partwise.sequences.commands._files import FileLayout, add_layout

EXAMPLES = """
partwise chunk-train train.txt --model chunker.pw
partwise chunk-train train.txt --model chunker.pw --beam 5 --update alma --max-passes 12
partwise chunk-train train.txt --model chunker.pw --dev dev.txt --patience 3 --loss crf --learner dca -C 0.5
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="FILE", help="a column file; its last column holds the tags")
    parser.add_argument("--model", "-m", "--save", metavar="FILE", required=True, help="the model file to write")
    parser.add_argument("--dev", metavar="FILE", help="held-out data; the best pass on it is kept")
    parser.add_argument("--patience", metavar="N", type=int, help="stop after N passes without improvement")
    parser.add_argument("--templates", "-t", metavar="T", action="append", help="a template or a preset (chunking)")
    parser.add_argument("--segment", metavar="T", action="append", help="base template of whole segments")
    parser.add_argument("--scheme", metavar="NAME", default="IOB2", help="the scheme of the tags (default: IOB2)")
    parser.add_argument(
        "--repair",
        metavar="YES",
        type=truth,
        default=True,
        help="yes: repair ill-formed tags; no: stop at the first (default: yes)",
    )
    parser.add_argument(
        "--max-length",
        metavar="N",
        type=int,
        help="length of the longest segment (default: as in training, for each label)",
    )
    parser.add_argument(
        "--min-count", metavar="N", type=int, default=1, help="drop attributes and segments that occur less often"
    )
    parser.add_argument(
        "--beam", metavar="N", type=int, help="use a beam search of this size (default: exact inference)"
    )
    parser.add_argument("--update", choices=("alma", "perceptron"), default="alma", help="with --beam (default: alma)")
    parser.add_argument(
        "--mode", choices=("laso", "early", "standard", "max_violation"), default="laso", help="with --beam"
    )
    parser.add_argument("--loss", metavar="NAME", help="without --beam (default: crf)")
    parser.add_argument("--learner", metavar="NAME", default="dca", help="without --beam (default: dca)")
    parser.add_argument("-C", dest="C", metavar="X", type=float, default=0.5, help="without --beam (default: 0.5)")
    parser.add_argument("--max-passes", metavar="N", type=int, help="passes over the data (default: the model's own)")
    parser.add_argument("--checkpoint", metavar="FILE", help="save the state there; continue from it if it exists")
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random number generator (default: 0)"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_layout(parser)


def run(args: argparse.Namespace) -> int:
    from partwise.sequences.segmentation.labeler import SegmentLabeler
    from partwise.sequences.segmentation.search_labeler import SearchLabeler

    layout = FileLayout(args.columns, args.label, args.separator, args.comment, args.encoding)
    data, tags, label = layout.read_labelled(args.train)
    dev = layout.read_labelled(args.dev)[:2] if args.dev else None
    shared: dict[str, Any] = {
        "scheme": args.scheme, "repair": args.repair, "max_length": args.max_length, "min_count": args.min_count,
        "patience": args.patience, "random_state": args.seed, "verbose": 0 if args.quiet else 1,
    }  # fmt: skip
    if args.segment:
        shared["segments"] = args.segment
    if args.max_passes is not None:
        shared["max_passes"] = args.max_passes
    templates = "chunking" if not args.templates else "\n".join(args.templates)
    model: Any
    if args.beam is not None:
        model = SearchLabeler(templates, beam=args.beam, update=args.update, mode=args.mode, **shared)
    else:
        model = SegmentLabeler(templates, loss=args.loss, learner=args.learner, C=args.C, **shared)
    model.fit(data, tags, dev=dev, checkpoint=args.checkpoint)
    model.info_ = {"columns": list(args.columns or (*data.names, label)), "label": label, "separator": args.separator,
                   "comment": args.comment, "encoding": args.encoding}  # fmt: skip
    model.save(args.model)
    last = model.result_.trace[-1] if model.result_.trace else None
    found = {
        "model": args.model, "kind": model.kind, "labels": model.classes_, "weights": len(model.theta_),
        "passes": len(model.result_.trace), "status": model.result_.status,
        "seconds": None if last is None else last.seconds,
        "dev": None if dev is None else max(record.score or 0.0 for record in model.result_.trace),
    }  # fmt: skip
    if args.json:
        print_json(found)
    else:
        held_out = "" if found["dev"] is None else f", F1 {100 * found['dev']:.2f} on {args.dev}"
        tell(f"{model.kind} with {found['weights']} weights, {found['passes']} passes{held_out}: {args.model}")
    return 130 if model.result_.status == "interrupted" else 0


COMMAND = Command("chunk-train", "train a model of whole labelled segments", configure, run, EXAMPLES, rank=20)

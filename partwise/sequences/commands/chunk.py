"""``partwise chunk``: the segments of a column file, by a model of ``partwise chunk-train``."""

from __future__ import annotations

import argparse

from partwise.cli.console import as_json
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_read_model, settle_model
from partwise.cli.stream import opened
from partwise.exceptions import InputError
from partwise.sequences.commands._files import FileLayout, add_layout, without

EXAMPLES = """
partwise chunk chunker.pw test.txt > tagged.txt
partwise chunk chunker.pw test.txt --spans
partwise chunk chunker.pw test.txt --kbest 3
partwise chunk chunker.pw test.txt --evaluate
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="a column file")
    parser.add_argument("--output", "-o", metavar="FILE", default="-", help="where to write (default: standard output)")
    parser.add_argument("--spans", action="store_true", help="segments with their probabilities, as JSON")
    parser.add_argument("--kbest", metavar="K", type=int, help="the K best outputs, as JSON")
    parser.add_argument("--evaluate", action="store_true", help="print the scores against the tags in the file")
    parser.add_argument(
        "--n-jobs", "-j", metavar="N", type=int, default=1, help="threads, -1 for all cores (default: 1)"
    )
    add_layout(parser)


def run(args: argparse.Namespace) -> None:
    from partwise.estimation.base import load_model
    from partwise.sequences.chunks import chunk_scores
    from partwise.sequences.segmentation.labeler import SegmentModel

    settle_model(args, "file")
    if args.kbest is not None and args.kbest < 1:
        raise UsageError(f"--kbest must be at least 1, got {args.kbest}")
    model = load_model(args.model)
    if not isinstance(model, SegmentModel):
        raise InputError(f"{args.model}: holds a {model.kind!r}, not a model of segments")
    if args.spans and not hasattr(model, "predict_spans"):
        raise InputError(f"{args.model}: a {model.kind!r} has scores but no probabilities; use --kbest")
    model.n_jobs = args.n_jobs
    info = model.info_
    columns = args.columns or (tuple(info["columns"]) if info.get("columns") else None)
    label = args.label or info.get("label")
    layout = FileLayout(columns, label, args.separator or info.get("separator"), args.comment or info.get("comment"),
                        args.encoding or info.get("encoding"))  # fmt: skip
    data = layout.read(args.file)
    seen = without(data, label) if label in data.names else data
    with opened(args.output) as write:
        if args.evaluate:
            if label not in data.names:
                raise InputError(f"{args.file}: no column {label!r} to compare with")
            write(chunk_scores(data.coded(label), model.predict_coded(seen)).report() + "\n")
        elif args.spans:
            for spans in model.predict_spans(seen):
                write(as_json([span._asdict() for span in spans]) + "\n")
        elif args.kbest:
            for ranked in model.predict_kbest(seen, args.kbest):
                write(as_json([{"tags": tags, "value": value} for tags, value in ranked]) + "\n")
        else:
            found = model.predict_coded(seen).to_lists()
            for sentence, tags in zip(seen.sentences(), found, strict=True):
                for row, tag in zip(sentence, tags, strict=True):
                    write(" ".join([*row, tag]) + "\n")
                write("\n")


COMMAND = Command("chunk", "find labelled segments with a trained model", configure, run, EXAMPLES, rank=21)

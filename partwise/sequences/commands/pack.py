"""``partwise pack``: column files to memory-mapped shards that ``partwise train`` learns from."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from partwise.cli.console import note, print_json, size_of
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import SETTINGS, add_flags

EXAMPLES = """
partwise pack train.txt --out train.pack
partwise pack 'corpus/*.txt.gz' --out corpus.pack --columns word,pos,ner --label ner -t ner --min-count 3 --workers 4
partwise pack s3://bucket/train.txt --out train.pack -t 'word[-2..2]' -t 'suffix(word,1..4)[0]'
partwise train train.pack --model chunker.pw
"""

OWN = (
    "columns",
    "label",
    "separator",
    "comment",
    "encoding",
    "templates",
    "min_count",
    "hashing",
    "features",
    "repair",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="column files, patterns or addresses (s3://…)")
    parser.add_argument("--out", "-o", metavar="FOLDER", help="the pack to write (required)")
    add_flags(parser, [SETTINGS[name] for name in OWN])
    parser.add_argument(
        "--scheme", metavar="NAME", help="the labels are chunk tags in this scheme; repair ill-formed ones"
    )
    parser.add_argument("--shard-tokens", metavar="N", type=int, help="tokens per shard (default: 500000)")
    parser.add_argument("--workers", "-w", metavar="N", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--quiet", "-q", action="store_true", help="only the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> None:
    from partwise.data.spans import Reading, expand_paths
    from partwise.sequences.commands.train import USUAL_TEMPLATES, make_templates
    from partwise.sequences.packing import SHARD_TOKENS, file_columns, pack

    if args.out is None:
        raise UsageError("missing: where to write the pack: --out FOLDER")
    if args.repair is not None and args.scheme is None:
        raise UsageError("--repair needs --scheme")
    reading = Reading(None, args.separator, args.comment, encoding=args.encoding or "utf-8")
    _, label = file_columns(expand_paths(args.files)[0], reading, args.columns, args.label)
    templates: Any = None
    if args.templates is not None:
        templates = make_templates(args.templates)
    elif label in USUAL_TEMPLATES:
        templates = USUAL_TEMPLATES[label]
    else:
        raise UsageError(f"there is no preset for the label {label!r}; choose with --templates")
    begin = time.perf_counter()
    made = pack(
        args.files,
        args.out,
        templates=templates,
        columns=args.columns,
        label=args.label,
        separator=args.separator,
        comment=args.comment,
        encoding=args.encoding or "utf-8",
        min_count=args.min_count or 1,
        hashing=args.hashing,
        features=args.features or "observed",
        scheme=args.scheme,
        repair=args.repair is not False,
        shard_tokens=args.shard_tokens or SHARD_TOKENS,
        workers=args.workers,
    )
    size = sum(entry.stat().st_size for entry in os.scandir(made.path))
    summary = {
        "pack": args.out,
        "bytes": size,
        "shards": len(made.shards),
        "sentences": made.instances,
        "tokens": made.tokens,
        "labels": len(made.header["classes"]),
        "attributes": made.header["layout"]["n_attributes"],
        "seconds": time.perf_counter() - begin,
    }
    if args.json:
        print_json(summary)
        return
    print(f"{args.out}: {size_of(size)}, {summary['shards']} shards, {made.instances} sentences, {made.tokens} tokens")
    note(args, f"{summary['labels']} labels, {summary['attributes']} attributes, {summary['seconds']:.1f} s")


COMMAND = Command(
    "pack", "convert column files to shards, for data larger than memory", configure, run, EXAMPLES, rank=15
)

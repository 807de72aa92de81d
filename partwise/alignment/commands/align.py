"""``partwise align``: links between the words of sentence pairs, learned from the pairs alone or by a saved model."""

from __future__ import annotations

import argparse
import os
from typing import Any

from partwise.alignment.commands import _pairs as files
from partwise.cli.console import note, print_json, size_of, tell
from partwise.cli.engine import add_engine, engine_of
from partwise.cli.registry import Command, UsageError
from partwise.cli.stream import opened
from partwise.exceptions import InputError

EXAMPLES = """
partwise align pairs.txt > links.txt
partwise align source.txt target.txt --kind model1 --symmetrise grow-diag-final-and
partwise align pairs.txt --raw corpus.en corpus.fr --save hmm.pw --output links.txt
cat pairs.txt | partwise align --model aligner.pw
partwise align test.e test.f --model aligner.pw --gold test.wa --report report.html --output links.txt
partwise align pairs.txt --model hmm.pw --threshold 0.5 --scores --format json
"""

TRAINED = ("hmm", "model2", "model1")
SYMMETRISE = (
    "product", "intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and",
    "forward", "backward",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="PAIRS",
        nargs="*",
        default=["-"],
        help="a file of 'source ||| target' lines (default: standard input), two parallel files, or two NAACL files",
    )
    parser.add_argument(
        "--model",
        "-m",
        metavar="FILE",
        help="a model file of partwise align-train, or of --save (default: train one here)",
    )
    parser.add_argument("--kind", choices=TRAINED, help="the model to train on the pairs (default: hmm)")
    parser.add_argument("--output", "-o", metavar="FILE", default="-", help="where to write the links")
    parser.add_argument(
        "--format", choices=files.FORMATS, help="pharaoh (0-0 1-2, the default), naacl or json (one object per pair)"
    )
    parser.add_argument(
        "--scores", action="store_true", help="write the posterior of each link, or its score with a trained aligner"
    )
    group = parser.add_argument_group("generative models, trained here or saved before")
    group.add_argument("--symmetrise", choices=SYMMETRISE, help="how to combine the two directions (default: product)")
    group.add_argument("--threshold", metavar="P", type=float, help="smallest posterior of a link (default: 0.3)")
    group.add_argument("--viterbi", action="store_true", help="combine the best alignments instead of the posteriors")
    group = parser.add_argument_group("training")
    group.add_argument("--raw", metavar="FILE", nargs="+", help="more pairs to train on: one file or two parallel ones")
    group.add_argument("--iterations", metavar="N", type=int, help="EM iterations for each model (default: 5)")
    group.add_argument("--no-agreement", action="store_true", help="train the two directions independently")
    group.add_argument(
        "--checkpoint", metavar="FILE", help="save the state there after every iteration, and resume from it"
    )
    group.add_argument("--save", metavar="FILE", help="write the trained model")
    add_engine(group)
    group = parser.add_argument_group("evaluation")
    group.add_argument(
        "--gold", metavar="FILE", help="gold links (.wa or Pharaoh); prints AER, precision, recall and F"
    )
    group.add_argument("--report", metavar="FILE", help="with --gold: write an HTML report")
    parser.add_argument(
        "--n-jobs", "-j", metavar="N", type=int, default=1, help="threads, -1 for all cores (default: 1)"
    )
    files.add_output(parser, "as --format json; with --output, the scores of --gold as JSON")


def run(args: argparse.Namespace) -> None:
    check(args)
    if args.model is None:
        pairs = files.read_pairs(args.files)
        gold = None if args.gold is None else files.read_gold(args.gold, pairs)
        model = train(args, pairs)
        align_all(args, model, pairs, gold)
        return
    model = load(args)
    if args.files == ["-"] and args.gold is None:
        with opened(args.output) as write:
            files.each_batch(lambda batch, numbers: write(text_of(args, model, batch, numbers)[0]))
        return
    pairs = files.read_pairs(args.files)
    align_all(args, model, pairs, None if args.gold is None else files.read_gold(args.gold, pairs))


def check(args: argparse.Namespace) -> None:
    """Check what can be checked before a file is read."""
    from partwise.storage import check_writable

    if args.report is not None and args.gold is None:
        raise UsageError("--report compares with gold links: --gold FILE")
    if args.gold == "-":
        raise UsageError("--gold must be a file")
    if args.json and args.format not in (None, "json"):
        raise UsageError(f"--json and --format {args.format} contradict each other")
    if args.model in TRAINED and not os.path.exists(args.model):
        raise UsageError(f"--model names a model file; a model that is trained here is --kind {args.model}")
    if args.model is not None:
        for name in ("kind", "raw", "iterations", "no-agreement", "checkpoint", "save", "workers", "scheduler"):
            if getattr(args, name.replace("-", "_")) not in (None, False):
                raise UsageError(f"--{name} is for models that are trained here; {args.model!r} is a file")
    files.check_files([*(args.files), *(args.raw or ()), *([args.gold] if args.gold else ())])
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))
    if args.output != "-":
        check_writable(args.output)


def train(args: argparse.Namespace, pairs: files.NamedPairs) -> Any:
    """A generative aligner trained on the pairs and on raw text."""
    from partwise.alignment import GenerativeAligner

    settings = _joining(args)
    model = GenerativeAligner(
        model=args.kind or "hmm", iterations=5 if args.iterations is None else args.iterations,
        agree=not args.no_agreement, n_jobs=args.n_jobs, verbose=int(not args.quiet), **settings,
    )  # fmt: skip
    model.check_settings()
    bitext = pairs.bitext
    note(args, f"{pairs.path}: {len(bitext)} sentence pairs")
    if args.raw is not None:
        more = files.read_pairs(args.raw)
        note(args, f"{more.path}: {len(more.bitext)} sentence pairs")
        bitext = bitext + more.bitext
    with engine_of(args.workers, args.scheduler) as engine:
        model.fit(bitext, checkpoint=args.checkpoint, **engine)
    if model.n_skipped_:
        note(args, f"{model.n_skipped_} pairs longer than {model.max_length} words were left out of training")
    if args.save is not None:
        model.verbose = 0
        model.save(args.save)
        note(args, f"{args.save}: {size_of(os.path.getsize(args.save))}")
    return model


def _joining(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of prediction that were given."""
    given = {"symmetrise": args.symmetrise, "threshold": args.threshold, "viterbi": args.viterbi or None}
    return {name: value for name, value in given.items() if value is not None}


def load(args: argparse.Namespace) -> Any:
    """A model of either kind, with the settings of prediction that were given."""
    from partwise.alignment import GenerativeAligner
    from partwise.alignment.aligner import WordAligner
    from partwise.estimation.base import load_model

    if not os.path.exists(args.model):
        raise InputError(f"{args.model}: cannot be read: there is no such file")
    model = load_model(args.model)
    settings = _joining(args)
    if isinstance(model, WordAligner):
        if settings:
            raise UsageError(f"--{next(iter(settings))} is not for trained aligners such as {args.model}")
    elif isinstance(model, GenerativeAligner):
        model.set_params(verbose=0, **settings)
        model.check_settings()
    else:
        raise InputError(f"{args.model}: holds a {model.kind!r}, not an aligner")
    model.n_jobs = args.n_jobs
    return model


def text_of(args: argparse.Namespace, model: Any, pairs: Any, numbers: list[int]) -> tuple[str, list[Any]]:
    """What is to be written, and the links."""
    links = model.predict(pairs)
    scores = model.predict_scores(pairs) if args.scores else None
    form = "json" if args.json else args.format or "pharaoh"
    return files.render(form, pairs, numbers, links, scores), links


def align_all(args: argparse.Namespace, model: Any, pairs: files.NamedPairs, gold: Any) -> None:
    text, links = text_of(args, model, pairs.bitext, pairs.numbers)
    with opened(args.output) as write:
        write(text)
    if gold is None:
        return
    scores = files.score_table(gold, links)
    if args.report is not None:
        from partwise.alignment.report import alignment_report

        title = f"{args.model or args.kind or 'hmm'} on {os.path.basename(args.gold)}"
        alignment_report(args.report, model, pairs.bitext, gold, title=title, numbers=pairs.numbers)
        note(args, f"report: {args.report}")
    if args.output == "-":
        files.show_scores(scores, tell)  # standard output has the links
    elif args.json:
        print_json(scores)
    else:
        files.show_scores(scores, print)


COMMAND = Command("align", "align the words of sentence pairs", configure, run, EXAMPLES, rank=40)

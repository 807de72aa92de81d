"""``partwise align-train``: an aligner trained on gold links, on top of a model of raw text."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from partwise.alignment.commands import _pairs as files
from partwise.cli.console import STATUS, note, percent, print_json, size_of, tell
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_written_model, loss, option
from partwise.exceptions import FormatError, InputError

EXAMPLES = """
partwise align-train pairs.txt gold.txt --model aligner.pw --infeasible nearest
partwise align-train trial.e trial.f trial.wa --raw corpus.en corpus.fr --model aligner.pw --kind M+F
partwise align-train trial.e trial.f trial.wa --generative hmm.pw --model aligner.pw --kind M+F+Q --relaxed
partwise align-train pairs.txt gold.txt --dev dev.txt dev-gold.txt --model aligner.pw --patience 20 --report report.html
"""
KINDS = ("auto", "L", "M", "M+F", "M+Q", "M+F+Q")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="PAIRS GOLD",
        nargs="+",
        help="'source ||| target' lines or two parallel (or NAACL) files; then gold links, .wa or Pharaoh",
    )
    add_written_model(parser)
    parser.add_argument(
        "--dev", metavar="FILE", nargs="+", help="held-out pairs and gold links; the best pass on them is kept"
    )
    group = parser.add_argument_group("raw text")
    group.add_argument("--raw", metavar="FILE", nargs="+", help="pairs without links: one file or two parallel ones")
    group.add_argument("--generative", metavar="FILE", help="a model of partwise align --save, instead of --raw")
    group.add_argument("--also", metavar="A,B", help="further models to train and use as features: model1,model2")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--kind",
        choices=KINDS,
        default="auto",
        help="L: links one by one, M: matchings, F: with fertility, Q: with pairs of links (default: L, M or M+F, "
        "whichever has the lowest error in cross-validation; M if --C, --loss or --learner is given)",
    )
    group.add_argument(
        "--max-fertility", metavar="N", type=int, default=2, help="maximum number of links per word in M+F (default: 2)"
    )
    group.add_argument(
        "--infeasible",
        choices=("error", "nearest"),
        default="error",
        help="gold links that the model cannot produce: raise an error, or train on as many as it can",
    )
    group.add_argument(
        "--false-positive", metavar="C", type=float, default=1.0, help="cost of a wrong link (default: 1)"
    )
    group.add_argument(
        "--false-negative", metavar="C", type=float, default=3.0, help="cost of a missing link (default: 3)"
    )
    group.add_argument(
        "--candidates",
        metavar="P",
        type=float,
        default=0.01,
        help="with Q: smallest posterior of a link (default: 0.01)",
    )
    group.add_argument(
        "--relaxed", action="store_true", help="with Q: predict with the linear relaxation, which is faster"
    )
    group.add_argument("--time-limit", metavar="S", type=float, help="with Q: time limit per sentence pair in seconds")
    group = parser.add_argument_group("learning")
    group.add_argument("--learner", metavar="NAME", help="(default: n_slack; for L Newton's method)")
    group.add_argument("--loss", metavar="L", type=loss, help="(default: svm; the perceptron has its own)")
    group.add_argument("--set", metavar="NAME=VALUE", type=option, action="append", help="a setting of the learner")
    group.add_argument("--C", "-C", metavar="C", type=float, help="weight of the losses (default: by cross-validation)")
    group.add_argument("--max-passes", metavar="N", type=int, help="maximum number of passes (default: the learner's)")
    group.add_argument("--patience", metavar="N", type=int, help="with --dev: stop after N passes without improvement")
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random number generator (default: 0)"
    )
    group.add_argument(
        "--checkpoint", metavar="FILE", help="save the training state to this file after every pass, and resume from it"
    )
    group.add_argument("--report", metavar="FILE", help="write an HTML report (on --dev if given)")
    group.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    files.add_output(parser, "print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from partwise.alignment.problems import InfeasibleLinksError

    model = check(args)
    pairs, gold = read(args.files, "PAIRS and GOLD")
    note(args, f"{pairs.path}: {len(pairs.bitext)} sentence pairs")
    held_out = None if args.dev is None else read(args.dev, "--dev")
    raw = None
    if args.raw is not None:
        more = files.read_pairs(args.raw)
        note(args, f"{more.path}: {len(more.bitext)} sentence pairs without links")
        raw = more.bitext
    dev = None if held_out is None else (held_out[0].bitext, held_out[1])
    begin = time.perf_counter()
    try:
        model.fit(pairs.bitext, gold, bitext=raw, dev=dev, checkpoint=args.checkpoint)
    except InfeasibleLinksError as error:
        wider = f"--max-fertility above {args.max_fertility}" if "F" in args.kind else "--kind M+F"
        place = f"sentence pair {pairs.numbers[error.pair]}: {error.reason}"
        raise FormatError(f"{place}. Use {wider}, or --infeasible nearest", path=args.files[-1]) from None
    seconds = time.perf_counter() - begin
    interrupted = model.result_.status == "interrupted"
    if interrupted and model.result_.best_step == 0:
        tell("partwise align-train: interrupted before the first pass was complete; nothing is saved")
        return 130
    model.verbose = model.generative_.verbose = 0
    tokens = len(pairs.bitext.source.codes) + len(pairs.bitext.target.codes)
    counts = {"sentences": len(pairs.bitext), "tokens": tokens, "raw_pairs": model.generative_.n_pairs_}
    model.info_ = {"train": {"file": pairs.path, **counts}}
    model.save(args.save)
    summary = summarise(args, model, pairs, gold, held_out, seconds)
    show(args, summary)
    if interrupted:
        tell(f"partwise align-train: interrupted; the best model so far (pass {model.result_.best_step}) is saved")
    return 130 if interrupted else 0


def check(args: argparse.Namespace) -> Any:
    """Check what can be checked before a file is read; return the aligner to train."""
    from partwise.alignment import GenerativeAligner
    from partwise.alignment.aligner import WordAligner
    from partwise.estimation.base import load_model
    from partwise.storage import check_writable

    if args.save is None:
        raise UsageError("missing: where to write the model: --model FILE")
    if args.generative is not None and (args.raw is not None or args.also is not None):
        raise UsageError(f"--generative is a trained model; --{'raw' if args.raw else 'also'} would train another")
    if args.patience is not None and args.dev is None:
        raise UsageError("--patience needs held-out pairs: --dev")
    for group in (args.files, args.dev, args.raw):
        files.check_files(group or ())
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))
    if args.generative is None:
        also = tuple(args.also.split(",")) if args.also else ()
        generative: Any = GenerativeAligner(also=also)
        generative.check_settings()
    else:
        files.check_files([args.generative])
        generative = load_model(args.generative)
        if not isinstance(generative, GenerativeAligner):
            raise InputError(f"{args.generative}: holds a {generative.kind!r}, not a generative aligner")
    model = WordAligner(
        generative, model=args.kind, max_fertility=args.max_fertility, infeasible=args.infeasible,
        false_positive=args.false_positive, false_negative=args.false_negative, candidates=args.candidates,
        exact=not args.relaxed, time_limit=args.time_limit, learner=args.learner, loss=args.loss, C=args.C,
        learner_options=dict(args.set) if args.set else None, max_passes=args.max_passes, patience=args.patience,
        random_state=args.seed, n_jobs=args.n_jobs, verbose=int(not args.quiet),
    )  # fmt: skip
    model.check_settings()
    return model


def read(given: list[str], what: str) -> tuple[files.NamedPairs, Any]:
    """Pairs and their gold links, which the last file holds."""
    if not 2 <= len(given) <= 3:
        raise UsageError(f"{what}: expected one or two files of pairs and one of gold links, got {len(given)}")
    pairs = files.read_pairs(given[:-1])
    return pairs, files.read_gold(given[-1], pairs)


def summarise(
    args: argparse.Namespace, model: Any, pairs: files.NamedPairs, gold: Any, held_out: Any, seconds: float
) -> dict[str, Any]:
    """The results as numbers; also writes the report."""
    result = model.result_
    best = result.trace[result.best_step - 1] if result.best_step else None
    shown, truth = (pairs, gold) if held_out is None else held_out
    links = model.predict(shown.bitext)
    summary = {
        "model": args.save,
        "bytes": os.path.getsize(args.save),
        "pairs": len(pairs.bitext),
        "weights": len(model.theta_),
        "kind": model.model_,
        "C": model.C_,
        "cross_validation": None
        if model.selection_ is None
        else [[*choice, error] for choice, error in model.selection_.errors.items()],
        "generative_error": None if model.selection_ is None else model.selection_.generative,
        "status": result.status,
        "passes": len(result.trace),
        "best_pass": result.best_step,
        "seconds": seconds,
        "objective": best.objective if best is not None else result.certificate and result.certificate.primal,
        "gap": None if result.certificate is None else result.certificate.gap,
        "scored_on": "training pairs" if held_out is None else shown.path,
        "scores": files.score_table(truth, links),
        "report": args.report,
    }
    if args.report is not None and result.status != "interrupted":
        from partwise.alignment.report import alignment_report

        title = f"{os.path.basename(args.save)} on {'its training pairs' if held_out is None else shown.path}"
        info = {
            "file": pairs.path,
            "pairs": len(pairs.bitext),
            "raw pairs": model.generative_.n_pairs_,
            "seconds": seconds,
        }
        alignment_report(args.report, model, shown.bitext, truth, title=title, train_info=info, numbers=shown.numbers)
    return summary


def show(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    if args.json:
        print_json(summary)
        return
    status = STATUS.get(summary["status"], summary["status"])
    print(f"{summary['model']}: {size_of(summary['bytes'])}, {summary['weights']} weights")
    if summary["cross_validation"]:
        found = ", ".join(f"{percent(error)} with {kind}, C = {C:g}" for kind, C, error in summary["cross_validation"])
        base = percent(summary["generative_error"])
        chosen = f"{summary['kind']}, C = {summary['C']:g}"
        print(f"{chosen} by cross-validation: AER {found}; {base} by the generative aligner alone")
    line = f"{summary['passes']} pass{'es' * (summary['passes'] != 1)} in {summary['seconds']:.1f} s ({status})"
    if summary["objective"] is not None:
        line += f", objective {summary['objective']:.6g}"
    if summary["gap"] is not None and summary["objective"]:
        line += f", gap at most {percent(summary['gap'] / abs(summary['objective']))}%"
    print(line)
    files.show_scores(summary["scores"], lambda text: print(f"on {summary['scored_on']}: {text}"))
    if summary["report"] is not None:
        print(f"report: {summary['report']}")


COMMAND = Command("align-train", "train a word aligner on gold links", configure, run, EXAMPLES, rank=41)

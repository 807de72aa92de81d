"""What the training commands share: learning flags, checks before any work, and the summary of a training run."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from partwise.cli.console import STATUS, note, print_json, size_of, tell, warn
from partwise.cli.registry import UsageError
from partwise.cli.settings import add_written_model, loss, option
from partwise.exceptions import InputError

__all__ = ["Account", "add_files", "add_learning", "check_files", "learning_settings", "train"]


def add_files(parser: argparse.ArgumentParser, train: str, items: str) -> None:
    """TRAIN, --model and --dev; ``train`` says what the file holds, ``items`` what its items are called."""
    parser.add_argument("train", metavar="TRAIN", help=train)
    add_written_model(parser)
    parser.add_argument("--dev", metavar="FILE", help=f"held-out {items}; the best pass on them is kept")


def add_learning(
    parser: argparse.ArgumentParser, *, learner: str, loss_help: str, C: float, max_passes: int | None,
    learner_help: str = "",
) -> None:  # fmt: skip
    """The flags of learning, and --json and --quiet; an empty ``learner`` leaves the choice to the estimator."""
    group = parser.add_argument_group("learning")
    about = learner_help or f"(default: {learner})"
    group.add_argument("--learner", metavar="NAME", default=learner or None, help=about)
    group.add_argument("--loss", metavar="L", type=loss, help=loss_help)
    group.add_argument("--set", metavar="NAME=VALUE", type=option, action="append", help="a setting of the learner")
    group.add_argument("--C", "-C", metavar="C", type=float, default=C, help=f"weight of the losses (default: {C:g})")
    limit = "the learner's" if max_passes is None else max_passes
    group.add_argument(
        "--max-passes", metavar="N", type=int, default=max_passes, help=f"maximum number of passes (default: {limit})"
    )
    group.add_argument("--patience", metavar="N", type=int, help="with --dev: stop after N passes without improvement")
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random number generator (default: 0)"
    )
    group.add_argument(
        "--checkpoint", metavar="FILE", help="save the training state to this file after every pass, and resume from it"
    )
    group.add_argument("--report", metavar="FILE", help="with --dev: write an HTML report")
    group.add_argument("--n-jobs", "-j", metavar="N", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")


def learning_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The estimator's parameters that the flags of learning give."""
    return {
        "loss": args.loss, "learner": args.learner, "C": args.C, "max_passes": args.max_passes,
        "learner_options": dict(args.set) if args.set else None, "patience": args.patience,
        "random_state": args.seed, "n_jobs": args.n_jobs, "verbose": int(not args.quiet),
    }  # fmt: skip


def check_files(args: argparse.Namespace, items: str) -> None:
    """Raise before any work for a file that is missing or cannot be written."""
    from partwise.storage import check_writable

    if args.save is None:
        raise UsageError("missing: where to write the model: --model FILE")
    if args.dev is None and (args.patience is not None or args.report is not None):
        raise UsageError(f"--{'patience' if args.report is None else 'report'} needs held-out {items}: --dev")
    for name in ("save", "report", "checkpoint"):
        if getattr(args, name) is not None:
            check_writable(getattr(args, name))


class Account(NamedTuple):
    """What a command adds of its own to the summary of a training run."""

    about: Callable[[Any], str]  # the model, in a few words
    summary: Callable[[Any], dict[str, Any]]  # of the model, for --json
    evaluate: Callable[[Any, Any], tuple[dict[str, Any], str]]  # (model, dev) → for --json, and in words
    report: Callable[..., Any]  # (path, model, dev, title, train_info)
    calibrated: bool = False  # whether held-out data also makes probabilities honest


def train(
    args: argparse.Namespace, model: Any, read: Callable[[str], Any], sizes: Callable[[Any], dict[str, int]],
    account: Account, read_dev: Callable[[str], Any] | None = None,
) -> int:  # fmt: skip
    """Read, fit, calibrate, save, score and report; returns the exit status.

    What ``read`` returns is X, or a tuple (X, y); held-out data is handed on as ``read_dev``, or ``read``, returns it.
    """
    model.check_settings()
    data = read(args.train)
    size = sizes(data)
    note(args, f"{args.train}: " + ", ".join(f"{number} {name}" for name, number in size.items()))
    dev = None if args.dev is None else (read_dev or read)(args.dev)
    begin = time.perf_counter()
    model.fit(*(data if isinstance(data, tuple) else (data,)), dev=dev, checkpoint=args.checkpoint)
    seconds = time.perf_counter() - begin
    result = model.result_
    if result.status == "interrupted" and result.best_step == 0:
        tell(f"partwise {args.command.name}: interrupted before the first pass was complete; nothing is saved")
        return 130
    if dev is not None and account.calibrated:
        try:
            model.calibrate(dev)
        except InputError as error:  # a relation that training never saw, say: no reason to lose the model
            warn(f"probabilities are not calibrated: {error}")
    model.verbose = 0
    model.info_ = {"train": {"file": args.train, **size}}
    model.save(args.save)
    summary: dict[str, Any] = {
        "model": args.save, "bytes": os.path.getsize(args.save), **size, "status": result.status,
        "passes": len(result.trace), "best_pass": result.best_step, "seconds": seconds, "report": args.report,
        **account.summary(model),
    }  # fmt: skip
    spoken = ""
    if dev is not None:
        numbers, spoken = account.evaluate(model, dev)
        summary |= numbers
        if args.report is not None and result.status != "interrupted":
            info = {"file": args.train, **size, "seconds": seconds}
            title = f"{os.path.basename(args.save)} on {args.dev}"
            account.report(args.report, model, dev, title=title, train_info=info)
    if args.json:
        print_json(summary)
    else:
        print(f"{args.save}: {size_of(summary['bytes'])}, {account.about(model)}")
        passes = f"{summary['passes']} pass{'es' * (summary['passes'] != 1)}"
        print(f"{passes} in {seconds:.1f} s ({STATUS.get(result.status, result.status)})")
        if dev is not None:
            print(f"on {args.dev}: {spoken}")
        if args.report is not None:
            print(f"report: {args.report}")
    return 130 if result.status == "interrupted" else 0

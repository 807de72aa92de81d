"""What ``partwise parse`` and ``partwise phrase`` check before any work."""

from __future__ import annotations

import argparse
from typing import Any

from partwise.cli.registry import UsageError
from partwise.exceptions import InputError

__all__ = ["check_flags", "load_parser"]


def check_flags(args: argparse.Namespace) -> None:
    """Raise for flags that do not go together, and for files that cannot be written."""
    from partwise.storage import check_writable

    if args.model is None:
        raise UsageError("missing: the model: --model FILE")
    if args.report is not None and not args.evaluate:
        raise UsageError("--report compares with the trees of the input: --evaluate")
    if args.kbest is not None and (args.kbest < 1 or args.evaluate or args.risk or args.probabilities):
        raise UsageError("--kbest must be at least 1 and cannot be combined with --evaluate, --risk or --probabilities")
    for target in (args.report, None if args.output == "-" else args.output):
        if target is not None:
            check_writable(target)


def load_parser(args: argparse.Namespace, kind: type[Any] | tuple[type[Any], ...], what: str) -> Any:
    """The model of the file, which must be of this class, or of one of these."""
    from partwise.estimation.base import load_model

    model = load_model(args.model)
    if not isinstance(model, kind):
        raise InputError(f"{args.model}: holds a {model.kind!r}, not a {what} parser")
    model.n_jobs = args.n_jobs
    return model

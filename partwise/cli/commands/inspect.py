"""``partwise inspect``: what is in a model file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from partwise.cli.console import STATUS, print_json, print_table, size_of
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_read_model, count, settle_model
from partwise.exceptions import InputError

if TYPE_CHECKING:
    from partwise.storage import Description

EXAMPLES = """
partwise inspect chunker.pw
partwise inspect chunker.pw --top 20 --label B-NP
partwise inspect chunker.pw --header
partwise inspect chunker.pw --json
"""

# Settings that go without saying.
_DEFAULTS = {
    "max_passes": None, "order": 1, "scheme": None, "cost": None, "features": "observed", "min_count": 1,
    "hashing": None, "patience": None, "learner_options": None, "random_state": 0,
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.add_argument("--header", action="store_true", help="show only the header; the weights are not read")
    parser.add_argument("--top", metavar="N", type=count, help="number of weights to show per label (default: 5)")
    parser.add_argument("--label", metavar="LABEL", help="only the weights of this label")
    parser.add_argument("--trace", action="store_true", help="show every training pass, not only some of them")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> None:
    from partwise.estimation.base import find_model
    from partwise.storage import describe

    settle_model(args)
    found = describe(args.model)
    model = find_model(found.kind)
    stages = [found.header] if model is None else model.stage_headers(found.header)
    summary = summarise(args.model, found, stages)
    shown = model is not None and model.shows_weights
    for name in ("top", "label"):
        if getattr(args, name) is not None and (args.header or not shown):
            why = "--header leaves them out" if shown else f"a {found.kind!r} has no label weights"
            raise UsageError(f"--{name} selects label weights, but {why}")
    weights = read_weights(args) if shown and not args.header else None
    if args.json:
        print_json({**summary, **(weights or {})})
        return
    show_summary(summary)
    show_trace(summary["training"].get("trace", []), every=args.trace)
    if weights is not None:
        show_weights(weights)


def summarise(path: str, found: Description, stages: list[dict[str, Any]]) -> dict[str, Any]:
    """What the header says; a part that this kind of model does not have is empty."""
    header = stages[-1]
    encoder, result = _part(header, "encoder"), _part(header, "result")
    return {
        "file": path,
        "kind": found.kind,
        "bytes": found.size,
        "partwise": found.version,
        "format": found.format_version,
        "labels": header.get("classes", []),
        "settings": {
            name: value for name, value in _part(header, "params").items() if name not in ("templates", "verbose")
        },
        "input": encoder.get("kind"),
        "templates": encoder.get("templates"),
        "first_stage": _part(stages[0], "encoder").get("templates") if len(stages) > 1 else None,
        "info": _part(header, "info"),
        "training": result,
        "arrays": {name: {"dtype": a.dtype, "shape": a.shape, "bytes": a.nbytes} for name, a in found.arrays.items()},
    }


def _part(header: dict[str, Any], name: str) -> dict[str, Any]:
    value = header.get(name)
    return value if isinstance(value, dict) else {}


def read_weights(args: argparse.Namespace) -> dict[str, Any]:
    """The weights as the model describes them."""
    from partwise.estimation.base import load_model

    try:
        found: dict[str, Any] = load_model(args.model).describe_weights(args.label, 5 if args.top is None else args.top)
    except InputError as error:
        raise InputError(f"{args.model}: {error}") from None
    return found


def show_summary(summary: dict[str, Any]) -> None:
    """The header, one line per field."""
    writer = f"written by partwise {summary['partwise']} (format {summary['format']})"
    print(f"{summary['file']}: {summary['kind']}, {size_of(summary['bytes'])}, {writer}")
    info, settings = summary["info"], summary["settings"]
    lines: list[tuple[str, Any]] = []
    if summary["labels"]:
        shown = " ".join(map(str, summary["labels"][:40])) + (" …" if len(summary["labels"]) > 40 else "")
        lines.append(("labels", f"{len(summary['labels'])}: {shown}"))
    if info.get("columns"):
        lines.append(("columns", f"{', '.join(info['columns'])}; label {info.get('label')}"))
    if info.get("train"):
        train = info["train"]
        lines.append(
            (
                "trained on",
                f"{train.get('file')}: {train.get('sentences')} sentences, {train.get('tokens')} tokens",
            )
        )
    if settings:
        first = [f"{name} {_short(settings[name])}" for name in ("loss", "learner", "C") if name in settings]
        rest = [
            f"{name} {_short(settings[name])}"
            for name, usual in _DEFAULTS.items()
            if settings.get(name, usual) != usual
        ]
        lines.append(("settings", ", ".join(first + rest)))
    training = summary["training"]
    if training.get("trace"):
        last = training["trace"][-1]
        text = f"{len(training['trace'])} passes, {last.get('seconds', 0):.1f} s"
        status = STATUS.get(training.get("status"), training.get("status"))
        lines.append(("training", f"{text} ({status}); pass {training.get('best_step')} is kept"))
    if summary["first_stage"]:
        lines.append(("first stage", summary["first_stage"].replace("\n", "\n" + " " * 13)))
    if summary["templates"]:
        lines.append(("templates", summary["templates"].replace("\n", "\n" + " " * 13)))
    for name, text in lines:
        print(f"{name:<11}  {text}")


def _short(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"loss"}:
        return f"beta {value['loss'][0]:g}, gamma {value['loss'][1]:g}"
    if isinstance(value, dict) and "learner" in value:
        return str(value["learner"])
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_trace(trace: list[dict[str, Any]], every: bool) -> None:
    """The passes of the training; a few of many."""
    if not trace:
        return
    some = trace if every or len(trace) <= 8 else [*trace[:3], *trace[-4:]]
    columns = [name for name in ("objective", "dual", "score") if any(r.get(name) is not None for r in trace)]

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.6g}"

    rows = [(r["step"], f"{r['seconds']:.2f}", *(cell(r.get(name)) for name in columns)) for r in some]
    print()
    print_table(("pass", "seconds", *columns), rows)
    if len(some) < len(trace):
        print(f"({len(trace) - len(some)} passes in between are omitted; --trace shows them)")


def show_weights(weights: dict[str, Any]) -> None:
    """The strongest weights of each label, and the strongest transitions."""
    print(
        f"\n{weights['weights']} weights ({weights['nonzero']} not zero, norm {weights['norm']:.4g}) "
        f"of {weights['attributes']} attributes"
    )
    for label, sides in weights["top_weights"].items():
        print(f"\n{label}")
        for name, weight in [*sides["for"], *reversed(sides["against"])]:
            print(f"  {weight:+8.3f}  {name}")
    labels, table = weights["transitions"]["labels"], weights["transitions"]["weights"]
    ranked = sorted(
        ((table[a, b], labels[a], labels[b]) for a in range(len(labels)) for b in range(len(labels)) if table[a, b]),
        key=lambda item: -item[0],
    )
    print("\ntransitions")
    chosen = ranked if len(ranked) <= 10 else [*ranked[:5], *ranked[-5:]]
    for weight, before, after in chosen:
        print(f"  {weight:+8.3f}  {before} → {after}")


COMMAND = Command("inspect", "show the contents of a model file", configure, run, EXAMPLES, rank=14)

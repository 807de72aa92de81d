"""``partwise train``: from a column file to a model file."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from partwise.cli.console import STATUS, note, percent, print_json, size_of, tell
from partwise.cli.engine import engine_of
from partwise.cli.registry import Command, UsageError, training_tasks
from partwise.cli.settings import add_settings, gather
from partwise.exceptions import FormatError, ParameterError, unknown_name
from partwise.sequences.commands._files import USUAL, Converted, FileLayout, convert_labels

if TYPE_CHECKING:
    from partwise.data.columns import CodedColumn, Columns
    from partwise.templates.template_list import Templates

EXAMPLES = """
partwise train train.txt --model chunker.pw
partwise train train.txt --dev dev.txt --model ner.pw --columns word,pos,chunk,ner --label ner --scheme IOBES
partwise train train.txt -m tagger.pw -t 'word[-2..2]' -t 'suffix(word,1..4)[0]' --loss svm --learner dca
partwise train train.txt -m ner.pw -t ner --second ner-second --loss softmax_margin --learner dca -C 0.1 --max-passes 10
partwise train train.txt -m chunker.pw --checkpoint run.ckpt --report report.html -j -1
partwise train train.pack -m chunker.pw --workers 4
partwise train train.pack -m chunker.pw --scheduler tcp://head:8786 --checkpoint run.ckpt
partwise train --config chunker.toml --C 0.5
partwise train --task graph scenes.jsonl --model scenes.pw
"""

# What to use where --templates is not given, by the name of the label column.
USUAL_TEMPLATES = {"chunk": "chunking", "ner": "ner", "pos": "pos"}
_CONSTRUCTOR = (
    "loss", "learner", "learner_options", "C", "max_passes", "patience", "order", "scheme", "repair", "min_count",
    "hashing", "features", "n_jobs",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task", metavar="NAME", default="sequence",
        help=f"what to train: {', '.join(training_tasks())} (default: sequence; the others have their own options)",
    )  # fmt: skip
    add_settings(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from partwise.data.packs import is_pack

    settings = gather(args)
    for name, where in (
        ("train", "a column file to train on"),
        ("model", "where to write the model: --model FILE"),
    ):
        if settings[name] is None:
            raise UsageError(f"missing: {where}")
    templates, second = check_settings(settings)
    packed = is_pack(settings["train"])
    data, labels, layout, tags = (open_pack if packed else read_training_data)(args, settings)
    dev = None
    if settings["dev"] is not None:
        dev_data, dev_labels, _ = layout.read_labelled(settings["dev"])
        dev = dev_data, _prepared(args, dev_data, dev_labels, settings, layout.label)[0]
    if templates is None and not packed:
        templates = usual_templates(layout)
    names = tuple(name for name in layout.columns or () if name != layout.label) if packed else data.names
    model = make_model(settings, templates, second, names, verbose=int(not args.quiet))
    how = f"loss {settings['loss']}, learner {settings['learner']}, C {settings['C']:g}"
    note(args, how if templates is None else f"templates: {len(templates)}; {how}")
    begin = time.perf_counter()
    with engine_of(settings["workers"], settings["scheduler"]) as engine:
        model.fit(data, labels, dev=dev, checkpoint=settings["checkpoint"], **engine)
    seconds = time.perf_counter() - begin
    interrupted = model.result_.status == "interrupted"
    if interrupted and model.result_.best_step == 0:
        tell("partwise train: interrupted before the first pass was complete; nothing is saved")
        return 130
    info = {
        "columns": list(layout.columns or ()),
        "label": layout.label,
        "separator": layout.separator,
        "comment": layout.comment,
        "encoding": layout.encoding,
        "tags": tags,
        "train": {"file": settings["train"], "sentences": len(data), "tokens": data.tokens},
    }
    for stage in model.stages:
        stage.info_, stage.verbose = info, 0
    model.save(settings["model"])
    summary = summarise(model, settings, data, seconds)
    if settings["report"] is not None and not interrupted:
        write_report(model, settings, data, labels, dev, summary)
    show(args, summary)
    if interrupted:
        kept = f"the best model so far (pass {model.result_.best_step}) is in {settings['model']}"
        tell(f"partwise train: interrupted; {kept}")
    return 130 if interrupted else 0


def check_settings(settings: dict[str, Any]) -> tuple[Templates | None, Templates | None]:
    """Check what can be checked before a file is read; the templates of the two stages if they are given."""
    from partwise.data.packs import is_pack
    from partwise.estimation.base import make_learner, make_loss, thread_count
    from partwise.sequences.tags import scheme_name
    from partwise.storage import check_writable

    for name in ("model", "report", "checkpoint"):
        if settings[name] is not None:
            check_writable(settings[name])
    for name in ("train", "dev"):
        if name == "train" and is_pack(settings[name]):
            continue
        if settings[name] not in (None, "-") and not os.path.isfile(settings[name]):
            what = "is a folder" if os.path.isdir(settings[name]) else "there is no such file"
            raise FormatError(f"cannot be read: {what}", path=settings[name])
    if settings["second"] is not None and (settings["workers"] or settings["scheduler"]) is not None:
        raise UsageError("--second trains on one machine: omit --workers and --scheduler")
    if settings["scheme"] is not None:
        settings["scheme"] = scheme_name(settings["scheme"])
    if settings["patience"] is not None and settings["dev"] is None:
        raise UsageError("--patience needs held-out data: --dev")
    if settings["order"] < 1:
        raise ParameterError("order", "partwise train", "at least 1", settings["order"])
    options = settings["learner_options"] or {}
    make_learner(settings["learner"], settings["C"], settings["max_passes"], settings["seed"], options)
    settings["loss"] = settings["loss"] or str(make_loss(None, settings["learner"]))
    make_loss(settings["loss"])
    thread_count(settings["n_jobs"])
    first, second = (settings[name] and make_templates(settings[name]) for name in ("templates", "second"))
    return first, second


def make_model(
    settings: dict[str, Any],
    templates: Templates | None,
    second: Templates | None,
    columns: tuple[str, ...],
    verbose: int,
) -> Any:
    """The estimator with these settings, of one stage or of two; its templates fit the columns."""
    from partwise.sequences.labeler import SequenceLabeler
    from partwise.sequences.stacked import StackedLabeler

    chosen = {name: settings[name] for name in _CONSTRUCTOR}
    chosen |= {"random_state": settings["seed"], "verbose": verbose}
    if templates is not None:
        templates.check(columns)
    first = SequenceLabeler(templates, columns=columns, **chosen)
    if second is None:
        return first
    stacked = StackedLabeler(
        first, SequenceLabeler(second, **chosen), folds=settings["folds"], random_state=settings["seed"]
    )
    second.check((*columns, stacked.column))
    return stacked


def make_templates(items: list[str]) -> Templates:
    """All items together: presets, files and single templates."""
    from partwise.templates.template_list import FUNCTIONS, PRESETS, Templates

    found: Templates | None = None
    for item in items:
        if item in PRESETS:
            part = Templates.preset(item)
        elif os.path.isfile(item):
            part = Templates.read(item)
        elif "[" in item or item.lstrip("? ") in FUNCTIONS or "\n" in item:
            part = Templates.parse(item, "--templates")
        else:
            raise FormatError(f"neither a file nor a template: {unknown_name('templates', item, PRESETS)}", path=item)
        found = part if found is None else found + part
    if found is None:
        raise ParameterError("templates", "partwise train", "at least one", items)
    return found


def usual_templates(layout: FileLayout) -> Templates:
    """The preset for a label column of that name."""
    from partwise.templates.template_list import Templates

    name = USUAL_TEMPLATES.get(layout.label or "")
    if name is None:
        ready = ", ".join(USUAL_TEMPLATES.values())
        raise UsageError(f"there is no preset for the label {layout.label!r}; choose with --templates ({ready}, ...)")
    return Templates.preset(name)


def read_training_data(
    args: argparse.Namespace, settings: dict[str, Any]
) -> tuple[Columns, CodedColumn, FileLayout, str | None]:
    """Features, labels, the layout of the file with all that was left to defaults, and its tag scheme."""
    told = ("columns", "label", "separator", "comment", "encoding")
    layout = FileLayout(*(settings[name] for name in told))
    if layout.columns is not None and layout.label is not None and layout.label not in layout.columns:
        raise unknown_name("label", layout.label, layout.columns)
    data, labels, label = layout.read_labelled(settings["train"])
    columns = layout.columns
    if columns is None:
        columns = (*data.names, label) if layout.label is None else USUAL[: len(data.names) + 1]
    labels, tags = _prepared(args, data, labels, settings, label)
    return data, labels, replace(layout, columns=columns, label=label), tags


def open_pack(args: argparse.Namespace, settings: dict[str, Any]) -> tuple[Any, None, FileLayout, str | None]:
    """A pack in place of a file: its labels are inside."""
    from partwise.data.packs import Pack

    for name in ("second", "columns", "label", "separator", "comment", "encoding"):
        if settings[name] is not None:
            raise UsageError(f"--{name} cannot be used with a pack, which defines its own columns")
    if settings["report"] is not None and settings["dev"] is None:
        raise UsageError("--report on a model trained from a pack needs held-out data: --dev")
    pack = Pack(settings["train"])
    note(args, f"{pack.path}: {len(pack)} sentences, {pack.tokens} tokens, {len(pack.shards)} shards")
    info = pack.header["info"]
    told = (info.get(name) for name in ("label", "separator", "comment", "encoding"))
    layout = FileLayout(tuple(info.get("columns", ())), *told)
    return pack, None, layout, None


def _prepared(
    args: argparse.Namespace, data: Columns, labels: CodedColumn, settings: dict[str, Any], column: str | None
) -> tuple[CodedColumn, str | None]:
    """The labels in the wanted tag scheme, and the scheme of the file where one is wanted."""
    path, scheme = data.path or "<stdin>", settings["scheme"]
    found = Converted(labels, None, "")
    if scheme is not None:
        found = convert_labels(labels, scheme, path, settings["repair"])
    kinds = len(set(found.labels.codes.tolist()))
    counts = f"{path}: {len(data)} sentences, {data.tokens} tokens, {kinds} labels in column {column!r}"
    note(args, f"{counts}; {found.changes}" if found.changes else counts)
    return found.labels, found.found


def summarise(model: Any, settings: dict[str, Any], data: Columns, seconds: float) -> dict[str, Any]:
    """What came out, as numbers."""
    result = model.result_
    best = result.trace[result.best_step - 1] if result.best_step else None
    return {
        "model": settings["model"],
        "bytes": os.path.getsize(settings["model"]),
        "sentences": len(data),
        "tokens": data.tokens,
        "labels": len(model.classes_),
        "attributes": sum(stage.layout_.n_attributes for stage in model.stages),
        "weights": sum(len(stage.theta_) for stage in model.stages),
        "status": result.status,
        "passes": len(result.trace),
        "best_pass": result.best_step,
        "seconds": seconds,
        "objective": None if best is None else best.objective,
        "gap": None if result.certificate is None else result.certificate.gap,
        "dev_score": None if best is None else best.score,
        "report": None,
    }


def write_report(
    model: Any,
    settings: dict[str, Any],
    data: Columns,
    labels: CodedColumn | None,
    dev: Any,
    summary: dict[str, Any],
) -> None:
    """The HTML page: on the held-out data, or else on the training data, and its title says which."""
    from partwise.sequences.report import sequence_report

    X, y = (data, labels) if dev is None else dev
    assert y is not None  # a pack has a report only on held-out data
    if len(model.stages) > 1:
        from partwise.sequences.stacked import with_column

        X = with_column(X, model.column, model.first_.predict_coded(X))
    shown = "its training data" if dev is None else os.path.basename(settings["dev"])
    title = f"{os.path.basename(settings['model'])} on {shown}"
    info = {"file": settings["train"], **{name: summary[name] for name in ("sentences", "tokens", "seconds")}}
    sequence_report(settings["report"], model.stages[-1], X, y.to_lists(), title=title, train_info=info)
    summary["report"] = settings["report"]


def show(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    if args.json:
        print_json(summary)
        return
    status = STATUS.get(summary["status"], summary["status"])
    sizes = f"{summary['labels']} labels, {summary['weights']} weights"
    print(f"{summary['model']}: {size_of(summary['bytes'])}, {sizes}")
    line = f"{summary['passes']} pass{'es' * (summary['passes'] != 1)} in {summary['seconds']:.1f} s ({status})"
    if summary["objective"] is not None:
        line += f", objective {summary['objective']:.6g}"
    if summary["dev_score"] is not None:
        line += f", dev score {percent(summary['dev_score'])} at pass {summary['best_pass']}"
    print(line)
    if summary["report"] is not None:
        print(f"report: {summary['report']}")


COMMAND = Command("train", "train a sequence labeller on a column file", configure, run, EXAMPLES, rank=10)

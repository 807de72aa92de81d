"""``partwise evaluate``: precision, recall and F1 over chunks, as conlleval counts them, and accuracy."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.cli.console import percent, print_json, print_table, warn
from partwise.cli.registry import Command, UsageError
from partwise.exceptions import InputError
from partwise.sequences.commands._files import add_layout, convert_labels, tag_scheme
from partwise.sequences.commands._models import is_model, model_layout, open_model, predicted_labels

if TYPE_CHECKING:
    from partwise.data.columns import CodedColumn, Columns

EXAMPLES = """
partwise evaluate chunker.pw test.txt
partwise evaluate ner.pw test.txt --bootstrap --json
partwise predict chunker.pw test.txt | partwise evaluate -
partwise evaluate tagged.txt --gold-column 2 --predicted-column 3
partwise evaluate --gold gold.txt --predicted tagged.txt
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="[MODEL] FILE",
        nargs="*",
        help="a model and a file with gold labels, or a file whose last two columns are gold and predicted",
    )
    parser.add_argument("--model", "-m", metavar="FILE", help="the model file (instead of the first argument)")
    parser.add_argument("--gold", metavar="FILE", help="file with the gold labels, in its last column")
    parser.add_argument("--predicted", metavar="FILE", help="file with the predicted labels, in its last column")
    parser.add_argument(
        "--gold-column",
        metavar="N",
        type=int,
        help="number of the gold column, from 0; negative from the end",
    )
    parser.add_argument("--predicted-column", metavar="N", type=int, help="number of the predicted column")
    parser.add_argument(
        "--bootstrap",
        metavar="N",
        type=int,
        nargs="?",
        const=1000,
        help="95%% intervals from N resamples (1000)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="treat gold labels that the model does not know as an error"
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    parser.add_argument(
        "--n-jobs", "-j", metavar="N", type=int, default=1, help="threads, -1 for all cores (default: 1)"
    )
    add_layout(parser)


class Pair(NamedTuple):
    """Gold and predicted labels of the same tokens, and the gold labels that could not be predicted."""

    gold: CodedColumn
    predicted: CodedColumn
    unknown: dict[str, dict[str, Any]]


def run(args: argparse.Namespace) -> None:
    pair = find_pair(args)
    if pair.unknown:
        message = describe_unknown(pair.unknown)
        if args.strict:
            raise InputError(message)
        warn(f"{message}; they count as errors")
    scores = score(pair, args.bootstrap)
    if args.json:
        print_json(scores)
    else:
        show(pair, scores)


def find_pair(args: argparse.Namespace) -> Pair:
    """The two taggings, from wherever the command line says they are."""
    if args.model is not None:
        args.files = [args.model, *args.files]
        if len(args.files) != 2:
            raise UsageError("--model FILE needs one file with gold labels")
    if args.gold is not None or args.predicted is not None:
        if args.files or args.gold is None or args.predicted is None:
            raise UsageError("--gold FILE and --predicted FILE must be used together and without other files")
        gold = _column(args, args.gold, args.gold_column, -1)
        return Pair(gold, _column(args, args.predicted, args.predicted_column, -1), {})
    if len(args.files) == 2:
        return _by_model(args, *args.files)
    if len(args.files) != 1:
        raise UsageError("expected MODEL FILE, or FILE, or --gold FILE --predicted FILE")
    path = args.files[0]
    if is_model(path):
        raise UsageError(f"{path} is a model; on which file should it be evaluated? (partwise evaluate {path} FILE)")
    data = _read(args, path)
    if len(data.names) < 2:
        raise InputError(f"{path}: only one column; expected gold and predicted labels in the last two")
    places = (-2, args.gold_column), (-1, args.predicted_column)
    gold, predicted = (data.coded(default if given is None else given) for default, given in places)
    return Pair(gold, predicted, {})


def _read(args: argparse.Namespace, path: str) -> Columns:
    from partwise.data.column_files import read_columns

    return read_columns(
        path, separator=args.separator, comment=args.comment, columns=args.columns, encoding=args.encoding or "utf-8"
    )


def _column(args: argparse.Namespace, path: str, given: int | None, default: int) -> CodedColumn:
    data = _read(args, path)
    if given is None and args.label is not None:
        return data.coded(args.label)
    return data.coded(default if given is None else given)


def _by_model(args: argparse.Namespace, path: str, file: str) -> Pair:
    model = open_model(path, args.n_jobs)
    data, gold, _ = model_layout(model, args).read_labelled(file)
    known = gold
    scheme = model.stages[-1].scheme
    if scheme is not None:
        with suppress(InputError):  # labels that are no tags at all are unknown ones
            known = convert_labels(gold, scheme, file).labels
    predicted = predicted_labels(model, model.predict_coded(data))
    return Pair(gold, predicted, unknown_labels(known, model.classes_, data))


def unknown_labels(gold: CodedColumn, classes: list[Any], data: Columns) -> dict[str, dict[str, Any]]:
    """Gold labels that the model never saw: how often, and where first."""
    import numpy as np

    found: dict[str, dict[str, Any]] = {}
    counts = np.bincount(gold.codes, minlength=len(gold.vocab))
    for code in np.flatnonzero(counts).tolist():
        if gold.vocab[code] not in classes:
            row = int(np.argmax(gold.codes == code))
            sentence = int(np.searchsorted(gold.offsets, row, side="right")) - 1
            place = data.place(sentence, row - int(gold.offsets[sentence]))
            found[gold.vocab[code]] = {"count": int(counts[code]), "first": place}
    return found


def describe_unknown(unknown: dict[str, dict[str, Any]]) -> str:
    """In words, the most frequent first."""
    ranked = sorted(unknown.items(), key=lambda item: -item[1]["count"])
    shown = [f"{label!r} ({at['count']}, first at {at['first']})" for label, at in ranked[:5]]
    rest = f" and {len(ranked) - 5} more" if len(ranked) > 5 else ""
    total = sum(at["count"] for at in unknown.values())
    tokens = "1 token has a label" if total == 1 else f"{total} tokens have labels"
    return f"{tokens} that the model does not know: {', '.join(shown)}{rest}"


def score(pair: Pair, resamples: int | None) -> dict[str, Any]:
    """All numbers, as fractions."""
    from partwise.sequences.chunks import chunk_scores
    from partwise.sequences.resampling import bootstrap

    counts = chunk_scores(pair.gold, pair.predicted)
    tags = _are_tags(pair)
    found: dict[str, Any] = {
        "sentences": len(pair.gold.offsets) - 1,
        "tokens": counts.tokens,
        "accuracy": counts.accuracy,
    }
    if tags:
        found |= {
            "precision": counts.precision,
            "recall": counts.recall,
            "f1": counts.f1,
            **counts.overall._asdict(),
        }
        found["types"] = {
            name: {"precision": c.precision, "recall": c.recall, "f1": c.f1, **c._asdict()}
            for name, c in counts.types.items()
        }
    else:
        found["labels"] = _by_label(pair)
    if pair.unknown:
        found["unknown_labels"] = pair.unknown
    if resamples is not None:
        found["bootstrap"] = {"resamples": resamples, "level": 0.95}
        for metric in ("f1", "precision", "recall", "accuracy") if tags else ("accuracy",):
            interval = bootstrap(pair.gold, pair.predicted, metric, n=resamples)
            found["bootstrap"][metric] = [interval.low, interval.high]
    return found


def _are_tags(pair: Pair) -> bool:
    used = {column.vocab[code] for column in (pair.gold, pair.predicted) for code in set(column.codes.tolist())}
    return used == {"O"} or tag_scheme(sorted(used)) is not None


def _by_label(pair: Pair) -> dict[str, dict[str, Any]]:
    from partwise.sequences.tokens import confusion

    labels, matrix = confusion(pair.gold, pair.predicted)
    right, gold, predicted = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
    return {
        label: {
            "precision": float(right[k] / max(predicted[k], 1)),
            "recall": float(right[k] / max(gold[k], 1)),
            "f1": float(2 * right[k] / max(gold[k] + predicted[k], 1)),
            "correct": int(right[k]),
            "gold": int(gold[k]),
            "predicted": int(predicted[k]),
        }
        for k, label in enumerate(labels)
    }


def show(pair: Pair, scores: dict[str, Any]) -> None:
    """conlleval's table for chunks; one row per label for other labels."""
    if "types" in scores:
        from partwise.sequences.chunks import chunk_scores

        print(chunk_scores(pair.gold, pair.predicted).report())
    else:
        print(f"{scores['tokens']} tokens, accuracy {percent(scores['accuracy'])}%")
        rows = [
            (
                label,
                percent(c["precision"]),
                percent(c["recall"]),
                percent(c["f1"]),
                c["gold"],
                c["predicted"],
            )
            for label, c in scores["labels"].items()
        ]
        print_table(("label", "precision", "recall", "F1", "gold", "predicted"), rows)
    for metric, interval in scores.get("bootstrap", {}).items():
        if isinstance(interval, list):
            low, high = map(percent, interval)
            print(f"95% interval of {metric}: {low} to {high} ({scores['bootstrap']['resamples']} resamples)")


COMMAND = Command("evaluate", "score predicted labels against gold ones", configure, run, EXAMPLES, rank=12)

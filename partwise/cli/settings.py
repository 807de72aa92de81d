"""The settings of ``partwise train``: one table for the flags and for the keys of a TOML file.

A flag and a key of the same name mean the same; a flag wins. An unknown key, or a value of the wrong type, is
an error that names the file, the key and what was expected.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from partwise.cli.registry import UsageError
from partwise.exceptions import FormatError, ParameterError, unknown_name

__all__ = [
    "SETTINGS",
    "Setting",
    "add_flags",
    "add_settings",
    "count",
    "gather",
    "read_config",
    "separator",
    "settle_model",
    "truth",
]


class Kind(NamedTuple):
    """A type of value: its description, a parser for the text of a flag, and a check for values from a TOML file."""

    expected: str
    parse: Callable[[str], Any]
    accepts: Callable[[Any], bool]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or isinstance(value, float)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names separated by commas, got {text!r}")
    return found


def separator(text: str) -> str:
    r"""A separator as a shell can spell it: "tab" and "\t" are the tab."""
    found = "\t" if text.lower() in ("tab", "\\t") else text
    if not found or "\n" in found:
        raise argparse.ArgumentTypeError(f"expected a separator such as tab, got {text!r}")
    return found


def count(text: str) -> int:
    """A whole number of at least 0, for ``--top`` and the like."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def loss(text: str) -> str | tuple[float, float]:
    """A loss by its name, or as β,γ."""
    if "," not in text:
        return text
    try:
        beta, gamma = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a name or two numbers such as 3,1 or inf,1, got {text!r}") from None
    return beta, gamma


def truth(text: str) -> bool:
    """yes or no."""
    known = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"expected yes or no, got {text!r}")
    return known[text.lower()]


def option(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value a number where it looks like one."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, {"true": True, "false": False}.get(value.lower(), value)


KINDS = {
    "text": Kind("a string", str, lambda value: isinstance(value, str)),
    "integer": Kind("an integer", int, _is_int),
    "number": Kind("a number", float, _is_number),
    "names": Kind("a list of names", names, lambda value: isinstance(value, str) or _is_strings(value)),
    "separator": Kind("a separator", separator, lambda value: isinstance(value, str) and bool(value)),
    "texts": Kind("a string or a list of strings", str, lambda value: isinstance(value, str) or _is_strings(value)),
    "loss": Kind(
        "a name or two numbers [beta, gamma]",
        loss,
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)))
        ),
    ),
    "truth": Kind("true or false", truth, lambda value: isinstance(value, bool)),
    "options": Kind("a table", option, lambda value: isinstance(value, dict)),
}


class Setting(NamedTuple):
    """One setting: its name (a key of the file, an attribute of the flags), its flags, kind and help."""

    name: str
    flags: tuple[str, ...]
    kind: str
    metavar: str
    help: str
    default: Any = None

    def convert(self, value: Any, path: str) -> Any:
        """A value of a TOML file."""
        kind = KINDS[self.kind]
        if not kind.accepts(value):
            raise ParameterError(self.name, path, kind.expected, value)
        if self.kind == "names":
            return names(value) if isinstance(value, str) else tuple(value)
        if self.kind == "separator":
            return separator(value)
        if self.kind == "texts":
            return [value] if isinstance(value, str) else value
        if self.kind == "loss":
            return loss(value) if isinstance(value, str) else (float(value[0]), float(value[1]))
        return float(value) if self.kind == "number" else value


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("train", ("train",), "text", "TRAIN", "column file to train on, or a pack; '-' is standard input"),
        Setting("model", ("--model", "-m", "--save"), "text", "FILE", "the model file to write (required)"),
        Setting("dev", ("--dev",), "text", "FILE", "held-out data; the best pass on it is kept"),
        Setting(
            "columns",
            ("--columns",),
            "names",
            "A,B,...",
            "names of the columns (default: word,pos,chunk,ner, as many as there are)",
        ),
        Setting("label", ("--label",), "text", "NAME", "the column to learn (default: the last)"),
        Setting("separator", ("--separator",), "separator", "S", "between columns, such as tab (default: white space)"),
        Setting("encoding", ("--encoding",), "text", "NAME", "encoding of the file, such as latin-1 (default: utf-8)"),
        Setting("comment", ("--comment",), "text", "S", "skip lines between sentences that begin with this"),
        Setting(
            "templates",
            ("--templates", "-t"),
            "texts",
            "T",
            "a preset (chunking, ner, pos), a file, or one template such as 'word[-1..1]'; repeatable",
        ),
        Setting(
            "second",
            ("--second",),
            "texts",
            "T",
            "templates of a second stage, which sees the labels of the first in a column 'predicted', "
            "such as ner-second; repeatable",
        ),
        Setting("folds", ("--folds",), "integer", "N", "with --second: folds of the cross-validation (default: 5)", 5),
        Setting(
            "loss",
            ("--loss",),
            "loss",
            "L",
            "crf, svm, softmax_margin, perceptron, slack_svm, risk, ramp, or beta,gamma "
            "(default: crf; the perceptron has its own)",
        ),
        Setting(
            "learner",
            ("--learner",),
            "text",
            "NAME",
            "lbfgs, dca, sgd, perceptron, mira, exact_dca, n_slack, one_slack, frank_wolfe, sdca, … (default: lbfgs)",
            "lbfgs",
        ),
        Setting(
            "learner_options",
            ("--set",),
            "options",
            "NAME=VALUE",
            "a setting of the learner; repeatable",
        ),
        Setting(
            "C",
            ("--C", "-C"),
            "number",
            "C",
            "weight of the losses; larger means less regularisation (default: 3)",
            3.0,
        ),
        Setting("max_passes", ("--max-passes",), "integer", "N", "maximum number of passes (default: the learner's)"),
        Setting(
            "patience",
            ("--patience",),
            "integer",
            "N",
            "with --dev: stop after N passes without improvement",
        ),
        Setting("order", ("--order",), "integer", "N", "number of previous labels in a transition (default: 1)", 1),
        Setting(
            "scheme",
            ("--scheme",),
            "text",
            "NAME",
            "the labels are chunk tags: train on them as IOB2, IOBES or BILOU, and predict only legal sequences",
        ),
        Setting(
            "repair",
            ("--repair",),
            "truth",
            "YES",
            "with --scheme: replace ill-formed tags and count them (yes), or stop at the first (no) (default: yes)",
            True,
        ),
        Setting("min_count", ("--min-count",), "integer", "N", "drop attributes that occur less often (default: 1)", 1),
        Setting("hashing", ("--hashing",), "integer", "BITS", "hash attributes instead of keeping their names"),
        Setting(
            "features",
            ("--features",),
            "text",
            "WHICH",
            "weights for the 'observed' (attribute, label) pairs or 'all' (default: observed)",
            "observed",
        ),
        Setting("seed", ("--seed",), "integer", "N", "seed of the random number generator (default: 0)", 0),
        Setting(
            "n_jobs",
            ("--n-jobs", "-j"),
            "integer",
            "N",
            "threads, -1 for all cores; does not change the result (default: 1)",
            1,
        ),
        Setting(
            "checkpoint",
            ("--checkpoint",),
            "text",
            "FILE",
            "save the training state to this file after every pass, and resume from it",
        ),
        Setting("report", ("--report",), "text", "FILE", "write an HTML report"),
        Setting("workers", ("--workers",), "integer", "N", "train with N processes on this machine"),
        Setting("scheduler", ("--scheduler",), "text", "ADDRESS", "train on a dask cluster, such as tcp://host:8786"),
    )
}


def add_written_model(parser: argparse.ArgumentParser) -> None:
    """--model of a command that trains: the model file, which it writes and the other commands read."""
    flags = ("--model", "-m", "--save", "-o")
    parser.add_argument(*flags, dest="save", metavar="FILE", help="the model file to write (required)")


def add_read_model(parser: argparse.ArgumentParser) -> None:
    """The model file of a command that reads one: the first argument, or --model; see :func:`settle_model`."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="the model file")
    parser.add_argument(
        "--model", "-m", dest="named_model", metavar="FILE", help="the model file (instead of the first argument)"
    )


def settle_model(args: argparse.Namespace, other: str | None = None, default: str | None = None) -> None:
    """Let ``args.model`` be the model file however it was given; ``other``: the argument after it, with its default.

    Where --model names it, the first argument is no longer the model but what comes after.
    """
    if args.named_model is not None:
        rest = [value for value in (args.model, getattr(args, other) if other else None) if value is not None]
        if len(rest) > (1 if other else 0):
            raise UsageError(f"--model names the model file: {rest[0]!r} is an extra argument")
        args.model = args.named_model
        if other:
            setattr(args, other, rest[0] if rest else None)
    if args.model is None:
        raise UsageError("missing: the model file")
    if other and getattr(args, other) is None:
        if default is None:
            raise UsageError(f"missing: {other.upper()}")
        setattr(args, other, default)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """A flag for each setting, and one for a file of them."""
    add_flags(parser, SETTINGS.values())
    parser.add_argument("--config", metavar="FILE", help="a TOML file with the same settings; flags take precedence")


def add_flags(parser: argparse.ArgumentParser, settings: Iterable[Setting]) -> None:
    """A flag for each of these; None if it is not given, so that a file can set it instead."""
    for setting in settings:
        choices: dict[str, Any] = {"metavar": setting.metavar, "type": KINDS[setting.kind].parse}
        if not setting.flags[0].startswith("-"):
            parser.add_argument(setting.name, nargs="?", help=setting.help, **choices)
        else:
            action = "append" if setting.kind in ("texts", "options") else "store"
            parser.add_argument(*setting.flags, dest=setting.name, action=action, help=setting.help, **choices)


def read_config(path: str) -> dict[str, Any]:
    """The settings of a TOML file, checked; keys may have hyphens as the flags do."""
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not TOML: {error}", path=path) from None
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in SETTINGS:
            raise FormatError(str(unknown_name("key", key, SETTINGS)), path=path)
        found[name] = SETTINGS[name].convert(value, path)
    return found


def gather(args: argparse.Namespace) -> dict[str, Any]:
    """All settings: the defaults, overridden by the file, overridden by the flags."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    if args.config is not None:
        values.update(read_config(args.config))
    for name, setting in SETTINGS.items():
        given = getattr(args, name)
        if given is not None:
            values[name] = {**(values[name] or {}), **dict(given)} if setting.kind == "options" else given
    return values

"""The command line: ``partwise train | predict | evaluate | inspect | explain | topics | demo | reproduce | bench``.

Exit codes: 0 done, 1 an error that partwise explains, 2 a wrong command line, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from partwise._version import __version__
from partwise.cli.registry import Command, UsageError, all_commands, find_command, training_command
from partwise.exceptions import PartwiseError

__all__ = ["build_parser", "main"]

INTERRUPTED = 130


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Examples as they are written, and room for the names of commands and flags."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action.choices, dict):  # commands are listed two columns further in than argparse reckons with
            self._action_max_length += 2


_EPILOG = """\
exit codes: 0 done, 1 error (explained on standard error), 2 wrong usage, 130 interrupted
more about a command: partwise COMMAND --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = "partwise"
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show is no reason to stop
    try:
        arguments = training_command(arguments)
        args = build_parser(arguments).parse_args(arguments)
        name = f"partwise {args.command.name}"
        with warnings.catch_warnings():
            warnings.showwarning = functools.partial(_show_warning, name)
            code = args.command.run(args) or 0
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: after --help, --version, or an error that it has shown
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return 0
    except (PartwiseError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        print(f"{name}: error: {_explained(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _show_warning(name: str, message: Warning | str, category: type[Warning], *place: object) -> None:
    """A warning as a plain sentence, without the place in the code, which does not help whoever runs a command."""
    print(f"{name}: warning: {message}", file=sys.stderr)


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of all commands, or of the one that the arguments name, which is quicker."""
    parser = argparse.ArgumentParser(
        "partwise",
        description="Structured prediction: train, apply and explain models of sequences, trees, links and graphs.",
        epilog=_EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"partwise {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    places = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    command = None if wanted is None else find_command(wanted)
    for each in [command] if command is not None else all_commands():
        _add(places, each)
    if wanted is not None and command is None:
        names = [each.name for each in all_commands()]
        near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        parser.error(f"unknown command {wanted!r}: {hint}")
    return parser


def _add(places: argparse._SubParsersAction[argparse.ArgumentParser], command: Command) -> None:
    examples = "examples:\n" + "".join(f"  {line.strip()}\n" for line in command.examples.strip().splitlines())
    parser = places.add_parser(
        command.name,
        help=command.help,
        description=command.help[:1].upper() + command.help[1:] + ".",
        epilog=examples if command.examples else None,
        formatter_class=_Formatter,
    )
    command.configure(parser)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of errors")
    parser.set_defaults(command=command)


def _explained(error: BaseException) -> str:
    """The message of an error; that of the operating system with the file's name in front."""
    if isinstance(error, OSError) and not isinstance(error, PartwiseError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def _close_stdout() -> None:
    """The reader of a pipe has gone (``| head``): nothing more may be written, not even at exit."""
    with contextlib.suppress(OSError, ValueError):  # where standard output is no file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Commands by name: what a command is, and where commands are found.

A file of ``partwise/<task>/commands`` that defines ``COMMAND`` is the command of that name: a task registers a command
by putting a file there. A command named ``NAME-train`` is what ``partwise train --task NAME`` runs, too. Other packages
add theirs as entry points of the group ``partwise.commands``, each a :class:`Command`.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from partwise.exceptions import PartwiseError

__all__ = [
    "GROUP",
    "Command",
    "UsageError",
    "all_commands",
    "builtin_names",
    "find_command",
    "training_command",
    "training_tasks",
]

GROUP = "partwise.commands"


class UsageError(PartwiseError):
    """A command line that makes no sense; ends with exit code 2, as argparse's own errors do."""


@dataclass(frozen=True)
class Command:
    """One word after ``partwise``.

    Parameters
    ----------
    name : str
    help : str
        One line for the list of commands; it opens the command's own help, too.
    configure : callable
        Adds arguments to a parser. Must be quick: it runs for ``--help``.
    run : callable
        From parsed arguments to an exit code, None for 0. Heavy imports belong inside it.
    examples : str
        Command lines for the end of the help.
    rank : int
        Place in the list of commands, then by name.
    """

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    examples: str = ""
    rank: int = 100


@functools.cache
def _builtin() -> dict[str, str]:
    """The module of each command that comes with partwise, found without importing any."""
    root = Path(__file__).parents[1]
    found = {}
    for folder in sorted(root.glob("*/commands")):
        for module in pkgutil.iter_modules([str(folder)]):
            if not module.name.startswith("_"):
                found[module.name.replace("_", "-")] = f"partwise.{folder.parent.name}.commands.{module.name}"
    return found


def builtin_names() -> list[str]:
    """Names of the commands that come with partwise."""
    return sorted(_builtin())


def find_command(name: str) -> Command | None:
    """The command of that name, importing no other; None if there is none."""
    if name in _builtin():
        found: Command = importlib.import_module(_builtin()[name]).COMMAND
        return found
    return _plugged_in().get(name)


def all_commands() -> list[Command]:
    """Every command, in the order of the help."""
    found = {name: command for name in builtin_names() if (command := find_command(name)) is not None}
    return sorted({**_plugged_in(), **found}.values(), key=lambda command: (command.rank, command.name))


def training_tasks() -> list[str]:
    """What ``partwise train --task`` may name: sequences, and the tasks with a ``…-train`` command of their own."""
    names = {*builtin_names(), *_plugged_in()}
    return ["sequence", *sorted(name.removesuffix("-train") for name in names if name.endswith("-train"))]


def training_command(arguments: list[str]) -> list[str]:
    """``train --task NAME …`` as the command line of that task's own command; other command lines as they are.

    Examples
    --------
    >>> training_command(["train", "a.jsonl", "--task", "graph", "-q"])
    ['graph-train', 'a.jsonl', '-q']
    """
    first = next((k for k, word in enumerate(arguments) if not word.startswith("-")), None)
    if first is None or arguments[first] != "train":
        return arguments
    rest, task = [], "sequence"
    words = iter(arguments)
    for word in words:
        if word == "--task":
            task = next(words, "")
        elif word.startswith("--task="):
            task = word.removeprefix("--task=")
        else:
            rest.append(word)
    known = training_tasks()
    if task not in known:
        raise UsageError(f"--task must be one of {', '.join(known)}; got {task!r}")
    if task != "sequence":
        rest[first] = f"{task}-train"
    return rest


def _plugged_in() -> dict[str, Command]:
    from importlib.metadata import entry_points

    found: dict[str, Command] = {}
    for point in entry_points(group=GROUP):
        command = point.load()
        if not isinstance(command, Command):
            raise PartwiseError(f"entry point {point.name!r} of {GROUP} is not a Command: {point.value}")
        found[command.name] = command
    return found

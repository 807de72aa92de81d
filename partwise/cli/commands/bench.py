"""``partwise bench``: races against other programs, from a source checkout."""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

from partwise.cli.console import print_json
from partwise.cli.registry import Command
from partwise.exceptions import PartwiseError, unknown_name

EXAMPLES = """
partwise bench --list
partwise bench crfsuite_race
partwise bench crfsuite_race -- --quick
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the benchmark to run; without it, all are listed")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument("rest", metavar="-- ...", nargs="*", help="arguments of the benchmark")


def folder() -> Path:
    """benchmarks/ beside the package, where the package is part of a source checkout."""
    import partwise

    place = Path(partwise.__file__).resolve().parent.parent / "benchmarks"
    if not place.is_dir():
        raise PartwiseError(
            "the benchmarks are not installed: they are in the folder benchmarks/ of the source repository, "
            "to be run from a checkout of it (make bench)"
        )
    return place


def find() -> dict[str, Path]:
    """Benchmarks by name."""
    return {path.stem: path for path in sorted(folder().glob("*.py")) if not path.name.startswith("_")}


def summary(path: Path) -> str:
    """The first line of a program's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].rstrip(".") if text else ""


def run(args: argparse.Namespace) -> int:
    known = find()
    if args.list or args.name is None:
        found = {name: summary(path) for name, path in known.items()}
        if args.json:
            print_json(found)
        else:
            width = max(map(len, found), default=0)
            print("\n".join(f"{name:<{width}}  {text}" for name, text in found.items()))
        return 0
    name = args.name.removesuffix(".py").replace("-", "_")
    if name not in known:
        raise unknown_name("benchmark", args.name, known)
    code = subprocess.run([sys.executable, str(known[name]), *args.rest], check=False).returncode
    if code:
        raise PartwiseError(f"{known[name].name} ended with exit code {code}")
    return 0


COMMAND = Command(
    "bench", "run a benchmark against other programs (needs a source checkout)", configure, run, EXAMPLES, rank=91
)

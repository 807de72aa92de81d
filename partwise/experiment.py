"""Experiments: reproductions of tables and figures of the papers, one file each in the folder ``experiments``.

An experiment is a list of **cells**, each a dict of plain settings, and a function that runs one. Every finished
cell is written to a file of its own, named by a hash of its settings, of the code that ran it and of the sizes of
the data files. So an interrupted experiment resumes where it stopped, and one whose code was changed does not
mix old numbers with new ones. At the end there are ``results.json``, ``table.md`` (with the paper's figures beside
ours) and a picture.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import platform
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partwise._atomic import replacing
from partwise._experiment_tables import markdown_table, plain, table_of_cells
from partwise._version import __version__
from partwise.exceptions import InputError, ParameterError, unknown_name

__all__ = [
    "Context",
    "Experiment",
    "Needs",
    "find_experiments",
    "markdown_table",
    "register",
    "run_experiment",
]

Settings = dict[str, Any]


@dataclass(frozen=True)
class Needs:
    """A data file: its path in the data folder, and where to get it."""

    path: str
    origin: str


@dataclass(frozen=True)
class Context:
    """The context of a run: whether it is the quick variant, where the data are, and how many to train on."""

    quick: bool
    data: Path
    sentences: int | None = None  # of the training data, the first; None for all

    def file(self, path: str) -> str:
        """A file of the data folder."""
        return os.fspath(self.data / path)


@dataclass(frozen=True)
class Cell:
    """A finished run."""

    settings: Settings
    result: dict[str, Any]
    seconds: float


def _no_table(cells: list[Cell], context: Context) -> str:
    return table_of_cells(cells)


@dataclass(frozen=True)
class Experiment:
    """An experiment, as its file declares it with ``register``.

    Parameters
    ----------
    name, description, paper : str
        What ``reproduce`` calls it, one line on what it shows, and where in which paper that is.
    cells : callable
        (context) → the settings of all runs, in order; JSON-able dicts.
    run : callable
        (settings, context) → the result of one run; a JSON-able dict.
    needs : tuple of Needs
        Data files of the full variant. The quick one needs none.
    table : callable, optional
        (cells, context) → Markdown. By default one row per cell with all its numbers.
    draw : callable, optional
        (figure, cells, context): draws on a matplotlib figure.
    pictures : callable, optional
        (cells, context) → rows of pictures, (title, [(words, (height, width, 3) colours), …]), of an HTML report.
    """

    name: str
    description: str
    paper: str
    cells: Callable[[Context], list[Settings]]
    run: Callable[[Settings, Context], dict[str, Any]]
    needs: tuple[Needs, ...] = ()
    table: Callable[[list[Cell], Context], str] = _no_table
    draw: Callable[[Any, list[Cell], Context], None] | None = None
    pictures: Callable[[list[Cell], Context], list[Any]] | None = None
    code: str = field(default="", repr=False)  # a hash of the code that runs a cell
    file: Path | None = None
    parts: bool = False  # whether it can train on the first sentences alone


EXPERIMENTS: dict[str, Experiment] = {}


def register(
    name: str,
    run: Callable[..., Any],
    *,
    description: str,
    paper: str = "",
    cells: Callable[[Context], list[Settings]] | Iterable[Settings] = ({},),
    quick: Iterable[Settings] | None = None,
    needs: Iterable[Needs] = (),
    table: Callable[[list[Cell], Context], str] | None = None,
    draw: Callable[[Any, list[Cell], Context], None] | None = None,
    pictures: Callable[[list[Cell], Context], list[Any]] | None = None,
    parts: bool = False,
) -> Experiment:
    """Make an experiment known; called at the end of its file.

    ``cells`` is a function of the context, or plain lists of settings: ``cells`` for the full and ``quick`` for
    the quick variant. ``run`` is called as ``run(settings, context)`` if its second parameter is named
    ``context``, else as ``run(**settings)``, and so may be any function with keyword arguments.

    Examples
    --------
    >>> def square(number):
    ...     return {"square": number**2}
    >>> experiment = register("squares", square, description="squares", cells=[{"number": 3}])
    >>> experiment.run({"number": 3}, Context(quick=False, data=Path()))
    {'square': 9}
    >>> del EXPERIMENTS["squares"]
    """
    if callable(cells):
        listed = cells
    else:
        full, small = list(cells), list(quick) if quick is not None else list(cells)

        def listed(context: Context) -> list[Settings]:
            return small if context.quick else full

    def call(settings: Settings, context: Context) -> dict[str, Any]:
        if "context" in inspect.signature(run).parameters:
            answer: dict[str, Any] = run(settings, context)
            return answer
        answer = run(**settings)
        return answer

    EXPERIMENTS[name] = Experiment(
        name,
        description,
        paper,
        listed,
        call,
        tuple(needs),
        table or _no_table,
        draw,
        pictures,
        code_version(run),
        _loading,
        parts,
    )
    return EXPERIMENTS[name]


def code_version(function: Callable[..., Any]) -> str:
    """A hash of a function and of all in its file that it uses; comments and layout do not count."""
    try:
        tree = ast.parse(Path(inspect.getfile(function)).read_text("utf-8"))
    except (OSError, TypeError, SyntaxError):  # typed in, not written in a file
        return hashlib.blake2b(function.__code__.co_code, digest_size=8).hexdigest()
    known: dict[str, ast.AST] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [getattr(node, "name", None), *(getattr(target, "id", None) for target in targets)]
        known.update({name: node for name in names if name})
    wanted, used = [function.__name__], {}
    while wanted:
        name = wanted.pop()
        if name in known and name not in used:
            used[name] = ast.dump(known[name])
            wanted += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]
    return hashlib.blake2b(repr(sorted(used.items())).encode(), digest_size=8).hexdigest()


# finding


def experiments_folder() -> Path:
    """``$PARTWISE_EXPERIMENTS``, else the folder ``experiments`` beside the package in a source checkout."""
    given = os.environ.get("PARTWISE_EXPERIMENTS")
    folder = Path(given) if given else Path(__file__).resolve().parent.parent / "experiments"
    if not folder.is_dir():
        raise InputError(
            f"no experiments in {folder}: they are part of a source checkout, not of the installed package; "
            "set PARTWISE_EXPERIMENTS to the folder that holds them"
        )
    return folder


def find_experiments() -> dict[str, str]:
    """Name → description of all experiments. A file that cannot be run is a warning that says why."""
    folder = experiments_folder()
    sys.path.insert(0, os.fspath(folder))  # files may import one another
    try:
        for file in sorted(folder.glob("*.py")):
            if not file.stem.startswith("_"):
                _load(file)
    finally:
        sys.path.remove(os.fspath(folder))
    here = {name: e for name, e in EXPERIMENTS.items() if e.file is not None and e.file.parent == folder}
    return {name: here[name].description for name in sorted(here)}


_loaded: dict[Path, str] = {}
_loading: Path | None = None


def _load(file: Path) -> None:
    """Run a file, which registers its experiments; again only if it has changed."""
    global _loading
    text = file.read_text("utf-8")
    if _loaded.get(file) == text:
        return
    for name in [name for name, experiment in EXPERIMENTS.items() if experiment.file == file]:
        del EXPERIMENTS[name]
    module = types.ModuleType(f"partwise_experiment_{file.stem}")
    module.__file__ = os.fspath(file)
    sys.modules[module.__name__] = module
    _loading = file
    try:
        exec(compile(text, os.fspath(file), "exec"), module.__dict__)
    except Exception as error:
        warnings.warn(f"{file}: {type(error).__name__}: {error}", stacklevel=3)
    finally:
        _loading = None
    _loaded[file] = text


def data_folder(data: str | os.PathLike[str] | None) -> Path:
    """``data``, else ``$PARTWISE_DATA``, else ``../shared/data`` beside a source checkout."""
    if data is not None:
        return Path(data)
    given = os.environ.get("PARTWISE_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


def _check_data(experiment: Experiment, folder: Path) -> None:
    missing = [need for need in experiment.needs if not (folder / need.path).is_file()]
    if missing:
        rows = "".join(f"\n  {need.path}: {need.origin}" for need in missing)
        raise InputError(
            f"experiment {experiment.name} needs data that {folder} does not have (name the folder with --data "
            f"or PARTWISE_DATA; --quick needs none):{rows}"
        )


# running


def run_experiment(
    name: str,
    *,
    quick: bool = False,
    out: str | os.PathLike[str] = "out/experiments",
    data: str | os.PathLike[str] | None = None,
    sentences: int | None = None,
) -> dict[str, Any]:
    """Run an experiment, or what is left of it; trained on the first ``sentences`` only, where it can do that.

    Returns
    -------
    dict
        name, paper, quick, sentences, cells (settings, result and seconds of each), table (Markdown), and files: the
        paths of what was written.
    """
    if name not in EXPERIMENTS or EXPERIMENTS[name].file is not None:
        known = find_experiments()
        if name not in known:
            raise unknown_name("experiment", name, known)
    experiment = EXPERIMENTS[name]
    if sentences is not None:
        if not experiment.parts or quick:
            able = sorted(name for name, other in EXPERIMENTS.items() if other.parts)
            what = f"the quick variant of {name}" if quick else f"experiment {name}"
            raise InputError(f"{what} takes no number of sentences; full variants of these do: {', '.join(able)}")
        if sentences < 1:
            raise ParameterError("sentences", name, "at least 1", sentences)
    context = Context(quick, data_folder(data), sentences)
    if not quick:
        _check_data(experiment, context.data)
    folder = Path(out) / (f"{name}-quick" if quick else name if sentences is None else f"{name}-{sentences}")
    cells = _run_cells(experiment, context, folder)
    result: dict[str, Any] = {
        "name": name,
        "description": experiment.description,
        "paper": experiment.paper,
        "quick": quick,
        "sentences": sentences,
        "partwise": __version__,
        "python": platform.python_version(),
        "cells": [{"settings": c.settings, "result": c.result, "seconds": c.seconds} for c in cells],
        "table": experiment.table(cells, context),
    }
    result["files"] = _write(experiment, context, cells, folder, result)
    return result


def _run_cells(experiment: Experiment, context: Context, folder: Path) -> list[Cell]:
    wanted = experiment.cells(context)
    store = folder / "cells"
    store.mkdir(parents=True, exist_ok=True)
    sizes = [] if context.quick else [(n.path, (context.data / n.path).stat().st_size) for n in experiment.needs]
    done = []
    for number, settings in enumerate(wanted, start=1):
        try:
            which: list[Any] = [settings, experiment.code, __version__, sizes]
            if context.sentences is not None:
                which.append(context.sentences)
            key = json.dumps(which, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise ParameterError("cells", experiment.name, "dicts of JSON values", settings) from None
        path = store / f"{hashlib.blake2b(key.encode(), digest_size=10).hexdigest()}.json"
        found = _read_cell(path, settings)
        if found is None:
            begin = time.perf_counter()
            result = experiment.run(dict(settings), context)
            found = Cell(settings, plain(result), time.perf_counter() - begin)
            _write_text(path, json.dumps(found.__dict__, indent=1))
        _say(f"{experiment.name} {number}/{len(wanted)} {json.dumps(settings)}: {found.seconds:.1f} s")
        done.append(found)
    return done


def _read_cell(path: Path, settings: Settings) -> Cell | None:
    """A finished cell; None if there is none, or no whole one."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        return Cell(settings, stored["result"], float(stored["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(
    experiment: Experiment, context: Context, cells: list[Cell], folder: Path, result: dict[str, Any]
) -> dict[str, str]:
    files = {"results": folder / "results.json", "table": folder / "table.md"}
    _write_text(files["results"], json.dumps(result, indent=1))
    heading = f"# {experiment.name}\n\n{experiment.description}. {experiment.paper}\n\n"
    _write_text(files["table"], heading + result["table"].strip() + "\n")
    if experiment.draw is not None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            _say("no picture: it needs matplotlib, pip install 'partwise[plot]'")
        else:
            figure = Figure(figsize=(8, 5), layout="constrained")
            experiment.draw(figure, cells, context)
            files["picture"] = folder / "figure.png"
            figure.savefig(files["picture"], dpi=150)
    if experiment.pictures is not None:
        from partwise.report.experiment import experiment_page

        files["report"] = folder / "report.html"
        words = f"{experiment.description}. {experiment.paper}".strip()
        experiment_page(experiment.name, words, result["table"], experiment.pictures(cells, context)).write(
            files["report"]
        )
    return {kind: os.fspath(path) for kind, path in files.items()}


def _write_text(path: Path, text: str) -> None:
    with replacing(os.fspath(path)) as file:
        file.write(text.encode())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""Pages of the reference, written before Sphinx reads them: every public name of every public module, each once."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

__all__ = ["MODULES", "documented_names", "pages", "write_reference"]

#: (file, title, module): a name that several modules export is documented by the first of them.
MODULES = [
    ("estimators", "Estimators", "partwise.estimators"),
    ("sequences", "Sequences", "partwise.sequences"),
    ("tags", "Tags and spans", "partwise.sequences.tags"),
    ("alignment", "Alignment", "partwise.alignment"),
    ("parsing", "Parsing", "partwise.parsing"),
    ("graphs", "Graphs and images", "partwise.graphs"),
    ("topics", "Topics", "partwise.topics"),
    ("structures", "Structures", "partwise.structures"),
    ("losses", "Losses", "partwise.losses"),
    ("costs", "Costs", "partwise.costs"),
    ("learners", "Learners", "partwise.learners"),
    ("features", "Features", "partwise.features"),
    ("templates", "Templates", "partwise.templates"),
    ("batch", "Batches", "partwise.batch"),
    ("objective", "Problems and objectives", "partwise.objective"),
    ("data", "Data", "partwise.data"),
    ("metrics", "Metrics", "partwise.metrics"),
    ("report", "Reports", "partwise.report"),
    ("storage", "Storage", "partwise.storage"),
    ("experiment", "Experiments", "partwise.experiment"),
    ("testing", "Testing a structure", "partwise.testing"),
    ("exceptions", "Errors", "partwise.exceptions"),
    ("partwise", "Other top-level names", "partwise"),
]


#: Pages of names that belong together although no module exports them together: file → (title, what it says first).
TOGETHER = {
    "segments": ("Segments and chunks", "partwise.sequences.segmentation"),
    "search": ("Search", "partwise.learners.laso.learner"),
}

#: Names of ``partwise`` that are documented with their task.
PLACES = {
    **dict.fromkeys(["SequenceLabeler", "StackedLabeler"], "sequences"),
    **dict.fromkeys(["SegmentLabeler", "SearchLabeler", "JointLabeler"], "segments"),
    **dict.fromkeys(["SearchPredictor", "SearchProblem", "LaSO"], "search"),
    **dict.fromkeys(["Greedy", "Beam", "BestFirst", "AStar", "DepthFirst"], "search"),
    **dict.fromkeys(["Pack", "pack"], "data"),
    "WordAligner": "alignment",
    "Problem": "objective",
}


def documented_names() -> dict[str, list[str]]:
    """The names that each module's page documents."""
    seen: set[int] = set()
    found: dict[str, list[str]] = {}
    for _, _, module in MODULES:
        home = importlib.import_module(module)
        own = []
        for name in sorted(home.__all__):
            value = getattr(home, name)
            if name.startswith("__") or inspect.ismodule(value) or id(value) in seen:
                continue
            if inspect.isclass(value) or callable(value):  # small constants share their identity
                seen.add(id(value))
            own.append(name)
        found[module] = own
    return found


def _introduction(value: Any, page: str, shown: set[str]) -> list[str]:
    """The text of the module that a name lives in, once, where it says more than one sentence: the mathematics."""
    home = getattr(value, "__module__", "")
    if not callable(value) or home == page or home in shown or not home.startswith("partwise"):
        return []
    text = inspect.getdoc(importlib.import_module(home)) or ""
    if "\n\n" not in text:
        return []
    shown.add(home)
    return [f".. automodule:: {home}", "   :no-index:", ""]


def _entry(module: str, name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return [f".. autoclass:: {module}.{name}", "   :members:", "   :show-inheritance:", ""]
    if callable(value):
        return [f".. autofunction:: {module}.{name}", ""]
    return [f".. autodata:: {module}.{name}", "   :no-value:", ""]


def pages() -> dict[str, tuple[str, str, list[tuple[str, str]]]]:
    """file → (title, module whose text opens the page, [(module, name)]): the reference, page by page."""
    found: dict[str, tuple[str, str, list[tuple[str, str]]]] = {}
    for file, title, module in MODULES:
        found[file] = (title, module, [])
        if file == "sequences":
            found["segments"] = (*TOGETHER["segments"], [])
        if file == "graphs":
            found["search"] = (*TOGETHER["search"], [])
    for (file, _, module), names in zip(MODULES, documented_names().values(), strict=True):
        for name in names:
            place = PLACES.get(name, file)
            found[place][2].append(("partwise" if place != file else module, name))
    first = {name: number for number, name in enumerate(PLACES)}
    for _, _, names_of_page in found.values():  # names that were placed here come first: the estimators of the task
        names_of_page.sort(key=lambda entry: (first.get(entry[1], len(first)), entry[1].lower()))
    return {file: page for file, page in found.items() if page[2]}


def write_reference(folder: Path) -> None:
    """One page per module or task and an index of them; files that would not change are left alone."""
    folder.mkdir(exist_ok=True)
    texts = {"index": ["Reference", "=========", "", "Every public name, by module.", "", ".. toctree::", ""]}
    for file, (title, opening, names) in pages().items():
        texts["index"].append(f"   {file}")
        lines = [title, "=" * len(title), "", f".. automodule:: {opening}", "   :no-index:", ""]
        shown: set[str] = {opening}
        for module, name in names:
            value = getattr(importlib.import_module(module), name)
            lines += [name, "-" * len(name), "", f".. currentmodule:: {module}", ""]
            lines += [*_introduction(value, opening, shown), *_entry(module, name, value)]
        texts[file] = lines
    for file, lines in texts.items():
        path, text = folder / f"{file}.rst", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for path in folder.glob("*.rst"):  # of an earlier version
        if path.stem not in texts:
            path.unlink()

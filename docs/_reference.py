"""Pages of the reference, written before Sphinx reads them: every public name of every public module, each once."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

__all__ = ["MODULES", "documented_names", "write_reference"]

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
    ("objective", "Objectives", "partwise.objective"),
    ("data", "Data", "partwise.data"),
    ("metrics", "Metrics", "partwise.metrics"),
    ("report", "Reports", "partwise.report"),
    ("storage", "Storage", "partwise.storage"),
    ("experiment", "Experiments", "partwise.experiment"),
    ("testing", "Testing a structure", "partwise.testing"),
    ("exceptions", "Errors", "partwise.exceptions"),
    ("partwise", "Other top-level names", "partwise"),
]


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


def _entry(module: str, name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return [f".. autoclass:: {module}.{name}", "   :members:", "   :show-inheritance:", ""]
    if callable(value):
        return [f".. autofunction:: {module}.{name}", ""]
    return [f".. autodata:: {module}.{name}", "   :no-value:", ""]


def write_reference(folder: Path) -> None:
    """One page per module and an index of them; files that would not change are left alone."""
    folder.mkdir(exist_ok=True)
    names = documented_names()
    pages = {"index": ["Reference", "=========", "", "Every public name, by module.", "", ".. toctree::", ""]}
    for file, title, module in MODULES:
        if not names[module]:
            continue
        pages["index"].append(f"   {file}")
        home = importlib.import_module(module)
        lines = [title, "=" * len(title), "", f".. currentmodule:: {module}", ""]
        for name in names[module]:
            lines += [name, "-" * len(name), "", *_entry(module, name, getattr(home, name))]
        pages[file] = lines
    for file, lines in pages.items():
        path, text = folder / f"{file}.rst", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")

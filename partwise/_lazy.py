"""Public names that are imported when first used: a package lists them once, in the stub beside it.

``data/__init__.pyi`` says ``from partwise.data.columns import Columns``, which type checkers read as it stands. At run
time :func:`attach` reads the same lines and imports the module of a name when somebody asks for the name. So importing
a package costs next to nothing, and a package may give a name to what lives in a layer above it without importing it.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["attach"]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its ``__init__.py``."""
    stub = Path(file).with_suffix(".pyi")
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(stub.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module != "__future__":
            for alias in node.names:
                homes[alias.asname or alias.name] = (node.module, alias.name)
    public = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = homes[name]
        try:
            return getattr(importlib.import_module(module), own)
        except AttributeError:  # a module by its name
            return importlib.import_module(f"{module}.{own}")

    return get, lambda: public, public

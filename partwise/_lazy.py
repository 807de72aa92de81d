"""Public names that are imported when first used: a package lists them once, in the stub beside it.

``data/__init__.pyi`` says ``from partwise.data.columns import Columns as Columns``, a name per line, which type
checkers read as it stands. At run time :func:`attach` reads the same lines and imports the module of a name when
somebody asks for the name. So importing a package costs next to nothing, and a package may give a name to what lives in
a layer above it without importing it.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing typing would cost as much as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["attach"]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its ``__init__.py``."""
    homes: dict[str, tuple[str, str]] = {}
    with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as stub:
        for line in stub:
            match line.split():
                case ["from", module, "import", own, "as", name]:
                    homes[name] = (module, own)
                case []:
                    pass
                case _:
                    raise ImportError(f"{stub.name}: expected 'from MODULE import NAME as NAME', got {line!r}")
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

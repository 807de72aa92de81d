"""The walk of docs/architecture.md: imports point down, no package needs itself, and no task knows another."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import partwise

ROOT = Path(partwise.__file__).parent

CORE, SHELL, TASKS, COMMANDS = range(4)

LAYERS = {
    CORE: "structures features learners distributed costs losses gold problem objective batch exceptions",  # and _files
    SHELL: "cluster estimation templates data metrics storage report testing capabilities estimators experiment "
    "progress _atomic _experiment_tables",
    TASKS: "classification sequences alignment parsing graphs search topics",
    COMMANDS: "cli __main__",
}
LAYER = {name: layer for layer, names in LAYERS.items() for name in names.split()}


def module_name(path: Path) -> str:
    """``structures.base`` of ``partwise/structures/base.py``; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
LAYER |= {name: CORE for name in MODULES if name.startswith("_") and name not in LAYER}


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


#: Files that are a package in all but a folder: a loss may evaluate itself by a problem, the compiler tests itself.
TOGETHER = {
    "objective": {"costs", "losses", "gold", "problem", "objective", "batch"},
    "_compile": {
        "_compile",
        "_callees",
        "_overrides",
        "_self_test",
        "_kernel_cache",
        "_kernel_contents",
    },
}


def package(module: str) -> str:
    """What is moved as one: a folder of the package or a file beside the folders; the commands of a task apart."""
    parts = module.split(".")
    for name, files in TOGETHER.items():
        if parts[0] in files:
            return name
    return ".".join(parts[:2]) if parts[1:2] == ["commands"] and parts[0] != "cli" else parts[0]


def layer(module: str) -> int:
    name = package(module)
    return COMMANDS if name.endswith(".commands") else LAYER[name]


def imports(module: str) -> Iterator[tuple[int, str]]:
    """(line, module of partwise) of every import, those inside functions and for type checkers included."""
    path = MODULES[module]
    here = ["partwise", *module.split(".")] if module else ["partwise"]
    if path.name != "__init__.py":
        here = here[:-1]
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, [base, node.module or ""]))
            named = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            first, _, rest = name.partition(".")
            if first == "partwise" and rest:
                yield node.lineno, rest if rest in MODULES else rest.rpartition(".")[0] or rest


def edges() -> Iterator[tuple[str, int, str]]:
    for module in MODULES:
        if module and module != "__init__":
            for line, target in imports(module):
                if target in MODULES:
                    yield module, line, target


def test_every_package_has_a_layer() -> None:
    unknown = {package(module) for module in MODULES if module} - LAYER.keys()
    assert {name for name in unknown if not name.endswith(".commands")} == set(), "say in LAYERS where they belong"


def test_imports_point_down() -> None:
    wrong = [f"{a}:{line} imports {b}" for a, line, b in edges() if layer(b) > layer(a)]
    assert not wrong, "\n".join(wrong)


def test_no_task_imports_another() -> None:
    def task(module: str) -> str | None:
        name = module.split(".")[0]
        return name if LAYER[name] == TASKS else None

    wrong = [f"{a}:{line} imports {b}" for a, line, b in edges() if task(a) and task(b) and task(a) != task(b)]
    wrong += [f"{a}:{line} imports {b}" for a, line, b in edges() if LAYER[a.split(".")[0]] == COMMANDS and task(b)]
    assert not wrong, "\n".join(wrong)


def test_no_package_cycle() -> None:
    needs: dict[str, set[str]] = defaultdict(set)
    for a, _, b in edges():
        if package(a) != package(b):
            needs[package(a)].add(package(b))
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"{' → '.join((*path[path.index(name) :], name))}"
        if name not in done:
            for other in sorted(needs[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(needs):
        visit(name, ())


def test_no_public_name_is_that_of_another_module() -> None:
    """``from partwise.room import name`` is the module ``room/name.py`` once that is imported, whatever else it was."""
    wrong = []
    for stub in sorted(ROOT.rglob("__init__.pyi")):
        room = module_name(stub)
        for node in ast.parse(stub.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module != f"partwise.{room}".rstrip("."):
                names = [f"{room}.{alias.asname or alias.name}".lstrip(".") for alias in node.names]
                wrong += [name for name in names if name in MODULES]
    assert not wrong


def concrete_structures() -> set[str]:
    """Modules of ``structures/`` that define an output space, and the private ones that hold its kernels."""
    found = {module for module in MODULES if module.startswith("structures._")}
    for module in MODULES:
        if module.startswith("structures.") and module != "structures.base":
            bases = {base.id for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef)
                     for base in node.bases if isinstance(base, ast.Name)}  # fmt: skip
            if bases & {"Structure", "CompiledStructure"}:
                found.add(module)
    return found


@pytest.mark.parametrize("where", ["features", "learners", "objective", "estimation"])
def test_no_concrete_structure_outside_structures_and_tasks(where: str) -> None:
    concrete = concrete_structures()
    assert {"structures.chain", "structures.matching"} <= concrete
    classes = {name for name in partwise.__all__ if _home(name) in concrete}
    wrong = []
    for module in MODULES:
        if package(module) == where:
            wrong += [f"{module}:{line} imports {target}" for line, target in imports(module) if target in concrete]
            for node in ast.walk(tree(module)):
                if isinstance(node, ast.ImportFrom) and node.module in ("partwise", "partwise.structures"):
                    wrong += [f"{module}:{node.lineno} imports {a.name}" for a in node.names if a.name in classes]
    assert not wrong, "\n".join(wrong)


def _home(name: str) -> str:
    return str(getattr(getattr(partwise, name), "__module__", "")).removeprefix("partwise.")

"""The documentation site: every public name is in the reference, every page is in the contents, examples run."""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import _links  # noqa: E402
import _reference  # noqa: E402

EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


def test_every_public_name_is_in_the_reference() -> None:
    names = _reference.documented_names()
    described = {getattr(importlib.import_module(module), name).__name__
                 for module, own in names.items() for name in own
                 if callable(getattr(importlib.import_module(module), name))}  # fmt: skip
    missing = []
    for _, _, module in _reference.MODULES:
        home = importlib.import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            if callable(value) and value.__name__ not in described:
                missing.append(f"{module}.{name}")
    assert not missing


def test_every_name_is_documented_once() -> None:
    values = [getattr(importlib.import_module(module), name)
              for module, own in _reference.documented_names().items() for name in own]  # fmt: skip
    objects = [id(value) for value in values if callable(value)]
    assert len(objects) == len(set(objects))


def test_reference_pages_are_written_and_left_alone(tmp_path: Path) -> None:
    _reference.write_reference(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert ".. autoclass:: partwise.structures.Chain" in (tmp_path / "structures.rst").read_text("utf-8")
    _reference.write_reference(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_every_name_is_on_one_page_of_the_reference() -> None:
    named = [name for _, _, names in _reference.pages().values() for _, name in names]
    assert sorted(named) == sorted(name for names in _reference.documented_names().values() for name in names)
    assert "partwise" not in _reference.pages(), "a name of partwise belongs to no task"


def test_every_page_is_in_the_contents() -> None:
    paths = list((ROOT / "docs").glob("*.md"))
    trees = re.findall(r"```{toctree}\n(.*?)```", "\n".join(path.read_text("utf-8") for path in paths), flags=re.S)
    pages = {path.stem for path in paths} - {"index"}
    assert not pages - set(" ".join(trees).split()), "a page is in no table of contents"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    from matplotlib import pyplot

    assert pyplot.get_fignums(), "an example shows a picture"
    pyplot.close("all")


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#x">b</a> <a href="#top">up</a>', "utf-8")
    (tmp_path / "b.html").write_text(
        '<a href="a.html#top">a</a> <a href="c.html">c</a> <a href="https://d">d</a>', "utf-8"
    )
    broken, inside, outside = _links.broken_links(tmp_path)
    assert broken == ["a.html: b.html#x (no such anchor)", "b.html: c.html"]
    assert (inside, outside) == (4, 1)

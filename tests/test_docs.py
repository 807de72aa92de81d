"""Every Python block of the README and the docs runs, in order, page by page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from partwise.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path) -> list[tuple[int, str]]:
    """(line, source) of every block marked as Python."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    return [(text[: match.start()].count("\n") + 2, match.group(1)) for match in found]


@pytest.mark.parametrize("path", [page for page in PAGES if blocks(page)], ids=lambda path: path.name)
def test_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    for line, source in blocks(path):
        source = source.replace("/tmp/ner.pw", str(tmp_path / "ner.pw"))
        exec(compile("\n" * (line - 1) + source, str(path), "exec"), names)


def test_shell_commands_of_the_readme_exist() -> None:
    """Each `partwise …` line of the README parses, and each `make …` is a target."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^```python\n.*?^```", "", text, flags=re.M | re.S)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shell = [line for block in re.findall(r"^```\n(.*?)^```", text, flags=re.M | re.S) for line in block.splitlines()]
    commands = [re.split(r"\s+[<>#]", line)[0].split() for line in shell if line.strip()]
    assert len(commands) >= 6
    for words in commands:
        if words[0] == "pip":
            assert words[1:] == ["install", "."]
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, flags=re.M)
        else:
            build_parser(words[1:]).parse_args(words[1:])

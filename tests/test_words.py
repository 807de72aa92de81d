"""Retired words are found nowhere; see docs/glossary.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = Path(__file__).with_name("retired_words.txt")
PLACES = ["partwise", "docs", "examples", "benchmarks", "experiments", "tests"]
#: Copies that the build of the site makes.
GENERATED = ("docs/gallery/", "docs/reference/")
#: Sentences of the embedded corpora are nobody's terms.
CORPORA = {"partwise/topics/sample.py", "partwise/parsing/sample.py", "partwise/parsing/phrases/sample.py"}


def entries() -> list[list[str]]:
    lines = WORDS.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def texts() -> dict[str, str]:
    """Every file that a person reads, by its path."""
    kinds = {".py", ".pyi", ".md", ".rst", ".sh", ".js", ".css"}
    paths = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in kinds]
    paths += ROOT.glob("*.md")
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    named = {name: path for name, path in named.items() if not name.startswith(GENERATED)}
    return {name: path.read_text("utf-8") for name, path in named.items() if name not in CORPORA}


TEXTS = texts()


@pytest.mark.parametrize(("pattern", "instead"), entries())
def test_retired_words_have_no_hits(pattern: str, instead: str) -> None:
    found = []
    for name, text in TEXTS.items():
        for hit in re.finditer(pattern, text):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f"{name}:{line}: {hit.group()!r}; write: {instead}")
    assert not found, "\n".join(found)

"""Documents as commands read them: one per line, or one per file in folders named after their classes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NamedTuple

from partwise.cli.registry import UsageError
from partwise.exceptions import FormatError

__all__ = ["DocumentSet", "add_input", "read_documents", "read_words"]


class DocumentSet(NamedTuple):
    """Texts with their names and labels; a label is None if unknown, and so is the list if there are no labels."""

    texts: list[str]
    names: list[str]
    labels: list[str | None] | None

    @property
    def known(self) -> int:
        """How many labels there are."""
        return sum(label is not None for label in self.labels or ())


def add_input(parser: argparse.ArgumentParser) -> None:
    """The flags that say what the lines of a file are."""
    group = parser.add_argument_group("documents")
    group.add_argument("--tab", action="store_true", help="lines are LABEL<tab>TEXT; an empty label is unknown")
    group.add_argument(
        "--labels", metavar="FILE", help="a file with the labels, one line per document; an empty line means unknown"
    )
    group.add_argument("--encoding", metavar="NAME", default="utf-8", help="encoding of the texts (default: utf-8)")


def read_documents(path: str, *, tab: bool = False, labels: str | None = None, encoding: str = "utf-8") -> DocumentSet:
    """A file with one document per line ('-' is standard input), or a folder.

    In a folder of folders each folder is a class and each file in it a document of that class; in a folder of files
    the documents have no class. Names that begin with a dot are skipped.
    """
    if tab and labels is not None:
        raise UsageError("give --tab (labels in the same file) or --labels (labels in another file), not both")
    if os.path.isdir(path):
        if tab:
            raise UsageError(f"--tab is for a file of lines; {path} is a folder")
        found = _read_folder(path, encoding)
    else:
        lines = _lines(path, encoding)
        names = [str(number) for number in range(1, len(lines) + 1)]
        found = _split(path, lines, names) if tab else DocumentSet(lines, names, None)
    if not found.texts:
        raise FormatError("holds no documents", path=_name(path))
    if labels is not None:
        given: list[str | None] = [line.strip() or None for line in _lines(labels, encoding)]
        if len(given) != len(found.texts):
            raise FormatError(f"{len(given)} labels for the {len(found.texts)} documents of {path}", path=labels)
        found = found._replace(labels=given)
    return found


def read_words(path: str) -> list[str]:
    """The words of a file, one or more per line."""
    return [word.lower() for line in _lines(path, "utf-8") for word in line.split()]


def _name(path: str) -> str:
    return "<stdin>" if path == "-" else path


def _split(path: str, lines: list[str], names: list[str]) -> DocumentSet:
    labels: list[str | None] = []
    texts = []
    for number, line in enumerate(lines, start=1):
        label, tab, text = line.partition("\t")
        if not tab:
            raise FormatError("expected LABEL<tab>TEXT, found no tab", path=_name(path), line=number)
        labels.append(label.strip() or None)
        texts.append(text)
    return DocumentSet(texts, names, labels)


def _lines(path: str, encoding: str) -> list[str]:
    if path != "-" and not os.path.isfile(path):
        raise FormatError("cannot be read: there is no such file or folder", path=path)
    if path == "-":
        content = sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            content = file.read()
    return [
        line.removesuffix("\r") for line in _decode(content, encoding, path).removesuffix("\n").split("\n") if content
    ]


def _decode(content: bytes, encoding: str, path: str) -> str:
    try:
        return content.decode(encoding)
    except LookupError:
        raise UsageError(f"--encoding: there is no encoding {encoding!r}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"not {encoding}: byte 0x{content[error.start]:02x}; name the encoding with --encoding"
        raise FormatError(message, path=_name(path), line=line) from None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    return sorted((entry for entry in os.scandir(folder) if entry.name[0] != "."), key=lambda entry: entry.name)


def _read_folder(path: str, encoding: str) -> DocumentSet:
    inside = _entries(path)
    folders = [entry for entry in inside if entry.is_dir()]
    if folders and len(folders) < len(inside):
        stray = next(entry.name for entry in inside if not entry.is_dir())
        raise FormatError(f"holds folders and files ({stray}); expected a folder for each class", path=path)
    found = DocumentSet([], [], [] if folders else None)
    places: list[tuple[str, str | None]] = [(entry.path, entry.name) for entry in folders]
    for place, label in places or [(path, None)]:
        for entry in _entries(place):
            if entry.is_dir():
                raise FormatError("a folder in the folder of a class; expected files", path=entry.path)
            with open(entry.path, "rb") as file:
                found.texts.append(_decode(file.read(), encoding, entry.path))
            found.names.append(os.path.relpath(entry.path, path))
            if found.labels is not None:
                found.labels.append(label)
    return found

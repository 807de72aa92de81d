"""Column files as commands see them: named columns, a label among them, tags of any scheme."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.exceptions import FormatError, InputError
from partwise.sequences.usual import USUAL, usual_names

if TYPE_CHECKING:
    from partwise.data.columns import CodedColumn, Columns

__all__ = ["USUAL", "Converted", "FileLayout", "add_layout", "convert_labels", "tag_scheme", "without"]


@dataclass(frozen=True)
class FileLayout:
    """How to read a column file. ``label`` may be a column that the file does not have."""

    columns: tuple[str, ...] | None = None
    label: str | None = None
    separator: str | None = None
    comment: str | None = None
    encoding: str | None = None

    def names(self, width: int, path: str, line: int) -> tuple[str, ...]:
        """Names for the columns of a file of that width: all of them, or all but the label."""
        given = self.columns
        if given is None:
            if not 1 <= width <= len(USUAL):
                raise FormatError(f"{width} columns; name them with --columns", path=path, line=line)
            return USUAL[:width]
        columns = "1 column" if width == 1 else f"{width} columns"
        unlabelled = tuple(name for name in given if name != self.label)
        for found in (given, unlabelled):
            if len(found) == width:
                return found
        expected = f"{len(given)} ({', '.join(given)})"
        if len(unlabelled) < len(given):
            expected += f", or {len(unlabelled)} without {self.label!r}"
        raise FormatError(f"{columns}; expected {expected}", path=path, line=line)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments for the readers of column files."""
        options = {"separator": self.separator, "comment": self.comment, "encoding": self.encoding or "utf-8"}
        return {**options, "columns": self.only_column}

    @property
    def only_column(self) -> tuple[str, ...] | None:
        """The columns if there is a single one: then no separator is looked for."""
        return self.columns if self.columns is not None and len(self.columns) == 1 else None

    def read(self, path: str) -> Columns:
        """The whole file, its columns named."""
        from partwise.data.column_files import read_columns

        return self.named(read_columns(path, **self.reading))

    def blocks(self, path: str, whole: str) -> Iterator[Columns]:
        """The file in pieces that cut no sentence, or no document, their columns named."""
        from partwise.data.column_files import iter_blocks

        return map(self.named, iter_blocks(path, whole=whole, **self.reading))

    def named(self, data: Columns) -> Columns:
        from partwise.data.columns import column_names

        width = len(data.names)
        names = self.names(width, data.path or "", int(data.lines[0]))
        return replace(data, names=column_names(names, width, "partwise"))

    def read_labelled(self, path: str) -> tuple[Columns, CodedColumn, str]:
        """What a model may see, the labels, and the name of their column: the last one, named by what it holds."""
        data = self.read(path)
        label = data.names[-1] if self.label is None else self.label
        if label not in data.names:
            known = ", ".join(data.names)
            raise FormatError(f"no column {label!r}; the columns are {known}", path=data.path, line=int(data.lines[0]))
        if len(data.names) < 2:
            message = f"only the column {label!r}; expected at least one beside the label"
            raise FormatError(message, path=data.path, line=int(data.lines[0]))
        seen, labels = without(data, label), data.coded(label)
        if self.columns is None and self.label is None:
            label = usual_names(len(data.names), labels.vocab)[-1]
        return seen, labels, label


def without(data: Columns, label: str | None) -> Columns:
    """The data without a column, so that templates cannot see what is to be predicted."""
    return data.without(label)


def add_layout(parser: argparse.ArgumentParser) -> None:
    """The flags that override the layout a model remembers."""
    from partwise.cli.settings import names, separator

    group = parser.add_argument_group("columns of the file (default: as in training)")
    group.add_argument("--columns", metavar="A,B,...", type=names, help="names of the columns")
    group.add_argument("--label", metavar="NAME", help="the column with the labels, if the file has it")
    between = "between columns, such as tab (default: white space)"
    group.add_argument("--separator", metavar="S", type=separator, help=between)
    group.add_argument("--encoding", metavar="NAME", help="encoding, such as latin-1 (default: utf-8)")
    group.add_argument("--comment", metavar="S", help="skip lines between sentences that begin with this")


def tag_scheme(labels: Sequence[Any]) -> str | None:
    """The scheme that a set of labels looks like, or None if they are not chunk tags.

    Examples
    --------
    >>> tag_scheme(["O", "B-NP", "I-NP"]), tag_scheme(["S-NP", "B-NP", "E-NP"]), tag_scheme(["NN", "O"])
    ('IOB2', 'IOBES', None)
    """
    letters = {str(label)[:2] for label in labels if label != "O"}
    if not letters or not letters <= {"B-", "I-", "E-", "S-", "L-", "U-"}:
        return None
    if letters & {"L-", "U-"}:
        return "BILOU"
    return "IOBES" if letters & {"E-", "S-"} else "IOB2"


class Converted(NamedTuple):
    """Labels in another tag scheme, the scheme they were in (None: no chunks), and in words what changed."""

    labels: CodedColumn
    found: str | None
    changes: str


def convert_labels(labels: CodedColumn, scheme: str, path: str, repair: bool = True) -> Converted:
    """Labels in that scheme, whatever scheme they are in; without ``repair`` an ill-formed one is an error."""
    from partwise.sequences import tags

    wanted = tags.scheme_name(scheme)
    if all(labels.vocab[code] == "O" for code in set(labels.codes.tolist())):
        return Converted(labels, None, "")
    try:
        found = tags.detect_scheme(labels)
        report = tags.well_formed(labels, found, repair=repair)
        converted = report.repaired if found == wanted else tags.convert_all(report.repaired, found, wanted)
    except InputError as error:
        raise InputError(f"{path}: the labels cannot be read as {wanted}: {error}") from None
    changes = [f"{found} tags converted to {wanted}"] if found != wanted else []
    changes += [f"{report.total} ill-formed tags repaired"] if report.total else []
    return Converted(converted, found, ", ".join(changes))

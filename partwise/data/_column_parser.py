"""Lines of a column file to fields: what is a token, where sentences and documents begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import column_names
from partwise.exceptions import FormatError, ParameterError

__all__ = ["Block", "Parser"]


class Block(NamedTuple):
    """The token lines of a piece of a file: all their fields, row after row, and one entry per line."""

    fields: list[bytes]
    lines: NDArray[np.int64]
    starts: NDArray[np.bool_]
    documents: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Block]) -> Block:
        """The lines of all parts."""
        if len(parts) == 1:
            return parts[0]
        fields: list[bytes] = []
        for part in parts:
            fields += part.fields
        return cls(
            fields,
            np.concatenate([np.zeros(0, np.int64), *(part.lines for part in parts)]),
            np.concatenate([np.zeros(0, np.bool_), *(part.starts for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.documents for part in parts)]),
        )

    def lines_of(self, begin: int, end: int, width: int) -> Block:
        """The token lines begin:end, each of that many fields."""
        if (begin, end) == (0, len(self.lines)):
            return self
        fields = self.fields[begin * width : end * width]
        return Block(fields, self.lines[begin:end], self.starts[begin:end], self.documents[begin:end])


class Parser:
    """Splits blocks of whole lines into fields and says which lines open a sentence; keeps state between."""

    def __init__(
        self,
        path: str,
        separator: str | None,
        comment: str | None,
        docstart: str | None,
        columns: Sequence[str] | None,
        encoding: str,
    ) -> None:
        if columns is not None:
            column_names(columns, len(columns), "read_columns")
        for name, value in (("separator", separator), ("comment", comment), ("docstart", docstart)):
            if value is not None and (not value or "\n" in value):
                raise ParameterError(name, "read_columns", "None or a string without line ends", value)
        try:
            line_end = "\n".encode(encoding)
        except LookupError:
            line_end = b""
        if line_end != b"\n":
            expected = "a known encoding in which a line ends in the single byte 10"
            raise ParameterError("encoding", "read_columns", expected, encoding)
        self.path = path
        self.separator = separator.encode() if separator else None
        self.comment = comment.encode() if comment else None
        self.docstart = docstart.encode() if docstart else None
        self.docstart_fields: tuple[str, ...] | None = None
        self.inside_sentence = False
        self.width = len(columns) if columns is not None else 0
        self._width_from = "as named" if columns is not None else ""
        self._lone = columns is not None
        self._lines_done = 0
        self._docstarts_done = 0
        self.first_is_announced: bool | None = None

    def parse(self, block: bytes) -> Block:
        if not block.endswith(b"\n"):
            block += b"\n"
        lines = block.split(b"\n")[:-1]
        if self.separator is None and b"\r" in block:
            self._check_line_ends(block, lines)
        widths = self._widths(block, lines)
        documents = np.zeros(len(lines), np.int64)
        if self.docstart is not None and self.docstart in block:
            for i, line in enumerate(lines):
                if line.startswith(self.docstart) and (row := line.split(self.separator))[0] == self.docstart:
                    if self.docstart_fields is None:
                        self.docstart_fields = tuple(field.decode() for field in row)
                    lines[i], widths[i], documents[i] = b"", 0, 1
        breaks = widths == 0
        if self.comment is not None and self.comment in block:
            # A comment is neither a token nor the end of a sentence, and inside a sentence it is no comment.
            between = not self.inside_sentence
            for i, line in enumerate(lines):
                between = bool(breaks[i]) or (between and line.startswith(self.comment))
                if between and not breaks[i]:
                    lines[i], widths[i] = b"", 0

        token_lines = np.flatnonzero(widths)
        line_numbers = token_lines + (self._lines_done + 1)
        # A token opens a sentence where a break lies between it and the token before it.
        breaks_before = np.cumsum(breaks)[token_lines]
        starts = np.diff(breaks_before, prepend=0 if self.inside_sentence else -1) != 0
        document_of = self._docstarts_done + np.cumsum(documents)[token_lines]
        if token_lines.size:
            self._check_widths(widths[token_lines], line_numbers, lines[token_lines[0]], b"\t" in block)
            if self.first_is_announced is None:
                self.first_is_announced = bool(document_of[0] > 0)
            # The first document is number 0 whether or not a line announces it.
            document_of -= self.first_is_announced
        open_from = token_lines[-1] if token_lines.size else 0
        self.inside_sentence = (token_lines.size > 0 or self.inside_sentence) and not breaks[open_from:].any()
        self._docstarts_done += int(documents.sum())
        self._lines_done += len(lines)
        if self.separator is None:
            fields = b"\n".join(lines).split()
        else:
            chosen = [lines[i] for i in token_lines]
            fields = self.separator.join(chosen).split(self.separator) if chosen else []
        return Block(fields, line_numbers, starts, document_of)

    def _widths(self, block: bytes, lines: list[bytes]) -> NDArray[np.int64]:
        """Number of fields on each line, 0 on a line of white space."""
        if self.separator is not None:
            separator = self.separator
            counts = (line.count(separator) + 1 if line.strip() else 0 for line in lines)
            return np.fromiter(counts, np.int64, count=len(lines))
        characters = np.frombuffer(block, np.uint8)
        white = (characters == 32) | ((characters >= 9) & (characters <= 13))
        field_ends = np.flatnonzero(white[1:] & ~white[:-1])
        line_ends = np.flatnonzero(characters == 10)
        return np.diff(np.searchsorted(field_ends, line_ends), prepend=0)

    def _check_line_ends(self, block: bytes, lines: list[bytes]) -> None:
        """A carriage return ends a line together with a line feed; alone, it would be taken for a space."""
        if block.count(b"\r") == block.count(b"\r\n"):
            return
        for i, line in enumerate(lines):
            if b"\r" in line.rstrip(b"\r"):
                message = "a carriage return inside the line; expected lines that end in LF or CR LF"
                raise FormatError(message, path=self.path, line=self._lines_done + i + 1)

    def _check_widths(
        self, widths: NDArray[np.int64], line_numbers: NDArray[np.int64], line: bytes, tabs: bool
    ) -> None:
        if not self._width_from:
            self.width = int(widths[0])
            self._width_from = f"as on line {line_numbers[0]}"
            self._lone = len(line.split()) == 1  # without white space, a line without the separator is one field
        wrong = widths != self.width
        if self.separator is not None and not (self.width == 1 and self._lone):
            wrong |= widths == 1
        if wrong.any():
            first = int(np.argmax(wrong))
            if self.separator is not None and widths[first] == 1:
                message = f"the separator {self.separator.decode()!r} is not on the line"
                if self.width == 1:
                    message += "; if there is only one column, name it (columns=('word',), --columns word)"
            else:
                message = f"expected {self.width} columns ({self._width_from}), got {widths[first]}"
                if tabs and self.separator is None:
                    message += "; if only tabs separate columns and words hold spaces, name the separator "
                    message += "(separator='\\t', --separator tab)"
            raise FormatError(message, path=self.path, line=int(line_numbers[first]))

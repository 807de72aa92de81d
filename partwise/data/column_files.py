"""CoNLL column files: one token a line, one field a column, an empty line after each sentence.

``read_columns`` reads a whole file into integer codes, ``iter_columns`` streams sentences in constant
memory, ``write_columns`` writes either back. What counts as what on a line:

* a line of nothing but white space ends a sentence;
* a line that begins with the field ``-DOCSTART-`` starts a document and is not a sentence;
* a line that begins with the ``comment`` prefix is skipped, but only where a prefix is given and only
  between sentences (as in CoNLL-U): inside a sentence it is a token, because ``#`` is one in real text;
* white space is ASCII white space, so a no-break space is part of its token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, Columns, Sentence, column_names, new_lookup
from partwise.data.streams import Source, name_of, open_target, read_lines
from partwise.exceptions import FormatError, InputError, ParameterError

__all__ = ["iter_columns", "read_columns", "write_columns"]


def read_columns(
    source: Source,
    *,
    separator: str | None = None,
    comment: str | None = None,
    docstart: str | None = "-DOCSTART-",
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
) -> Columns:
    r"""Read a whole column file into integer codes and one vocabulary per column.

    Parameters
    ----------
    source : path, open file or "-"
        "-" is standard input; names that end in ``.gz`` or ``.xz`` are decompressed.
    separator : str, optional
        Default: any run of ASCII white space. A given separator is taken literally: between two of
        them is an empty field.
    comment : str, optional
        Prefix of lines to skip between sentences. Leave it out where a sentence may open with such a
        token.
    docstart : str or None
        First field of the lines that start a document; None reads them as tokens.
    columns : sequence of str, optional
        Column names. Default: "0", "1", ...; their number is then that of the first token line.
    encoding : str
        Any encoding in which the end of a line is the single byte 10, which excludes UTF-16.

    Raises
    ------
    FormatError
        With file and line: lines of unequal width, a separator that is not there, bytes outside the
        encoding (with the byte's place in its line, from 1), no sentences at all.

    Examples
    --------
    >>> import io
    >>> data = read_columns(io.StringIO("the DT\ndog NN\n\nrun VB\n"), columns=("word", "pos"))
    >>> data.sentence(0, "word"), data.offsets.tolist(), data.lines.tolist()
    (['the', 'dog'], [0, 2, 3], [1, 4])
    >>> read_columns(io.StringIO("the DT\ndog\n"))
    Traceback (most recent call last):
        ...
    partwise.exceptions.FormatError: <text>:2: expected 2 columns (as on line 1), got 1
    """
    parser = _Parser(name_of(source), separator, comment, docstart, columns, encoding)
    parts: list[_Block] = []
    codes: list[list[NDArray[np.int32]]] = []
    lookups: list[dict[bytes, int]] = []
    for block in read_lines(source, encoding, bulk=True):
        part = parser.parse(block)
        if not part.fields:
            continue
        if not lookups:
            lookups = [new_lookup() for _ in range(parser.width)]
            codes = [[] for _ in range(parser.width)]
        for c, lookup in enumerate(lookups):
            column = map(lookup.__getitem__, part.fields[c :: parser.width])
            codes[c].append(np.fromiter(column, np.int32, count=len(part.lines)))
        parts.append(part._replace(fields=[]))
    if not parts:
        raise FormatError("no sentences: the file has no token lines", path=parser.path)
    starts = np.flatnonzero(np.concatenate([part.starts for part in parts]))
    lines = np.concatenate([part.lines for part in parts])
    return Columns(
        names=column_names(columns, parser.width, "read_columns"),
        codes=[np.concatenate(pieces) for pieces in codes],
        vocab=[[value.decode() for value in lookup] for lookup in lookups],
        offsets=np.append(starts, len(lines)).astype(np.int64),
        documents=np.concatenate([part.documents for part in parts])[starts],
        lines=lines[starts],
        path=parser.path,
        docstart=parser.docstart_fields,
    )


def iter_columns(
    source: Source,
    *,
    separator: str | None = None,
    comment: str | None = None,
    docstart: str | None = "-DOCSTART-",
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
) -> Iterator[Sentence]:
    r"""Stream the sentences of a column file, each as soon as the line after it is read.

    The parameters are those of ``read_columns``; ``columns`` only fixes their number. An empty source
    yields nothing, as a filter on an empty pipe should.

    Examples
    --------
    >>> import io
    >>> list(iter_columns(io.StringIO("the DT\ndog NN\n\nrun VB\n")))
    [[('the', 'DT'), ('dog', 'NN')], [('run', 'VB')]]
    """
    parser = _Parser(name_of(source), separator, comment, docstart, columns, encoding)
    current: Sentence | None = None
    for block in read_lines(source, encoding, bulk=False):
        part = parser.parse(block)
        starts, lines, documents = part.starts.tolist(), part.lines.tolist(), part.documents.tolist()
        values = [field.decode() for field in part.fields]
        for i in range(len(lines)):
            if starts[i]:
                if current is not None:
                    yield current
                announced = documents[i] > 0 or parser.first_is_announced
                current = Sentence((), lines[i], documents[i], parser.docstart_fields if announced else None)
            assert current is not None
            current.append(tuple(values[i * parser.width : (i + 1) * parser.width]))
        if current is not None and not parser.inside_sentence:
            yield current
            current = None
    if current is not None:
        yield current


def write_columns(
    target: Source,
    sentences: Columns | Iterable[Sequence[Sequence[str]]],
    *extra: Iterable[Sequence[str]] | CodedColumn,
    separator: str = " ",
    encoding: str = "utf-8",
) -> None:
    r"""Write sentences, with extra columns (such as predicted tags) to the right of their own.

    Everything is consumed sentence by sentence, so that generators stream through. A path is written
    atomically, under a temporary name in the same folder that is then renamed; ``.gz`` and ``.xz`` are
    compressed; "-" is standard output. ``-DOCSTART-`` lines come back where the sentences carry them
    (those of ``read_columns`` and ``iter_columns`` do), with ``O`` in the extra columns. A field that
    would not read back as one field is refused. Columns with extra columns that are coded (those of
    ``predict_coded``) are the quick way for large data.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> write_columns(out, [[("the", "DT"), ("dog", "NN")]], [["B-NP", "I-NP"]])
    >>> out.getvalue()
    'the DT B-NP\ndog NN I-NP\n\n'
    """
    if not separator or "\n" in separator:
        raise ParameterError("separator", "write_columns", "a string without line ends", separator)
    texts = _rendered_codes(sentences, extra, separator) if isinstance(sentences, Columns) else None
    if texts is None:
        rows = sentences.sentences() if isinstance(sentences, Columns) else iter(sentences)
        lists = [column.to_lists() if isinstance(column, CodedColumn) else column for column in extra]
        texts = _rendered(rows, [iter(column) for column in lists], separator)
    with open_target(target, encoding) as write:
        for text in texts:
            write(text)


class _Block(NamedTuple):
    """The token lines of a piece of a file: all their fields, row after row, and one entry a line."""

    fields: list[bytes]
    lines: NDArray[np.int64]
    starts: NDArray[np.bool_]
    documents: NDArray[np.int64]


class _Parser:
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
        self._lines_done = 0
        self._docstarts_done = 0
        self.first_is_announced: bool | None = None

    def parse(self, block: bytes) -> _Block:
        if not block.endswith(b"\n"):
            block += b"\n"
        lines = block.split(b"\n")[:-1]
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
            self._check_widths(widths[token_lines], line_numbers)
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
        return _Block(fields, line_numbers, starts, document_of)

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

    def _check_widths(self, widths: NDArray[np.int64], line_numbers: NDArray[np.int64]) -> None:
        if not self._width_from:
            self.width = int(widths[0])
            self._width_from = f"as on line {line_numbers[0]}"
        wrong = widths != self.width
        if self.separator is not None:
            wrong |= widths == 1
        if wrong.any():
            first = int(np.argmax(wrong))
            if self.separator is not None and widths[first] == 1:
                message = f"the separator {self.separator.decode()!r} is not on the line"
            else:
                message = f"expected {self.width} columns ({self._width_from}), got {widths[first]}"
            raise FormatError(message, path=self.path, line=int(line_numbers[first]))


def _rendered_codes(data: Columns, extra: Sequence[object], separator: str) -> Iterator[str] | None:
    """The text by blocks of sentences where all columns are coded; None where a field needs a closer look."""
    columns = [data.coded(c) for c in range(len(data.names))]
    for column in extra:
        if not isinstance(column, CodedColumn) or not np.array_equal(column.offsets, data.offsets):
            return None
        columns.append(column)
    forbidden = _forbidden(separator)
    for _, vocab, _ in columns:  # each distinct string is looked at once
        for field in vocab:
            if not isinstance(field, str) or not field.strip(" \t\r\n\v\f") or forbidden.search(field):
                return None
    docstart = ""
    if data.docstart is not None:
        fits = len(data.docstart) + len(extra) == len(columns)
        docstart = separator.join((*data.docstart, *(("O",) * len(extra) if fits else ()))) + "\n\n"

    def blocks() -> Iterator[str]:
        bounds, documents = data.offsets.tolist(), data.documents.tolist()
        for first in range(0, len(data), 1000):
            last = min(first + 1000, len(data))
            begin, end = bounds[first], bounds[last]
            fields = [map(vocab.__getitem__, codes[begin:end].tolist()) for codes, vocab, _ in columns]
            lines = list(map(separator.join, zip(*fields, strict=True)))
            texts = []
            for i in range(first, last):
                if docstart and (i == 0 or documents[i] != documents[i - 1]):
                    texts.append(docstart)
                texts += ["\n".join(lines[bounds[i] - begin : bounds[i + 1] - begin]), "\n\n"]
            yield "".join(texts)

    return blocks()


def _forbidden(separator: str) -> re.Pattern[str]:
    """What a field must not hold."""
    return re.compile(r"[ \t\n\r\v\f]" if separator == " " else rf"{re.escape(separator)}|[\n\r]")


def _rendered(
    sentences: Iterator[Sequence[Sequence[str]]], extra: list[Iterator[Sequence[str]]], separator: str
) -> Iterator[str]:
    """The text of each sentence."""
    document = None
    forbidden = _forbidden(separator)
    for index, rows in enumerate(sentences):
        if not len(rows) or any(isinstance(row, str) for row in rows):
            raise InputError(f"sentence {index}: expected a list of rows, not an empty one or one of strings")
        added = [next(column, ()) for column in extra]
        for c, values in enumerate(added):
            if isinstance(values, str) or len(values) != len(rows):
                raise InputError(f"sentence {index}: {len(rows)} tokens, but extra column {c} has {values!r:.80}")
        fields = [(*row, *more) for row, *more in zip(rows, *added, strict=True)]
        _check_fields(index, fields, separator, forbidden)
        docstart: tuple[str, ...] | None = getattr(rows, "docstart", None)
        if docstart is not None and (started := getattr(rows, "document", None)) != document:
            document = started
            outside = ("O",) * len(extra) if len(docstart) + len(extra) == len(fields[0]) else ()
            yield separator.join(docstart + outside) + "\n\n"
        yield "\n".join(map(separator.join, fields)) + "\n\n"
    for c, column in enumerate(extra):
        if next(column, None) is not None:
            raise InputError(f"extra column {c} has more sentences than there are to write")


def _check_fields(index: int, fields: list[tuple[str, ...]], separator: str, forbidden: re.Pattern[str]) -> None:
    """Refuse a row that would not read back as the same fields."""
    for t, row in enumerate(fields):
        if not all(isinstance(field, str) for field in row):
            raise InputError(f"sentence {index}, token {t}: fields must be strings: {row!r}")
        text = "".join(row)
        blank = not text.strip(" \t\r\n\v\f") or (separator == " " and "" in row)
        if blank or forbidden.search(text) or len(row) != len(fields[0]):
            place = f"sentence {index}, token {t}"
            raise InputError(f"{place}: would not read back as {len(fields[0])} fields: {row!r}")

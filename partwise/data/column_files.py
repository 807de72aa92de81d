"""CoNLL column files: one token per line, one field per column, an empty line after each sentence.

``read_columns`` reads a whole file into integer codes, ``iter_blocks`` does so piece by piece, ``iter_columns``
streams sentences, both in constant memory, and ``write_columns`` writes any of them back.
What counts as what on a line:

* a line of nothing but white space ends a sentence;
* a line that begins with the field ``-DOCSTART-`` starts a document and is not a sentence;
* a line that begins with the ``comment`` prefix is skipped, but only where a prefix is given and only
  between sentences (as in CoNLL-U): inside a sentence it is a token, because ``#`` is one in real text;
* white space is ASCII white space, so a no-break space is part of its token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.data._column_parser import Block, Parser
from partwise.data.columns import CodedColumn, Columns, Sentence, column_names, new_lookup
from partwise.data.streams import Source, name_of, open_target, read_lines
from partwise.exceptions import FormatError, InputError, ParameterError

__all__ = ["iter_blocks", "iter_columns", "read_columns", "write_columns"]

#: The parameter of the readers here, and the flag of the commands that use them.
OTHER_ENCODING = "; name the encoding (encoding=, --encoding) if it is another"

#: How much of a file is fields at a time; more is no quicker.
PIECE_BYTES = 1 << 16


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
        "-" is standard input; names that end in ``.gz``, ``.bz2`` or ``.xz`` are decompressed; an address such as
        ``s3://…`` is read through fsspec.
    separator : str, optional
        Default: any run of ASCII white space. A given separator is taken literally: between two of
        them is an empty field.
    comment : str, optional
        Prefix of lines to skip between sentences. Omit it if a sentence may begin with such a
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
    parser = Parser(name_of(source), separator, comment, docstart, columns, encoding)
    parts: list[Block] = []
    coder = _Coder(parser, columns)
    for text in read_lines(source, encoding, bulk=True, advice=OTHER_ENCODING):
        for piece in _pieces(text):
            part = parser.parse(piece)
            if part.fields:
                coder.add(part)
                parts.append(part._replace(fields=[]))
    if not parts:
        raise FormatError("no sentences: the file has no token lines", path=parser.path)
    return coder.columns(Block.joined(parts), parser.docstart_fields)


def _pieces(text: bytes) -> Iterator[bytes]:
    """Whole lines, a few at a time: a field is an object of its own, and what many of them held stays with Python."""
    begin = 0
    while begin < len(text):
        end = text.find(b"\n", begin + PIECE_BYTES) + 1 or len(text)
        yield text[begin:end]
        begin = end


def iter_blocks(
    source: Source,
    *,
    whole: str = "sentence",
    separator: str | None = None,
    comment: str | None = None,
    docstart: str | None = "-DOCSTART-",
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
) -> Iterator[Columns]:
    r"""Stream a column file as Columns of many sentences, each block as soon as it is read.

    Input from a pipe is passed on as soon as it arrives. Sentences are never cut; nor are documents where ``whole``
    is "document". The other parameters are those of ``read_columns``; an
    empty source yields nothing. Numbers of lines and documents are those in the file.

    Examples
    --------
    >>> import io
    >>> text = "the DT\ndog NN\n\nrun VB\n\n"
    >>> [block.column(0) for block in iter_blocks(io.StringIO(text))]
    [[['the', 'dog'], ['run']]]
    """
    if whole not in ("sentence", "document"):
        raise ParameterError("whole", "iter_blocks", "'sentence' or 'document'", whole)
    parser = Parser(name_of(source), separator, comment, docstart, columns, encoding)
    held: list[Block] = []
    document = 0
    for text in read_lines(source, encoding, bulk=False, advice=OTHER_ENCODING):
        part = parser.parse(text)
        cut = _complete(part, whole, document, parser.inside_sentence)
        document = int(part.documents[-1]) if len(part.documents) else document
        if cut is None:
            held.append(part)
        else:
            yield from _coded(Block.joined([*held, part.lines_of(0, cut, parser.width)]), parser, columns)
            held = [part.lines_of(cut, len(part.lines), parser.width)]
    yield from _coded(Block.joined(held), parser, columns)


def _complete(part: Block, whole: str, document: int, inside_sentence: bool) -> int | None:
    """Up to which of its lines a part can be handed on with all before it, or None if it must wait."""
    if whole == "sentence" and not inside_sentence:
        return len(part.lines)
    opens = part.starts if whole == "sentence" else np.diff(part.documents, prepend=document) != 0
    places = np.flatnonzero(opens)
    return int(places[-1]) if places.size else None


def _coded(block: Block, parser: Parser, columns: Sequence[str] | None) -> Iterator[Columns]:
    """The lines as Columns: two where a document that no line announces is followed by one that is announced."""
    lines = len(block.lines)
    first = 0 if parser.first_is_announced else int(np.searchsorted(block.documents, 1))
    for begin, end, fields in ((0, first, None), (first, lines, parser.docstart_fields)):
        if begin < end:
            coder = _Coder(parser, columns)
            here = block.lines_of(begin, end, parser.width)
            coder.add(here)
            yield coder.columns(here, fields)


class _Coder:
    """Codes the fields of blocks, with one vocabulary per column."""

    def __init__(self, parser: Parser, names: Sequence[str] | None) -> None:
        self.parser, self.names = parser, names
        self.lookups: list[dict[bytes, int]] = []
        self.codes: list[list[NDArray[np.int32]]] = []

    def add(self, block: Block) -> None:
        width = self.parser.width
        if not self.lookups:
            self.lookups = [new_lookup() for _ in range(width)]
            self.codes = [[] for _ in range(width)]
        for c, lookup in enumerate(self.lookups):
            column = map(lookup.__getitem__, block.fields[c::width])
            self.codes[c].append(np.fromiter(column, np.int32, count=len(block.lines)))

    def columns(self, block: Block, docstart: tuple[str, ...] | None) -> Columns:
        """What was added, with lines, sentences and documents as in the block."""
        starts = np.flatnonzero(block.starts)
        return Columns(
            names=column_names(self.names, self.parser.width, "read_columns"),
            codes=[np.concatenate(pieces) for pieces in self.codes],
            # no field holds the end of a line
            vocab=[b"\n".join(lookup).decode().split("\n") if lookup else [] for lookup in self.lookups],
            offsets=np.append(starts, len(block.lines)).astype(np.int64),
            documents=block.documents[starts],
            lines=block.lines[starts],
            path=self.parser.path,
            docstart=docstart,
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
    parser = Parser(name_of(source), separator, comment, docstart, columns, encoding)
    current: Sentence | None = None
    for block in read_lines(source, encoding, bulk=False, advice=OTHER_ENCODING):
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
    announced: int | None = None,
) -> None:
    r"""Write sentences, with extra columns (such as predicted tags) to the right of their own.

    Everything is consumed sentence by sentence, so that generators stream through. A path is written
    atomically, under a temporary name in the same folder that is then renamed; ``.gz``, ``.bz2`` and
    ``.xz`` are compressed; "-" is standard output. ``-DOCSTART-`` lines come back where the sentences carry them
    (those of ``read_columns`` and ``iter_columns`` do), with ``O`` in the extra columns; not before the document
    number ``announced``, for a file that is written piece by piece. A field that
    would not be read back as one field is an error. Columns with extra columns that are coded (those of
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
    texts = _rendered_codes(sentences, extra, separator, announced) if isinstance(sentences, Columns) else None
    if texts is None:
        rows = sentences.sentences() if isinstance(sentences, Columns) else iter(sentences)
        lists = [column.to_lists() if isinstance(column, CodedColumn) else column for column in extra]
        texts = _rendered(rows, [iter(column) for column in lists], separator, announced)
    with open_target(target, encoding) as write:
        for text in texts:
            write(text)


def _rendered_codes(
    data: Columns, extra: Sequence[object], separator: str, announced: int | None
) -> Iterator[str] | None:
    """The text by blocks of sentences where all columns are coded; None if a field needs a closer look."""
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
        previous = announced
        for first in range(0, len(data), 1000):
            last = min(first + 1000, len(data))
            begin, end = bounds[first], bounds[last]
            fields = [map(vocab.__getitem__, codes[begin:end].tolist()) for codes, vocab, _ in columns]
            lines = list(map(separator.join, zip(*fields, strict=True)))
            texts = []
            for i in range(first, last):
                if docstart and documents[i] != previous:
                    texts.append(docstart)
                    previous = documents[i]
                texts += ["\n".join(lines[bounds[i] - begin : bounds[i + 1] - begin]), "\n\n"]
            yield "".join(texts)

    return blocks()


def _forbidden(separator: str) -> re.Pattern[str]:
    """What a field must not hold."""
    return re.compile(r"[ \t\n\r\v\f]" if separator == " " else rf"{re.escape(separator)}|[\n\r]")


def _rendered(
    sentences: Iterator[Sequence[Sequence[str]]],
    extra: list[Iterator[Sequence[str]]],
    separator: str,
    announced: int | None,
) -> Iterator[str]:
    """The text of each sentence."""
    document = announced
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
    """Raise for a row that would not be read back as the same fields."""
    for t, row in enumerate(fields):
        if not all(isinstance(field, str) for field in row):
            raise InputError(f"sentence {index}, token {t}: fields must be strings: {row!r}")
        text = "".join(row)
        blank = not text.strip(" \t\r\n\v\f") or (separator == " " and "" in row)
        if blank or forbidden.search(text) or len(row) != len(fields[0]):
            place = f"sentence {index}, token {t}"
            raise InputError(f"{place}: would not be read back as {len(fields[0])} fields: {row!r}")

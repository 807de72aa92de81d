"""Column files: reading, streaming, writing, and errors that name the line."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import data_file
from hypothesis import given
from hypothesis import strategies as st

from partwise.data import Columns, column_files, iter_blocks, iter_columns, read_columns, streams, write_columns
from partwise.data.column_files import OTHER_ENCODING
from partwise.data.columns import CodedColumn, encode
from partwise.exceptions import FormatError, InputError, ParameterError

SMALL = "the DT\ndog NN\n\nrun VB\n"
DOCUMENTS = "-DOCSTART- -X-\n\na A\n\nb B\n\n-DOCSTART- -X-\n\nc C\nd D\n\n"


def rows(data: Columns) -> list[list[tuple[str, ...]]]:
    return [list(sentence) for sentence in data.sentences()]


def both(content: str | bytes, **options: Any) -> list[list[tuple[str, ...]]]:
    """The rows, read at once and streamed."""
    sources = [io.StringIO(content) if isinstance(content, str) else io.BytesIO(content) for _ in range(2)]
    read = rows(read_columns(sources[0], **options))
    assert list(iter_columns(sources[1], **options)) == read
    return read


def test_words_sentences_and_lines() -> None:
    data = read_columns(io.StringIO(SMALL), columns=("word", "pos"))
    assert data.names == ("word", "pos")
    assert data.column("word") == [["the", "dog"], ["run"]]
    assert data.lines.tolist() == [1, 4]
    assert data.place(0, 1) == "<text>:2"
    assert both(SMALL) == rows(data)


def naive(text: str, comment: str | None, docstart: str | None) -> Iterator[tuple[int, int, list[Any]]]:
    """(first line, documents announced so far, rows) of each sentence; the rules, line by line."""
    current: list[tuple[str, ...]] = []
    begin = announced = 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        fields = line.split()
        if not fields or (docstart is not None and line.startswith(docstart) and fields[0] == docstart):
            if current:
                yield begin, announced, current
            current = []
            announced += bool(fields)
        elif not current and comment is not None and line.startswith(comment):
            continue
        else:
            if not current:
                begin = number
            current.append(tuple(fields))


def written(*args: Any, **options: Any) -> str:
    out = io.StringIO()
    write_columns(out, *args, **options)
    return out.getvalue()


def pieces(blocks: list[Columns]) -> str:
    """What blocks come to when they are written one after the other."""
    before = [None, *(int(data.documents[-1]) for data in blocks)]
    return "".join(written(data, announced=number) for number, data in zip(before, blocks, strict=False))


LINES = ["a A", "b\tB", "# #", "#x Y", "", "", " ", "D D", "D", "é  Ü ", "  c C", "Dx D", "c C\t\r"]


class Unseekable(io.StringIO):
    def seekable(self) -> bool:
        return False


@given(
    st.lists(st.sampled_from(LINES), max_size=25),
    st.integers(1, 40),
    st.sampled_from([None, "#"]),
    st.booleans(),
)
def test_any_block_size_reads_as_line_by_line(lines: list[str], block: int, comment: str | None, closed: bool) -> None:
    text = "\n".join(lines) + ("\n" if closed else "")
    expected = list(naive(text, comment, "D"))
    begins, announced, sentences = zip(*expected, strict=True) if expected else ((), (), ())
    documents = [count - min(announced[0], 1) for count in announced]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", block)
        for source in (io.StringIO, Unseekable, lambda text: io.BytesIO(text.encode())):
            streamed = list(iter_columns(source(text), comment=comment, docstart="D"))
            assert streamed == list(sentences)
            assert [sentence.line for sentence in streamed] == list(begins)
            assert [sentence.document for sentence in streamed] == documents
            if expected:
                data = read_columns(source(text), comment=comment, docstart="D")
                assert rows(data) == list(sentences)
                assert (data.lines.tolist(), data.documents.tolist()) == (list(begins), documents)
            for whole in ("sentence", "document"):
                blocks = list(iter_blocks(source(text), whole=whole, comment=comment, docstart="D"))
                assert [row for data in blocks for row in rows(data)] == list(sentences)
                assert [line for data in blocks for line in data.lines.tolist()] == list(begins)
                assert [number for data in blocks for number in data.documents.tolist()] == documents
                first = [int(data.documents[0]) for data in blocks]
                last = [int(data.documents[-1]) for data in blocks]
                assert whole == "sentence" or all(a < b for a, b in zip(last, first[1:], strict=False))
                assert pieces(blocks) == written(iter_columns(source(text), comment=comment, docstart="D"))


def test_documents() -> None:
    data = read_columns(io.StringIO(DOCUMENTS))
    assert data.documents.tolist() == [0, 0, 1]
    assert data.docstart == ("-DOCSTART-", "-X-")
    assert data.lines.tolist() == [3, 5, 9]
    assert len(both(DOCUMENTS, docstart=None)) == 5


def test_a_document_before_the_first_announced_one() -> None:
    text = "a A\n\n-DOCSTART-\n\nb B\n\n"
    assert read_columns(io.StringIO(text)).documents.tolist() == [0, 1]
    out = io.StringIO()
    write_columns(out, iter_columns(io.BytesIO(text.encode())))
    assert out.getvalue() == text


def test_comments_only_between_sentences_and_only_on_request() -> None:
    text = "# text = x\n# id\na A\n# #\nb B\n\n# next\nc C\n"
    data = read_columns(io.StringIO(text), comment="#")
    assert data.column(0) == [["a", "#", "b"], ["c"]]
    assert data.lines.tolist() == [3, 8]
    with pytest.raises(FormatError, match=r"<text>:2: expected 4 columns \(as on line 1\), got 2"):
        read_columns(io.StringIO(text))


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            "New York\tNNP\t\nin\t\tX\n\t\t\nup\tRB\tY\n",
            {"separator": "\t"},
            [[("New York", "NNP", ""), ("in", "", "X")], [("up", "RB", "Y")]],
        ),
        # Characters that are white space elsewhere stay in their token.
        ("a\u00a0b\u2028c X\n\x85 Y\n".encode(), {}, [[("a\u00a0b\u2028c", "X"), ("\x85", "Y")]]),
        # Windows line ends and a byte order mark.
        (b"\xef\xbb\xbfthe DT\r\ndog NN\r\n\r\nrun VB\r\n", {}, both(SMALL)),
        (b"\xef\xbb\xbfthe DT\r\ndog NN\r\n\r\nrun VB\r\n", {"separator": " "}, both(SMALL)),
        ("é A\n".encode("latin-1"), {"encoding": "latin-1"}, [[("é", "A")]]),
        # A single column has no separator.
        ("wakes\nNew York\n", {"separator": "\t"}, [[("wakes",), ("New York",)]]),
        ("New York\nwakes\n", {"separator": "\t", "columns": ("word",)}, [[("New York",), ("wakes",)]]),
    ],
)
def test_separators_spaces_and_encodings(
    content: str | bytes, options: dict[str, Any], expected: list[list[tuple[str, ...]]]
) -> None:
    assert both(content, **options) == expected


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"a b c d\n\ne f\n", {}, "f.txt:3: expected 4 columns (as on line 1), got 2"),
        (b"\n\na b\nc d e\n", {}, "f.txt:4: expected 2 columns (as on line 3), got 3"),
        (b"a b\n", {"columns": ("x", "y", "z")}, "f.txt:1: expected 3 columns (as named), got 2"),
        (
            b"a b\n",
            {"separator": "\t"},
            "f.txt:1: the separator '\\t' is not on the line; if there is only one column, name it (columns=('word',), "
            "--columns word)",
        ),
        (b"a\tb\nc d\n", {"separator": "\t"}, "f.txt:2: the separator '\\t' is not on the line"),
        (
            b"New York\tB\nsleeps\tO\n",
            {},
            "f.txt:2: expected 3 columns (as on line 1), got 2; if only tabs separate columns and words hold spaces, "
            "name the separator (separator='\\t', --separator tab)",
        ),
        (
            b"a A\r\nb B\rc C\r",
            {},
            "f.txt:2: a carriage return inside the line; expected lines that end in LF or CR LF",
        ),
        (b"", {}, "f.txt: no sentences: the file has no token lines"),
        (b"\n \n-DOCSTART-\n", {}, "f.txt: no sentences: the file has no token lines"),
        (b"a A\nb\xff B\n", {}, "f.txt:2:2: not utf-8: byte 0xff (invalid start byte)" + OTHER_ENCODING),
        (b"\xc3\n", {}, "f.txt:1:1: not utf-8: byte 0xc3 (invalid continuation byte)" + OTHER_ENCODING),
        (
            b"ok X\n" * 9 + b"a \xe2\x82",
            {},
            "f.txt:10:3: not utf-8: byte 0xe2 (unexpected end of data)" + OTHER_ENCODING,
        ),
    ],
)
@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_errors_name_the_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    options: dict[str, Any],
    message: str,
    block: int,
) -> None:
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    monkeypatch.chdir(tmp_path)
    Path("f.txt").write_bytes(content)
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_columns("f.txt", **options)
    if "no sentences" in message:  # a filter on an empty pipe has nothing to complain about
        assert list(iter_columns("f.txt")) == []
    else:
        with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
            list(iter_columns("f.txt", **options))


def test_bytes_that_a_text_file_smuggled_in() -> None:
    text = io.TextIOWrapper(io.BytesIO(b"a A\nb \xff\n"), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(FormatError, match="2:3: not utf-8: byte 0xff"):
        read_columns(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ""}, "'separator' parameter"),
        ({"comment": ""}, "'comment' parameter"),
        ({"docstart": ""}, "'docstart' parameter"),
        ({"columns": ("word", "word")}, "2 different names"),
        ({"encoding": "utf-16"}, "'encoding' parameter"),
        ({"encoding": "no-such-encoding"}, "'encoding' parameter"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_columns(io.BytesIO(SMALL.encode()), **options)


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_paths_plain_and_compressed(tmp_path: Path, suffix: str, opener: Callable[..., Any]) -> None:
    path = tmp_path / f"f.txt{suffix}"
    data = read_columns(io.StringIO(DOCUMENTS))
    write_columns(path, data)
    with opener(path, "rb") as stream:
        assert stream.read() == DOCUMENTS.encode()
    assert rows(read_columns(str(path))) == list(iter_columns(path)) == rows(data)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_files_that_are_not_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"f{suffix}"
    with pytest.raises(InputError):
        write_columns(path, [[("a", "A")], [("b", "")]])
    assert list(tmp_path.iterdir()) == []
    write_columns(path, [[(str(i), "X")] for i in range(1000)])
    for content in (path.read_bytes()[:-20], b"plain text"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="incomplete compressed file"):
            read_columns(path)


@pytest.mark.parametrize("mode", ["w+", "w+b"])
def test_open_files(tmp_path: Path, mode: str) -> None:
    with tempfile.NamedTemporaryFile(mode, dir=tmp_path) as file:
        write_columns(file, iter_columns(io.StringIO(SMALL)))
        file.seek(0)
        assert rows(read_columns(file)) == both(SMALL)


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(SMALL.encode())))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out))
    write_columns("-", iter_columns("-"), [["x", "y"], ["z"]])
    assert out.getvalue() == b"the DT x\ndog NN y\n\nrun VB z\n\n"


def sentences_of_blocks(stream: Any) -> Iterator[list[tuple[str, ...]]]:
    return (sentence for block in iter_blocks(stream) for sentence in rows(block))


@pytest.mark.parametrize("reader", [iter_columns, sentences_of_blocks])
@pytest.mark.parametrize("mode", ["r", "rb"])
def test_a_sentence_comes_out_of_a_pipe_before_the_next_goes_in(mode: str, reader: Callable[..., Any]) -> None:
    read_end, write_end = os.pipe()
    first_seen = threading.Event()

    def feed() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as stream:
            stream.write(b"a A\n\n")
            assert first_seen.wait(10)
            stream.write(b"b B\n\n")

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(read_end, mode) as stream:
        sentences = reader(stream)
        assert next(sentences) == [("a", "A")]
        first_seen.set()
        assert list(sentences) == [[("b", "B")]]
    feeder.join()


FIELD = st.text(
    st.characters(exclude_characters=" \t\n\r\v\f", exclude_categories=["Cs"]), min_size=1, max_size=3
).filter(lambda field: field != "-DOCSTART-" and not field.startswith("\ufeff"))


@given(st.lists(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=4), min_size=1, max_size=5))
def test_written_text_reads_back(sentences: list[list[tuple[str, str]]]) -> None:
    tabbed = [[("New York", "", *row) for row in rows] for rows in sentences]
    for written, separator in ((sentences, None), (tabbed, "\t")):
        out = io.BytesIO()
        write_columns(out, written, separator=separator or " ")
        assert both(out.getvalue(), separator=separator) == written


@pytest.mark.parametrize("reader", [read_columns, iter_columns])
def test_write_keeps_documents_and_adds_columns(reader: Callable[..., Any]) -> None:
    out = io.StringIO()
    write_columns(out, reader(io.StringIO(DOCUMENTS)), iter([["x"], ["y"], ["z", "z"]]))
    assert out.getvalue() == "-DOCSTART- -X- O\n\na A x\n\nb B y\n\n-DOCSTART- -X- O\n\nc C z\nd D z\n\n"


@pytest.mark.parametrize("text", [DOCUMENTS, "a\tA B\nb\t\n\nc\tC\n", "a\tA\n" * 3 + "\n" + "b\tB\n\n" * 2500])
def test_coded_columns_are_written_as_lists_are(text: str) -> None:
    separator = "\t" if "\t" in text else " "
    data = read_columns(io.StringIO(text), separator=None if separator == " " else separator)
    for extra in ([], [data.coded(0)], [data.coded(1), data.coded(0)]):
        quick, slow = io.StringIO(), io.StringIO()
        write_columns(quick, data, *extra, separator=separator)
        write_columns(slow, data.sentences(), *(column.to_lists() for column in extra), separator=separator)
        assert quick.getvalue() == slow.getvalue()
    with pytest.raises(InputError, match=r"extra column 0 has more sentences|tokens, but extra column 0 has"):
        write_columns(io.StringIO(), data, encode([["x"]] * (len(data) + 1)), separator=separator)
    label = CodedColumn(data.codes[0], ["two words"] * len(data.vocab[0]), data.offsets)
    if separator == " ":
        with pytest.raises(InputError, match="sentence 0, token 0: would not be read back"):
            write_columns(io.StringIO(), data, label)


@pytest.mark.parametrize(
    ("sentences", "extra", "separator", "message"),
    [
        ([[("a", "")]], [], " ", "sentence 0, token 0: would not be read back as 2 fields"),
        ([[("a", "A")], [("a b", "A")]], [], " ", "sentence 1, token 0: would not be read back"),
        ([[("a\tb", "A")]], [], "\t", "would not be read back"),
        ([[("a", "A\n")]], [], "\t", "would not be read back"),
        ([[("a", "A"), ("b",)]], [], " ", "sentence 0, token 1: would not be read back as 2 fields"),
        ([[("a", 1)]], [], " ", "fields must be strings"),
        ([["ab"]], [], " ", "expected a list of rows"),
        ([[]], [], " ", "expected a list of rows"),
        ([[("a", "A")]], [[["x", "y"]]], " ", "sentence 0: 1 tokens, but extra column 0 has"),
        ([[("a", "A")]], [["x"]], " ", "sentence 0: 1 tokens, but extra column 0 has 'x'"),
        ([[("a", "A")]], [[]], " ", "sentence 0: 1 tokens, but extra column 0 has"),
        ([[("a", "A")]], [[["x"], ["y"]]], " ", "extra column 0 has more sentences"),
        ([[("a", "A")]], [], "", "'separator' parameter"),
    ],
)
def test_write_refuses_and_leaves_the_old_file(
    tmp_path: Path, sentences: Any, extra: list[Any], separator: str, message: str
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old\n")
    with pytest.raises((InputError, ParameterError), match=message):
        write_columns(path, sentences, *extra, separator=separator)
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "old\n"


def test_a_pipe_is_written_to_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path, pipe = tmp_path / "f", tmp_path / "pipe"
    path.touch(mode=0o640)
    write_columns(path, [[("a", "A")]])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    os.mkfifo(pipe)
    read_end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_columns(pipe, [[("a", "A")]])
    assert os.read(read_end, 100) == path.read_bytes() == b"a A\n\n"
    os.close(read_end)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "documents"),
    [
        ("conll2000/train.txt", 8936, 211727, 1),
        ("conll2000/test.txt", 2012, 47377, 1),
        ("conll2003/eng.train", 14041, 203621, 946),
        ("conll2003/eng.testa", 3250, 51362, 216),
        ("conll2003/eng.testb", 3453, 46435, 231),
    ],
)
def test_published_counts_and_round_trip(name: str, sentences: int, tokens: int, documents: int) -> None:
    path = data_file(name)
    data = read_columns(path)
    assert (len(data), data.tokens, data.documents[-1] + 1) == (sentences, tokens, documents)
    out = io.BytesIO()
    write_columns(out, data)
    original, written = (
        [line.split() for line in content.rstrip().split(b"\n")] for content in (path.read_bytes(), out.getvalue())
    )
    assert len(original) == len(written)
    # Only the filler on -DOCSTART- lines may differ from file line to file line.
    changed = [a for a, b in zip(original, written, strict=True) if a != b]
    assert all(row[0] == b"-DOCSTART-" for row in changed)


def test_universal_dependencies_with_comments_and_tabs() -> None:
    path = data_file("ud_english_ewt/en_ewt-ud-dev.conllu")
    data = read_columns(path, separator="\t", comment="#")
    assert (len(data), len(data.names)) == (2001, 10)


def test_pieces_are_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields are made of a few lines at a time, whatever the size of the pieces; nothing depends on it."""
    text = "".join(f"w{i} T{i % 3}\n" + "\n" * (i % 4 == 0) for i in range(200)) + "last T"
    whole = read_columns(io.StringIO(text))
    for size in (1, 5, 64):
        monkeypatch.setattr(column_files, "PIECE_BYTES", size)
        found = read_columns(io.StringIO(text))
        assert (found.column(0), found.column(1)) == (whole.column(0), whole.column(1))
        assert found.lines.tolist() == whole.lines.tolist()

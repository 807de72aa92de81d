"""The template language: what lines mean, what errors say, and that stored indexes are checked."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.data import Columns
from partwise.exceptions import FormatError, InputError, ParameterError, PartwiseError, StorageError
from partwise.templates._parse import MAX_OFFSET
from partwise.templates.template_list import PRESETS, TemplateIndex, Templates

SMALL = {"word": [["the", "Dog"], ["a", "dog"]], "pos": [["D", "N"], ["D", "N"]]}


def small() -> Columns:
    return Columns.from_sentences(SMALL)


@pytest.mark.parametrize(
    ("text", "canonical", "names"),
    [
        ("word[0]", "word[0]", ["word[0]"]),
        ("  word [ -1 ]# text", "word[-1]", ["word[-1]"]),
        ("word[+1]", "word[1]", ["word[1]"]),
        ("word[-1..1]", "word[-1..1]", ["word[-1]", "word[0]", "word[1]"]),
        ("word[2..2]", "word[2]", ["word[2]"]),
        ("word[-2,0..1,0]", "word[-2,0..1,0]", ["word[-2]", "word[0]", "word[1]"]),
        ("w[-1..1 pairs]", "w[-1..1 pairs]", ["w[-1]|w[0]", "w[0]|w[1]"]),
        ("w[-1..1  triples]", "w[-1..1 triples]", ["w[-1]|w[0]|w[1]"]),
        ("w[0] p[-1]", "w[0] p[-1]", ["w[0]|p[-1]"]),
        ("w[0]  p[-1,1]", "w[0] p[-1,1]", ["w[0]|p[-1]", "w[0]|p[1]"]),
        ("prefix( w , 1..2 )[0]", "prefix(w,1..2)[0]", ["prefix(w,1)[0]", "prefix(w,2)[0]"]),
        (
            "suffix(lower(w),2,4)[0]",
            "suffix(lower(w),2,4)[0]",
            ["suffix(lower(w),2)[0]", "suffix(lower(w),4)[0]"],
        ),
        ('cluster(w,"a b#c")[0]', 'cluster(w,"a b#c")[0]', ['cluster(w,"a b#c")[0]']),
        ('"first"[0] first', '"first"[0] first', ['"first"[0]|first']),
        ('"odd \\"name\\" \\\\"[0]', '"odd \\"name\\" \\\\"[0]', ['"odd \\"name\\" \\\\"[0]']),
        ('"plain"[0]', "plain[0]", ["plain[0]"]),
        ("0[0] prefix(0,3)[0]", "0[0] prefix(0,3)[0]", ["0[0]|prefix(0,3)[0]"]),
        ("bias first[-1] last[0]", "bias first[-1] last[0]", ["bias|first[-1]|last"]),
        ("? pos[0]", "? pos[0]", ["pos[0]"]),
        ("pad(is_title(w))[-1]", "pad(is_title(w))[-1]", ["pad(is_title(w))[-1]"]),
        ("# nothing\n\nw[0]\nw[0..1]", "w[0]\nw[0..1]", ["w[0]", "w[1]"]),
    ],
)
def test_lines(text: str, canonical: str, names: list[str]) -> None:
    templates = Templates.parse(text)
    assert (templates.text, templates.names, len(templates)) == (canonical, names, len(names))
    again = Templates.parse(canonical.split("\n"))
    assert (again, again.text, again.names) == (templates, canonical, names)


ERRORS = [
    (
        "word[0]\nwird(x)[0]",
        "templates:2: unknown function 'wird'; there are lower, prefix",
        "    wird(x)[0]\n    ^",
    ),
    ("prefx(w,2)[0]", "templates:1: unknown function 'prefx' (did you mean 'prefix'?)", "    ^"),
    ("w[0] sufix(w,2)[0]", "unknown function 'sufix' (did you mean 'suffix'?)", "\n         ^"),
    ("w[x]", "expected an offset such as -1 or -2..2, got 'x'", "    w[x]\n      ^"),
    ("w[]", "expected an offset such as -1 or -2..2, got ']'", "\n      ^"),
    ("w[1.5]", "unexpected '.'", "\n       ^"),
    ("w[101]", f"101 is not between -{MAX_OFFSET} and {MAX_OFFSET}", "\n      ^"),
    ("w[99999999999]", "99999999999 is not between", "^"),
    ("w[2..-2]", "the range 2..-2 runs backwards", "\n      ^"),
    ("w[0", "expected ']'", "\n       ^"),
    ("w[0 quads]", "expected ']', 'pairs' or 'triples', got 'quads'", "\n        ^"),
    ("w[0 pairs]", "pairs need a range of at least 2 offsets, such as -1..1", "\n      ^"),
    ("w[-1,1 pairs]", "pairs need a range", "^"),
    ("w", "w needs an offset, such as w[0]", "    w\n    ^"),
    ("lower(w)", "lower(w) needs an offset, such as lower(w)[0]", "    ^"),
    ("prefix(w)[0]", "expected ',', got ')'", "\n            ^"),
    ("prefix(w,x)[0]", "expected a number such as 3 or a range such as 1..4, got 'x'", "^"),
    ("prefix(w,0)[0]", f"0 is not between 1 and {MAX_OFFSET}", "^"),
    ("lower(w,2)[0]", "expected ')', got ','", "^"),
    ("lower[0]\nlower()[0]", "templates:2: expected a column or a function, got ')'", "^"),
    ("lower(is_title(w))[0]", "lower needs a text, and is_title(w) is a flag value", "\n          ^"),
    ("lower(number(w))[0]", "lower needs a text, and number(w) is a real value", "^"),
    ("pad(number(w))[0]", "pad needs a text, and number(w) is a real value", "^"),
    ("lower(pad(w))[0]", "pad(...) must be outermost, around what it pads", "\n          ^"),
    ("list(w)[0]", "expected ',', got ')'", "^"),
    ("list(w,names)[0]", "expected the name of a file in quotation marks, got 'names'", "^"),
    ('list(w,"names)[0]', "a quotation mark without its partner", "\n           ^"),
    ('list(doc_label(w,p),"names")[0]', "list needs a column or a function of words, not doc_label", "^"),
    ('embed(w,"v")[0] w[0]', "a real-valued feature must be alone on its line", "\n                    ^"),
    ('w[0] embed(w,"v")[0]', "a real-valued feature must be alone on its line", "\n         ^"),
    ("number(w)[0..1 pairs]", "expected ']', 'pairs' or 'triples', got 'pairs'", "^"),
    ("?", "expected a template after '?'", "^"),
    ("w[0] ? p[0]", "expected a column or a function, got '?'", "\n         ^"),
    ('""[0]', "a column without a name", "^"),
    ("w[0] & p[0]", "unexpected '&'", "\n         ^"),
    ("w[-100..100] w[-100..100]", "more than 10000 templates on a line", "^"),
    ("prefix(prefix(prefix(w,1..100),1..100),1..100)[0]", "more than 10000 templates on a line", "^"),
    ("\n".join(f"w[-100..100] prefix(w,{n})[-20..20]" for n in (1, 2)), "templates:2: more than 10000", ""),
    ("lower(" * 30 + "w" + ")" * 30 + "[0]", "functions nested more than 20 deep", "^"),
    ("# only this", "templates: no templates", ""),
]


@pytest.mark.parametrize(("text", "message", "caret"), ERRORS)
def test_errors_of_the_language(text: str, message: str, caret: str) -> None:
    with pytest.raises(FormatError) as caught:
        Templates.parse(text.split("\n"))
    shown = str(caught.value)
    assert message in shown
    assert shown.endswith(caret)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_text_is_an_error_of_ours_or_parses(seed: int) -> None:
    rng = random.Random(seed)
    text = list('word[-1..1 pairs]\nprefix(lower(word),1..3)[0] pos[0]\n? list(word,"a\\"b")[0]\nbias first # c')
    for _ in range(rng.randint(1, 6)):
        text[rng.randrange(len(text))] = rng.choice('[]()",.#? \\w0-\n\tä..')
    try:
        templates = Templates.parse(["".join(text)])
    except FormatError as error:
        assert error.line is not None or "no templates" in str(error)
    else:
        assert Templates.parse(templates.text.split("\n")).names == templates.names


def test_a_column_that_is_not_there() -> None:
    expected = r"templates:2: there is no column 'tag'; the columns are word, pos\n    word\[0\] tag\[-1\]\n {12}\^"
    for call in (Templates.fit, Templates.fit_transform, Templates.check, Templates.resolve):
        with pytest.raises(FormatError, match=expected):
            call(Templates.parse("word[0]\nword[0] tag[-1]"), small())
    index = Templates.parse("word[0] pos[0]").fit(small())
    with pytest.raises(FormatError, match="there is no column 'pos'; the columns are word"):
        index.transform(Columns.from_sentences({"word": [["a"]]}))


def test_optional_lines_need_their_columns() -> None:
    templates = Templates.parse("word[0]\n? pos[0] word[0]\n? tag[0]")
    assert (templates.columns, templates.optional_columns) == (["word"], ["pos", "tag"])
    assert repr(templates) == "Templates(3 templates on word, pos?, tag?)"
    index = templates.fit(small())
    assert index.text == "word[0]\npos[0] word[0]"
    assert index.columns == ["word", "pos"]
    assert index.templates.text == index.text
    with pytest.raises(FormatError, match="none of the templates has its columns"):
        Templates.parse("? tag[0]").resolve(["word"])


@pytest.mark.parametrize(
    ("line", "content", "message"),
    [
        ('list(word,"F")[0]', None, "list cannot read the file 'F': No such file or directory"),
        ('list(word,"F")[0]', b"a\nb\xff\n", r"list cannot read its file: F:2:2: not utf-8: byte 0xff"),
        ('cluster(word,"F",4)[0]', b"01\ta\n01 b\n", "F:2: expected a cluster, a tab and a word"),
        ('embed(word,"F")[0]', b"", "F: no vectors in the file"),
        ('embed(word,"F")[0]', b"a 1 2\nb 1\n", "F:2: expected a word and 2 numbers, got 1 numbers"),
        ('embed(word,"F")[0]', b"a\n", "F:1: expected a word and its numbers, got 0 numbers"),
        ('embed(word,"F")[0]', b"a 1 2\nb 1 x\n", "F:2: expected a word and its numbers"),
        ('embed(word,"F")[0]', b"a 1 2\nb 1 inf\n", "F:2: the vector of 'b' is not finite"),
    ],
)
def test_files_that_cannot_be_read(
    line: str, content: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("F").write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        Templates.parse(f"word[0]\n{line}").check(small())
    assert caught.value.line == 2
    assert str(caught.value).startswith("templates:2: ")


def test_reading_a_file_of_templates(tmp_path: Path) -> None:
    path = tmp_path / "my.templates"
    path.write_text("# mine\nword[0]\r\npos[0]\n", newline="")
    assert Templates.read(path) == Templates.parse("word[0]\npos[0]")
    path.write_text("word[0\n")
    with pytest.raises(FormatError, match=r"my\.templates:1: expected '\]'"):
        Templates.read(path)
    path.write_bytes(b"word[0]\xff")
    with pytest.raises(FormatError, match=r"my\.templates: the templates are not utf-8"):
        Templates.read(path)
    with pytest.raises(FormatError, match="none: the templates cannot be read: No such file"):
        Templates.read(tmp_path / "none")


def test_presets() -> None:
    data = Columns.from_sentences({name: [["A", "b", "1"]] for name in ("word", "pos", "chunk", "predicted")})
    for name in PRESETS:
        assert len(Templates.preset(name).fit(data).transform(data)) == 3
    words = data.subset([0])
    only = Columns.from_sentences({"word": words.column("word")})
    for name in ("ner", "pos"):
        assert Templates.parse(name).fit(only).columns == ["word"]
    assert len(Templates.parse("crfsuite-chunking")) == 19
    with pytest.raises(ParameterError, match="did you mean 'chunking'"):
        Templates.parse("chunkin")
    both = Templates.preset("crfsuite-chunking") + Templates.parse("word[0]\nshape(word)[0]")
    assert len(both) == 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: t.fit(small(), min_count=0),
            "The 'min_count' parameter of Templates.fit must be a positive",
        ),
        (lambda t: t.fit(small(), min_count=True), "'min_count' parameter"),
        (
            lambda t: t.fit(small(), hashing=31),
            "The 'hashing' parameter of Templates.fit must be None or bits",
        ),
        (lambda t: t.fit(small(), hashing=0), "'hashing' parameter"),
        (lambda t: t.fit(small(), 2, 8), "must be 1 if attributes are hashed"),
        (lambda t: t.fit([["a"]]), "The 'columns' parameter of Templates.fit must be Columns. Got 'list'"),
        (
            lambda t: Templates.parse(["a", 3]),  # type: ignore[list-item]
            "must be a string or a list of strings",
        ),
    ],
)
def test_settings_out_of_range(call: Callable[[Templates], Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call(Templates.parse("word[0]"))


def test_stored_indexes_are_checked(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("dog 1 2\n")
    (tmp_path / "c").write_text("01\tdog\n")
    text = f'word[0] word[1]\nword[0]\nembed(word,"{tmp_path}/v")[0]\ncluster(word,"{tmp_path}/c")[0]'
    header, arrays = Templates.parse(text).fit(small()).to_state()

    def broken(change: dict[str, Any], **more: Any) -> None:
        with pytest.raises((StorageError, InputError)):
            TemplateIndex.from_state(header | change, {k: v for k, v in (arrays | more).items() if v is not None})

    TemplateIndex.from_state(header, arrays)
    for change in ("templates", "min_count", "splits"):
        broken({change: None})
    changes: list[dict[str, Any]] = [
        {"hashing": 99},
        {"hashing": "x"},
        {"templates": "word["},
        {"splits": [[1]]},
    ]
    changes += [{"splits": [[3], [1], [1]]}, {"splits": [[True, 1], [1], [1]]}, {"templates": "word[0]"}]
    for wrong in changes:
        broken(wrong)
    for name, array in arrays.items():
        broken({}, **{name: None})
        broken({}, **{name: array.astype(np.float64)})
        broken({}, **{name: array[:-1]} if name != "file1_offsets" else {name: array[:0]})
    broken({}, keys=arrays["keys"] * 1000 + 7)
    broken({}, keys=-arrays["keys"] - 1)
    broken({}, keys=arrays["keys"] * 0)
    broken({}, key_counts=np.array([1 << 62, 1 << 62, 2]))
    broken({}, file0_vectors=np.full((1, 2), np.nan, np.float32))
    doubled = np.frombuffer(arrays["vocab_bytes"].tobytes().replace(b"a", b"x").replace(b"the", b"Dog"), np.uint8)
    broken({}, vocab_bytes=doubled)


@pytest.mark.parametrize("seed", range(200))
def test_damaged_states_are_errors_of_ours_or_work(seed: int) -> None:
    rng = np.random.default_rng(seed)
    header, arrays = Templates.parse("word[-1..1]\nword[0] pos[0]\nlength(word)[0]").fit(small()).to_state()
    name = list(arrays)[rng.integers(len(arrays))]
    damaged = arrays[name].copy()
    if damaged.size:
        damaged[rng.integers(damaged.size)] = rng.choice([0, 1, 3, 64, 255, np.iinfo(np.int64).max]) % 256
    try:
        index = TemplateIndex.from_state(header, arrays | {name: damaged})
        assert len(index.transform(small())) == 4
        index.names()
    except PartwiseError:
        pass

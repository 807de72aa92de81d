"""The template language: text to templates, with errors that point at the place.

lines    =  ["?"] piece {piece}                        "?": only where its columns exist
piece    =  value ["[" offsets "]"]                    no offset is [0]
value    =  column | function ["(" argument {"," argument} ")"]
offsets  =  range {"," range} | range "pairs" | range "triples"
range    =  number [".." number]
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from partwise.exceptions import FormatError
from partwise.templates._functions import FUNCTIONS

__all__ = ["MAX_OFFSET", "MAX_TEMPLATES", "Line", "Piece", "Template", "Value", "fail", "parse_lines"]

# All are far beyond use, and keep a slip of the pen (or a damaged file) from filling the memory.
MAX_OFFSET = 100
MAX_TEMPLATES = 10_000
MAX_DEPTH = 20

_TOKEN = re.compile(r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>[-+]\d+)|(?P<name>\w+)|(?P<mark>\.\.|[][(),?]))')
_NAME = re.compile(r"\w+")
_NUMBER = re.compile(r"[-+]?[0-9]+")
_GROUPS = {"pairs": 2, "triples": 3}


class Value(NamedTuple):
    """A column (``function`` is empty, its name the only option), or a function of values and options."""

    function: str
    inner: tuple[Value, ...] = ()
    options: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        if not self.function:
            return _shown_column(str(self.options[0]))
        shown = [str(value) for value in self.inner]
        shown += [_quoted(option) if isinstance(option, str) else str(option) for option in self.options]
        return f"{self.function}({','.join(shown)})" if shown else self.function

    def walk(self) -> Iterator[Value]:
        """This value and all inside it, the innermost first."""
        for value in self.inner:
            yield from value.walk()
        yield self

    @property
    def is_nullary(self) -> bool:
        """Whether it is a function without arguments."""
        return not (self.inner or self.options)

    @property
    def result(self) -> str:
        """Whether it is "text", a "flag" or "real"."""
        kind = FUNCTIONS[self.function].result if self.function else "text"
        return self.inner[0].result if kind == "same" else kind


class Piece(NamedTuple):
    """A value of the token at an offset."""

    value: Value
    offset: int

    def __str__(self) -> str:
        return str(self.value) if self.value.is_nullary and not self.offset else f"{self.value}[{self.offset}]"


class Template(NamedTuple):
    """The pieces that make one attribute per token."""

    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        return "|".join(map(str, self.pieces))

    @property
    def is_real(self) -> bool:
        return self.pieces[0].value.result == "real"


@dataclass(frozen=True)
class Line:
    """One line: its canonical text, what it expands to, and where it was."""

    text: str
    templates: tuple[Template, ...]
    optional: bool
    source: str
    number: int
    path: str

    def columns(self) -> list[str]:
        """The columns it reads, in order of their first use."""
        values = (value for piece in self.pieces() for value in piece.value.walk())
        return list(dict.fromkeys(str(value.options[0]) for value in values if not value.function))

    def pieces(self) -> Iterator[Piece]:
        return (piece for template in self.templates for piece in template.pieces)

    def fail(self, message: str, word: str = "") -> NoReturn:
        """Raise the error, pointing at the first place of ``word`` in the line."""
        match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.source) if word else None
        fail(message, self.source, match.start() if match else None, self.number, self.path)


def fail(message: str, source: str, place: int | None, number: int, path: str) -> NoReturn:
    """Raise the error of a line, with a caret under the place where one is known."""
    shown = "".join(" " if character.isspace() else character for character in source)
    caret = "" if place is None else f"\n    {' ' * place}^"
    raise FormatError(f"{message}\n    {shown}{caret}", path=path, line=number)


def parse_lines(text: str, path: str) -> list[Line]:
    """Parse all lines; empty ones and comments are skipped."""
    lines = []
    total = 0
    for number, source in enumerate(text.split("\n"), start=1):
        line = _Parser(source.rstrip(), number, path).line()
        if line is not None:
            total += len(line.templates)
            if total > MAX_TEMPLATES:
                line.fail(f"more than {MAX_TEMPLATES} templates")
            lines.append(line)
    return lines


class _Parser:
    """Recursive descent over one line; every method returns canonical text and the alternatives."""

    def __init__(self, source: str, number: int, path: str) -> None:
        self.source, self.number, self.path = source, number, path
        self.tokens: list[tuple[str, str, int]] = []
        self.at = self.depth = 0
        end = 0
        while (rest := source[end:].lstrip()) and not rest.startswith("#"):
            match = _TOKEN.match(source, end)
            if match is None:
                place = len(source) - len(rest)
                what = "a quotation mark without its partner" if rest[0] == '"' else f"unexpected {rest[0]!r}"
                fail(what, source, place, number, path)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            end = match.end()
        self.tokens.append(("end", "", end))

    def line(self) -> Line | None:
        if self.kind == "end":
            return None
        optional = self.accept("?")
        texts: list[str] = []
        choices: list[list[tuple[Piece, ...]]] = []
        total = 1
        while self.kind != "end":
            start = self.place
            text, alternatives = self.piece()
            total *= len(alternatives)
            if total > MAX_TEMPLATES:
                self.fail(f"more than {MAX_TEMPLATES} templates on a line", start)
            if texts and any(p.value.result == "real" for c in (*choices, alternatives) for a in c for p in a):
                self.fail("a real-valued feature must be alone on its line", start)
            texts.append(text)
            choices.append(alternatives)
        if not texts:
            self.fail("expected a template after '?'")
        combined = (tuple(itertools.chain(*choice)) for choice in itertools.product(*choices))
        templates = tuple(dict.fromkeys(map(Template, combined)))
        text = ("? " if optional else "") + " ".join(texts)
        return Line(text, templates, optional, self.source, self.number, self.path)

    def piece(self) -> tuple[str, list[tuple[Piece, ...]]]:
        begin = self.place
        text, values = self.value(outermost=True)
        if not self.accept("["):
            if not values[0].is_nullary:
                self.fail(f"{text} needs an offset, such as {text}[0]", begin)
            return text, [(Piece(values[0], 0),)]
        start = self.place
        shown, offsets = self.numbers("an offset such as -1 or -2..2", -MAX_OFFSET, MAX_OFFSET)
        groups: list[tuple[int, ...]] = [(offset,) for offset in offsets]
        if self.kind == "name":
            size = _GROUPS.get(self.token)
            if size is None or values[0].result == "real":
                self.fail(f"expected ']', 'pairs' or 'triples', got {self.token!r}")
            if list(offsets) != list(range(offsets[0], offsets[-1] + 1)) or len(offsets) < size:
                self.fail(f"{self.token} need a range of at least {size} offsets, such as -1..1", start)
            groups = [tuple(offsets[i : i + size]) for i in range(len(offsets) - size + 1)]
            shown += f" {self.token}"
            self.at += 1
        self.expect("]")
        pieces = [tuple(Piece(value, offset) for offset in group) for value in values for group in groups]
        return f"{text}[{shown}]", pieces

    def value(self, outermost: bool = False) -> tuple[str, list[Value]]:
        kind, token, start = self.tokens[self.at]
        if kind not in ("name", "string"):
            self.fail(f"expected a column or a function, got {token!r}" if token else "expected a value")
        self.at += 1
        called = kind == "name" and self.token == "(" and self.kind == "mark"
        nullary = kind == "name" and token in FUNCTIONS and not FUNCTIONS[token].arguments
        if not called and not nullary:
            name = _unquoted(token) if kind == "string" else token
            if not name:
                self.fail("a column without a name", start)
            value = Value("", (), (name,))
            return str(value), [value]
        if token not in FUNCTIONS:
            near = difflib.get_close_matches(token, FUNCTIONS, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else f"; there are {', '.join(FUNCTIONS)}"
            self.fail(f"unknown function {token!r}{hint}", start)
        if token == "pad" and not outermost:
            self.fail("pad(...) must be outermost, around what it pads", start)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"functions nested more than {MAX_DEPTH} deep", start)
        found = self.call(token)
        self.depth -= 1
        return found

    def call(self, name: str) -> tuple[str, list[Value]]:
        begin = self.place
        texts: list[str] = []
        inner: list[list[Value]] = []
        options: list[list[tuple[str | int, ...]]] = []
        for i, argument in enumerate(FUNCTIONS[name].arguments):
            if argument == "sizes?" and not (self.kind == "mark" and self.token == ","):
                continue
            self.expect("," if i else "(")
            start = self.place
            if argument == "value":
                text, values = self.value()
                wrong = [value for value in values if value.result != "text"]
                if wrong and not (name == "pad" and wrong[0].result == "flag"):
                    self.fail(f"{name} needs a text, and {wrong[0]} is a {wrong[0].result} value", start)
                running = [v for v in values[0].walk() if v.function and FUNCTIONS[v.function].level != "word"]
                if running and name == "list":
                    self.fail(f"list needs a column or a function of words, not {running[0].function}", start)
                inner.append(values)
            elif argument == "path":
                text = self.token
                if self.kind != "string" or not _unquoted(text):
                    self.fail(f"expected the name of a file in quotation marks, got {text!r}")
                self.at += 1
                options.append([(_unquoted(text),)])
                text = _quoted(_unquoted(text))
            else:
                text, sizes = self.numbers("a number such as 3 or a range such as 1..4", 1, MAX_OFFSET)
                options.append([(size,) for size in sizes])
            texts.append(text)
        if FUNCTIONS[name].arguments:
            self.expect(")")
        if math.prod([*map(len, inner), *map(len, options)]) > MAX_TEMPLATES:
            self.fail(f"more than {MAX_TEMPLATES} templates on a line", begin)
        found = [
            Value(name, arguments, tuple(itertools.chain(*chosen)))
            for arguments in itertools.product(*inner)
            for chosen in itertools.product(*options)
        ]
        return f"{name}({','.join(texts)})" if texts else name, found

    def numbers(self, expected: str, low: int, high: int) -> tuple[str, tuple[int, ...]]:
        """Numbers and ranges between commas."""
        texts: list[str] = []
        found: list[int] = []
        while True:
            start = self.place
            first = last = self.integer(expected, low, high)
            if self.accept(".."):
                last = self.integer(expected, low, high)
                if last < first:
                    self.fail(f"the range {first}..{last} runs backwards", start)
            texts.append(f"{first}" if first == last else f"{first}..{last}")
            found.extend(range(first, last + 1))
            if not self.accept(","):
                return ",".join(texts), tuple(dict.fromkeys(found))

    def integer(self, expected: str, low: int, high: int) -> int:
        token = self.token
        if self.kind not in ("number", "name") or not _NUMBER.fullmatch(token):
            self.fail(f"expected {expected}, got {token!r}" if token else f"expected {expected}")
        if len(token) > 9 or not low <= int(token) <= high:
            self.fail(f"{token} is not between {low} and {high}")
        self.at += 1
        return int(token)

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def token(self) -> str:
        return self.tokens[self.at][1]

    @property
    def place(self) -> int:
        return self.tokens[self.at][2]

    def accept(self, mark: str) -> bool:
        found = self.kind == "mark" and self.token == mark
        self.at += found
        return found

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            self.fail(f"expected {mark!r}, got {self.token!r}" if self.token else f"expected {mark!r}")

    def fail(self, message: str, place: int | None = None) -> NoReturn:
        fail(message, self.source, self.place if place is None else place, self.number, self.path)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(token: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", token[1:-1])


def _shown_column(name: str) -> str:
    nullary = name in FUNCTIONS and not FUNCTIONS[name].arguments
    return name if _NAME.fullmatch(name) and not nullary else _quoted(name)

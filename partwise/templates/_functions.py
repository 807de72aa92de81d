"""The functions of the template language: their names, arguments and, for those of one word, their code.

A function of level "word" maps distinct strings to distinct strings, so it is called once for a
vocabulary. One of level "token" looks at the running text, and one of level "real" gives numbers; what
they compute is in ``_template_tokens`` and ``_template_values``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from partwise.templates._files import Clusters

__all__ = ["CONTEXTS", "FUNCTIONS", "Function", "numbers_in", "titled"]

Words = list[str]
Results = Sequence[str | None] | Sequence[bool]


#: How much text a template may look at, from least to most.
CONTEXTS = ("sentence", "document")


@dataclass(frozen=True)
class Function:
    """What the parser must know about a function, and how to compute it on a vocabulary.

    ``arguments`` are of the kinds "value", "sizes" (numbers or ranges, each of which makes a function of
    its own), "sizes?" and "path"; ``result`` is "text", "flag" (there or not) or "real".
    """

    arguments: tuple[str, ...]
    result: str
    level: str
    summary: str
    apply: Callable[..., Results] | None = None
    context: str = "sentence"  # how much text it looks at: one of CONTEXTS


def _is_mark(character: str) -> bool:
    """An accent or vowel sign that Unicode combines with the letter before it, as Hindi and decomposed text have."""
    return unicodedata.category(character)[0] == "M"


class _ShapeTable(dict[int, str]):
    """Character to the letter of its class, found once per character; marks belong to the letter before them."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isdigit():
            shape = "d"
        elif character.isalpha():
            shape = "x" if character == character.lower() else "X"
        else:
            shape = "" if _is_mark(character) else character
        self[code] = shape
        return shape


class _DigitTable(dict[int, str]):
    """Digits of any script as 0, found once per character."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = "0" if chr(code).isdigit() else chr(code)
        return folded


_SHAPES = _ShapeTable()
_DIGITS = _DigitTable()
_RUN = re.compile(r"(.)\1+", re.DOTALL)
_NUMBER = re.compile(r"[-+−]?(?=[.,٫]?\d)[\d.,:/٫٬]*[%٪]?")
_HYPHEN = re.compile("[-\u2010\u2011]")  # the plain one, Unicode's own, and that which does not break a line
_TAG = re.compile(r"[BIESLU]-(?=.)")


def _lower(words: Words) -> Results:
    return [word.lower() for word in words]


def _prefix(words: Words, size: int) -> Results:
    return [word[:size] if len(word) >= size else None for word in words]


def _suffix(words: Words, size: int) -> Results:
    return [word[-size:] if len(word) >= size else None for word in words]


def _shape(words: Words) -> Results:
    return [word.translate(_SHAPES) or word for word in words]


def _short_shape(words: Words) -> Results:
    # There are far fewer shapes than words.
    shapes = [word.translate(_SHAPES) or word for word in words]
    short = {shape: _RUN.sub(r"\1", shape) for shape in set(shapes)}
    return [short[shape] for shape in shapes]


def _fold_digits(words: Words) -> Results:
    return [word.translate(_DIGITS) for word in words]


def _length(words: Words) -> Results:
    return [str(len(word)) for word in words]


def _type(words: Words) -> Results:
    return [word[2:] if _TAG.match(word) else word for word in words]


def _cluster(words: Words, clusters: Clusters, size: int | None = None) -> Results:
    find = clusters.bits.get
    return [None if (bits := find(word)) is None else bits[:size] for word in words]


def titled(word: str) -> bool:
    """Whether it begins with a capital and is not all capitals."""
    return word[:1].isupper() and word != word.upper()


def _letters(word: str) -> bool:
    """Whether all are letters, with or without marks."""
    return word.isalpha() or (word[:1].isalpha() and all(c.isalpha() or _is_mark(c) for c in word))


def _each(test: Callable[[str], bool]) -> Callable[[Words], Results]:
    return lambda words: list(map(test, words))


def numbers_in(words: Words) -> list[float]:
    """The finite number that each string is, or NaN."""
    values = []
    for word in words:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        values.append(value if math.isfinite(value) else math.nan)
    return values


def _word(summary: str, apply: Any, result: str = "text", *more: str) -> Function:
    return Function(("value", *more), result, "word", summary, apply)


def _flag(summary: str, test: Callable[[str], bool]) -> Function:
    return _word(summary, _each(test), "flag")


FUNCTIONS: dict[str, Function] = {
    "lower": _word("in lower case", _lower),
    "prefix": _word("the first n characters; nothing where there are fewer", _prefix, "text", "sizes"),
    "suffix": _word("the last n characters; nothing where there are fewer", _suffix, "text", "sizes"),
    "shape": _word("capitals as X, other letters as x, digits as d, marks left out, the rest as it is", _shape),
    "short_shape": _word("the shape with runs of one character cut to one", _short_shape),
    "fold_digits": _word("every digit as 0", _fold_digits),
    "length": _word("the number of characters", _length),
    "type": _word("a tag without its B-, I-, E-, S-, L- or U-", _type),
    "cluster": _word("the first n bits of the word's cluster, or all", _cluster, "text", "path", "sizes?"),
    "is_title": _flag("a capital first, and not only capitals", titled),
    "is_upper": _flag("letters, all of them capitals", str.isupper),
    "is_lower": _flag("letters, none of them a capital", str.islower),
    "is_alpha": _flag("only letters", _letters),
    "is_digit": _flag("only digits", str.isdigit),
    "is_number": _flag(
        "a number, date, time or ratio: 12, -3.5, 1,000, 10:30, 1/2, 5%",
        lambda word: _NUMBER.fullmatch(word) is not None,
    ),
    "is_punct": _flag("neither letters nor digits", lambda word: not any(map(str.isalnum, word))),
    "has_upper": _flag("a capital somewhere", lambda word: word != word.lower()),
    "has_inner_upper": _flag("a capital after the first character", lambda word: word[1:] != word[1:].lower()),
    "has_digit": _flag("a digit somewhere", lambda word: any(map(str.isdigit, word))),
    "has_hyphen": _flag("a hyphen somewhere", lambda word: _HYPHEN.search(word) is not None),
    "has_period": _flag("a full stop somewhere", lambda word: "." in word),
    "bias": Function((), "flag", "token", "always there"),
    "first": Function((), "flag", "token", "the first token of its sentence"),
    "last": Function((), "flag", "token", "the last token of its sentence"),
    "all_caps": Function(("value",), "flag", "token", "in a sentence with capitals but no small letters"),
    "list": Function(("value", "path"), "text", "token", "B or I where the longest entry of a list begins or goes on"),
    "doc_title": Function(
        ("value",),
        "flag",
        "token",
        "elsewhere in the document, not first in a sentence, is_title holds",
        context="document",
    ),
    "doc_lower": Function(
        ("value",), "flag", "token", "elsewhere in the document it is in lower case", context="document"
    ),
    "doc_label": Function(
        ("value", "value"),
        "text",
        "token",
        "most frequent second value of the first's other occurrences",
        context="document",
    ),
    "corpus_label": Function(("value", "value"), "text", "token", "as doc_label, in the training corpus"),
    "number": Function(("value",), "real", "real", "the number that the string is, as the feature's value"),
    "embed": Function(("value", "path"), "real", "real", "the word's vector, one real-valued feature per dimension"),
    "pad": Function(("value",), "same", "pad", "beyond the sentence <s> and </s> instead of nothing"),
}

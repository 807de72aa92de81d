"""Safe HTML from anything: what is not :class:`Html` is escaped; numbers as people read them."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "Html",
    "breakable",
    "count",
    "embed_json",
    "escape",
    "join",
    "number",
    "percent",
    "plain",
    "scientific",
    "tag",
]

_SURROGATE = re.compile("[\ud800-\udfff]")
# HTML has no place for these, not even escaped.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Html(str):
    """A string that is HTML: goes into a page as it is."""

    __slots__ = ()


def escape(value: object) -> Html:
    """The value as HTML text, also fit for an attribute in double quotes.

    Examples
    --------
    >>> escape('<script> & "quotes"')
    '&lt;script&gt; &amp; &quot;quotes&quot;'
    >>> escape(Html("<b>bold</b>"))
    '<b>bold</b>'
    """
    if isinstance(value, Html):
        return value
    text = _CONTROL.sub("\ufffd", _SURROGATE.sub("\ufffd", str(value)))
    return Html(html.escape(text, quote=True))


def join(*parts: object, between: str = "") -> Html:
    """The parts one after the other, each escaped where it is not HTML."""
    return Html(between.join(map(escape, parts)))


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element. ``class_`` stands for ``class``, ``_`` in a name for ``-``; None and False leave one out.

    Examples
    --------
    >>> tag("a", "R&D", href="#x", class_="link", data_n=3, hidden=False)
    '<a href="#x" class="link" data-n="3">R&amp;D</a>'
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{escape(value)}"')
    opening = f"<{name}{''.join(written)}>"
    if name in ("input", "br", "hr", "meta", "wbr"):
        return Html(opening)
    return Html(f"{opening}{join(*content)}</{name}>")


def plain(value: Any) -> Any:
    """The value as JSON can hold it: arrays as lists, inf and nan as None, other objects as text.

    Examples
    --------
    >>> plain({"a": np.array([1.5, np.nan]), "b": (np.int32(2), 1j)})
    {'a': [1.5, None], 'b': [2, '1j']}
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def embed_json(value: Any) -> Html:
    r"""JSON that can stand inside a ``<script>`` element: no character of it can end the element.

    Examples
    --------
    >>> print(embed_json(["</script>", "a&b"]))
    ["\u003c/script\u003e","a\u0026b"]
    """
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(_SURROGATE.sub("\ufffd", text))  # UTF-8 has no place for one alone


def count(n: int) -> str:
    """1234 → 1,234."""
    return f"{n:,}"


def percent(share: float, digits: int = 2) -> str:
    """0.93456 → 93.46."""
    return f"{100 * share:.{digits}f}"


def number(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits and a true minus sign; a dash for None.

    Examples
    --------
    >>> number(-0.0123456), number(1234567.0), number(None), number(3.0), number(246.3, 2)
    ('−0.01235', '1.235·10⁶', '–', '3', '246')
    """
    if value is None or math.isnan(value):
        return "–"
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:,.0f}" if 1 <= abs(value) < 1e6 else scientific(text)
    return text.replace("-", "−").replace("inf", "∞")


def scientific(text: str) -> str:
    """A number with an exponent as people write it.

    Examples
    --------
    >>> scientific("1e-05"), scientific("-2.5e+07")
    ('10⁻⁵', '−2.5·10⁷')
    """
    mantissa, exponent = text.split("e")
    raised = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return (raised if mantissa == "1" else f"{mantissa}·{raised}").replace("-", "−")


_LONG_WORD = re.compile(r"\S{16,}")
_BREAK = re.compile(r"(?<=[/\\_\-.,=:])(?=[^/\\_\-.,=:])")


def breakable(text: str) -> Html:
    """The text with places to break its long words: behind the marks that paths and names are made of.

    Examples
    --------
    >>> breakable("in /home/<me>/news-train.conll")
    'in /<wbr>home/<wbr>&lt;me&gt;/<wbr>news-<wbr>train.<wbr>conll'
    """
    made, end = [], 0
    for word in _LONG_WORD.finditer(text):
        made.append(escape(text[end : word.start()]))
        made.append(join(*_BREAK.split(word[0]), between="<wbr>"))
        end = word.end()
    return join(*made, text[end:])

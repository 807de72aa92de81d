"""The grid of Figures 3.2–3.4: source words down, target words across; squares are gold links, filled ones predicted.

Sure links have a square outline, possible ones a rounded one. A right prediction, a wrong one and a missed sure link
each have a colour, and a mark for readers who cannot distinguish colours.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from partwise.exceptions import ParameterError
from partwise.report.markup import Html, join, tag

__all__ = ["alignment_grid", "save_alignment"]

_CELL = 18
_LETTER = 6.8

_STYLE = """
.alignment text { font: 12px system-ui, sans-serif; fill: currentColor; }
.alignment .line { stroke: currentColor; stroke-opacity: .12; }
.alignment .gold { fill: none; stroke: currentColor; stroke-width: 1.6; }
.alignment .right { fill: #2a7f3f; } .alignment .wrong { fill: #c0392b; }
.alignment .missed { stroke: #c0392b; stroke-dasharray: 3 2; }
"""


def alignment_grid(
    source: Sequence[str],
    target: Sequence[str],
    predicted: Iterable[tuple[int, int]],
    sure: Iterable[tuple[int, int]] = (),
    possible: Iterable[tuple[int, int]] = (),
    *,
    title: str = "Alignment",
) -> Html:
    """An SVG picture that stands alone (write it to a .svg file) or inside a page.

    Examples
    --------
    >>> picture = alignment_grid(["a", "dog"], ["un", "chien"], [(0, 0), (1, 0)], sure=[(0, 0), (1, 1)])
    >>> picture.count('class="right"'), picture.count('class="wrong"'), picture.count('class="gold missed"')
    (1, 1, 1)
    """
    found, certain = set(map(tuple, predicted)), set(map(tuple, sure))
    allowed = certain | set(map(tuple, possible))
    left = math.ceil(_LETTER * max(map(len, source), default=0)) + 12
    top = math.ceil(_LETTER * max(map(len, target), default=0)) + 12
    width, height = left + _CELL * len(target) + 8, top + _CELL * len(source) + 8
    marks = [_lines(left, top, len(source), len(target)), _words(left, top, source, target)]
    for j in range(len(source)):
        for k in range(len(target)):
            here = (j, k)
            if here in found or here in allowed:
                words = f"{source[j]} – {target[k]}"
                x, y = left + _CELL * k, top + _CELL * j
                marks.append(_link(x, y, words, here in found, here in certain, here in allowed))
    return tag(
        "svg",
        tag("title", title),
        Html(f"<style>{_STYLE}</style>"),
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="alignment",
        role="img",
    )


def save_alignment(
    path: str | os.PathLike[str],
    source: Sequence[str],
    target: Sequence[str],
    predicted: Iterable[tuple[int, int]],
    sure: Iterable[tuple[int, int]] = (),
    possible: Iterable[tuple[int, int]] = (),
) -> None:
    """Write the grid to a file: ``.svg``, or ``.png`` and what else matplotlib (extra ``plot``) writes."""
    name = os.fspath(path)
    if name.endswith(".svg"):
        with open(name, "w", encoding="utf-8") as file:
            file.write(alignment_grid(source, target, predicted, sure, possible))
        return
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError(
            "path", "save_alignment", "an .svg file, since matplotlib is not installed", name
        ) from None
    figure = Figure(figsize=(1.5 + 0.3 * len(target), 1.2 + 0.3 * len(source)), layout="constrained")
    _draw(figure.subplots(), source, target, set(predicted), set(sure), set(sure) | set(possible))
    figure.savefig(name, dpi=120)


def _draw(axes: Any, source: Any, target: Any, found: set[Any], sure: set[Any], allowed: set[Any]) -> None:
    """The same grid by matplotlib: squares are sure links, circles possible ones, small marks predictions."""
    for links, marker, colour, size, filled in (
        (allowed - sure, "o", "black", 13, False),
        (sure & found, "s", "black", 13, False),
        (sure - found, "s", "#c0392b", 13, False),
        (found & allowed, "s", "#2a7f3f", 7, True),
        (found - allowed, "X", "#c0392b", 9, True),
    ):
        rows, columns = [j for j, _ in sorted(links)], [k for _, k in sorted(links)]
        face = colour if filled else "none"
        axes.plot(columns, rows, marker, markersize=size, markerfacecolor=face, markeredgecolor=colour)
    axes.set_yticks(range(len(source)), source)
    axes.set_xticks(range(len(target)), target, rotation=90)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.6, len(target) - 0.4), ylim=(len(source) - 0.4, -0.6))
    axes.grid(alpha=0.2)


def _lines(left: int, top: int, n_rows: int, n_columns: int) -> Html:
    right, bottom = left + _CELL * n_columns, top + _CELL * n_rows
    across = [
        tag("line", x1=left, x2=right, y1=top + _CELL * j, y2=top + _CELL * j, class_="line") for j in range(n_rows + 1)
    ]
    down = [
        tag("line", x1=left + _CELL * k, x2=left + _CELL * k, y1=top, y2=bottom, class_="line")
        for k in range(n_columns + 1)
    ]
    return join(*across, *down)


def _words(left: int, top: int, source: Sequence[str], target: Sequence[str]) -> Html:
    rows = [tag("text", w, x=left - 6, y=top + _CELL * j + 13, text_anchor="end") for j, w in enumerate(source)]
    columns = []
    for k, word in enumerate(target):
        x = left + _CELL * k + 13
        columns.append(tag("text", word, x=x, y=top - 6, transform=f"rotate(-90 {x} {top - 6})"))
    return join(*rows, *columns)


def _link(x: int, y: int, words: str, found: bool, sure: bool, possible: bool) -> Html:
    state = "predicted, right" if found and possible else "predicted, wrong" if found else "not predicted"
    gold = "sure" if sure else "possible" if possible else "not in the gold alignment"
    parts: list[Html] = [tag("title", f"{words}: {gold}, {state}")]
    if found:
        parts.append(tag("rect", x=x + 5, y=y + 5, width=8, height=8, class_="right" if possible else "wrong"))
    if found and not possible:  # crossed out
        parts.append(tag("path", d=f"M{x + 2} {y + 2}L{x + 16} {y + 16}", class_="gold"))
    if possible:
        missed = " missed" if sure and not found else ""
        round_corners = 0 if sure else 6
        parts.append(tag("rect", x=x + 2, y=y + 2, width=14, height=14, rx=round_corners, class_=f"gold{missed}"))
    return tag("g", *parts)

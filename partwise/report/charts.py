"""Pictures as inline SVG: line charts, bar charts, heat maps, reliability diagrams.

Colours come from the page's style sheet (``report.css``), so that the pictures follow the reader's light or
dark scheme. Every picture has a title for screen readers, and every mark a tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from partwise.report.markup import Html, escape, join, number, percent, scientific, tag

__all__ = ["Series", "bar_chart", "heat_map", "line_chart", "reliability_diagram"]

_LETTER = 7.3  # width of a letter of a 12 pixel label, on average in a wide font


class Series(NamedTuple):
    """A named curve; a point whose y is None is left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


class Axis:
    """Values low … high ↔ pixels start … stop, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, stop: float, *, log: bool = False) -> None:
        if log:
            low, high = (low / 1.5, high * 1.5) if low == high else (low, high)
        elif low == high:
            pad = abs(low) / 10 or 1.0
            low, high = low - pad, high + pad
        self.low, self.high, self.start, self.stop, self.log = low, high, start, stop, log

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values inside the axis."""
        if self.log:
            return _log_ticks(self.low, self.high, about)
        step = _round_step((self.high - self.low) / about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def _round_step(size: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= size * (1 - 1e-9))


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round((last - first) / about))
    marks = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [m * 10.0**k for k in range(first, last + 1, every) for m in marks]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _tick_label(value: float) -> str:
    """As people write it: 10⁻⁴, 2.5·10⁷, 12,000, −0.5.

    Examples
    --------
    >>> [_tick_label(value) for value in (1e-4, 0.0005, 2.5e7, -12000.0, 0.001, 0.0)]
    ['10⁻⁴', '5·10⁻⁴', '2.5·10⁷', '−12,000', '0.001', '0']
    """
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-3 * (1 - 1e-9)):
        mantissa, exponent = f"{value:.2e}".split("e")
        return scientific(f"{float(mantissa):g}e{exponent}")
    return f"{value:,.6g}".replace("-", "−")


def _svg(width: float, height: float, title: str, *content: object, class_: str, role: str = "img") -> Html:
    return tag(
        "svg",
        tag("title", title),
        *content,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role=role,
        aria_label=title,
        class_=f"chart {class_}",
    )


def _text(x: float, y: float, content: object, class_: str = "", **more: object) -> Html:
    return tag("text", content, x=f"{x:g}", y=f"{y:g}", class_=class_ or None, **more)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=f"{x1:g}", y1=f"{y1:g}", x2=f"{x2:g}", y2=f"{y2:g}", class_=class_)


def _frame(x: Axis, y: Axis, x_label: str, y_label: str, bottom: float) -> list[Html]:
    """Grid, tick labels and the names of the axes. y runs up from ``y.start`` to ``y.stop``."""
    parts: list[Html] = []
    for tick in y.ticks():
        parts.append(_line(x.start, y(tick), x.stop, y(tick), "grid"))
        parts.append(_text(x.start - 8, y(tick) + 4, _tick_label(tick), "end"))
    for tick in x.ticks(6):
        parts.append(_line(x(tick), y.start, x(tick), y.start + 4, "axis"))
        parts.append(_text(x(tick), y.start + 18, _tick_label(tick), "middle"))
    parts.append(_line(x.start, y.start, x.stop, y.start, "axis"))
    parts.append(_text((x.start + x.stop) / 2, bottom - 6, x_label, "middle name"))
    parts.append(_text(x.start, y.stop - 12, y_label, "name"))
    return parts


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log: bool | None = None,
    mark: tuple[float, str] | None = None,
    width: float = 540,
    height: float = 290,
) -> Html:
    """Curves over one axis.

    Parameters
    ----------
    log : bool, optional
        A logarithmic y axis; by default where the values are positive and span a factor of 30.
    mark : (x, text), optional
        A vertical line with a name.
    """
    curves = [
        (
            curve.name,
            [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None and math.isfinite(y)],
        )
        for curve in series
    ]
    xs = [x for _, points in curves for x, _ in points]
    ys = [y for _, points in curves for _, y in points]
    if not ys:
        return _svg(width, 60, title, _text(12, 34, "nothing to show"), class_="empty")
    if log is None:
        log = min(ys) > 0 and max(ys) > 30 * min(ys)
    spare = 0.0 if log else 0.04 * (max(ys) - min(ys))
    y = Axis(min(ys) - spare, max(ys) + spare, height - 46, 34, log=log)
    left = 18 + _LETTER * max(len(_tick_label(tick)) for tick in y.ticks() or [0.0])
    x = Axis(min(xs), max(xs), left, width - 14)
    if last := x.ticks(6)[-1:]:  # its label is centred below it, and must not leave the picture
        beyond = x(last[0]) + _LETTER * len(_tick_label(last[0])) / 2 + 2 - width
        x = Axis(min(xs), max(xs), left, x.stop - max(0.0, beyond))
    name = y_label + (" (logarithmic)" if log else "")
    parts = _frame(x, y, x_label, name, height)
    if mark is not None and x.low <= mark[0] <= x.high:
        at = x(mark[0])
        side, shift = ("end halo", -6) if at > (x.start + x.stop) / 2 else ("halo", 6)
        nearest = min(curves[0][1], key=lambda point: abs(point[0] - mark[0]))[1] if curves[0][1] else y.low
        high = y(nearest) > (y.start + y.stop) / 2  # pixels run down: the curve is low there
        parts.append(_line(at, y.start, at, y.stop, "mark"))
        parts.append(_text(at + shift, y.stop + 12 if high else y.start - 8, mark[1], side))
    for k, (curve_name, points) in enumerate(curves):
        parts += _curve(k, curve_name, points, x, y, x_label)
    if len(curves) > 1:
        parts += _legend([curve.name for curve in series], left + 30 + _LETTER * len(name), 22)
    return _svg(width, height, title, *parts, class_="lines")


def _curve(k: int, name: str, points: list[tuple[float, float]], x: Axis, y: Axis, x_label: str) -> list[Html]:
    path = " ".join(f"{'L' if n else 'M'}{x(a):g} {y(b):g}" for n, (a, b) in enumerate(points))
    parts = [tag("path", d=path, class_=f"curve c{k}")] if len(points) > 1 else []
    stride = -(-len(points) // 200)
    for a, b in points[::stride]:
        tip = tag("title", f"{name}: {number(b, 6)} at {x_label} {number(a)}")
        dot = "dot" if len(points) <= 40 else "dot quiet"
        parts.append(tag("circle", tip, cx=f"{x(a):g}", cy=f"{y(b):g}", r="3", class_=f"{dot} c{k}"))
    return parts


def _legend(names: Sequence[str], left: float, at: float) -> list[Html]:
    parts = []
    for k, name in enumerate(names):
        parts.append(tag("path", d=f"M{left:g} {at - 4:g} h18", class_=f"curve c{k}"))
        parts.append(_text(left + 24, at, name, "legend"))
        left += 40 + _LETTER * len(name)
    return parts


def bar_chart(
    names: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    texts: Sequence[str] | None = None,
    tips: Sequence[str] | None = None,
    top: float | None = None,
    width: float = 540,
) -> Html:
    """Horizontal bars from 0, one per name; negative ones run to the left in the other colour.

    Parameters
    ----------
    texts, tips : sequences of str, optional
        What stands at a bar's end, and its tooltip; by default the value.
    top : float, optional
        The value of a full bar; by default the largest.
    """
    texts = [number(value) for value in values] if texts is None else texts
    tips = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)] if tips is None else tips
    left = 16 + _LETTER * min(26, max(map(len, names), default=0))
    right = width - 14 - _LETTER * max(map(len, texts), default=0)
    low = min(0.0, min(values, default=0.0))
    high = max(top if top is not None else 0.0, max(values, default=0.0), 0.0)
    x = Axis(low, high if high > low else low + 1.0, left, right)
    parts: list[Html] = []
    for k, (name, value, text, tip) in enumerate(zip(names, values, texts, tips, strict=True)):
        middle = 14 + 26 * k
        begin, end = sorted((x(0.0), x(value)))
        bar = tag(
            "rect", x=f"{begin:g}", y=middle - 8, width=f"{max(end - begin, 1):g}", height=16, rx=2,
            class_="bar pos" if value >= 0 else "bar neg",
        )  # fmt: skip
        label = _text(left - 8, middle + 4, _short(name, 26), "end")
        shown = _text(end + 6, middle + 4, text, "strong")
        parts.append(tag("g", tag("title", tip), label, bar, shown))
    height = 26 * len(names) + 4
    parts.append(_line(x(0.0), 2, x(0.0), height - 2, "axis"))
    return _svg(width, height, title, *parts, class_="bars")


def heat_map(
    shades: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    row_title: str,
    column_title: str,
    text: Callable[[int, int], str],
    tip: Callable[[int, int], str],
    link: Callable[[int, int], str | None] | None = None,
    barred: Callable[[int, int], bool] | None = None,
) -> Html:
    """A matrix of tinted cells.

    Parameters
    ----------
    shades : [rows, columns] of numbers in −1 … 1
        From one colour's full strength over none to the other's.
    text, tip, link : callables (row, column)
        What stands in a cell (left out where cells are small), its tooltip, where it leads.
    barred : callable (row, column), optional
        Cells that are crossed out because the combination is impossible.
    """
    n = max(len(rows), len(columns), 1)
    size = 46 if n <= 10 else 38 if n <= 16 else 28 if n <= 22 else 21 if n <= 30 else 16 if n <= 40 else 14
    left = 34 + _LETTER * min(18, max(map(len, rows), default=0))
    top = 36 + _LETTER * min(18, max(map(len, columns), default=0))
    width, height = left + size * len(columns) + 4, top + size * len(rows) + 4
    parts: list[Html] = [
        _text(left + size * len(columns) / 2, 14, column_title, "middle name"),
        _text(
            0,
            0,
            row_title,
            "middle name",
            transform=f"translate(12 {top + size * len(rows) / 2:g}) rotate(-90)",
        ),
    ]
    for j, name in enumerate(columns):
        place = f"translate({left + size * (j + 0.5) + 4:g} {top - 7:g}) rotate(-90)"
        parts.append(_text(0, 0, _short(name, 18), "", transform=place))
    for i, name in enumerate(rows):
        parts.append(_text(left - 7, top + size * (i + 0.5) + 4, _short(name, 18), "end"))
        for j in range(len(columns)):
            at = left + size * j, top + size * i, size
            out = barred is not None and barred(i, j)
            cell = _barred(*at, tip(i, j)) if out else _cell(float(shades[i][j]), *at, text(i, j), tip(i, j))
            target = link(i, j) if link is not None else None
            parts.append(tag("a", cell, href=target) if target else cell)
    return _svg(width, height, title, *parts, class_=f"heat s{size}", role="img" if link is None else "group")


def _barred(x: float, y: float, size: int, tip: str) -> Html:
    ground = tag("rect", x=f"{x:g}", y=f"{y:g}", width=size, height=size, class_="ground")
    cross = tag("path", d=f"M{x:g} {y:g} l{size} {size} m0 {-size} l{-size} {size}", class_="cross")
    return tag("g", tag("title", tip), ground, cross, class_="cell barred")


def _cell(shade: float, x: float, y: float, size: int, text: str, tip: str) -> Html:
    strength = min(abs(shade), 1.0) * 0.85
    ground = tag("rect", x=f"{x:g}", y=f"{y:g}", width=size, height=size, class_="ground")
    tint = ""
    if strength >= 0.01:
        kind = "pos" if shade > 0 else "neg"
        tint = tag(
            "rect",
            x=f"{x:g}",
            y=f"{y:g}",
            width=size,
            height=size,
            class_=kind,
            fill_opacity=f"{strength:.2f}",
        )
    shown = ""
    if text and size >= 28:
        kind = "middle on" if strength > 0.72 else "middle"
        shown = _text(x + size / 2, y + size / 2 + 4, text, kind)
    return tag("g", tag("title", tip), ground, tint, shown, class_="cell")


def reliability_diagram(
    edges: Sequence[float],
    counts: Sequence[int],
    confidence: Sequence[float | None],
    accuracy: Sequence[float | None],
    *,
    title: str,
    of: str = "the likeliest label",
    width: float = 460,
) -> Html:
    """Accuracy against mean probability of each bin, with Wilson's 95% intervals; below, their counts."""
    left, side = 62.0, width - 76
    height = side + 206
    x, y = Axis(0, 1, left, left + side), Axis(0, 1, side + 30, 30)
    parts = _frame(x, y, "", "share that is right", height)
    parts.append(_line(x(0), y(0), x(1), y(1), "diagonal"))
    points: list[str] = []
    for k, n in enumerate(counts):
        p, right = confidence[k], accuracy[k]
        if not n or p is None or right is None:
            continue
        low, high = wilson(right, n)
        tip = f"probabilities {edges[k]:.3f}–{edges[k + 1]:.3f}: {n:,} predictions, mean probability "
        tip += f"{percent(p)}%, right {percent(right)}%"
        points.append(f"{'L' if points else 'M'}{x(p):g} {y(right):g}")
        whisker = _line(x(p), y(low), x(p), y(high), "whisker")
        dot = tag("circle", cx=f"{x(p):g}", cy=f"{y(right):g}", r="4.5", class_="dot c0")
        parts.append(tag("g", tag("title", tip), whisker, dot))
    parts.append(tag("path", d=" ".join(points) or "M0 0", class_="curve c0"))
    parts += _histogram(x, edges, counts, side + 84, height - 46)
    parts.append(_text(left + side / 2, height - 6, f"probability of {of}", "middle name"))
    return _svg(width, height, title, *parts, class_="reliability")


def _histogram(x: Axis, edges: Sequence[float], counts: Sequence[int], top: float, bottom: float) -> list[Html]:
    """Counts on a logarithmic scale: one pixel column per bin, from a half up so that single ones are seen."""
    y = Axis(0.5, max([10, *counts]) * 1.2, bottom, top, log=True)
    parts = [_text(x.start, top - 6, "how many (logarithmic)", "name")]
    for k in range(0, 1 + math.floor(math.log10(y.high))):
        parts.append(_line(x.start, y(10.0**k), x.stop, y(10.0**k), "grid"))
        parts.append(_text(x.start - 8, y(10.0**k) + 4, _tick_label(10.0**k), "end"))
    for k, n in enumerate(counts):
        if n:
            begin, end = x(edges[k]) + 1, x(edges[k + 1]) - 1
            tip = tag("title", f"{edges[k]:.3f}–{edges[k + 1]:.3f}: {n:,}")
            parts.append(
                tag(
                    "rect", tip, x=f"{begin:g}", y=f"{y(n):g}", width=f"{end - begin:g}",
                    height=f"{bottom - y(n):g}", class_="bar pos",
                )
            )  # fmt: skip
    parts.append(_line(x.start, bottom, x.stop, bottom, "axis"))
    for tick in x.ticks(6):
        parts.append(_text(x(tick), bottom + 18, _tick_label(tick), "middle"))
    return parts


def wilson(share: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's interval of a share seen in n trials.

    Examples
    --------
    >>> tuple(round(bound, 3) for bound in wilson(0.9, 50))
    (0.786, 0.957)
    """
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _short(text: str, most: int) -> Html:
    return escape(text) if len(text) <= most else join(text[: most - 1], "…")

"""Maps as inline SVG: points in the plane, coloured by group, with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.report.charts import Axis, _short, _svg, _text
from partwise.report.markup import Html, tag

__all__ = ["colour", "legend", "scatter"]

UNKNOWN = "var(--muted)"


def colour(k: int, n: int) -> str:
    """The k-th of n colours around the circle, neighbours also apart in lightness; none (−1) is grey."""
    if k < 0:
        return UNKNOWN
    return f"hsl({(360 * k / max(n, 1) + 210) % 360:.0f} 65% {(46, 60, 38)[k % 3]}%)"


def scatter(
    points: Any, groups: Sequence[int], n_groups: int, tips: Sequence[str], *, title: str, side: float = 430
) -> Html:
    """Points (D, 2), each in the colour of its group and with a tooltip; −1 is of no group."""
    points = np.asarray(points, dtype=float)
    low, high = points.min(axis=0), points.max(axis=0)
    x = Axis(float(low[0]), float(high[0]), 10, side - 10)
    y = Axis(float(low[1]), float(high[1]), side - 10, 10)
    radius = 4.0 if len(points) <= 300 else 2.8
    dots = [
        tag(
            "circle", tag("title", tip), cx=f"{x(a):g}", cy=f"{y(b):g}", r=radius,
            style=f"fill: {colour(group, n_groups)}; fill-opacity: .75",
        )
        for (a, b), group, tip in zip(points.tolist(), groups, tips, strict=True)
    ]  # fmt: skip
    frame = tag("rect", x=1, y=1, width=side - 2, height=side - 2, style="fill: none; stroke: var(--line)")
    return _svg(side, side, title, frame, *dots, class_="map")


def legend(names: Sequence[str], *, width: float = 880) -> Html:
    """The colours of the groups, in rows."""
    columns = max(1, int(width // 200))
    parts = []
    for k, name in enumerate(names):
        left, top = 10 + 200 * (k % columns), 16 + 20 * (k // columns)
        parts.append(tag("circle", cx=left, cy=top - 4, r=5, style=f"fill: {colour(k, len(names))}"))
        parts.append(_text(left + 12, top, _short(name, 26), "legend"))
    height = 20 * -(-len(names) // columns) + 8
    return _svg(width, height, "Colours of the classes", *parts, class_="legend")

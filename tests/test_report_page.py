"""The framework of report pages: parts, escaping, and charts that stay inside their frames whatever the numbers."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from report_pages import NASTY, check_drawing, check_self_contained

from partwise.exceptions import ParameterError
from partwise.report import Page
from partwise.report.charts import Series, bar_chart, heat_map, line_chart, reliability_diagram
from partwise.report.markup import embed_json, escape, tag
from partwise.report.page import cards, details, facts, figure, side_by_side, switch, table


def test_page_parts() -> None:
    page = Page("T & <t>", "sub <s>")
    section = page.section("one", "One", "lead <l>")
    section.add("plain <p>", cards([("n", 1, "<x>")]), facts([("<a>", 2)], heading="h"))
    section.add(side_by_side(figure(bar_chart(["<y>"], [1.0], title="<z>"), "c"), details("more", "<d>")))
    section.add(table(["a", "b"], [["<r>", 1], ["s", 2]], total=["all", 3], caption="<c>"))
    section.add(switch("pick", "Show", [("one", tag("p", "1")), ("two", tag("p", "2"))]))
    page.embed("some-data", {"x": "</script>"})
    document = check_self_contained(page.render())
    for text in ("T & <t>", "sub <s>", "lead <l>", "plain <p>", "<x>", "<a>", "<d>", "<r>", "<c>", "<y>"):
        assert text in document.words
    assert json.loads(document.inside["script"][0]) == {"x": "</script>"}
    with pytest.raises(ParameterError, match="a name that no other section has"):
        page.section("one", "Again")


def test_markup() -> None:
    for value in (*NASTY, {"a": [1, None, "\u2029"]}, [math.nan, math.inf, 1.5], np.arange(3)):
        text = embed_json(value)
        assert not set("<>&\u2028\u2029") & set(text)
        text.encode()
    assert json.loads(embed_json(NASTY)) == [*NASTY[:-1], "\ufffd"]
    assert json.loads(embed_json([math.nan, 1.5])) == [None, 1.5]
    assert escape("\x00\ud800<") == "\ufffd\ufffd&lt;"
    assert tag("p", "<", class_="a b", title='"') == '<p class="a b" title="&quot;">&lt;</p>'


CURVES: dict[str, list[list[float | None]]] = {
    "falling": [[1e5, 10.0, 1e-3, 1e-9]],
    "one": [[3.0]],
    "flat": [[2.0, 2.0, 2.0]],
    "zero": [[0.0, 0.0]],
    "holes": [[None, 1.0, None, 2.0], [5.0, None, math.nan, -1.0]],
    "tiny": [[1e-300, 1e-299]],
    "long": [[math.sin(k / 9) for k in range(1000)]],
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("mark", [None, (2.0, "here"), (99999.0, "out")])
def test_line_chart(name: str, mark: Any) -> None:
    curves = [Series(f"<{k}>", list(range(len(y))), y) for k, y in enumerate(CURVES[name])]
    picture = line_chart(curves, title="<t>", x_label="pass", y_label="<y>", mark=mark)
    root = ElementTree.fromstring(picture)
    check_drawing(root)
    points = sum(y is not None and math.isfinite(y) for curve in CURVES[name] for y in curve)
    assert len(root.findall(".//circle")) == min(points, 200)


def test_other_charts_at_the_edges() -> None:
    assert "nothing to show" in line_chart([Series("x", [1], [None])], title="t", x_label="x", y_label="y")
    for names, values in (([], []), (["a"], [0.0]), (["a", "b" * 99], [-2.0, 1e9])):
        check_drawing(ElementTree.fromstring(bar_chart(names, values, title="t")))
    for n in (0, 1, 9, 20, 30, 50):
        names = ["<" * k for k in range(n)]
        picture = heat_map(
            np.linspace(-1, 1, n * n).reshape(n, n), names, names, title="t", row_title="r", column_title="c",
            text=lambda i, j: "<1>", tip=lambda i, j: f"<{i}>", link=lambda i, j: None if i == j else "#x",
        )  # fmt: skip
        root = ElementTree.fromstring(picture)
        check_drawing(root)
        assert len(root.findall(".//rect[@class='ground']")) == n * n and len(root.findall(".//a")) == n * n - n
    for counts in ([0, 0], [0, 1], [10**7, 3]):
        shares = [None if n == 0 else 0.4 for n in counts]
        picture = reliability_diagram([0, 0.5, 1], counts, shares, shares, title="t")
        check_drawing(ElementTree.fromstring(picture))

"""One self-contained HTML page: sections of text, tables and pictures, with styles, scripts and data inside.

Nothing is fetched from anywhere: the page's own security policy forbids it, and lets only those scripts run
that were put in here. It follows the reader's light or dark scheme. What is not :class:`Html` is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from partwise._atomic import replacing
from partwise._version import __version__
from partwise.exceptions import ParameterError
from partwise.report.markup import Html, breakable, embed_json, escape, join, tag
from partwise.storage import check_writable
from partwise.storage.layout import failed

__all__ = [
    "Page",
    "Section",
    "cards",
    "details",
    "facts",
    "figure",
    "paragraph",
    "side_by_side",
    "switch",
    "table",
]


class Section:
    """A part of a page under one heading. ``add`` what the functions of this module and ``charts`` make."""

    def __init__(self, name: str, heading: str, lead: object = "") -> None:
        self.name, self.heading = name, heading
        self.parts: list[Html] = [paragraph(lead, class_="lead")] if lead else []

    def add(self, *parts: object) -> Section:
        """Append HTML; plain text becomes a paragraph."""
        self.parts += [part if isinstance(part, Html) else paragraph(part) for part in parts]
        return self

    def render(self) -> Html:
        """The section as HTML."""
        heading = tag("h2", self.heading, id=f"{self.name}-heading")
        return tag("section", heading, *self.parts, id=self.name, aria_labelledby=f"{self.name}-heading")


class Page:
    """A page with a title and sections.

    Examples
    --------
    >>> page = Page("Aligner", "French and English")
    >>> section = page.section("scores", "Scores", "On <unseen> sentences.")
    >>> _ = section.add(table(["type", "AER"], [["all", "5.3"]]))
    >>> text = page.render()
    >>> "&lt;unseen&gt;" in text, "<unseen>" in text
    (True, False)
    """

    def __init__(self, title: str, subtitle: object = "") -> None:
        self.title, self.subtitle = title, subtitle
        self.sections: list[Section] = []
        self.images = False  # whether the page holds pictures of pixels, which its security policy must let in
        self._data: dict[str, Any] = {}
        self._scripts = [("report.js", "partwise.report")]

    def section(self, name: str, heading: str, lead: object = "") -> Section:
        """A new section; ``name`` is its anchor."""
        if any(section.name == name for section in self.sections):
            raise ParameterError("name", "Page.section", "a name that no other section has", name)
        self.sections.append(Section(name, heading, lead))
        return self.sections[-1]

    def embed(self, name: str, value: Any) -> None:
        """Put data into the page as JSON, in a ``<script type="application/json" id="name">``."""
        self._data[name] = value

    def script(self, file: str, package: str) -> None:
        """Run a script that lies in a package, after ``report.js`` and the scripts added before."""
        self._scripts.append((file, package))

    def render(self) -> Html:
        """The whole page."""
        scripts = [_resource(file, package) for file, package in self._scripts]
        allowed = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"
        policy += "; img-src data:" if self.images else ""
        links = [tag("a", section.heading, href=f"#{section.name}") for section in self.sections]
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="generator", content=f"partwise {__version__}"),
            tag("title", self.title),
            Html(f"<style>{_resource('report.css')}</style>"),
        )
        body = tag(
            "body",
            tag("a", "Skip to the content", href="#content", class_="skip"),
            tag("header", tag("h1", breakable(self.title)), tag("p", self.subtitle) if self.subtitle else ""),
            tag("nav", *links, aria_label="Sections") if len(links) > 1 else "",
            tag("main", *(section.render() for section in self.sections), id="content"),
            tag("footer", f"Made by partwise {__version__}. This file is complete: it needs no network."),
            *(
                Html(f'<script type="application/json" id="{escape(name)}">{embed_json(value)}</script>\n')
                for name, value in self._data.items()
            ),
            *(Html(f"<script>{text}</script>\n") for text in scripts),
        )
        return Html(f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n</html>\n')

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all; StorageError if that fails."""
        check_writable(path)
        name = os.fspath(path)
        content = self.render().encode("utf-8", "replace")
        try:
            with replacing(os.path.realpath(name)) as file:
                file.write(content)
        except OSError as error:
            raise failed(name, "cannot be written", error) from error


def _resource(file: str, package: str = "partwise.report") -> str:
    return files(package).joinpath(file).read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def paragraph(*content: object, class_: str | None = None) -> Html:
    """A paragraph."""
    return tag("p", *content, class_=class_)


def table(
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: object = "",
    align: str = "",
    total: Sequence[object] | None = None,
    sortable: bool = True,
) -> Html:
    """A table whose first column names the rows; a click on a column's heading sorts by it.

    Parameters
    ----------
    align : str
        "l" or "r" for each column; by default the first is aligned left, the others right.
    total : sequence, optional
        A last row that sorting leaves in place.
    """
    align = align or "l" + "r" * (len(header) - 1)
    sides = ["r" if side == "r" else None for side in align]

    def row(cells: Sequence[object]) -> Html:
        first = tag("th", cells[0], scope="row", class_=sides[0])
        rest = [tag("td", cell, class_=side) for cell, side in zip(cells[1:], sides[1:], strict=True)]
        return tag("tr", first, *rest)

    titles = [tag("th", title, scope="col", class_=side) for title, side in zip(header, sides, strict=True)]
    body = [row(cells) for cells in rows]
    made = tag(
        "table",
        tag("caption", caption) if caption else "",
        tag("thead", tag("tr", *titles)),
        tag("tbody", *body),
        tag("tfoot", row(total)) if total is not None else "",
        data_sortable=sortable and len(body) > 1,
    )
    return tag("div", made, class_="scroll")


def facts(pairs: Iterable[tuple[object, object]], *, heading: str = "") -> Html:
    """Names and values, one below the other."""
    items = [join(tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("div", tag("h3", heading) if heading else "", tag("dl", *items), class_="facts")


def cards(items: Iterable[tuple[object, object, object]]) -> Html:
    """Headline numbers: (name, value, note)."""
    made = [
        tag(
            "div",
            tag("span", name, class_="name"),
            tag("span", value, class_="value"),
            tag("span", note, class_="note"),
            class_="card",
        )
        for name, value, note in items
    ]
    return tag("div", *made, class_="cards")


def figure(picture: Html, caption: object = "") -> Html:
    """A picture with a caption below."""
    return tag("figure", tag("div", picture, class_="scroll"), tag("figcaption", caption) if caption else "")


def details(summary: object, *content: object, open_: bool = False) -> Html:
    """Content that the reader can unfold."""
    return tag("details", tag("summary", summary), *content, open=open_)


def side_by_side(*parts: Html, class_: str = "") -> Html:
    """Parts next to each other where there is room."""
    return tag("div", *parts, class_=f"grid {class_}".strip())


def switch(name: str, legend: str, views: Sequence[tuple[str, Html]]) -> Html:
    """Several views of one thing, of which the reader chooses one; all of them where scripts do not run."""
    buttons = [
        tag(
            "label",
            tag("input", type="radio", name=name, value=k, checked=k == 0),
            tag("span", title),
        )
        for k, (title, _) in enumerate(views)
    ]
    panels = [tag("div", view, data_view=k) for k, (_, view) in enumerate(views)]
    return tag("div", tag("fieldset", tag("legend", legend), *buttons, class_="choice"), *panels, data_switch=name)

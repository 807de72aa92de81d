"""What the tests of reports share: models with reports, and strict readers of pages and pictures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from partwise.data import Columns, load_sample
from partwise.estimators import SequenceLabeler
from partwise.report import sequence_report

NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a&b'\u2028</style>", "\ud800"]
VOID = {"meta", "input", "br", "hr", "img", "link", "wbr"}


class Document(HTMLParser):
    """Reads a page strictly: elements must close in order, ids must differ."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attributes}
        self.elements.append((name, found))
        if "id" in found:
            self.ids.append(found["id"])
        if name in self.inside:
            self.inside[name].append("")
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open and self.open[-1] == name, f"</{name}> after {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]][-1] += data
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def check_self_contained(text: str) -> Document:
    """No element or style of the page points outside of it."""
    document = Document(text)
    for name, attributes in document.elements:
        assert name not in ("link", "img", "iframe", "object", "embed", "base", "audio", "video", "form"), name
        for key in ("src", "srcset", "data", "action", "poster", "background", "xlink:href"):
            assert key not in attributes, (name, attributes)
        assert attributes.get("href", "#").startswith("#")
        assert not [key for key in attributes if key.startswith("on")], attributes
    style = "".join(document.inside["style"])
    assert "@import" not in style and "url(" not in style
    for script in document.inside["script"]:
        if not script.startswith("{"):
            assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML|eval\(", script)
    return document


def check_drawing(root: ElementTree.Element) -> None:
    """Every mark lies inside the picture, at a place that is a number."""
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        for key, value in element.attrib.items():
            assert "nan" not in value and "inf" not in value, (element.tag, element.attrib)
            if key in ("x", "x1", "x2", "cx"):
                assert -1 <= float(value) <= width + 1
            if key in ("y", "y1", "y2", "cy"):
                assert -1 <= float(value) <= height + 1


def embedded(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', path.read_text("utf-8"), re.S)
    assert found
    return json.loads(found[1])


class Run:
    """A model, the data it is tested on, and its report."""

    def __init__(self, folder: Path, model: SequenceLabeler, X: Any, y: list[list[str]], **options: Any) -> None:
        self.model, self.X, self.y, self.path = model, X, y, folder / "report.html"
        sequence_report(self.path, model, X, y, **options)
        self.data = embedded(self.path)
        self.text = self.path.read_text("utf-8")
        self.predicted = model.predict(X)
        self.marginals = model.predict_marginals(X)

    @property
    def wrong(self) -> list[int]:
        return [i for i, (a, b) in enumerate(zip(self.y, self.predicted, strict=True)) if a != b]


def entities_run(folder: Path) -> Run:
    """Entities in news, with words that must be escaped."""
    train, test = load_sample("news", split="train"), load_sample("news", split="test")
    lines = ["word[-1..0]", "suffix(word,1..2)[0]", "shape(word)[0]"]
    model = SequenceLabeler(templates=lines, max_passes=12, scheme="IOB2")
    dev = train.subset(slice(0, 20))
    model.fit(train, train.column("ner"), dev=(dev, dev.column("ner")))
    words = test.column("word")
    for k, sentence in enumerate(words):
        sentence[len(sentence) // 2] = NASTY[k % len(NASTY)]
    X = Columns.from_sentences({"word": words})
    info = {"sentences": len(train), "seconds": 1.25, "notes": "<b>none</b>"}
    return Run(folder, model, X, test.column("ner"), title="Entities <i>&", train_info=info)


def odd_run(folder: Path) -> Run:
    """Labels that are no tags, one of which the model never saw; features as lists of strings; an online learner."""
    rng = np.random.default_rng(0)
    labels = ["<b>N</b>", 'V"&', "P'"]

    def draw(n: int, more: list[str]) -> tuple[Any, Any]:
        y = [[str(label) for label in rng.choice(labels + more, rng.integers(1, 7))] for _ in range(n)]
        noise = ["a", "b", "</script>"]
        X = [[[f"w={rng.choice(noise)}", f"l={label[:2] if rng.random() < 0.7 else ''}"] for label in s] for s in y]
        return X, y

    model = SequenceLabeler(learner="sgd", max_passes=3).fit(*draw(60, []))
    return Run(folder, model, *draw(50, ["new"]))

"""What a reader stumbles over: labels of axes, numbers, paths, forbidden transitions, and what a page cuts off."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_pages import Document, Run, entities_run

from partwise.report import Page
from partwise.report.charts import Series, heat_map, line_chart
from partwise.report.markup import breakable, number
from partwise.report.page import facts
from partwise.report.training import training_facts
from partwise.sequences import tags

PATH = "/srv/projects/language-data/news-corpora/english_news_train.conll"


@pytest.fixture(scope="module")
def entities(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return entities_run(tmp_path_factory.mktemp("entities"))


def texts(picture: str, class_: str) -> list[tuple[float, str]]:
    found = ElementTree.fromstring(picture).iter("text")
    return [(float(t.get("x", 0)), t.text or "") for t in found if class_ in (t.get("class") or "").split()]


def test_small_gaps_have_readable_ticks() -> None:
    values = [10.0**-k for k in range(7)]
    picture = line_chart([Series("gap", range(7), values)], title="t", x_label="x", y_label="y")
    labels = [text for _, text in texts(picture, "end")]
    assert {"1", "0.01", "10⁻⁴", "10⁻⁶"} <= set(labels), labels
    assert not any("10⁰" in label or "e-" in label for label in labels)


@pytest.mark.parametrize("last", [10.0, 2000.0, 30_000.0, 5e8])
def test_the_last_tick_is_inside_the_picture(last: float) -> None:
    picture = line_chart([Series("loss", [0.0, last], [1.0, 2.0])], title="t", x_label="x", y_label="y", width=540)
    for x, text in texts(picture, "middle"):
        assert x + 7.3 * len(text) / 2 <= 540, text


def test_numbers_as_people_write_them() -> None:
    found = [number(value, 2) for value in (2.4, 24.6, 246.3, 24_631.0, 2.5e7, 1e-5, -3.2e-6)]
    assert found == ["2.4", "25", "246", "24,631", "2.5·10⁷", "10⁻⁵", "−3.2·10⁻⁶"]


def test_paths_break_between_words_only() -> None:
    pieces = breakable(PATH).split("<wbr>")
    assert "".join(pieces) == PATH and "language-" in pieces and "corpora/" in pieces and "conll" in pieces
    assert breakable("short/path") == "short/path" and breakable("<b>" * 9).count("&lt;") == 9
    run = {"records": [], "status": "converged", "best_step": 0, "certificate": None}
    page = Page(PATH)
    page.section("one", "One").add(facts(training_facts(run, {"file": PATH})))
    text = page.render()
    assert text.count(str(breakable(PATH))) == 2  # the heading and the fact
    rules = re.findall(r"(?m)^(?:dt, dd|tbody th|h1) \{.*$", text)
    assert len(rules) == 3 and not any("anywhere" in rule for rule in rules)


def test_forbidden_transitions_are_crossed_out(entities: Run) -> None:
    labels = entities.data["transitions"]["labels"]
    allowed = tags.legal_transitions(labels, "IOB2").allowed
    assert entities.data["transitions"]["allowed"] == allowed.tolist()
    picture = next(p for p in re.findall(r"<svg.*?</svg>", entities.text, re.S) if "Weights of the transitions" in p)
    cells = [g for g in ElementTree.fromstring(picture).iter("g") if "cell" in (g.get("class") or "").split()]
    crossed = [cell.find("path") is not None for cell in cells]
    assert crossed == (~allowed).ravel().tolist() and 0 < sum(crossed) < len(crossed)
    inner = next(label for label in labels if label.startswith("I-"))
    assert f"O → {inner}: never" in [cell.findtext("title") for cell in cells]
    assert "transitions that the tag scheme forbids" in Document(entities.text).words
    free = heat_map(
        [[0.0]], ["a"], ["b"], title="t", row_title="r", column_title="c", text=lambda i, j: "", tip=lambda i, j: "x"
    )
    assert "cross" not in free


PROBE = """
addEventListener("load", () => {
  const lines = [];
  for (const box of document.querySelectorAll("#reliability .scroll, #types .scroll")) {
    if (box.scrollWidth > box.clientWidth + 1) lines.push("cut " + box.closest("section").id);
  }
  for (const picture of document.querySelectorAll("svg.chart")) {
    const frame = picture.getBoundingClientRect();
    if (!frame.width) continue;
    for (const text of picture.querySelectorAll("text")) {
      const place = text.getBoundingClientRect();
      if (place.left < frame.left - 1 || place.right > frame.right + 1) lines.push("clipped " + text.textContent);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) lines.push("page wider than the window");
  parent.postMessage([...lines, "looked"].join("; "), "*");
});
"""
# A window of Chromium's is 500 pixels wide at least: the page lies in a frame.
FRAME = """<!DOCTYPE html><html><head></head><body>
<iframe src="probe.html" style="width: {}px; height: 900px; border: 0"></iframe>
<script>addEventListener("message", (event) => document.body.replaceChildren(event.data));</script>
</body></html>"""


@pytest.mark.parametrize("width", [420, 1200, 1600])
def test_nothing_is_cut_off(entities: Run, tmp_path: Path, width: int) -> None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on PATH")
    page = re.sub(r"<meta http-equiv[^>]*>", "", entities.text)  # the page itself would not let the probe run
    (tmp_path / "probe.html").write_text(page.replace("</body>", f"<script>{PROBE}</script></body>"), "utf-8")
    path = tmp_path / "frame.html"
    path.write_text(FRAME.replace("{}", str(width)), "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    options += [
        f"--user-data-dir={tmp_path / 'browser'}",
        "--window-size=1800,1000",
        "--virtual-time-budget=4000",
        "--dump-dom",
        path.as_uri(),
    ]
    try:
        found = subprocess.run([program, *options], capture_output=True, timeout=120, check=True).stdout.decode("utf-8")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{program} does not run here: {error}")
    said = found[found.index("<body>") + 6 : found.index("</body>")].split("; ")
    if width < 600:  # where tables may scroll
        said = [line for line in said if not line.startswith("cut")]
    assert said == ["looked"]

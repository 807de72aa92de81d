"""The report in a real browser, where there is one: its scripts run, list, filter, explain and sort."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from report_pages import Run, entities_run, odd_run

from partwise.report.markup import escape


@pytest.fixture(scope="module")
def entities(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return entities_run(tmp_path_factory.mktemp("entities"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return odd_run(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that loads a page in Chromium and returns its document after the scripts ran."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on PATH")

    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    ]  # fmt: skip

    def load(address: str) -> str:
        folder = tmp_path_factory.mktemp("browser")
        command = [program, *options, f"--user-data-dir={folder}", "--dump-dom", address]
        return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode("utf-8")

    try:
        load("about:blank")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{program} does not run here: {error}")
    return load


def page_state(text: str) -> dict[str, str]:
    root = re.search(r"<html[^>]*>", text)
    assert root
    return dict(re.findall(r'data-([\w-]+)="([^"]*)"', root[0]))


def test_browser_lists_all_errors(browse: Any, entities: Run) -> None:
    text = browse(entities.path.as_uri())
    state = page_state(text)
    errors = entities.data["errors"]
    n = len(errors["sentences"])
    assert state["ready"] == "1" and "error" not in state
    assert state["matching-sentences"] == str(n) and state["matching-tokens"] == str(errors["wrong_tokens"])
    articles = re.findall(r'<article class="error" data-sentence="(\d+)"', text)
    assert list(map(int, articles)) == [sentence["i"] for sentence in errors["sentences"]][:20]
    assert state["pages"] == str(-(-n // 20))
    assert "alert(1)</script><small" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert '<button type="button">Chunk type</button>' in text  # the tables sort
    assert re.search(r'data-view="1" hidden=""', text)  # one of the two views of the curves


def test_browser_filters_and_explains(browse: Any, entities: Run) -> None:
    errors = entities.data["errors"]
    types = errors["types"]

    def matches(sentence: dict[str, Any]) -> list[int]:
        return [t for t in map(int, sentence["why"]) if types[sentence["gold"][t]] == "ORG" and sentence["p"][t] >= 0.3]

    found = {sentence["i"]: matches(sentence) for sentence in errors["sentences"] if matches(sentence)}
    assert found, "no such error: choose another filter"
    i, positions = next(iter(found.items()))
    text = browse(f"{entities.path.as_uri()}#gold=ORG&low=30&open={i}:{positions[0]}")
    state = page_state(text)
    assert state["ready"] == "1" and "error" not in state
    assert state["matching-sentences"] == str(len(found))
    assert state["matching-tokens"] == str(sum(map(len, found.values())))
    articles = re.findall(r'<article class="error" data-sentence="(\d+)"', text)
    assert list(map(int, articles)) == list(found)[:20]
    why = next(s for s in errors["sentences"] if s["i"] == i)["why"][str(positions[0])]
    explanation = text[text.index(f'id="why-{i}-{positions[0]}"') :].split("</article>")[0]
    assert explanation.count("<tr") == len(why["parts"]) + (why["rest"][0] > 0)
    assert all(
        str(escape(name)).replace("&#x27;", "'").replace("&quot;", '"') in explanation for name, _ in why["parts"]
    )


def test_browser_with_odd_labels(browse: Any, odd: Run) -> None:
    """The link of a confusion leads to its sentences, whatever the labels are called."""
    errors = odd.data["errors"]
    gold, predicted = "<b>N</b>", 'V"&'
    codes = errors["labels"].index(gold), errors["labels"].index(predicted)
    pairs = [list(zip(s["gold"], s["predicted"], strict=True)) for s in errors["sentences"]]
    n = sum(pair == codes for sentence in pairs for pair in sentence)
    matrix, labels = odd.data["confusion"]["matrix"], odd.data["confusion"]["labels"]
    assert n == matrix[labels.index(gold)][labels.index(predicted)] > 0
    link = "#gold=%3Cb%3EN%3C%2Fb%3E&predicted=V%22%26"
    assert str(escape(link)) in odd.text
    state = page_state(browse(odd.path.as_uri() + link))
    assert state["ready"] == "1" and state["matching-tokens"] == str(n)


PROBE = """
const lines = [];
const say = (...values) => lines.push(values.join(" "));
const page = document.documentElement.dataset;
const state = () => `${page.matchingSentences}/${page.matchingTokens}`;
const form = document.querySelector(".filters");
const enter = (name, value) => {
  form.elements[name].value = value;
  form.elements[name].dispatchEvent(new Event("input", { bubbles: true }));
};
addEventListener("load", () => {
  enter("text", "THE"); say("text", state(), location.hash);
  enter("high", "60"); say("high", state());
  form.querySelector("[type=reset]").click(); say("clear", state(), form.elements.text.value === "");
  [...document.querySelectorAll(".pager button")].at(-1).click(); say("page", page.page);
  document.querySelector(".token.wrong").click(); say("open", document.querySelectorAll(".why").length);
  say("focus", document.activeElement.getAttribute("aria-expanded"));
  document.activeElement.click(); say("close", document.querySelectorAll(".why").length);
  document.querySelectorAll("#types thead button")[3].click();
  say("sort", ...[...document.querySelectorAll("#types tbody tr")].map((row) => row.cells[3].textContent));
  document.querySelector("[data-switch] input[value='1']").click();
  say("switch", ...[...document.querySelectorAll("[data-view]")].map((view) => view.hidden));
  document.body.replaceChildren(lines.join("\\n"));
});
"""


def test_browser_controls(browse: Any, entities: Run, tmp_path: Path) -> None:
    """What a reader does to the page: typing, choosing, turning pages, opening, sorting, switching."""
    page = re.sub(r"<meta http-equiv[^>]*>", "", entities.text)  # the page itself would not let the probe run
    path = tmp_path / "probe.html"
    path.write_text(page.replace("</body>", f"<script>{PROBE}</script></body>"), "utf-8")
    text = browse(path.as_uri())
    body = text[text.index("<body>") + 6 : text.index("</body>")]
    lines = [line.partition(" ") for line in body.splitlines()]
    said = {name: rest for name, _, rest in lines}

    def matching(text: str, high: float) -> str:
        found = [
            sum(sentence["p"][t] <= high for t in map(int, sentence["why"]))
            for sentence in entities.data["errors"]["sentences"]
            if text in " ".join(sentence["words"]).lower()
        ]
        return f"{sum(n > 0 for n in found)}/{sum(found)}"

    assert said["text"] == f"{matching('the', 1.0)} #text=THE"
    assert said["high"] == matching("the", 0.6) != matching("the", 1.0)
    assert said["clear"] == f"{matching('', 1.0)} true"
    assert said["page"] == str(min(2, -(-len(entities.wrong) // 20)))
    assert (said["open"], said["focus"], said["close"]) == ("1", "true", "0")
    f1 = sorted((line["f1"] for line in entities.data["types"]), reverse=True)
    assert said["sort"].split() == [f"{100 * value:.2f}" for value in f1]
    assert said["switch"] == "true false"

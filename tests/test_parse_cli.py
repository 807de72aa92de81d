"""partwise parse-train and parse, pictures of trees, and the report."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from partwise.cli import main
from partwise.exceptions import InputError
from partwise.parsing import DependencySentence, attachment_scores, load_sample_treebank, read_conllu, write_conllu
from partwise.parsing.pictures import dependency_svg


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run(*words: Any, stdin: str = "") -> Done:
    """Run a command as a shell would, with bytes beneath its streams."""
    streams = [io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8") for text in (stdin, "", "")]
    with (
        contextlib.redirect_stdout(streams[1]),
        contextlib.redirect_stderr(streams[2]),
        pytest.MonkeyPatch.context() as p,
    ):
        p.setattr("sys.stdin", streams[0])
        code = main([str(word) for word in words])
    texts = []
    for stream in streams[1:]:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Done(code, *texts)


SMALL = ["--arc-bits", "16", "--row-bits", "10", "--max-passes", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parse")
    write_conllu(load_sample_treebank("train"), path / "train.conllu")
    write_conllu(load_sample_treebank("test"), path / "test.conllu")
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path, report = folder / "model.pw", folder / "report.html"
    arguments = [folder / "train.conllu", "--dev", folder / "test.conllu", "--save", path, "--report", report, *SMALL]
    done = run("parse-train", *arguments, "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["uas"] > 90 and summary["passes"] == 3 and summary["sentences"] == 200
    return path


def test_parse_evaluate_and_report(folder: Path, model: Path) -> None:
    out, report = folder / "parsed.conllu", folder / "evaluated.html"
    arguments = [folder / "test.conllu", "--model", model, "-o", out, "--evaluate", "--report", report]
    done = run("parse", *arguments)
    assert done.code == 0 and re.search(r"UAS 9\d\.\d\d  LAS", done.out), done.err
    gold = read_conllu(folder / "test.conllu")
    parsed = read_conllu(out)
    expected = attachment_scores(gold, parsed).las_universal
    assert f"as CoNLL-2018 compares them: LAS {expected:.2f}" in done.out
    assert [s.forms for s in parsed] == [s.forms for s in gold] and parsed[0].comments == gold[0].comments
    for page in (report, folder / "report.html"):
        text = page.read_text("utf-8")
        data = json.loads(re.search(r'id="report-data">(.*?)</script>', text, re.S).group(1))  # type: ignore[union-attr]
        assert data["uas"] > 90 and 0 <= data["calibration_error"] < 0.3 and "<svg" in text
        assert f"error {100 * data['calibration_error']:.2f} percentage points" in text
        assert "probability of the head" in text and "likeliest label" not in text


def test_streams_kbest_and_probabilities(folder: Path, model: Path) -> None:
    text = "".join(sentence.text() for sentence in load_sample_treebank("test")[:3])
    done = run("parse", "--model", model, stdin=text)
    assert done.code == 0 and done.out.count("\n\n") == 3, done.err
    done = run("parse", "--model", model, "--kbest", "2", stdin=text)
    assert done.out.count("# rank = 1") == 3 and done.out.count("# rank = 2") == 3 and "# probability = " in done.out
    done = run("parse", "--model", model, "--probabilities", "--risk", stdin=text)
    chances = [float(value) for value in re.findall(r"HeadProb=([0-9.]+)", done.out)]
    assert len(chances) == sum(map(len, load_sample_treebank("test")[:3])) and 0 <= min(chances) <= max(chances) <= 1


def test_flags_have_the_defaults_of_the_estimators() -> None:
    from partwise.parsing import DependencyParser, SecondOrderParser
    from partwise.parsing.commands import parse_train

    for order, kind in (("1", DependencyParser), ("2", SecondOrderParser)):
        parser = argparse.ArgumentParser()
        parse_train.configure(parser)
        made = parse_train.make(parser.parse_args(["train.conllu", "--order", order]))
        assert type(made) is kind
        assert {k: v for k, v in made.get_params().items() if k != "verbose"} == {
            k: v for k, v in kind().get_params().items() if k != "verbose"
        }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parse", "x.conllu"], "missing: the model"),
        (["parse", "missing.conllu", "--model", "MODEL"], "missing.conllu: cannot be read"),
        (["parse", "--model", "MODEL", "--report", "r.html"], "--evaluate"),
        (["parse", "--model", "MODEL", "--kbest", "0"], "--kbest must be at least 1"),
        (["parse-train", "TRAIN"], "--model FILE"),
        (["parse-train", "TRAIN", "--save", "m.pw", "--patience", "2"], "--dev"),
        (["parse-train", "TRAIN", "--save", "m.pw", "--order", "2", "--projective"], "--projective is for --order 1"),
        (["parse-train", "missing.conllu", "--save", "m.pw"], "missing.conllu: cannot be read"),
    ],
)
def test_faults(arguments: list[str], message: str, folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    named = [str({"MODEL": model, "TRAIN": folder / "train.conllu"}.get(a, a)) for a in arguments]
    done = run(*named)
    assert done.code != 0 and message in done.err


def test_pictures() -> None:
    words, relations = ["They", "parse", "<trees>", "well"], ["nsubj", "root", "obj", "advmod"]
    gold = DependencySentence.of_words(words, [2, 0, 2, 2], relations)
    found = gold.with_tree([2, 0, 2, 3], relations)
    mass = np.full((5, 4), 0.01)
    mass[found.heads, np.arange(4)] = 0.7
    mass[2, 3] = 0.25
    root = ElementTree.fromstring(dependency_svg(found, marginals=mass, gold=gold))
    space = "{http://www.w3.org/2000/svg}"
    paths = root.findall(f".//{space}path")
    assert len(paths) == 4 + 1 + 1  # the tree, an arc that was probable, an arc that is missed
    assert sum(path.get("stroke-dasharray") is not None for path in paths) == 1
    assert "<trees>" in [text.text for text in root.iter(f"{space}text")]
    assert any("25.0%" in (title.text or "") for title in root.iter(f"{space}title"))
    with pytest.raises(InputError, match="marginals have shape"):
        dependency_svg(found, marginals=np.zeros((2, 2)))


def test_a_transition_parser(folder: Path) -> None:
    """Trained, told and used like the others, but for what needs probabilities."""
    path, report, out = folder / "steps.pw", folder / "steps.html", folder / "steps.conllu"
    data = [folder / "train.conllu", "--dev", folder / "test.conllu", "--model", path]
    small = ["--arc-bits", "14", "--row-bits", "12", "--max-passes", "4"]
    done = run("parse-train", *data, *small, "--transitions", "--report", report, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["uas"] > 85
    page = report.read_text("utf-8")
    assert "Trees with the most wrong heads" in page and "calibration error" not in page
    done = run("parse", folder / "test.conllu", "--model", path, "--evaluate", "-o", out)
    assert done.code == 0 and "UAS" in done.out, done.err
    for flag in (["--risk"], ["--kbest", "2"], ["--probabilities"]):
        done = run("parse", folder / "test.conllu", "--model", path, *flag)
        assert done.code == 1 and "a transition parser has no probabilities" in done.err
    for flags, said in (
        (["--transitions", "--loss", "crf"], "--loss is not for --transitions"),
        (["--transitions", "--order", "2"], "--order 2 is not for --transitions"),
        (["--beam", "2"], "--beam is for --transitions"),
        (["--transitions", "--beam", "0"], "'beam' parameter of LaSO must be at least 1"),
    ):
        done = run("parse-train", *data, *flags)
        assert done.code != 0 and said in done.err, done.err

"""``partwise align`` and ``partwise align-train``: what they print and write, and what they say of bad input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_runs import environment, fails, ok

from partwise.alignment import GenerativeAligner
from partwise.cli import main
from partwise.data import (
    load_sample_alignments,
    read_naacl_links,
    read_pharaoh,
    write_bitext,
    write_naacl_links,
    write_pharaoh,
)
from partwise.estimators import WordAligner, load_model
from partwise.metrics import alignment_bootstrap, alignment_scores

TRAIN, TEST = load_sample_alignments("train"), load_sample_alignments("test")
QUICK = ("--max-passes", "8", "-C", "0.1", "--infeasible", "nearest", "-q")


def prepare(place: Path) -> Path:
    """The embedded sample in every form, and a model of either kind."""
    for name, data in (("train", TRAIN), ("test", TEST)):
        write_bitext(place / f"{name}.txt", data.bitext)
        write_pharaoh(place / f"{name}.gold", data.gold)
        write_naacl_links(place / f"{name}.wa", data.gold, data.numbers)
        for side, language in enumerate(("e", "f")):
            words = [" ".join(pair[side]) for pair in data.bitext]
            lines = [f"<s snum={n:04d}> {text} </s>\n" for n, text in zip(data.numbers, words, strict=True)]
            (place / f"{name}.{language}").write_text("".join(lines), "utf-8")
            (place / f"{name}.{language}.txt").write_text("".join(f"{text}\n" for text in words), "utf-8")
    generative = GenerativeAligner().fit(TRAIN.bitext + TEST.bitext)
    generative.save(place / "hmm.pw")
    settings: dict[str, Any] = {"infeasible": "nearest", "C": 0.1, "max_passes": 12}
    WordAligner(generative, **settings).fit(TRAIN.bitext, TRAIN.gold).save(place / "aligner.pw")
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("align"))


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def read_out(capfdbinary: Any, *words: str) -> str:
    """What a command that must succeed writes, byte by byte."""
    capfdbinary.readouterr()
    code = main(words)
    out, err = capfdbinary.readouterr()
    assert code == 0, err
    return str(out.decode())


# align


def test_unsupervised_in_one_go(capfd: Any, here: Path) -> None:
    words = ["align", "test.txt", "--raw", "train.txt", "--gold", "test.gold", "--save", "own.pw"]
    assert main(words) == 0
    out, err = capfd.readouterr()
    (here / "links.txt").write_text(out)
    found = [sorted(links.sure) for links in read_pharaoh(here / "links.txt", TEST.bitext)]
    model = GenerativeAligner.load(here / "own.pw")
    assert found == model.predict(TEST.bitext) and model.n_pairs_ == 150 and model.verbose == 0
    scores, interval = alignment_scores(TEST.gold, found), alignment_bootstrap(TEST.gold, found)
    line = f"AER {100 * scores.aer:.2f} (95% {100 * interval.low:.2f} to {100 * interval.high:.2f})"
    assert f"{line}  precision {100 * scores.precision:.2f}" in err and scores.aer < 0.1
    assert "test.txt: 50 sentence pairs\ntrain.txt: 100 sentence pairs\n" in err and "alignment: pass" in err
    assert main(["align", "test.txt", "-m", "own.pw", "-q", "-o", "again.txt", "--gold", "test.gold"]) == 0
    assert (here / "again.txt").read_text() == out
    assert capfd.readouterr().out.startswith(line)  # the links are elsewhere, so this is what is printed


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (("--kind", "model1"), {"model": "model1"}),
        (
            ("--kind", "model2", "--iterations", "2", "--no-agreement"),
            {"model": "model2", "iterations": 2, "agree": False},
        ),
        (("--symmetrise", "union", "--threshold", "0.6"), {"symmetrise": "union", "threshold": 0.6}),
        (("--symmetrise", "grow-diag-final", "--viterbi"), {"symmetrise": "grow-diag-final", "viterbi": True}),
    ],
)
def test_settings_of_unsupervised_models(flags: Any, settings: Any, capfdbinary: Any, here: Path) -> None:
    out = read_out(capfdbinary, "align", "train.txt", "-q", *flags)
    expected = GenerativeAligner(**settings).fit(TRAIN.bitext).predict(TRAIN.bitext)
    assert out.splitlines() == [" ".join(f"{j}-{k}" for j, k in links) for links in expected]


def test_settings_of_saved_models(capfdbinary: Any, here: Path) -> None:
    out = read_out(capfdbinary, "align", "test.txt", "-m", "hmm.pw", "--threshold", "0.9")
    model = load_model("hmm.pw").set_params(threshold=0.9)
    assert out.splitlines() == [" ".join(f"{j}-{k}" for j, k in links) for links in model.predict(TEST.bitext)]


@pytest.mark.parametrize("model", ["hmm.pw", "aligner.pw"])
def test_every_form_of_input_gives_the_same_links(
    model: str, capfdbinary: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_out(capfdbinary, "align", "test.txt", "-m", model)
    assert len(expected.splitlines()) == 50 and "0-0 1-1" in expected
    assert read_out(capfdbinary, "align", "test.e", "test.f", "-m", model) == expected
    assert read_out(capfdbinary, "align", "test.e.txt", "test.f.txt", "-m", model) == expected
    for words in (("align", "-m", model), ("align", "-", "-m", model)):
        given(monkeypatch, (here / "test.txt").read_bytes())
        assert read_out(capfdbinary, *words) == expected


def test_a_pipe_is_answered_line_by_line(here: Path) -> None:
    command = [sys.executable, "-m", "partwise", "align", "-m", "aligner.pw"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment()}
    process: Any
    with subprocess.Popen(command, **pipes) as process:
        for line, answer in ((b"the cat ||| le chat\n", b"0-0 1-1\n"), (b"I see ||| je vois\n", b"0-0 1-1\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == answer
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_formats_and_scores(capfdbinary: Any, here: Path) -> None:
    links = load_model("aligner.pw").predict(TEST.bitext)
    naacl = read_out(capfdbinary, "align", "test.e", "test.f", "-m", "aligner.pw", "--format", "naacl", "--scores")
    found = read_naacl_links(io.StringIO(naacl))
    assert [sorted(found[n].sure) for n in TEST.numbers] == links
    assert len(naacl.splitlines()[0].split()) == 5
    posteriors = load_model("hmm.pw").posteriors(TEST.bitext).product
    objects = read_out(capfdbinary, "align", "test.e", "test.f", "-m", "hmm.pw", "--json", "--scores").splitlines()
    for line, pair, number, matrix in zip(objects, TEST.bitext, TEST.numbers, posteriors, strict=True):
        item = json.loads(line)
        assert (item["source"], item["target"], item["number"]) == (pair[0], pair[1], number)
        assert item["scores"] == [float(matrix[j, k]) for j, k in item["links"]]
    scored = read_out(capfdbinary, "align", "test.txt", "-m", "aligner.pw", "--scores").split()
    matrix = load_model("aligner.pw").predict_scores(TEST.bitext[:1])[0]
    assert scored[0] == f"0-0:{matrix[0, 0]:.4f}"


def test_scores_as_json_and_a_report(capsys: Any, here: Path) -> None:
    words = ["align", "test.e", "test.f", "-m", "aligner.pw", "--gold", "test.wa", "-o", "links.jsonl", "--json"]
    scores = json.loads(ok(capsys, *words, "--report", "page.html"))
    links = [json.loads(line)["links"] for line in (here / "links.jsonl").read_text().splitlines()]
    found = alignment_scores(TEST.gold, [list(map(tuple, pair)) for pair in links])
    assert scores["aer"] == found.aer and scores["f1"] == found.f1 and scores["pairs"] == 50
    assert "aligner.pw on test.wa" in (here / "page.html").read_text()
    # Pharaoh gold with NAACL pairs, and the other way round
    assert json.loads(ok(capsys, *[w if w != "test.wa" else "test.gold" for w in words])) == scores
    renumbered = [(k + 1, links) for k, links in enumerate(TEST.gold)]
    write_naacl_links("by_line.wa", [links for _, links in renumbered], [n for n, _ in renumbered])
    words = ["align", "test.txt", "-m", "aligner.pw", "--gold", "by_line.wa", "-o", "x", "--json"]
    assert json.loads(ok(capsys, *words)) == scores


# align-train


def test_supervised_training(capsys: Any, here: Path) -> None:
    words = ["align-train", "train.e", "train.f", "train.wa", "--raw", "test.txt", "--save", "m.pw", "--dev"]
    dev = ["test.txt", "test.gold"]
    assert main([*words, *dev, *QUICK[:-1], "--report", "page.html"]) == 0
    out, err = capsys.readouterr()
    model = load_model("m.pw")
    assert type(model) is WordAligner and model.generative_.n_pairs_ == 150 and model.verbose == 0
    counts = {"sentences": 100, "tokens": 1424, "raw_pairs": 150}
    assert model.info_["train"] == {"file": "train.e and train.f", **counts}
    assert "train.e and train.f: 100 sentence pairs\ntest.txt: 50 sentence pairs without links\n" in err
    assert "aligner M: pass 1/8" in err and "dev " in err
    score = 100 * (1 - model.score(TEST.bitext, TEST.gold))
    assert out.startswith("m.pw: ") and f"on test.txt: AER {score:.2f} (95%" in out and "report: page.html" in out
    assert "m.pw on test.txt" in (here / "page.html").read_text()
    shown = ok(capsys, "inspect", "m.pw")
    assert "word-aligner" in shown and "trained on   train.e and train.f: 100 sentences, 1424 tokens" in shown


def test_training_as_json_with_a_saved_generative_model(capsys: Any, here: Path) -> None:
    words = ["align-train", "train.txt", "train.gold", "--generative", "hmm.pw", "--save", "m.pw", *QUICK, "--json"]
    flags = ["--kind", "M+F", "--learner", "one_slack", "--false-negative", "2"]
    summary = json.loads(ok(capsys, *words, *flags))
    model = load_model("m.pw")
    assert (model.model, model.learner, model.false_negative, model.C) == ("M+F", "one_slack", 2.0, 0.1)
    assert summary["weights"] == len(model.theta_) and summary["passes"] == len(model.result_.trace)
    assert summary["scored_on"] == "training pairs" and summary["bytes"] == os.path.getsize("m.pw")
    assert summary["scores"]["aer"] == alignment_scores(TRAIN.gold, model.predict(TRAIN.bitext)).aer


def test_training_says_which_weight_of_losses_it_chose(capsys: Any, here: Path) -> None:
    words = ["align-train", "train.txt", "train.gold", "--generative", "hmm.pw", "--infeasible", "nearest", "-q"]
    out = ok(capsys, *words, "--save", "m.pw")
    model = load_model("m.pw")
    found = model.selection_.errors
    errors = ", ".join(f"{100 * error:.2f} with {kind}, C = {C:g}" for (kind, C), error in found.items())
    base = f"{100 * model.selection_.generative:.2f} by the generative aligner alone"
    assert f"{model.model_}, C = {model.C_:g} by cross-validation: AER {errors}; {base}\n" in out
    summary = json.loads(ok(capsys, *words, "--save", "n.pw", "--json"))
    assert summary["C"] == model.C_ and summary["cross_validation"] == [[*c, e] for c, e in found.items()]


def test_training_goes_on_from_a_checkpoint(capsys: Any, here: Path) -> None:
    words = ["align-train", "train.txt", "train.gold", "--generative", "hmm.pw", *QUICK, "--checkpoint", "run.ckpt"]
    ok(capsys, *words, "--save", "a.pw")
    ok(capsys, *words, "--save", "b.pw")
    assert (load_model("a.pw").theta_ == load_model("b.pw").theta_).all()
    assert "belongs to another run" in fails(capsys, *words, "--save", "c.pw", "--kind", "M+F")


def test_interrupted_training(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from partwise.learners import LEARNERS

    kind, calls = LEARNERS["n_slack"], []
    advance = kind.advance

    def stopping(self: Any, problem: Any, state: Any) -> Any:
        calls.append(1)
        if len(calls) > limit:
            raise KeyboardInterrupt
        return advance(self, problem, state)

    monkeypatch.setattr(kind, "advance", stopping)
    words = ["align-train", "train.txt", "train.gold", "--generative", "hmm.pw", *QUICK, "--save"]
    for limit, saved in ((0, False), (3, True)):
        calls.clear()
        assert main([*words, f"m{limit}.pw"]) == 130
        assert "interrupted" in capsys.readouterr().err and (here / f"m{limit}.pw").exists() == saved


# errors


def test_help_has_examples(capsys: Any) -> None:
    assert "partwise align pairs.txt > links.txt" in ok(capsys, "align", "--help")
    assert "--kind {auto,L,M,M+F,M+Q,M+F+Q}" in ok(capsys, "align-train", "--help")
    listed = ok(capsys, "--help")
    assert "align the words of sentence pairs" in listed and "train a word aligner on gold links" in listed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("align", "a", "b", "c"), "a: cannot be read: there is no such file"),
        (
            ("align", "test.txt", "test.txt", "test.txt", "-q"),
            "expected one file of sentence pairs or two parallel ones",
        ),
        (("align", "-", "-"), "standard input can be only one of the files"),
        (("align", "test.txt", "--report", "x.html"), "--report compares with gold links: --gold FILE"),
        (("align", "test.txt", "--gold", "-"), "--gold must be a file"),
        (("align", "test.txt", "--json", "--format", "naacl"), "--json and --format naacl contradict each other"),
        (("align", "test.txt", "-m", "hmm.pw", "--save", "x.pw"), "--save is for models that are trained here"),
        (("align", "test.txt", "-m", "hmm.pw", "--raw", "train.txt"), "--raw is for models that are trained here"),
        (
            ("align", "test.txt", "-m", "hmm.pw", "--iterations", "9"),
            "--iterations is for models that are trained here",
        ),
        (("align", "test.txt", "-m", "hmm.pw", "--no-agreement"), "--no-agreement is for models that are trained here"),
        (
            ("inspect", "hmm.pw", "--label", "B-NP"),
            "--label selects label weights, but a 'generative-aligner'",
        ),
        (("inspect", "aligner.pw", "--top", "3"), "--top selects label weights, but a 'word-aligner'"),
        (("align", "test.txt", "-m", "aligner.pw", "--threshold", "0.5"), "--threshold is not for trained aligners"),
        (("align-train", "train.txt", "train.gold"), "missing: where to write the model: --model FILE"),
        (
            ("align-train", "train.txt", "--save", "m.pw"),
            "expected one or two files of pairs and one of gold links, got 1",
        ),
        (
            ("align-train", "train.txt", "train.gold", "--save", "m.pw", "--generative", "hmm.pw", "--raw", "test.txt"),
            "--generative is a trained model; --raw would train another",
        ),
        (("align-train", "train.txt", "train.gold", "--save", "m.pw", "--patience", "3"), "--patience needs held-out"),
    ],
)
def test_usage_errors(words: tuple[str, ...], message: str, capsys: Any, here: Path) -> None:
    code = 1 if "no such file" in message else 2
    assert message in fails(capsys, *words, code=code)


GOOD = b"a b ||| c d\n" * 3


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        (b"a b ||| c d\na ||| \n", b"\n\n", "pairs.txt:2: the target sentence is empty"),
        (b"a b ||| c d\na b\n", b"\n\n", "pairs.txt:2: expected one '|||' on the line, got 0"),
        (b"a b ||| c d\n\xff ||| c\n", b"\n\n", "pairs.txt:2:1: not utf-8: byte 0xff"),
        (b"", b"\n", "pairs.txt: no sentence pairs: the file is empty"),
        (GOOD, b"0-0\n0-2\n\n", "gold.txt:2: link 0-2 is out of range: the target sentence has 2 words"),
        (GOOD, b"0-0\n0:1\n\n", "gold.txt:2: expected links such as 0-1 or 0?1, got '0:1'"),
        (GOOD, b"0-0\n", "gold.txt:2: expected 3 lines, one per pair, got 1"),
        (GOOD, b"0-0\n\n\n\n0-0\n", "gold.txt:4: more lines of links than pairs: there are 3 pairs"),
        (GOOD, b"1 1 1 S\n2 3 1 S\n", "gold.txt:2: link 3 1 is out of range: the source sentence 2 has 2 words"),
        (GOOD, b"1 1 1 S\n9 1 1 S\n", "gold.txt:2: there is no sentence 9"),
        (GOOD, b"\xe9-1\n", "gold.txt:1:1: not utf-8: byte 0xe9"),
    ],
)
@pytest.mark.parametrize("command", ["align", "align-train"])
def test_bad_files(command: str, pairs: bytes, gold: bytes, message: str, capsys: Any, here: Path) -> None:
    (here / "pairs.txt").write_bytes(pairs)
    (here / "gold.txt").write_bytes(gold)
    if command == "align":
        words = ("align", "pairs.txt", "-m", "hmm.pw", "--gold", "gold.txt")
    else:
        words = ("align-train", "pairs.txt", "gold.txt", "--save", "m.pw", "-q")
    assert message in fails(capsys, *words)
    assert not (here / "m.pw").exists()


def test_sentences_of_different_counts(capsys: Any, here: Path) -> None:
    (here / "short.txt").write_text("un\n")
    (here / "short.f").write_text("<s snum=0003> un </s>\n")
    message = fails(capsys, "align", "test.e.txt", "short.txt", "-m", "hmm.pw")
    assert message == "short.txt:2: no sentence for line 2 of test.e.txt; the files have 50 and 1 lines"
    message = fails(capsys, "align", "test.e", "short.f", "-m", "hmm.pw")
    assert message == "short.f: no sentence 6; the files have 50 and 1 sentences"


def test_gold_that_the_model_cannot_produce(capsys: Any, here: Path) -> None:
    words = ["align-train", "train.txt", "train.gold", "--save", "m.pw", "-q"]
    message = "train.gold: sentence pair 45: source word 1 has 3 links (1-1, 1-2, 1-3)"
    found = fails(capsys, *words, "--kind", "M")
    assert found.startswith(message) and found.endswith("Use --kind M+F, or --infeasible nearest")
    found = fails(capsys, *words, "--kind", "M+F")
    assert found.startswith(message) and found.endswith("Use --max-fertility above 2, or --infeasible nearest")
    assert "sentence pair 67: " in fails(
        capsys, "align-train", "train.e", "train.f", "train.wa", *words[3:], "--kind", "M"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--kind", "M+F", "--max-fertility", "0"), "an integer of at least 2 where the model is 'M+F'"),
        (("--learner", "extragradiant"), "did you mean 'extragradient'"),
        (("--learner", "perceptron", "--kind", "M+F"), "Perceptron cannot keep weights ≥ 0. Learners that can: "),
        (("--loss", "crf"), "minimises convex losses"),
        (("--set", "speed=3"), "Got 'speed' instead"),
        (("--also", "model3"), "Got 'model3' instead"),
        (("--time-limit", "0"), "a positive number of seconds"),
        (("--report", "no/such/page.html"), "no/such/page.html: cannot be written: no folder"),
        (("--generative", "gone.pw"), "gone.pw: cannot be read: there is no such file"),
        (("--generative", "aligner.pw"), "aligner.pw: holds a 'word-aligner', not a generative aligner"),
        (("--dev", "gone.txt", "test.gold"), "gone.txt: cannot be read: there is no such file"),
    ],
)
def test_bad_settings(flags: tuple[str, ...], message: str, capsys: Any, here: Path) -> None:
    words = ("align-train", "train.txt", "train.gold", "--save", "m.pw", "-q")
    assert message in fails(capsys, *words, *flags)


def test_bad_models(capsys: Any, here: Path) -> None:
    (here / "text.pw").write_text("no model")
    assert "not a partwise file" in fails(capsys, "align", "test.txt", "-m", "text.pw")
    message = fails(capsys, "align", "test.txt", "-m", "hmmm")
    assert message == "hmmm: cannot be read: there is no such file"
    message = fails(capsys, "align", "test.txt", "-m", "model1", code=2)
    assert message == "--model names a model file; a model that is trained here is --kind model1"
    assert "'threshold' parameter" in fails(capsys, "align", "test.txt", "-m", "hmm.pw", "--threshold", "2")
    assert "holds a 'word-aligner', not a sequence labeller" in fails(capsys, "predict", "aligner.pw", "test.txt")

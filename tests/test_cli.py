"""The command line: what each command prints, its exit codes and its pipes."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import signal
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import ROOT, TEMPLATES, environment, fails, ok, prepare, work_in

import partwise
from partwise.cli import build_parser, main
from partwise.cli.commands import bench
from partwise.cli.registry import Command, all_commands
from partwise.data import read_columns, streams, write_columns
from partwise.estimators import SequenceLabeler, load_model
from partwise.metrics import chunk_scores
from partwise.progress import Progress
from partwise.sequences.commands._files import FileLayout

COMMANDS = [command.name for command in all_commands()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("cli"))


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return work_in(folder, tmp_path, monkeypatch)


# the frame


def test_help_needs_nothing_heavy() -> None:
    program = (
        "import os, sys; from partwise.cli import main; main(['--help']); main(['train', '--help']);"
        "heavy = {'numpy', 'scipy', 'numba', 'sklearn', 'rich', 'matplotlib', 'torch'} & set(sys.modules);"
        "sys.exit(f'{heavy} {os.times()}' if heavy or sum(os.times()[:2]) > 0.5 else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reproduce" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples(name: str, capsys: Any) -> None:
    assert f"examples:\n  partwise {name}" in ok(capsys, name, "--help")


def shell_lines(text: str) -> list[list[str]]:
    """The words of each ``partwise ...`` of a shell text, without pipes and redirections."""
    found = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while "partwise" in words:
            words = words[words.index("partwise") + 1 :]
            stop = next((i for i, word in enumerate(words) if word in ("|", ">", "<", "2>")), len(words))
            found.append(words[:stop])
    return found


def test_examples_parse() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    blocks = [block.partition("\n") for block in page.split("```")[1::2]]
    text = "".join(body for language, _, body in blocks if language in ("", "sh"))
    lines = shell_lines("\n".join(command.examples for command in all_commands()) + "\n" + text)
    assert len(lines) > 30
    for words in lines:
        assert build_parser(words).parse_args(words).command.name == words[0]


def test_debug_shows_the_traceback(capsys: Any, here: Path) -> None:
    assert main(["inspect", "missing.pw", "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and err.endswith("missing.pw: cannot be read: No such file or directory\n")


def test_other_packages_add_commands(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    greet = Command("greet", "say hello", lambda parser: parser.add_argument("name"), lambda args: print(args.name))
    point = types.SimpleNamespace(name="greet", value="elsewhere:greet", load=lambda: greet)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "partwise.commands" else [])
    assert ok(capsys, "greet", "Ada") == "Ada\n"
    assert "say hello" in ok(capsys, "--help")


# train


def test_train_keeps_what_it_read(folder: Path) -> None:
    model = load_model(folder / "chunker.pw")
    assert model.columns == ("word", "pos") and model.verbose == 0
    assert model.info_["columns"] == ["word", "pos", "chunk"] and model.info_["label"] == "chunk"
    assert model.info_["train"]["sentences"] == 60
    assert model.result_.trace[model.result_.best_step - 1].score > 0.7


def test_train_shows_progress_and_result(capsys: Any, here: Path) -> None:
    assert main(["train", "train.txt", "-m", "m.pw", "--max-passes", "2", "-t", "word[0]", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["model"] == "m.pw" and result["passes"] == 2 and result["status"] == "max_passes"
    assert result["bytes"] == (here / "m.pw").stat().st_size and result["dev_score"] is None
    assert "train.txt: 60 sentences" in err and "training: pass 1/2" in err


def test_train_by_configuration(capsys: Any, here: Path) -> None:
    (here / "run.toml").write_text(
        'train = "train.txt"\nmodel = "a.pw"\ncolumns = ["word", "pos", "tag"]\nlabel = "tag"\nmax-passes = 3\n'
        'templates = ["word[0]", "pos[0]"]\nloss = [1, 0.5]\nscheme = "BIOES"\n[learner_options]\nmemory = 4\n'
    )
    assert "a.pw" in ok(capsys, "train", "--config", "run.toml", "-q")
    model = load_model("a.pw")
    assert model.loss == (1.0, 0.5) and model.max_passes == 3 and model.learner_options == {"memory": 4}
    assert model.scheme == "IOBES" and any(label.startswith("S-") for label in model.classes_)
    assert "b.pw" in ok(
        capsys, "train", "--config", "run.toml", "-q", "-m", "b.pw", "--max-passes", "1", "-t", "pos[0]"
    )
    model = load_model("b.pw")
    assert model.max_passes == 1 and model.encoder_.templates.text == "pos[0]"


def test_train_from_a_pipe_with_defaults(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / "train.txt").read_bytes())))
    ok(capsys, "train", "-", "-m", "m.pw", "-q", "--max-passes", "1")
    assert load_model("m.pw").encoder_.templates == load_model("m.pw").encoder_.templates.preset("chunking")


def test_the_last_column_is_named_by_what_it_holds(capsys: Any, here: Path) -> None:
    """Words and entity tags, the most common file of all, get the templates of entities; tabs keep words whole."""
    (here / "two.tsv").write_text("New York\tB-LOC\nsleeps\tO\n\nBonn\tB-LOC\nwakes\tO\n")
    fit = ("train", "two.tsv", "-m", "two.pw", "--max-passes", "3")
    assert main([*fit, "--separator", "tab"]) == 0
    assert "2 sentences, 4 tokens, 2 labels in column 'ner'" in capsys.readouterr().err
    shown = ok(capsys, "inspect", "two.pw")
    assert "columns      word, ner; label ner" in shown and "short_shape(word)[-1..1 triples]" in shown
    for text, flags in (("wakes\nNew York\n", ()), ("New York\nwakes\n", ("--columns", "word"))):  # words alone
        (here / "new.tsv").write_text(text)
        assert "New York\t" in ok(capsys, "predict", "two.pw", "new.tsv", *flags)
    assert "; if there is only one column, name it" in fails(capsys, "predict", "two.pw", "new.tsv")
    (here / "tags.txt").write_text("the DT\ndog NN\n")
    ok(capsys, "train", "tags.txt", "-m", "tags.pw", "--max-passes", "3", "-q")
    assert "label pos" in ok(capsys, "inspect", "tags.pw")


def test_report_is_written_and_named(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    fake = types.ModuleType("partwise.sequences.report")
    fake.sequence_report = lambda *args, **named: calls.append((args, named))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "partwise.sequences.report", fake)
    words = ["train", "train.txt", "--dev", "test.txt", "-m", "m.pw", "--max-passes", "1", "-t", "pos[0]", "-q"]
    assert "report: r.html" in ok(capsys, *words, "--report", "r.html")
    (path, model, X, y), named = calls[0]
    assert path == "r.html" and isinstance(model, SequenceLabeler) and len(X) == len(y) == 15
    assert X.names == ("word", "pos") and named["title"] == "m.pw on test.txt"


def test_interrupted_training_keeps_the_best_model(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Progress, record: Any, theta: Any) -> None:
        if record.step == limit:
            raise KeyboardInterrupt

    limit = 3
    monkeypatch.setattr(Progress, "__call__", interrupt)
    words = ["train", "train.txt", "-m", "m.pw", "--max-passes", "9", "-t", "word[0]"]
    assert main(words) == 130
    assert "interrupted; the best model so far (pass 3) is in m.pw" in capsys.readouterr().err
    assert load_model("m.pw").result_.status == "interrupted"
    monkeypatch.setattr(SequenceLabeler, "fit", lambda *args, **named: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(words) == 130
    assert "partwise train: interrupted\n" in capsys.readouterr().err


def test_a_real_ctrl_c(here: Path) -> None:
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from partwise.cli import main; sys.exit(main())"
    words = ["train", "train.txt", "-m", "m.pw", "--learner", "perceptron", "--max-passes", "1000000", "-t", "word[0]"]
    run = subprocess.Popen(
        [sys.executable, "-c", program, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith(b"training: pass"):
            break
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert b"Traceback" not in err and b"the best model so far" in err
    model = load_model("m.pw")
    assert model.result_.best_step > 0 and len(model.predict([[("The", "DT")]])[0]) == 1


# predict


def predicted(folder: Path) -> list[list[str]]:
    data = read_columns(folder / "test.txt", columns=("word", "pos", "chunk"))
    found: list[list[str]] = load_model(folder / "chunker.pw").predict(data)
    return found


def test_predict_adds_a_column(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ok(capsys, "predict", "chunker.pw", "test.txt")
    assert out.startswith("-DOCSTART- -X- -X- O\n\n") and out.count("-DOCSTART-") == 3
    found = read_columns(io.StringIO(out))
    assert found.column(-1) == predicted(here)
    assert [found.column(c) for c in range(3)] == [read_columns("test.txt").column(c) for c in range(3)]
    monkeypatch.setattr(streams, "BLOCK_BYTES", 200)
    assert ok(capsys, "predict", "chunker.pw", "test.txt") == out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / "test.txt").read_bytes())))
    assert ok(capsys, "predict", "chunker.pw") == out
    assert ok(capsys, "predict", "chunker.pw", "test.txt", "--output", "tagged.txt") == ""
    assert (here / "tagged.txt").read_text() == out


def test_predict_without_the_label_column(capsys: Any, here: Path) -> None:
    rows = [[row[:2] for row in sentence] for sentence in read_columns("test.txt").sentences()]
    write_columns("words.txt", rows)
    assert read_columns(io.StringIO(ok(capsys, "predict", "chunker.pw", "words.txt"))).column(-1) == predicted(here)


def test_predict_reads_whole_documents_where_templates_do(
    capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(
        capsys,
        "train",
        "train.txt",
        "-m",
        "doc.pw",
        "-q",
        "--max-passes",
        "2",
        "-t",
        "doc_lower(word)[0]",
        "-t",
        "pos[0]",
    )
    model = load_model("doc.pw")
    assert model.context == "document"
    monkeypatch.setattr(streams, "BLOCK_BYTES", 200)
    layout = FileLayout(("word", "pos", "chunk"), "chunk")
    assert [len(block) for block in layout.blocks("test.txt", "document")] == [5, 5, 5]
    assert len(list(layout.blocks("test.txt", "sentence"))) > 3
    found = read_columns(io.StringIO(ok(capsys, "predict", "doc.pw", "test.txt"))).column(-1)
    assert found == model.predict(read_columns("test.txt", columns=("word", "pos", "chunk")))


def test_two_stages(capsys: Any, here: Path) -> None:
    flags = ("--second", "word[0]", "--second", "predicted[-1..1]", "--folds", "2", "--scheme", "IOB2")
    out = ok(capsys, "train", "train.txt", "-m", "two.pw", "--max-passes", "4", "-q", "--json", *TEMPLATES, *flags)
    model = load_model("two.pw")
    assert json.loads(out)["weights"] == len(model.first_.theta_) + len(model.second_.theta_)
    wanted = model.predict(read_columns("test.txt", columns=("word", "pos", "chunk")))
    assert read_columns(io.StringIO(ok(capsys, "predict", "two.pw", "test.txt"))).column(-1) == wanted
    assert json.loads(ok(capsys, "evaluate", "two.pw", "test.txt", "--json"))["f1"] > 0.3
    assert "predicted[0]=" in ok(capsys, "explain", "two.pw", "test.txt", "--top", "99")
    shown = ok(capsys, "inspect", "two.pw")
    assert "stacked-labeler" in shown and "first stage  word[0]\n" in shown and "predicted[0]=B-NP" in shown


def test_predict_probabilities(capsys: Any, here: Path) -> None:
    model = load_model("chunker.pw")
    data = read_columns("test.txt", columns=("word", "pos", "chunk"))
    marginals = model.predict_marginals(data)
    found = read_columns(io.StringIO(ok(capsys, "predict", "chunker.pw", "test.txt", "--marginals")))
    for labels, shown, exact in zip(found.column(-2), found.column(-1), marginals, strict=True):
        wanted = [p[model.classes_.index(label)] for p, label in zip(exact, labels, strict=True)]
        np.testing.assert_allclose(np.array(shown, float), wanted, atol=1e-4)
    flags = ("--marginals", "--kbest", "2", "--spans", "--json")
    lines = ok(capsys, "predict", "chunker.pw", "test.txt", *flags).splitlines()
    assert len(lines) == len(data)
    entry = json.loads(lines[0])
    assert entry["labels"] == predicted(here)[0] == entry["kbest"][0]["labels"] and entry["line"] == 3
    assert sum(entry["marginals"][0].values()) == pytest.approx(1)
    assert entry["kbest"][0]["probability"] >= entry["kbest"][1]["probability"]
    assert entry["spans"][0]["text"].split() == [row[0] for row in entry["tokens"][: entry["spans"][0]["stop"]]]


def test_predict_spans_and_kbest_as_text(capsys: Any, here: Path) -> None:
    line, first, last, kind, probability, words = (
        ok(capsys, "predict", "chunker.pw", "test.txt", "--spans").splitlines()[0].split("\t")
    )
    assert int(line) == 3 + int(first) and kind in ("NP", "VP", "PP") and 0 < float(probability) <= 1
    assert len(words.split()) == int(last) - int(first) + 1
    out = ok(capsys, "predict", "chunker.pw", "test.txt", "--kbest", "2")
    assert out.startswith("-DOCSTART- -X- -X- O\n\n# 1 0.") and out.count("\n# 2 ") == 15
    best = read_columns(io.StringIO(out), comment="#").column(-1)[::2]
    assert best == predicted(here)


def test_tags_come_back_in_the_scheme_of_the_file(capsys: Any, here: Path) -> None:
    ok(capsys, "train", "train.txt", "-m", "s.pw", "--scheme", "IOBES", "--max-passes", "8", "-q", *TEMPLATES)
    plain = read_columns(io.StringIO(ok(capsys, "predict", "s.pw", "test.txt")))
    assert not any(tag.startswith(("S-", "E-")) for tag in plain.vocab[-1])
    other = read_columns(io.StringIO(ok(capsys, "predict", "s.pw", "test.txt", "--scheme", "IOBES")))
    assert any(tag.startswith("S-") for tag in other.vocab[-1])
    scores = json.loads(ok(capsys, "evaluate", "s.pw", "test.txt", "--json"))
    assert scores["f1"] == chunk_scores(plain.column(-2), plain.column(-1)).f1
    assert scores["accuracy"] == chunk_scores(plain.column(-2), plain.column(-1)).accuracy


def test_an_empty_pipe_is_no_error(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert ok(capsys, "predict", "chunker.pw") == ""


def test_pipes(here: Path) -> None:
    """Answers come while the pipe is open; a reader that goes away is no error."""
    run = subprocess.Popen(
        [sys.executable, "-m", "partwise", "predict", "chunker.pw"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert run.stdin is not None and run.stdout is not None and run.stderr is not None
    run.stdin.write(b"The DT\ndog NN\n\n")
    run.stdin.flush()
    assert [run.stdout.readline().split()[0] for _ in range(3 - 1)] == [b"The", b"dog"]
    assert run.stdout.readline() == b"\n"
    run.stdout.close()
    with contextlib.suppress(BrokenPipeError):  # it may have noticed before it has read everything
        run.stdin.write(b"A DT\ncat NN\n\n" * 20000)
        run.stdin.close()
    assert run.wait(timeout=60) == 0
    assert run.stderr.read() == b""


# evaluate


def test_evaluate(capsys: Any, here: Path) -> None:
    gold = read_columns("test.txt").column(-1)
    wanted = chunk_scores(gold, predicted(here))
    out = ok(capsys, "evaluate", "chunker.pw", "test.txt")
    assert out == wanted.report() + "\n"
    scores = json.loads(ok(capsys, "evaluate", "chunker.pw", "test.txt", "--json", "--bootstrap", "50"))
    assert scores["f1"] == wanted.f1 and scores["types"]["NP"]["gold"] == wanted.types["NP"].gold
    low, high = scores["bootstrap"]["f1"]
    assert low <= wanted.f1 <= high
    ok(capsys, "predict", "chunker.pw", "test.txt", "-o", "tagged.txt")
    assert ok(capsys, "evaluate", "tagged.txt") == out
    assert ok(capsys, "evaluate", "--gold", "test.txt", "--predicted", "tagged.txt") == out
    assert ok(capsys, "evaluate", "tagged.txt", "--gold-column", "2", "--predicted-column", "3") == out


def test_evaluate_labels_that_are_no_chunks(capsys: Any, here: Path) -> None:
    (here / "pos.txt").write_text("a DT DT\nb NN VB\n\nc NN NN\n")
    out = ok(capsys, "evaluate", "pos.txt")
    assert out.startswith("3 tokens, accuracy 66.67%\n") and "NN        100.00   50.00   66.67" in out


# inspect, explain


def test_inspect(capsys: Any, here: Path) -> None:
    out = ok(capsys, "inspect", "chunker.pw", "--top", "2")
    assert "columns      word, pos, chunk; label chunk" in out and "transitions" in out
    assert "B-NP → I-NP" in out and "learner lbfgs" in out and "pos[0]=" in out
    found = json.loads(ok(capsys, "inspect", "chunker.pw", "--json", "--label", "B-NP", "--top", "3"))
    model = load_model("chunker.pw")
    assert found["kind"] == "sequence-labeler" and found["weights"] == len(model.theta_)
    assert found["top_weights"]["B-NP"]["for"][0][0] == model.top_weights("B-NP", 1)[0].attribute
    assert len(found["training"]["trace"]) == 15 and found["labels"] == model.classes_
    assert "top_weights" not in json.loads(ok(capsys, "inspect", "chunker.pw", "--json", "--header"))
    assert "no label 'X'" in fails(capsys, "inspect", "chunker.pw", "--label", "X")


def test_explain(capsys: Any, here: Path) -> None:
    model = load_model("chunker.pw")
    data = read_columns("test.txt", columns=("word", "pos", "chunk"))
    wanted = model.explain(data.subset([1]), 2)
    out = ok(capsys, "explain", "chunker.pw", "test.txt", "--sentence", "1", "--token", "2")
    assert f"{wanted.label} (p = {wanted.probability:.3f}) rather than {wanted.rival}" in out
    line = str(data.lines[1] + 2)
    found = json.loads(ok(capsys, "explain", "chunker.pw", "test.txt", "--line", line, "--json"))[0]
    assert found["label"] == wanted.label and found["margin"] == pytest.approx(wanted.margin)
    assert found["place"] == f"test.txt:{line}" and found["word"] == data.sentence(1, "word")[2]
    every = json.loads(ok(capsys, "explain", "chunker.pw", "test.txt", "--against", "O", "--json"))
    assert [each["word"] for each in every] == data.sentence(0, "word")
    assert "no token on this line" in fails(capsys, "explain", "chunker.pw", "test.txt", "--line", "1")
    assert "no sentence 99" in fails(capsys, "explain", "chunker.pw", "test.txt", "--sentence", "99")
    assert "there is no token 99" in fails(capsys, "explain", "chunker.pw", "test.txt", "--token", "99")


# reproduce, bench


def test_reproduce(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def run_experiment(name: str, **named: Any) -> dict[str, Any]:
        calls.append((name, named))
        return {"table": "| F1 |\n", "files": {"table": "o/table.md"}}

    fake = types.ModuleType("partwise.experiment")
    fake.find_experiments = lambda: {"figure-1": "a figure"}  # type: ignore[attr-defined]
    fake.run_experiment = run_experiment  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "partwise.experiment", fake)
    assert ok(capsys, "reproduce", "--list") == "figure-1  a figure\n"
    assert json.loads(ok(capsys, "reproduce", "--list", "--json")) == {"figure-1": "a figure"}
    assert ok(capsys, "reproduce", "figure-1", "--quick", "--out", "o") == "| F1 |\n\ntable: o/table.md\n"
    assert calls == [("figure-1", {"quick": True, "data": None, "out": "o", "sentences": None})]


def test_the_experiments_are_found(capsys: Any) -> None:
    assert {"conll2000-crf", "martins2010-ner"} <= set(json.loads(ok(capsys, "reproduce", "--list", "--json")))
    assert "did you mean 'conll2000-crf'" in fails(capsys, "reproduce", "conll2000", "--quick")


def test_bench(capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "race.py").write_text('"""A race."""\nimport sys\nsys.exit(int(sys.argv[1]))\n')
    (here / "_shared.py").write_text("")
    monkeypatch.setattr(bench, "folder", lambda: here)
    assert ok(capsys, "bench") == "race  A race\n"
    assert ok(capsys, "bench", "race", "--", "0") == ""
    assert fails(capsys, "bench", "race", "--", "3") == "race.py ended with exit code 3"
    assert "one of 'race'" in fails(capsys, "bench", "rice")
    monkeypatch.undo()
    monkeypatch.setattr(partwise, "__file__", str(here / "site-packages" / "partwise" / "__init__.py"))
    assert "folder benchmarks/ of the source repository" in fails(capsys, "bench", "--list")

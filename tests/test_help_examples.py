"""Every example at the end of a command's --help runs, on small files of the names that it uses."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.cli import build_parser, main
from partwise.cli.registry import all_commands

#: Examples that only parse here, and why.
NOT_RUN = {
    "s3://": "needs a bucket",
    "--scheduler": "needs a cluster",
    "--workers": "starts processes; tests of packs and clusters do",
    "partwise bench crfsuite_race": "a benchmark",
    "partwise reproduce conll2000-crf": "an experiment on data that is not in the repository",
    "partwise reproduce martins2010-ner": "an experiment on data that is not in the repository",
    "partwise reproduce daume2005-beams": "an experiment on data that is not in the repository",
    "partwise demo": "a whole tour; test_demo.py takes it",
}
EXAMPLES = [
    pytest.param(command.name, line.strip(), id=line.strip())
    for command in all_commands()
    for line in command.examples.strip().splitlines()
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder per family of commands, filled when it is first asked for."""
    return tmp_path_factory.mktemp("shelf")


@pytest.mark.parametrize(("command", "line"), EXAMPLES)
def test_example(command: str, line: str, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in stages(line):
        if part[0] == "partwise":
            words = part[1 : part.index(">")] if ">" in part else part[1:]
            build_parser(words).parse_args(words)
    if any(mark in line for mark in NOT_RUN):
        return
    task = re.search(r"--task (\w+)", line)
    folder = shelf / FAMILY.get(command, command)
    if task is not None and task.group(1) in TASKS:
        folder = shelf / TASKS[task.group(1)]
    if not folder.exists():
        folder.mkdir()
        FILES.get(folder.name, nothing)(folder)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    if (tmp_path / "ner.txt").exists() and "ner" in line:
        shutil.copy(tmp_path / "ner.txt", tmp_path / "test.txt")
    monkeypatch.chdir(tmp_path)
    text = b""
    for part in stages(line):
        text = run(part, text, monkeypatch)
    if ">" in line:
        target = tmp_path / line.rpartition(">")[2].strip()
        assert target.exists() and target.read_bytes()
    for flag in ("--model", "-m", "--save", "--report", "--output", "-o", "--checkpoint"):
        for name in re.findall(rf"(?:^|\s){flag} (\S+\.\w+)", line):
            assert (tmp_path / name).exists(), name


def stages(line: str) -> list[list[str]]:
    """The commands of a pipe as lists of words."""
    return [shlex.split(part) for part in line.split(" | ")]


def run(words: list[str], stdin: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What a command of an example prints, given what the one before it printed."""
    if words[0] == "cat":
        return Path(words[1]).read_bytes()
    if words[0] == "echo":
        return " ".join(words[1:]).encode() + b"\n"
    if words[0] == "head":
        return b"\n".join(stdin.splitlines()[: int(words[-1])])
    assert words[0] == "partwise", words
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    assert code == 0, err.getvalue()
    out.flush()
    printed: bytes = out.buffer.getvalue()  # type: ignore[attr-defined]
    if target is not None:
        Path(target).write_bytes(printed)
    return printed


# --------------------------------------------------------------------------------------------------
# Files


def nothing(folder: Path) -> None:
    pass


def columns(path: Path, which: slice, width: int) -> None:
    from partwise.data import load_sample, write_columns

    rows = [[row[:width] for row in sentence] for sentence in load_sample("news")[which].sentences()]
    with open(path, "w", encoding="utf-8") as file:
        write_columns(file, rows)


def training(folder: Path) -> None:
    columns(folder / "train.txt", slice(0, 25), 4)
    columns(folder / "dev.txt", slice(25, 35), 4)
    settings = 'train = "train.txt"\nmodel = "chunker.pw"\ntemplates = ["word[0]", "pos[-1..1]"]\nmax_passes = 3\n'
    (folder / "chunker.toml").write_text(settings)


def packs(folder: Path) -> None:
    columns(folder / "train.txt", slice(0, 25), 3)
    quiet(["pack", str(folder / "train.txt"), "--out", str(folder / "train.pack"), "--quiet"])


def labelling(folder: Path) -> None:
    for name, width, part in (("train", 3, slice(0, 25)), ("test", 3, slice(25, 35)), ("gold", 3, slice(25, 35))):
        columns(folder / f"{name}.txt", part, width)
    columns(folder / "ner-train.txt", slice(0, 40), 4)
    columns(folder / "ner.txt", slice(25, 35), 4)
    how = ["-t", "word[0]", "-t", "pos[-1..1]", "--max-passes", "5", "--quiet"]
    quiet(["train", str(folder / "train.txt"), "--model", str(folder / "chunker.pw"), *how])
    quiet(["train", str(folder / "ner-train.txt"), "--model", str(folder / "ner.pw"), "--scheme", "IOB2", *how])
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        main(["predict", str(folder / "chunker.pw"), str(folder / "test.txt"), "--output", str(folder / "tagged.txt")])


def segments(folder: Path) -> None:
    for name, part in (("train", slice(0, 25)), ("dev", slice(25, 35)), ("test", slice(25, 35))):
        columns(folder / f"{name}.txt", part, 3)
    model = str(folder / "chunker.pw")
    quiet(["chunk-train", str(folder / "train.txt"), "--model", model, "--max-passes", "2", "--quiet"])


def alignments(folder: Path) -> None:
    from partwise.data import load_sample_alignments, write_bitext, write_naacl_links, write_pharaoh

    data = load_sample_alignments("train")
    plain = [i for i, gold in enumerate(data.gold) if one_to_one(gold.sure)][:16]
    bitext, gold = [data.bitext[i] for i in plain], [data.gold[i] for i in plain]
    for name, links in (("pairs", "gold"), ("dev", "dev-gold")):
        write_bitext(folder / f"{name}.txt", bitext)
        write_pharaoh(folder / f"{links}.txt", gold)
    numbers = list(range(1, len(plain) + 1))
    for name in ("trial", "test"):
        write_naacl_links(folder / f"{name}.wa", gold, numbers)
        for side, language in enumerate("ef"):
            lines = [f"<s snum={n:04d}> {' '.join(pair[side])} </s>\n" for n, pair in zip(numbers, bitext, strict=True)]
            (folder / f"{name}.{language}").write_text("".join(lines), "utf-8")
    for side, names in enumerate((("source.txt", "corpus.en"), ("target.txt", "corpus.fr"))):
        for name in names:
            (folder / name).write_text("".join(" ".join(pair[side]) + "\n" for pair in bitext), "utf-8")
    pairs = str(folder / "pairs.txt")
    quiet(["align", pairs, "--save", str(folder / "hmm.pw"), "--output", str(folder / "links.txt"), "-q"])
    how = ["--generative", str(folder / "hmm.pw"), "-C", "0.1", "--max-passes", "5", "-q"]
    quiet(["align-train", pairs, str(folder / "gold.txt"), "--model", str(folder / "aligner.pw"), *how])


def one_to_one(links: Any) -> bool:
    return all(len({link[side] for link in links}) == len(links) for side in (0, 1))


def graphs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("train", "dev", "test", "input", "scenes"):
        lines = []
        for _ in range(6):
            labels = ["a"] * 2 + ["b"] * 3
            nodes = [[float(1.0 if y == "a" else -1.0) + rng.normal(0, 0.5)] for y in labels]
            lines.append(json.dumps({"nodes": nodes, "edges": [[j, j + 1] for j in range(4)], "labels": labels}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    quiet(["graph-train", str(folder / "train.jsonl"), "--model", str(folder / "scenes.pw"), "--quiet"])


def networks(folder: Path) -> None:
    text = "MARKOV\n2\n2 2\n3\n1 0\n1 1\n2 0 1\n\n2\n 0.4 0.6\n\n2\n 0.7 0.3\n\n4\n 1.0 0.5 0.5 1.0\n"
    for name in ("model", "grid", "hard"):
        (folder / f"{name}.uai").write_text(text)
    (folder / "model.uai.evid").write_text("1 0 1\n")


def dependencies(folder: Path) -> None:
    from partwise.parsing import load_sample_treebank, write_conllu

    for name, part in (("train", "train"), ("dev", "test"), ("test", "test"), ("input", "test")):
        write_conllu(load_sample_treebank(part)[: 80 if part == "train" else 12], folder / f"{name}.conllu")
    how = ["--arc-bits", "16", "--row-bits", "10", "--max-passes", "2", "--quiet"]
    quiet(["parse-train", str(folder / "train.conllu"), "--model", str(folder / "parser.pw"), *how])


def phrases(folder: Path) -> None:
    from partwise.parsing import load_sample_phrases, write_trees

    for name, part in (("train", "train"), ("dev", "test"), ("test", "test")):
        write_trees(load_sample_phrases(part)[:30], folder / f"{name}.mrg")
    (folder / "sentences.txt").write_text("the dog slept .\n")
    how = ["--bits", "12", "--max-passes", "2", "--quiet"]
    quiet(["phrase-train", str(folder / "train.mrg"), "--model", str(folder / "phrases.pw"), *how])


def topics(folder: Path) -> None:
    from partwise.topics.sample import load_sample_documents

    texts, labels = load_sample_documents("train")
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        (folder / "letters" / label).mkdir(parents=True, exist_ok=True)
        (folder / "letters" / label / f"{number:03}.txt").write_text(text)
    (folder / "new.txt").write_text("\n".join(texts[:3]) + "\n")
    how = ["--iterations", "10", "--quiet"]
    quiet(["topics", "train", str(folder / "letters"), "--model", str(folder / "letters.pw"), *how])


def quiet(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(words) == 0


#: Commands that share their files.
FAMILY = {
    "predict": "labelling", "evaluate": "labelling", "explain": "labelling", "inspect": "labelling",
    "chunk-train": "chunk", "align-train": "align", "graph-train": "graph", "parse-train": "parse",
    "phrase-train": "phrase",
}  # fmt: skip
#: What partwise train --task NAME trains on is what the command of that task does.
TASKS = {"graph": "graph", "parse": "parse", "phrase": "phrase", "align": "align", "chunk": "chunk", "topics": "topics"}
FILES: dict[str, Callable[[Path], None]] = {
    "train": training, "pack": packs, "labelling": labelling, "chunk": segments, "align": alignments, "graph": graphs,
    "infer": networks, "parse": dependencies, "phrase": phrases, "topics": topics,
}  # fmt: skip

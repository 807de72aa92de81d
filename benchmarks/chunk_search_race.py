"""Learning to search on CoNLL-2000: SearchLabeler (LaSO) against Vowpal Wabbit's search learner, in one run.

    pip install vowpalwabbit
    python -m benchmarks.chunk_search_race   # choose Vowpal Wabbit's settings, then the race on the test data
    python -m benchmarks.chunk_search_race --beam 25 --settings "--search_task sequence --search_history_length 1"

Vowpal Wabbit's settings (task, history, passes, rollouts, learning rate, attributes) are chosen on the last tenth of
the training sentences after training on the rest; the chosen ones are trained on all of them. Its attributes are those
of CRFsuite's example, or these with affixes, shapes and lower case; history is its own. Ours are the defaults of
SearchLabeler. CPU seconds of one thread: training includes encoding for us and reading its file for Vowpal Wabbit,
tagging everything from tokens (Vowpal Wabbit: its file) to tags.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._timing import Row, Sentence, attributes, conll2000, machine, print_table, sentences
from partwise import SearchLabeler
from partwise.sequences.chunks import chunk_scores

SEQUENCE = "--search_task sequence --search_rollout none"
SPANS = "--search_task sequencespan --search_rollout none"
#: (attributes, passes, settings) that are tried.
TRIED = [
    ("plain", 3, f"{SEQUENCE} --search_history_length 2"),
    ("plain", 3, f"{SPANS} --search_history_length 2"),
    ("rich", 3, f"{SPANS} --search_history_length 1"),
    ("rich", 2, f"{SEQUENCE} --search_history_length 1"),
    ("rich", 3, f"{SEQUENCE} --search_history_length 1"),
    ("rich", 5, f"{SEQUENCE} --search_history_length 1"),
    ("rich", 3, f"{SEQUENCE} --search_history_length 2"),
    ("rich", 3, f"{SEQUENCE} --search_history_length 3"),
    ("rich", 8, f"{SEQUENCE} --search_history_length 2"),
    ("rich", 3, f"{SEQUENCE} --search_history_length 1 -l 0.25"),
    ("rich", 3, f"{SEQUENCE} --search_history_length 2 --search_alpha 1e-8"),
    ("rich", 2, "--search_task sequence --search_rollout ref --search_history_length 1"),
]


def shape(word: str) -> str:
    """Capitals, small letters and digits, runs of them once: "McDonald's" → "XxXx'x"."""
    kinds = re.sub("[0-9]", "d", re.sub("[a-z]", "x", re.sub("[A-Z]", "X", word)))
    return re.sub(r"(.)\1+", r"\1", kinds)


def described(sentence: Sentence, rich: bool) -> list[list[str]]:
    """The attributes of every token."""
    rows = attributes(sentence)
    if not rich:
        return rows
    for t, (word, *_) in enumerate(sentence):
        own = rows[t]
        own += [f"prefix={word[:k]}" for k in range(1, 5) if len(word) >= k]
        own += [f"suffix={word[-k:]}" for k in range(1, 5) if len(word) >= k]
        own += [f"shape={shape(word)}", f"lower={word.lower()}"]
        for d in (-1, 1):
            if 0 <= t + d < len(sentence):
                other = sentence[t + d][0]
                own += [f"shape[{d}]={shape(other)}", f"suffix[{d}]={other[-3:]}"]
    return rows


class Wabbit:
    """Vowpal Wabbit's search learner over files in a folder."""

    def __init__(self, folder: Path, train: list[Sentence]) -> None:
        kinds = sorted({row[2][2:] for sentence in train for row in sentence} - {""})
        self.folder, self.tags = folder, ["O", *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]
        self.number = {tag: k for k, tag in enumerate(self.tags, 1)}  # sequencespan: B even, I odd

    def write(self, data: list[Sentence], name: str, kind: str) -> Path:
        path = self.folder / f"{name}-{kind}.txt"
        with open(path, "w", encoding="utf-8") as file:
            for sentence in data:
                for row, own in zip(sentence, described(sentence, kind == "rich"), strict=True):
                    text = " ".join(own).replace("|", "/").replace(":", ";")
                    file.write(f"{self.number.get(row[2], 1)} |a {text}\n")
                file.write("\n")
        return path

    def measure(self, train: Path, test: Path, passes: int, settings: str) -> tuple[list[list[str]], float, float]:
        """(tags of the test file, CPU seconds of training and of tagging)."""
        from vowpalwabbit import Workspace

        model, cache, found = (self.folder / name for name in ("model", "cache", "found.txt"))
        for file in (model, cache, found):
            file.unlink(missing_ok=True)
        begin = time.process_time()
        Workspace(
            f"--search {len(self.tags)} {settings} -b 24 --passes {passes} -k --cache_file {cache} --holdout_off "
            f"-d {train} -f {model} --quiet"
        ).finish()
        middle = time.process_time()
        Workspace(f"-t -i {model} -d {test} -p {found} --quiet").finish()
        end = time.process_time()
        with open(found, encoding="utf-8") as lines:
            tags = [[self.tags[int(number) - 1] for number in line.split()] for line in lines if line.strip()]
        return tags, middle - begin, end - middle


def f1(data: list[Sentence], tags: list[list[str]]) -> float:
    return 100 * chunk_scores([[row[2] for row in sentence] for sentence in data], tags).f1


def choose(wabbit: Wabbit, train: list[Sentence]) -> tuple[str, int, str]:
    """The settings that are best on the last tenth of the training data."""
    cut = len(train) * 9 // 10
    results = []
    for kind in ("plain", "rich"):
        files = wabbit.write(train[:cut], "part", kind), wabbit.write(train[cut:], "held", kind)
        for setting in TRIED:
            if setting[0] == kind:
                tags, seconds, _ = wabbit.measure(*files, *setting[1:])
                results.append((f1(train[cut:], tags), setting))
                print(f"  {results[-1][0]:.2f}  {seconds:5.1f} s  {setting}", flush=True)
    return max(results)[1]


def ours(train: list[Sentence], test: list[Sentence], beam: int, passes: int | None) -> tuple[float, float, float]:
    """(F1, CPU seconds of training and of tagging) of SearchLabeler."""
    model: Any = SearchLabeler(beam=beam, update="alma", columns=("word", "pos"))
    if passes is not None:
        model.set_params(max_passes=passes)
    X = [[tuple(row[:2]) for row in sentence] for sentence in train]
    begin = time.process_time()
    model.fit(X, [[row[2] for row in sentence] for sentence in train])
    middle = time.process_time()
    seconds = middle - begin
    X = [[tuple(row[:2]) for row in sentence] for sentence in test]
    model.predict(X[:5])  # kernels are loaded
    begin = time.process_time()
    tags = model.predict(X)
    return f1(test, tags), seconds, time.process_time() - begin


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--passes", type=int, help="of SearchLabeler (default: its own)")
    options.add_argument("--settings", help="of Vowpal Wabbit, instead of a choice among those tried")
    options.add_argument("--vw-passes", type=int, default=3, help="with --settings")
    args = options.parse_args()
    train, test = (list(sentences(conll2000(part))) for part in ("train", "test"))
    words = sum(map(len, test))
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wabbit = Wabbit(Path(folder), train)
        if args.settings is None:
            print("Vowpal Wabbit on the last tenth of the training data: F1, CPU seconds of training, settings")
            kind, passes, settings = choose(wabbit, train)
        else:
            kind, passes, settings = "rich", args.vw_passes, args.settings
        print(f"chosen: {kind} attributes, {passes} passes, {settings}", flush=True)
        files = wabbit.write(train, "train", kind), wabbit.write(test, "test", kind)
        tags, their_training, their_tagging = wabbit.measure(*files, passes, settings)
    score, training, tagging = ours(train, test, args.beam, args.passes)
    theirs = f1(test, tags)
    rows = [
        Row("F1 of chunks, test", theirs, score, score - theirs, "≥ 0", "{:.2f}", "{:+.2f}"),
        Row("training, s CPU", their_training, training, their_training / training, "", "{:.1f}"),
        Row("tokens/s", words / their_tagging, words / tagging, their_tagging / tagging, "", "{:.0f}"),
    ]
    print_table(f"CoNLL-2000, LaSO-A with beam {args.beam}", rows, peer="Vowpal Wabbit")


if __name__ == "__main__":
    main()

"""Sentence pairs and links as commands see them: which files they come from, and how they are written."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.cli.console import as_json, percent
from partwise.cli.registry import UsageError
from partwise.exceptions import FormatError

if TYPE_CHECKING:
    from partwise.alignment.bitext import Bitext
    from partwise.alignment.link_files import GoldLinks, Link

__all__ = [
    "FORMATS",
    "NamedPairs",
    "add_output",
    "check_files",
    "each_batch",
    "read_gold",
    "read_pairs",
    "render",
    "score_table",
    "show_scores",
]

FORMATS = ("pharaoh", "naacl", "json")
BATCH_PAIRS = 500


class NamedPairs(NamedTuple):
    """Sentence pairs, the numbers they have in their files, and a name of the files for messages."""

    bitext: Bitext
    numbers: list[int]
    path: str


def check_files(files: Iterable[str]) -> None:
    """Raise for files that cannot be read, before anything is computed."""
    for path in files:
        if path != "-" and not os.path.exists(path):
            raise FormatError("cannot be read: there is no such file", path=path)
        if os.path.isdir(path):
            raise FormatError("cannot be read: is a folder", path=path)


def _first_words(path: str) -> list[bytes]:
    """The words of the first line that has any; none for standard input, which can be read only once."""
    from partwise.data.streams import read_lines

    if path == "-":
        return []
    for block in read_lines(path, "utf-8", bulk=False):
        for line in block.split(b"\n"):
            if words := line.split():
                return words
    return []


def read_pairs(files: Sequence[str]) -> NamedPairs:
    """One file of ``source ||| target`` lines ('-' is standard input), two of parallel lines, or two NAACL files."""
    from partwise.alignment.link_files import read_naacl
    from partwise.alignment.parallel import read_bitext

    if not 1 <= len(files) <= 2:
        raise UsageError(f"expected one file of sentence pairs or two parallel ones, got {len(files)}")
    if list(files).count("-") > 1:
        raise UsageError("standard input can be only one of the files")
    check_files(files)
    name = " and ".join("<stdin>" if file == "-" else file for file in files)
    if len(files) == 2 and _first_words(files[0])[:1] == [b"<s"]:
        found = read_naacl(files[0], files[1])
        return NamedPairs(found.bitext, found.numbers, name)
    bitext = read_bitext(*files)
    return NamedPairs(bitext, list(range(1, len(bitext) + 1)), name)


def read_gold(path: str, pairs: NamedPairs) -> list[GoldLinks]:
    """Gold links: a NAACL ``.wa`` file, whose lines begin with a number, or one line of Pharaoh links per pair."""
    from partwise.alignment.link_files import GoldLinks, read_naacl_links, read_pharaoh

    check_files([path])
    words = _first_words(path)
    if not (words and words[0].isdigit()):
        return read_pharaoh(path, pairs.bitext)
    lengths = {n: (len(e), len(f)) for n, (e, f) in zip(pairs.numbers, pairs.bitext, strict=True)}
    found = read_naacl_links(path, lengths)
    nothing = GoldLinks.of(())
    return [found.get(number, nothing) for number in pairs.numbers]


def each_batch(handle: Callable[[list[Any], list[int]], object]) -> None:
    """Call ``handle`` with the pairs of standard input and their numbers, before waiting for more of them."""
    from partwise.alignment.parallel import iter_bitext
    from partwise.cli.stream import Attentive

    pending: list[Any] = []
    done = 0

    def flush() -> None:
        nonlocal done
        if pending:
            handle(list(pending), list(range(done + 1, done + len(pending) + 1)))
            done += len(pending)
            pending.clear()

    source: Any = Attentive(sys.stdin.buffer, flush)
    for pair in iter_bitext(source):
        pending.append(pair)
        if len(pending) >= BATCH_PAIRS:
            flush()
    flush()


def render(
    form: str,
    pairs: Sequence[Any],
    numbers: Sequence[int],
    links: Sequence[Sequence[Link]],
    scores: Sequence[Any] | None = None,
) -> str:
    """Links as text: ``0-0 1-2`` lines, NAACL lines (from 1), or one object per pair; with scores if they are given."""
    out = io.StringIO()
    for i, (number, found) in enumerate(zip(numbers, links, strict=True)):
        values = None if scores is None else [float(scores[i][j, k]) for j, k in found]
        if form == "json":
            source, target = pairs[i]
            line: dict[str, Any] = {"number": number, "source": source, "target": target, "links": found}
            out.write(as_json(line if values is None else {**line, "scores": values}) + "\n")
        elif form == "naacl":
            for n, (j, k) in enumerate(found):
                out.write(f"{number:04d} {j + 1} {k + 1} S" + ("\n" if values is None else f" {values[n]:.4f}\n"))
        elif values is None:
            out.write(" ".join(f"{j}-{k}" for j, k in found) + "\n")
        else:
            out.write(" ".join(f"{j}-{k}:{v:.4f}" for (j, k), v in zip(found, values, strict=True)) + "\n")
    return out.getvalue()


def score_table(gold: Sequence[GoldLinks], links: Sequence[Sequence[Link]]) -> dict[str, Any]:
    """AER, precision, recall and F with the interval of the first, as numbers."""
    from partwise.alignment.scores import alignment_bootstrap, alignment_scores

    scores = alignment_scores(gold, links)
    interval = alignment_bootstrap(gold, links)
    predicted, sure = scores.counts[:, :2].sum(axis=0).tolist()
    return {
        "aer": scores.aer,
        "aer_interval": [interval.low, interval.high],
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "pairs": len(gold),
        "links": predicted,
        "sure": sure,
    }


def show_scores(scores: dict[str, Any], print_line: Callable[[str], object]) -> None:
    """One line for people."""
    low, high = map(percent, scores["aer_interval"])
    rest = "  ".join(f"{name} {percent(scores[key])}" for name, key in _REST)
    counts = f"{scores['pairs']} pairs, {scores['links']} links, {scores['sure']} sure"
    print_line(f"AER {percent(scores['aer'])} (95% {low} to {high})  {rest}  ({counts})")


_REST = (("precision", "precision"), ("recall", "recall"), ("F", "f1"))


def add_output(parser: argparse.ArgumentParser, json: str) -> None:
    """The flags that every command has."""
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help=json)

"""CoNLL-U and CoNLL-X: ten tab-separated columns per word, a blank line after every sentence.

Nothing is lost between reading and writing: comments, multiword tokens (ids such as 3-4), empty nodes (8.1) and all
columns stay as they were. Both formats have the same ten columns; where CoNLL-X says CPOSTAG, POSTAG, PHEAD and
PDEPREL, CoNLL-U says UPOS, XPOS, DEPS and MISC.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures.arborescence import tree_fault

__all__ = ["COLUMNS", "DependencySentence", "parse_conllu", "read_conllu", "write_conllu"]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)


@dataclass
class DependencySentence:
    """A sentence: comments, and rows of ten columns in the order of the file.

    Parameters
    ----------
    rows : list of tuples of ten strings
        Words, multiword tokens and empty nodes.
    comments : list of str
        Lines that begin with #.
    source : str
        Where it was read, ``file:line`` of its first row, for error messages.

    Examples
    --------
    >>> sentence = DependencySentence.of_words("They parse trees".split(), [2, 0, 2], ["nsubj", "root", "obj"])
    >>> sentence.heads.tolist(), sentence.column("deprel")
    ([2, 0, 2], ['nsubj', 'root', 'obj'])
    >>> print(sentence.with_tree([2, 0, 1], ["nsubj", "root", "dep"]).text().splitlines()[2])
    3	trees	_	_	_	_	1	dep	_	_
    """

    rows: list[tuple[str, ...]]
    comments: list[str] = field(default_factory=list)
    source: str = ""

    @classmethod
    def of_words(
        cls,
        forms: Sequence[str],
        heads: Sequence[int] | None = None,
        deprels: Sequence[str] | None = None,
        **columns: Sequence[str],
    ) -> DependencySentence:
        """A sentence from its words, with or without a tree; further columns by name (``upos=…``)."""
        table = {"form": forms, **columns}
        if heads is not None:
            table["head"] = [str(head) for head in heads]
        if deprels is not None:
            table["deprel"] = deprels
        for name, values in table.items():
            if name not in COLUMNS[1:]:
                raise InputError(f"a sentence has no column {name!r}; expected some of {', '.join(COLUMNS[1:])}")
            if len(values) != len(forms):
                raise InputError(f"column {name!r} has {len(values)} values for {len(forms)} words")
        rows = [
            (str(m + 1), *(table[name][m] if name in table else "_" for name in COLUMNS[1:])) for m in range(len(forms))
        ]
        return cls(rows)

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The rows of words: neither multiword tokens nor empty nodes."""
        return [row for row in self.rows if row[ID].isdecimal()]

    def __len__(self) -> int:
        return len(self.words)

    def column(self, name: str) -> list[str]:
        """One column of the words."""
        at = COLUMNS.index(name)
        return [row[at] for row in self.words]

    @property
    def forms(self) -> list[str]:
        return self.column("form")

    @property
    def has_tree(self) -> bool:
        """Whether every word has a head."""
        return all(row[HEAD].isdecimal() for row in self.words)

    @property
    def heads(self) -> NDArray[np.int64]:
        """The head of every word, 0 for the root, shape (n,)."""
        try:
            return np.array([int(row[HEAD]) for row in self.words], np.int64)
        except ValueError:
            m, row = next((m, row) for m, row in enumerate(self.words, 1) if not row[HEAD].isdecimal())
            where = f"{self.source}: " if self.source else ""
            raise InputError(f"{where}word {m} ({row[FORM]!r}) has head {row[HEAD]!r}; expected a number") from None

    def with_tree(self, heads: Iterable[int], deprels: Iterable[str] | None = None) -> DependencySentence:
        """A copy with these heads and relations; without relations those of the sentence stay."""
        heads = list(heads)
        relations = self.column("deprel") if deprels is None else list(deprels)
        if len(heads) != len(self) or len(relations) != len(self):
            raise InputError(f"got {len(heads)} heads and {len(relations)} relations for {len(self)} words")
        new = iter(zip(heads, relations, strict=True))
        rows = []
        for row in self.rows:
            if row[ID].isdecimal():
                head, relation = next(new)
                row = (*row[:HEAD], str(int(head)), relation, *row[DEPS:])
            rows.append(row)
        return DependencySentence(rows, list(self.comments), self.source)

    def with_comments(self, **comments: str) -> DependencySentence:
        """A copy with further comment lines ``# name = value``."""
        return DependencySentence(self.rows, self.comments + [f"# {k} = {v}" for k, v in comments.items()], self.source)

    def fault(self, *, single_root: bool = False) -> str | None:
        """Why the heads do not form a tree (out of range, its own head, a cycle, several roots), or None."""
        heads, n = self.heads, len(self)
        for m, head in enumerate(heads.tolist(), 1):
            if head > n:
                return f"word {m} ({self.forms[m - 1]!r}) has head {head}; the sentence has {n} words"
            if head == m:
                return f"word {m} ({self.forms[m - 1]!r}) is its own head"
        return tree_fault(heads, single_root=single_root)

    def text(self) -> str:
        """As in a file, with the blank line at the end."""
        lines = [*self.comments, *("\t".join(row) for row in self.rows)]
        return "\n".join(lines) + "\n\n"


def parse_conllu(lines: Iterable[str], name: str = "", *, trees: bool = False) -> Iterator[DependencySentence]:
    """The sentences of a stream of lines, one at a time; with ``trees`` every one must have a tree.

    Without it heads are only read, so that a file whose trees are to be replaced may hold anything there.

    Examples
    --------
    >>> lines = ["# sent_id = 1", "1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_", ""]
    >>> [sentence.forms for sentence in parse_conllu(lines)]
    [['Go']]
    """
    comments: list[str] = []
    rows: list[tuple[str, ...]] = []
    first = expected = 0
    where = f"{name}:" if name else "line "
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if number == 1:
            line = line.removeprefix("\ufeff")
        if not line.strip():
            if rows:
                yield _sentence(rows, comments, f"{where}{first}", trees)
            elif comments:
                raise InputError(f"{where}{number}: comments without a sentence")
            comments, rows = [], []
        elif line.startswith("#") and not rows:
            comments.append(line)
        else:
            row = line.split("\t")
            if len(row) != 10:
                raise InputError(f"{where}{number}: {len(row)} columns; expected 10, separated by tabs")
            if not rows:
                first, expected = number, 1
            if row[ID].isdecimal():
                if int(row[ID]) != expected:
                    raise InputError(f"{where}{number}: word id {row[ID]}; expected {expected}")
                expected += 1
                if not (row[HEAD].isdecimal() or row[HEAD] == "_"):
                    raise InputError(f"{where}{number}: head {row[HEAD]!r}; expected a number, or _ if there is none")
                if trees:
                    _check_head(row, f"{where}{number}")
            elif not _is_range_or_empty(row[ID]):
                raise InputError(
                    f"{where}{number}: id {row[ID]!r}; expected a number, a range 3-4 or an empty node 8.1"
                )
            rows.append(tuple(map(sys.intern, row)))
    if rows:
        yield _sentence(rows, comments, f"{where}{first}", trees)


def _is_range_or_empty(text: str) -> bool:
    for mark in "-.":
        left, _, right = text.partition(mark)
        if left.isdecimal() and right.isdecimal():
            return True
    return False


def _check_head(row: Sequence[str], where: str) -> None:
    if not row[HEAD].isdecimal():
        raise InputError(f"{where}: word {row[ID]} ({row[FORM]!r}) has no head")
    if row[HEAD] == row[ID]:
        raise InputError(f"{where}: word {row[ID]} ({row[FORM]!r}) is its own head")


def _sentence(rows: list[tuple[str, ...]], comments: list[str], where: str, trees: bool) -> DependencySentence:
    sentence = DependencySentence(rows, comments, where)
    if not len(sentence):
        raise InputError(f"{where}: a sentence without words")
    if trees:
        fault = sentence.fault()
        if fault is not None:
            raise InputError(f"{where}: {fault}")
    return sentence


def read_conllu(path: str | os.PathLike[str], *, trees: bool = True) -> list[DependencySentence]:
    """All sentences of a file; unless ``trees`` is False every one must have a tree."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            return list(parse_conllu(file, name, trees=trees))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error


def write_conllu(sentences: Iterable[DependencySentence], target: str | os.PathLike[str] | IO[str]) -> None:
    """Write sentences to a file or a stream."""
    if isinstance(target, (str, os.PathLike)):
        with open(target, "w", encoding="utf-8") as file:
            write_conllu(sentences, file)
        return
    stream: Any = target
    for sentence in sentences:
        stream.write(sentence.text())

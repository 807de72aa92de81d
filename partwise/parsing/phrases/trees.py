"""Bracketed trees, ``(S (NP (DT the) (NN cat)) (VP (VBD slept)))``: reading, writing, cleaning.

A tree is read unchanged. What treebanks add to phrases (traces, function tags, the wrapper at the top) is removed by
:func:`clean_tree`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

from partwise.exceptions import InputError

T = TypeVar("T")

__all__ = ["PhraseTree", "clean_tree", "escaped", "parse_trees", "read_trees", "write_trees"]

_TOKEN = re.compile(r"[()]|[^\s()]+")
#: Labels of the node that some treebanks put over every sentence.
WRAPPERS = frozenset({"", "TOP", "ROOT", "S1"})


@dataclass(frozen=True)
class PhraseTree:
    """A label over children, or a part of speech over a word.

    Examples
    --------
    >>> tree = next(parse_trees(["(S (NP (DT the) (NN cat)) (VP (VBD slept)))"]))
    >>> tree.words, tree.tags
    (['the', 'cat', 'slept'], ['DT', 'NN', 'VBD'])
    >>> tree.constituents()
    [(0, 3, 'S'), (0, 2, 'NP'), (2, 3, 'VP')]
    >>> str(tree)
    '(S (NP (DT the) (NN cat)) (VP (VBD slept)))'
    """

    label: str
    children: tuple[PhraseTree, ...] = ()
    word: str | None = None
    source: str = field(default="", compare=False)  # file:line, for messages

    def leaves(self) -> Iterator[PhraseTree]:
        """The parts of speech, from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.word is not None:
                yield node
            waiting.extend(reversed(node.children))

    @property
    def words(self) -> list[str]:
        return [leaf.word or "" for leaf in self.leaves()]

    @property
    def tags(self) -> list[str]:
        return [leaf.label for leaf in self.leaves()]

    def __len__(self) -> int:
        return sum(1 for _ in self.leaves())

    def fold(self, combine: Callable[[PhraseTree, list[T]], T]) -> T:
        """combine(node, results of its children), from the words upwards; works at any depth, unlike recursion."""
        done: list[T] = []
        waiting: list[tuple[PhraseTree, bool]] = [(self, False)]
        while waiting:
            node, ready = waiting.pop()
            if not ready and node.children:
                waiting.append((node, True))
                waiting += [(child, False) for child in reversed(node.children)]
                continue
            start = len(done) - len(node.children)
            done[start:] = [combine(node, done[start:])]
        return done[0]

    def constituents(self) -> list[tuple[int, int, str]]:
        """(start, stop, label) of every phrase, top down and left to right, without parts of speech."""
        found: list[tuple[int, int, str]] = []
        words = 0
        # (node, place in ``found``): entered with −1, left with the place that waits for its stop
        waiting: list[tuple[PhraseTree, int]] = [(self, -1)]
        while waiting:
            node, place = waiting.pop()
            if node.word is not None:
                words += 1
            elif place >= 0:
                found[place] = (found[place][0], words, node.label)
            else:
                waiting.append((node, len(found)))
                found.append((words, words, node.label))
                waiting += [(child, -1) for child in reversed(node.children)]
        return found

    def __str__(self) -> str:
        # brackets inside a word are written as treebanks write them, or nobody could read the tree
        return str(
            self.fold(
                lambda node, inside: f"({node.label} {' '.join(inside) if node.word is None else escaped(node.word)})"
            )
        )

    def pretty(self, indent: int = 0) -> str:
        """Over several lines, as treebanks print it."""
        if all(child.word is not None for child in self.children):
            return " " * indent + str(self)
        lines = [child.pretty(indent + 2) for child in self.children]
        return " " * indent + f"({self.label}\n" + "\n".join(lines) + ")"


def escaped(word: str) -> str:
    """A word as it stands in a bracketed tree.

    Examples
    --------
    >>> escaped("(a)")
    '-LRB-a-RRB-'
    """
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def parse_trees(lines: Iterable[str], name: str = "") -> Iterator[PhraseTree]:
    """The trees in lines of text; a tree may span several lines. Errors name the file and the line.

    Examples
    --------
    >>> [len(tree) for tree in parse_trees(["(NP (DT a)", "  (NN b)) (NN c)"])]
    [2, 1]
    >>> next(parse_trees(["(NP (DT a)"], "x.mrg"))
    Traceback (most recent call last):
        ...
    partwise.exceptions.InputError: x.mrg:1: the tree that begins here is not complete; 1 bracket is open at the end
    """
    where = f"{name}:" if name else "line "
    # open nodes: [label or None, children, word, line]
    stack: list[list[Any]] = []
    begun = 0
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff") if number == 1 else line
        for token in _TOKEN.findall(text):
            if token == "(":
                if stack and stack[-1][2] is not None:
                    raise InputError(f"{where}{number}: a bracket after the word {stack[-1][2]!r}; expected ')'")
                if not stack:
                    begun = number
                elif stack[-1][0] is None:
                    stack[-1][0] = ""
                stack.append([None, [], None, number])
            elif token == ")":
                if not stack:
                    raise InputError(f"{where}{number}: ')' without a '(' before it")
                label, children, word, line_number = stack.pop()
                if label is None:
                    raise InputError(f"{where}{number}: empty brackets")
                if not children and word is None:
                    raise InputError(f"{where}{number}: {label!r} has neither children nor a word")
                node = PhraseTree(label, tuple(children), word, f"{where}{line_number}")
                if stack:
                    stack[-1][1].append(node)
                else:
                    yield node
            elif not stack:
                raise InputError(f"{where}{number}: {token!r} outside of brackets")
            elif stack[-1][0] is None:
                stack[-1][0] = token
            elif stack[-1][2] is not None or stack[-1][1]:
                raise InputError(
                    f"{where}{number}: the word {token!r} next to others under {stack[-1][0]!r}; "
                    "expected one word or only phrases"
                )
            else:
                stack[-1][2] = token
    if stack:
        count = f"{len(stack)} bracket{'s are' if len(stack) > 1 else ' is'}"
        raise InputError(f"{where}{begun}: the tree that begins here is not complete; {count} open at the end")


def read_trees(path: str | os.PathLike[str], *, clean: bool = True) -> list[PhraseTree]:
    """All trees of a file; :func:`clean_tree` is applied unless ``clean`` is False."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            trees = list(parse_trees(file, name))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    return [clean_tree(tree) for tree in trees] if clean else trees


def write_trees(trees: Iterable[PhraseTree], target: str | os.PathLike[str] | IO[str]) -> None:
    """One tree per line, to a file or a stream."""
    if isinstance(target, (str, os.PathLike)):
        with open(target, "w", encoding="utf-8") as file:
            write_trees(trees, file)
        return
    stream: Any = target
    for tree in trees:
        stream.write(f"{tree}\n")


def clean_tree(tree: PhraseTree) -> PhraseTree:
    """The tree without traces (-NONE-), function tags (NP-SBJ-1 → NP) and a wrapper around it.

    A wrapper with several children stays, as TOP.

    Examples
    --------
    >>> tree = next(parse_trees(["( (S (NP-SBJ (-NONE- *)) (VP (VB go)) (. .)))"]))
    >>> str(clean_tree(tree))
    '(S (VP (VB go)) (. .))'
    """
    cleaned = tree.fold(_clean)
    if cleaned is None:
        raise InputError(f"{tree.source}: empty tree: it contains only traces")
    if cleaned.label in WRAPPERS and cleaned.word is None:
        if len(cleaned.children) == 1 and cleaned.children[0].word is None:
            answer: PhraseTree = cleaned.children[0]
            return answer
        return PhraseTree("TOP", cleaned.children, None, cleaned.source)
    answer = cleaned
    return answer


def _clean(node: PhraseTree, inside: list[PhraseTree | None]) -> PhraseTree | None:
    if node.word is not None:
        return None if node.label == "-NONE-" else node
    children = tuple(child for child in inside if child is not None)
    if not children:
        return None
    label = node.label if node.label.startswith("-") else re.split(r"[-=|]", node.label)[0]
    return PhraseTree(label, children, None, node.source)

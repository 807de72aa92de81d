"""Trees in binary form and back: A → B C D … becomes A → B @A, @A → C @A, …, with as much memory as is asked for.

A symbol is (kind, label, parent, siblings): a phrase, the inside of a long rule, or a part of speech. With a vertical
order of 2 a symbol knows the label above it (parent annotation, Johnson 1998), with a horizontal order h the inside of
a rule knows the last h children to its left (markovisation, Klein & Manning 2003). The way back drops all of that, so
it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from partwise.exceptions import InputError
from partwise.parsing.phrases.trees import PhraseTree

__all__ = ["INNER", "PHRASE", "TAG", "Symbol", "binary_rows", "coarse_symbol", "collapse_chains", "tree_of_rows"]

PHRASE, INNER, TAG = "phrase", "inner", "tag"
Row = tuple[int, int, "Symbol"]


class Symbol(NamedTuple):
    """The symbol of a node of a binary tree."""

    kind: str
    label: str
    parent: str = ""  # the label above, "" where the grammar does not look
    siblings: tuple[str, ...] = ()  # the last children to the left, of the inside of a rule

    def __str__(self) -> str:
        name = f"{self.label}^{self.parent}" if self.parent else self.label
        return f"@{name}|{','.join(self.siblings)}" if self.kind == INNER else name


def coarse_symbol(symbol: Symbol) -> Symbol:
    """The symbol without memory."""
    return Symbol(symbol.kind, symbol.label)


def collapse_chains(tree: PhraseTree) -> PhraseTree:
    """The tree without repeated labels in a chain: of nodes with the same label and words only the lowest stays.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> str(collapse_chains(next(parse_trees(["(NP (S (NP (NN a) (NN b))))"]))))
    '(NP (NN a) (NN b))'
    """
    answer: PhraseTree = tree.fold(_collapse)
    return answer


def _collapse(node: PhraseTree, inside: list[PhraseTree]) -> PhraseTree:
    """The node over children that are collapsed already; what stands between it and its own label below goes."""
    if node.word is not None:
        return node
    below = inside[0]
    while len(inside) == 1 and below.word is None:
        if below.label == node.label:
            return below
        if len(below.children) != 1:
            break
        below = below.children[0]
    return PhraseTree(node.label, tuple(inside), None, node.source)


def binary_rows(tree: PhraseTree, vertical: int = 1, horizontal: int = 0) -> list[Row]:
    """(start, stop, symbol) of every node of the binary tree, top down and left to right.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> tree = next(parse_trees(["(NP (DT a) (JJ b) (NN c))"]))
    >>> [(start, stop, str(symbol)) for start, stop, symbol in binary_rows(tree, 1, 1)]
    [(0, 3, 'NP'), (0, 1, 'DT'), (1, 3, '@NP|DT'), (1, 2, 'JJ'), (2, 3, 'NN')]
    """
    rows: list[Row] = []
    words = 0
    # nodes to enter, with the label above; the inside of a rule to open; rows that wait for their stop
    waiting: list[tuple[PhraseTree | Symbol | int, str]] = [(tree, "TOP")]
    while waiting:
        item, parent = waiting.pop()
        if isinstance(item, int):
            rows[item] = (rows[item][0], words, rows[item][2])
        elif isinstance(item, Symbol):
            rows.append((words, words, item))
        elif item.word is not None:
            rows.append((words, words + 1, Symbol(TAG, item.label)))
            words += 1
        elif not item.children:
            raise InputError(f"{item.source}: {item.label!r} has neither children nor a word")
        else:
            above = parent if vertical > 1 else ""
            todo: list[tuple[PhraseTree | Symbol | int, str]] = []
            rows.append((words, words, Symbol(PHRASE, item.label, above)))
            todo.append((len(rows) - 1, ""))
            for k in range(len(item.children) - 1, -1, -1):
                todo.append((item.children[k], item.label))
                if 0 < k < len(item.children) - 1:
                    left = tuple(sibling.label for sibling in item.children[max(0, k - horizontal) : k])
                    todo.append((Symbol(INNER, item.label, above, left), ""))
            waiting += todo
    return _closed(rows)


def _closed(rows: list[Row]) -> list[Row]:
    """The insides of rules stop where the phrase that they belong to stops: the last one that is open around them."""
    open_stops: list[int] = []
    for place, (start, stop, symbol) in enumerate(rows):
        while open_stops and open_stops[-1] <= start:
            open_stops.pop()
        if symbol.kind == INNER:
            rows[place] = (start, open_stops[-1], symbol)
        else:
            open_stops.append(stop)
    return rows


def tree_of_rows(rows: Sequence[Row], words: Sequence[str]) -> PhraseTree:
    """The tree whose binary form these rows are: the inverse of :func:`binary_rows`.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> tree = next(parse_trees(["(S (NP (DT a) (JJ b) (NN c)) (VP (VB d)))"]))
    >>> tree_of_rows(binary_rows(tree, 2, 2), tree.words) == tree
    True
    """
    pieces: list[tuple[int, list[PhraseTree]]] = []  # (start, trees) of spans without a parent yet, the leftmost last
    for start, stop, symbol in reversed(rows):
        if symbol.kind == TAG:
            pieces.append((start, [PhraseTree(symbol.label, (), words[start])]))
            continue
        children: list[PhraseTree] = []
        while pieces and pieces[-1][0] < stop:
            children += pieces.pop()[1]
        pieces.append((start, children if symbol.kind == INNER else [PhraseTree(symbol.label, tuple(children))]))
    ((_, trees),) = pieces
    return trees[0]

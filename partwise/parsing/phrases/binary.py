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
    """What stands over a span of a binary tree."""

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
    """The tree without a label over itself: of the nodes over the same words only the last with a label stays.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> str(collapse_chains(next(parse_trees(["(NP (S (NP (NN a) (NN b))))"]))))
    '(NP (NN a) (NN b))'
    """
    if tree.word is not None:
        return tree
    chain = [tree]
    while len(chain[-1].children) == 1 and chain[-1].children[0].word is None:
        chain.append(chain[-1].children[0])
    kept: list[PhraseTree] = []
    for node in chain:
        labels = [above.label for above in kept]
        if node.label in labels:
            kept = kept[: labels.index(node.label)]
        kept.append(node)
    found = PhraseTree(kept[-1].label, tuple(map(collapse_chains, kept[-1].children)), None, kept[-1].source)
    for node in reversed(kept[:-1]):
        found = PhraseTree(node.label, (found,), None, node.source)
    return found


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
    _binary(tree, "TOP", 0, vertical, horizontal, rows)
    return rows


def _binary(node: PhraseTree, parent: str, start: int, vertical: int, horizontal: int, rows: list[Row]) -> int:
    if node.word is not None:
        rows.append((start, start + 1, Symbol(TAG, node.label)))
        return start + 1
    if not node.children:
        raise InputError(f"{node.source}: {node.label!r} has neither children nor a word")
    above = parent if vertical > 1 else ""
    opened = [len(rows)]
    rows.append((start, start, Symbol(PHRASE, node.label, above)))
    stop = start
    for k, child in enumerate(node.children):
        if 0 < k < len(node.children) - 1:
            left = tuple(sibling.label for sibling in node.children[max(0, k - horizontal) : k])
            opened.append(len(rows))
            rows.append((stop, stop, Symbol(INNER, node.label, above, left)))
        stop = _binary(child, node.label, stop, vertical, horizontal, rows)
    for place in opened:
        rows[place] = (rows[place][0], stop, rows[place][2])
    return stop


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

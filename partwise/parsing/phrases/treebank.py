"""Grammars read off treebanks: symbols, rules and chains with their counts, and probabilities from these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.parsing.phrases._pcfg_kernels import PcfgPack
from partwise.parsing.phrases.binary import PHRASE, TAG, Symbol, binary_rows, coarse_symbol
from partwise.parsing.phrases.trees import PhraseTree
from partwise.structures._grammar_space import GrammarRules
from partwise.structures.grammar import compile_rules

__all__ = ["RuleCounts", "TreebankGrammar", "count_rules"]

Row = tuple[int, int, Symbol]


@dataclass
class RuleCounts:
    """How often each rule, chain, top symbol and word with its tag occurs."""

    binary: Counter[tuple[Symbol, Symbol, Symbol]] = field(default_factory=Counter)
    chains: Counter[tuple[Symbol, ...]] = field(default_factory=Counter)
    built: Counter[Symbol] = field(default_factory=Counter)  # symbols with two children or a word
    plain: Counter[Symbol] = field(default_factory=Counter)  # those of them that no chain stands over
    root: Counter[Symbol] = field(default_factory=Counter)

    def add(self, rows: Sequence[Row]) -> None:
        """Count the rules of one binary tree."""
        waiting: list[Symbol] = []  # tops of the spans without a parent yet, the leftmost last
        bottom = len(rows) - 1
        while bottom >= 0:
            start, stop, symbol = rows[bottom]
            top = bottom
            while top > 0 and rows[top - 1][:2] == (start, stop):
                top -= 1
            self.built[symbol] += 1
            if stop - start > 1:
                self.binary[symbol, waiting.pop(), waiting.pop()] += 1
            if top < bottom:
                self.chains[tuple(row[2] for row in rows[top : bottom + 1])] += 1
            else:
                self.plain[symbol] += 1
            waiting.append(rows[top][2])
            bottom = top - 1
        self.root[waiting[0]] += 1

    def minus(self, other: RuleCounts) -> RuleCounts:
        """What is left without some of the trees."""
        names = ("binary", "chains", "built", "plain", "root")
        return RuleCounts(*(getattr(self, name) - getattr(other, name) for name in names))

    def plus(self, other: RuleCounts) -> RuleCounts:
        names = ("binary", "chains", "built", "plain", "root")
        return RuleCounts(*(getattr(self, name) + getattr(other, name) for name in names))


def count_rules(trees: Iterable[PhraseTree], vertical: int = 1, horizontal: int = 0) -> RuleCounts:
    """The rules of the binary forms of the trees.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> counts = count_rules(parse_trees(["(S (NP (NN a)) (VP (VB b)))"]))
    >>> [" ".join(map(str, chain)) for chain in sorted(counts.chains)]
    ['NP NN', 'VP VB']
    """
    counts = RuleCounts()
    for tree in trees:
        counts.add(binary_rows(tree, vertical, horizontal))
    return counts


class TreebankGrammar:
    """Symbols and rules of a treebank as tables of numbers.

    Parameters
    ----------
    counts : RuleCounts
    tags : sequence of str
        All parts of speech, in the order of their numbers.
    labels : sequence of str
        All phrase labels, likewise.
    symbols : sequence of Symbol, optional
        Those of another grammar with at least these symbols, to share its numbers.
    """

    def __init__(
        self, counts: RuleCounts, tags: Sequence[str], labels: Sequence[str], symbols: Sequence[Symbol] | None = None
    ) -> None:
        if symbols is not None:
            self._build(list(symbols), counts, list(labels))
            return
        used = {
            *counts.built,
            *(a for rule in counts.binary for a in rule),
            *(a for chain in counts.chains for a in chain),
        }
        # parts of speech come first, so that their symbols are their numbers in the lexicon
        words = [Symbol(TAG, tag) for tag in tags]
        self._build([*words, *sorted(used - set(words))], counts, list(labels))

    def _build(self, symbols: list[Symbol], counts: RuleCounts, labels: list[str]) -> None:
        self.symbols, self.labels = symbols, labels
        self.number = {symbol: a for a, symbol in enumerate(symbols)}
        number, S = self.number, len(symbols)
        rules = sorted((number[a], number[b], number[c], n) for (a, b, c), n in counts.binary.items())
        chains = sorted((tuple(number[a] for a in chain), n) for chain, n in counts.chains.items())
        self.binary = np.array([rule[:3] for rule in rules], np.int64).reshape(-1, 3)
        self.binary_counts = np.array([rule[3] for rule in rules], float)
        self.chains = [chain for chain, _ in chains]
        self.chain_counts = np.array([n for _, n in chains], float)
        self.built, self.plain, self.root = np.zeros((3, S))
        for table, found in ((self.built, counts.built), (self.plain, counts.plain), (self.root, counts.root)):
            for symbol, n in found.items():
                table[number[symbol]] = n
        place = {label: k for k, label in enumerate(labels)}
        self.label_of = np.array([place[s.label] if s.kind == PHRASE else -1 for s in symbols], np.int64)

    @property
    def rules(self) -> GrammarRules:
        """The tables that forests grow by."""
        return compile_rules(len(self.symbols), self.binary, self.chains, np.flatnonzero(self.root).tolist())

    def rows(self, tree: PhraseTree, vertical: int, horizontal: int) -> NDArray[np.int64] | None:
        """The tree as an output of :class:`~partwise.Grammar`, None if it has a symbol that the grammar has not."""
        try:
            return np.array([(s, e, self.number[a]) for s, e, a in binary_rows(tree, vertical, horizontal)], np.int64)
        except KeyError:
            return None

    def coarse_of(self, coarse: TreebankGrammar) -> NDArray[np.int64]:
        """The number in ``coarse`` of each symbol without its memory."""
        return np.array([coarse.number[coarse_symbol(symbol)] for symbol in self.symbols], np.int64)

    # probabilities: relative frequencies

    def probabilities(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(of binary rules given what is built, of chains given their head, of no chain given the symbol)."""
        heads = np.array([chain[0] for chain in self.chains], np.int64)
        tops = self.plain + np.bincount(heads, self.chain_counts, len(self.symbols))
        with np.errstate(invalid="ignore", divide="ignore"):
            rules = self.binary_counts / self.built[self.binary[:, 0]]
            chains = self.chain_counts / tops[heads]
            stay = np.where(tops > 0, self.plain / tops, 1.0)
        return rules, chains, stay

    def pcfg(self) -> PcfgPack:
        """The tables of the inside–outside pass."""
        rules, chains, stay = self.probabilities()
        order = np.argsort(self.binary[:, 1], kind="stable")
        left = self.binary[order, 1]
        middles = [np.array(chain[1:-1], np.int32) for chain in self.chains]
        return PcfgPack(
            np.searchsorted(left, np.arange(len(self.symbols) + 1)).astype(np.int32),
            self.binary[order, 0].astype(np.int32),
            self.binary[order, 2].astype(np.int32),
            rules[order],
            stay,
            np.array([chain[0] for chain in self.chains], np.int32),
            np.array([chain[-1] for chain in self.chains], np.int32),
            chains,
            np.append(0, np.cumsum([len(m) for m in middles])).astype(np.int32),
            np.concatenate([np.zeros(0, np.int32), *middles]),
            self.root / self.root.sum(),
        )

    # storage

    def to_arrays(self) -> tuple[list[list[Any]], dict[str, NDArray[Any]]]:
        """(symbols as lists of strings, arrays of rules and counts)."""
        names = [[s.kind, s.label, s.parent, list(s.siblings)] for s in self.symbols]
        lengths = np.array([len(chain) for chain in self.chains], np.int64)
        flat = np.array([a for chain in self.chains for a in chain], np.int64)
        arrays = {
            "binary": self.binary, "binary_counts": self.binary_counts, "chain_lengths": lengths, "chain_symbols": flat,
            "chain_counts": self.chain_counts, "built": self.built, "plain": self.plain, "root": self.root,
        }  # fmt: skip
        return names, arrays

    @classmethod
    def from_arrays(cls, names: list[list[Any]], labels: list[str], arrays: dict[str, NDArray[Any]]) -> TreebankGrammar:
        """The grammar that :meth:`to_arrays` has written."""
        symbols = [Symbol(kind, label, parent, tuple(siblings)) for kind, label, parent, siblings in names]
        grammar = cls.__new__(cls)
        grammar._build(symbols, RuleCounts(), labels)
        ends = np.cumsum(arrays["chain_lengths"])
        flat = arrays["chain_symbols"].tolist()
        grammar.chains = [tuple(flat[stop - n : stop]) for stop, n in zip(ends, arrays["chain_lengths"], strict=True)]
        for name in ("binary", "binary_counts", "chain_counts", "built", "plain", "root"):
            setattr(grammar, name, np.asarray(arrays[name]))
        return grammar

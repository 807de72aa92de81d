"""From sentences to forests: the words and rules of a treebank, and what the coarse pass keeps of a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._threads import Threads
from partwise.exceptions import InputError
from partwise.parsing.phrases.binary import binary_rows, collapse_chains, tree_of_rows
from partwise.parsing.phrases.coarse import CoarsePass, Pruned
from partwise.parsing.phrases.features import word_hashes
from partwise.parsing.phrases.lexicon import Lexicon
from partwise.parsing.phrases.treebank import RuleCounts, TreebankGrammar, count_rules
from partwise.parsing.phrases.trees import PhraseTree
from partwise.structures._grammar_space import grow, span_number
from partwise.structures.grammar import Grammar

__all__ = ["FALLBACK", "Forests", "PhraseModel", "Recall"]

#: The label of a tree that stands for a sentence without a parse.
FALLBACK = "FALLBACK"
#: A sentence whose pruned forest is empty is tried again with the threshold times this.
RETRY = 1e-3


class Recall(NamedTuple):
    """How much of the gold trees a coarse pass keeps."""

    kept: int
    constituents: int
    whole: int
    trees: int

    @property
    def share(self) -> float:
        """Of the nodes of the binary gold trees, how many are kept."""
        return self.kept / self.constituents if self.constituents else 1.0


class Forests(NamedTuple):
    """The sentences that have a parse."""

    space: Grammar
    words: list[NDArray[np.uint64]]
    parsed: list[int]  # which of the sentences they are
    tags: list[list[str]]  # of all sentences, by the coarse pass


class PhraseModel:
    """Parts of speech, labels, lexicon, coarse and fine grammar of a treebank.

    Parameters
    ----------
    vertical, horizontal : int
        How much the fine symbols remember, see :func:`binary_rows`.
    threshold : float
        Posterior below which the coarse pass drops a symbol over a span.
    """

    def __init__(self, vertical: int, horizontal: int, threshold: float) -> None:
        self.vertical, self.horizontal, self.threshold = vertical, horizontal, threshold

    def fit(self, trees: Sequence[PhraseTree]) -> PhraseModel:
        """Read everything off trees whose chains are collapsed."""
        self.tags = sorted({tag for tree in trees for tag in tree.tags})
        self.labels = sorted({label for tree in trees for _, _, label in tree.constituents()})
        if not self.labels:
            raise InputError("the trees have no phrases, only parts of speech")
        words = Counter(word for tree in trees for word in tree.words)
        self.known = {word for word, count in words.items() if count > 1}
        coarse = TreebankGrammar(count_rules(trees), self.tags, self.labels)
        self.coarse = CoarsePass(coarse, self._lexicon(trees))
        self._take(TreebankGrammar(count_rules(trees, self.vertical, self.horizontal), self.tags, self.labels))
        return self

    def _take(self, fine: TreebankGrammar) -> None:
        self.fine, self.rules = fine, fine.rules
        self.coarse_of = fine.coarse_of(self.coarse.grammar)

    def _lexicon(self, trees: Sequence[PhraseTree]) -> Lexicon:
        number = {tag: k for k, tag in enumerate(self.tags)}
        return Lexicon(len(self.tags)).fit((tree.words, [number[tag] for tag in tree.tags]) for tree in trees)

    # training forests

    def held_out_passes(self, trees: Sequence[PhraseTree], folds: int) -> list[CoarsePass]:
        """Coarse passes of the trees outside each fold, k-fold as in jackknifing; tree i is in fold i mod k."""
        counts = [count_rules(trees[k::folds]) for k in range(folds)]
        total = RuleCounts()
        for count in counts:
            total = total.plus(count)
        symbols = self.coarse.grammar.symbols
        passes = []
        for k in range(folds):
            rest = [tree for i, tree in enumerate(trees) if i % folds != k]
            grammar = TreebankGrammar(total.minus(counts[k]), self.tags, self.labels, symbols)
            passes.append(CoarsePass(grammar, self._lexicon(rest)))
        return passes

    def training_forests(
        self, trees: Sequence[PhraseTree], folds: int, n_threads: int
    ) -> tuple[Grammar, list[NDArray[np.uint64]], list[NDArray[np.int64]], Recall]:
        """(space, hashes of words, gold rows, recall of the pruner) of trees whose chains are collapsed.

        Each tree is pruned by a coarse pass that has not seen it, then given back what of its gold was lost: else the
        forests of training would be cleaner than those of new sentences.
        """
        passes = self.held_out_passes(trees, folds) if folds > 1 else [self.coarse]
        n = len(trees)
        forests: list[Any] = [None] * n
        hashes: list[Any] = [None] * n
        gold: list[Any] = [None] * n
        kept = np.zeros((2, n), np.int64)

        def one(i: int) -> None:
            tree, words = trees[i], trees[i].words
            coarse = passes[i % len(passes)]
            pruned = coarse.prune(words, self.threshold)
            rows = self.fine.rows(tree, self.vertical, self.horizontal)
            assert rows is not None
            places = span_number.py_func(rows[:, 0], rows[:, 1])
            allowed = np.ascontiguousarray(pruned.allowed[:, self.coarse_of])
            kept[:, i] = allowed[places, rows[:, 2]].sum(), len(rows)
            allowed[places, rows[:, 2]] = 1
            offsets, tags = self._candidates(coarse, words, rows)
            forests[i] = grow(self.rules, len(words), offsets, tags, allowed)
            hashes[i] = word_hashes(words, [self.tags[t] for t in pruned.tags], self.known)
            gold[i] = rows

        Threads(n_threads).each(one, [(i,) for i in range(n)])
        recall = Recall(int(kept[0].sum()), int(kept[1].sum()), int((kept[0] == kept[1]).sum()), n)
        return (
            Grammar.of_forests(self.rules, [len(t) for t in trees], forests, self.fine.label_of),
            hashes,
            gold,
            recall,
        )

    def _candidates(
        self, coarse: CoarsePass, words: Sequence[str], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The parts of speech of each word by the lexicon, and the gold one."""
        offsets, tags, _ = coarse.tag_weights(words)
        leaves = rows[rows[:, 2] < len(self.tags)]  # in order
        found = [sorted({*tags[offsets[t] : offsets[t + 1]].tolist(), int(leaves[t, 2])}) for t in range(len(words))]
        return (
            np.append(0, np.cumsum([len(row) for row in found])).astype(np.int64),
            np.array([tag for row in found for tag in row], np.int32),
        )

    # forests of new sentences

    def forests(self, sentences: Sequence[Sequence[str]], n_threads: int = 1) -> Forests:
        """What the coarse pass leaves, sentence by sentence; those without a parse are not among ``parsed``."""
        n = len(sentences)
        forests: list[Any] = [None] * n
        best: list[Any] = [None] * n

        def one(i: int) -> None:
            words = sentences[i]
            offsets, tags, _ = self.coarse.tag_weights(words)
            for threshold in (self.threshold, self.threshold * RETRY):
                pruned: Pruned = self.coarse.prune(words, threshold)
                allowed = np.ascontiguousarray(pruned.allowed[:, self.coarse_of])
                forests[i] = grow(self.rules, len(words), offsets, tags, allowed)
                if len(forests[i][0]) or not pruned.derived:
                    break
            best[i] = [self.tags[t] for t in pruned.tags]

        Threads(n_threads).each(one, [(i,) for i in range(n)])
        parsed = [i for i in range(n) if len(forests[i][0])]
        lengths = [len(sentences[i]) for i in parsed]
        space = Grammar.of_forests(self.rules, lengths, [forests[i] for i in parsed], self.fine.label_of)
        hashes = [word_hashes(sentences[i], best[i], self.known) for i in parsed]
        return Forests(space, hashes, parsed, best)

    def tree(self, rows: NDArray[np.int64], words: Sequence[str]) -> PhraseTree:
        """The tree of an output of the space."""
        return tree_of_rows([(s, e, self.fine.symbols[a]) for s, e, a in rows.tolist()], words)

    def fallback(self, words: Sequence[str], tags: Sequence[str]) -> PhraseTree:
        """A flat tree, marked by its label, for a sentence that the grammar does not derive."""
        return PhraseTree(FALLBACK, tuple(PhraseTree(tag, (), word) for word, tag in zip(words, tags, strict=True)))

    def recall(self, trees: Sequence[PhraseTree]) -> Recall:
        """How much of these trees the coarse pass keeps."""
        kept = total = whole = 0
        for tree in map(collapse_chains, trees):
            pruned = self.coarse.prune(tree.words, self.threshold)
            rows = binary_rows(tree)
            numbers = [(span_number.py_func(s, e), self.coarse.grammar.number.get(a, -1)) for s, e, a in rows]
            found = sum(int(k >= 0 and pruned.allowed[span, k]) for span, k in numbers)
            kept, total, whole = kept + found, total + len(rows), whole + (found == len(rows))
        return Recall(kept, total, whole, len(trees))

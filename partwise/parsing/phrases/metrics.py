"""Labelled brackets by the rules of EVALB with Collins' parameters.

Punctuation (``, : `` '' .``) is taken out of both trees before spans are numbered, TOP and -NONE- are not brackets, and
ADVP and PRT are one label. The gold tags decide which words are punctuation. Parts of speech are not brackets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from partwise.exceptions import InputError
from partwise.parsing.phrases.trees import WRAPPERS, PhraseTree

__all__ = ["BracketScores", "bracket_scores"]

PUNCTUATION = frozenset({",", ":", "``", "''", ".", "-NONE-"})
SAME = {"PRT": "ADVP"}


@dataclass(frozen=True)
class BracketScores:
    """Labelled brackets over a corpus: sums of matches, not means over sentences. Percentages."""

    sentences: int
    matched: int
    gold: int
    predicted: int
    complete: int
    tags_right: int
    words: int

    @property
    def recall(self) -> float:
        return 100.0 * self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        return 100.0 * self.matched / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        return 200.0 * self.matched / (self.gold + self.predicted) if self.gold + self.predicted else 0.0

    @property
    def exact(self) -> float:
        """Percentage of sentences whose brackets are all correct."""
        return 100.0 * self.complete / self.sentences if self.sentences else 0.0

    @property
    def tagging(self) -> float:
        return 100.0 * self.tags_right / self.words if self.words else 0.0

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.2f} (precision {self.precision:.2f}, recall {self.recall:.2f}), complete {self.exact:.2f}, "
            f"tags {self.tagging:.2f}, {self.sentences} sentences"
        )


def _brackets(tree: PhraseTree, counted: list[bool]) -> Counter[tuple[int, int, str]]:
    before = [0]
    for keep in counted:
        before.append(before[-1] + keep)
    return Counter(
        (before[start], before[stop], SAME.get(label, label))
        for start, stop, label in tree.constituents()
        if label not in WRAPPERS and before[start] < before[stop]
    )


def bracket_scores(gold: Sequence[PhraseTree], predicted: Sequence[PhraseTree]) -> BracketScores:
    """Labelled precision and recall of the brackets of predicted trees.

    Examples
    --------
    >>> from partwise.parsing.phrases.trees import parse_trees
    >>> gold = "(S (NP (PRP she)) (VP (VBD slept) (ADVP (RB well))) (. .))"
    >>> guess = "(S (NP (PRP she)) (VP (VBD slept) (PRT (RP well)) (. .)))"
    >>> bracket_scores(list(parse_trees([gold])), list(parse_trees([guess]))).f1
    100.0
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(predicted)} predicted trees for {len(gold)} gold trees")
    matched = wanted = found = complete = right = words = 0
    for i, (true, guess) in enumerate(zip(gold, predicted, strict=True)):
        if true.words != guess.words:
            raise InputError(f"{true.source or f'tree {i}'}: the predicted tree has different words")
        counted = [tag not in PUNCTUATION for tag in true.tags]
        a, b = _brackets(true, counted), _brackets(guess, counted)
        common = (a & b).total()
        matched, wanted, found = matched + common, wanted + a.total(), found + b.total()
        complete += common == a.total() == b.total()
        pairs = [(t, g) for t, g, keep in zip(true.tags, guess.tags, counted, strict=True) if keep]
        right, words = right + sum(t == g for t, g in pairs), words + len(pairs)
    return BracketScores(len(gold), matched, wanted, found, complete, right, words)

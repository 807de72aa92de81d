"""The coarse pass: pruning of a sentence's spans with a plain grammar, before a finer one is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.parsing.phrases._pcfg_kernels import posteriors
from partwise.parsing.phrases.lexicon import Lexicon
from partwise.parsing.phrases.treebank import TreebankGrammar

__all__ = ["CoarsePass", "Pruned"]


class Pruned(NamedTuple):
    """What is left of one sentence."""

    allowed: NDArray[np.uint8]  # (spans, coarse symbols)
    tags: NDArray[np.int64]  # (n,) the most probable part of speech of each word
    derived: bool  # whether the coarse grammar derives the words at all


class CoarsePass:
    """Keeps (span, symbol) where p(symbol over span | words) ≥ threshold under a probabilistic grammar.

    Parameters
    ----------
    grammar : TreebankGrammar
    lexicon : Lexicon
    """

    def __init__(self, grammar: TreebankGrammar, lexicon: Lexicon) -> None:
        self.grammar, self.lexicon, self.pack = grammar, lexicon, grammar.pcfg()

    def tag_weights(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """(offsets, tags, weights) of the parts of speech that each word may have."""
        found = [self.lexicon.weights(word, t == 0) for t, word in enumerate(words)]
        offsets = np.append(0, np.cumsum([len(tags) for tags, _ in found])).astype(np.int64)
        tags = np.array([tag for row, _ in found for tag in row], np.int32)
        return offsets, tags, np.array([weight for _, row in found for weight in row], float)

    def prune(self, words: Sequence[str], threshold: float) -> Pruned:
        """The coarse pass over one sentence."""
        n, (offsets, tags, weights) = len(words), self.tag_weights(words)
        allowed = np.zeros((n * (n + 1) // 2, len(self.grammar.symbols)), np.uint8)
        best = tags[offsets[:-1]].astype(np.int64)
        for t in range(n):
            best[t] = tags[offsets[t] + int(np.argmax(weights[offsets[t] : offsets[t + 1]]))]
        value = posteriors(self.pack, n, offsets, tags, weights, threshold, allowed, best)
        return Pruned(allowed, best, bool(value > -np.inf))

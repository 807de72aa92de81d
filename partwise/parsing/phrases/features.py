"""Features of phrases: what is known of the words, as hashes, and the table of weights."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import ParameterError
from partwise.features.base import Features
from partwise.parsing.phrases import _phrase_kernels as kernels
from partwise.parsing.phrases.binary import Symbol, coarse_symbol
from partwise.parsing.phrases.lexicon import word_classes
from partwise.structures.grammar import Grammar

__all__ = ["PhraseFeatures", "word_hashes"]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") | 1


def word_hashes(words: Sequence[str], tags: Sequence[str], known: Any) -> NDArray[np.uint64]:
    """(n, 4) hashes of form, part of speech, ending and shape; a form that is not ``known`` is its class."""
    rows = []
    for t, (word, tag) in enumerate(zip(words, tags, strict=True)):
        classes = word_classes(word, t == 0)
        form = word if word in known else "\0" + classes[2]
        rows.append([_hash("w" + form), _hash("t" + tag), _hash("s" + word.lower()[-3:]), _hash("c" + classes[0])])
    return np.array(rows, np.uint64).reshape(-1, kernels.N_ATTRIBUTES)


class PhraseFeatures(Features):
    """s of the constituents and anchored rules of all sentences, from a table of 2^bits weights.

    Parameters
    ----------
    space : Grammar
    words : sequence of (n, 4) arrays
        As :func:`word_hashes` makes them.
    symbols : sequence of Symbol
        Those of the grammar.
    bits : int
    """

    precision = np.float32

    def __init__(self, space: Grammar, words: Sequence[Any], symbols: Sequence[Symbol], *, bits: int = 22) -> None:
        if not 4 <= bits <= 30:
            raise ParameterError("bits", "PhraseFeatures", "in 4..30", bits)
        self.bits = bits
        names = [(str(coarse_symbol(s)) + s.kind, str(s) + s.kind) for s in symbols]
        self._pack = kernels.PhrasePack(
            space.pack,
            np.append(0, np.cumsum(space.lengths)).astype(np.int64),
            np.concatenate([np.zeros((0, kernels.N_ATTRIBUTES), np.uint64), *words]),
            np.array([_hash("fine" + fine) for _, fine in names], np.uint64),
            np.array([_hash("coarse" + coarse) for coarse, _ in names], np.uint64),
            kernels.NODE_TEMPLATES,
            kernels.EDGE_TEMPLATES,
            kernels.WORD_TEMPLATES,
            bits,
        )

    @property
    def dim(self) -> int:
        return 1 << self.bits

    @property
    def pack(self) -> kernels.PhrasePack:
        return self._pack

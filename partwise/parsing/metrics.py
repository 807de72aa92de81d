"""Attachment scores by the rules of the CoNLL-2018 shared task: UAS, LAS, CLAS, with and without punctuation."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.parsing.conllu import DEPREL, FORM, HEAD, DependencySentence

__all__ = ["AttachmentScores", "attachment_scores", "is_punctuation"]

#: Relations of content words: CLAS counts no others.
CONTENT = frozenset({
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse", "dislocated",
    "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis",
    "reparandum", "root", "vocative", "xcomp",
})  # fmt: skip


@dataclass(frozen=True)
class AttachmentScores:
    """Percentages of words with the right head (UAS), and with the right head and relation.

    ``las`` compares whole relations; ``las_universal`` and ``clas``, as CoNLL-2018 does, what stands before the colon.
    CLAS is an F1 over words whose relation is one of content words: in the gold trees for recall, in the others for
    precision. ``complete`` is the percentage of sentences without an error of head or relation.
    """

    words: int
    sentences: int
    uas: float
    las: float
    las_universal: float
    clas: float
    complete: float
    word_uas: NDArray[np.float64]  # (sentences,) right heads per sentence, for resampling
    word_las: NDArray[np.float64]
    sizes: NDArray[np.int64]

    def __str__(self) -> str:
        return f"UAS {self.uas:.2f}  LAS {self.las:.2f}  CLAS {self.clas:.2f}  ({self.words} words)"


def is_punctuation(form: str) -> bool:
    """Whether every character is punctuation in Unicode's sense, the rule of CoNLL-X and CoNLL-2007.

    Examples
    --------
    >>> is_punctuation("..."), is_punctuation("$")
    (True, False)
    """
    return all(unicodedata.category(c).startswith("P") for c in form)


def attachment_scores(
    gold: Sequence[DependencySentence], predicted: Sequence[DependencySentence], *, punctuation: bool = True
) -> AttachmentScores:
    """Compare trees over the same words; without ``punctuation``, punctuation is ignored.

    Examples
    --------
    >>> gold = DependencySentence.of_words("They parse trees".split(), [2, 0, 2], ["nsubj", "root", "obj"])
    >>> print(attachment_scores([gold], [gold.with_tree([2, 0, 2], ["nsubj", "root", "obl"])]))
    UAS 100.00  LAS 66.67  CLAS 66.67  (3 words)
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold sentences but {len(predicted)} predicted ones")
    counts = np.zeros((len(gold), 7), np.int64)  # words, head, +relation, +universal, gold and found content, right
    for i, (right, found) in enumerate(zip(gold, predicted, strict=True)):
        ours, theirs = right.words, found.words
        if [row[FORM] for row in ours] != [row[FORM] for row in theirs]:
            raise InputError(f"sentence {i} ({right.source or 'gold'}): the words of the two files differ")
        for a, b in zip(ours, theirs, strict=True):
            if not punctuation and is_punctuation(a[FORM]):
                continue
            head = a[HEAD] == b[HEAD]
            wanted, given = a[DEPREL].partition(":")[0], b[DEPREL].partition(":")[0]
            universal = head and wanted == given
            counts[i] += (
                1, head, head and a[DEPREL] == b[DEPREL], universal, wanted in CONTENT, given in CONTENT,
                universal and wanted in CONTENT,
            )  # fmt: skip
    words, heads, relations, universal, ours_, theirs_, both = counts.sum(axis=0).tolist()
    if not words:
        raise InputError("no words to compare")
    return AttachmentScores(
        words,
        len(gold),
        100.0 * heads / words,
        100.0 * relations / words,
        100.0 * universal / words,
        200.0 * both / max(ours_ + theirs_, 1),
        100.0 * float((counts[:, 2] == counts[:, 0]).mean()),
        counts[:, 1].astype(float),
        counts[:, 2].astype(float),
        counts[:, 0],
    )
